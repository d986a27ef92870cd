//! The machine: its CPUs, and the size of a pipe.

use crate::quota;
use std::collections::BTreeSet;
use weir_sys::proc::{HostFile, ProcContents, ProcDir, Status, field, sysctl};

/// Returns the name and the numbers of the CPUs' model.
pub fn cpu_model() -> String {
    let cpuinfo = HostFile::CpuInfo.read();
    let model = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "CPU implementer"));
    let family = field(&cpuinfo, "cpu family");
    let number = field(&cpuinfo, "model");
    match (model, family, number) {
        (Some(name), Some(family), Some(number)) => {
            format!("{name} (family {family}, model {number})")
        }
        (Some(name), _, _) => name.to_owned(),
        _ => String::from("unknown"),
    }
}

/// Returns the CPUs this process may use: those of its affinity mask, less what a quota withholds.
pub fn usable_cpus() -> f64 {
    let mask = rustix::thread::sched_getaffinity(None).map_or(1.0, |set| f64::from(set.count()));
    quota::smallest(&quota::limits()).map_or(mask, |quota| quota.min(mask)).max(0.01)
}

/// Returns the CPUs of this process's affinity mask.
pub fn allowed_cpus() -> Vec<usize> {
    let mask = rustix::thread::sched_getaffinity(None).ok();
    let most = rustix::thread::CpuSet::MAX_CPU;
    mask.map_or_else(Vec::new, |set| (0..most).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Returns the CPUs of the host that are online; none where the kernel does not tell.
pub fn online() -> BTreeSet<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    cpu_list(&text)
}

/// Returns the number of CPUs of the host that are online; at least 1.
pub fn online_cpus() -> u32 {
    online().len().max(1) as u32
}

/// Returns the CPUs in a kernel list such as `0-3,8`; impossible ranges are left out.
pub fn cpu_list(text: &str) -> BTreeSet<usize> {
    const MOST: usize = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok().filter(|last| *last < MOST)?)
    };
    BTreeSet::from_iter(text.trim().split(',').filter_map(range).flatten())
}

/// Returns the largest pipe of an unprivileged process (`/proc/sys/fs/pipe-max-size`).
pub fn pipe_limit_bytes() -> u64 {
    const LINUX_DEFAULT: u64 = 1 << 20;
    sysctl("fs.pipe-max-size").unwrap_or(LINUX_DEFAULT)
}

/// Returns the smallest pipe: one page.
pub fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the peak memory of this process so far.
pub fn own_peak_rss_bytes() -> u64 {
    Status::of(ProcDir::This).and_then(|status| status.peak_rss_bytes()).unwrap_or(0)
}

/// Whether the CPUs have instructions for the cipher AES.
#[cfg(target_arch = "x86_64")]
pub fn has_aes() -> bool {
    std::is_x86_feature_detected!("aes")
}

/// Whether the CPUs have instructions for the cipher AES, by `/proc/cpuinfo`.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_aes() -> bool {
    let info = HostFile::CpuInfo.read();
    let features = |line: &&str| line.starts_with("flags") || line.starts_with("Features");
    let line = info.lines().find(features).unwrap_or_default();
    line.split_whitespace().any(|word| word == "aes")
}

/// Formats a size: "4 B", "64 KiB", "1 MiB".
pub fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_counted() {
        assert_eq!(cpu_list("0-3,8\n").len(), 5);
        assert_eq!(cpu_list("0").len(), 1);
        assert_eq!(cpu_list("3-1,x,").len(), 0);
        assert_eq!(cpu_list("0-4294967295").len(), 0);
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
