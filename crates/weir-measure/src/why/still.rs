//! For how long a process has not run.

use rustix::thread::{CpuSet, gettid, sched_setaffinity};
use std::collections::BTreeMap;
use weir_sys::Pid;
use weir_sys::proc::{LastRun, ProcContents, ProcDir, Stat, tasks};

/// A process of more threads is not looked at: each may have run last.
const MOST_TASKS: usize = 64;

/// Returns for how long none of its threads has run, at least; `None` where the kernel does not tell.
pub fn still_ns(pid: Pid) -> Option<u64> {
    let all = tasks(pid);
    if all.len() > MOST_TASKS {
        return None;
    }
    let mut clocks: BTreeMap<usize, Option<u64>> = BTreeMap::new();
    let mut of = |task: Pid| {
        let dir = ProcDir::Thread(pid, task);
        let (LastRun(last_ns), cpu) = (LastRun::of(dir)?, Stat::of(dir)?.cpu?);
        let now_ns = (*clocks.entry(cpu).or_insert_with(|| clock_of(cpu)))?;
        // One that has moved to another CPU meanwhile has run.
        (Stat::of(dir)?.cpu == Some(cpu)).then(|| now_ns.saturating_sub(last_ns))
    };
    let all: Option<Vec<u64>> = all.into_iter().map(&mut of).collect();
    all?.into_iter().min()
}

/// Returns the clock of a CPU: when a thread ran last that runs there now.
fn clock_of(cpu: usize) -> Option<u64> {
    let look = move || {
        weir_sys::signals::block_all();
        let mut only = CpuSet::new();
        if cpu < CpuSet::MAX_CPU {
            only.set(cpu);
        }
        sched_setaffinity(None, &only).ok()?;
        let own = ProcDir::Thread(std::process::id() as Pid, gettid().as_raw_nonzero().get());
        Some(LastRun::of(own)?.0)
    };
    std::thread::Builder::new().spawn(look).ok()?.join().ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn who_sleeps_has_not_run_since_then() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = child.id() as Pid;
        let before_ns = weir_sys::cpu::monotonic_ns();
        let mut still = Some(0);
        // Until it sleeps, and the kernel tells.
        for _ in 0..200_000 {
            still = still_ns(pid);
            if still.is_none_or(|ns| ns > 20_000_000) {
                break;
            }
        }
        let passed_ns = weir_sys::cpu::monotonic_ns() - before_ns;
        child.kill().expect("killed");
        child.wait().expect("waited");
        match still {
            None => eprintln!("SKIPPED: this kernel does not tell when a thread ran last"),
            // The clocks of CPUs are read to a tick.
            Some(ns) => assert!((20_000_001..passed_ns + 100_000_000).contains(&ns), "{ns}"),
        }
    }
}
