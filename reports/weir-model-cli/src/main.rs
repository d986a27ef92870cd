//! The command `weir-model`, the verb `model` of `weir`: machines in virtual time.
//!
//! - [`document`]: outcomes as JSON.
//! - [`page`]: outcomes as an HTML page.
//! - [`storms`]: storms of many seeds.
//! - [`whatif`]: a measured pipeline with other pipes, CPUs or stages.

#![forbid(unsafe_code)]

mod args;
mod document;
mod page;
mod storms;
mod whatif;

use crate::args::ModelOptions;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use weir_command::fault::Fault;
use weir_command::output::{Outlet, Output, check_distinct};
use weir_command::product::{Verb, run};
use weir_model::catalogue::{EXPERIMENTS, Experiment, predictions};
use weir_model::machine::Machine;
use weir_model::outcome::Outcome;

fn main() -> ExitCode {
    run("weir-model", &[Verb::new("model", model)])
}

fn model(options: &ModelOptions) -> Result<ExitCode, Fault> {
    let what = options.what.as_str();
    check(options)?;
    match what {
        "list" => print(&list()),
        "machines" => print(&machines()?),
        "all" => experiments(options, &EXPERIMENTS.iter().collect::<Vec<_>>()),
        "speed" => print(&speed()?),
        "predictions" => {
            let Some(dir) = &options.out else {
                return Err(Fault::usage(
                    "cannot write predictions: no folder is named (--out DIR)",
                ));
            };
            write_predictions(dir)
        }
        "storm" => storms::storms(options),
        "whatif" => whatif::whatif(options),
        name => {
            let Some(experiment) = EXPERIMENTS.iter().find(|known| known.name == name) else {
                let text =
                    format!("cannot run experiment '{name}': there is none (weir model list)");
                return Err(Fault::usage(text));
            };
            experiments(options, &[experiment])
        }
    }
}

/// Refuses options that the named thing does not have.
fn check(options: &ModelOptions) -> Result<(), Fault> {
    let what = options.what.as_str();
    let named = EXPERIMENTS.iter().any(|known| known.name == what) || what == "all";
    let changes = options.pipe_size.is_some() || options.cpus.is_some();
    let refused = [
        (options.report.is_some() && what != "whatif", "report"),
        ((changes || !options.faster.is_empty()) && what != "whatif", "what-if options"),
        (options.html.is_some() && !named, "--html"),
        (options.json.file.is_some() && !named && what != "whatif", "--json"),
        (options.out.is_some() && what != "predictions", "--out"),
        (options.seed.is_some() && what != "storm", "--seed"),
        (options.seeds.is_some() && what != "storm", "--seeds"),
        (options.machine.is_some() && !named && what != "whatif", "--machine"),
    ];
    match refused.iter().find(|(is_there, _)| *is_there) {
        Some((_, option)) => Err(Fault::usage(format!("'weir model {what}' takes no {option}"))),
        None => Ok(()),
    }
}

/// Runs experiments, and prints them: one with its rows, several with their scores.
fn experiments(options: &ModelOptions, which: &[&Experiment]) -> Result<ExitCode, Fault> {
    check_distinct([("--json", options.json.path()), ("--html", options.html.as_deref())])?;
    let mut outlet = Outlet::open(&options.json)?;
    let mut page = options.html.as_deref().map(Output::create).transpose()?;
    let mut found: Vec<(&Experiment, Result<Outcome, String>)> = Vec::new();
    for experiment in which {
        let outcome = experiment.run(options.machine.as_deref()).map_err(|why| why.to_string());
        if let (Err(why), 1) = (&outcome, which.len()) {
            return Err(failed(why));
        }
        found.push((experiment, outcome));
    }
    let text = || match found.as_slice() {
        [(_, Ok(outcome))] => outcome.text(),
        several => several.iter().map(|(of, outcome)| line(of.name, outcome)).collect(),
    };
    outlet.write_report("weir.model/1", || document::of(&found), text)?;
    if let Some(output) = &mut page {
        output.write(page::html(&found)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn line(name: &str, outcome: &Result<Outcome, String>) -> String {
    match outcome {
        Ok(outcome) => format!("{name:<15} {}\n", outcome.score()),
        Err(why) => format!("{name:<15} not run: {why}\n"),
    }
}

/// How fast the model is: events of all experiments in a second of this host.
fn speed() -> Result<String, Fault> {
    let mut text = String::new();
    let (mut events, mut seconds) = (0, 0.0);
    for experiment in &EXPERIMENTS {
        let begun = Instant::now();
        let found = experiment.run(None).map_err(failed)?.events;
        let took_s = begun.elapsed().as_secs_f64();
        let _ = writeln!(text, "{:<15} {}", experiment.name, rate(found, took_s));
        events += found;
        seconds += took_s;
    }
    let _ = writeln!(text, "{:<15} {}", "all", rate(events, seconds));
    Ok(text)
}

fn rate(events: u64, seconds: f64) -> String {
    let millions = events as f64 / 1e6;
    format!(
        "{millions:>8.2} million events in {seconds:.2} s: {:.1} million a second",
        millions / seconds
    )
}

fn failed(why: impl std::fmt::Display) -> Fault {
    Fault::failed(why.to_string())
}

fn print(text: &str) -> Result<ExitCode, Fault> {
    weir_command::output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let lines =
        EXPERIMENTS.iter().map(|of| format!("{:<15} {:<13} {}\n", of.name, of.machine, of.about));
    lines.collect()
}

/// The machines with all constants and where these are from.
fn machines() -> Result<String, Fault> {
    let mut text = String::new();
    for name in Machine::names() {
        let machine = Machine::named(name).map_err(failed)?;
        let _ = writeln!(text, "{name}: {}", machine.about);
        for (name, constant) in &machine.constants {
            let _ = writeln!(
                text,
                "  {name} = {} {}: {}",
                constant.value, constant.unit, constant.source
            );
        }
    }
    Ok(text)
}

fn write_predictions(dir: &Path) -> Result<ExitCode, Fault> {
    for (name, text) in predictions().map_err(failed)? {
        let path = dir.join(name);
        std::fs::write(&path, text)
            .map_err(|why| failed(format!("cannot write '{}': {why}", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}
