//! Starting a child, also where posix_spawn(3) is refused; with some standard descriptors closed, or
//! with a lower limit of open files than this process has.
//!
//! The standard library always gives a child descriptors 0 to 2. A shell that was started with a
//! closed one passes that on, and its programs fail with `EBADF`. A substitute `/dev/null` would
//! silently discard their output.

use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::stdio::{stderr, stdin, stdout};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

/// Differences between a child and this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Differences {
    /// Which of descriptors 0, 1 and 2 are closed in the child.
    pub closed: [bool; 3],
    /// The child's soft limit of open files.
    pub file_limit: Option<u64>,
    /// Whether the child ignores SIGPIPE. Otherwise it gets its default action, although the Rust
    /// runtime makes this process ignore it.
    pub pipe_ignored: bool,
}

/// Starts `command` with these differences.
pub fn spawn_with(command: &mut Command, differences: Differences) -> io::Result<Child> {
    differ(command, differences);
    spawn(command)
}

/// Starts `command`, as a shell does where a filter refuses clone3(2) with EPERM, as those of older
/// container runtimes do. The C library's posix_spawn(3) tries nothing else then; fork(2) works.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    let started = command.spawn();
    if !started.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)) {
        return started;
    }
    // What has something to do between fork and exec is not started by posix_spawn.
    // SAFETY: the closure does nothing.
    unsafe { command.pre_exec(|| Ok(())) };
    command.spawn()
}

/// Starts `command` without input by [`spawn`], waits for its end, and returns what it wrote.
pub fn output(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command)?.wait_with_output()
}

/// Replaces this process by `command`, with these differences. Returns only when that fails: then
/// this process keeps its descriptors, which the next exec closes, and has the limit and the
/// signal's action of the child.
pub fn exec_with(command: &mut Command, differences: Differences) -> io::Error {
    differ(command, differences);
    command.exec()
}

fn differ(command: &mut Command, differences: Differences) {
    let Differences { closed, file_limit, pipe_ignored } = differences;
    if closed.contains(&true) || file_limit.is_some() || pipe_ignored {
        let differ = move || {
            for (fd, _) in [stdin(), stdout(), stderr()].iter().zip(closed).filter(|it| it.1) {
                // Exec closes it. Where that fails in this process, its owner still has it.
                let _ = rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC);
            }
            if pipe_ignored {
                // SAFETY: ignoring a signal runs no code of ours.
                unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
            }
            file_limit.map_or(Ok(()), set_file_limit)
        };
        // SAFETY: the closure only makes the system calls fcntl(2), sigaction(2), getrlimit(2) and
        // setrlimit(2), and neither allocates nor takes a lock.
        unsafe { command.pre_exec(differ) };
    }
}

fn set_file_limit(soft: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_descriptor_is_really_closed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo lost 2>/dev/null"]);
        let differences = Differences { closed: [false, true, false], ..Differences::default() };
        let status = spawn_with(&mut command, differences).expect("sh").wait();
        assert!(!status.expect("waited").success(), "writing to a closed descriptor succeeded");
    }

    #[test]
    fn a_program_that_is_not_there_leaves_the_descriptors_open() {
        let differences = Differences { closed: [true; 3], ..Differences::default() };
        // SAFETY: the child allocates and makes system calls, and waits for no lock of another
        // thread: nobody here changes the environment, whose lock it takes to read.
        let child = unsafe {
            crate::sys::fork::copy(|| {
                let error = exec_with(&mut Command::new("/no/such/program"), differences);
                let open = |fd| rustix::io::fcntl_getfd(fd).is_ok();
                let all = [stdin(), stdout(), stderr()].into_iter().all(open);
                u8::from(!(all && error.kind() == io::ErrorKind::NotFound))
            })
        };
        assert!(child.expect("forked").succeeded().expect("reaped"));
    }

    #[test]
    fn a_limit_is_the_child_s_own() {
        let mut command = Command::new("sh");
        command.args(["-c", "test $(ulimit -S -n) = 50"]);
        let differences = Differences { file_limit: Some(50), ..Differences::default() };
        let status = spawn_with(&mut command, differences).expect("sh").wait();
        assert!(status.expect("waited").success());
    }
}
