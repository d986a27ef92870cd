//! The line of a script that started a pipeline, by the words of its commands.

use crate::programs::{Fact, is, is_posix_shell};
use alloc::string::String;
use alloc::vec::Vec;

/// A piece of a command as it is in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A text that stands for itself.
    Text(String),
    /// A text that only the shell knew: a variable, a pattern, the output of a command.
    Any,
}

/// A command as it is in a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptCommand {
    /// A simple command; its words are joined by single blanks.
    Simple(Vec<Piece>),
    /// A loop, a subshell, a function or the like: whatever it starts.
    Compound,
    /// What the shell does itself: no program is executed.
    Builtin,
    /// A text that may be run, or that was not read: whatever is named in it.
    Unread(String),
    /// Whatever: the script does not show it (`source`, `eval "$x"`).
    Hidden,
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
/// `None` unless exactly one fits best, and no other could have executed them: a line that may be
/// wrong is not told. `partial` says that some commands of the pipeline may not have been seen.
pub fn line_of(script: &[ScriptPipeline], executed: &[&str], partial: bool) -> Option<usize> {
    let fits = |pipeline: &ScriptPipeline| fits(&pipeline.commands, executed, is_command);
    let whole = |pipeline: &ScriptPipeline| pipeline.programs() == executed.len();
    let one = |whole_only: bool| {
        let mut found = script
            .iter()
            .enumerate()
            .filter(|(_, pipeline)| (!whole_only || whole(pipeline)) && fits(pipeline));
        let first = found.next();
        (first.map(|(at, _)| at), found.next().is_some())
    };
    let found = match one(!partial) {
        (None, _) => one(false),
        found => found,
    };
    let (Some(at), false) = found else { return None };
    let others = || script.iter().enumerate().filter(move |(other, _)| *other != at);
    let rival = |pipeline: &ScriptPipeline| !fits(pipeline) && may_be(pipeline, executed);
    let composed = others().any(|(_, pipeline)| pipeline.composes()) && executed.len() > 1;
    let elsewhere =
        |text: &&str| others().any(|(_, other)| other.commands.iter().any(|it| may_run(it, text)));
    let sure = !others().any(|(_, pipeline)| rival(pipeline));
    (sure && !(composed && executed.iter().all(elsewhere))).then_some(at)
}

/// Whether these executed commands may be those, or a part of those, of several pipelines of a script.
pub(super) fn fits_several(script: &[ScriptPipeline], executed: &[&str]) -> bool {
    let fits = |pipeline: &&ScriptPipeline| fits(&pipeline.commands, executed, is_command);
    script.iter().filter(fits).count() > 1
}

impl ScriptPipeline {
    /// Whether it may have executed whatever was seen: no command of its script has a line then.
    pub fn may_be_any(&self) -> bool {
        match self.commands.as_slice() {
            [ScriptCommand::Hidden] => true,
            // `"$@"` may be an eval.
            [ScriptCommand::Simple(pieces)] => is_unknown(pieces),
            _ => false,
        }
    }

    /// Returns how many of its commands are programs: these are seen.
    fn programs(&self) -> usize {
        let is_program = |command: &&ScriptCommand| matches!(command, ScriptCommand::Simple(_));
        self.commands.iter().filter(is_program).count()
    }

    /// Whether it makes a pipeline of what stands elsewhere: `f | wc`, where `f` is a function of
    /// `a | b`.
    fn composes(&self) -> bool {
        let inner = |command: &ScriptCommand| match command {
            ScriptCommand::Compound => true,
            ScriptCommand::Simple(pieces) => is_unknown(pieces),
            _ => false,
        };
        self.commands.len() > 1 && self.commands.iter().any(inner)
    }
}

/// Whether a pipeline that does not fit may yet have executed these commands, or a part of it has.
fn may_be(pipeline: &ScriptPipeline, executed: &[&str]) -> bool {
    match pipeline.commands.as_slice() {
        _ if pipeline.may_be_any() => true,
        [command @ ScriptCommand::Unread(_)] => executed.iter().all(|text| may_run(command, text)),
        commands => fits(commands, executed, may_execute),
    }
}

/// Whether a command may have executed this one, perhaps through another program.
fn may_run(command: &ScriptCommand, executed: &str) -> bool {
    match command {
        ScriptCommand::Simple(pieces) => may_execute(pieces, executed),
        ScriptCommand::Unread(text) => text.contains(program(executed)),
        ScriptCommand::Hidden => true,
        ScriptCommand::Compound | ScriptCommand::Builtin => false,
    }
}

/// Returns the name of the program of an executed command, without its directory.
fn program(executed: &str) -> &str {
    let first = executed.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

/// Whether nothing of a command is known.
fn is_unknown(pieces: &[Piece]) -> bool {
    let blank = |piece: &Piece| matches!(piece, Piece::Text(text) if !text.trim().is_empty());
    !pieces.iter().any(blank)
}

/// Whether a simple command may have executed this text: itself, or through a program that becomes
/// another one, whichever that is. So each of its words may begin it.
fn may_execute(pieces: &[Piece], executed: &str) -> bool {
    if is_unknown(pieces) || is_command(pieces, executed) {
        return true;
    }
    // What only the shell knew may be a word, a part of one, several or none.
    let open =
        |pieces: &[Piece]| is_unknown(pieces) || matches(pieces, &alloc::format!(" {executed}"));
    let starts_open = matches!(pieces.first(), Some(Piece::Any)).then_some(pieces);
    if starts_open.or_else(|| behind_runner(pieces)).is_some_and(open) {
        return true;
    }
    let names = [program(executed), interpreted(executed).map_or("", program)];
    let from = |at: usize, rest: &str| {
        // Most words are told apart by a look.
        let cut = at + 1 < pieces.len() && !rest.contains(' ');
        if rest.is_empty() || !(cut || names.contains(&program(rest))) {
            return false;
        }
        let mut left = Vec::from([Piece::Text(String::from(rest))]);
        left.extend_from_slice(&pieces[at + 1..]);
        is_command(&left, executed)
    };
    pieces.iter().enumerate().any(|(at, piece)| {
        let Piece::Text(text) = piece else { return false };
        let mut words = text.match_indices(' ').map(|(blank, _)| &text[blank + 1..]);
        words.any(|rest| from(at, rest))
    })
}

/// Returns what a command runs that runs another, where only the shell knew that one.
fn behind_runner(pieces: &[Piece]) -> Option<&[Piece]> {
    let Some(Piece::Text(text)) = pieces.first() else { return None };
    // The first that only the shell knew is the command if nothing but options is before it.
    let ends = pieces.len() > 1 && text.ends_with(' ');
    let is_option = |word: &str| {
        word.starts_with(['-', '+']) || word.contains('=') || word.starts_with(char::is_numeric)
    };
    let runs = |word: &str| is(program(word), Fact::BecomesNext);
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let first = words.next().is_some_and(runs);
    (ends && first && words.all(|word| is_option(word) || runs(word))).then(|| &pieces[1..])
}

/// Finds the pipeline of a script that has the only command of a program, and the words of that command
/// where all of them are known. `None` where another one may start the program too.
pub fn only_of<'s>(script: &'s [ScriptPipeline], name: &str) -> Option<(usize, Option<&'s str>)> {
    let names = |text: &str| text.split(' ').any(|word| program(word) == name);
    let may_start = |command: &ScriptCommand| match command {
        ScriptCommand::Simple(pieces) => pieces.iter().enumerate().any(|(at, piece)| match piece {
            Piece::Text(text) => names(text),
            Piece::Any => at == 0,
        }),
        ScriptCommand::Unread(text) => text.contains(name),
        ScriptCommand::Hidden => true,
        ScriptCommand::Compound | ScriptCommand::Builtin => false,
    };
    let may = |pipeline: &&ScriptPipeline| pipeline.commands.iter().any(may_start);
    let first = script.iter().position(|pipeline| may(&pipeline))?;
    let is_only = script.iter().filter(may).count() == 1;
    let mut commands = script[first].commands.iter().filter(|command| may_start(command));
    let (Some(ScriptCommand::Simple(pieces)), None) = (commands.next(), commands.next()) else {
        return None;
    };
    let Some(Piece::Text(text)) = pieces.first() else { return None };
    let words = (pieces.len() == 1).then_some(text.as_str());
    (is_only && program(text) == name).then_some((first, words))
}

/// Returns the place of an executed command in a pipeline; the last one where it is not there.
pub(super) fn place_of(pipeline: &ScriptPipeline, executed: &str) -> usize {
    let is_it =
        |command: &ScriptCommand| fits(core::slice::from_ref(command), &[executed], is_command);
    pipeline.commands.iter().position(is_it).unwrap_or(usize::MAX)
}

/// Whether the executed commands are those of the pipeline, some of which may not have been seen.
fn fits(
    commands: &[ScriptCommand],
    executed: &[&str],
    fits_one: fn(&[Piece], &str) -> bool,
) -> bool {
    let mut commands = commands.iter();
    executed.iter().all(|executed| {
        commands.any(|command| match command {
            ScriptCommand::Simple(pieces) => fits_one(pieces, executed),
            _ => false,
        })
    })
}

/// Whether a command may have been executed as this text. A script is executed as its interpreter
/// with the script behind it.
fn is_command(pieces: &[Piece], executed: &str) -> bool {
    // A command that only the shell knew fits anything, and so nothing for sure.
    let Some(Piece::Text(_)) = pieces.first() else { return false };
    let behind = interpreted(executed);
    let base = executed.split(' ').next().and_then(|first| first.rsplit_once('/'));
    let named = base.map(|(directory, _)| &executed[directory.len() + 1..]);
    [Some(executed), behind, named].into_iter().flatten().any(|text| matches(pieces, text))
}

/// Returns what was executed if the first word is an interpreter. The kernel hands it the path of the
/// script, and what a shell finds has a directory: `sort data` is none of a script `data`.
fn interpreted(executed: &str) -> Option<&str> {
    let (first, behind) = executed.split_once(' ')?;
    let script = behind.split(' ').next().unwrap_or_default();
    (script.contains('/') || is_posix_shell(program(first))).then_some(behind)
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
