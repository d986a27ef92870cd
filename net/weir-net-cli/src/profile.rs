//! `weir net profile`: switches on the profiles of a switch's processes, waits, and prints what a
//! packet costs, and where.

use super::switch::{NamedSwitch, device, those_up};
use crate::args::NetProfileOptions;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_command::fault::{Fault, print_message};
use weir_command::json;
use weir_command::output::{Outlet, check_json_apart, progress_bar};
use weir_command::signals::{Again, stop_flag};
use weir_profile::{LEASE, Observation, Observed, ProfileReport};

const SCHEMA: &str = "weir.net.profile/1";
/// The process and the subroutine whose calls are packets.
const PACKETS: (&str, &str) = ("switch", "ip.verify");
/// The most files that are read.
const MOST_FILES: usize = 256;

pub fn profile(options: &NetProfileOptions) -> Result<ExitCode, Fault> {
    let stop = stop_flag(Again::Kills)?;
    let files = files(options)?;
    files.iter().try_for_each(|path| check_json_apart(&options.json, path))?;
    let mut outlet = Outlet::open(&options.json)?.in_lines(options.interval.is_some());
    let mut observed = open_all(files, options)?;
    let length = options.interval.unwrap_or(options.seconds);
    renew(&mut observed)?;
    let mut before = snapshot(&observed)?;
    loop {
        count(&mut observed, length, &stop, &outlet)?;
        let after = snapshot(&observed)?;
        let outcome = Outcome::new(&before, &after)?;
        // Relaxed: no other data depends on the flag.
        let go_on = options.interval.is_some() && !stop.load(Ordering::Relaxed);
        if !outlet.write_report(SCHEMA, || outcome.json(), || outcome.text())? {
            return Err(Fault::reader_gone());
        }
        if !go_on || after.iter().all(Observation::is_gone) {
            return Ok(ExitCode::SUCCESS);
        }
        before = after;
    }
}

/// Opens the profiles that were asked for. If these are all of a switch, those that cannot be read
/// are named and left out.
fn open_all(
    files: Vec<PathBuf>,
    options: &NetProfileOptions,
) -> Result<Vec<(PathBuf, Observed)>, Fault> {
    let mut observed = Vec::new();
    for path in files {
        match Observed::open(&path) {
            Ok(profile) => observed.push((path, profile)),
            Err(error) if options.which.is_empty() => print_message(&cannot("read", &path, &error)),
            Err(error) => return Err(Fault::failed(cannot("read", &path, &error))),
        }
    }
    if observed.is_empty() {
        let tun = device(options.tun.as_deref())?;
        let up = if weir_net::names::is_up(&tun) { String::new() } else { those_up() };
        let what = format!("cannot find profiles of '{tun}': none of its processes");
        return Err(Fault::failed(format!("{what} has published one{up}")));
    }
    Ok(observed)
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} profile '{}': {error}", path.display())
}

fn files(options: &NetProfileOptions) -> Result<Vec<PathBuf>, Fault> {
    if options.which.is_empty() {
        return published(&NamedSwitch::find(options.tun.as_deref())?, |_| true);
    }
    let mut files = Vec::new();
    for which in &options.which {
        match pid(which) {
            None => files.push(PathBuf::from(which)),
            Some(pid) => {
                let switch = NamedSwitch::find(options.tun.as_deref())?;
                let end = format!(".{pid}");
                let found = published(&switch, |name| name.ends_with(&end))?;
                if found.is_empty() {
                    let of = format!("process {pid} of '{}'", switch.tun);
                    return Err(Fault::failed(format!("cannot find a profile of {of}")));
                }
                files.extend(found);
            }
        }
    }
    Ok(files)
}

/// A number is a process; a file with a number for a name is written ./4711.
fn pid(which: &OsStr) -> Option<u32> {
    which.to_str()?.parse().ok()
}

/// Lists the files of profiles in the directory of a switch.
fn published(switch: &NamedSwitch, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Fault> {
    let directory = &switch.directory;
    let what = format!("read directory '{}'", directory.display());
    let read = Fault::cannot(&what);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(&read)? {
        let name = entry.map_err(&read)?.file_name();
        let of_profile = |name: &&str| name.starts_with("profile.") && wanted(name);
        if name.to_str().as_ref().is_some_and(of_profile) {
            files.push(directory.join(name));
        }
    }
    files.sort();
    let found = files.len();
    if found > MOST_FILES {
        let (living, mut ended): (Vec<_>, _) = files.into_iter().partition(|path| lives(path));
        files = living;
        files.append(&mut ended);
        files.truncate(MOST_FILES);
        let left_out = found - MOST_FILES;
        print_message(&format!(
            "{left_out} of {found} profiles are left out, those of the dead first"
        ));
    }
    Ok(files)
}

/// Whether there is a process of the number in the name of a profile.
fn lives(path: &Path) -> bool {
    path.extension().is_some_and(|pid| Path::new("/proc").join(pid).exists())
}

/// Switches all profiles on, or keeps them on.
fn renew(observed: &mut [(PathBuf, Observed)]) -> Result<(), Fault> {
    for (path, profile) in observed {
        let on = profile.renew();
        on.map_err(|error| Fault::failed(cannot("switch on", path, &error)))?;
    }
    Ok(())
}

fn snapshot(observed: &[(PathBuf, Observed)]) -> Result<Vec<Observation>, Fault> {
    let one = |(path, profile): &(PathBuf, Observed)| {
        profile.snapshot().map_err(|error| Fault::failed(cannot("read", path, &error)))
    };
    observed.iter().map(one).collect()
}

/// Keeps all profiles on for this time, or until an interrupt.
fn count(
    observed: &mut [(PathBuf, Observed)],
    length: Duration,
    stop: &AtomicBool,
    outlet: &Outlet,
) -> Result<(), Fault> {
    let begun = Instant::now();
    let template = "{bar:24} {percent:>3} %  counting; an interrupt ends it";
    let bar = progress_bar(true, length.as_millis() as u64, template);
    while !stop.load(Ordering::Relaxed) {
        let left = length.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        // An interrupt ends the wait, and the loop sees the flag.
        if !outlet.wait(left.min(LEASE / 8))? {
            return Err(Fault::reader_gone());
        }
        renew(observed)?;
        bar.set_position(begun.elapsed().as_millis() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The profiles of one interval.
#[derive(Debug)]
struct Outcome {
    reports: Vec<ProfileReport>,
    /// Processes that had ended before the interval: everything that they counted.
    gone: Vec<ProfileReport>,
    sum: ProfileReport,
}

/// The CPU time of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PacketCost {
    /// The time without that of the profile itself.
    cpu_ns: f64,
    /// The share of it that the rows explain.
    explained: f64,
    /// The time that the profile itself took.
    profile_ns: f64,
}

impl Outcome {
    fn new(before: &[Observation], after: &[Observation]) -> Result<Outcome, Fault> {
        let (mut reports, mut gone) = (Vec::new(), Vec::new());
        for (before, after) in before.iter().zip(after) {
            let of = |error| {
                let process = format!("process {} '{}'", after.pid(), after.process());
                Fault::failed(format!("cannot make a profile of {process}: {error}"))
            };
            if before.is_gone() {
                gone.push(ProfileReport::whole(after).map_err(of)?);
            } else {
                reports.push(ProfileReport::between(before, after).map_err(of)?);
            }
        }
        Ok(Outcome::of(reports, gone))
    }

    /// Divides by the number of packets, if it is known.
    fn of(reports: Vec<ProfileReport>, gone: Vec<ProfileReport>) -> Outcome {
        let (process, call) = PACKETS;
        let switches = reports.iter().filter(|report| report.process == process);
        let packets =
            switches.filter_map(|report| report.subroutine(call)).map(|row| row.calls).sum();
        let sum = ProfileReport::sum(&reports).per(packets, "packet");
        let reports = reports.into_iter().map(|report| report.per(packets, "packet")).collect();
        Outcome { reports, gone, sum }
    }

    /// What a packet took; `None` if the number of packets or the CPU time is unknown.
    fn packet(&self) -> Option<PacketCost> {
        let (unit, cpu) = (self.sum.unit.as_ref()?, self.sum.cpu?);
        let own_ns = self.sum.own_ns();
        let without = |ns: u64| ns.saturating_sub(own_ns) as f64;
        let count = unit.count as f64;
        Some(PacketCost {
            cpu_ns: without(cpu.total_ns) / count,
            explained: without(self.sum.explained_ns()) / without(cpu.total_ns).max(1.0),
            profile_ns: own_ns as f64 / count,
        })
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for report in self.gone.iter().chain(&self.reports) {
            text += &format!("{report}\n");
        }
        if self.reports.len() > 1 {
            text += &format!("{}\n", self.sum);
        }
        if let Some(packet) = self.packet() {
            let (us, percent) = (packet.cpu_ns / 1e3, packet.explained * 100.0);
            text += &format!("time per packet: {us:.3} us ({percent:.1} % explained), ");
            text += &format!("plus {:.3} us for the profile itself\n", packet.profile_ns / 1e3);
        }
        text
    }

    fn json(&self) -> Value {
        let several = |reports: &[ProfileReport]| reports.iter().map(report).collect::<Vec<_>>();
        json!({
            "processes": several(&self.reports),
            "gone": several(&self.gone),
            "sum": report(&self.sum),
            "packet": self.packet().map(|packet| json!({
                "cpu_s": packet.cpu_ns / 1e9,
                "explained_share": packet.explained,
                "profile_s": packet.profile_ns / 1e9,
            })),
        })
    }
}

/// A report as JSON, with derived figures.
fn report(report: &ProfileReport) -> Value {
    json!({
        "process": report.process,
        "pid": Some(report.pid).filter(|pid| *pid > 0),
        "gone": report.gone,
        "interval_s": json::seconds(report.interval_ns),
        "threads": report.threads,
        "cpu": report.cpu,
        "explained_s": json::seconds(report.explained_ns()),
        "not_explained_s": report.not_explained_ns().map(|ns| ns as f64 / 1e9),
        "unit": report.unit,
        "subroutines": report.subroutines,
        "system_calls": report.calls,
        "together": report.together,
        "timed_s": json::seconds(report.timed_ns),
        "untimed_s": json::seconds(report.untimed_ns),
        "notes": report.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_profile::{Cpu, ProfileRow};

    fn row(name: &str, calls: u64, user_us: u64, system_us: u64, wait_us: u64) -> ProfileRow {
        let [user_ns, system_ns, wait_ns] = [user_us, system_us, wait_us].map(|us| us * 1000);
        ProfileRow {
            name: String::from(name),
            calls,
            user_ns,
            system_ns,
            wait_ns,
            of_profile: false,
        }
    }

    /// A switch that read 100,000 packets in a second, and one who answered them.
    fn fixed() -> Outcome {
        let cpu = |total_us: u64| Cpu {
            total_ns: total_us * 1000,
            user_ns: total_us / 40 * 10_000,
            system_ns: total_us / 40 * 30_000,
            queue_ns: 1_234_567,
        };
        let report = |process: &str, pid, cpu| ProfileReport {
            process: String::from(process),
            pid,
            interval_ns: 1_000_000_000,
            threads: 1,
            cpu: Some(cpu),
            ..ProfileReport::default()
        };
        let switch = ProfileReport {
            timed_ns: 40_000_000,
            untimed_ns: 333_500_000,
            subroutines: vec![
                row("switch.receive", 100_000, 31_000, 330_000, 480_000),
                row("ip.verify", 100_000, 12_500, 0, 0),
                ProfileRow { of_profile: true, ..row("(the profile)", 100_000, 0, 20_000, 0) },
            ],
            calls: vec![
                row("tun.read", 100_000, 0, 180_000, 480_000),
                row("tun.write", 100_000, 0, 150_000, 0),
            ],
            ..report("switch", 4711, cpu(400_000))
        };
        let icmpd = ProfileReport {
            subroutines: vec![
                row("icmp.answer", 100_000, 40_000, 0, 0),
                row("ip.verify", 100_000, 15_000, 0, 0),
            ],
            notes: vec![String::from("threads not counted: 1, there were more than 32 at once")],
            ..report("icmpd", 4712, cpu(60_000))
        };
        let gone = ProfileReport {
            gone: true,
            cpu: None,
            interval_ns: 0,
            notes: vec![String::from("process 4000 is gone")],
            subroutines: vec![row("icmp.answer", 3, 2, 0, 0)],
            ..report("icmpd", 4000, cpu(0))
        };
        Outcome::of(vec![switch, icmpd], vec![gone])
    }

    #[test]
    fn the_tables_read_well() {
        insta::assert_snapshot!(fixed().text());
    }

    #[test]
    fn the_json_is_of_its_schema() {
        let text = json::document(SCHEMA, fixed().json()).expect("JSON");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn without_packets_nothing_is_divided() {
        let Outcome { reports, .. } = fixed();
        let icmpd = reports.into_iter().filter(|report| report.pid == 4712).collect();
        let outcome = Outcome::of(icmpd, Vec::new());
        assert_eq!((outcome.packet(), outcome.sum.unit), (None, None));
    }
}
