//! What a stage waited for outside the run: the process at the other end of a socket, a connection
//! to another host, a file or a device.

use crate::partition::Times;
use alloc::boxed::Box;
use alloc::string::String;

/// A process outside the run, as it was seen while a stage waited for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutsideProcess {
    /// Name of the program that was found in the state that counts: its own, or that of one of its
    /// descendants.
    pub program: String,
    /// The id of that process.
    pub pid: i32,
    /// What it said of itself for longest in place of its arguments, without its name.
    pub title: Option<String>,
    /// The time for which the stage waited, by the state of the process and its descendants.
    pub times: Times,
    /// Number of samples behind this.
    pub samples: u64,
    /// How often it was asked and answered in about: how often it was waited for. Over TCP, how often the one of
    /// both waited that waited more, and no more than the segments with data that went either way. 0 where one
    /// of both hardly waited.
    pub round_trips: u64,
    /// What it waited for itself on a socket.
    pub peer: Option<Box<Peer>>,
    /// The file or device for which it waited longest.
    pub file: Option<FileWait>,
}

/// A file or a device for which a stage waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileWait {
    /// What kind of wait.
    pub kind: FileWaitKind,
    /// Its path, as its user sees it.
    pub path: Option<String>,
    /// Where it is: `ext4 on vda1`; for a device, its driver.
    pub on: Option<String>,
    /// The function of the kernel in which the wait was, where it can be read.
    pub kernel: Option<String>,
    /// What was done with it.
    pub access: FileAccess,
    /// Whether it was opened to be read and written past the memory of the kernel (`O_DIRECT`).
    pub direct: bool,
    /// Whether the kernel slowed its writer down, since too much was written that was not on the disk yet.
    pub throttled: bool,
    /// Time that samples found the stage waiting for it.
    pub waited_ns: u64,
}

/// What is done with a file for which a stage waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum FileAccess {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// What was written has to reach the disk (fsync(2)).
    Flush,
    /// Anything else, or not known.
    #[default]
    Other,
}

impl FileAccess {
    /// Whether it is written or read.
    pub fn of(writes: bool) -> FileAccess {
        if writes { FileAccess::Write } else { FileAccess::Read }
    }
}

/// The waits of a stage until what it had written was on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushes {
    /// How often it was found waiting so after it had written again: a lower bound.
    pub times: u64,
    /// Time that samples found it waiting so.
    pub waited_ns: u64,
}

impl Flushes {
    /// Returns the sums of both.
    pub fn plus(self, other: Flushes) -> Flushes {
        Flushes { times: self.times + other.times, waited_ns: self.waited_ns + other.waited_ns }
    }
}

/// Kinds of waits for files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum FileWaitKind {
    /// For storage: uninterruptible.
    #[default]
    Disk,
    /// For another file, a FIFO or a pipe.
    File,
    /// For a device.
    Device,
}

impl FileWait {
    /// Whether a file is none of a disk: the kernel itself answers for it.
    pub fn is_of_kernel(&self) -> bool {
        const KINDS: [&str; 13] = [
            "binfmt_misc",
            "bpf",
            "cgroup",
            "cgroup2",
            "configfs",
            "debugfs",
            "efivarfs",
            "proc",
            "resctrl",
            "securityfs",
            "selinuxfs",
            "sysfs",
            "tracefs",
        ];
        let kind = self.on.as_deref().map(|on| on.split(' ').next().unwrap_or_default());
        let is_there = |path: &str| path.starts_with("/proc/") || path.starts_with("/sys/");
        kind.map_or_else(
            || self.path.as_deref().is_some_and(is_there),
            |kind| KINDS.contains(&kind),
        )
    }

    /// Whether both are the same but for the time.
    pub fn is_same(&self, other: &FileWait) -> bool {
        let key = |wait: &FileWait| (wait.kind, wait.access, wait.path.clone(), wait.on.clone());
        key(self) == key(other)
    }
}

/// One look at a TCP connection: what the kernel counts on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// Segments that were sent and not acknowledged yet.
    pub unacked: u64,
    /// Bytes that wait to be sent for the first time.
    pub unsent_bytes: u64,
    /// Time since data came last.
    pub silent_ns: u64,
    /// Round trip time, smoothed.
    pub rtt_ns: u64,
    /// Shortest round trip time.
    pub min_rtt_ns: u64,
    /// Round trip time that the receiver of data estimated.
    pub receiver_rtt_ns: u64,
    /// Window that this end offers to the other.
    pub own_window_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent and acknowledged.
    pub acked_bytes: u64,
    /// Time in which data were under way.
    pub busy_ns: u64,
    /// Part of that in which the other end's window was full.
    pub far_window_ns: u64,
    /// Part of that in which this end's send buffer was full.
    pub own_buffer_ns: u64,
    /// Segments with data that were sent.
    pub sent_segments: u64,
    /// Segments with data that came.
    pub came_segments: u64,
    /// Segments that were sent again.
    pub resent_segments: u64,
    /// Segments that came before others that had been sent earlier.
    pub out_of_order: u64,
    /// Rate at which data arrived at the other end, at last.
    pub delivery_bytes_per_s: u64,
}

/// The time that a stage waited for a TCP connection, by what the connection showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpWaits {
    /// It waited to read.
    pub read_ns: u64,
    /// Of that: what it had sent was not acknowledged yet.
    pub unanswered_ns: u64,
    /// Of that: later data had come, earlier data were missing.
    pub gap_ns: u64,
    /// Of that: data came as fast as its own window lets them.
    pub own_window_ns: u64,
    /// Of that: data came, and each piece had stood in a queue on its way.
    pub queued_ns: u64,
    /// Of that: data came; whether the network or the other end limits them does not show.
    pub flowing_ns: u64,
    /// Of that: nothing came, and nothing was missing.
    pub silent_ns: u64,
    /// It waited to write.
    pub write_ns: u64,
    /// Whether later data had come and earlier data are missing, at the last look.
    pub missing: bool,
    /// The connection when it was first looked at.
    pub first: TcpSample,
    /// The connection when it was last looked at.
    pub last: TcpSample,
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
