//! Forked children: second processes with the same descriptors and shared mappings, to measure what
//! passes between two processes.

use crate::sys::Pid;
use crate::sys::wait::Reaped;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use weir_sys::proc::{ProcDir, tasks};

/// A forked child. Dropping this kills and reaps it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    reaped: Option<Reaped>,
}

/// Forks. The child runs `body` and ends with the status it returns (101 after a panic). The kernel
/// kills the child when this process dies, however that happens.
///
/// # Errors
/// `EBUSY`: this process has several threads, and locks that others hold would stay locked in the
/// child. Else those of fork(2).
pub fn child(body: impl FnOnce() -> u8) -> io::Result<Child> {
    if !has_one_thread()? {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    let parent = std::process::id();
    // SAFETY: this process has one thread (checked above, and only this thread could start
    // another), so the child is a complete copy: no lock is held by a thread that is missing in it.
    unsafe {
        copy(|| {
            end_at_panic();
            if die_with_parent(parent) { body() } else { 1 }
        })
    }
}

/// Makes this process end with status 101 at a panic, once its message is printed: also where a panic
/// would abort the process, as in the release of the command, and whatever thread panics.
fn end_at_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        // SAFETY: _exit(2) has no preconditions, and runs no destructor of the parent.
        unsafe { libc::_exit(101) }
    }));
}

/// Forks a process of several threads, for tests of what a child inherits. The child has this thread
/// only. It runs `body` and ends with the status it returns (101 after a panic, where panics unwind).
///
/// ```compile_fail,E0133
/// crate::sys::fork::copy(|| 0);
/// ```
///
/// # Safety
/// `body` runs in a copy of this process without its other threads. Locks that these held stay
/// locked, and their unfinished stores are missing: `body` relies on neither. It calls only parts of
/// the C library that can be used after a fork, such as its allocator.
pub unsafe fn copy(body: impl FnOnce() -> u8) -> io::Result<Child> {
    // SAFETY: as the caller promises.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            // SAFETY: _exit(2) has no preconditions, and runs no destructor of the parent.
            unsafe { libc::_exit(ended.unwrap_or(101).into()) }
        }
        pid => Ok(Child { pid, reaped: None }),
    }
}

/// Starts a child without running the handlers of fork(3). It keeps every descriptor of this process
/// and only waits until the other end of a pipe or socket is closed.
pub fn orphan(until: BorrowedFd) -> io::Result<Pid> {
    let descriptor = until.as_raw_fd();
    // SAFETY: a plain copy of the process, as fork(2) makes it; the child makes system calls only.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let mut byte = 0_u8;
            // SAFETY: the pointer is to a live local of that one byte.
            while unsafe { libc::read(descriptor, (&raw mut byte).cast(), 1) } > 0 {}
            // SAFETY: _exit(2) has no preconditions.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(pid as Pid),
    }
}

/// Asks to be killed with the parent: whether the parent is still alive.
fn die_with_parent(parent: u32) -> bool {
    // SAFETY: prctl(PR_SET_PDEATHSIG) takes a number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    std::os::unix::process::parent_id() == parent
}

/// Whether this process has one thread. It looks more than once, because a joined thread may stay
/// listed for some microseconds.
fn has_one_thread() -> io::Result<bool> {
    for _ in 0..1_000 {
        if tasks(ProcDir::This).len() == 1 {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

impl Child {
    /// The process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether the child has ended. It is not reaped.
    pub fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = |pid| !matches!(waitid(WaitId::Pid(pid), look), Ok(None));
        self.reaped.is_some() || rustix::process::Pid::from_raw(self.pid).is_some_and(ended)
    }

    /// Waits until the child ends.
    pub fn wait(&mut self) -> io::Result<Reaped> {
        if let Some(reaped) = self.reaped {
            return Ok(reaped);
        }
        let reaped = crate::sys::wait::reap_blocking(self.pid)?;
        self.reaped = Some(reaped);
        Ok(reaped)
    }

    /// Waits until the child ends: whether its status was 0.
    pub fn succeeded(&mut self) -> io::Result<bool> {
        Ok(self.wait()?.status.success())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.reaped.is_none() {
            let _ = crate::sys::signals::send(self.pid, libc::SIGKILL);
            let _ = self.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status is 101 also where no panic unwinds, and whichever thread of the child panics.
    #[test]
    fn a_panic_ends_the_child_with_status_101() {
        let ends_alike = || {
            let panics = || -> u8 { panic!("the child ends") };
            let on_a_thread = || std::thread::spawn(panics).join().map_or(1, |status| status);
            let mut children = [child(panics), child(on_a_thread)];
            let mut codes = children.iter_mut().map(|child| {
                let child = child.as_mut().expect("one thread can fork");
                child.wait().expect("reaped").status.code()
            });
            u8::from(!codes.all(|code| code == Some(101)))
        };
        // SAFETY: a copy of this process has one thread, as `child` demands. It needs memory, the
        // hook for panics, and standard error, which no other test holds for longer than a line.
        let mut alone = unsafe { copy(ends_alike) }.expect("forked");
        assert_eq!(alone.wait().expect("reaped").status.code(), Some(0));
    }
}
