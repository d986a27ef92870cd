//! `weir bench`: measures the host's mechanisms and prints figures that repeat.

pub mod beside;
pub mod export;
pub mod history;
mod list;
mod nominal;
pub mod page;
mod progress;
mod table;

pub use table::{placements, text};
use weir_command::output::{Output, check_distinct, print, print_err};

use crate::args::BenchOptions;
use progress::BenchProgress;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_bench::engine::case::Suite;
use weir_bench::engine::params::Load;
use weir_bench::engine::pick::{self, Pick, Picks};
use weir_bench::engine::place::Topology;
use weir_bench::engine::plan::{Block, Plan, PlanError, PlanRequest};
use weir_bench::engine::record::Report;
use weir_bench::engine::watched::WatchedRun;
use weir_command::fault::{Fault, INTERRUPTED, UNOPTIMIZED, print_message};
use weir_command::json;
use weir_command::units::words::things;

/// The word with which the command starts itself to run a cell.
pub const CELL: &str = "bench-cell";
/// The most time that the host is watched before the run.
const WATCH: Duration = Duration::from_secs(1);
/// The least time that it is watched: the kernel counts in ticks of up to 10 ms.
const LOOK: Duration = Duration::from_millis(200);
/// An interrupted run needs this many passes for a report: a single value has no interval.
const PASSES_KEPT: u64 = 2;
/// Names at least this similar (Jaro and Winkler) count as misspelt. "nosuch" and "joy-switch" are
/// less similar.
const NEAR: f64 = 0.8;
/// The budget of the default set. With the watching, it takes less than a minute.
const STANDARD_BUDGET: Duration = Duration::from_secs(48);

pub fn bench(options: &BenchOptions) -> Result<ExitCode, Fault> {
    let suites = weir_bench::catalogue();
    let picks = picks(&suites, options)?;
    if options.list {
        return list::list(&suites, &picks, &options.json);
    }
    let wish = PlanRequest {
        placements: options.placement.clone(),
        load: options.load,
        budget: options.budget,
        directory: directory(options.dir.as_deref())?,
        seed: options.seed.unwrap_or_else(seed),
        ..wish(picks)
    };
    // Refuse bad names now, not after the run.
    if let Some(name) = &options.save {
        history::prepare(name, options.replace)?;
    }
    let outputs = [("--json", options.json.path()), ("--html", options.html.as_deref())];
    check_distinct(outputs)?;
    outputs.into_iter().filter_map(|(_, path)| path).try_for_each(check_writable)?;
    if options.json.is_stdout() {
        Output::open(&options.json)?;
    }
    let mut progress = BenchProgress::new(options.quiet);
    let report = measure(&suites, wish, &mut progress)?;
    progress.end();
    give(options, &report)
}

/// A request for these cases, with defaults for all else.
fn wish(picks: Picks) -> PlanRequest {
    PlanRequest {
        picks,
        placements: Vec::new(),
        load: Load::None,
        budget: None,
        standard_budget: STANDARD_BUDGET,
        directory: std::env::temp_dir(),
        seed: 0,
        floors_s: nominal::floors_s(),
    }
}

/// Measures the cases of a report again, with the same options.
pub fn measure_again(report: &Report) -> Result<Report, Fault> {
    let suites = weir_bench::catalogue();
    let mut asked: Vec<String> = report.suites_asked.clone();
    if asked.is_empty() && report.filter.is_none() && !report.standard {
        // The report does not say which suites were asked for, so take all that it has.
        let names = std::collections::BTreeSet::from_iter(
            report.cases.iter().map(|case| case.suite.as_str()),
        );
        asked = suites.iter().map(|s| s.name.to_owned()).filter(|n| names.contains(&**n)).collect();
    }
    let wish = PlanRequest {
        placements: report.placements_asked.clone(),
        load: report.load,
        // A file may say anything; no budget that was asked for is longer than a day.
        budget: Some(Duration::from_secs_f64(report.budget_s.clamp(1.0, 86_400.0))),
        directory: directory(report.directory.as_ref().map(Path::new))?,
        seed: seed(),
        ..wish(picked(&asked, report.filter.as_deref())?)
    };
    let mut progress = BenchProgress::new(false);
    let now = measure(&suites, wish, &mut progress)?;
    progress.end();
    if now.interrupted { Err(Fault::interrupted()) } else { Ok(now) }
}

/// Runs the cases and makes the report.
fn measure(
    suites: &[Suite],
    wish: PlanRequest,
    progress: &mut BenchProgress,
) -> Result<Report, Fault> {
    let topology = Topology::read();
    let plan = Plan::new(suites, wish, &topology).map_err(|error| plan_fault(&error))?;
    progress.begin(&plan)?;
    let begun = Instant::now();
    // This process reaps the children of a killed cell: their CPU time counts as this run's.
    // If the kernel refuses, it counts as the host's.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut run = WatchedRun::begin(&topology, begun, (plan.budget / 20).clamp(LOOK, WATCH));
    if cfg!(unoptimized) {
        progress.warn(UNOPTIMIZED);
    }
    if let Some(before) = run.before().filter(|before| before.is_busy()) {
        progress.warn(&format!(
            "the host is busy: {} before the run began; the figures will be those of a busy host",
            before.words()
        ));
    }
    let launch = || {
        let mut command = Command::new("/proc/self/exe");
        command.arg(CELL);
        command
    };
    let driven =
        run.drive(suites, &plan, &launch, progress).map_err(Fault::cannot("start a cell"))?;
    let floors = plan.blocks.iter().zip(&driven.floors);
    let name = |block: &Block| block.cost_name(suites, plan.wish.load);
    nominal::keep_floors(floors.filter_map(|(block, floor)| Some((name(block), (*floor)?))));
    if driven.interrupted && driven.passes < PASSES_KEPT {
        return Err(Fault::interrupted());
    }
    let nominal_ns = nominal::known(run.host());
    let report = run.report(suites, &plan, &driven, env!("CARGO_PKG_VERSION"), nominal_ns);
    nominal::keep(&report);
    Ok(report)
}

/// Writes the report to all outputs that were asked for. Errors are reported after the rest.
fn give(options: &BenchOptions, report: &Report) -> Result<ExitCode, Fault> {
    let mut fault = None;
    let mut keep = |result: Result<(), Fault>| {
        if let Err(new) = result
            && let Some(old) = fault.replace(new)
        {
            print_message(&old.to_string());
        }
    };
    if !options.quiet {
        let text = table::text(report);
        match options.json.is_stdout() {
            true => print_err(&text),
            false => keep(print(&text)),
        }
    }
    keep(Output::open(&options.json).and_then(|file| match file {
        // On one line, since most of it is samples.
        Some(mut file) => file.write(json::whole(report)?).map(drop),
        None => Ok(()),
    }));
    if let Some(path) = &options.html {
        keep(write_page(path, report));
    }
    if let Some(name) = &options.save {
        keep(history::save(name, report, options.replace));
    }
    if let Some(fault) = fault {
        return Err(fault);
    }
    if report.interrupted {
        print_message("interrupted: the report holds what was measured so far");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if report.cases.is_empty() {
        return Err(Fault::failed("nothing could be measured; the notes say why"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one cell: this verb is internal to `weir bench`.
pub fn cell() -> Result<ExitCode, Fault> {
    weir_bench::engine::cell::answer(&weir_bench::catalogue())
        .map_err(Fault::cannot("run a cell"))?;
    Ok(ExitCode::SUCCESS)
}

/// The cases that the command line picks. Refuses suites that do not exist, and words that pick no
/// case of theirs.
fn picks(suites: &[Suite], options: &BenchOptions) -> Result<Picks, Fault> {
    let picks = picked(&options.suites, options.filter.as_deref())?;
    for pick in &picks.suites {
        let suite = suites.iter().find(|suite| suite.name == pick.suite());
        let suite = suite.ok_or_else(|| unknown_suite(suites, pick.suite()))?;
        let alone = Picks { suites: vec![pick.clone()], filter: None };
        if suite.groups.iter().all(|group| alone.of_group(suite, group).is_empty()) {
            return Err(unknown_case(suite, pick));
        }
    }
    Ok(picks)
}

fn picked(asked: &[String], filter: Option<&str>) -> Result<Picks, Fault> {
    let suites: Result<Vec<Pick>, String> = asked.iter().map(|text| Pick::parse(text)).collect();
    let filter = filter.map(pick::pattern).transpose();
    Ok(Picks { suites: suites.map_err(Fault::usage)?, filter: filter.map_err(Fault::usage)? })
}

/// The name that is most like a misspelt one, if any is like it.
fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = names.map(|name| (strsim::jaro_winkler(typed, name), name));
    let near = near.filter(|(score, _)| *score > NEAR).max_by(|a, b| a.0.total_cmp(&b.0));
    near.map(|(_, name)| name)
}

/// The error for words that pick no case of a suite.
fn unknown_case(suite: &Suite, pick: &Pick) -> Fault {
    let typed = pick.text().split_once('/').map_or("", |(_, cases)| cases);
    let cases = suite.groups.iter().flat_map(|group| &group.cases);
    let what = match nearest(typed, cases.map(|case| case.name.as_str())) {
        Some(name) => format!("did you mean '{name}'?"),
        None => format!("weir bench --list {} names them", suite.name),
    };
    Fault::usage(format!("no case of {} matches '{typed}'; {what}", suite.name))
}

/// The error for an unknown suite. It suggests a similar name, or a filter if cases match the word.
fn unknown_suite(suites: &[Suite], unknown: &str) -> Fault {
    let nearest = nearest(unknown, suites.iter().map(|suite| suite.name));
    let cases = suites.iter().flat_map(|suite| &suite.groups).flat_map(|group| &group.cases);
    let word = unknown.to_lowercase();
    let found = cases.filter(|case| case.name.to_lowercase().contains(&word)).count();
    Fault::usage(match (nearest, found) {
        (Some(name), _) => format!("there is no suite '{unknown}'; did you mean '{name}'?"),
        (None, 0) => format!("there is no suite '{unknown}'; weir bench --list names them"),
        (None, found) => format!(
            "there is no suite '{unknown}'; --filter '{unknown}' runs the {found} cases whose names \
             contain it"
        ),
    })
}

fn plan_fault(error: &PlanError) -> Fault {
    match error {
        PlanError::Placement(placement, why) => {
            Fault::usage(format!("cannot measure at {placement}: {why}"))
        }
        PlanError::Nothing(why) => Fault::usage(why.clone()),
        PlanError::Unplaced(why) => Fault::failed(why.clone()),
        PlanError::Budget { least, cases } => Fault::usage(format!(
            "the budget is too small for {} in fresh processes, which need at least {:.1}s",
            things(*cases as u64, "case"),
            (least.as_secs_f64() * 10.0).ceil() / 10.0
        )),
    }
}

fn directory(asked: Option<&Path>) -> Result<PathBuf, Fault> {
    let directory = asked.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let cannot = |why: String| {
        Fault::failed(format!("cannot measure files in '{}': {why}", directory.display()))
    };
    let found = std::fs::metadata(&directory).map_err(|error| cannot(error.to_string()))?;
    if !found.is_dir() {
        return Err(cannot("not a directory".into()));
    }
    // The report names it, and may be compared from elsewhere.
    let whole = std::path::absolute(&directory).map_err(|error| cannot(error.to_string()))?;
    // Report and cells get it as JSON.
    if whole.to_str().is_none() { Err(cannot("its name is not UTF-8".into())) } else { Ok(whole) }
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 32
}

/// Writes a report as an HTML page.
pub fn write_page(path: &Path, report: &Report) -> Result<(), Fault> {
    page::html(report).and_then(|text| Output::create(path)?.write(text).map(drop))
}

/// Checks that a report can be written to the path later. Leaves nothing behind.
fn check_writable(path: &Path) -> Result<(), Fault> {
    let new = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => false,
        // Opening would change it: the reader of a FIFO would see its end.
        Ok(found) if !found.is_dir() => return Ok(()),
        found => found.is_err(),
    };
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Fault::unwritable(Some(path), error))?;
    // Only a file that this function created, and not a link to it.
    if new && let Ok(made) = std::fs::canonicalize(path) {
        let _ = std::fs::remove_file(made);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::directory;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// `weir compare` measured in another directory when it was started in another one.
    #[test]
    fn the_directory_of_files_is_a_whole_path() {
        let found = directory(Some(Path::new("."))).expect("it is there");
        assert!(found.is_absolute() && found.is_dir(), "{}", found.display());
        // All cases of a run there died, each without a reason.
        let place = tempfile::tempdir().expect("a directory");
        let odd = place.path().join(OsStr::from_bytes(b"\xff"));
        std::fs::create_dir(&odd).expect("made");
        let refused = directory(Some(&odd)).expect_err("refused").to_string();
        assert!(refused.ends_with("': its name is not UTF-8"), "{refused}");
    }
}
