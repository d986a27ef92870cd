//! The use of the host's CPUs over some time, what a CPU quota took away, and the part of other
//! processes: all time that
//! `/proc/stat` calls busy, less the CPU time of this process and of the children that it has
//! reaped.
//!
//! Kernel threads count as others, even when they work for this process. So do children that still
//! run: look again after they have ended.

use crate::quota::{self, GroupQuota};
use crate::sys::usage::Usage;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use weir_sys::cpu::ticks_ns;
use weir_sys::proc::HostFile;

/// One reading of the counters.
#[derive(Clone, Debug)]
pub struct HostCpu {
    at: Instant,
    cpus: Vec<usize>,
    busy_ns: u64,
    idle_ns: u64,
    steal_ns: u64,
    own_ns: u64,
    pressure_us: Option<u64>,
    quotas: Vec<GroupQuota>,
}

/// A host is busy when others use more than this part of the CPUs that a run may use ...
pub const BUSY_SHARE: f64 = 0.1;
/// ... or the hypervisor, or a CPU quota, takes more than this part of them away.
pub const STOLEN_SHARE: f64 = 0.05;
/// A frequency that differs by more than this part is another state.
const FREQUENCY_SHARE: f64 = 0.1;

/// The difference between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostUse {
    /// Time between the readings.
    pub wall_s: f64,
    /// Number of CPUs in the sums.
    pub cpus: u64,
    /// CPUs that others used, on average: accurate to a clock tick per CPU (mostly 10 ms).
    pub others_cpus: f64,
    /// CPUs that this process and its reaped children used.
    pub own_cpus: f64,
    /// CPUs that were idle, waiting for disks included.
    pub idle_cpus: f64,
    /// CPUs that the hypervisor took away for other guests.
    pub steal_cpus: f64,
    /// CPUs that a quota of a control group kept its processes from; 0 without a quota.
    pub throttled_cpus: f64,
    /// Share of the time in which some task waited for a CPU (`/proc/pressure/cpu`, of the whole
    /// host), where the kernel counts it.
    pub cpu_pressure_share: Option<f64>,
    /// Mean frequency, if it was read; in a guest often a constant.
    pub frequency_hz: Option<f64>,
}

impl HostCpu {
    /// Reads the counters of these CPUs, or of all if none is named; `None` where `/proc/stat`
    /// cannot be read or lacks them.
    pub fn read(cpus: &[usize]) -> Option<HostCpu> {
        HostCpu::read_beside(cpus, quota::limits())
    }

    /// Reads them where the quotas of this process were read just now.
    pub fn read_beside(cpus: &[usize], quotas: Vec<GroupQuota>) -> Option<HostCpu> {
        let text = HostFile::Stat.read();
        let wanted = |cpu: &usize| cpus.is_empty() || cpus.contains(cpu);
        let (mut seen, mut all) = (Vec::new(), CpuTicks::default());
        for (cpu, ticks) in text.lines().filter_map(parse) {
            if wanted(&cpu) {
                seen.push(cpu);
                all.busy = all.busy.saturating_add(ticks.busy);
                all.idle = all.idle.saturating_add(ticks.idle);
                all.steal = all.steal.saturating_add(ticks.steal);
            }
        }
        if seen.is_empty() {
            return None;
        }
        let own = [Usage::of_self(), Usage::of_children()];
        Some(HostCpu {
            at: Instant::now(),
            cpus: seen,
            busy_ns: ticks_ns(all.busy),
            idle_ns: ticks_ns(all.idle),
            steal_ns: ticks_ns(all.steal),
            own_ns: own.iter().map(Usage::cpu_ns).sum(),
            pressure_us: pressure_us(HostFile::CpuPressure),
            quotas,
        })
    }

    /// Returns the difference from an earlier reading; `None` when no time has passed, or CPUs came
    /// or went.
    pub fn since(&self, earlier: &HostCpu) -> Option<HostUse> {
        let wall_s = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        if wall_s <= 0.0 || self.cpus != earlier.cpus {
            return None;
        }
        let cpus = self.cpus.len() as f64;
        let used = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e9 / wall_s;
        let [busy_cpus, idle_cpus, steal_cpus] = [
            used(self.busy_ns, earlier.busy_ns),
            used(self.idle_ns, earlier.idle_ns),
            used(self.steal_ns, earlier.steal_ns),
        ]
        .map(|of| of.min(cpus));
        let own_cpus = used(self.own_ns, earlier.own_ns);
        let throttled = quota::between(&earlier.quotas, &self.quotas);
        let pressure = self.pressure_us.zip(earlier.pressure_us);
        let pressure = pressure.map(|(now, then)| now.saturating_sub(then) as f64 / 1e6 / wall_s);
        Some(HostUse {
            wall_s,
            cpus: self.cpus.len() as u64,
            others_cpus: (busy_cpus - own_cpus).max(0.0),
            own_cpus,
            idle_cpus,
            steal_cpus,
            throttled_cpus: throttled.map_or(0.0, |quota| used(quota.throttled_ns, 0)),
            cpu_pressure_share: pressure.map(|share| share.min(1.0)),
            frequency_hz: None,
        })
    }
}

impl HostUse {
    /// Whether figures of this time are those of a busy host.
    pub fn is_busy(&self) -> bool {
        let cpus = self.cpus as f64;
        self.others_cpus > BUSY_SHARE * cpus
            || self.steal_cpus > STOLEN_SHARE * cpus
            || self.throttled_cpus > STOLEN_SHARE * cpus
    }

    /// Describes the load: "others used 1.1 of 2 CPUs, the hypervisor took 0.2", without parts that
    /// are zero.
    pub fn words(&self) -> String {
        let mut words = format!("others used {:.1} of {} CPUs", self.others_cpus, self.cpus);
        if self.steal_cpus > STOLEN_SHARE * self.cpus as f64 {
            words += &format!(", the hypervisor took {:.1}", self.steal_cpus);
        }
        if self.throttled_cpus > STOLEN_SHARE * self.cpus as f64 {
            words += &format!(", a CPU quota took {:.1}", self.throttled_cpus);
        }
        words
    }

    /// Returns what distinguishes two states, so that a difference of figures may come from it.
    pub fn differs(&self, other: &HostUse) -> Option<String> {
        let share = |used: f64, seen: &HostUse| used / seen.cpus.max(1) as f64;
        let apart =
            |of: fn(&HostUse) -> f64| (share(of(self), self) - share(of(other), other)).abs();
        if apart(|seen| seen.others_cpus) > BUSY_SHARE {
            return Some(format!(
                "others used {:.1} against {:.1} CPUs",
                self.others_cpus, other.others_cpus
            ));
        }
        if apart(|seen| seen.steal_cpus) > STOLEN_SHARE {
            return Some(format!(
                "the hypervisor took {:.1} against {:.1} CPUs",
                self.steal_cpus, other.steal_cpus
            ));
        }
        if apart(|seen| seen.throttled_cpus) > STOLEN_SHARE {
            return Some(format!(
                "a CPU quota took {:.1} against {:.1} CPUs",
                self.throttled_cpus, other.throttled_cpus
            ));
        }
        let (one_hz, other_hz) = (self.frequency_hz?, other.frequency_hz?);
        let far = (one_hz / other_hz).max(other_hz / one_hz) > 1.0 + FREQUENCY_SHARE;
        far.then(|| format!("CPUs at {:.1} against {:.1} GHz", one_hz / 1e9, other_hz / 1e9))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CpuTicks {
    busy: u64,
    idle: u64,
    steal: u64,
}

/// Parses a line "cpuN user nice system idle iowait irq softirq steal ...". Guests are already in
/// user and nice.
fn parse(line: &str) -> Option<(usize, CpuTicks)> {
    let numbered =
        line.strip_prefix("cpu").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut words = numbered.split_ascii_whitespace();
    let cpu = words.next()?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, iowait, rest @ ..] = ticks.as_slice() else { return None };
    let sum = |parts: &[u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let interrupts = sum(rest.get(..2).unwrap_or(rest));
    let busy = sum(&[*user, *nice, *system, interrupts]);
    Some((
        cpu,
        CpuTicks { busy, idle: sum(&[*idle, *iowait]), steal: rest.get(2).copied().unwrap_or(0) },
    ))
}

pub(crate) fn pressure_us(of: HostFile) -> Option<u64> {
    let text = of.read();
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split(' ').find_map(|word| word.strip_prefix("total="))?.trim().parse().ok()
}

/// Returns the mean present frequency of these CPUs in hertz, from cpufreq, else `/proc/cpuinfo`;
/// `None` where neither has it. In a guest that is often a constant.
pub fn frequency_hz(cpus: &[usize]) -> Option<f64> {
    let current = |cpu: &usize| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
        std::fs::read_to_string(path).ok()?.trim().parse::<f64>().ok().map(|khz| khz * 1e3)
    };
    let known: Option<Vec<f64>> = cpus.iter().map(current).collect();
    let known = known
        .filter(|known| !known.is_empty())
        .or_else(|| Some(from_cpuinfo(&HostFile::CpuInfo.read(), cpus)))?;
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    (mean.is_finite() && mean > 0.0).then_some(mean)
}

fn from_cpuinfo(text: &str, cpus: &[usize]) -> Vec<f64> {
    let (mut cpu, mut found) = (None, Vec::new());
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match name.trim() {
            "processor" => cpu = value.trim().parse::<usize>().ok(),
            "cpu MHz" if cpu.is_some_and(|cpu| cpus.contains(&cpu)) => {
                found.extend(value.trim().parse::<f64>().ok().map(|mhz| mhz * 1e6));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_neither_idle_nor_waiting_nor_stolen() {
        let ticks = |busy, idle, steal| CpuTicks { busy, idle, steal };
        assert_eq!(parse("cpu1 10 1 20 400 50 3 4 7 2 0"), Some((1, ticks(38, 450, 7))));
        assert_eq!(parse("cpu0 10 1 20 400 50"), Some((0, ticks(31, 450, 0))));
        for line in ["cpu  10 1 20 400 50 3 4 7 2 0", "cpu0", "cpux 1 2 3 4 5", "ctxt 5", ""] {
            assert_eq!(parse(line), None, "{line}");
        }
        let huge = format!("cpu0 {0} {0} {0} {0} {0} {0} {0} {0}", u64::MAX);
        assert_eq!(parse(&huge), Some((0, ticks(u64::MAX, u64::MAX, u64::MAX))));
    }

    #[test]
    fn what_this_process_used_is_not_the_others() {
        let look = |busy_ns, own_ns, at| HostCpu {
            at,
            cpus: vec![0, 1],
            busy_ns,
            idle_ns: 2 * own_ns,
            steal_ns: busy_ns / 10,
            own_ns,
            pressure_us: None,
            quotas: Vec::new(),
        };
        let now = Instant::now();
        let then =
            now.checked_sub(std::time::Duration::from_secs(2)).expect("it is later than 2 s");
        let used = look(3_000_000_000, 800_000_000, now).since(&look(0, 0, then)).expect("sound");
        assert!((used.others_cpus - 1.1).abs() < 1e-6, "{used:?}");
        assert!((used.own_cpus - 0.4).abs() < 1e-6 && (used.steal_cpus - 0.15).abs() < 1e-6);
        assert!((used.idle_cpus - 0.8).abs() < 1e-6, "{used:?}");
        // Counters that went back are invalid.
        let fallen = look(0, 0, now).since(&look(5, 0, then)).expect("sound");
        assert!(fallen.others_cpus.abs() < 1e-9);
        assert_eq!(look(0, 0, now).since(&look(0, 0, now)), None);
    }

    /// A child that was waited for is this process's own doing.
    #[test]
    fn what_a_reaped_child_used_is_own() {
        let before = HostCpu::read(&[]).expect("/proc/stat is there");
        let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh").args(["-c", script]).status();
        assert!(status.expect("sh starts").success());
        let used = HostCpu::read(&[]).and_then(|now| now.since(&before)).expect("it took time");
        let own_s = used.own_cpus * used.wall_s;
        assert!(own_s > 0.005, "a hundred thousand rounds of a shell: {own_s} s");
        assert!(used.cpus as f64 * used.wall_s * 1.2 > own_s, "{used:?}");
    }

    #[test]
    fn frequencies_of_the_cpus_that_are_asked_for() {
        let text = "processor\t: 0\ncpu MHz\t\t: 1000.0\nprocessor : 1\ncpu MHz : 3000.5\n";
        assert_eq!(from_cpuinfo(text, &[1]), [3_000_500_000.0]);
        assert!(from_cpuinfo("processor : 0\n", &[0]).is_empty());
    }
}
