//! The surroundings of a run: the host's CPUs, the quota, the processes it started, its peers.

use super::{Evidence, OutsideProcess, TcpWaits};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What the CPUs that the run may use did meanwhile: averages over the run, in CPUs.
///
/// Measured by the kernel's clock ticks, so a figure is good to about 10 ms of CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Host {
    /// CPUs of the host that are online.
    pub online_cpus: u32,
    /// CPUs that the run may use by its affinity mask; the following figures are sums over these.
    pub cpus: u32,
    /// Used by processes outside the run. `None` where `/proc/stat` cannot be read, and for runs
    /// too short to measure.
    pub others_cpus: Option<f64>,
    /// Idle, waiting for disks included.
    pub idle_cpus: Option<f64>,
    /// Taken away by the hypervisor for other virtual machines.
    pub steal_cpus: Option<f64>,
}

/// A limit that a control group sets on the run's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quota {
    /// CPUs that the limit allows, possibly a fraction.
    pub cpus: f64,
    /// Periods (of usually 100 ms) that passed during the run.
    pub periods: u64,
    /// Periods in which the group used up its quota and was throttled.
    pub throttled_periods: u64,
    /// Time that it was throttled during the run, summed over the CPUs.
    pub throttled_ns: u64,
}

/// Processes that a stage, or a run, started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// Their number.
    pub processes: u64,
    /// If `processes` is only a lower bound, the likely number: an estimate that may be wrong by
    /// several times. Else equal to `processes`.
    pub likely_processes: u64,
    /// How the number is known: exact, estimated or a lower bound.
    pub evidence: Evidence,
    /// Mean time from start to end of one process; sampled. An upper bound where their number is a
    /// lower bound.
    pub mean_life_ns: u64,
    /// Time in which at least one of them lived, as a share of the wall time of the stage or run;
    /// sampled.
    pub wall_share: f64,
    /// The programs they ran, the most frequent first, at most [`Started::MOST_PROGRAMS`].
    pub programs: Vec<Program>,
}

impl Started {
    /// Most programs that are named, the most frequent first.
    pub fn frequent(&self) -> impl Iterator<Item = &str> {
        /// A program is not named if fewer than one in this many processes ran it.
        const OFTEN: u64 = 10;
        let often = |program: &&Program| OFTEN * program.processes >= self.processes;
        self.programs.iter().filter(often).map(|program| program.name.as_str())
    }

    /// The number of programs that are distinguished.
    pub const MOST_PROGRAMS: usize = 8;

    /// Returns the most likely lifetime of one of them.
    pub fn likely_life_ns(&self) -> u64 {
        self.mean_life_ns.saturating_mul(self.processes) / self.likely_processes.max(1)
    }
}

/// A program among those that a stage started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its name, as the kernel truncates it (15 bytes).
    pub name: String,
    /// About how many of the processes ran it.
    pub processes: u64,
    /// Its share of the summed lifetimes of all the processes started; sampled.
    pub share: f64,
}

/// The other end of a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// What kind of peer.
    pub kind: PeerKind,
    /// Its address: `127.0.0.1:42022`, `[2001:db8::1]:443`, `/run/postgresql/.s.PGSQL.5432`.
    pub address: Option<String>,
    /// The name of its program, if that is on this host and can be found.
    pub program: Option<String>,
    /// Its process id, under the same condition.
    pub pid: Option<i32>,
    /// Time that samples found the stage waiting for it.
    pub waited_ns: u64,
    /// What the process at the other end did meanwhile, if it is on this host and not of the run.
    pub process: Option<Box<OutsideProcess>>,
    /// What the connection showed meanwhile, if it is one of TCP.
    pub tcp: Option<TcpWaits>,
}

impl Peer {
    /// Whether both are the same but for what was measured.
    pub fn is_same(&self, other: &Peer) -> bool {
        let key = |peer: &Peer| (peer.kind, peer.address.clone(), peer.program.clone(), peer.pid);
        key(self) == key(other)
    }
}

/// Kinds of peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum PeerKind {
    /// A process on this host, reached by a unix socket.
    Unix,
    /// A process on this host, reached by an address of this host.
    Local,
    /// Another host.
    Remote,
    /// None yet: the socket waits for a connection.
    Listening,
    /// The peer could not be found.
    #[default]
    Unknown,
}

/// The peer's name in a sentence, after "waiting for": `127.0.0.1:42022 (sshd 123)`, `the unix
/// socket of postgres 8123`, `a connection to 0.0.0.0:80`, `a socket`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, &self.program, self.pid) {
            (_, Some(program), Some(pid)) if self.kind == PeerKind::Unix => {
                write!(f, "the unix socket of {program} {pid}")
            }
            (Some(address), ..) if self.kind == PeerKind::Listening => {
                write!(f, "a connection to {address}")
            }
            (Some(address), Some(program), Some(pid)) => write!(f, "{address} ({program} {pid})"),
            (Some(address), ..) if self.kind == PeerKind::Unix => {
                write!(f, "the unix socket {address}")
            }
            (Some(address), ..) => f.write_str(address),
            _ => f.write_str("a socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_peer_is_named_as_far_as_it_is_known() {
        let address = Some(String::from("127.0.0.1:42022"));
        let mut peer = Peer { kind: PeerKind::Local, address, ..Peer::default() };
        assert_eq!(peer.to_string(), "127.0.0.1:42022");
        (peer.program, peer.pid) = (Some(String::from("sshd")), Some(123));
        assert_eq!(peer.to_string(), "127.0.0.1:42022 (sshd 123)");
        peer.kind = PeerKind::Unix;
        assert_eq!(peer.to_string(), "the unix socket of sshd 123");
        (peer.program, peer.address) = (None, Some(String::from("/run/x")));
        assert_eq!(peer.to_string(), "the unix socket /run/x");
        peer.kind = PeerKind::Listening;
        assert_eq!(peer.to_string(), "a connection to /run/x");
        assert_eq!(Peer::default().to_string(), "a socket");
    }
}
