//! Stopped, frozen and throttled processes.

use crate::attribution::calls::Call;
use crate::cgroup;
use std::path::{Path, PathBuf};
use weir_doctor::why::Stop;
use weir_sys::Pid;
use weir_sys::proc::{Blocked, ProcContents, ProcDir, Stat, Status, link};

/// Returns what stopped a process by a signal.
pub fn by(task: Pid, stat: &Stat) -> Stop {
    match signal(stat) {
        None if stat.in_background && reads_terminal(task) => Stop::InBackground,
        signal => Stop::Signal(signal),
    }
}

/// Whether the process is in a read from a terminal.
fn reads_terminal(pid: Pid) -> bool {
    let Some(Blocked::Call(number, args)) = Blocked::of(ProcDir::Thread(pid, pid)) else {
        return false;
    };
    let Call::Read(fd) = Call::decode(number, &args) else { return false };
    let of_terminal = |path: PathBuf| path.starts_with("/dev/pts") || path.starts_with("/dev/tty");
    link(pid, fd).is_some_and(of_terminal)
}

/// Returns the signal that stopped the process. The kernel shows it as the status with which the
/// process would have ended, to those who may inspect it; older kernels show 0.
fn signal(stat: &Stat) -> Option<i32> {
    let status = stat.exit_status?;
    // Status words as waitpid(2) has them keep the signal in the second byte.
    let signal = if status > 0xff { status >> 8 } else { status };
    (1..=64).contains(&signal).then_some(signal)
}

/// Returns who traces a process.
pub fn tracer(pid: Pid) -> Option<Pid> {
    Status::of(pid)?.tracer()
}

/// Returns the files by which control groups of the process, its own and those above, are frozen. In
/// version 1 a group below a frozen one says that it is frozen too.
pub fn frozen_by(pid: Pid) -> Vec<String> {
    let says = |path: &Path, word: &str| {
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == word)
    };
    let frozen = |directory: &PathBuf| {
        let (first, second) = (directory.join("freezer.state"), directory.join("cgroup.freeze"));
        let itself = says(&first, "FROZEN") && !says(&directory.join("freezer.self_freezing"), "0");
        if itself { Some(first) } else { says(&second, "1").then_some(second) }
    };
    let all = cgroup::directories_of(pid, "freezer");
    all.iter().filter_map(frozen).map(|path| path.to_string_lossy().into_owned()).collect()
}
