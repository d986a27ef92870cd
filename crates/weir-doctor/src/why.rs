//! Why a process does not continue: what it waits for, what that waits for, and so on to the cause.
//!
//! [`walk`] follows the waits from process to process. It asks for the facts about each process that
//! it comes to, so it knows no clock and no `/proc`.

use crate::facts::{FileWait, HotStage, Peer, PeerKind};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

/// Most processes in a chain.
const MOST_LINKS: usize = 12;
/// Most processes that are looked at for one link.
const MOST_CANDIDATES: usize = 16;
/// Most processes that are followed in search of a way out of circles.
const MOST_FOLLOWED: usize = 32;

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
    /// Its control group, or one above it, is frozen.
    Frozen {
        /// The files that say so, and with which they are thawed.
        files: Vec<String>,
    },
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
        /// Processes of its session that wait for the opening of another FIFO: they may be those that
        /// are to open this one, and it one that is to open theirs.
        others: Vec<i32>,
    },
    /// A lock.
    Lock {
        /// The file that is locked; `None` for a lock in memory.
        path: Option<String>,
        /// The other processes that hold it.
        holders: Vec<i32>,
        /// Whether the process holds it itself.
        own: bool,
    },
    /// A short time, again and again, while others hold a lock on a file that it has open.
    Polls {
        /// The file.
        path: Option<String>,
        /// The other processes that hold the lock.
        holders: Vec<i32>,
    },
    /// A semaphore of System V, which any process that may use it can raise.
    Semaphore,
    /// A message queue.
    Queue {
        /// Its name, of a queue of POSIX.
        path: Option<String>,
        /// Whether it waits for room, and not for a message.
        writes: bool,
    },
    /// A lock or a condition in its own memory.
    Threads {
        /// Whether it has no other thread.
        alone: bool,
        /// Whether it waits for a limited time.
        timed: bool,
    },
    /// The end of a child.
    Child {
        /// Its children.
        children: Vec<i32>,
        /// Whether the process that looks is one of them: then the others say nothing.
        looker: bool,
    },
    /// The end, or the `exec`, of a child that uses its memory until then (`vfork`).
    Vfork {
        /// The child.
        child: Option<i32>,
    },
    /// The end of any of these processes, which need not be its children.
    Ends {
        /// The processes.
        of: Vec<i32>,
    },
    /// A connection that it asked for.
    Connect {
        /// To what.
        peer: Box<Peer>,
        /// The processes that listen there and have taken no connection for a while.
        listeners: Vec<i32>,
    },
    /// A socket.
    Socket {
        /// What is at its other end.
        peer: Box<Peer>,
        /// The other processes that have the other end open, if it is one of this host.
        owners: Vec<i32>,
        /// Whether only the process itself has that end open.
        own: bool,
        /// Whether more have it open than these.
        more: bool,
        /// Whether it waits for room to send.
        writes: bool,
    },
    /// More to do of a server: it has not answered the one before it, and nothing else of it was seen.
    Unanswered,
    /// A file, a disk, a terminal or a device.
    File {
        /// Which.
        wait: FileWait,
        /// Whether it waits for room to write; `None` where it neither reads nor writes.
        writes: Option<bool>,
    },
    /// The answering side of a pseudo-terminal, as a terminal emulator, `script` or `sshd` has it.
    Terminal {
        /// The other side.
        path: String,
        /// The other processes that have the other side open.
        holders: Vec<i32>,
        /// Whether it waits for room in the input of those.
        writes: bool,
    },
    /// A signal.
    Signal {
        /// How long it waits at most.
        most_ns: Option<u64>,
        /// The children whose end is one of those signals.
        children: Vec<i32>,
    },
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
    /// A signal that is not known, in a read from its terminal, in whose background it is.
    InBackground,
    /// A debugger.
    Debugger(i32),
}

/// A wait for a pipe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipeWait {
    /// The number of the pipe.
    pub inode: u64,
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
    /// Whether the process that looks has it open, which is not among the others.
    pub looker: bool,
    /// Whether processes that could not be inspected may have it open.
    pub unseen: bool,
}

/// Output that a program keeps in a buffer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// So many bytes are in its standard output buffer.
    Bytes(u64),
    /// Its run-time system gathers output in blocks, and it has written nothing yet.
    Perhaps,
}

/// A thread that waits for a lock, a condition or the end of a thread of its own process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckThread {
    /// Its id.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// What it lacks, where that is known.
    pub lacks: Option<Lacks>,
}

/// What a thread lacks that waits for another one of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// A lock that this thread holds.
    Lock(i32),
    /// The end of this thread.
    End(i32),
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
    /// What else its threads do, where it waits for somebody to connect to it.
    pub beside: Option<Cause>,
    /// Whether something else may let it continue: another thread, another descriptor, a time.
    pub has_way_out: bool,
    /// The share of the time in which it did that, if it ran meanwhile.
    pub share: Option<f64>,
    /// Where it waits for its own threads: those that wait for each other, for no limited time.
    pub threads: Vec<StuckThread>,
    /// For how long it has not run, where that is known.
    pub still_ns: Option<u64>,
    /// Whether the process that started it has ended and left it running.
    pub left: bool,
    /// The process that traces it.
    pub tracer: Option<Named>,
    /// Output that it has not written yet, if it wrote nothing meanwhile.
    pub held_back: Option<HeldBack>,
    /// The functions in which it computes, if it does and they could be sampled.
    pub hot: Option<HotStage>,
}

impl WhyLink {
    /// Returns the other processes for which it waits. One that has both ends of a socket open, as
    /// of a pair that it made, does not wait for itself.
    pub fn others(&self) -> Vec<i32> {
        let mut others = self.wait.others();
        others.retain(|pid| *pid != self.named.pid);
        others
    }

    /// Returns it as the process that somebody waits for: that one has connected to it, so it is not for want of
    /// others who do that it does not answer.
    fn asked_by(mut self, asker: &WhyLink) -> WhyLink {
        let asks = matches!(asker.wait, Cause::Socket { .. }) && !asker.wait.is_for_clients();
        if asks && self.wait.is_for_clients() {
            self.wait = self.beside.take().unwrap_or(Cause::Unanswered);
        }
        self
    }

    /// Whether it waits for more to do, and not for room, a lock or the end of another: only then can
    /// output that it keeps in its own buffer be what others wait for.
    pub fn waits_for_more(&self) -> bool {
        match &self.wait {
            Cause::Pipe(PipeWait { writes, .. }) | Cause::Socket { writes, .. } => !writes,
            Cause::Queue { writes, .. } | Cause::Terminal { writes, .. } => !writes,
            Cause::File { writes, .. } => *writes != Some(true),
            Cause::Sleep { .. } | Cause::Events { .. } => true,
            _ => false,
        }
    }
}

/// The chain of waits from a process to the cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The process, what it waits for, and so on.
    pub links: Vec<WhyLink>,
    /// The position of the link for which the last one waits, if they wait in a circle.
    pub circle: Option<usize>,
    /// Whether the chain continues beyond its last link.
    pub cut: bool,
    /// Processes at which nobody looked in search of the other ends: they are too many.
    pub left_out: usize,
}

impl Why {
    /// Returns the position of a process that was left running, alone has the other end of a pipe open
    /// that the one before it reads, and keeps the end of file from it.
    pub fn left_open(&self) -> Option<usize> {
        let is_left = |pair: &[WhyLink]| match &pair[0].wait {
            Cause::Pipe(PipeWait { writes, others, own, unseen, .. }) => {
                !writes && !own && !unseen && pair[1].left && *others == [pair[1].named.pid]
            }
            _ => false,
        };
        Some(self.links.windows(2).position(is_left)? + 1)
    }

    /// Whether the answer is worth telling unasked of processes that stand still: not where all wait
    /// for one that computes, sleeps or waits for events as it was told to.
    pub fn is_stall(&self) -> bool {
        let Some((last, before)) = self.links.split_last() else { return false };
        let as_told = |link: &WhyLink| match &link.wait {
            Cause::Pipe(pipe) => !pipe.writes,
            Cause::Child { .. } | Cause::Ends { .. } | Cause::Signal { .. } => true,
            _ => false,
        };
        let ends_as_told = match &last.wait {
            Cause::Socket { .. } => last.wait.is_for_clients(),
            Cause::Unanswered => true,
            Cause::Threads { .. } => last.threads.is_empty(),
            Cause::Sleep { .. } | Cause::Events { .. } | Cause::Signal { .. } => true,
            Cause::Computes { .. } | Cause::Cpu { .. } | Cause::Quota { .. } => true,
            Cause::Child { .. } | Cause::Ends { .. } | Cause::Kernel => true,
            Cause::Unknown { .. } | Cause::Hidden { .. } => before.is_empty(),
            _ => false,
        };
        let is_told = ends_as_told && !last.left && before.iter().all(as_told);
        !is_told || self.circle.is_some()
    }
}

impl Cause {
    /// Returns the processes for which it waits, which may be the process itself.
    fn others(&self) -> Vec<i32> {
        match self {
            Cause::Pipe(pipe) => pipe.others.clone(),
            Cause::Child { children, .. } | Cause::Signal { children, .. } => children.clone(),
            Cause::Terminal { holders, .. } => holders.clone(),
            Cause::Vfork { child } => child.iter().copied().collect(),
            Cause::Ends { of } => of.clone(),
            Cause::Connect { listeners, .. } => listeners.clone(),
            Cause::Lock { holders, .. } | Cause::Polls { holders, .. } => holders.clone(),
            Cause::Ended { parent } => parent.iter().copied().collect(),
            Cause::Open { others, .. } => others.clone(),
            Cause::Stopped(Stop::Debugger(pid)) => Vec::from([*pid]),
            Cause::Socket { peer, owners, .. } if peer.kind != PeerKind::Listening => {
                // Who listens is known where nobody has taken the connection yet.
                let listener = peer.pid.filter(|_| owners.is_empty());
                owners.iter().copied().chain(listener).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it waits for somebody to connect to it.
    pub fn is_for_clients(&self) -> bool {
        matches!(self, Cause::Socket { peer, .. } if peer.kind == PeerKind::Listening)
    }

    /// Whether this wait of another thread, or for another descriptor, may end although what is
    /// waited `beside` it for never comes.
    pub fn is_way_out(&self, beside: &Cause) -> bool {
        match self {
            Cause::Threads { timed, .. } => *timed,
            // Another signal may come, and others may write to a terminal than have it open.
            Cause::Signal { .. } | Cause::Terminal { .. } | Cause::Socket { more: true, .. } => {
                true
            }
            // TCP gives up what nobody answers.
            Cause::Connect { peer, .. } if peer.kind != PeerKind::Unix => true,
            _ if self.is_own() => false,
            _ => {
                let (own, same) = (self.others(), beside.others());
                own.is_empty() || !own.iter().all(|pid| same.contains(pid))
            }
        }
    }

    /// Whether it waits for a pipe or a socket of which nobody else has the other end: a line by
    /// which its threads and signals wake its loop.
    pub fn is_own(&self) -> bool {
        match self {
            Cause::Pipe(pipe) => pipe.own && pipe.others.is_empty(),
            Cause::Socket { own, .. } => *own,
            _ => false,
        }
    }

    /// How much a wait of a thread says about what its process waits for: that for another process
    /// says more than those for its own threads, a time or a signal.
    fn weight(&self) -> u32 {
        match self {
            Cause::Child { .. } | Cause::Vfork { .. } | Cause::Ends { .. } => 2 * 6 + 1,
            _ => 2 * self.rank(),
        }
    }

    /// How much a wait says about why others wait for the process: of several, the one with the
    /// highest rank counts. A shell that waits for a child says least, since the child is among the
    /// others too, or has nothing to do with them.
    pub fn rank(&self) -> u32 {
        match self {
            Cause::Computes { .. } => 14,
            Cause::Cpu { .. } | Cause::Quota { .. } | Cause::Frozen { .. } => 13,
            // More than that somebody may type, for which `script` waits too.
            Cause::Terminal { .. } => 12,
            Cause::File { .. } | Cause::Open { .. } => 11,
            // Who reads what the looker writes says nothing about others.
            Cause::Pipe(pipe) if pipe.looker && pipe.others.is_empty() => 1,
            // So does a pipe to itself: a thread or a signal of its own writes to it.
            _ if self.is_own() => 4,
            Cause::Pipe(_) => 10,
            Cause::Lock { .. } | Cause::Polls { .. } => 9,
            // What else a server waits for says more.
            _ if self.is_for_clients() => 7,
            Cause::Socket { .. } | Cause::Connect { .. } => 8,
            Cause::Semaphore | Cause::Queue { .. } => 8,
            Cause::Stopped(_) => 7,
            Cause::Sleep { .. } => 6,
            Cause::Events { .. } | Cause::Signal { .. } | Cause::Unanswered => 5,
            Cause::Threads { .. } => 4,
            Cause::Unknown { .. } => 3,
            Cause::Child { .. } | Cause::Vfork { .. } | Cause::Ends { .. } => 2,
            Cause::Hidden { .. } | Cause::Kernel => 1,
            Cause::Ended { .. } => 0,
        }
    }
}

/// Follows the waits from process `start`. `look` returns the facts about a process, or `None` when
/// it has ended.
///
/// Any of several processes can end most waits. So a circle counts as one only when each way out of
/// it was followed and led back into it.
pub fn walk(start: i32, look: impl FnMut(i32) -> Option<WhyLink>) -> Option<Why> {
    let mut looks = Links { look, known: BTreeMap::new() };
    let mut chain = Chain { links: Vec::from([looks.at(start)?]), followed: BTreeSet::new() };
    chain.followed.insert(start);
    let mut circle: Option<(Why, usize)> = None;
    loop {
        if let Some(next) = chain.next(chain.links.len() - 1, &mut looks) {
            chain.followed.insert(next.named.pid);
            chain.links.push(next);
            let cut = chain.links.len() >= MOST_LINKS || chain.followed.len() >= MOST_FOLLOWED;
            match cut {
                true => return Some(Why { cut, ..open(chain.links) }),
                false => continue,
            }
        }
        let back = chain.back();
        let (first, from) = match (circle, back) {
            (None, Some(at)) => (Why { circle: back, ..open(chain.links.clone()) }, at),
            (Some((first, from)), _) if back.is_some() || chain.is_dead_end() => {
                (first, from.min(back.unwrap_or(from)))
            }
            _ => return Some(open(chain.links)),
        };
        if chain.links[from..].iter().any(|link| link.has_way_out) {
            return Some(open(chain.links));
        }
        let last = chain.links.len() - 1;
        let Some(way_out) = (from..last).rev().find(|at| chain.next(*at, &mut looks).is_some())
        else {
            return Some(first);
        };
        chain.links.truncate(way_out + 1);
        circle = Some((first, from));
    }
}

/// A chain that ends at its last link.
fn open(links: Vec<WhyLink>) -> Why {
    Why { links, circle: None, cut: false, left_out: 0 }
}

/// The facts about the processes that were looked at, so that each is looked at once.
struct Links<L> {
    look: L,
    known: BTreeMap<i32, Option<WhyLink>>,
}

impl<L: FnMut(i32) -> Option<WhyLink>> Links<L> {
    fn at(&mut self, pid: i32) -> Option<WhyLink> {
        self.known.entry(pid).or_insert_with(|| (self.look)(pid)).clone()
    }
}

/// The chain so far.
struct Chain {
    links: Vec<WhyLink>,
    /// The processes that are in it, or were before it turned back.
    followed: BTreeSet<i32>,
}

impl Chain {
    fn position(&self, pid: i32) -> Option<usize> {
        self.links.iter().position(|link| link.named.pid == pid)
    }

    /// Returns the position of the link for which the last one waits, if it waits for one.
    fn back(&self) -> Option<usize> {
        let others = self.links.last()?.others();
        others.iter().find_map(|pid| self.position(*pid))
    }

    /// Whether the last link waits for a process that was followed before, in vain.
    fn is_dead_end(&self) -> bool {
        let others = self.links.last().map(WhyLink::others).unwrap_or_default();
        others.iter().any(|pid| self.followed.contains(pid))
    }

    /// Returns the process with which the chain continues from a link: of those that were not
    /// followed yet, the one that says most.
    fn next(
        &self,
        at: usize,
        looks: &mut Links<impl FnMut(i32) -> Option<WhyLink>>,
    ) -> Option<WhyLink> {
        let link = &self.links[at];
        let others = link.others();
        let tried = others.iter().any(|pid| self.followed.contains(pid));
        // All who hold a lock must let go of it, so one of them in a circle is enough.
        if tried && matches!(link.wait, Cause::Lock { .. }) {
            return None;
        }
        let new = others.iter().filter(|pid| !self.followed.contains(pid)).take(MOST_CANDIDATES);
        let found = new.filter_map(|pid| Some(looks.at(*pid)?.asked_by(link)));
        // Who has ended ends no wait of others.
        let found = found.filter(|one| !tried || !matches!(one.wait, Cause::Ended { .. }));
        // The first of equals: later ones are more often only helpers.
        found.reduce(|best, one| if one.wait.rank() > best.wait.rank() { one } else { best })
    }
}

/// Returns what decides for a process of several threads, from what each waits for, the first one
/// first.
pub fn decisive(waits: Vec<Cause>) -> Option<Cause> {
    waits.into_iter().reduce(|best, one| if one.weight() > best.weight() { one } else { best })
}

/// Returns what threads of a server do beside waiting for clients, from what each of its threads waits for: one
/// that waits for another thread, or for more to do, does nothing.
pub fn beside(waits: Vec<Cause>) -> Option<Cause> {
    let does = |wait: &Cause| {
        let idle =
            matches!(wait, Cause::Threads { .. } | Cause::Events { .. } | Cause::Unknown { .. });
        !idle && !wait.is_for_clients() && !wait.is_own()
    };
    decisive(waits.into_iter().filter(does).collect())
}

#[cfg(test)]
mod tests;
