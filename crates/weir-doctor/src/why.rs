//! Why a process does not go on: what it waits for, what that waits for, and so on to the cause.
//!
//! [`walk`] follows the waits from process to process. It asks for the facts about each process that
//! it comes to, so it knows no clock and no `/proc`.

use crate::facts::{FileWait, HotStage, Peer, PeerKind};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// Most processes in a chain.
const MOST_LINKS: usize = 12;
/// Most processes that are looked at for one link.
const MOST_CANDIDATES: usize = 16;

/// A process and its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub pid: i32,
    /// Its command: the words, or the name of its program in brackets.
    pub command: String,
}

/// What one process does or waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// It computes, and used so many CPUs.
    Computes {
        /// The CPUs that it used, 1.0 for one.
        cpus: f64,
    },
    /// It is ready to run and waits for a CPU.
    Cpu {
        /// The share of the time in which it waited.
        share: f64,
    },
    /// Its control group has used up its CPU quota.
    Quota {
        /// The quota.
        cpus: f64,
    },
    /// Its control group is frozen.
    Frozen,
    /// It has ended, and its parent has not asked for its status.
    Ended {
        /// The parent.
        parent: Option<i32>,
    },
    /// A signal or a debugger stopped it.
    Stopped(Stop),
    /// A pipe or a FIFO.
    Pipe(PipeWait),
    /// The opening of a FIFO, for which another process must open its other end.
    Open {
        /// The FIFO.
        path: String,
    },
    /// A lock.
    Lock {
        /// The file that is locked; `None` for a lock in memory.
        path: Option<String>,
        /// The processes that hold it.
        holders: Vec<i32>,
    },
    /// A lock or a condition of another thread of its own.
    Threads,
    /// The end of a child.
    Child {
        /// Its children.
        children: Vec<i32>,
    },
    /// A socket.
    Socket {
        /// What is at its other end.
        peer: Box<Peer>,
        /// Whether it waits for room to send.
        writes: bool,
    },
    /// A file, a disk, a terminal or a device.
    File(FileWait),
    /// The time that it asked for.
    Sleep {
        /// How long it wanted to sleep in all.
        asked_ns: Option<u64>,
    },
    /// Any of several events.
    Events {
        /// The names of the things for which it waits, each once.
        of: Vec<String>,
    },
    /// It is a thread of the kernel.
    Kernel,
    /// Something else.
    Unknown {
        /// The function of the kernel in which it waits.
        kernel: Option<String>,
    },
    /// It may not be inspected.
    Hidden {
        /// The user to whom it belongs.
        uid: Option<u32>,
    },
}

/// What stopped a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A signal, where it is known.
    Signal(Option<i32>),
    /// A debugger.
    Debugger(i32),
}

/// A wait for a pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeWait {
    /// Whether it waits for room to write.
    pub writes: bool,
    /// The name, of a FIFO.
    pub path: Option<String>,
    /// Bytes in it.
    pub filled_bytes: Option<u64>,
    /// The processes that have its other end open.
    pub others: Vec<i32>,
    /// Whether the process has that end open itself.
    pub own: bool,
    /// Whether processes that could not be inspected may have it open.
    pub unseen: bool,
}

/// Output that a program keeps in a buffer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// So many bytes stand in its standard output buffer.
    Bytes(u64),
    /// Its run-time system gathers output in blocks, and it has written nothing yet.
    Perhaps,
}

/// The facts about one process.
#[derive(Clone, Debug, PartialEq)]
pub struct WhyLink {
    /// The process.
    pub named: Named,
    /// Its parent.
    pub parent: Option<Named>,
    /// What it waits for.
    pub wait: Cause,
    /// Output that it has not written yet.
    pub held_back: Option<HeldBack>,
    /// The functions in which it computes, if it does and they could be sampled.
    pub hot: Option<HotStage>,
}

/// The chain of waits from a process to the cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The process, what it waits for, and so on.
    pub links: Vec<WhyLink>,
    /// The position of the link for which the last one waits, if they wait in a circle.
    pub circle: Option<usize>,
    /// Whether the chain goes on beyond its last link.
    pub cut: bool,
}

impl Cause {
    /// Returns the processes for which it waits.
    pub fn others(&self) -> Vec<i32> {
        match self {
            Cause::Pipe(pipe) => pipe.others.clone(),
            Cause::Child { children } => children.clone(),
            Cause::Lock { holders, .. } => holders.clone(),
            Cause::Ended { parent } => parent.iter().copied().collect(),
            Cause::Stopped(Stop::Debugger(pid)) => Vec::from([*pid]),
            Cause::Socket { peer, .. } if peer.kind != PeerKind::Listening => {
                peer.pid.iter().copied().collect()
            }
            _ => Vec::new(),
        }
    }

    /// How much a wait says about why others wait for the process: of several, the one with the
    /// highest rank counts. A shell that waits for a child says least, since the child is among the
    /// others too, or has nothing to do with them.
    pub fn rank(&self) -> u32 {
        match self {
            Cause::Computes { .. } => 13,
            Cause::Cpu { .. } | Cause::Quota { .. } | Cause::Frozen => 12,
            Cause::File(_) | Cause::Open { .. } => 11,
            Cause::Pipe(_) => 10,
            Cause::Lock { .. } => 9,
            Cause::Socket { .. } => 8,
            Cause::Stopped(_) => 7,
            Cause::Sleep { .. } => 6,
            Cause::Events { .. } => 5,
            Cause::Threads => 4,
            Cause::Unknown { .. } => 3,
            Cause::Child { .. } => 2,
            Cause::Hidden { .. } | Cause::Kernel => 1,
            Cause::Ended { .. } => 0,
        }
    }
}

/// Follows the waits from process `start`. `look` returns the facts about a process, or `None` when
/// it has ended.
pub fn walk(start: i32, mut look: impl FnMut(i32) -> Option<WhyLink>) -> Option<Why> {
    let mut links = Vec::from([look(start)?]);
    loop {
        let last = &links[links.len() - 1];
        let others = last.wait.others();
        let in_chain = |pid: i32| links.iter().position(|link| link.named.pid == pid);
        // Who waits in a circle waits for nothing else, unless another can end the wait.
        let known = others.iter().find_map(|pid| in_chain(*pid));
        let new = others.iter().filter(|pid| in_chain(**pid).is_none()).take(MOST_CANDIDATES);
        let found: Vec<WhyLink> = new.filter_map(|pid| look(*pid)).collect();
        // The first of equals: later ones are more often only helpers.
        let best = found
            .into_iter()
            .reduce(|best, one| if one.wait.rank() > best.wait.rank() { one } else { best });
        match (best, known) {
            (Some(best), None) => links.push(best),
            (Some(best), Some(_)) if can_end_it(&best.wait) => links.push(best),
            (_, Some(at)) => return Some(Why { links, circle: Some(at), cut: false }),
            (None, None) => return Some(Why { links, circle: None, cut: false }),
        }
        if links.len() >= MOST_LINKS {
            return Some(Why { links, circle: None, cut: true });
        }
    }
}

/// Whether a process in this state may go on by itself.
fn can_end_it(wait: &Cause) -> bool {
    matches!(
        wait,
        Cause::Computes { .. }
            | Cause::Cpu { .. }
            | Cause::Quota { .. }
            | Cause::Sleep { .. }
            | Cause::File(_)
    )
}

/// Returns what decides for a process of several threads, from what each waits for, the first one
/// first.
pub fn decisive(waits: Vec<Cause>) -> Option<Cause> {
    waits.into_iter().reduce(|best, one| if one.rank() > best.rank() { one } else { best })
}

#[cfg(test)]
mod tests;
