//! The reasons why a stage was busy.

use crate::around::short_of_memory;
use crate::facts::{Run, Stage};
use crate::load::{StageLoad, starting_share};
use alloc::vec::Vec;

/// Parts of a stage's time below this share are not mentioned.
const WORTH: f64 = 0.05;
const MOST: usize = 3;

/// What a stage was busy with.
#[derive(Clone, Debug, PartialEq)]
pub enum Busy {
    /// It started short processes for this share of the run.
    Starting(f64),
    /// It spent its time on these parts, the largest first, each with its share of the run.
    Parts(Vec<(BusyPart, f64)>),
    /// It keeps to a rate: the same parts, but sleeping, which is its nature, comes first.
    Paced(Vec<(BusyPart, f64)>),
}

/// A part of a stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPart {
    /// On a CPU.
    Cpu,
    /// Waiting for a CPU.
    Queue,
    /// Waiting for the disk.
    Disk,
    /// Sleeping.
    Sleep,
    /// Waiting for the peer of a socket.
    Socket,
    /// Waiting for a lock.
    Lock,
    /// Waiting for a child that is not a stage.
    Child,
    /// Waiting for a file that is not a pipe of the run.
    File,
    /// Waiting for a terminal or device.
    Device,
    /// Stopped.
    Stopped,
    /// Blocked on something hidden.
    Unknown,
}

/// Whether a stage was mostly busy with reading pages that a limit of memory had taken away from it:
/// it waits for the disk then, or, where that is fast, computes in the kernel.
pub fn waits_for_pages(run: &Run, stage: &Stage) -> bool {
    let in_kernel_ns = stage.system_ns.min(stage.times.cpu_ns);
    let most = (stage.times.disk_ns + in_kernel_ns) * 2 > stage.times.busy_ns();
    most && short_of_memory(run, stage).is_some()
}

/// Returns the parts of a stage's busy time that are worth mentioning.
pub(super) fn busy(run: &Run, stage: &Stage, load: &StageLoad) -> Busy {
    if let Some(share) = starting_share(run, stage) {
        return Busy::Starting(share);
    }
    let times = &stage.times;
    let mut parts = [
        (BusyPart::Cpu, times.work_cpu_ns()),
        (BusyPart::Queue, times.work_queue_ns()),
        (BusyPart::Disk, times.disk_ns),
        (BusyPart::Sleep, times.sleep_ns),
        (BusyPart::Socket, times.network_ns),
        (BusyPart::Lock, times.lock_ns),
        (BusyPart::Child, times.child_ns - times.stage_child_ns),
        (BusyPart::File, times.file_ns),
        (BusyPart::Device, times.device_ns),
        (BusyPart::Stopped, times.stopped_ns),
        (BusyPart::Unknown, times.unknown_ns),
    ];
    let first = |part: BusyPart| load.paced && part == BusyPart::Sleep;
    parts.sort_by_key(|(part, ns)| core::cmp::Reverse((first(*part), *ns)));
    let shares = parts.into_iter().map(|(part, ns)| (part, run.share(ns))).enumerate();
    let worth = shares.filter(|(position, (_, share))| *position == 0 || *share >= WORTH);
    let parts = worth.take(MOST).map(|(_, part)| part).collect();
    if load.paced { Busy::Paced(parts) } else { Busy::Parts(parts) }
}
