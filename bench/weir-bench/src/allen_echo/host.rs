//! The hosts that answer echo requests: the kernel, or a program behind a TUN device.

use super::bare;
use super::ledger::{Ledger, Logging};
use super::network::{MTU, PREFIX_BITS, Subnet};
use super::veth;
use super::weir::Weir;
use crate::engine::case::{CaseError, Site};
use crate::tools::peer::PeerProcess;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::Ipv4Addr;
use weir_net::sys::tun;
use weir_sys::Pid;
use weir_sys::cpu::ticks_ns;
use weir_sys::proc::{ProcContents, Stat};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// This kernel, over its loopback device.
    Lo,
    /// The kernel of another namespace, over a pair of virtual devices.
    Veth,
    /// weir's packet switch and daemon on such a pair.
    DaemonOnVeth,
    /// The reference behind a TUN device, with a transaction log.
    Bare(Logging),
    /// weir's packet switch, with its ICMP daemon in a process of its own.
    Daemon,
    /// As the daemon, which fills and checks the headers of IP too.
    Allen,
    /// weir's packet switch, which answers ICMP itself.
    Inline,
}

impl HostKind {
    pub fn title(self) -> &'static str {
        match self {
            HostKind::Lo => "the kernel on lo",
            HostKind::Veth => "the kernel on veth",
            HostKind::DaemonOnVeth => "weir on veth",
            HostKind::Bare(_) => "bare",
            HostKind::Daemon => "weir",
            HostKind::Allen => "weir --division allen",
            HostKind::Inline => "weir --inline",
        }
    }

    pub fn mechanism(self) -> &'static str {
        match self {
            HostKind::Lo | HostKind::Veth => "kernel-icmp",
            HostKind::Bare(_) => "bare-icmp",
            HostKind::Daemon | HostKind::DaemonOnVeth => "weir-icmpd",
            HostKind::Allen => "weir-icmpd-allen",
            HostKind::Inline => "weir-inline",
        }
    }

    pub fn device(self) -> &'static str {
        match self {
            HostKind::Lo => "lo",
            HostKind::Veth | HostKind::DaemonOnVeth => "veth",
            HostKind::Bare(_) | HostKind::Daemon | HostKind::Allen | HostKind::Inline => "tun",
        }
    }

    /// Whether processes answer rather than the kernel.
    pub fn is_program(self) -> bool {
        !matches!(self, HostKind::Lo | HostKind::Veth)
    }

    /// Returns how many processes of weir it has.
    pub fn weir_processes(self) -> u64 {
        match self {
            HostKind::Daemon | HostKind::Allen | HostKind::DaemonOnVeth => 2,
            HostKind::Inline => 1,
            HostKind::Lo | HostKind::Veth | HostKind::Bare(_) => 0,
        }
    }

    /// Returns the log that it keeps.
    pub fn logging(self) -> &'static str {
        match self {
            HostKind::Lo | HostKind::Veth => "off",
            HostKind::Daemon | HostKind::Allen | HostKind::Inline | HostKind::DaemonOnVeth => "off",
            HostKind::Bare(logging) => logging.name(),
        }
    }
}

/// CPU time: all of it to the nanosecond, and its two parts to a clock tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    pub whole_ns: u64,
    pub user_ns: u64,
    pub kernel_ns: u64,
}

impl CpuTime {
    fn of(pid: Pid) -> Option<CpuTime> {
        let stat = Stat::of(pid)?;
        Some(CpuTime {
            whole_ns: weir_sys::cpu::process_ns(pid)?,
            user_ns: ticks_ns(stat.own_ticks.saturating_sub(stat.system_ticks)),
            kernel_ns: ticks_ns(stat.system_ticks),
        })
    }

    fn plus(self, other: CpuTime) -> CpuTime {
        CpuTime {
            whole_ns: self.whole_ns + other.whole_ns,
            user_ns: self.user_ns + other.user_ns,
            kernel_ns: self.kernel_ns + other.kernel_ns,
        }
    }

    /// Returns what was used since `before`: the whole, the user's and the kernel's part.
    pub fn since(self, before: CpuTime) -> [u64; 3] {
        [
            self.whole_ns.saturating_sub(before.whole_ns),
            self.user_ns.saturating_sub(before.user_ns),
            self.kernel_ns.saturating_sub(before.kernel_ns),
        ]
    }
}

#[derive(Debug)]
pub struct EchoHost {
    pub address: Ipv4Addr,
    /// The process, if it is a fork of this one.
    peer: Option<PeerProcess>,
    /// The processes of weir, if it is one of weir's.
    weir: Option<Weir>,
    /// The processes that do the answering.
    pids: Vec<Pid>,
}

impl EchoHost {
    /// Starts a host where the other side belongs, in the namespace of this process.
    pub fn start(site: &Site, way: HostKind) -> Result<EchoHost, CaseError> {
        let subnet = Subnet::new()?;
        match way {
            HostKind::Lo => Ok(EchoHost { address: Ipv4Addr::LOCALHOST, ..EchoHost::at(subnet) }),
            HostKind::Veth => {
                let peer = Some(veth::kernel(site, subnet)?);
                Ok(EchoHost { peer, ..EchoHost::at(subnet) })
            }
            HostKind::DaemonOnVeth => {
                let wire = veth::wire(site, subnet)?;
                let weir = Weir::start_on(site, subnet, &wire, &["--icmpd"])?;
                let (peer, pids) = (Some(wire), weir.pids().to_vec());
                Ok(EchoHost { peer, weir: Some(weir), pids, ..EchoHost::at(subnet) })
            }
            HostKind::Bare(logging) => EchoHost::bare(site, subnet, logging),
            HostKind::Daemon | HostKind::Allen | HostKind::Inline => {
                let options: &[&str] = match way {
                    HostKind::Inline => &["--inline"],
                    HostKind::Allen => &["--icmpd", "--division", "allen"],
                    _ => &["--icmpd"],
                };
                let weir = Weir::start_with(site, subnet, options)?;
                let pids = weir.pids().to_vec();
                Ok(EchoHost { weir: Some(weir), pids, ..EchoHost::at(subnet) })
            }
        }
    }

    fn at(subnet: Subnet) -> EchoHost {
        EchoHost { address: subnet.there(), peer: None, weir: None, pids: Vec::new() }
    }

    fn bare(site: &Site, subnet: Subnet, logging: Logging) -> Result<EchoHost, CaseError> {
        let device = tun::Tun::open(&subnet.device(), false)
            .map_err(|error| CaseError::left_out(format!("cannot create a TUN device: {error}")))?;
        tun::configure(device.name(), subnet.here(), PREFIX_BITS, MTU)?;
        let mut ledger = Ledger::new(site, logging)?;
        let peer = PeerProcess::start(site, |_| match bare::respond(&device, &mut ledger)? {})?;
        let pids = vec![peer.pid()];
        Ok(EchoHost { peer: Some(peer), pids, ..EchoHost::at(subnet) })
    }

    pub fn weir(&self) -> Option<&Weir> {
        self.weir.as_ref()
    }

    /// Explains a missing reply: with what the host reported, if anything, otherwise with `seen`.
    pub fn explain(&self, seen: CaseError) -> CaseError {
        let Some(peer) = &self.peer else { return seen };
        let mut ends = [PollFd::new(peer.reports(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut ends, Some(&now)) {
            Ok(ready) if ready > 0 => peer.wait().err().unwrap_or(seen),
            _ => seen,
        }
    }

    /// Returns the CPU time that its processes have used; `None` for the kernel.
    pub fn cpu(&self) -> Option<CpuTime> {
        let used = self.pids.iter().map(|pid| CpuTime::of(*pid).unwrap_or_default());
        (!self.pids.is_empty()).then(|| used.fold(CpuTime::default(), CpuTime::plus))
    }
}
