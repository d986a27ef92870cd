//! The places of a script that may run commands which stand nowhere in it as such: texts that are
//! run (`eval`, `trap`, `sh -c`, backquotes), files that are read (`.`), aliases, functions, and
//! what the scanner gave up on.

use crate::shell::token::is_name;
use weir_doctor::graph::{Piece, ScriptCommand};
use weir_doctor::programs::is_posix_shell;

/// Words of the shell that run the command behind them.
pub(super) const RUNNING_WORDS: [&str; 4] = ["builtin", "command", "exec", "coproc"];

/// Words behind which a command begins.
const BEFORE_COMMANDS: [&str; 16] = [
    "{", "(", "!", "|", "&", "if", "then", "elif", "else", "do", "while", "until", "&&", "||",
    "time", "coproc",
];

/// Returns what a simple command may run if it runs a text or a file.
pub(super) fn command(words: &[Vec<Piece>]) -> Option<ScriptCommand> {
    let mut rest = words;
    while rest
        .first()
        .and_then(|word| literal(word))
        .is_some_and(|word| RUNNING_WORDS.contains(&word))
    {
        rest = &rest[1..];
    }
    let known = |word: &Vec<Piece>| word.iter().all(|piece| matches!(piece, Piece::Text(_)));
    match literal(rest.first()?).unwrap_or_default() {
        "." | "source" => Some(ScriptCommand::Hidden),
        "alias" if rest.len() > 1 => Some(ScriptCommand::Hidden),
        "eval" if !rest.iter().all(known) => Some(ScriptCommand::Hidden),
        "eval" => Some(run(&rest[1..].iter().map(|word| text(word)).collect::<Vec<_>>().join(" "))),
        "trap" => rest.iter().skip(1).find(|word| !is_option(word)).map(|word| run(&text(word))),
        _ => given_to_shell(rest),
    }
}

/// Returns the text of `sh -c TEXT`, whatever runs that shell: the shell may become its last
/// command.
fn given_to_shell(words: &[Vec<Piece>]) -> Option<ScriptCommand> {
    let is_shell = |word: &Vec<Piece>| {
        literal(word).is_some_and(|word| is_posix_shell(word.rsplit('/').next().unwrap_or(word)))
    };
    let shell = words.iter().position(is_shell)?;
    let mut behind = words[shell + 1..].iter();
    let has_text = |word: &Vec<Piece>| {
        let word = literal(word).unwrap_or_default();
        word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
    };
    behind.find(|word| has_text(word))?;
    behind.next().map(|word| run(&text(word)))
}

fn run(text: &str) -> ScriptCommand {
    match hides(text) {
        true => ScriptCommand::Hidden,
        false => ScriptCommand::Unread(text.to_owned()),
    }
}

/// Returns what runs if a part of the script is run that was not read. In the body of a
/// here-document only substitutions are run.
pub(super) fn skipped(part: &str) -> ScriptCommand {
    let (line, body) = part.split_once('\n').unwrap_or((part, ""));
    let mut text = line.to_owned();
    for line in body.lines().filter(|line| line.contains("$(") || line.contains('`')) {
        text.push('\n');
        text.push_str(line);
    }
    run(&text)
}

/// Returns what stands within backquotes, which the scanner does not read, of each line.
pub(super) fn backquoted(text: &str) -> Vec<(usize, Vec<ScriptCommand>)> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        if line.contains('`') && !line.trim_start().starts_with('#') {
            // The first sign shows that a command begins.
            let inside = line.split('`').skip(1).step_by(2).map(|part| format!("`{part}\n"));
            found.push((at, vec![run(&inside.collect::<String>())]));
        }
        at += line.len();
    }
    found
}

/// Whether a text that is run may run what it does not name.
fn hides(text: &str) -> bool {
    let begins = |before: Option<&str>| {
        before.is_none_or(|word| word.ends_with(';') || BEFORE_COMMANDS.contains(&word))
    };
    let mut before = None;
    for word in text.split_whitespace() {
        let bare = word.trim_start_matches(['(', '{', '`', '"', '\'', ';', '|', '&']);
        let first = begins(before) || bare.len() < word.len();
        let reads = matches!(bare, "." | "source" | "eval" | "alias");
        if (first && reads) || (begins(before) && bare.starts_with('$') && !bare.starts_with("$("))
        {
            return true;
        }
        before = Some(word);
    }
    // A variable where a command begins.
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let front = rest[..at].trim_end_matches(['"', ' ']);
        if front.ends_with([';', '|', '&', '(', '`', '{']) && !rest[at..].starts_with("$(") {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Makes the calls of the script's functions what they are: no programs.
pub(super) fn call_functions(text: &str, found: &mut [(usize, Vec<ScriptCommand>)]) {
    let mut names: Vec<&str> = text.lines().filter_map(function).collect();
    names.sort();
    for command in found.iter_mut().flat_map(|(_, commands)| commands) {
        let ScriptCommand::Simple(pieces) = command else { continue };
        let Some(Piece::Text(first)) = pieces.first() else { continue };
        let word = first.split(' ').next().unwrap_or_default();
        let whole = word.len() < first.len() || pieces.len() == 1;
        if whole && names.binary_search(&word).is_ok() {
            *command = ScriptCommand::Compound;
        }
    }
}

/// The name of a function that a line defines.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let name = match line.strip_prefix("function ") {
        Some(rest) => rest.trim_start().split([' ', '(', '{', '\t']).next()?,
        None => line.split_once('(').filter(|(_, rest)| rest.trim_start().starts_with(')'))?.0,
    };
    let name = name.trim_end();
    let odd = |c: char| !(c.is_alphanumeric() || "_-.:+".contains(c));
    (is_name(name) || (!name.is_empty() && !name.contains(odd))).then_some(name)
}

fn is_option(word: &[Piece]) -> bool {
    literal(word).is_some_and(|word| word.starts_with('-') && word.len() > 1)
}

fn literal(word: &[Piece]) -> Option<&str> {
    match word {
        [Piece::Text(text)] => Some(text),
        _ => None,
    }
}

/// A word as a text, with a `$` for what only the shell knew.
fn text(word: &[Piece]) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Any => String::from("$"),
    };
    word.iter().map(piece).collect()
}
