//! `weir model whatif`: a measured pipeline with other pipes, CPUs or faster stages.

use super::failed;
use crate::args::ModelOptions;
use serde::Serialize;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use unicode_width::UnicodeWidthStr;
use weir_command::fault::Fault;
use weir_command::output::Outlet;
use weir_command::units::{binary, percent, seconds};
use weir_command::widths::fit;
use weir_model::machine::Machine;
use weir_model::whatif::{Changes, Forecast, Shares, forecast};

/// Bytes of a report that are read at most.
const REPORT_MAX: u64 = 64 << 20;

/// The document of `weir.model.whatif/1`.
#[derive(Serialize)]
struct Document<'a> {
    machine: &'a str,
    asked: Asked,
    measured_s: f64,
    modelled_s: f64,
    predicted_s: f64,
    speedup: f64,
    stages: Vec<Stage<'a>>,
    notes: &'a [String],
    events: u64,
}

#[derive(Serialize)]
struct Asked {
    capacity_bytes: Option<u64>,
    cpus: Option<usize>,
    faster: Vec<Faster>,
}

#[derive(Serialize)]
struct Faster {
    stage: usize,
    factor: f64,
}

#[derive(Serialize)]
struct Stage<'a> {
    index: usize,
    command: &'a str,
    before: Times,
    after: Times,
}

#[derive(Serialize)]
struct Times {
    cpu_share: f64,
    blocked_in_share: f64,
    blocked_out_share: f64,
}

fn times(of: Shares) -> Times {
    Times { cpu_share: of.cpu, blocked_in_share: of.waits_in, blocked_out_share: of.waits_out }
}

fn document<'a>(machine: &'a str, changes: &Changes, found: &'a Forecast) -> Document<'a> {
    let faster = changes.faster.iter().map(|&(stage, factor)| Faster { stage, factor });
    Document {
        machine,
        asked: Asked {
            capacity_bytes: changes.pipe_bytes,
            cpus: changes.cpus,
            faster: faster.collect(),
        },
        measured_s: found.measured_s,
        modelled_s: found.modelled_s,
        predicted_s: found.predicted_s,
        speedup: found.speedup(),
        stages: found
            .stages
            .iter()
            .map(|stage| Stage {
                index: stage.index,
                command: &stage.command,
                before: times(stage.before),
                after: times(stage.after),
            })
            .collect(),
        notes: &found.notes,
        events: found.events,
    }
}

fn read(path: &Path) -> Result<String, Fault> {
    let mut text = String::new();
    let is_stdin = path == Path::new("-");
    let unreadable = |why| Fault::unreadable((!is_stdin).then_some(path), why);
    let file: Box<dyn Read> = match is_stdin {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(std::fs::File::open(path).map_err(unreadable)?),
    };
    file.take(REPORT_MAX).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

pub(super) fn whatif(options: &ModelOptions) -> Result<ExitCode, Fault> {
    let Some(path) = &options.report else {
        return Err(Fault::usage("cannot predict: no report is named (weir run --json FILE)"));
    };
    let changes = Changes {
        pipe_bytes: options.pipe_size,
        cpus: options.cpus.map(usize::from),
        faster: options.faster.clone(),
    };
    if changes == Changes::default() {
        let text = "cannot predict: nothing is changed (--pipe-size, --cpus, --faster)";
        return Err(Fault::usage(text));
    }
    let machine =
        Machine::named(options.machine.as_deref().unwrap_or("present")).map_err(failed)?;
    // Done before the output is opened, which may be the same file: without a forecast it stays.
    let found = forecast(&read(path)?, &machine, &changes)
        .map_err(|why| failed(format!("cannot predict from '{}': {why}", path.display())))?;
    let mut outlet = Outlet::open(&options.json)?;
    let body = || document(&machine.name, &changes, &found);
    outlet.write_report("weir.model.whatif/1", body, || text(&changes, &found))?;
    Ok(ExitCode::SUCCESS)
}

/// What is changed, in words.
fn asked(changes: &Changes) -> String {
    let mut words = Vec::new();
    words.extend(changes.pipe_bytes.map(|size| format!("pipes of {}", binary(size))));
    words.extend(changes.cpus.map(|cpus| match cpus {
        1 => String::from("1 CPU"),
        cpus => format!("{cpus} CPUs"),
    }));
    words.extend(
        changes.faster.iter().map(|(stage, factor)| format!("stage {stage} {factor}x as fast")),
    );
    words.join(", ")
}

fn text(changes: &Changes, found: &Forecast) -> String {
    let time = |s: f64| seconds((s * 1e9) as u64);
    let speedup = found.speedup();
    let says = match speedup {
        same if (0.97..1.03).contains(&same) => String::from("no change"),
        faster if faster >= 1.0 => format!("{faster:.2}x as fast"),
        slower => format!("{:.2}x the time", 1.0 / slower),
    };
    let mut text = format!(
        "with {}: about {}, {says} (measured {}, the model gives {} for that)\n",
        asked(changes),
        time(found.predicted_s),
        time(found.measured_s),
        time(found.modelled_s)
    );
    let names: Vec<String> =
        found.stages.iter().map(|stage| format!("{} {}", stage.index, stage.command)).collect();
    let width = names.iter().map(|name| name.width().clamp(5, 40)).max().unwrap_or(5);
    let _ = writeln!(text, "  {:<width$}  {:^17}  {:^17}", "", "as it was", "then");
    let _ = writeln!(text, "  {:<width$}  {1}  {1}", "stage", " CPUs    in   out");
    for (stage, name) in found.stages.iter().zip(names) {
        let name = fit(&name, width);
        let shares = |of: Shares| {
            // A stage of several tasks uses several; what it waits is the mean of its tasks.
            let [waits_in, waits_out] =
                [of.waits_in, of.waits_out].map(|share| percent(Some(share)));
            format!("{:>5} {waits_in:>5} {waits_out:>5}", format!("{:.2}", of.cpu))
        };
        let _ = writeln!(text, "  {name}  {}  {}", shares(stage.before), shares(stage.after));
    }
    for note in &found.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::whatif::StageForecast;

    /// A stage of eight tasks was "133 %" on the CPU beside 37 % of waits.
    #[test]
    fn what_several_tasks_compute_is_a_number_of_cpus() {
        let shares = Shares { cpu: 1.333, waits_in: 0.37, waits_out: 0.0 };
        let command = String::from("pigz");
        let found = Forecast {
            measured_s: 2.0,
            modelled_s: 2.0,
            predicted_s: 1.0,
            stages: vec![StageForecast { index: 1, command, before: shares, after: shares }],
            notes: Vec::new(),
            events: 0,
        };
        let text = text(&Changes { cpus: Some(8), ..Changes::default() }, &found);
        let row = text.lines().last().expect("a row");
        let words: Vec<&str> = row.split_whitespace().collect();
        let one = ["1.33", "37", "%", "0", "%"];
        assert_eq!(words, [["1", "pigz"].as_slice(), &one, &one].concat(), "{text}");
        assert!(text.contains("CPUs    in   out") && !text.contains("133"), "{text}");
    }
}
