//! The line of a script that started a pipeline, by the words of its commands.

use alloc::string::String;
use alloc::vec::Vec;

/// A piece of a command as it stands in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A text that stands for itself.
    Text(String),
    /// A text that only the shell knew: a variable, a pattern, the output of a command.
    Any,
}

/// A command as it stands in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptCommand {
    /// A simple command; its words are joined by single blanks.
    Simple(Vec<Piece>),
    /// A loop, a subshell or the like: whatever it starts.
    Compound,
}

/// A pipeline of a script, or a single command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPipeline {
    /// The line on which it begins.
    pub line: usize,
    /// Its commands.
    pub commands: Vec<ScriptCommand>,
}

/// Finds the pipeline of a script that these executed commands are, or are the visible part of.
/// `None` unless exactly one fits best: a line that may be wrong is not told.
pub fn line_of(script: &[ScriptPipeline], executed: &[&str]) -> Option<usize> {
    let fitting = |whole: bool| {
        let mut fits = script.iter().enumerate().filter(move |(_, pipeline)| {
            let complete = pipeline.commands.len() == executed.len();
            (complete || !whole) && fits(&pipeline.commands, executed)
        });
        let first = fits.next();
        (first, fits.next().is_some())
    };
    match fitting(true) {
        (Some((at, _)), false) => Some(at),
        (Some(_), true) => None,
        (None, _) => match fitting(false) {
            (Some((at, _)), false) => Some(at),
            _ => None,
        },
    }
}

/// Returns the place of an executed command in a pipeline; the last one where it is not there.
pub(super) fn place_of(pipeline: &ScriptPipeline, executed: &str) -> usize {
    let is_it = |command: &ScriptCommand| fits(core::slice::from_ref(command), &[executed]);
    pipeline.commands.iter().position(is_it).unwrap_or(usize::MAX)
}

/// Whether the executed commands are those of the pipeline, some of which may not have been seen.
fn fits(commands: &[ScriptCommand], executed: &[&str]) -> bool {
    let mut commands = commands.iter();
    executed.iter().all(|executed| {
        commands.any(|command| match command {
            ScriptCommand::Simple(pieces) => is_command(pieces, executed),
            ScriptCommand::Compound => false,
        })
    })
}

/// Whether a command may have been executed as this text. A script is executed as its interpreter
/// with the script behind it.
fn is_command(pieces: &[Piece], executed: &str) -> bool {
    // A command that only the shell knew fits anything.
    let Some(Piece::Text(_)) = pieces.first() else { return false };
    let behind = executed.split_once(' ').map(|(_, behind)| behind);
    let base = executed.split(' ').next().and_then(|first| first.rsplit_once('/'));
    let named = base.map(|(directory, _)| &executed[directory.len() + 1..]);
    [Some(executed), behind, named].into_iter().flatten().any(|text| matches(pieces, text))
}

fn matches(pieces: &[Piece], text: &str) -> bool {
    match pieces {
        [] => text.is_empty(),
        [Piece::Text(literal)] => text == literal,
        [Piece::Text(literal), rest @ ..] => {
            text.strip_prefix(literal.as_str()).is_some_and(|left| anywhere(rest, left))
        }
        [Piece::Any, ..] => anywhere(pieces, text),
    }
}

/// Whether the pieces fit, the first of which is [`Piece::Any`]. The earliest place is taken for
/// each literal but the last, which must end the text: no other choice could fit better.
fn anywhere(pieces: &[Piece], mut text: &str) -> bool {
    let literals: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Text(literal) => Some(literal.as_str()),
            Piece::Any => None,
        })
        .collect();
    let ends_open = matches!(pieces.last(), Some(Piece::Any) | None);
    let (last, inner) = match literals.split_last() {
        Some((last, inner)) if !ends_open => (Some(last), inner),
        _ => (None, literals.as_slice()),
    };
    for literal in inner {
        // A blank before or behind an expansion that was empty may be missing.
        let found = text.find(literal).map(|at| at + literal.len());
        let trimmed = || {
            let literal = literal.trim_start();
            text.find(literal).map(|at| at + literal.len())
        };
        let Some(at) = found.or_else(trimmed) else { return false };
        text = &text[at..];
    }
    last.is_none_or(|last| text.ends_with(last))
}
