//! Competitors measured beside weir's own cases by weir's engine: the programs lmbench, perf bench,
//! hackbench and stress-ng, and the libraries iceoryx2, Aeron and ZeroMQ.

#![forbid(unsafe_code)]

mod libraries;
mod peers;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_bench::engine::case::Suite;
use weir_bench::engine::cell;
use weir_bench::engine::drive::RunObserver;
use weir_bench::engine::params::Load;
use weir_bench::engine::pick::{Pick, Picks};
use weir_bench::engine::place::Topology;
use weir_bench::engine::plan::{Plan, PlanRequest};
use weir_bench::engine::record::Report;
use weir_bench::engine::watched::WatchedRun;

const HELP: &str = "\
Measures other tools and libraries beside weir's own cases.

Usage: weir-bench-compare [--json] [SUITE]...

Without a name, all suites run. --json writes the report as JSON. README.md lists what can be built in.
";

/// Shows progress on a terminal.
struct Lines {
    on_terminal: bool,
}

impl Lines {
    /// Shows this in place of the line of progress.
    fn show(&self, text: &str) {
        if self.on_terminal {
            eprint!("\r\x1b[K{text}");
        }
    }
}

impl RunObserver for Lines {
    fn cell(&mut self, what: &str, left: Duration) {
        self.show(&format!("{:.0}s left  {what}", left.as_secs_f64().ceil()));
    }

    fn overrun(&mut self, whole: Duration) {
        self.show("");
        eprintln!("this takes at least {:.0} s", whole.as_secs_f64().ceil());
    }

    fn stop(&mut self) -> bool {
        false
    }
}

fn main() -> ExitCode {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    let result = if names.first().is_some_and(|name| name == "cell") {
        cell::answer(&catalogue()).map_err(|trouble| trouble.text)
    } else if names.iter().any(|name| name == "--help" || name == "-h") {
        print!("{HELP}");
        Ok(())
    } else {
        let all = names.len();
        names.retain(|name| name != "--json");
        let json = names.len() < all;
        measure(&names).map(|report| {
            if json {
                println!("{}", serde_json::to_string(&report).unwrap_or_default());
            } else {
                print(&report);
            }
        })
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("weir-bench-compare: {text}");
            ExitCode::FAILURE
        }
    }
}

fn catalogue() -> Vec<Suite> {
    peers::catalogue().into_iter().chain(libraries::catalogue()).collect()
}

/// Measures the suites of these names, or all.
fn measure(names: &[String]) -> Result<Report, String> {
    let suites = catalogue();
    let known: Vec<&str> = suites.iter().map(|suite| suite.name).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("unknown suite '{name}'; there are {}, --json", known.join(", ")));
    }
    let all = || known.iter().map(|name| (*name).to_owned()).collect();
    let chosen: Vec<String> = if names.is_empty() { all() } else { names.to_vec() };
    let of_libraries: Vec<&str> = libraries::catalogue().iter().map(|suite| suite.name).collect();
    // Aeron alone takes half a second to start in each process.
    let seconds = |name: &str| if of_libraries.contains(&name) { 120 } else { 15 };
    let topology = Topology::read();
    let standard_budget = Duration::from_secs(chosen.iter().map(|name| seconds(name)).sum());
    let picks: Result<Vec<Pick>, String> = chosen.iter().map(|name| Pick::parse(name)).collect();
    let picks = picks?;
    let wish = PlanRequest {
        picks: Picks { suites: picks, filter: None },
        placements: Vec::new(),
        load: Load::None,
        budget: None,
        standard_budget,
        directory: std::env::temp_dir(),
        seed: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        floors_s: BTreeMap::new(),
    };
    let plan = Plan::new(&suites, wish, &topology).map_err(|error| format!("{error:?}"))?;
    let begun = Instant::now();
    let mut run = WatchedRun::begin(&topology, begun, Duration::from_secs(1));
    let executable: PathBuf = "/proc/self/exe".into();
    let launch = || {
        let mut command = Command::new(&executable);
        command.arg("cell");
        command
    };
    let on_terminal = std::io::stderr().is_terminal();
    let mut lines = Lines { on_terminal };
    let driven = run.drive(&suites, &plan, &launch, &mut lines);
    libraries::remove_leftovers();
    lines.show("");
    let driven = driven.map_err(|error| error.to_string())?;
    Ok(run.report(&suites, &plan, &driven, env!("CARGO_PKG_VERSION"), None))
}

fn print(report: &Report) {
    println!("{}", report.self_test.sentence);
    println!("{}", report.host.kernel);
    for case in &report.cases {
        let half = (case.high - case.low) / 2.0 / case.estimate * 100.0;
        let between = case.between_processes_share;
        println!(
            "{:12} {:44} {:10} {:>12.1} {:5} +-{half:<5.1} % between processes {} %",
            case.suite,
            case.case,
            case.placement,
            case.estimate,
            case.unit,
            between.map_or(String::from("?"), |share| format!("{:.0}", share * 100.0))
        );
    }
    for comparison in &report.comparisons {
        println!(
            "{}: {}, {}: {}",
            comparison.suite, comparison.b, comparison.placement, comparison.verdict.text
        );
    }
    for note in &report.notes {
        println!("left out: {}: {}", note.suite, note.text);
    }
    let missing = libraries::not_built();
    if !missing.is_empty() {
        println!("left out: built without the features {missing}");
    }
}
