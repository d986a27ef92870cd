//! `weir bench`: measures the host's mechanisms and prints figures that repeat.

mod beside;
pub mod export;
pub mod history;
mod list;
mod nominal;
mod page;
mod progress;
mod table;

use crate::output::print;
use crate::output::print_json;
pub use list::trimmed;
pub use table::figure;
use table::figure as nice;

use crate::args::BenchOptions;
use crate::fault::{Fault, tell};
use history::History;
use progress::Progress;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_measure::bench::assemble::{self, About};
use weir_measure::bench::case::Suite;
use weir_measure::bench::cell::Request;
use weir_measure::bench::drive::{self, DriveError};
use weir_measure::bench::host;
use weir_measure::bench::params::Placement;
use weir_measure::bench::place::Topology;
use weir_measure::bench::plan::{Plan, PlanError, Wish};
use weir_measure::bench::record::Report;

/// The word with which the command starts itself for a cell.
pub const CELL: &str = "bench-cell";
/// How long the host is watched before the run.
const WATCH: Duration = Duration::from_secs(1);
/// The default set, with the watching, takes less than a minute.
const STANDARD_BUDGET: Duration = Duration::from_secs(48);

/// Carries out the verb.
pub fn bench(options: &BenchOptions) -> Result<ExitCode, Fault> {
    let suites = weir_bench::catalogue();
    check_names(&suites, &options.suites)?;
    if options.list {
        return list::list(&suites, &options.suites, options.json.is_some());
    }
    let wish = Wish {
        suites: options.suites.clone(),
        placements: options.placement.iter().map(|placement| Placement::from(*placement)).collect(),
        load: options.load.into(),
        budget: options.budget,
        standard_budget: STANDARD_BUDGET,
        directory: directory(options.dir.as_deref())?,
        seed: options.seed.unwrap_or_else(seed),
    };
    // What would be refused after a minute is refused before it.
    if let Some(name) = &options.save {
        history::check_name(name)?;
        History::open()?.check_free(name, options.replace)?;
    }
    for path in options.json.iter().chain(&options.html) {
        check_writable(path)?;
    }
    let mut progress = Progress::new(options.quiet);
    let report = measure(&suites, wish, &mut progress)?;
    progress.end();
    give(options, &report)
}

/// Measures the suites of a report once more, as it was measured.
pub fn measure_again(report: &Report) -> Result<Report, Fault> {
    let suites = weir_bench::catalogue();
    let names: BTreeSet<&str> = report.cases.iter().map(|case| case.suite.as_str()).collect();
    let known = suites.iter().filter(|suite| names.contains(suite.name));
    let standard = report.standard;
    let wish = Wish {
        suites: if standard { Vec::new() } else { known.map(|s| s.name.to_owned()).collect() },
        placements: report.placements_asked.clone(),
        load: report.load,
        budget: Some(Duration::from_secs_f64(report.budget_s.max(1.0))),
        standard_budget: STANDARD_BUDGET,
        directory: directory(None)?,
        seed: seed(),
    };
    let mut progress = Progress::new(false);
    let now = measure(&suites, wish, &mut progress)?;
    progress.end();
    Ok(now)
}

/// Runs the cases and makes the report.
fn measure(suites: &[Suite], wish: Wish, progress: &mut Progress) -> Result<Report, Fault> {
    let topology = Topology::read();
    let plan = Plan::new(suites, wish, &topology).map_err(|error| plan_fault(&error))?;
    progress.begin(&plan)?;
    let begun = Instant::now();
    let host = host::fingerprint(&topology);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let rates = host::present_rates(WATCH.min(plan.budget / 20));
    let launch = || {
        let mut command = Command::new("/proc/self/exe");
        command.arg(CELL);
        command
    };
    let collected = drive::run(suites, &plan, &launch, progress).map_err(|error| match error {
        DriveError::Stopped => Fault::interrupted(),
        DriveError::Start(error) => Fault::failed(format!("cannot start a cell: {error}")),
    })?;
    let about = About {
        weir: env!("CARGO_PKG_VERSION").into(),
        started_unix_s: started.as_secs(),
        duration: begun.elapsed(),
        nominal_ns: nominal::known(&host),
        host,
        rates,
    };
    let report = assemble::report(suites, &plan, &collected, about);
    nominal::keep(&report);
    Ok(report)
}

/// Writes the report wherever it was asked for. What cannot be written is told after the rest is.
fn give(options: &BenchOptions, report: &Report) -> Result<ExitCode, Fault> {
    let mut fault = None;
    let mut keep = |result: Result<(), Fault>| {
        if let Err(new) = result
            && let Some(old) = fault.replace(new)
        {
            tell(&old.to_string());
        }
    };
    let json_to_stdout = options.json.as_deref().is_some_and(|path| path == Path::new("-"));
    if !options.quiet {
        let text = table::text(report);
        keep(if json_to_stdout { print_err(&text) } else { print(&text) });
    }
    if let Some(path) = &options.json {
        let mut text = serde_json::to_string(report)
            .map_err(|error| Fault::failed(format!("cannot make JSON: {error}")))?;
        text.push('\n');
        keep(write_json(path, &text));
    }
    if let Some(path) = &options.html {
        keep(page::html(report).and_then(|text| write_file(path, &text)));
    }
    if let Some(name) = &options.save {
        keep(History::open().and_then(|mut h| h.save(name, report, options.replace)));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    if report.cases.is_empty() {
        return Err(Fault::failed("nothing could be measured; the notes say why"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one cell: the request comes on standard input.
pub fn cell() -> Result<ExitCode, Fault> {
    let parent_died = rustix::process::Signal::KILL;
    let _ = rustix::process::set_parent_process_death_signal(Some(parent_died));
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Fault::failed(format!("cannot read the request: {error}")))?;
    let request: Request = serde_json::from_str(&text)
        .map_err(|error| Fault::usage(format!("this verb is for weir bench itself: {error}")))?;
    let suites = weir_bench::catalogue();
    let suite = suites.iter().find(|suite| suite.name == request.suite);
    let group = suite.and_then(|suite| suite.groups.iter().find(|g| g.name == request.group));
    let group = group.ok_or_else(|| {
        Fault::usage(format!("there is no group '{}' in suite '{}'", request.group, request.suite))
    })?;
    weir_measure::bench::cell::run(group, &request, &mut std::io::stdout().lock())
        .map_err(|trouble| Fault::failed(trouble.text))?;
    Ok(ExitCode::SUCCESS)
}

fn check_names(suites: &[Suite], asked: &[String]) -> Result<(), Fault> {
    let Some(unknown) = asked.iter().find(|name| suites.iter().all(|s| s.name != **name)) else {
        return Ok(());
    };
    let near = suites.iter().map(|suite| (strsim::jaro_winkler(unknown, suite.name), suite.name));
    let nearest = near.filter(|(score, _)| *score > 0.6).max_by(|a, b| a.0.total_cmp(&b.0));
    Err(Fault::usage(match nearest {
        Some((_, name)) => format!("there is no suite '{unknown}'; did you mean '{name}'?"),
        None => format!("there is no suite '{unknown}'; weir bench --list names them"),
    }))
}

fn plan_fault(error: &PlanError) -> Fault {
    match error {
        PlanError::Placement(placement, why) => {
            Fault::usage(format!("cannot place anything at {placement}: {why}"))
        }
        PlanError::Nothing(why) => Fault::usage(why.clone()),
        PlanError::Budget { least, cases } => Fault::usage(format!(
            "the budget is too small for {cases} cases in fresh processes: at least {:.1}s",
            (least.as_secs_f64() * 10.0).ceil() / 10.0
        )),
    }
}

fn directory(asked: Option<&Path>) -> Result<PathBuf, Fault> {
    let directory = asked.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let cannot = |why: String| {
        Fault::failed(format!("cannot measure files in {}: {why}", directory.display()))
    };
    let found = std::fs::metadata(&directory).map_err(|error| cannot(error.to_string()))?;
    if found.is_dir() { Ok(directory) } else { Err(cannot("not a directory".into())) }
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

fn print_err(text: &str) -> Result<(), Fault> {
    let text = weir_policy::text::printable_lines(text);
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    Ok(())
}

/// Writes JSON to a file, or to standard output for "-".
pub fn write_json(path: &Path, text: &str) -> Result<(), Fault> {
    if path == Path::new("-") { print_json(text) } else { write_file(path, text) }
}

/// Whether a report can be written there later on. Leaves nothing behind.
fn check_writable(path: &Path) -> Result<(), Fault> {
    let new = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => false,
        // "-", or one that opening changes: a FIFO's reader would see its end.
        Ok(found) if !found.is_dir() => return Ok(()),
        Err(_) if path == Path::new("-") => return Ok(()),
        found => found.is_err(),
    };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Fault::failed(format!("cannot write {}: {error}", path.display())))?;
    if new {
        // Only what was just made.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), Fault> {
    std::fs::write(path, text)
        .map_err(|error| Fault::failed(format!("cannot write {}: {error}", path.display())))
}
