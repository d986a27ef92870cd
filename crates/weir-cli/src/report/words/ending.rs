//! Sentences on how stages ended, where that needs saying.

use super::LONGEST;
use super::lines::line;
use weir_command::units::signal_name;
use weir_command::units::words::stage;
use weir_command::widths::cut;
use weir_doctor::ending::{Ending, OutOfMemory, Remark, StatusMeaning};
use weir_doctor::ends::EndRemark;
use weir_doctor::facts::FailedCommand;
use weir_doctor::failures::Role;

/// Returns the sentence on an end. Stages that one signal interrupted have the same sentence, so that it
/// can be written once.
///
/// `label`: the text of the stage, as typed. `how`: the status, the signal, or why it was not started.
pub fn remark(end: &EndRemark, label: &str, how: &str) -> String {
    let name = end.stage.map_or_else(|| label.into(), |at| stage(at, label));
    match end.remark {
        Remark::NotStarted => format!("{name} was not started: {how}"),
        Remark::Interrupted => format!("interrupted by {how}: the figures end there"),
        Remark::Killed(cause) => {
            let cut_short = match end.is_last {
                true => "its output is incomplete",
                false => "the stages after it had incomplete input",
            };
            format!("{name} was killed by {how}{}: {cut_short}", memory(cause))
        }
        Remark::KilledInside(cause) => {
            format!("{name} failed with status {how}, which means SIGKILL{}", memory(cause))
        }
        Remark::Answered(answer) => {
            format!("{name} ended with status {how}: {}", answered(answer))
        }
        Remark::NotExecutable => {
            format!("{name} failed with status {how}: a command in it could not be executed")
        }
        Remark::NotFound => {
            format!("{name} failed with status {how}: a command in it was not found")
        }
        Remark::CutOff => format!(
            "status 141: {name} was ended by SIGPIPE: the stage after it had what it wanted, which is \
             harmless, and pipefail made it the status"
        ),
        Remark::Failed if end.is_last => format!("{name} failed with status {how}"),
        Remark::Failed => format!(
            "{name} failed with status {how}: the stages after it may have had incomplete input"
        ),
    }
}

/// Returns the sentence on the command that ended a script, or that failed last before the script did.
pub fn failed_last(failed: &FailedCommand) -> String {
    let (command, ending) = (command(failed), failed.ending);
    let stopped = match failed.role {
        Role::Ended => "; set -e ended the script there",
        Role::Last | Role::Other => "",
    };
    match (&failed.reader, ending.is_broken_pipe()) {
        (Some(reader), true) => format!(
            "status 141: {command} was ended by SIGPIPE: {} had what it wanted, which is harmless, and \
             pipefail made it the status{stopped}",
            cut(reader, LONGEST)
        ),
        (None, true) => {
            format!("status 141: {command} was ended by SIGPIPE: its reader had left{stopped}")
        }
        _ => {
            let meaning = failed.answer.map(|answer| format!(" ({})", answered(answer)));
            let meaning = meaning.unwrap_or_default();
            let last = if failed.role == Role::Ended { "" } else { "its last command: " };
            format!("{last}{command} {}{meaning}{stopped}", ended(ending))
        }
    }
}

/// Returns a note on commands that failed and after which the script continued.
pub fn failed_others(all: &[FailedCommand]) -> Option<String> {
    /// The largest number of them that are named.
    const NAMED: usize = 3;
    let others: Vec<&FailedCommand> =
        all.iter().filter(|failed| failed.role == Role::Other).collect();
    let name = |failed: &&&FailedCommand| {
        let times = match failed.times {
            1 => String::new(),
            n => format!(" ({n} times)"),
        };
        format!("{} {}{times}", command(failed), ended(failed.ending))
    };
    let named: Vec<String> = others.iter().take(NAMED).map(|failed| name(&failed)).collect();
    let more = match others.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!("; and {n} more commands failed"),
    };
    (!named.is_empty()).then(|| format!("note: {}{more}", named.join("; ")))
}

/// `line 4 of fail.sh: grep x orders.csv`.
fn command(failed: &FailedCommand) -> String {
    let command = cut(&failed.command, LONGEST);
    match failed.line.as_ref().map(line) {
        Some(line) => format!("{line}: {command}"),
        None => command,
    }
}

/// Returns a status, with the signal that a shell reports by it: `153 (as by SIGXFSZ)`. SIGKILL has words
/// of its own, and 129 is what git says to a wrong option.
pub fn status(code: i32) -> String {
    const LAST_SIGNAL: i32 = 31;
    match code - 128 {
        signal @ 2..=LAST_SIGNAL if signal != 9 => {
            format!("{code} (as by {})", signal_name(signal))
        }
        _ => code.to_string(),
    }
}

fn ended(ending: Ending) -> String {
    match ending {
        Ending::Code(code) => format!("ended with status {}", status(code)),
        Ending::Signal(number) => format!("was killed by {}", signal_name(number)),
    }
}

fn answered(answer: StatusMeaning) -> &'static str {
    match answer {
        StatusMeaning::NoMatch => "nothing matched",
        StatusMeaning::Different => "there were differences",
        StatusMeaning::False => "the condition is false",
        StatusMeaning::Empty => "the result is empty or 0",
        StatusMeaning::TimeOver => "the time limit was reached",
    }
}

fn memory(cause: OutOfMemory) -> String {
    let processes = |n: u64| match n {
        1 => String::from("1 process"),
        n => format!("{n} processes"),
    };
    match cause {
        OutOfMemory::No => String::new(),
        OutOfMemory::Group(n) => format!(
            " (out of memory: the kernel killed {} of this control group during the run)",
            processes(n)
        ),
        OutOfMemory::Host(n) => format!(
            " (perhaps out of memory: the kernel killed {} on this host during the run)",
            processes(n)
        ),
    }
}
