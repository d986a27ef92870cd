//! weir's host as users run it: `weir net up`, with its daemon or with ICMP in the switch.

use super::asker::Asker;
use super::network::{MTU, PREFIX_BITS, Subnet};
use crate::engine::case::{CaseError, Site};
use crate::tools::peer::PeerProcess;
use crate::tools::place::PortDirectory;
use crate::tools::program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_measure::sys::signals;
use weir_net::log::Log;
use weir_net::message::Want;
use weir_net::station::Station;
use weir_net::sys::tun::Tun;
use weir_profile::Observed;
use weir_sys::{Pid, proc};

/// How long the switch and its daemon may take to start.
const START: Duration = Duration::from_secs(10);
/// How long each of the first requests waits for its answer.
const TRY: Duration = Duration::from_millis(50);
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };
const KILL: i32 = 9; // SIGKILL

/// A switch that is up and answers. Dropping this kills it. If this process dies first, the switch
/// ends with the command that it was given, which reads from this process.
#[derive(Debug)]
pub struct Weir {
    switch: Child,
    pids: Vec<Pid>,
    /// Its directory of names, removed after it.
    place: PortDirectory,
    device: String,
}

impl Weir {
    /// Starts the switch where the other side belongs, in the namespace of this process, and waits
    /// until it answers.
    pub fn start(site: &Site, subnet: Subnet, inline: bool) -> Result<Weir, CaseError> {
        Weir::start_with(site, subnet, &[if inline { "--inline" } else { "--icmpd" }])
    }

    /// As [`Weir::start`], with these options; one of them lets it answer echoes.
    pub fn start_with(site: &Site, subnet: Subnet, options: &[&str]) -> Result<Weir, CaseError> {
        let device = subnet.device();
        // A missing privilege is told apart from a failure.
        Tun::open(&device, false)
            .map_err(|error| CaseError::left_out(format!("cannot create a TUN device: {error}")))?;
        let mut command = Command::new(program::weir()?);
        command.args(["net", "up", "--tun", &device, "--peer", &subnet.here().to_string()]);
        Weir::start_by(site, subnet, device, command, options)
    }

    /// As [`Weir::start_with`], on the far end of a wire, in the namespace of the process that holds it.
    pub fn start_on(
        site: &Site,
        subnet: Subnet,
        wire: &PeerProcess,
        options: &[&str],
    ) -> Result<Weir, CaseError> {
        let device = subnet.far_device();
        let mut command = Command::new(program::find("nsenter")?);
        command.arg(format!("--net=/proc/{}/ns/net", wire.pid())).arg(program::weir()?);
        command.args(["net", "up", "--ethernet", &device]);
        Weir::start_by(site, subnet, device, command, options)
    }

    fn start_by(
        site: &Site,
        subnet: Subnet,
        device: String,
        mut command: Command,
        options: &[&str],
    ) -> Result<Weir, CaseError> {
        let place = PortDirectory::new()?;
        command.args(["--addr", &format!("{}/{PREFIX_BITS}", subnet.there())]);
        command.args(["--mtu", &MTU.to_string()]).args(options).args(["--", "cat"]);
        command.env("XDG_RUNTIME_DIR", place.directory());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A child starts on the CPU of its parent.
        site.go_there()?;
        let started = command.spawn();
        site.go_here()?;
        let switch = started
            .map_err(|error| CaseError::failed(format!("cannot run weir net up: {error}")))?;
        let mut made = Weir { switch, pids: Vec::new(), place, device };
        made.wait_for_an_answer(subnet)?;
        made.find_processes();
        Ok(made)
    }

    /// Returns the processes that do the answering.
    pub fn pids(&self) -> &[Pid] {
        &self.pids
    }

    /// Returns the value of XDG_RUNTIME_DIR for programs that attach.
    pub fn runtime_directory(&self) -> &Path {
        self.place.directory()
    }

    /// Returns the name of its device.
    pub fn device(&self) -> &str {
        &self.device
    }

    fn directory(&self) -> PathBuf {
        self.runtime_directory().join("weir/net").join(&self.device)
    }

    /// Attaches a station of this process.
    pub fn attach(&self, wants: &[Want]) -> Result<Station, CaseError> {
        let directory = self.directory();
        Station::attach(&directory.join(weir_net::names::SWITCH), &directory, wants)
            .map_err(|error| CaseError::failed(error.to_string()))
    }

    pub fn log(&self) -> Result<Log, CaseError> {
        let opened = Log::open(self.directory().join(weir_net::names::LOG));
        opened.map_err(|error| CaseError::failed(error.to_string()))
    }

    /// Opens the profiles of all its processes; there must be one.
    pub fn profiles(&self) -> Result<Vec<Observed>, CaseError> {
        let mut profiles = Vec::new();
        for entry in std::fs::read_dir(self.directory())? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b"profile.") {
                profiles.push(Observed::open(&entry.path())?);
            }
        }
        if profiles.is_empty() {
            return Err(CaseError::failed("weir net up has published no profile"));
        }
        Ok(profiles)
    }

    fn wait_for_an_answer(&mut self, subnet: Subnet) -> Result<(), CaseError> {
        let until = Instant::now() + START;
        let (mut said, mut buffer) = (Vec::new(), [0; 512]);
        loop {
            if is_there(subnet) {
                return Ok(());
            }
            let Some(stderr) = &mut self.switch.stderr else { return Ok(()) };
            let ready = poll(&mut [PollFd::new(stderr, PollFlags::IN)], Some(&LOOK));
            let over = match ready {
                Ok(ready) if ready > 0 => {
                    let bytes = stderr.read(&mut buffer)?;
                    said.extend_from_slice(&buffer[..bytes]);
                    bytes == 0
                }
                _ => Instant::now() > until,
            };
            if over {
                let text = String::from_utf8_lossy(&said);
                let text = text.trim().replace('\n', "; ");
                return Err(CaseError::failed(format!("weir net up does not answer: {text}")));
            }
        }
    }

    /// Finds the switch and its children.
    fn find_processes(&mut self) {
        let switch = self.switch.id() as Pid;
        let is_child =
            |pid: &Pid| weir_sys::proc::identity(*pid).is_some_and(|id| id.parent == switch);
        self.pids = proc::processes().into_iter().filter(is_child).chain([switch]).collect();
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        if self.pids.is_empty() {
            self.find_processes();
        }
        for pid in &self.pids {
            let _ = signals::send(*pid, KILL);
        }
        let _ = self.switch.wait();
    }
}

/// Whether a host answers at once.
fn is_there(subnet: Subnet) -> bool {
    // Before the device exists there is no route.
    let Ok(mut asker) = Asker::new(subnet.there(), 1) else { return false };
    asker.set_patience(Some(TRY)).is_ok() && asker.turnarounds(1).is_ok()
}
