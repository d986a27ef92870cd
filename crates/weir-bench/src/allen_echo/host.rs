//! Who answers echo requests: the kernel, or a program behind a TUN device.

use super::bare;
use super::ledger::{Ledger, Logging};
use super::network::{MTU, PREFIX_BITS, Subnet};
use super::veth;
use super::weir::Weir;
use crate::tools::peer::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::Ipv4Addr;
use weir_measure::bench::case::{CaseError, Site};
use weir_sys::{Pid, tun};

/// A host, by what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// This kernel, over its loopback device.
    Lo,
    /// The kernel of another namespace, over a pair of virtual devices.
    Veth,
    /// The reference behind a TUN device, with a transaction log.
    Bare(Logging),
    /// weir's packet switch, and its ICMP daemon in a process of its own.
    Daemon,
    /// weir's packet switch, which answers ICMP itself.
    Inline,
}

impl Way {
    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Way::Lo => "the kernel on lo",
            Way::Veth => "the kernel on veth",
            Way::Bare(_) => "bare",
            Way::Daemon => "weir",
            Way::Inline => "weir --inline",
        }
    }

    /// Its name among the parameters.
    pub fn mechanism(self) -> &'static str {
        match self {
            Way::Lo | Way::Veth => "kernel-icmp",
            Way::Bare(_) => "bare-icmp",
            Way::Daemon => "weir-icmpd",
            Way::Inline => "weir-inline",
        }
    }

    /// The device in between.
    pub fn device(self) -> &'static str {
        match self {
            Way::Lo => "lo",
            Way::Veth => "veth",
            Way::Bare(_) | Way::Daemon | Way::Inline => "tun",
        }
    }

    /// Whether processes answer, and not the kernel.
    pub fn is_program(self) -> bool {
        !matches!(self, Way::Lo | Way::Veth)
    }

    /// How many of them are weir's.
    pub fn weir_processes(self) -> u64 {
        match self {
            Way::Daemon => 2,
            Way::Inline => 1,
            Way::Lo | Way::Veth | Way::Bare(_) => 0,
        }
    }

    /// What log it keeps.
    pub fn logging(self) -> &'static str {
        match self {
            Way::Lo | Way::Veth | Way::Daemon | Way::Inline => "off",
            Way::Bare(logging) => logging.name(),
        }
    }
}

/// A host that answers.
#[derive(Debug)]
pub struct Host {
    /// Where.
    pub address: Ipv4Addr,
    /// The process, where it is a fork of this one.
    peer: Option<Peer>,
    /// Or weir's.
    weir: Option<Weir>,
    /// Processes whose work is the answering.
    pids: Vec<Pid>,
}

impl Host {
    /// Starts one where the other side belongs, in the namespace of this process.
    ///
    /// # Errors
    /// Left out: privilege or a feature is missing.
    pub fn start(site: &Site, way: Way) -> Result<Host, CaseError> {
        let subnet = Subnet::new()?;
        match way {
            Way::Lo => Ok(Host { address: Ipv4Addr::LOCALHOST, ..Host::at(subnet) }),
            Way::Veth => {
                let peer = Some(veth::kernel(site, subnet)?);
                Ok(Host { peer, ..Host::at(subnet) })
            }
            Way::Bare(logging) => Host::bare(site, subnet, logging),
            Way::Daemon | Way::Inline => {
                let weir = Weir::start(site, subnet, way == Way::Inline)?;
                let pids = weir.pids().to_vec();
                Ok(Host { weir: Some(weir), pids, ..Host::at(subnet) })
            }
        }
    }

    fn at(subnet: Subnet) -> Host {
        Host { address: subnet.there(), peer: None, weir: None, pids: Vec::new() }
    }

    fn bare(site: &Site, subnet: Subnet, logging: Logging) -> Result<Host, CaseError> {
        let device = tun::Tun::open(&subnet.device(), false)
            .map_err(|error| CaseError::left_out(format!("cannot create a TUN device: {error}")))?;
        tun::configure(device.name(), subnet.here(), PREFIX_BITS, MTU)?;
        let mut ledger = Ledger::new(site, logging)?;
        let peer = Peer::start(site, |_| match bare::respond(&device, &mut ledger)? {})?;
        let pids = vec![peer.pid()];
        Ok(Host { peer: Some(peer), pids, ..Host::at(subnet) })
    }

    /// Where it is weir's.
    pub fn weir(&self) -> Option<&Weir> {
        self.weir.as_ref()
    }

    /// Why there was no reply: what the host said, if it did, else what was seen from here.
    pub fn explain(&self, seen: CaseError) -> CaseError {
        let Some(peer) = &self.peer else { return seen };
        let mut ends = [PollFd::new(peer.reports(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut ends, Some(&now)) {
            Ok(ready) if ready > 0 => peer.wait().err().unwrap_or(seen),
            _ => seen,
        }
    }

    /// CPU time that its processes have used; nothing, where it is the kernel.
    pub fn cpu_ns(&self) -> Option<u64> {
        let used = self.pids.iter().map(|pid| weir_sys::cpu::process_ns(*pid).unwrap_or(0));
        (!self.pids.is_empty()).then(|| used.sum())
    }
}
