//! Processes that have ended.

use super::Sampler;
use crate::attribution::group::{Group, describe};
use crate::attribution::process::Process;
use weir_sys::Pid;

impl Sampler {
    /// Removes processes that have ended, except the first process of a group: that one is ended by
    /// whoever reaps it or, if it was found, here. A zombie that nobody has waited for is kept:
    /// whether somebody will tells whether the kernel's sums include it.
    pub(super) fn bury(&mut self, dead: &[Pid]) {
        let mut gone = Vec::new();
        for pid in dead {
            let Some(process) = self.processes.get_mut(pid) else { continue };
            let group = &mut self.groups[process.group];
            let given = group.parent.is_none() && group.root == *pid;
            if given && !group.ended {
                continue;
            }
            group.ended |= group.root == *pid;
            match process.last_look() {
                Some((b'Z' | b'X', _)) => process.zombie_looks += 1,
                _ => gone.push(*pid),
            }
        }
        gone.iter().for_each(|pid| self.forget(*pid));
        self.find_orphans(&gone);
    }

    /// Follows a process to its new parent after its parent has ended; no process of the group will
    /// wait for it unless the new parent belongs to the group too.
    fn find_orphans(&mut self, gone: &[Pid]) {
        let left = self.processes.values().filter(|process| gone.contains(&process.parent));
        for pid in left.map(|process| process.pid).collect::<Vec<_>>() {
            let Some(mut process) = self.processes.remove(&pid) else { continue };
            let parent = process.last_look().map_or(process.parent, |(_, parent)| parent);
            process.parent = parent.max(1);
            process.orphan = !self.processes.contains_key(&parent);
            self.processes.insert(pid, process);
        }
    }

    /// Adds a process to the totals of its group, and stops sampling it.
    pub(super) fn forget(&mut self, pid: Pid) {
        let Some(process) = self.processes.remove(&pid) else { return };
        self.flush(process.group, process.row);
        settle(&mut self.groups[process.group], &process);
        if let Some(row) = process.row {
            self.rows.settle(row, &process);
        }
        if process.was_found() {
            let births = &mut self.groups[process.starter].births;
            births.note(&process.name, process.ticks_alive, process.alive_ns);
        }
    }
}

/// Adds the figures of an ended process to the totals of its group.
fn settle(group: &mut Group, process: &Process) {
    let sched = process.sched();
    group.position_bytes += process.position_bytes();
    let may = [group.may_splice, process.may_splice];
    group.may_splice = may.into_iter().flatten().reduce(|one, other| one || other);
    group.gone = group.gone.plus(sched);
    if process.orphan {
        group.unreaped.add(process.used());
    }
    *group.programs.entry(process.name.clone()).or_default() += sched.cpu_ns;
    if process.pid == group.root {
        describe(group, process);
    }
}
