//! The exit status that a shell would have, and how weir itself ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::process::ExitCode;
use weir_command::fault::die;
use weir_command::status::shell_code;
use weir_doctor::ending::Ending;
use weir_doctor::facts::{Run, Stage};

/// How weir ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Die(i32),
}

/// Returns the status of a pipeline: that of its last stage, or with `pipefail` that of the rightmost
/// stage that failed. A leading `!` inverts it. If weir was interrupted and a stage died of that, weir
/// dies of it too, so that its caller sees an interrupt.
pub fn status(run: &Run, pipefail: bool, negated: bool) -> Status {
    for signal in &run.signals {
        let died = |stage: &Stage| stage.ending == Some(Ending::Signal(*signal));
        let stages_died =
            run.stages.iter().any(died) || run.ending == Some(Ending::Signal(*signal));
        let fatal = match *signal {
            SIGINT | SIGQUIT => stages_died,
            SIGTERM | SIGHUP => true,
            _ => false,
        };
        if fatal {
            return Status::Die(*signal);
        }
    }
    let mut code = run.ending.map_or(1, shell_code);
    if pipefail && !run.script {
        let failed = run.stages.iter().rev().filter_map(|stage| stage.ending.map(shell_code));
        code = failed.into_iter().find(|code| *code != 0).unwrap_or(0);
    }
    if negated {
        code = i32::from(code == 0);
    }
    // The user did not ask for the buffer, so a loss in it must not look like success.
    let lost = lossy_buffers(run).next().is_some();
    Status::Exit(if lost { code.max(1) } else { code })
}

/// Returns the positions of buffers that weir put in and that may have lost bytes.
pub fn lossy_buffers(run: &Run) -> impl Iterator<Item = usize> {
    let interrupted =
        |ending: Ending| run.signals.iter().any(|signal| ending == Ending::Signal(*signal));
    let failed = move |stage: &Stage| {
        let ending = stage.ending.filter(|_| stage.inserted && !stage.closed_by_downstream());
        ending.is_some_and(|ending| shell_code(ending) != 0 && !interrupted(ending))
    };
    let stages = run.stages.iter().enumerate();
    stages.filter(move |(_, stage)| failed(stage)).map(|(position, _)| position)
}

impl Status {
    /// Returns it as a number, as a shell does.
    pub fn shell_status(self) -> i32 {
        match self {
            Status::Exit(code) => code,
            Status::Die(signal) => 128 + signal,
        }
    }

    /// Returns the code to exit with, or dies of the signal.
    pub fn take(self) -> ExitCode {
        match self {
            Status::Exit(code) => ExitCode::from(code as u8),
            Status::Die(signal) => die(signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(endings: &[Ending], signals: &[i32]) -> Run {
        let stage = |ending: &Ending| Stage { ending: Some(*ending), ..Stage::default() };
        Run {
            stages: endings.iter().map(stage).collect(),
            ending: endings.last().copied(),
            signals: signals.to_vec(),
            ..Run::default()
        }
    }

    #[test]
    fn the_last_stage_decides_and_pipefail_asks_the_rightmost_failure() {
        let both = run(&[Ending::Code(3), Ending::Signal(13), Ending::Code(0)], &[]);
        assert_eq!(status(&both, false, false), Status::Exit(0));
        assert_eq!(status(&both, true, false), Status::Exit(141));
        assert_eq!(status(&both, false, true), Status::Exit(1));
        let killed = run(&[Ending::Code(0), Ending::Signal(9)], &[]);
        assert_eq!(status(&killed, false, false), Status::Exit(137));
    }

    #[test]
    fn a_buffer_that_lost_bytes_is_no_success() {
        let with = |ending: Ending, signals: &[i32]| {
            let mut run = run(&[Ending::Code(0), ending, Ending::Code(0)], signals);
            run.stages[1].inserted = true;
            run
        };
        let killed = with(Ending::Signal(9), &[]);
        assert_eq!(lossy_buffers(&killed).collect::<Vec<_>>(), [1]);
        for negated in [false, true] {
            assert_eq!(status(&killed, false, negated), Status::Exit(1));
        }
        assert_eq!(status(&with(Ending::Code(1), &[]), false, false), Status::Exit(1));
        for (ending, signals) in [
            (Ending::Code(0), &[][..]),
            (Ending::Signal(13), &[]),
            (Ending::Signal(SIGQUIT), &[SIGQUIT]),
        ] {
            assert_eq!(lossy_buffers(&with(ending, signals)).count(), 0, "{ending:?}");
        }
    }

    #[test]
    fn weir_dies_of_an_interrupt_only_if_a_stage_did() {
        let handled = run(&[Ending::Code(0)], &[SIGINT]);
        assert_eq!(status(&handled, false, false), Status::Exit(0));
        let died = run(&[Ending::Signal(SIGINT), Ending::Code(0)], &[SIGINT]);
        assert_eq!(status(&died, false, false), Status::Die(SIGINT));
        let told = run(&[Ending::Code(0)], &[SIGTERM]);
        assert_eq!(status(&told, false, false), Status::Die(SIGTERM));
    }
}
