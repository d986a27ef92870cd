//! How the sampling of a process begins that was found: one just started, or one that ran before.
//! What the latter had used by then does not count.

use super::{Process, counted};
use weir_doctor::facts::Io;
use weir_sys::proc::{self, ProcContents, ProcDir, ProcessIdentity, Stat, tasks};

/// What a process that ran already had used before it was watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    pub(super) io_alone: Io,
    pub(super) io_whole: Io,
    pub(super) own_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) waited_ticks: u64,
    pub(super) waited_system_ticks: u64,
    pub(super) major_faults: u64,
}

impl Process {
    /// Starts to sample a process that runs already: what it used before does not count.
    pub fn attached(found: &ProcessIdentity, group: usize) -> Process {
        let pid = found.pid;
        let mut process = Process { name: found.name.clone(), ..Process::new(pid, group) };
        process.count_alone();
        tasks(pid).into_iter().for_each(|id| process.add_task(id));
        for task in &mut process.tasks {
            task.measure_on_cpu();
            task.before = task.last;
        }
        let stat = Stat::of(pid);
        let ticks = |of: fn(&Stat) -> u64| stat.as_ref().map_or(0, of);
        let io = |dir: ProcDir| proc::Io::of(dir).map(counted).unwrap_or_default();
        process.before = Before {
            io_alone: io(ProcDir::Thread(pid, pid)),
            io_whole: io(pid.into()),
            own_ticks: ticks(|stat| stat.own_ticks),
            system_ticks: ticks(|stat| stat.system_ticks),
            waited_ticks: ticks(|stat| stat.waited_ticks),
            waited_system_ticks: ticks(|stat| stat.waited_system_ticks),
            major_faults: ticks(|stat| stat.major_faults),
        };
        process
    }

    /// Starts to sample a process that was found, and that group `starter` started.
    pub fn found(found: ProcessIdentity, group: usize, starter: usize) -> Process {
        let ProcessIdentity { pid, parent, name } = found;
        Process { starter, parent, name, ..Process::new(pid, group) }
    }
}
