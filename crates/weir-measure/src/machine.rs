//! What the machine allows: CPUs, and how large a pipe may be.

use weir_sys::proc::read_small;

/// CPUs this process may use: those of its affinity mask, less what a cgroup quota withholds.
pub fn usable_cpus() -> f64 {
    let mask = rustix::thread::sched_getaffinity(None).map_or(1.0, |set| f64::from(set.count()));
    quota_cpus().map_or(mask, |quota| quota.min(mask)).max(0.01)
}

/// The smallest `cpu.max` of this process's cgroup (v2) and those above it, in CPUs.
fn quota_cpus() -> Option<f64> {
    let mut buffer = [0; 4096];
    let text =
        String::from_utf8_lossy(read_small("/proc/self/cgroup", &mut buffer).ok()?).into_owned();
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut directory = std::path::PathBuf::from(format!("/sys/fs/cgroup{path}"));
    let mut smallest: Option<f64> = None;
    while directory.starts_with("/sys/fs/cgroup") {
        let file = directory.join("cpu.max");
        let text = read_small(&file.to_string_lossy(), &mut buffer).unwrap_or(&[]);
        if let Some(cpus) = parse_quota(&String::from_utf8_lossy(text)) {
            smallest = Some(smallest.map_or(cpus, |least| least.min(cpus)));
        }
        directory.pop();
    }
    smallest
}

/// `cpu.max` is "max PERIOD" or "QUOTA PERIOD", in microseconds.
fn parse_quota(text: &str) -> Option<f64> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<f64>().ok());
    let (quota, period) = (fields.next()??, fields.next()??);
    (period > 0.0).then(|| quota / period)
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
    weir_sys::proc::peak_rss_bytes(text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_in_cpus() {
        assert_eq!(parse_quota("150000 100000\n"), Some(1.5));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota(""), None);
    }

    #[test]
    fn this_machine_has_a_cpu_and_pipes() {
        assert!(usable_cpus() > 0.0);
        assert!(pipe_limit_bytes() >= page_bytes());
        assert!(own_peak_rss_bytes() > 0);
    }
}
