//! The exit status that a shell would have, and how weir itself ends.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::process::ExitCode;
use weir_command::fault::die;
use weir_doctor::ending::Ending;
use weir_doctor::facts::{Run, Stage};

/// Returns how weir ends after a pipeline: with the status of its last stage, or with `pipefail`
/// that of the rightmost stage that failed. A leading `!` inverts it. If weir was interrupted and a
/// stage died of that, weir dies of it too, so that its caller sees an interrupt.
pub fn status(run: &Run, pipefail: bool, negated: bool) -> Ending {
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
            return Ending::Signal(*signal);
        }
    }
    let mut code = run.ending.map_or(1, Ending::shell_status);
    if pipefail && !run.script {
        let failed =
            run.stages.iter().rev().filter_map(|stage| stage.ending.map(Ending::shell_status));
        code = failed.into_iter().find(|code| *code != 0).unwrap_or(0);
    }
    if negated {
        code = i32::from(code == 0);
    }
    // The user did not ask for the buffer, so a loss in it must not look like success.
    let lost = lossy_buffers(run).next().is_some();
    Ending::Code(if lost { code.max(1) } else { code })
}

/// Returns the positions of buffers that weir put in and that may have lost bytes.
pub fn lossy_buffers(run: &Run) -> impl Iterator<Item = usize> {
    let interrupted =
        |ending: Ending| run.signals.iter().any(|signal| ending == Ending::Signal(*signal));
    let failed = move |stage: &Stage| {
        let ending = stage.ending.filter(|_| stage.inserted && !stage.closed_by_downstream());
        ending.is_some_and(|ending| ending.shell_status() != 0 && !interrupted(ending))
    };
    let stages = run.stages.iter().enumerate();
    stages.filter(move |(_, stage)| failed(stage)).map(|(position, _)| position)
}

/// Returns the code to exit with, or dies of the signal.
pub fn take(status: Ending) -> ExitCode {
    match status {
        Ending::Code(code) => ExitCode::from(code as u8),
        Ending::Signal(signal) => die(signal),
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
        assert_eq!(status(&both, false, false), Ending::Code(0));
        assert_eq!(status(&both, true, false), Ending::Code(141));
        assert_eq!(status(&both, false, true), Ending::Code(1));
        let killed = run(&[Ending::Code(0), Ending::Signal(9)], &[]);
        assert_eq!(status(&killed, false, false), Ending::Code(137));
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
            assert_eq!(status(&killed, false, negated), Ending::Code(1));
        }
        assert_eq!(status(&with(Ending::Code(1), &[]), false, false), Ending::Code(1));
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
        assert_eq!(status(&handled, false, false), Ending::Code(0));
        let died = run(&[Ending::Signal(SIGINT), Ending::Code(0)], &[SIGINT]);
        assert_eq!(status(&died, false, false), Ending::Signal(SIGINT));
        let told = run(&[Ending::Code(0)], &[SIGTERM]);
        assert_eq!(status(&told, false, false), Ending::Signal(SIGTERM));
    }
}
