//! The reasons why a stage was busy.

use crate::facts::{Run, Stage};
use crate::load::{Load, starting_share};
use alloc::vec::Vec;

/// Parts of a stage's time below this share are not mentioned.
const WORTH: f64 = 0.05;
/// Most parts that are mentioned.
const MOST: usize = 3;

/// What a stage was busy with.
#[derive(Clone, Debug, PartialEq)]
pub enum Busy {
    /// It started short processes for this share of the run.
    Starting(f64),
    /// It spent its time on these parts, the largest first, each with its share of the run.
    Parts(Vec<(Part, f64)>),
    /// It keeps to a rate: the same parts, but sleeping, which is its nature, comes first.
    Paced(Vec<(Part, f64)>),
}

/// A part of a stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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

/// Returns the parts of a stage's busy time that are worth mentioning.
pub(super) fn busy(run: &Run, stage: &Stage, load: &Load) -> Busy {
    if let Some(share) = starting_share(run, stage) {
        return Busy::Starting(share);
    }
    let times = &stage.times;
    let mut parts = [
        (Part::Cpu, times.cpu_ns),
        (Part::Queue, times.queue_ns),
        (Part::Disk, times.disk_ns),
        (Part::Sleep, times.sleep_ns),
        (Part::Socket, times.network_ns),
        (Part::Lock, times.lock_ns),
        (Part::Child, times.child_ns - times.stage_child_ns),
        (Part::File, times.file_ns),
        (Part::Device, times.device_ns),
        (Part::Stopped, times.stopped_ns),
        (Part::Unknown, times.unknown_ns),
    ];
    let first = |part: Part| load.paced && part == Part::Sleep;
    parts.sort_by_key(|(part, ns)| core::cmp::Reverse((first(*part), *ns)));
    let shares = parts.into_iter().map(|(part, ns)| (part, run.share(ns))).enumerate();
    let worth = shares.filter(|(position, (_, share))| *position == 0 || *share >= WORTH);
    let parts = worth.take(MOST).map(|(_, part)| part).collect();
    if load.paced { Busy::Paced(parts) } else { Busy::Parts(parts) }
}
