//! Placements: which CPUs are siblings, share a cache, or neither.

use super::params::Placement;
use rustix::thread::CpuSet;
use std::collections::BTreeSet;
use weir_measure::machine::{allowed_cpus, cpu_list};

/// The topology of the CPUs this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    allowed: Vec<usize>,
    siblings: Vec<BTreeSet<usize>>,
    cached: Vec<BTreeSet<usize>>,
}

impl Topology {
    /// Reads `/sys/devices/system/cpu`; a CPU without an entry counts as alone.
    pub fn read() -> Topology {
        let allowed = allowed_cpus();
        let list = |cpu: usize, path: String| {
            let text = std::fs::read_to_string(path).ok();
            text.map_or_else(|| BTreeSet::from_iter([cpu]), |text| cpu_list(&text))
        };
        let siblings = |cpu: &usize| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            list(*cpu, path)
        };
        let cached = |cpu: &usize| {
            let last = caches(*cpu).max_by_key(|(level, _)| *level);
            list(*cpu, format!("{}/shared_cpu_list", last.unwrap_or_default().1))
        };
        Topology {
            siblings: allowed.iter().map(siblings).collect(),
            cached: allowed.iter().map(cached).collect(),
            allowed,
        }
    }

    /// Returns the CPUs this process may use.
    pub fn allowed(&self) -> &[usize] {
        &self.allowed
    }

    /// Returns the CPUs of a placement: of the measuring side and of the other side; none when the
    /// kernel decides.
    ///
    /// # Errors
    /// A sentence that says why there are no such CPUs.
    pub fn find(&self, placement: Placement) -> Result<Vec<u64>, String> {
        let last = self.allowed.len().checked_sub(1).ok_or("no CPU is allowed")?;
        let pair = |fits: &dyn Fn(usize, usize) -> bool| {
            let mut pairs = (0..=last).flat_map(|a| (0..=last).map(move |b| (a, b)));
            let found = pairs.find(|(a, b)| a != b && fits(*a, *b));
            found.map(|(a, b)| vec![self.allowed[a] as u64, self.allowed[b] as u64])
        };
        let are_siblings = |a: usize, b: usize| self.siblings[a].contains(&self.allowed[b]);
        let share = |a: usize, b: usize| self.cached[a].contains(&self.allowed[b]);
        match placement {
            Placement::Free => Ok(Vec::new()),
            // The last CPU: the first serves most interrupts.
            Placement::SameCpu => Ok(vec![self.allowed[last] as u64; 2]),
            Placement::Sibling => pair(&are_siblings)
                .ok_or_else(|| self.none("no two of them are threads of one core")),
            Placement::SameCache => pair(&|a, b| share(a, b) && !are_siblings(a, b))
                .ok_or_else(|| self.none("no two cores among them share a cache")),
            Placement::OtherCpu | Placement::OtherCpuAwake => pair(&|a, b| !share(a, b))
                .or_else(|| pair(&|a, b| !are_siblings(a, b)))
                .or_else(|| pair(&|_, _| true))
                .ok_or_else(|| self.none("two are needed")),
        }
    }

    fn none(&self, why: &str) -> String {
        let cpus = self.allowed.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        format!("this process may use CPU {cpus}: {why}")
    }
}

/// Returns the directories of a CPU's caches, each with its level.
pub fn caches(cpu: usize) -> impl Iterator<Item = (u32, String)> {
    (0..8).filter_map(move |index| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
        let level = std::fs::read_to_string(format!("{path}/level")).ok()?;
        Some((level.trim().parse().ok()?, path))
    })
}

/// Puts this thread on one CPU.
///
/// # Errors
/// `EINVAL` when the CPU is not allowed or does not exist.
pub fn pin(cpu: usize) -> rustix::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(siblings: &[&str], cached: &[&str]) -> Topology {
        Topology {
            allowed: (0..siblings.len()).collect(),
            siblings: siblings.iter().map(|text| cpu_list(text)).collect(),
            cached: cached.iter().map(|text| cpu_list(text)).collect(),
        }
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(cpu_list("0-2,5\n"), BTreeSet::from([0, 1, 2, 5]));
        assert_eq!(cpu_list(""), BTreeSet::new());
        assert_eq!(cpu_list("x,3"), BTreeSet::from([3]));
    }

    #[test]
    fn each_placement_finds_its_cpus() {
        let large = machine(
            &["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"],
            &[
                "0-1,4-5", "0-1,4-5", "2-3,6-7", "2-3,6-7", "0-1,4-5", "0-1,4-5", "2-3,6-7",
                "2-3,6-7",
            ],
        );
        assert_eq!(large.find(Placement::SameCpu), Ok(vec![7, 7]));
        assert_eq!(large.find(Placement::Sibling), Ok(vec![0, 4]));
        assert_eq!(large.find(Placement::SameCache), Ok(vec![0, 1]));
        assert_eq!(large.find(Placement::OtherCpu), Ok(vec![0, 2]));
        assert_eq!(large.find(Placement::Free), Ok(Vec::new()));
        let small = machine(&["0", "1"], &["0-1", "0-1"]);
        assert_eq!(small.find(Placement::OtherCpuAwake), Ok(vec![0, 1]));
        assert!(small.find(Placement::Sibling).expect_err("none").contains("threads of one core"));
        let single = machine(&["0"], &["0"]);
        let why = single.find(Placement::OtherCpu).expect_err("one CPU");
        assert_eq!(why, "this process may use CPU 0: two are needed");
    }

    #[test]
    fn this_machine_has_a_cpu() {
        assert!(Topology::read().find(Placement::SameCpu).is_ok());
        assert!(pin(usize::MAX).is_err());
    }
}
