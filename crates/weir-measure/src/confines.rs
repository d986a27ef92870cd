//! What control groups withheld from a process: CPU time by a quota, memory by a limit.
//!
//! Each stage may be in a group of its own (`systemd-run`, a shell that writes its id to
//! `cgroup.procs`). The counters are the group's: they tell of all that is in it.

use crate::cgroup;
use crate::quota::{self, GroupQuota};
use std::fs;
use std::path::{Path, PathBuf};
use weir_doctor::facts::{GroupQuota as HeldUp, MemoryLimit};
use weir_sys::Pid;
use weir_sys::proc::{ControlGroups, number};

/// A limit of version 1 from here on is none: the kernel shows the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// The groups of a process that are not this process's: their counters when it was found there, and
/// when they were last read.
#[derive(Debug, Default)]
pub struct Confines {
    groups: Option<ControlGroups>,
    quotas: [Vec<GroupQuota>; 2],
    memory: [Vec<GroupMemory>; 2],
}

impl Confines {
    /// Finds the groups of process `pid`, and reads their counters.
    pub fn sample(&mut self, pid: Pid) {
        let found = cgroup::other_groups(pid);
        if let Some(groups) = found.filter(|found| self.groups.as_ref() != Some(found)) {
            add(&mut self.quotas[0], quota::limits_apart(&groups), GroupQuota::directory);
            let memory = cgroup::apart(&groups, "memory").into_iter().filter_map(GroupMemory::read);
            add(&mut self.memory[0], memory.collect(), |group| &group.directory);
            self.groups = Some(groups);
        }
        self.read();
    }

    /// Reads the counters of the groups that were found.
    pub fn read(&mut self) {
        fn again<T>(of: &mut [Vec<T>; 2], read: impl Fn(&T) -> Option<T>) {
            let now: Vec<T> = of[0].iter().filter_map(read).collect();
            // A group that was removed keeps its last figures.
            if now.len() >= of[1].len() {
                of[1] = now;
            }
        }
        again(&mut self.quotas, |group| GroupQuota::read(group.directory().to_owned()));
        again(&mut self.memory, |group| GroupMemory::read(group.directory.clone()));
    }

    /// Returns the quota that held the process up most.
    pub fn quota(&self) -> Option<HeldUp> {
        let [then, now] = &self.quotas;
        let (directory, quota) = quota::most_between(then, now)?;
        Some(HeldUp { group: name(&directory), quota })
    }

    /// Returns the limit of memory that was reached most often.
    pub fn memory(&self) -> Option<MemoryLimit> {
        let [then, now] = &self.memory;
        reached_between(then, now)
    }
}

/// Adds the groups that are not there yet.
fn add<T>(known: &mut Vec<T>, found: Vec<T>, directory: impl Fn(&T) -> &Path) {
    for group in found {
        if known.iter().all(|other| directory(other) != directory(&group)) {
            known.push(group);
        }
    }
}

/// Returns the name of a control group as people know it, such as `docker-4f1.scope`.
fn name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default();
    weir_policy::text::printable(&name.to_string_lossy())
}

/// A control group's limit of memory at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMemory {
    directory: PathBuf,
    limit_bytes: u64,
    times_reached: u64,
}

impl GroupMemory {
    /// Reads that of a group; `None` where it has none, or the kernel counts none.
    fn read(directory: PathBuf) -> Option<GroupMemory> {
        let text = |file: &str| fs::read_to_string(directory.join(file)).ok();
        let (limit, times_reached) = match text("memory.max") {
            Some(limit) => (limit, number(&text("memory.events")?, "max")?),
            None => {
                let reached = text("memory.failcnt")?.trim().parse().ok()?;
                (text("memory.limit_in_bytes")?, reached)
            }
        };
        let limit_bytes = limit.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)?;
        Some(GroupMemory { directory, limit_bytes, times_reached })
    }
}

/// Returns the limits of this process's groups, its own and those above.
pub fn own_memory() -> Vec<GroupMemory> {
    cgroup::directories("memory").into_iter().filter_map(GroupMemory::read).collect()
}

/// Of the limits `then` and `now`, returns the one that was reached most often in between.
pub fn reached_between(then: &[GroupMemory], now: &[GroupMemory]) -> Option<MemoryLimit> {
    let since = now.iter().map(|group| {
        let before = then.iter().find(|before| before.directory == group.directory);
        let before = before.map_or(group.times_reached, |before| before.times_reached);
        MemoryLimit {
            group: name(&group.directory),
            limit_bytes: group.limit_bytes,
            times_reached: group.times_reached.saturating_sub(before),
        }
    });
    since.max_by_key(|limit| limit.times_reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Option<(u64, u64)> {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("written");
        }
        let group = GroupMemory::read(directory.path().to_owned());
        group.map(|group| (group.limit_bytes, group.times_reached))
    }

    #[test]
    fn both_versions_tell_the_limit_and_how_often_it_was_reached() {
        let first = |limit| read(&[("memory.limit_in_bytes", limit), ("memory.failcnt", "7120\n")]);
        assert_eq!(first("67108864\n"), Some((64 << 20, 7120)));
        assert_eq!(first("9223372036854771712\n"), None, "no limit");
        let events = ("memory.events", "low 0\nhigh 0\nmax 31\noom 0\noom_kill 0\n");
        assert_eq!(read(&[("memory.max", "67108864\n"), events]), Some((64 << 20, 31)));
        assert_eq!(read(&[("memory.max", "max\n"), events]), None);
        assert_eq!(read(&[("memory.max", "67108864\n")]), None, "nobody counts");
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn what_was_reached_before_does_not_count() {
        let group = |name: &str, times_reached| GroupMemory {
            directory: PathBuf::from(name),
            limit_bytes: 4096,
            times_reached,
        };
        let then = [group("/a/job", 5), group("/a", 100)];
        let now = [group("/a/job", 9), group("/a", 101)];
        let most = reached_between(&then, &now).expect("a limit");
        assert_eq!((most.group.as_str(), most.times_reached), ("job", 4));
        let new = reached_between(&[], &now).expect("a limit");
        assert_eq!(new.times_reached, 0, "found only now");
        assert_eq!(reached_between(&then, &[]), None);
    }
}
