//! Programs beside a case that serve a network: each is started where the other side belongs, and
//! killed with the case.

use crate::engine::case::{CaseError, Site};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use weir_measure::sys::fork::{self, Child};

/// How long a server may take to serve.
const START: Duration = Duration::from_secs(10);
/// Between two looks at a server that starts.
const LOOK: Duration = Duration::from_millis(2);

/// A server that runs. Dropping this kills it.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
}

impl ServerProcess {
    /// Starts a server on the CPU of the other side, and waits until `is_up`.
    pub fn start(
        site: &Site,
        command: &mut Command,
        mut is_up: impl FnMut() -> bool,
    ) -> Result<ServerProcess, CaseError> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A child starts on the CPU of its parent.
        site.go_there()?;
        // A fork dies with this process, however that ends. Nothing else would end a server.
        let started = fork::child(|| {
            eprintln!("cannot run {name}: {}", command.exec());
            1
        });
        site.go_here()?;
        let mut server = ServerProcess { child: started? };
        let until = Instant::now() + START;
        while !is_up() {
            if server.child.has_ended() {
                let status = server.child.wait()?.status;
                return Err(CaseError::failed(format!("{name} does not serve: {status}")));
            }
            if Instant::now() > until {
                return Err(CaseError::failed(format!("{name} does not serve after {START:?}")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }
}

/// Runs a program to its end, or until `limit`; then it is killed. Returns its status, if it ended by
/// itself, and how long it ran.
pub fn run_for(
    command: &mut Command,
    limit: Duration,
) -> Result<(Option<ExitStatus>, Duration), CaseError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let started = command.spawn();
    let mut child =
        started.map_err(|error| CaseError::left_out(format!("cannot run {name}: {error}")))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    let pid = pid.ok_or_else(|| CaseError::failed("a process has no number"))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec::try_from(limit).unwrap_or_default();
    let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&limit))? > 0;
    let took = begun.elapsed();
    if !ended {
        child.kill()?;
    }
    let status = child.wait()?;
    Ok((ended.then_some(status), took))
}
