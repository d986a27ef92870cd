//! The host's fingerprint, and its present activity.

use super::place::{self, Topology};
use super::record::{Host, HostState, Rates};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use weir_measure::machine::cpu_model;
use weir_sys::proc::{HostFile, Io, ProcContents, field, number, processes};

/// Returns the host's fingerprint, as far as it can be read without privilege; other fields are
/// empty.
pub fn fingerprint(topology: &Topology) -> Host {
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let cpuinfo = HostFile::CpuInfo.read();
    let first = topology.allowed().first().copied().unwrap_or(0);
    Host {
        kernel: format!(
            "{} {} {} {}",
            word(uname.sysname()),
            word(uname.release()),
            word(uname.version()),
            word(uname.machine())
        ),
        cpu: cpu_model(),
        cpus_online: cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u64,
        cpus_allowed: topology.allowed().iter().map(|cpu| *cpu as u64).collect(),
        memory_bytes: memory_bytes(),
        caches: caches(first),
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        tsc_hz: counter_hz(),
        governor: governor(first),
        virtualisation: virtualisation(&cpuinfo),
        mitigations: mitigations(),
        huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
        placements: BTreeMap::new(),
        state: HostState::default(),
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn memory_bytes() -> u64 {
    let text = HostFile::MemInfo.read();
    let total = field(&text, "MemTotal").and_then(|value| value.split(' ').next()?.parse().ok());
    total.unwrap_or(0_u64) * 1024
}

fn caches(cpu: usize) -> Vec<String> {
    let cache = |(level, path): (u32, String)| {
        let size = line(&format!("{path}/size"));
        let kind = match line(&format!("{path}/type")).as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let shown = format!("L{level}{kind} {}", size.replace('K', " KiB"));
        (!size.is_empty()).then_some(shown)
    };
    place::caches(cpu).filter_map(cache).collect()
}

/// Measures the time-stamp counter against the monotonic clock for 50 ms; 0 without one.
pub fn counter_hz() -> u64 {
    let clock = quanta::Clock::new();
    let (begun, first) = (Instant::now(), clock.raw());
    let rest = Duration::from_millis(50);
    while begun.elapsed() < rest {
        std::hint::spin_loop();
    }
    let (ticks, elapsed) = (clock.raw().wrapping_sub(first), begun.elapsed());
    let hz = ticks as f64 / elapsed.as_secs_f64();
    // Without a counter, quanta counts the monotonic clock's nanoseconds.
    if (hz - 1e9).abs() < 1e4 { 0 } else { hz as u64 }
}

fn governor(cpu: usize) -> String {
    let text = line(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
    if text.is_empty() { String::from("none") } else { text }
}

fn virtualisation(cpuinfo: &str) -> String {
    let guest = field(cpuinfo, "flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor"));
    let product = line("/sys/class/dmi/id/sys_vendor");
    match (guest, product.is_empty()) {
        (false, _) => String::from("none"),
        (true, true) => String::from("a hypervisor"),
        (true, false) => format!("a hypervisor ({product})"),
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let states = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let state = line(&entry.path().to_string_lossy());
            (name, state)
        })
        .filter(|(_, state)| state != "Not affected");
    BTreeMap::from_iter(states)
}

/// Counts of the host's events since it started.
#[derive(Clone, Copy, Debug, Default)]
struct HostCounts {
    switches: u64,
    forks: u64,
    faults: u64,
    calls: u64,
    packets: u64,
}

fn counts() -> HostCounts {
    let stat = HostFile::Stat.read();
    let vmstat = HostFile::VmStat.read();
    let count = |text: &str, name: &str| number(text, name).unwrap_or(0);
    let mut calls = 0;
    for pid in processes() {
        calls += Io::of(pid).map_or(0, |io| io.read_calls + io.write_calls);
    }
    HostCounts {
        switches: count(&stat, "ctxt"),
        forks: count(&stat, "processes"),
        faults: count(&vmstat, "pgfault"),
        calls,
        packets: received(&HostFile::NetDev.read()),
    }
}

/// Parses `/proc/net/dev`: packets that all devices received, including the loopback device.
fn received(table: &str) -> u64 {
    let devices = table.lines().filter_map(|line| line.split_once(':'));
    devices.filter_map(|(_, counts)| counts.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

/// Watches the host for `time` without doing anything.
pub fn present_rates(time: Duration) -> Rates {
    let (begun, before) = (Instant::now(), counts());
    std::thread::sleep(time);
    let (after, seconds) = (counts(), begun.elapsed().as_secs_f64());
    // The calls of an ended process are no longer counted, so the sum may have fallen.
    let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    Rates {
        switches_per_s: rate(before.switches, after.switches),
        faults_per_s: rate(before.faults, after.faults),
        calls_per_s: rate(before.calls, after.calls),
        forks_per_s: rate(before.forks, after.forks),
        packets_per_s: rate(before.packets, after.packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_known() {
        let host = fingerprint(&Topology::read());
        assert!(host.kernel.starts_with("Linux "), "{host:?}");
        assert!(host.cpus_online >= 1 && !host.cpus_allowed.is_empty() && host.memory_bytes > 0);
        assert!(!host.cpu.is_empty());
    }

    #[test]
    fn packets_of_all_devices_are_added() {
        let table = "Inter-|   Receive                |  Transmit\n face |bytes    packets errs\n    \
                     lo: 9120     96    0    0\n  eth0:1234567 1000 0 0\n";
        assert_eq!(received(table), 1_096);
        assert_eq!(received(""), 0);
    }

    #[test]
    fn it_does_something_at_present() {
        let rates = present_rates(Duration::from_millis(50));
        assert!(rates.switches_per_s > 0.0, "{rates:?}");
    }
}
