//! What the machine allows: CPUs, and how large a pipe may be.

use crate::quota;
use weir_sys::proc::read_small;

/// CPUs this process may use: those of its affinity mask, less what a cgroup quota withholds.
pub fn usable_cpus() -> f64 {
    let mask = rustix::thread::sched_getaffinity(None).map_or(1.0, |set| f64::from(set.count()));
    quota::smallest(&quota::limits()).map_or(mask, |quota| quota.min(mask)).max(0.01)
}

/// The CPUs of this process's affinity mask.
pub fn allowed_cpus() -> Vec<usize> {
    let mask = rustix::thread::sched_getaffinity(None).ok();
    let most = rustix::thread::CpuSet::MAX_CPU;
    mask.map_or_else(Vec::new, |set| (0..most).filter(|cpu| set.is_set(*cpu)).collect())
}

/// CPUs of the host that are online; at least 1.
pub fn online_cpus() -> u32 {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    count_ranges(&text).max(1)
}

/// The number of CPUs in a list as the kernel writes it: `0-3,8`.
fn count_ranges(text: &str) -> u32 {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    text.trim().split(',').filter_map(count).fold(0, u32::saturating_add)
}

/// The largest pipe an unprivileged process may make (`/proc/sys/fs/pipe-max-size`).
pub fn pipe_limit_bytes() -> u64 {
    const LINUX_DEFAULT: u64 = 1 << 20;
    let mut buffer = [0; 64];
    let text = read_small("/proc/sys/fs/pipe-max-size", &mut buffer).unwrap_or(&[]);
    String::from_utf8_lossy(text).trim().parse().unwrap_or(LINUX_DEFAULT)
}

/// The smallest pipe: one page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Peak memory of this process so far.
pub fn own_peak_rss_bytes() -> u64 {
    let mut buffer = [0; 4096];
    let text = read_small("/proc/self/status", &mut buffer).unwrap_or(&[]);
    crate::proc::peak_rss_bytes(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!(count_ranges("0-3,8\n"), 5);
        assert_eq!(count_ranges("0"), 1);
        assert_eq!(count_ranges("3-1,x,"), 0);
        assert_eq!(count_ranges("0-4294967295"), 0);
    }

    #[test]
    fn this_machine_has_a_cpu_and_pipes() {
        assert!(usable_cpus() > 0.0);
        assert!(!allowed_cpus().is_empty());
        assert!(online_cpus() as usize >= allowed_cpus().len());
        assert!(pipe_limit_bytes() >= page_bytes());
        assert!(own_peak_rss_bytes() > 0);
    }
}
