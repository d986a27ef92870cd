//! Measures what measuring costs: whole-process pairs of `bash -c TEXT` and `weir run --quiet
//! TEXT`.
//!
//! ```text
//! cargo bench -p weir-cli --bench overhead -- [--pairs 25] [--seconds 1.5] [--only NAME]
//!                                             [--seed 1] [--json FILE] [--markdown FILE]
//! ```
//!
//! (cargo runs benches in the directory of the package: FILE is relative to crates/weir-cli.)
//!
//! 1. The data of three pipelines ([`workloads`]) is made in a temporary directory, which is
//!    removed at the end (not after an interrupt), and each pipeline is made long enough for bash
//!    to need the seconds asked for on this host.
//! 2. Both sides must print the same bytes. A side that does not, or fails, is not timed; its row
//!    says so, and the exit status is 1.
//! 3. A round runs the pipelines in random order, and each of them by bash, by bash again (the A/A
//!    series: what this host can resolve at all), by weir with its defaults, and by weir with the
//!    64 KiB pipes bash has (so that only the measuring differs), by weir with a profile, and by
//!    bash under `weir watch`, in random order ([`halves`]).
//!    A pair is two halves of one round and one pipeline.
//! 4. The table goes to standard output; the JSON keeps every time and every order ([`report`]).
//!
//! `WEIR_BENCH_BIN` names another weir to time, such as a build of an older commit.

#![forbid(unsafe_code)]

mod halves;
mod host;
mod options;
mod report;
mod workloads;

use halves::{Half, Runner};
use options::Options;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;
use weir_measure::pairs::PairOrder;
use workloads::Workload;

/// A pipeline with its size and its times.
struct Case {
    workload: Workload,
    units: u64,
    /// The sides that are timed: bash twice, and the sides of weir that printed what bash printed.
    halves: Vec<Half>,
    /// The sides that are not timed, and why.
    refused: Vec<(Half, String)>,
    /// The times of each round, in the order in which they ran.
    rounds: Vec<Vec<(Half, f64)>>,
    /// Peak memory in bytes and CPU time in seconds of weir itself.
    weir_itself: Option<(u64, f64)>,
}

/// Everything there is to report.
struct Outcome {
    cases: Vec<Case>,
    /// Pipelines that this host cannot run, and why.
    skipped: Vec<(&'static str, String)>,
}

fn main() -> ExitCode {
    let options = match options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        // `cargo test --all-targets` runs benches too, but does not ask them to measure.
        Ok(None) => {
            println!("overhead: nothing measured: run it by `cargo bench --bench overhead`");
            return ExitCode::SUCCESS;
        }
        Err(fault) => {
            eprintln!("overhead: {fault}");
            return ExitCode::from(2);
        }
    };
    match bench(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            progress("");
            eprintln!("overhead: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and reports. Returns whether all sides of weir could be timed.
fn bench(options: &Options) -> Result<bool, String> {
    // A file that cannot be written is found now, not after some minutes.
    let create = |path: &Option<std::path::PathBuf>| {
        let file = path.as_ref().map(|path| (path, File::create(path)));
        file.map(|(path, file)| {
            file.map_err(|error| format!("cannot write {}: {error}", path.display()))
        })
        .transpose()
    };
    let (json, markdown) = (create(&options.json)?, create(&options.markdown)?);
    let directory = tempfile::Builder::new().prefix("weir-bench-").tempdir();
    let directory =
        directory.map_err(|error| format!("cannot make a temporary directory: {error}"))?;
    let runner = Runner::new(directory.path())?;
    let host = host::Host::read(&runner);
    let outcome = measure(options, &runner)?;
    progress("");
    let table = report::markdown(options, &host, &outcome);
    print!("{table}");
    let put = |file: Option<File>, text: &str| {
        file.map_or(Ok(()), |mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write the report: {error}"))
    };
    put(markdown, &table)?;
    put(json, &format!("{:#}\n", report::json(options, &host, &outcome)))?;
    Ok(outcome.cases.iter().all(|case| case.refused.is_empty()))
}

fn measure(options: &Options, runner: &Runner) -> Result<Outcome, String> {
    let mut outcome = Outcome { cases: Vec::new(), skipped: Vec::new() };
    for workload in workloads::ALL {
        if options.only.as_ref().is_some_and(|only| only != workload.name) {
            continue;
        }
        match workload.missing() {
            Some(program) => {
                outcome.skipped.push((workload.name, format!("{program} is not installed")));
            }
            None => outcome.cases.push(prepare(workload, options, runner)?),
        }
    }
    let mut order = PairOrder::new(options.seed);
    let start = Instant::now();
    for round in 0..options.pairs {
        let left_s = start.elapsed().as_secs_f64() / round.max(1) as f64
            * (options.pairs - round) as f64
            * f64::from(u8::from(round > 0));
        progress(&format!("round {} of {}, {left_s:.0} s left", round + 1, options.pairs));
        let mut cases: Vec<&mut Case> = outcome.cases.iter_mut().collect();
        order.shuffle(&mut cases);
        for case in cases {
            let text = case.workload.text(case.units);
            let mut halves = case.halves.clone();
            order.shuffle(&mut halves);
            let time = |half: Half| Ok((half, time_s(runner, &case.workload, half, &text)?));
            case.rounds.push(halves.into_iter().map(time).collect::<Result<_, String>>()?);
        }
    }
    for case in &mut outcome.cases {
        if case.halves.contains(&Half::Weir) {
            case.weir_itself = runner.weir_itself(&case.workload.text(case.units));
        }
    }
    Ok(outcome)
}

/// Makes the data, finds the size, and compares what the sides print.
fn prepare(workload: Workload, options: &Options, runner: &Runner) -> Result<Case, String> {
    progress(&format!("{}: making data", workload.name));
    workload.make_data(runner.directory())?;
    let units = workload.units_for(options.seconds, |units, text| {
        progress(&format!("{}: finding the size ({units} x {})", workload.name, workload.unit));
        time_s(runner, &workload, Half::Bash, text)
    })?;
    progress(&format!("{}: comparing what is printed", workload.name));
    let text = workload.text(units);
    let expected = runner.print(Half::Bash, &text);
    let expected = expected.map_err(|fault| format!("{}: bash {fault}", workload.name))?;
    let (mut halves, mut refused) = (Vec::new(), Vec::new());
    for half in Half::ALL {
        match runner.print(half, &text) {
            Ok(printed) if printed == expected => halves.push(half),
            Ok(printed) => refused.push((half, format!("printed {printed}, bash {expected}"))),
            Err(fault) => refused.push((half, fault)),
        }
    }
    progress("");
    for (half, fault) in &refused {
        eprintln!("overhead: {}: {}: {fault}", workload.name, half.name());
    }
    if !halves.contains(&Half::BashAgain) || !halves.contains(&Half::Bash) {
        return Err(format!("{}: bash does not print the same twice", workload.name));
    }
    Ok(Case { workload, units, halves, refused, rounds: Vec::new(), weir_itself: None })
}

fn time_s(runner: &Runner, workload: &Workload, half: Half, text: &str) -> Result<f64, String> {
    let took_s = runner.time_s(half, text);
    took_s.map_err(|fault| format!("{}: {} {fault}", workload.name, half.name()))
}

/// Shows the progress if standard error is a terminal.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}
