//! Sampling processes that ran before.

use super::Sampler;
use crate::attribution::classify::Endpoints;
use crate::attribution::group::{Group, MOST_GROUPS};
use crate::attribution::process::Process;
use crate::proc::ProcessIdentity;

impl Sampler {
    /// Samples processes that run already, each a group of its own, parents before their children.
    /// They lie under a shell of which nothing is known, as those of a script do.
    pub fn attach(&mut self, found: &[ProcessIdentity], now_ns: u64) {
        // The kernel's events tell of processes from their start on.
        self.lives = None;
        let name = || String::from("sh");
        let shell = Group::new(0, Endpoints::default(), now_ns);
        let first = (name(), String::new());
        self.groups.push(Group { program: name(), first, ended: true, ..shell });
        let pids: Vec<_> = found.iter().map(|process| process.pid).collect();
        // Twice, for those that were just being started.
        (0..2).for_each(|_| self.trace_all(&pids));
        for process in found.iter().take(MOST_GROUPS) {
            let parent = self.processes.get(&process.parent).map_or(0, |parent| parent.group);
            let group = self.groups.len();
            let new = Group::new(process.pid, Endpoints::default(), now_ns);
            self.groups.push(Group { parent: Some(parent), ..new });
            self.processes.insert(process.pid, Process::attached(process, group));
        }
    }
}
