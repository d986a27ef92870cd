//! Reaping a child together with its resource use (`wait4(2)`), which rustix lacks.

use crate::sys::{Pid, check};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The end of a child and its resource use.
#[derive(Clone, Copy, Debug)]
pub struct Reaped {
    /// How the child ended.
    pub status: ExitStatus,
    /// User CPU time of the child and of the descendants it waited for.
    pub user_ns: u64,
    /// System CPU time of the child and of the descendants it waited for.
    pub system_ns: u64,
    /// The largest resident set of the child or of any descendant it waited for. The kernel carries
    /// the value over `exec`, so it is never below what the parent had when it forked.
    pub max_rss_bytes: u64,
    /// Page faults of the child and of the descendants it waited for that took a disk or swap.
    pub major_faults: u64,
}

/// Reaps `pid` if it has ended. `None` while it runs.
///
/// # Errors
/// `ECHILD`: `pid` is not a child of this process.
pub fn reap(pid: Pid) -> io::Result<Option<Reaped>> {
    wait(pid, libc::WNOHANG)
}

/// Waits until `pid` ends, and reaps it.
///
/// # Errors
/// `ECHILD`: `pid` is not a child of this process.
pub fn reap_blocking(pid: Pid) -> io::Result<Reaped> {
    loop {
        match wait(pid, 0) {
            Ok(Some(reaped)) => return Ok(reaped),
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn wait(pid: Pid, how: libc::c_int) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    // SAFETY: `rusage` holds plain integers; all-zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both out-pointers are to live, writable locals of the right types.
    if check(unsafe { libc::wait4(pid, &mut status, how, &mut usage) })? == 0 {
        return Ok(None);
    }
    Ok(Some(Reaped {
        status: ExitStatus::from_raw(status),
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        max_rss_bytes: usage.ru_maxrss.max(0) as u64 * 1024,
        major_faults: usage.ru_majflt.max(0) as u64,
    }))
}

/// Converts a `timeval` to nanoseconds.
pub(crate) fn nanoseconds(time: libc::timeval) -> u64 {
    time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_usec.max(0) as u64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[expect(clippy::zombie_processes, reason = "reaping it is what is tested")]
    fn ending(script: &str) -> ExitStatus {
        let child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
        loop {
            if let Some(reaped) = reap(child.id() as Pid).expect("a child") {
                return reaped.status;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn tells_exit_from_death_by_signal() {
        assert_eq!(ending("exit 7").code(), Some(7));
        assert_eq!(ending("kill -9 $$").signal(), Some(9));
    }

    #[test]
    fn refuses_what_is_not_a_child() {
        assert_eq!(reap(1).expect_err("not ours").raw_os_error(), Some(libc::ECHILD));
    }
}
