//! What processes did over the time of a look: one moment of a pipeline that flows says little.

use crate::quota::{self, GroupQuota};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_doctor::facts::Quota;
use weir_sys::Pid;
use weir_sys::proc::{Blocked, Io, ProcContents, ProcDir, Sched, tasks};

/// Time between two looks at the calls. It is longer where they take long.
const STEP: Duration = Duration::from_millis(8);
/// Most threads of a process whose CPU time is counted, and whose calls are looked at.
const MOST_COUNTED: usize = 8192;
pub const MOST_TASKS: usize = 256;

/// The processes that are looked at.
#[derive(Default)]
pub struct Course(BTreeMap<Pid, Past>);

/// What a process had used when it was first looked at, and what it was seen to do since then.
struct Past {
    since: Instant,
    all: Sched,
    written_bytes: Option<u64>,
    limits: Vec<GroupQuota>,
    tasks: BTreeMap<Pid, TaskPast>,
    /// Whether time has passed since the first look.
    is_told: bool,
}

#[derive(Default)]
struct TaskPast {
    first: Sched,
    /// The calls in which it was found blocked, and how often.
    blocked: Vec<(Blocked, u32)>,
}

/// What a process did meanwhile.
#[derive(Debug)]
pub struct Lately {
    /// CPUs that it used, and those for which it waited.
    pub cpus: f64,
    pub queue: f64,
    /// The quota that throttled it, and the share of the time.
    pub quota: Option<(Quota, f64)>,
    /// CPUs that threads used, or for which they waited, whose calls were not looked at.
    pub unwatched: f64,
    /// Whether any of its threads ran.
    pub has_run: bool,
    /// Whether it is known to have written nothing.
    pub is_silent: bool,
    tasks: BTreeMap<Pid, TaskLately>,
}

/// What a thread did meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskLately {
    /// The share of the time in which it computed, or that in which it waited for a CPU if it is larger.
    pub busy: f64,
    /// The wait in which it was most of the rest, and the share of the time.
    pub wait: Option<(Blocked, f64)>,
}

impl Course {
    /// Begins to look at a process, unless that has begun.
    pub fn begin(&mut self, pid: Pid) {
        self.0.entry(pid).or_insert_with(|| {
            let ids = tasks(pid);
            let past = |id: &Pid| TaskPast { first: sched(pid, *id), ..TaskPast::default() };
            Past {
                since: Instant::now(),
                all: total(pid, &ids),
                written_bytes: written(pid),
                limits: quota::limits_of(pid),
                tasks: ids.iter().take(MOST_TASKS).map(|id| (*id, past(id))).collect(),
                is_told: false,
            }
        });
    }

    /// Whether there is a process that was looked at once only.
    pub fn has_new(&self) -> bool {
        self.0.values().any(|past| !past.is_told)
    }

    /// Looks at the calls of all threads for this time.
    pub fn watch(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let begun = Instant::now();
            for (pid, past) in &mut self.0 {
                for (task, past) in &mut past.tasks {
                    past.sample(*pid, *task);
                }
            }
            let rest = end.saturating_duration_since(Instant::now());
            // sleep: what a process does in a while is what is measured.
            std::thread::sleep(STEP.max(begun.elapsed()).min(rest));
        }
        self.0.values_mut().for_each(|past| past.is_told = true);
    }

    /// Returns what a process did since it was first looked at; `None` where no time has passed.
    pub fn lately(&self, pid: Pid) -> Option<Lately> {
        let past = self.0.get(&pid).filter(|past| past.is_told)?;
        let ids = tasks(pid);
        let passed_ns = past.since.elapsed().as_nanos() as f64;
        let used = total(pid, &ids).since(past.all);
        let quota = quota::between(&past.limits, &quota::again(&past.limits));
        let of = |(id, task): (&Pid, &TaskPast)| (*id, task.lately(pid, *id, passed_ns));
        let watched = past.tasks.iter().map(|(id, task)| sched(pid, *id).since(task.first));
        let watched = watched.fold(Sched::default(), Sched::plus);
        let wanted = |it: Sched| it.cpu_ns.saturating_add(it.queue_ns) as f64 / passed_ns;
        Some(Lately {
            unwatched: wanted(used) - wanted(watched),
            cpus: used.cpu_ns as f64 / passed_ns,
            queue: used.queue_ns as f64 / passed_ns,
            quota: quota.map(|quota| (quota, quota.throttled_ns as f64 / passed_ns)),
            has_run: used.slices > 0,
            is_silent: past.written_bytes.is_some() && past.written_bytes == written(pid),
            tasks: past.tasks.iter().map(of).collect(),
        })
    }
}

impl Lately {
    /// Returns what a thread did; `None` for one that was not looked at.
    pub fn of(&self, task: Pid) -> Option<TaskLately> {
        self.tasks.get(&task).copied()
    }

    /// Returns the longest share of the time that a thread was in one wait.
    pub fn longest_wait(&self) -> f64 {
        let waits = self.tasks.values().filter_map(|task| task.wait);
        waits.map(|(_, share)| share).fold(0.0, f64::max)
    }
}

impl TaskPast {
    fn sample(&mut self, pid: Pid, task: Pid) {
        let Some(blocked) =
            Blocked::of(ProcDir::Thread(pid, task)).filter(|found| *found != Blocked::Running)
        else {
            return;
        };
        match self.blocked.iter_mut().find(|(known, _)| is_same(*known, blocked)) {
            Some((known, times)) => (*known, *times) = (blocked, *times + 1),
            None => self.blocked.push((blocked, 1)),
        }
    }

    fn lately(&self, pid: Pid, task: Pid, passed_ns: f64) -> TaskLately {
        let used = sched(pid, task).since(self.first);
        let busy = (used.cpu_ns.max(used.queue_ns) as f64 / passed_ns).min(1.0);
        let rest = (1.0 - (used.cpu_ns + used.queue_ns) as f64 / passed_ns).max(0.0);
        let looks: u32 = self.blocked.iter().map(|(_, times)| times).sum();
        let most = self.blocked.iter().max_by_key(|(_, times)| *times);
        let share = |times: u32| rest * f64::from(times) / f64::from(looks);
        TaskLately { busy, wait: most.map(|(blocked, times)| (*blocked, share(*times))) }
    }
}

/// Whether two waits are for the same thing: the same call on the same descriptor or address.
fn is_same(one: Blocked, other: Blocked) -> bool {
    match (one, other) {
        (Blocked::Call(one, first), Blocked::Call(other, second)) => {
            one == other && first[0] == second[0]
        }
        _ => one == other,
    }
}

/// Returns the times of a thread.
fn sched(pid: Pid, task: Pid) -> Sched {
    Sched::of(ProcDir::Thread(pid, task)).unwrap_or_default()
}

/// Returns the times of all of these threads.
fn total(pid: Pid, tasks: &[Pid]) -> Sched {
    let all = tasks.iter().take(MOST_COUNTED).map(|task| sched(pid, *task));
    all.fold(Sched::default(), Sched::plus)
}

/// Returns the bytes that a process has written so far, where that may be known.
fn written(pid: Pid) -> Option<u64> {
    Some(Io::of(pid)?.write_bytes)
}
