//! Which process runs next: the rules of V6, of V6 with Joy's run queues, and of Linux 2.4.

use super::{Cpu, Pid, Proc, ProcState};
use weir_policy::ready::ReadyQueue;

/// How processes are chosen.
#[derive(Clone, Debug)]
pub enum Discipline {
    /// UNIX, Sixth Edition: recent use of the CPU, recomputed at each return to user mode; the
    /// process table is searched from the last process on.
    V6(V6),
    /// As V6, but runnable processes wait in queues by priority, and one find-first-set chooses.
    Queues(Queues),
    /// Linux 2.4: time slices and goodness on one list for all CPUs.
    Linux(Linux),
}

/// The constants of V6.
#[derive(Clone, Debug)]
pub struct V6 {
    /// Ticks of the clock in a second.
    pub hz: u64,
    /// What a switch takes.
    pub switch_ns: u64,
    /// What looking at one entry of the process table takes.
    pub scan_ns: u64,
    /// Whether a wake-up makes the running process give way to a better priority.
    pub wake_preempts: bool,
}

/// Joy's run queues: those in which weir chooses among channels.
#[derive(Clone, Debug)]
pub struct Queues {
    v6: V6,
    ready: Box<ReadyQueue>,
}

/// The constants of Linux 2.4.
#[derive(Clone, Debug)]
pub struct Linux {
    /// What a switch takes.
    pub switch_ns: u64,
    /// What looking at one runnable process takes.
    pub scan_ns: u64,
    /// From a wake-up until an idle CPU has noticed it.
    pub rouse_ns: u64,
    /// Ticks of a time slice, at 100 ticks a second.
    pub slice_ticks: i64,
    /// How much better a process must be to take the CPU from the running one.
    pub margin: i64,
}

/// Priority of user code in V6; sleeping in the kernel gives better ones.
const USER: i32 = 100;
/// What recent use decays by each second in V6.
const DECAY: u32 = 10;
/// What having run on this CPU last is worth in Linux 2.4.
const AFFINITY: i64 = 15;

impl V6 {
    fn priority(proc: &Proc) -> i32 {
        (USER + proc.recent as i32 / 16).min(127)
    }

    fn choose(&self, last: Pid, procs: &mut [Proc]) -> Option<(Pid, u64)> {
        let count = procs.len();
        let mut best: Option<Pid> = None;
        for step in 1..=count {
            let pid = (last + step) % count;
            let is_better = best.is_none_or(|best| procs[pid].priority < procs[best].priority);
            if procs[pid].state == ProcState::Ready && is_better {
                best = Some(pid);
            }
        }
        best.map(|pid| (pid, self.switch_ns + self.scan_ns * count as u64))
    }

    fn tick(&self, ticks: u64, procs: &mut [Proc], cpu: &mut Cpu) {
        if let Some(pid) = cpu.current {
            procs[pid].recent = (procs[pid].recent + 1).min(255);
        }
        if ticks.is_multiple_of(self.hz) {
            cpu.resched = true;
            for proc in procs {
                proc.recent = proc.recent.saturating_sub(DECAY);
                if proc.priority >= USER {
                    proc.priority = Self::priority(proc);
                }
            }
        }
    }
}

impl Queues {
    /// Chooses as V6 does, without its search: `scan_ns` is not used.
    pub fn new(v6: V6) -> Queues {
        Queues { v6, ready: Box::default() }
    }

    /// Four neighbouring priorities share a queue, and go in turn.
    fn queue_of(proc: &Proc) -> u8 {
        ((proc.priority.clamp(-128, 127) + 128) / 4) as u8
    }

    fn choose(&mut self) -> Option<(Pid, u64)> {
        let (pid, _) = self.ready.pop()?;
        Some((pid as Pid, self.v6.switch_ns))
    }

    fn tick(&mut self, ticks: u64, procs: &mut [Proc], cpu: &mut Cpu) {
        self.v6.tick(ticks, procs, cpu);
        if !ticks.is_multiple_of(self.v6.hz) {
            return;
        }
        // Priorities have changed; each waits in the queue of its own.
        let waiting: Vec<u32> = self.ready.iter().collect();
        for pid in waiting {
            self.ready.remove(pid);
            self.ready.push(pid, Self::queue_of(&procs[pid as Pid]));
        }
    }
}

impl Linux {
    fn goodness(proc: &Proc, cpu: usize) -> i64 {
        if proc.slice <= 0 {
            return 0;
        }
        proc.slice + 20 + if proc.last_cpu == cpu { AFFINITY } else { 0 }
    }

    fn choose(&self, cpu: usize, procs: &mut [Proc]) -> Option<(Pid, u64)> {
        let ready = |procs: &[Proc]| {
            let pids = (0..procs.len()).filter(|&pid| procs[pid].state == ProcState::Ready);
            pids.collect::<Vec<_>>()
        };
        let pids = ready(procs);
        if pids.is_empty() {
            return None;
        }
        if pids.iter().all(|&pid| procs[pid].slice <= 0) {
            for proc in procs.iter_mut() {
                proc.slice = proc.slice.max(0) / 2 + self.slice_ticks;
            }
        }
        let scanned = pids.len() as u64 * self.scan_ns;
        let mut best = pids[0];
        for pid in pids {
            if Self::goodness(&procs[pid], cpu) > Self::goodness(&procs[best], cpu) {
                best = pid;
            }
        }
        Some((best, self.switch_ns + scanned))
    }

    /// `reschedule_idle` of 2.4: the CPU it last ran on if that is idle, any idle one, or the one whose
    /// process is worse by more than the margin.
    fn woken(&self, pid: Pid, procs: &[Proc], cpus: &mut [Cpu]) -> Option<(usize, u64)> {
        let home = procs[pid].last_cpu;
        let idle = |cpu: usize, cpus: &[Cpu]| cpus[cpu].current.is_none() && !cpus[cpu].roused;
        if idle(home, cpus) {
            return Some((home, self.rouse_ns));
        }
        if let Some(cpu) = (0..cpus.len()).find(|&cpu| idle(cpu, cpus)) {
            return Some((cpu, self.rouse_ns));
        }
        let better = |cpu: usize| {
            let current = cpus[cpu].current?;
            let gain = Self::goodness(&procs[pid], cpu) - Self::goodness(&procs[current], cpu);
            (gain > self.margin).then_some((gain, cpu))
        };
        let best =
            (0..cpus.len()).filter_map(better).max_by_key(|(gain, cpu)| (*gain, usize::MAX - cpu));
        if let Some((_, cpu)) = best {
            cpus[cpu].resched = true;
        }
        None
    }
}

impl Discipline {
    /// Returns the time between two ticks of the clock.
    pub fn tick_ns(&self) -> u64 {
        match self {
            Discipline::V6(v6) | Discipline::Queues(Queues { v6, .. }) => 1_000_000_000 / v6.hz,
            Discipline::Linux(_) => 10_000_000,
        }
    }

    pub(super) fn first(&self) -> (i32, i64) {
        match self {
            Discipline::V6(_) | Discipline::Queues(_) => (USER, 0),
            Discipline::Linux(linux) => (0, linux.slice_ticks),
        }
    }

    /// Handles a process that has become ready.
    pub(super) fn queue(&mut self, pid: Pid, procs: &[Proc]) {
        if let Discipline::Queues(queues) = self {
            queues.ready.push(pid as u32, Queues::queue_of(&procs[pid]));
        }
    }

    pub(super) fn choose(
        &mut self,
        cpu: usize,
        last: Pid,
        procs: &mut [Proc],
    ) -> Option<(Pid, u64)> {
        match self {
            Discipline::V6(v6) => v6.choose(last, procs),
            Discipline::Queues(queues) => queues.choose(),
            Discipline::Linux(linux) => linux.choose(cpu, procs),
        }
    }

    /// Handles a process that was woken; returns an idle CPU that should take it, and after what time.
    pub(super) fn woken(&self, pid: Pid, procs: &[Proc], cpus: &mut [Cpu]) -> Option<(usize, u64)> {
        match self {
            Discipline::V6(v6) | Discipline::Queues(Queues { v6, .. }) => {
                let cpu = &mut cpus[0];
                if cpu.current.is_none() {
                    return Some((0, 0));
                }
                if v6.wake_preempts && procs[pid].priority < cpu.chosen_priority {
                    cpu.resched = true;
                }
                None
            }
            Discipline::Linux(linux) => linux.woken(pid, procs, cpus),
        }
    }

    /// Handles the return of a process to user mode.
    pub(super) fn to_user(&self, pid: Pid, procs: &mut [Proc], cpu: &mut Cpu) {
        if let Discipline::V6(v6) | Discipline::Queues(Queues { v6, .. }) = self {
            let priority = V6::priority(&procs[pid]);
            procs[pid].priority = priority;
            if v6.wake_preempts && priority > cpu.chosen_priority {
                cpu.resched = true;
            }
        }
    }

    pub(super) fn tick(&mut self, ticks: u64, procs: &mut [Proc], cpus: &mut [Cpu]) {
        match self {
            Discipline::V6(v6) => v6.tick(ticks, procs, &mut cpus[0]),
            Discipline::Queues(queues) => queues.tick(ticks, procs, &mut cpus[0]),
            Discipline::Linux(_) => {
                for cpu in cpus {
                    let Some(pid) = cpu.current else { continue };
                    procs[pid].slice -= 1;
                    if procs[pid].slice <= 0 {
                        procs[pid].slice = 0;
                        cpu.resched = true;
                    }
                }
            }
        }
    }
}
