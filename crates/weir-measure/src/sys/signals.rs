//! Signals: what is done with them, blocking them, and dying of one.

use crate::sys::check;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process ignores `signal` at present.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: `sigaction` holds integers and pointers; all-zero bytes are a valid value.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only queries; the out-pointer is to a live local.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut old) } != 0;
    !failed && old.sa_sigaction == libc::SIG_IGN
}

/// Restores the default action of `signal`: whether there is such a signal. A process may inherit
/// SIGCHLD as ignored, and then its children leave no status.
pub fn restore_default(signal: i32) -> bool {
    // SAFETY: installing the default action runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_DFL) != libc::SIG_ERR }
}

/// Whether a child has been stopped since somebody asked.
static CHILD_STOPPED: AtomicBool = AtomicBool::new(false);

/// Hears of changes of children from now on: each interrupts a wait of this process. Children
/// leave a status, also where this process inherited SIGCHLD as ignored.
pub fn signal_children_ends() -> io::Result<()> {
    extern "C" fn note(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: for a handler with SA_SIGINFO the kernel passes a live siginfo_t.
        if unsafe { (*info).si_code } == libc::CLD_STOPPED {
            // Relaxed: no other memory depends on it.
            CHILD_STOPPED.store(true, Ordering::Relaxed);
        }
    }
    // SAFETY: `sigaction` holds integers and pointers; all-zero bytes are a valid value, with an
    // empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the pointer is to a live action, whose handler only stores to an atomic; a null old
    // action is not written.
    check(unsafe { libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) }).map(drop)
}

/// Whether a child of this process has been stopped since the last call: the kernel tells that even
/// if the child has ended since.
pub fn take_child_stopped() -> bool {
    CHILD_STOPPED.swap(false, Ordering::Relaxed)
}

/// Restores the default action of `signal` and sends it to this process, so that the parent sees how
/// it ended. Returns only if the signal does not kill.
///
/// # Errors
/// `EINVAL` for a number that is not a signal.
pub fn die_of(signal: i32) -> io::Result<()> {
    // SIGKILL has no other action, and none can be set.
    if !restore_default(signal) && signal != libc::SIGKILL {
        return Err(io::Error::last_os_error());
    }
    // A core file of weir would tell nothing about the stage that died of the signal.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
    send(std::process::id() as crate::sys::Pid, signal)
}

/// Sends `signal` to the process `pid`.
///
/// # Errors
/// `ESRCH`: the process is gone. `EPERM`: no permission.
pub fn send(pid: crate::sys::Pid, signal: i32) -> io::Result<()> {
    // SAFETY: kill(2) has no memory preconditions.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Returns the process group of the process `pid`; 0 for this process. It is 0 where the leader of
/// the group is outside of this PID namespace, which rustix's `Pid` cannot express.
///
/// # Errors
/// `ESRCH`: the process is gone.
pub fn group_of(pid: crate::sys::Pid) -> io::Result<crate::sys::Pid> {
    // SAFETY: getpgid(2) has no memory preconditions.
    check(unsafe { libc::getpgid(pid) })
}

/// Returns the session of the process `pid`, as [`group_of`] returns its group.
///
/// # Errors
/// `ESRCH`: the process is gone.
pub fn session_of(pid: crate::sys::Pid) -> io::Result<crate::sys::Pid> {
    // SAFETY: getsid(2) has no memory preconditions.
    check(unsafe { libc::getsid(pid) })
}

/// Blocks `signal` in this thread, so that the thread can wait for it.
///
/// # Errors
/// `EINVAL` for a number that is not a signal.
pub fn block(signal: i32) -> io::Result<()> {
    let set = set_of(signal)?;
    // SAFETY: the pointer is to a live set; a null old set is not written.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Waits for a blocked `signal`.
///
/// # Errors
/// `EINVAL` for a number that is not a signal.
pub fn wait_for(signal: i32) -> io::Result<()> {
    let set = set_of(signal)?;
    loop {
        // SAFETY: the pointer is to a live set; a null info is not written.
        if unsafe { libc::sigwaitinfo(&set, std::ptr::null_mut()) } == signal {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Takes a blocked `signal` if it is pending: whether it was.
pub fn take_pending(signal: i32) -> bool {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let Ok(set) = set_of(signal) else { return false };
    // SAFETY: the pointers are to a live set and a live time; a null info is not written.
    unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &now) == signal }
}

fn set_of(signal: i32) -> io::Result<libc::sigset_t> {
    // SAFETY: `sigset_t` holds plain integers; all-zero bytes are a valid value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::sigemptyset(&mut set) };
    // SAFETY: the pointer is to a live, initialised set; a bad number is refused.
    check(unsafe { libc::sigaddset(&mut set, signal) })?;
    Ok(set)
}
