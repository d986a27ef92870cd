//! `weir watch`: the report of a run for processes that run already.

use super::container;
use super::judge;
use super::pages::Pages;
use super::stall;
use crate::args::{SAMPLE_MS, WatchOptions};
use crate::files::{cannot_write, writable, write};
use crate::processes::processes_called;
use crate::report::{self, Detail, ReportStyle, Totals};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;
use weir_command::fault::{Fault, missing};
use weir_command::output::{Output, check_distinct};
use weir_command::signals::{Again, stop_flag};
use weir_doctor::facts::{Run, Watched};
use weir_doctor::stall::Stall;
use weir_measure::runner::{self, Aim};
use weir_policy::text::printable_lines;
use weir_sys::Pid;
use weir_sys::proc::identity;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Runs the verb.
pub fn watch_running(options: &WatchOptions) -> Result<ExitCode, Fault> {
    let metrics_file = options.prometheus.as_deref();
    let named = [("--json", options.json.path()), ("--prometheus", metrics_file)];
    check_distinct(named.into_iter().chain(options.inside.files()))?;
    if let Some(file) = metrics_file {
        writable(file).map_err(|error| cannot_write("metrics", Some(file), &error))?;
    }
    options.inside.check_stdout(options.json.is_stdout())?;
    let (pids, name) = targets(options)?;
    let has_no_text = options.json.is_stdout() || options.inside.is_md_stdout();
    let text = if has_no_text { None } else { Some(Output::stdout()?) };
    let mut outputs = (text, Output::open(&options.json)?);
    let over = stop_flag(Again::AsFirst)?;
    // Relaxed: no other memory depends on it.
    let is_over = || over.load(Ordering::Relaxed);
    let grow_bytes = options.grow.unwrap_or(0);
    let pages = Pages::check(&options.inside)?;
    let mut aim = Aim {
        pids,
        time: None,
        tick_ns: SAMPLE_MS * 1_000_000,
        grow_bytes,
        profile: options.inside.profiles(),
        trace: options.inside.trace,
        history: options.inside.keeps_history(),
        stall_after: options.why_after.unwrap_or_default().0,
    };
    let begun = Instant::now();
    let mut totals = Totals::new();
    let mut reports = 0;
    loop {
        let left = options.time.map(|most| most.saturating_sub(begun.elapsed()));
        aim.time = [left, options.interval].into_iter().flatten().min();
        let (mut stall, mut was_shown) = (None, false);
        let mut tell = |news| {
            stall::tell(&news, &mut was_shown);
            stall::keep(&mut stall, news);
        };
        let runner::Watched::Seen { run, alive } =
            runner::watch(&aim, &mut || is_over(), &mut tell)
        else {
            let gone = format!("cannot watch {name}: it does not exist");
            return if reports > 0 { Ok(ExitCode::SUCCESS) } else { Err(Fault::failed(gone)) };
        };
        let has_ended = run.watched.as_ref().is_some_and(|watched| watched.has_ended);
        if let Some(file) = metrics_file {
            let written = write(file, totals.metrics(&run).as_bytes());
            written.map_err(|error| Fault::unwritable(Some(file), error))?;
        }
        let is_read = show((*run, stall), &name, options, &mut outputs, &pages)?;
        reports += 1;
        // What was asked for may have ended before the rest of its pipeline.
        aim.pids = alive;
        let is_last = options.time.is_some_and(|most| begun.elapsed() >= most);
        if options.interval.is_none() || has_ended || is_last || is_over() || !is_read {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Writes a report as text and as JSON. With several, each is one line of JSON. False if a reader has
/// left.
fn show(
    (run, stall): (Run, Option<Stall>),
    name: &str,
    options: &WatchOptions,
    (text, json): &mut (Option<Output>, Option<Output>),
    pages: &Pages,
) -> Result<bool, Fault> {
    let said = words(&run);
    let report = judge(run, name, 0, stall);
    let detail = Detail::of(options.brief, options.verbose);
    let mut is_read = pages.write(&report, detail)?;
    if let Some(json) = json {
        let form = if options.interval.is_some() { report::json_line } else { report::json };
        is_read &= json.write(form(&report))?;
    }
    if let Some(text) = text {
        let shown = report::text(&report, &ReportStyle::of_stdout(detail));
        is_read &= text.write(printable_lines(&format!("{shown}{said}")))?;
    }
    Ok(is_read)
}

/// Returns the processes that were asked for, and their name for people.
fn targets(options: &WatchOptions) -> Result<(Vec<Pid>, String), Fault> {
    let is_there = |pid: &Pid| identity(*pid).is_some_and(|found| found.pid == *pid);
    let asked = [options.pids.as_slice(), &options.pid].concat();
    if let Some(gone) = asked.iter().find(|pid| !is_there(pid)) {
        return Err(Fault::failed(format!("cannot watch process {gone}: {}", missing(*gone))));
    }
    match asked.as_slice() {
        [] => {}
        [pid] => return Ok((vec![*pid], format!("process {pid}"))),
        pids => {
            let numbers: Vec<String> = pids.iter().map(Pid::to_string).collect();
            return Ok((pids.to_vec(), format!("processes {}", numbers.join(", "))));
        }
    }
    if let Some(name) = &options.container {
        let pids = container::processes_of(name);
        let none = "no process is in a container of this name or number (names of other users' containers may \
                    be unknown: give its number)";
        return match pids.is_empty() {
            true => Err(Fault::failed(format!("cannot watch container '{name}': {none}"))),
            false => Ok((pids, format!("container '{name}'"))),
        };
    }
    if let Some(name) = &options.comm {
        let pids = processes_called(name);
        let none = || Fault::failed(format!("cannot watch '{name}': no process has this name"));
        return if pids.is_empty() { Err(none()) } else { Ok((pids, format!("'{name}'"))) };
    }
    let path = options.cgroup.clone().unwrap_or_default();
    let below = path.strip_prefix("/").unwrap_or(&path);
    let directory =
        if path.starts_with(GROUPS) { path.clone() } else { Path::new(GROUPS).join(below) };
    let name = format!("control group '{}'", path.display());
    let pids = members(directory).map_err(Fault::cannot(&format!("read {name}")))?;
    match pids.is_empty() {
        true => Err(Fault::failed(format!("cannot watch {name}: it has no processes"))),
        false => Ok((pids, name)),
    }
}

/// Returns the processes of a control group and of those below it.
fn members(directory: PathBuf) -> std::io::Result<Vec<Pid>> {
    let text = std::fs::read_to_string(directory.join("cgroup.procs"))?;
    let mut pids: Vec<Pid> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
    for entry in std::fs::read_dir(&directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group may be removed meanwhile.
            pids.extend(members(entry.path()).unwrap_or_default());
        }
    }
    Ok(pids)
}

/// Says what became of the processes and of what waits in their pipes.
fn words(run: &Run) -> String {
    let Some(Watched { pids, has_ended, is_stuck, pipes }) = &run.watched else {
        return String::new();
    };
    let mut text = String::new();
    if *is_stuck {
        let first = pids.first().copied().unwrap_or_default();
        text.push_str(&format!(
            "stuck: nothing was read or written meanwhile; try: weir why {first}\n"
        ));
    }
    for pipe in pipes.iter().filter(|_| !is_stuck) {
        if let (Some(writer), Some(reader), Some(backlog)) =
            (pipe.writer_pid, pipe.reader_pid, pipe.backlog)
        {
            text.push_str(&format!("pipe from {writer} to {reader}: {backlog}\n"));
        }
    }
    if *has_ended {
        text.push_str("all watched processes have ended\n");
    }
    text
}
