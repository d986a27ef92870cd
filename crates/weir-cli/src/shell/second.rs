//! A second reading of the text, by brush-parser: a cut stands only if both readers agree.
//!
//! brush-parser is asked for what it is good at, the structure. Its places are used only to
//! check ours: the span of an `if` ends at the `if`, that of a simple command leaves out the
//! redirections, and a token after a comment starts where the comment does, so of a `|` only
//! the end can be trusted. Positions there are in characters.

use brush_parser::{ParserOptions, SourceInfo, Token, TokenizerOptions, ast};

use super::span::{Shape, StageSpan};

/// Openings a wrong text may hold and still be shown to brush-parser. Its grammar backtracks,
/// and takes time exponential in the depth of what is never closed (`<(<(<(`).
const MAX_OPENINGS: usize = 8;

/// Digits of a file descriptor that surely fit. brush-parser panics on `99999999999>`, where bash
/// reads a word.
const MAX_DESCRIPTOR_DIGITS: usize = 9;

/// Whether brush-parser accepts a text that our scanner refuses, or cannot be asked.
pub(super) fn accepts(text: &str) -> bool {
    let brackets = text.bytes().filter(|b| matches!(b, b'(' | b'{' | b'[')).count();
    let words = text
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| matches!(*word, "if" | "case" | "for" | "while" | "until" | "select"))
        .count();
    // brush-parser reads a here-document without a name in a `$(...)` at the end of the text
    // forever and takes all memory. So a wrong text with a here-document is left to the shell.
    let has_here_document = text.replace("<<<", "").contains("<<");
    has_here_document || brackets + words <= MAX_OPENINGS && parse(text).is_some()
}

/// Whether brush-parser finds the same stages, of the same shape, cut at the same places.
pub(super) fn agrees(text: &str, negations: usize, stages: &[StageSpan]) -> bool {
    let Some((tokens, commands)) = single_pipeline(text, negations % 2 == 1) else {
        return false;
    };
    commands.len() == stages.len()
        && commands.iter().zip(stages).all(|(command, stage)| *command == stage.shape)
        && cuts_are_pipes(text, &tokens, stages)
}

/// Whether brush-parser reads a cut stage as one command of this shape.
pub(super) fn stands_alone(stage_text: &str, shape: Shape) -> bool {
    single_pipeline(stage_text, false).is_some_and(|(_, commands)| commands == [shape])
}

fn single_pipeline(text: &str, negated: bool) -> Option<(Vec<Token>, Vec<Shape>)> {
    let (tokens, program) = parse(text)?;
    let [ast::CompoundList(items)] = program.complete_commands.as_slice() else {
        return None;
    };
    let [ast::CompoundListItem(and_or, ast::SeparatorOperator::Sequence)] = items.as_slice() else {
        return None;
    };
    let pipeline = &and_or.first;
    if !and_or.additional.is_empty() || pipeline.timed.is_some() || pipeline.bang != negated {
        return None;
    }
    let commands = pipeline.seq.iter().map(shape).collect();
    Some((tokens, commands))
}

fn parse(text: &str) -> Option<(Vec<Token>, ast::Program)> {
    if has_large_descriptor(text) {
        return None;
    }
    // The cached form of this call keeps a global table, of no use to a program that asks once.
    let tokens = brush_parser::uncached_tokenize_str(text, &TokenizerOptions::default()).ok()?;
    let source = SourceInfo::default();
    let program = brush_parser::parse_tokens(&tokens, &ParserOptions::default(), &source).ok()?;
    Some((tokens, program))
}

fn has_large_descriptor(text: &str) -> bool {
    // A continued line may lie between the number and its operator.
    let joined = text.replace("\\\n", "");
    let digits = |at: usize| joined[..at].bytes().rev().take_while(u8::is_ascii_digit).count();
    joined.match_indices(['<', '>']).any(|(at, _)| digits(at) > MAX_DESCRIPTOR_DIGITS)
}

fn shape(command: &ast::Command) -> Shape {
    match command {
        ast::Command::Simple(_) => Shape::Simple,
        ast::Command::Compound(..) | ast::Command::ExtendedTest(..) => Shape::Compound,
        ast::Command::Function(_) => Shape::Function,
    }
}

fn cuts_are_pipes(text: &str, tokens: &[Token], stages: &[StageSpan]) -> bool {
    let mut pipes = tokens.iter().filter_map(|token| match token {
        Token::Operator(op, place) if op == "|" || op == "|&" => Some(place.end.index),
        _ => None,
    });
    let (mut chars, mut bytes) = (0, 0);
    stages.iter().filter_map(|stage| stage.pipe_end).all(|pipe_end| {
        chars += text[bytes..pipe_end].chars().count();
        bytes = pipe_end;
        pipes.any(|end| end == chars)
    })
}
