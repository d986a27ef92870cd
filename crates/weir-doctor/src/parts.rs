//! The parts of a time that was spent: of a stage, or of another process.

use crate::facts::{FileWait, FileWaitKind, GroupQuota, Peer};
use crate::partition::Times;
use alloc::boxed::Box;

/// A part of the time of a stage, or of another process.
#[derive(Clone, Debug, PartialEq)]
pub enum BusyPart {
    /// On a CPU.
    Cpu,
    /// The same of a program that encrypts.
    Cipher,
    /// Waiting for a CPU, or for the quota of its own control group.
    Queue(Option<GroupQuota>),
    /// Waiting for the disk, mostly for this file.
    Disk(Option<FileWait>),
    /// Sleeping.
    Sleep,
    /// Waiting for the peer of a socket.
    Socket(Option<Box<Peer>>),
    /// Waiting for a lock.
    Lock,
    /// Waiting for a child that is not a stage.
    Child,
    /// Waiting for a file that is not a pipe of the run, mostly for this one.
    File(Option<FileWait>),
    /// Waiting for a terminal or device, mostly for this one.
    Device(Option<FileWait>),
    /// Stopped.
    Stopped,
    /// Blocked on something hidden.
    Unknown,
}

/// Divides a time into its parts. `file` returns the file of a part of that length.
pub(crate) fn parts(
    times: &Times,
    peer: Option<&Peer>,
    file: impl Fn(FileWaitKind, u64) -> Option<FileWait>,
) -> [(BusyPart, u64); 11] {
    let of_file = |part: fn(Option<FileWait>) -> BusyPart, kind, ns| (part(file(kind, ns)), ns);
    [
        (BusyPart::Cpu, times.work_cpu_ns()),
        (BusyPart::Queue(None), times.work_queue_ns()),
        of_file(BusyPart::Disk, FileWaitKind::Disk, times.disk_ns),
        (BusyPart::Sleep, times.sleep_ns),
        (BusyPart::Socket(peer.map(|peer| Box::new(peer.clone()))), times.network_ns),
        (BusyPart::Lock, times.lock_ns),
        (BusyPart::Child, times.child_ns - times.stage_child_ns),
        of_file(BusyPart::File, FileWaitKind::File, times.file_ns),
        of_file(BusyPart::Device, FileWaitKind::Device, times.device_ns),
        (BusyPart::Stopped, times.stopped_ns),
        (BusyPart::Unknown, times.unknown_ns),
    ]
}
