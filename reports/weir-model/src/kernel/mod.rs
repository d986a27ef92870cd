//! A kernel in virtual time: processes that are scripts, CPUs, sleeping and waking, and devices.
//!
//! A [`Script`] says step by step what its process does next. Kernel code is never preempted, as in
//! V6 and in Linux 2.4; on its way back to user mode a process gives way if `discipline` says so.
//! What the processes share (a buffer cache, a pipe, a disk) is the kernel's [`World`].

mod discipline;
pub mod loops;

pub use discipline::{Discipline, Linux, Queues, V6};

use crate::heap::EventHeap;

/// The number of a process.
pub type Pid = usize;
/// What a process sleeps on.
pub type WaitChannel = u64;

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It spends this time in the kernel.
    Kernel(u64),
    /// It returns to user mode and spends this time there.
    User(u64),
    /// It sleeps until somebody wakes this channel; the priority holds when it is woken.
    Sleep(WaitChannel, i32),
    /// It gives up the CPU and stays ready to run.
    Yield,
    /// It ends.
    Exit,
}

/// What a process does.
pub trait Script<W: World> {
    /// Returns what comes next. The kernel calls this when the step before is over.
    fn step(&mut self, sys: &mut Sys<W>, me: Pid) -> Step;
}

/// What processes share, and what happens in it without them.
pub trait World: Sized {
    /// What a device or a timer reports.
    type Event;
    /// Handles an event of a device. Returns the CPU time that its interrupt takes.
    fn on(sys: &mut Sys<Self>, event: Self::Event) -> u64;
}

/// Whether a process runs, can run or sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcState {
    /// On a CPU.
    Running(usize),
    /// Ready to run.
    Ready,
    /// Asleep.
    Asleep(WaitChannel),
    /// Ended.
    Ended,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Proc {
    /// Whether it runs.
    pub state: ProcState,
    /// Its priority: the least runs first.
    pub priority: i32,
    /// Recent use of the CPU, in ticks.
    pub recent: u32,
    /// What is left of its time slice, in ticks (Linux).
    pub slice: i64,
    /// User time that was interrupted.
    rest_ns: u64,
    /// The CPU it last ran on.
    pub last_cpu: usize,
    /// Time spent in user mode.
    pub user_ns: u64,
    /// Time spent in the kernel.
    pub system_ns: u64,
    /// Clock ticks that found it in user mode, and in the kernel.
    pub ticks: (u64, u64),
    /// When it ended.
    pub ended_ns: Option<u64>,
    /// How often it was given a CPU.
    pub dispatched: u64,
}

/// A CPU.
#[derive(Clone, Debug, Default)]
pub struct Cpu {
    /// The process that runs.
    pub current: Option<Pid>,
    /// The priority with which that was chosen.
    pub chosen_priority: i32,
    /// Whether the process gives way before it returns to user mode.
    pub resched: bool,
    /// Whether the present burst is in user mode.
    user: bool,
    /// Counts bursts: the end of an older one is void.
    turn: u64,
    begun_ns: u64,
    until_ns: u64,
    /// The process of the last dispatch, after which the next search begins.
    last: Pid,
    /// Whether a dispatch is on its way to this idle CPU.
    roused: bool,
}

enum KernelEvent<E> {
    Burst { cpu: usize, turn: u64 },
    Rouse(usize),
    Tick,
    Device(E),
}

/// The kernel without its scripts: what a script may see and change.
pub struct Sys<W: World> {
    /// The time.
    pub now_ns: u64,
    /// What the processes share.
    pub world: W,
    /// The processes.
    pub procs: Vec<Proc>,
    /// The CPUs.
    pub cpus: Vec<Cpu>,
    /// How a process is chosen.
    pub discipline: Discipline,
    heap: EventHeap<KernelEvent<W::Event>>,
    ticks: u64,
}

/// A kernel with its scripts.
pub struct Sim<W: World> {
    /// The kernel.
    pub sys: Sys<W>,
    scripts: Vec<Option<Box<dyn Script<W>>>>,
}

impl<W: World> Sys<W> {
    /// Has the world told of an event after this time.
    pub fn after(&mut self, ns: u64, event: W::Event) {
        self.heap.push(self.now_ns + ns, KernelEvent::Device(event));
    }

    /// Wakes all processes that sleep on a channel, and returns how many did.
    pub fn wake(&mut self, channel: WaitChannel) -> usize {
        let mut woken = 0;
        for pid in 0..self.procs.len() {
            if self.procs[pid].state == ProcState::Asleep(channel) {
                self.ready(pid);
                woken += 1;
            }
        }
        woken
    }

    /// Wakes all processes that sleep on a channel, by one who is about to sleep: no CPU is told,
    /// and they run where one becomes free. Returns how many there were.
    pub fn wake_sync(&mut self, channel: WaitChannel) -> usize {
        let is_there = |pid: &Pid| self.procs[*pid].state == ProcState::Asleep(channel);
        let woken: Vec<Pid> = (0..self.procs.len()).filter(is_there).collect();
        woken.iter().for_each(|&pid| self.queue(pid));
        woken.len()
    }

    /// Wakes one process that sleeps on a channel.
    pub fn wake_one(&mut self, channel: WaitChannel) -> bool {
        let found = self.procs.iter().position(|proc| proc.state == ProcState::Asleep(channel));
        if let Some(pid) = found {
            self.ready(pid);
        }
        found.is_some()
    }

    /// Lets a process wait for a CPU.
    fn queue(&mut self, pid: Pid) {
        self.procs[pid].state = ProcState::Ready;
        self.discipline.queue(pid, &self.procs);
    }

    fn ready(&mut self, pid: Pid) {
        self.queue(pid);
        if let Some((cpu, delay_ns)) = self.discipline.woken(pid, &self.procs, &mut self.cpus) {
            self.rouse(cpu, delay_ns);
        }
    }

    fn rouse(&mut self, cpu: usize, delay_ns: u64) {
        if self.cpus[cpu].current.is_none() && !self.cpus[cpu].roused {
            self.cpus[cpu].roused = true;
            self.heap.push(self.now_ns + delay_ns, KernelEvent::Rouse(cpu));
        }
    }

    /// Returns how many events the kernel has handled or holds.
    pub fn events(&self) -> u64 {
        self.heap.pushed()
    }

    fn begin(&mut self, cpu: usize, user: bool, ns: u64) {
        let now_ns = self.now_ns;
        let at = &mut self.cpus[cpu];
        (at.user, at.begun_ns, at.until_ns) = (user, now_ns, now_ns + ns);
        at.turn += 1;
        self.heap.push(now_ns + ns, KernelEvent::Burst { cpu, turn: at.turn });
    }

    /// Ends the burst of a CPU, and accounts for it.
    fn account(&mut self, cpu: usize) -> Option<Pid> {
        let now_ns = self.now_ns;
        let at = &mut self.cpus[cpu];
        // An interrupt moves the beginning of a burst into the future.
        let spent = now_ns.saturating_sub(at.begun_ns);
        at.begun_ns = at.begun_ns.max(now_ns);
        let pid = at.current?;
        let proc = &mut self.procs[pid];
        *if at.user { &mut proc.user_ns } else { &mut proc.system_ns } += spent;
        Some(pid)
    }

    /// Takes time for an interrupt out of what a CPU does.
    fn interrupt(&mut self, cpu: usize, ns: u64) {
        if ns == 0 || self.cpus[cpu].current.is_none() {
            return;
        }
        if let Some(pid) = self.account(cpu) {
            self.procs[pid].system_ns += ns;
        }
        let at = &self.cpus[cpu];
        let (left, user, begun_ns) = (at.until_ns - self.now_ns, at.user, at.begun_ns);
        self.begin(cpu, user, left + ns);
        self.cpus[cpu].begun_ns = begun_ns + ns;
    }

    fn tick(&mut self) {
        self.ticks += 1;
        for at in &mut self.cpus {
            if let Some(pid) = at.current {
                let ticks = &mut self.procs[pid].ticks;
                *if at.user { &mut ticks.0 } else { &mut ticks.1 } += 1;
            }
        }
        self.discipline.tick(self.ticks, &mut self.procs, &mut self.cpus);
        let every_ns = self.discipline.tick_ns();
        self.heap.push(self.now_ns + every_ns, KernelEvent::Tick);
    }
}

impl<W: World> Sim<W> {
    /// Makes a kernel without processes.
    pub fn new(world: W, cpus: usize, discipline: Discipline) -> Sim<W> {
        let mut heap = EventHeap::default();
        heap.push(discipline.tick_ns(), KernelEvent::Tick);
        let cpus = vec![Cpu::default(); cpus.max(1)];
        let sys = Sys { now_ns: 0, world, procs: Vec::new(), cpus, discipline, heap, ticks: 0 };
        Sim { sys, scripts: Vec::new() }
    }

    /// Starts a process.
    pub fn spawn(&mut self, script: impl Script<W> + 'static) -> Pid {
        let pid = self.sys.procs.len();
        let (priority, slice) = self.sys.discipline.first();
        self.sys.procs.push(Proc {
            state: ProcState::Ready,
            priority,
            recent: 0,
            slice,
            rest_ns: 0,
            last_cpu: pid % self.sys.cpus.len(),
            user_ns: 0,
            system_ns: 0,
            ticks: (0, 0),
            ended_ns: None,
            dispatched: 0,
        });
        self.scripts.push(Some(Box::new(script)));
        self.sys.ready(pid);
        pid
    }

    /// Runs until all these processes have ended, or until this time, or until nothing can happen any
    /// more. Returns whether the processes have ended.
    pub fn run(&mut self, until: &[Pid], most_ns: u64) -> bool {
        let ended =
            |sys: &Sys<W>| until.iter().all(|&pid| sys.procs[pid].state == ProcState::Ended);
        while !ended(&self.sys) || until.is_empty() {
            let Some((at_ns, what)) = self.sys.heap.pop() else { return false };
            if at_ns > most_ns {
                self.sys.heap.push(at_ns, what);
                self.sys.now_ns = most_ns;
                return false;
            }
            self.sys.now_ns = at_ns;
            match what {
                KernelEvent::Burst { cpu, turn } if turn == self.sys.cpus[cpu].turn => {
                    self.burst(cpu)
                }
                KernelEvent::Burst { .. } => {}
                KernelEvent::Rouse(cpu) => {
                    self.sys.cpus[cpu].roused = false;
                    if self.sys.cpus[cpu].current.is_none() {
                        self.dispatch(cpu);
                    }
                }
                KernelEvent::Tick => {
                    self.sys.tick();
                    self.preempt();
                }
                KernelEvent::Device(event) => {
                    let ns = W::on(&mut self.sys, event);
                    self.sys.interrupt(0, ns);
                    self.preempt();
                }
            }
        }
        true
    }

    /// Takes the CPU from processes in user mode that are to give way.
    fn preempt(&mut self) {
        for cpu in 0..self.sys.cpus.len() {
            let at = &self.sys.cpus[cpu];
            if !(at.resched && at.user && at.current.is_some()) {
                continue;
            }
            let left = at.until_ns - self.sys.now_ns.max(at.begun_ns);
            if let Some(pid) = self.sys.account(cpu) {
                self.sys.procs[pid].rest_ns = left.max(1);
                self.sys.queue(pid);
            }
            self.dispatch(cpu);
        }
    }

    /// Continues after a burst.
    fn burst(&mut self, cpu: usize) {
        let Some(pid) = self.sys.account(cpu) else { return };
        let rest = std::mem::take(&mut self.sys.procs[pid].rest_ns);
        if rest > 0 {
            return self.sys.begin(cpu, true, rest);
        }
        self.advance(cpu, pid);
    }

    fn advance(&mut self, cpu: usize, pid: Pid) {
        let Some(mut script) = self.scripts[pid].take() else { return };
        loop {
            let step = script.step(&mut self.sys, pid);
            match step {
                Step::Kernel(0) => continue,
                Step::Kernel(ns) => self.sys.begin(cpu, false, ns),
                Step::User(ns) => {
                    let sys = &mut self.sys;
                    sys.discipline.to_user(pid, &mut sys.procs, &mut sys.cpus[cpu]);
                    if !sys.cpus[cpu].resched {
                        if ns == 0 {
                            continue;
                        }
                        sys.begin(cpu, true, ns);
                    } else {
                        sys.procs[pid].rest_ns = ns.max(1);
                        sys.queue(pid);
                        self.scripts[pid] = Some(script);
                        return self.dispatch(cpu);
                    }
                }
                Step::Sleep(channel, priority) => {
                    let proc = &mut self.sys.procs[pid];
                    (proc.state, proc.priority) = (ProcState::Asleep(channel), priority);
                    self.scripts[pid] = Some(script);
                    return self.dispatch(cpu);
                }
                Step::Yield => {
                    self.sys.queue(pid);
                    self.scripts[pid] = Some(script);
                    return self.dispatch(cpu);
                }
                Step::Exit => {
                    let now_ns = self.sys.now_ns;
                    let proc = &mut self.sys.procs[pid];
                    (proc.state, proc.ended_ns) = (ProcState::Ended, Some(now_ns));
                    return self.dispatch(cpu);
                }
            }
            break;
        }
        self.scripts[pid] = Some(script);
    }

    /// Gives a CPU to the process that the discipline chooses.
    fn dispatch(&mut self, cpu: usize) {
        let sys = &mut self.sys;
        sys.cpus[cpu].resched = false;
        sys.cpus[cpu].turn += 1;
        let last = sys.cpus[cpu].last;
        let Some((pid, switch_ns)) = sys.discipline.choose(cpu, last, &mut sys.procs) else {
            sys.cpus[cpu].current = None;
            return;
        };
        let proc = &mut sys.procs[pid];
        proc.state = ProcState::Running(cpu);
        proc.last_cpu = cpu;
        proc.dispatched += 1;
        let at = &mut sys.cpus[cpu];
        (at.current, at.chosen_priority, at.last) = (Some(pid), proc.priority, pid);
        sys.begin(cpu, false, switch_ns);
    }
}
