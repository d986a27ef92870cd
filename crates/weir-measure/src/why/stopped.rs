//! Stopped, frozen and throttled processes.

use crate::cgroup;
use crate::proc::{field, status};
use crate::quota;
use weir_doctor::facts::Quota;
use weir_doctor::why::Stop;
use weir_sys::Pid;
use weir_sys::proc::Stat;

/// Returns the signal that stopped the process. The kernel shows it as the status with which the
/// process would have ended, to those who may inspect it; older kernels show 0.
pub fn signal(stat: &Stat) -> Option<i32> {
    let status = stat.exit_status?;
    // Status words as waitpid(2) has them keep the signal in the second byte.
    let signal = if status > 0xff { status >> 8 } else { status };
    (1..=64).contains(&signal).then_some(signal)
}

/// Returns who traces a process.
pub fn debugger(pid: Pid) -> Stop {
    match status(pid, |text| field(text, "TracerPid")?.parse().ok()) {
        Some(tracer) if tracer != 0 => Stop::Debugger(tracer),
        _ => Stop::Signal(None),
    }
}

/// Whether a control group of the process, or one above it, is frozen.
pub fn is_frozen(pid: Pid) -> bool {
    let is = |path: std::path::PathBuf, word: &str| {
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == word)
    };
    let first = cgroup::directories_of(pid, "freezer");
    first.into_iter().any(|directory| {
        is(directory.join("freezer.state"), "FROZEN") || is(directory.join("cgroup.freeze"), "1")
    })
}

/// Returns the CPU quota that throttled a process most so far.
pub fn quota(pid: Pid) -> Option<Quota> {
    quota::most_throttled(&quota::limits_of(pid))
}
