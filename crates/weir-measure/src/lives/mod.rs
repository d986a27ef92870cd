//! The lives of all processes of a run, however short, where the kernel tells them: who started
//! each, when it began and ended, and what it ran.
//!
//! Samples miss a process that lives for a millisecond. The kernel's events miss none, unless more
//! come than can be read; then it says so, and the numbers are lower bounds again.

mod adopt;
mod feed;

pub use adopt::Adopted;

use crate::attribution::{Births, Endpoints, ProcessRecord, ending_of, regular_file};
use crate::clock::Clock;
use crate::program::may_move_uncounted;
use feed::{EventKind, Feed, ProcessEvent, TaskAccount};
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use weir_sys::Pid;
use weir_sys::cpu::thread_ns;
use weir_sys::proc::{descriptor, words};

/// Most lives kept; later ones are not told, and the numbers are lower bounds.
const MOST_LIVES: usize = 50_000;
/// A look at a new program may take this share of one CPU (1/32), and this much at once.
const COST_SHIFT: u32 = 5;
const COST_NS: u64 = 20_000_000;

/// The life of a process.
#[derive(Debug, Default)]
pub struct Life {
    /// What the events told of it, and a look at each program that it became.
    pub record: ProcessRecord,
    /// Position of the life that started it.
    pub parent: Option<usize>,
    /// The group of the first process above it.
    pub group: usize,
    /// When it was started.
    pub start_ns: u64,
    /// When it ended, if it did before the run.
    pub end_ns: Option<u64>,
    /// Whether it became a program of its own.
    pub executed: bool,
    /// Whether a program that it became can move bytes that the kernel does not count, as far as
    /// anybody knows.
    pub may_splice: bool,
    /// CPU and waiting time of its ended tasks, to a clock tick.
    pub cpu_ns: u64,
    /// How long these were ready and had no CPU.
    pub queue_ns: u64,
    tasks: usize,
    /// Whether it has started others.
    starts: bool,
    /// Whether the kernel told of it.
    told: bool,
}

/// The lives of a run's processes.
#[derive(Debug)]
pub struct Lives {
    feed: Feed,
    all: Vec<Life>,
    /// The life of each task that was started and whose id no later one has.
    of: BTreeMap<Pid, usize>,
    /// Whether some were left out.
    cut: bool,
    spent_ns: u64,
}

impl Lives {
    /// Begins to listen; `None` where the kernel does not allow it.
    pub fn open() -> Option<Lives> {
        let feed = Feed::open()?;
        Some(Lives { feed, all: Vec::new(), of: BTreeMap::new(), cut: false, spent_ns: 0 })
    }

    /// Adds the first process of a group, which was started at `start_ns`.
    pub fn add(&mut self, pid: Pid, group: usize, start_ns: u64) {
        let record = ProcessRecord::new(pid);
        let life = Life { record, group, start_ns, tasks: 1, ..Life::default() };
        self.of.insert(pid, self.all.len());
        self.all.push(life);
    }

    /// Whether no process was missed. The events name processes of the first pid namespace: where
    /// the given ones are not among them, they are of another.
    pub fn are_complete(&self) -> bool {
        !self.feed.lost && !self.cut && self.all.iter().all(|life| life.told)
    }

    /// Whether the kernel dropped events.
    pub fn were_lost(&self) -> bool {
        self.feed.lost
    }

    /// What to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.feed.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
    }

    /// Iterates over the processes of which no end was told, with their starts. Where some may have
    /// been missed, there are none.
    pub fn alive(&self) -> impl Iterator<Item = (Pid, u64)> {
        let known = self.are_complete().then_some(&self.all).into_iter().flatten();
        known.filter(|life| life.end_ns.is_none()).map(|life| (life.record.pid, life.start_ns))
    }

    /// Iterates over those of one group of which no end was told, whether others were missed or not.
    pub fn alive_of(&self, group: usize) -> impl Iterator<Item = Pid> {
        let alive = self.all.iter().filter(move |life| life.group == group);
        alive.filter(|life| life.end_ns.is_none()).map(|life| life.record.pid)
    }

    /// Iterates over the processes above one, from the one that started it upwards, ended or not.
    pub fn above(&self, pid: Pid) -> impl Iterator<Item = Pid> {
        let above = |at: &usize| self.all[*at].parent;
        let own = self.of.get(&pid).copied();
        std::iter::successors(own, above).skip(1).map(|at| self.all[at].record.pid)
    }

    /// Returns when the first process of a group ended, if the kernel has told it.
    pub fn end_of(&self, root: Pid) -> Option<u64> {
        let mut known = self.are_complete().then_some(&self.all).into_iter().flatten();
        known.find(|life| life.parent.is_none() && life.record.pid == root)?.end_ns
    }

    /// Takes what is left when all stages have ended. Others on the host continue.
    pub fn take_rest(&mut self, clock: &Clock) {
        const MOST: usize = 16;
        let _ = (0..MOST).take_while(|_| self.take(clock)).count();
    }

    /// Takes the events that have come; returns whether there were any.
    pub fn take(&mut self, clock: &Clock) -> bool {
        let (events, accounts) = self.feed.take();
        let any = !events.is_empty() || !accounts.is_empty();
        for event in events {
            self.note(event, clock.at_ns(event.at_ns));
        }
        for account in accounts {
            self.settle(account);
        }
        any
    }

    /// Follows a clock that has gone back to `now_ns`: nothing can have happened later.
    pub fn turn_back(&mut self, now_ns: u64) {
        for life in &mut self.all {
            life.start_ns = life.start_ns.min(now_ns);
            life.end_ns = life.end_ns.map(|end_ns| end_ns.min(now_ns));
        }
    }

    fn note(&mut self, event: ProcessEvent, at_ns: u64) {
        match event.kind {
            // A given process is known already.
            EventKind::Fork(_) if self.is_root(event.task) => {
                if let Some(at) = self.of.get(&event.task) {
                    self.all[*at].told = true;
                }
            }
            EventKind::Fork(_) if event.task != event.pid => match self.of.get(&event.pid) {
                Some(life) => {
                    self.all[*life].tasks += 1;
                    self.of.insert(event.task, *life);
                }
                None => drop(self.of.remove(&event.task)),
            },
            EventKind::Fork(parent) => match self.of.get(&parent).copied() {
                Some(_) if self.all.len() >= MOST_LIVES => {
                    self.cut = true;
                    self.of.remove(&event.task);
                }
                Some(above) => {
                    let (record, group) = (ProcessRecord::new(event.pid), self.all[above].group);
                    let parent = Some(above);
                    let (start_ns, tasks, told) = (at_ns, 1, true);
                    let life =
                        Life { record, parent, group, start_ns, tasks, told, ..Life::default() };
                    self.of.insert(event.pid, self.all.len());
                    self.all[above].starts = true;
                    self.all.push(life);
                }
                None => drop(self.of.remove(&event.task)),
            },
            EventKind::Exec => self.sample(event.pid, at_ns),
            EventKind::Exit(status) => {
                if let Some(at) = self.of.get(&event.task) {
                    let life = &mut self.all[*at];
                    life.tasks = life.tasks.saturating_sub(1);
                    // A thread that ended alone may be told of after its process.
                    if event.task == life.record.pid {
                        life.record.ending = Some(ending_of(status));
                    }
                    if life.tasks == 0 {
                        life.end_ns = Some(at_ns);
                    }
                }
            }
        }
    }

    fn is_root(&self, task: Pid) -> bool {
        let life = self.of.get(&task).map(|at| &self.all[*at]);
        life.is_some_and(|life| life.parent.is_none() && life.end_ns.is_none())
    }

    /// Looks at a process that has just become another program. It may have ended already.
    fn sample(&mut self, pid: Pid, now_ns: u64) {
        let Some(at) = self.of.get(&pid) else { return };
        let life = &mut self.all[*at];
        let is_start = life.parent.is_none() && !life.executed;
        life.executed = true;
        life.record.became_ns = now_ns;
        let before = std::mem::take(&mut life.record.command);
        if life.starts {
            life.record.before.get_or_insert(before);
        }
        life.record.ends = Endpoints::default();
        life.record.output = None;
        // What a given process was started as is known, and it may be over by now.
        if is_start {
            return;
        }
        if self.spent_ns > COST_NS + (now_ns >> COST_SHIFT) {
            life.may_splice = true;
            return;
        }
        let begun_ns = thread_ns();
        // Its libraries are not there yet. What has ended could have been any program.
        life.may_splice |= may_move_uncounted(pid, false).unwrap_or(true);
        // What else a given process is, samples tell.
        if life.parent.is_none() {
            self.spent_ns += thread_ns().saturating_sub(begun_ns);
            return;
        }
        let ends = Endpoints { input: descriptor(pid, 0), output: descriptor(pid, 1) };
        let mut words = words(pid, 4096);
        // What is known in part only would look like a command without pipes.
        if !words.is_empty() && ends.input.is_some() && ends.output.is_some() {
            life.record.ends = ends;
            life.record.output = regular_file(pid, ends.output);
            words.retain(|word| !word.is_empty());
            life.record.command = words.join(" ");
        }
        self.spent_ns += thread_ns().saturating_sub(begun_ns);
    }

    fn settle(&mut self, account: TaskAccount) {
        let Some(at) = self.of.get(&account.task) else { return };
        let life = &mut self.all[*at];
        life.cpu_ns += account.cpu_ns;
        life.queue_ns += account.queue_ns;
        life.record.io = Some(life.record.io.unwrap_or_default().plus(account.io));
        // A thread may have a name of its own.
        if account.task == life.record.pid {
            life.record.program = account.program;
        }
    }

    /// Whether a process of this group became a program that can move bytes uncounted, as far as
    /// anybody knows.
    pub fn may_splice(&self, group: usize) -> bool {
        self.all.iter().any(|life| life.group == group && life.may_splice)
    }

    /// Counts the processes that were started, for each group that `of` gives for a life's starter.
    pub fn births(&self, of: &dyn Fn(&Life) -> Option<usize>, groups: usize) -> Vec<Births> {
        let mut births: Vec<Births> = (0..groups).map(|_| Births::complete()).collect();
        let mut spans: Vec<Vec<(u64, u64)>> = vec![Vec::new(); groups];
        for life in self.all.iter().filter(|life| life.parent.is_some()) {
            let Some(group) = of(life).filter(|at| *at < groups) else { continue };
            let end_ns = life.end_ns.unwrap_or(life.start_ns).max(life.start_ns);
            births[group].note(self.name(life), 2, end_ns - life.start_ns);
            spans[group].push((life.start_ns, end_ns));
        }
        for (births, mut spans) in births.iter_mut().zip(spans) {
            spans.sort();
            let mut until = 0;
            for (start, end) in spans {
                births.any_ns += end.saturating_sub(start.max(until));
                until = until.max(end);
            }
        }
        births
    }

    /// The program of a life: its own, or that of the process of which it is a copy.
    fn name<'a>(&'a self, mut life: &'a Life) -> &'a str {
        loop {
            let first = life.record.command.split(' ').next().unwrap_or_default();
            let known =
                [life.record.program.as_str(), first.rsplit('/').next().unwrap_or_default()];
            match (known.into_iter().find(|name| !name.is_empty()), life.parent) {
                (Some(name), _) => return name,
                (None, Some(parent)) if !life.executed => life = &self.all[parent],
                (None, _) => return "",
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Three hundred processes of a millisecond: samples would see a tenth of them.
    #[test]
    fn no_process_is_too_brief() {
        let Some(mut lives) = Lives::open() else {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        };
        let clock = Clock::start();
        let text = "for i in $(seq 300); do /bin/true; done; (:); /bin/echo a b >&2; exit 0";
        let mut shell = Command::new("bash").args(["-c", text]).spawn().expect("bash");
        lives.add(shell.id() as Pid, 0, clock.now_ns());
        shell.wait().expect("waited");
        lives.take_rest(&clock);
        assert!(lives.are_complete());
        // seq, its subshell's copy of bash, and the last two.
        assert_eq!(lives.all.iter().filter(|life| life.executed).count(), 1 + 300 + 1 + 1);
        assert_eq!(lives.all.len(), 1 + 1 + 300 + 1 + 1);
        let births = lives.births(&|life| Some(life.group), 1);
        assert_eq!(births[0].processes(), 303);
        assert!(lives.all[1..].iter().all(|life| life.end_ns >= Some(life.start_ns)));
    }

    /// Events that were taken before anybody had heard of a stop have times within it or after it.
    #[test]
    fn what_came_before_a_stop_was_heard_of_is_not_after_it() {
        let Some(mut lives) = Lives::open() else {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        };
        let mut clock = Clock::start();
        let heard_ns = clock.now_ns();
        lives.add(std::process::id() as Pid, 0, heard_ns);
        Command::new("true").status().expect("true");
        lives.take_rest(&clock);
        clock.leave_out_since(heard_ns);
        lives.turn_back(heard_ns);
        let within = |life: &&Life| (life.start_ns, life.end_ns) == (heard_ns, Some(heard_ns));
        assert_ne!(lives.all.iter().filter(within).count(), 0);
        // Other tests start processes too, before the stop was heard of.
        let late = |life: &&Life| life.start_ns.max(life.end_ns.unwrap_or(0)) > heard_ns;
        assert_eq!(lives.all.iter().filter(late).count(), 0);
    }

    /// The kernel tells of a program's start when the process that started it may already continue.
    /// That a program is over by then once made its count of bytes doubtful.
    #[test]
    fn the_start_of_a_given_process_tells_nothing_of_its_bytes() {
        let Some(mut lives) = Lives::open() else {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        };
        let clock = Clock::start();
        for group in 0..50 {
            let mut given = Command::new("true").spawn().expect("true");
            lives.add(given.id() as Pid, group, clock.now_ns());
            given.wait().expect("waited");
        }
        lives.take_rest(&clock);
        assert!(lives.all.iter().all(|life| life.executed && life.end_ns.is_some()));
        assert!((0..50).all(|group| !lives.may_splice(group)));
    }
}
