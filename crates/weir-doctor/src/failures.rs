//! The commands of a script that failed, and which of them ended it.
//!
//! Many commands of a healthy script end with a status above 0: what is asked in a condition, a `grep`
//! without a match, a writer whose reader has left. So a failure is told of only where it matters: of
//! the command that ended the script, of the last one before the script itself failed, and of others that
//! nobody asked.

use crate::ending::{Ending, MemoryKills, Remark, remark};
use crate::graph::{SeenProcess, above, is_below};
use crate::programs::{Fact, is, is_shell, program_name, starts_anything};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// Signals that the kernel sends to a program that did something wrong: SIGILL, SIGTRAP, SIGABRT,
/// SIGBUS, SIGFPE, SIGSEGV, SIGXCPU, SIGXFSZ, SIGSYS.
const CRASHES: [i32; 9] = [4, 5, 6, 7, 8, 11, 24, 25, 31];

/// The part that a failed command had in the end of its script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
pub enum Role {
    /// `set -e` ended the script because of it.
    #[strum(serialize = "ended the script")]
    Ended,
    /// It was the last command before the script ended with a status above 0.
    #[strum(serialize = "last")]
    Last,
    /// The script continued.
    #[default]
    #[strum(serialize = "other")]
    Other,
}

/// A process that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its position among the processes seen.
    pub process: usize,
    /// How it ended.
    pub ending: Ending,
    /// What followed.
    pub role: Role,
}

/// What is known of a script and of its text.
pub struct ScriptEnd<'a> {
    /// How it ended.
    pub ending: Option<Ending>,
    /// Whether the text for which a process works says `set -e`.
    pub stops: &'a dyn Fn(usize) -> bool,
    /// Whether that text runs something when it ends (`trap`).
    pub cleans_up: &'a dyn Fn(usize) -> bool,
    /// Whether the text asks how a process ends: `if`, `||`.
    pub asks: &'a dyn Fn(usize) -> bool,
}

/// Finds the failures that are worth a word: first the one that ended the script.
pub fn failures(seen: &[SeenProcess], script: &ScriptEnd) -> Vec<Failure> {
    let failed = |at: usize| seen[at].ending.filter(|ending| ending.shell_status() != 0);
    let found: Vec<usize> =
        (0..seen.len()).filter(|at| seen[*at].parent.is_some() && failed(*at).is_some()).collect();
    let culprit = culprit(seen, &found, script);
    let starters: BTreeSet<usize> = found.iter().filter_map(|at| seen[*at].parent).collect();
    let others = found.iter().copied().filter(|at| {
        culprit.is_none_or(|(of, _)| of != *at && !is_below(seen, of, *at))
            && is_news(&seen[*at], starters.contains(at))
            && !(script.asks)(*at)
    });
    let others = others.map(|at| (at, Role::Other));
    let all = culprit.into_iter().chain(others);
    all.filter_map(|(process, role)| Some(Failure { process, ending: failed(process)?, role }))
        .collect()
}

/// Finds the command that ended the script, or the last one before it failed.
fn culprit(seen: &[SeenProcess], found: &[usize], script: &ScriptEnd) -> Option<(usize, Role)> {
    let status = script.ending.map(Ending::shell_status).filter(|status| *status != 0)?;
    let own = |at: &usize| seen[*at].ending.map(Ending::shell_status);
    let runs = |at: &usize| !seen[*at].waits && is_of_script(seen, *at);
    let last_ns = (0..seen.len()).filter(runs).map(|at| seen[at].start_ns).max()?;
    let is_last = |at: &usize| seen[*at].end_ns >= last_ns;
    let latest = |among: &dyn Fn(&usize) -> bool| {
        let fit = found.iter().copied().filter(|at| runs(at) && among(at));
        fit.max_by_key(|at| seen[*at].end_ns)
    };
    let ends = |at: &usize| {
        own(at) == Some(status)
            && (script.stops)(*at)
            && !(script.asks)(*at)
            && (is_last(at) || (script.cleans_up)(*at))
    };
    let same = |at: &usize| own(at) == Some(status) && is_last(at);
    let ended = latest(&ends).map(|at| (at, Role::Ended));
    let last = || latest(&same).or_else(|| latest(&is_last)).map(|at| (at, Role::Last));
    ended.or_else(last)
}

/// Whether nothing but shells, and the first process, stand above a process.
fn is_of_script(seen: &[SeenProcess], at: usize) -> bool {
    seen[at].parent.is_some()
        && above(seen, at).all(|at| {
            let of = &seen[at];
            of.parent.is_none() || of.waits || is_shell(&of.program) || starts_anything(&of.program)
        })
}

/// Whether a failure is neither an answer, nor the end of a pipeline, nor the echo of one below it.
fn is_news(process: &SeenProcess, echoes: bool) -> bool {
    let Some(ending) = process.ending else { return false };
    // Of one too brief to be looked at no more than its program is known.
    let label = if process.known { process.executed.as_str() } else { process.program.as_str() };
    // `sh -c tput` asks as `tput` does.
    let text = label.split_once(" -c ").filter(|_| is_shell(&process.program));
    let asked = [Some(label), text.map(|(_, text)| text)]
        .into_iter()
        .flatten()
        .any(|label| program_name(label).is_some_and(|name| is(name, Fact::AsksHost)));
    let answers = match remark(label, Some(ending), false, MemoryKills::default()) {
        None => true,
        Some(found) => matches!(found, Remark::Answered(_)),
    };
    // Its reader left, or somebody who did not need it any more has ended it.
    let meant = matches!(ending, Ending::Signal(signal) if !CRASHES.contains(&signal));
    !(process.waits || echoes || asked || answers || meant)
}

/// Whether a text of a shell says that the first failure ends it: `set -e`, `set -euo pipefail`, or the
/// same on its first line.
pub fn stops_at_failures(text: &str) -> bool {
    let options = |words: &mut dyn Iterator<Item = &str>| {
        let mut named = false;
        words.take_while(|word| !word.starts_with('#') && *word != "--").any(|word| {
            let is_name = core::mem::replace(&mut named, false);
            let flags = word.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
            named = flags.is_some_and(|flags| flags.ends_with('o'));
            flags.is_some_and(|flags| flags.contains('e')) || is_name && word == "errexit"
        })
    };
    let first = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    if first.is_some_and(|line| options(&mut line.split_whitespace().skip(1))) {
        return true;
    }
    text.lines().flat_map(|line| line.split([';', '&', '{'])).any(|command| {
        let mut words = command.split_whitespace();
        words.next() == Some("set") && options(&mut words)
    })
}

/// Whether a line of a text asks how its commands end.
pub fn asks(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    matches!(first, "if" | "elif" | "while" | "until" | "!")
        || ["||", "&&", "if ", "while ", "until "].iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests;
