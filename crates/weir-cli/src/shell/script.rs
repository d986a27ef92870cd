//! Reads the pipelines of a script, each with its line and the words of its commands, to find the
//! line that started what was seen.
//!
//! A text that is to be cut must be read as a whole. A script is read as far as possible: reading
//! skips what the scanner gives up on (a here-document, `[[` with a comment) and continues at the
//! next line. If a line is not found, the report lacks its number and nothing else. What was
//! skipped, and what may hide commands (hidden.rs), is kept as such: a line that another place may
//! have run is not told.

mod hidden;

use super::builtins::is_shell_word;
use super::fault::ScanStop;
use super::scan::Scanner;
use super::span::{PipelineSpan, Shape};
use super::token::{Token, TokenKind, is_name};
use weir_doctor::graph::{Piece, ScriptCommand, ScriptPipeline};

/// Most times that reading is taken up again.
const MOST_STARTS: usize = 10_000;
/// A script of more pipelines than this is not looked up: each found process would be compared with
/// all of them.
const MOST_PIPELINES: usize = 10_000;
/// Most bytes that are searched for the ends of here-documents. A search for an end that is not
/// there reads the whole rest of the script.
const MOST_SEARCHED: usize = 1 << 24;

/// Reads the pipelines of a script, in the order of their lines; single commands count. A script of
/// too many has none.
pub fn pipelines(text: &str) -> Vec<ScriptPipeline> {
    let mut found: Vec<(usize, Vec<ScriptCommand>)> = Vec::new();
    let mut from = 0;
    let mut searched = 0;
    for _ in 0..MOST_STARTS {
        let Some(rest) = text.get(from..).filter(|rest| !rest.is_empty()) else { break };
        let mut scanner = Scanner::new(rest);
        let complete = read(&mut scanner);
        for pipeline in std::mem::take(&mut scanner.pipelines) {
            found.extend(described(rest, from, &pipeline));
        }
        if complete {
            break;
        }
        if found.len() > MOST_PIPELINES || searched > MOST_SEARCHED {
            return Vec::new();
        }
        let next = after(rest, scanner.cursor.pos, &mut searched);
        let read = &rest.as_bytes()[..next.min(scanner.cursor.pos)];
        let begun = read.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        found.push((from + begun, vec![hidden::skipped(&rest[begun..next])]));
        from += next;
    }
    found.extend(hidden::backquoted(text));
    found.sort_by_key(|(at, _)| *at);
    found.dedup();
    hidden::call_functions(text, &mut found);
    if found.len() > MOST_PIPELINES {
        return Vec::new();
    }
    let (mut line, mut counted) = (1, 0);
    let mut with_line = |(start, commands): (usize, Vec<ScriptCommand>)| {
        // Only what lies between two pipelines is counted.
        line += text.get(counted..start).unwrap_or_default().matches('\n').count();
        counted = start;
        ScriptPipeline { line, commands }
    };
    found.into_iter().map(&mut with_line).collect()
}

/// Reads lists up to the end; false where the scanner gave up.
fn read(scanner: &mut Scanner) -> bool {
    let end = scanner.list().and_then(|_| scanner.next());
    matches!(end, Ok(token) if token.kind == TokenKind::End)
}

/// Returns where reading continues: on the line behind a place, or behind a here-document there.
/// Adds the bytes that were searched for its end.
fn after(text: &str, pos: usize, searched: &mut usize) -> usize {
    let next_line = |from: usize| text[from..].find('\n').map_or(text.len(), |at| from + at + 1);
    let pos = (0..=pos.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let line_end = next_line(pos);
    let here = text[pos..].strip_prefix("<<").filter(|rest| !rest.starts_with('<'));
    let Some(rest) = here else { return line_end };
    let word = rest.trim_start_matches('-').trim_start_matches([' ', '\t']);
    let ends = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '<' | '>' | ')');
    let word = word.split(ends).next().unwrap_or_default();
    let delimiter: String = word.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let mut at = line_end;
    for line in text[line_end..].split_inclusive('\n') {
        at += line.len();
        *searched += line.len();
        if line.trim_end_matches('\n').trim_start_matches('\t') == delimiter {
            return at;
        }
    }
    // Not closed, or not a here-document.
    line_end
}

/// Returns where a pipeline starts in the whole text, and its commands.
fn described(
    rest: &str,
    from: usize,
    pipeline: &PipelineSpan,
) -> Option<(usize, Vec<ScriptCommand>)> {
    let start = from + pipeline.stages.first()?.start;
    let commands = pipeline.stages.iter().map(|stage| match stage.shape {
        Shape::Simple => command(rest.get(stage.start..stage.end).unwrap_or_default()),
        _ => ScriptCommand::Compound,
    });
    Some((start, commands.collect()))
}

/// The words of a simple command, without assignments before it and redirections.
fn command(source: &str) -> ScriptCommand {
    let Some(words) = words(source) else { return ScriptCommand::Compound };
    if let Some(hidden) = hidden::command(&words) {
        return hidden;
    }
    if let [Piece::Text(name)] = words[0].as_slice()
        && is_shell_word(name)
        && !hidden::RUNNING_WORDS.contains(&name.as_str())
    {
        return ScriptCommand::Builtin;
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for (at, word) in words.into_iter().enumerate() {
        if at > 0 {
            push(&mut pieces, ' ');
        }
        for piece in word {
            match piece {
                Piece::Text(text) => text.chars().for_each(|c| push(&mut pieces, c)),
                Piece::Any => any(&mut pieces),
            }
        }
    }
    ScriptCommand::Simple(pieces)
}

/// The words, each in pieces; `None` where there are none.
fn words(source: &str) -> Option<Vec<Vec<Piece>>> {
    let mut scanner = Scanner::new(source);
    let mut words: Vec<Vec<Piece>> = Vec::new();
    loop {
        let token = scanner.next().map_err(|_: ScanStop| ()).ok()?;
        match token.kind {
            TokenKind::End => break,
            TokenKind::Op(_) => {
                scanner.next().map_err(|_: ScanStop| ()).ok()?;
            }
            TokenKind::Word if is_number_of_redirection(source, token) => {}
            TokenKind::Word if words.is_empty() && is_assignment(token.text) => {}
            TokenKind::Word => {
                let mut pieces = Vec::new();
                expand(token.text, &mut pieces);
                words.push(pieces);
            }
        }
    }
    (!words.is_empty()).then_some(words)
}

fn is_number_of_redirection(source: &str, word: Token) -> bool {
    let touches = matches!(source.as_bytes().get(word.end()), Some(b'<' | b'>'));
    touches && word.text.bytes().all(|b| b.is_ascii_digit())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(String::from(c))),
    }
}

fn any(pieces: &mut Vec<Piece>) {
    if pieces.last() != Some(&Piece::Any) {
        pieces.push(Piece::Any);
    }
}

/// Takes the quotes off a word; what the shell would expand may be anything.
fn expand(word: &str, pieces: &mut Vec<Piece>) {
    let mut rest = word.chars();
    let (mut double, mut start) = (false, true);
    while let Some(c) = rest.next() {
        match c {
            '\'' if !double => {
                rest.by_ref().take_while(|c| *c != '\'').for_each(|c| push(pieces, c))
            }
            '"' => double = !double,
            '\\' => match rest.next() {
                Some('\n') | None => {}
                Some(c) if double && !matches!(c, '$' | '`' | '"' | '\\') => {
                    push(pieces, '\\');
                    push(pieces, c);
                }
                Some(c) => push(pieces, c),
            },
            '$' => {
                if expands(&mut rest) {
                    any(pieces)
                } else {
                    push(pieces, '$')
                }
            }
            '`' => {
                rest.by_ref().take_while(|c| *c != '`').for_each(drop);
                any(pieces);
            }
            '<' | '>' if !double && rest.as_str().starts_with('(') => {
                rest.next();
                close(&mut rest, '(', ')');
                any(pieces);
            }
            '*' | '?' | '[' if !double => any(pieces),
            '{' if !double && rest.as_str().contains([',', '.']) => {
                close(&mut rest, '{', '}');
                any(pieces);
            }
            '~' if start => any(pieces),
            c => push(pieces, c),
        }
        start = false;
    }
}

/// Skips what a `$` expands; false where it stands for itself.
fn expands(rest: &mut std::str::Chars) -> bool {
    let Some(c) = rest.as_str().chars().next() else { return false };
    match c {
        '(' | '{' => {
            rest.next();
            close(rest, c, if c == '(' { ')' } else { '}' });
        }
        // $'...' and $"..." are quotes, which may hold escapes.
        '\'' | '"' => {
            rest.next();
            rest.take_while(|next| *next != c).for_each(drop);
        }
        c if c == '_' || c.is_ascii_alphabetic() => {
            let name = rest.as_str();
            let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            *rest = name[end.unwrap_or(name.len())..].chars();
        }
        c if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
            rest.next();
        }
        _ => return false,
    }
    true
}

/// Skips to the end of a bracket that is open.
fn close(rest: &mut std::str::Chars, open: char, end: char) {
    let mut depth = 1;
    for c in rest.by_ref() {
        depth += i32::from(c == open) - i32::from(c == end);
        if depth == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
