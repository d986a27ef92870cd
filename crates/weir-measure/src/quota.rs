//! CPU quotas of control groups, and how often they were reached.

use crate::cgroup;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use weir_doctor::facts::Quota;
use weir_sys::Pid;
use weir_sys::proc::{ControlGroups, number};

/// A control group's limit at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupQuota {
    directory: PathBuf,
    /// The limit, and the counts of its `cpu.stat` since it was made.
    seen: Quota,
}

/// Returns the limits of this process's groups, its own and those above.
pub fn limits() -> Vec<GroupQuota> {
    limits_in(cgroup::directories("cpu"))
}

/// Returns the limits of the groups of process `pid`, its own and those above.
pub fn limits_of(pid: Pid) -> Vec<GroupQuota> {
    limits_in(cgroup::directories_of(pid, "cpu"))
}

/// Returns the limits of the groups that are not this process's.
pub fn limits_apart(groups: &ControlGroups) -> Vec<GroupQuota> {
    limits_in(cgroup::apart(groups, "cpu"))
}

/// The limits of several processes at one moment.
#[derive(Clone, Debug, Default)]
pub struct EachLimits {
    directories: HashMap<Pid, Rc<[PathBuf]>>,
    seen: HashMap<PathBuf, GroupQuota>,
}

impl EachLimits {
    /// Reads the limits of the groups of these processes, each group once.
    pub fn of(pids: impl Iterator<Item = Pid>) -> EachLimits {
        let directories: HashMap<Pid, Rc<[PathBuf]>> =
            cgroup::directories_of_each(pids, "cpu").collect();
        let all: BTreeSet<&PathBuf> = directories.values().flat_map(|all| all.iter()).collect();
        let limits = all.into_iter().filter_map(|directory| GroupQuota::read(directory.clone()));
        let seen = limits.map(|limit| (limit.directory.clone(), limit)).collect();
        EachLimits { directories, seen }
    }

    /// Returns the limit that throttled a process most since then, as [`between`] does.
    pub fn since(&self, then: &EachLimits, pid: Pid) -> Option<Quota> {
        between(&then.limits(pid), &self.limits(pid))
    }

    /// Returns the limits of one of these processes.
    pub fn limits(&self, pid: Pid) -> Vec<GroupQuota> {
        let directories = self.directories.get(&pid).into_iter().flat_map(|all| all.iter());
        directories.filter_map(|directory| self.seen.get(directory)).cloned().collect()
    }
}

fn limits_in(directories: Vec<PathBuf>) -> Vec<GroupQuota> {
    directories.into_iter().filter_map(GroupQuota::read).collect()
}

/// Reads these limits again.
pub fn again(limits: &[GroupQuota]) -> Vec<GroupQuota> {
    limits_in(limits.iter().map(|limit| limit.directory.clone()).collect())
}

/// Orders limits by what they throttled, then by how little they allow.
fn more_throttled(a: &Quota, b: &Quota) -> std::cmp::Ordering {
    a.throttled_ns.cmp(&b.throttled_ns).then(b.cpus.total_cmp(&a.cpus))
}

/// Returns the smallest limit, in CPUs.
pub fn smallest(limits: &[GroupQuota]) -> Option<f64> {
    limits.iter().map(|limit| limit.seen.cpus).min_by(f64::total_cmp)
}

/// Of the limits `then` and `now`, returns the one that throttled most in between: others may use
/// up the limit of a group above, whatever the process's own group allows. If none did, the
/// smallest.
pub fn between(then: &[GroupQuota], now: &[GroupQuota]) -> Option<Quota> {
    Some(most_between(then, now)?.1)
}

/// Returns that limit and the directory of its group.
pub fn most_between(then: &[GroupQuota], now: &[GroupQuota]) -> Option<(PathBuf, Quota)> {
    let quotas = now.iter().map(|limit| {
        let before = then.iter().find(|before| before.directory == limit.directory);
        let (old, new) = (before.unwrap_or(limit).seen, limit.seen);
        let seen = Quota {
            cpus: new.cpus,
            periods: new.periods.saturating_sub(old.periods),
            throttled_periods: new.throttled_periods.saturating_sub(old.throttled_periods),
            throttled_ns: new.throttled_ns.saturating_sub(old.throttled_ns),
        };
        (limit.directory.clone(), seen)
    });
    quotas.max_by(|a, b| more_throttled(&a.1, &b.1))
}

impl GroupQuota {
    /// Reads that of the group in this directory; `None` where it has none.
    pub fn read(directory: PathBuf) -> Option<GroupQuota> {
        let cpus = second(&directory).or_else(|| first(&directory))?;
        let stat = text_of(&directory.join("cpu.stat")).unwrap_or_default();
        Some(GroupQuota { directory, seen: parse(cpus, &stat) })
    }

    /// Where the group is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Version 2: `cpu.max` is "max PERIOD" or "QUOTA PERIOD", in microseconds.
fn second(directory: &Path) -> Option<f64> {
    let text = text_of(&directory.join("cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    ratio(quota, period)
}

/// Version 1: both have files of their own; a quota of -1 means none.
fn first(directory: &Path) -> Option<f64> {
    let quota = text_of(&directory.join("cpu.cfs_quota_us"))?;
    ratio(&quota, &text_of(&directory.join("cpu.cfs_period_us"))?)
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (quota.trim().parse::<u64>().ok()?, period.trim().parse::<u64>().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn text_of(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Version 1 counts the time in nanoseconds, version 2 in microseconds.
fn parse(cpus: f64, text: &str) -> Quota {
    let in_us = number(text, "throttled_usec").map(|us| us.saturating_mul(1000));
    Quota {
        cpus,
        periods: number(text, "nr_periods").unwrap_or(0),
        throttled_periods: number(text, "nr_throttled").unwrap_or(0),
        throttled_ns: in_us.or_else(|| number(text, "throttled_time")).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            fs::write(directory.path().join(name), text).expect("written");
        }
        directory
    }

    fn read(files: &[(&str, &str)]) -> Option<GroupQuota> {
        GroupQuota::read(group(files).path().to_owned())
    }

    #[test]
    fn version_1_has_its_quota_in_two_files() {
        let stat = "nr_periods 51\nnr_throttled 50\nthrottled_time 3900000000\n";
        let of = |quota| {
            read(&[
                ("cpu.cfs_quota_us", quota),
                ("cpu.cfs_period_us", "100000\n"),
                ("cpu.stat", stat),
            ])
        };
        let limit = of("20000\n").expect("a limit");
        let seen =
            Quota { cpus: 0.2, periods: 51, throttled_periods: 50, throttled_ns: 3_900_000_000 };
        assert_eq!(limit.seen, seen);
        assert_eq!(of("-1\n"), None);
    }

    #[test]
    fn version_2_has_it_in_one_line() {
        let stat = "usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 250\n";
        let limit = read(&[("cpu.max", "150000 100000\n"), ("cpu.stat", stat)]).expect("a limit");
        let seen = Quota { cpus: 1.5, periods: 10, throttled_periods: 4, throttled_ns: 250_000 };
        assert_eq!(limit.seen, seen);
        assert_eq!(read(&[("cpu.max", "max 100000\n")]), None);
        assert_eq!(read(&[("cpu.max", "5 0\n")]), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn the_group_that_was_held_up_is_named_although_another_allows_less() {
        let limit = |name: &str, cpus: f64, throttled_ns: u64| GroupQuota {
            directory: PathBuf::from(name),
            seen: Quota { cpus, periods: throttled_ns, throttled_periods: 1, throttled_ns },
        };
        let then = [limit("own", 0.5, 7), limit("above", 2.0, 100)];
        let quiet = between(&then, &then).expect("a quota");
        assert_eq!((quiet.cpus, quiet.throttled_ns, quiet.throttled_periods), (0.5, 0, 0));
        let now = [limit("own", 0.5, 7), limit("above", 2.0, 150)];
        let held = between(&then, &now).expect("a quota");
        assert_eq!((held.cpus, held.throttled_ns, held.periods), (2.0, 50, 50));
        assert_eq!(smallest(&now), Some(0.5));
        assert_eq!(between(&[], &[]), None);
    }
}
