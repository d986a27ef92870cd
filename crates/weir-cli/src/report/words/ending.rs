//! Sentences on how stages ended, where that needs saying.

use weir_command::units::words::stage;
use weir_doctor::ending::{OutOfMemory, Remark, StatusMeaning};

/// A stage and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// The position of the stage. `None`: a script that ran as a whole.
    pub position: Option<usize>,
    /// The text of the stage, as typed.
    pub label: &'a str,
    /// Whether no stage comes after it.
    pub last: bool,
    /// The status, the signal, or why the stage was not started.
    pub how: &'a str,
}

/// Returns the sentence on an end. Stages that one signal interrupted have the same sentence, so that it
/// can be written once.
pub fn remark(ended: &Ended, remark: Remark) -> String {
    let name = ended.position.map_or_else(|| ended.label.into(), |at| stage(at, ended.label));
    let how = ended.how;
    match remark {
        Remark::NotStarted => format!("{name} was not started: {how}"),
        Remark::Interrupted => format!("interrupted by {how}: the figures end there"),
        Remark::Killed(cause) => {
            let cut_short = match ended.last {
                true => "its output is incomplete",
                false => "the stages after it had incomplete input",
            };
            format!("{name} was killed by {how}{}: {cut_short}", memory(cause))
        }
        Remark::KilledInside(cause) => {
            format!("{name} failed with status {how}, which stands for SIGKILL{}", memory(cause))
        }
        Remark::Answered(answer) => {
            let meaning = match answer {
                StatusMeaning::NoMatch => "nothing matched",
                StatusMeaning::Different => "there were differences",
                StatusMeaning::False => "the condition is false",
                StatusMeaning::Empty => "the result is empty or 0",
                StatusMeaning::TimeOver => "the time limit was reached",
            };
            format!("{name} ended with status {how}: {meaning}")
        }
        Remark::NotExecutable => {
            format!("{name} failed with status {how}: a command in it could not be executed")
        }
        Remark::NotFound => {
            format!("{name} failed with status {how}: a command in it was not found")
        }
        Remark::Failed if ended.last => format!("{name} failed with status {how}"),
        Remark::Failed => format!(
            "{name} failed with status {how}: the stages after it may have had incomplete input"
        ),
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
