//! How the sampling of a process begins that was found: one just started, or one that ran before.
//! What the latter had used by then does not count.

use super::{Process, counted};
use weir_doctor::facts::Io;
use weir_sys::proc::{self, ProcContents, ProcDir, ProcessIdentity, Stat, tasks};

/// What a process that ran already had used before it was watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    pub(super) io_alone: Io,
    pub(super) io_whole: Io,
    pub(super) stat: Option<Stat>,
}

impl Process {
    /// Starts to sample a process that runs already: what it used before does not count.
    pub fn attached(found: &ProcessIdentity, group: usize) -> Process {
        let pid = found.pid;
        let mut process = Process::new(pid, group);
        process.record.program.clone_from(&found.name);
        process.count_alone();
        tasks(pid).into_iter().for_each(|id| process.add_task(id));
        for task in &mut process.tasks {
            task.measure_on_cpu();
            task.before = task.last;
        }
        let io = |dir: ProcDir| proc::Io::of(dir).map(counted).unwrap_or_default();
        process.before = Before {
            io_alone: io(ProcDir::Thread(pid, pid)),
            io_whole: io(pid.into()),
            stat: Stat::of(pid),
        };
        process
    }

    /// Starts to sample a process that was found, and that group `starter` started.
    pub fn found(found: ProcessIdentity, group: usize, starter: usize) -> Process {
        let ProcessIdentity { pid, parent, name } = found;
        let mut process = Process { starter, parent, ..Process::new(pid, group) };
        process.record.program = name;
        process
    }
}
