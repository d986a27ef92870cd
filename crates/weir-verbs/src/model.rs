//! `weir model`: machines in virtual time.

use crate::args::ModelOptions;
use crate::fault::Fault;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use weir_model::catalogue::{EXPERIMENTS, predictions};
use weir_model::machine::Machine;
use weir_model::storm::storm;

pub fn model(options: &ModelOptions) -> Result<ExitCode, Fault> {
    let machine = options.machine.as_deref();
    match options.what.as_str() {
        "list" => print(&list()),
        "machines" => print(&machines()?),
        "all" => print(&all(machine)?),
        "predictions" => {
            let Some(dir) = &options.out else {
                return Err(Fault::usage(
                    "cannot write predictions: no folder is named (--out DIR)",
                ));
            };
            write_predictions(dir)
        }
        "storm" => storms(options),
        name => {
            let Some(experiment) = EXPERIMENTS.iter().find(|known| known.name == name) else {
                let text =
                    format!("cannot run experiment '{name}': there is none (weir model list)");
                return Err(Fault::usage(text));
            };
            print(&experiment.run(machine).map_err(failed)?.text())
        }
    }
}

fn failed(why: impl std::fmt::Display) -> Fault {
    Fault::failed(why.to_string())
}

fn print(text: &str) -> Result<ExitCode, Fault> {
    crate::output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> String {
    let lines =
        EXPERIMENTS.iter().map(|of| format!("{:<15} {:<9} {}\n", of.name, of.machine, of.about));
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

/// The scores of all experiments.
fn all(machine: Option<&str>) -> Result<String, Fault> {
    let mut text = String::new();
    for experiment in &EXPERIMENTS {
        let score = match experiment.run(machine) {
            Ok(outcome) => outcome.score(),
            Err(why) => format!("not run: {why}"),
        };
        let _ = writeln!(text, "{:<15} {score}", experiment.name);
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

fn storms(options: &ModelOptions) -> Result<ExitCode, Fault> {
    let (first, count) = match options.seed {
        Some(seed) => (seed, 1),
        None => (0, options.seeds),
    };
    let mut events = 0;
    for seed in first..first.saturating_add(count) {
        events += storm(seed).map_err(|wreck| {
            failed(format!(
                "storm {seed} broke a promise: {}\n{}\nAgain: weir model storm --seed {seed}",
                wreck.why,
                wreck.trace.join("\n")
            ))
        })?;
    }
    print(&format!("{count} storms, {events} events: no promise was broken\n"))
}
