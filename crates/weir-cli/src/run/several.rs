//! `weir run --compare 'A' 'B' ...`: which of several pipelines is faster, and is it sure?
//!
//! Each round runs all of them once in random order, and the first a second time. Those two runs of the same
//! pipeline show which differences this host resolves.

use super::elastic;
use super::outputs::Outputs;
use super::plan::Planned;
use super::rounds::{Entrant, Sample, Standard, by_itself, compared, rounds, verdict};
use crate::args::RunOptions;
use crate::report::{Against, ComparedPipeline, Gate, Several, several_json, several_text};
use std::process::ExitCode;
use weir_command::fault::{Fault, print_message};
use weir_command::widths::cut;
use weir_measure::machine;

/// The status if the rounds do not answer `--fail-if-slower`.
const CANNOT_TELL: u8 = 3;

/// The longest command in a message.
const COMMAND_COLUMNS: usize = 60;

/// Runs the verb for several pipelines.
pub fn compare(options: &RunOptions, mut plans: Vec<Planned>) -> Result<ExitCode, Fault> {
    if let Some(empty) = plans.iter().position(|plan| plan.job.stages.is_empty()) {
        let number = empty + 1;
        return Err(Fault::usage(format!("cannot compare: pipeline {number} holds no command")));
    }
    for (position, plan) in plans.iter_mut().enumerate() {
        let number = position + 1;
        for note in elastic::put_in(options.elastic.as_ref(), plan)? {
            print_message(&format!("pipeline {number}: {note}"));
        }
    }
    let commands: Vec<String> = plans.iter().map(|plan| plan.command.clone()).collect();
    let entrants: Vec<Entrant> = plans
        .into_iter()
        .map(|Planned { job, negated, .. }| Entrant { job, pipefail: options.pipefail, negated })
        .collect();
    let standard = Standard::keep()?;
    let outputs = Outputs::open(options)?;
    // The first runs do not count: they read files that are not in memory yet.
    for (entrant, command) in entrants.iter().zip(&commands) {
        let first = standard.run(entrant)?.ok_or_else(Fault::interrupted)?;
        if first.is_unstarted {
            let command = cut(command, COMMAND_COLUMNS);
            let why = "a command in it could not be started";
            return Err(Fault::failed(format!("nothing was compared: '{command}': {why}")));
        }
    }
    let twice: Vec<&Entrant> = entrants.iter().chain(entrants.first()).collect();
    let samples = rounds(&twice, options.runs, &standard)?.ok_or_else(Fault::interrupted)?;
    drop(standard);
    let several = judge(&commands, &samples, options.fail_if_slower)?;
    outputs.write(&several, several_text, several_json);
    Ok(ExitCode::from(match several.gate.map(|gate| gate.is_slower) {
        None => u8::from(!several.same_status),
        Some(Some(is_slower)) => u8::from(is_slower),
        Some(None) => CANNOT_TELL,
    }))
}

/// Returns what the samples show. The last ones are those of the first pipeline's second runs.
fn judge(
    commands: &[String],
    samples: &[Vec<Sample>],
    fail_if_slower: Option<f64>,
) -> Result<Several, Fault> {
    let wall_s = |of: &[Sample]| of.iter().map(|sample| sample.wall_s).collect::<Vec<f64>>();
    let first = &samples[0];
    let against =
        |other: &[Sample]| compared(first.iter().zip(other).map(|(a, b)| (a.wall_s, b.wall_s)));
    let alike = |what: fn(&Sample) -> (u64, u64), of: &[Sample]| {
        of.iter().all(|sample| what(sample) == what(&first[0]))
    };
    let status = |sample: &Sample| (sample.status as u64, 0);
    // Its second runs are runs of the first pipeline too.
    let is_steady = alike(status, first) && samples.last().is_none_or(|twin| alike(status, twin));
    let twin = samples.last().map_or(&[][..], Vec::as_slice);
    let itself = against(twin)?;
    let mut pipelines = Vec::new();
    for (position, command) in commands.iter().enumerate() {
        let of = &samples[position];
        let same_status = is_steady && alike(status, of);
        let found = (position > 0).then(|| against(of)).transpose()?;
        let statuses = |status: i32| of.iter().all(|sample| sample.status == status);
        let always = |status: i32| statuses(status) && (position > 0 || is_steady);
        pipelines.push(ComparedPipeline {
            command: command.clone(),
            exit_status: Some(of[0].status).filter(|status| always(*status)),
            wall_s: wall_s(of),
            same_output: alike(|sample| sample.output, of),
            bytes_out: of[0].output.0,
            // A pipeline with another status did other work, so its time says nothing.
            against_first: found
                .map(|found| Against::new(found, same_status.then(|| verdict(&found, &itself)))),
        });
    }
    let same_status = samples.iter().all(|of| alike(status, of));
    Ok(Several {
        cpus: machine::usable_cpus(),
        rounds: first.len(),
        same_output: samples.iter().all(|of| alike(|sample| sample.output, of)),
        same_status,
        twin_s: wall_s(twin),
        resolves: itself.resolution(),
        gate: fail_if_slower.map(|share| Gate::new(share, &pipelines, by_itself(&itself))),
        pipelines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Detail, ReportStyle};

    fn times(of: [f64; 6]) -> Vec<Sample> {
        of.map(|wall_s| Sample { wall_s, status: 0, output: (0, 0), is_unstarted: false }).to_vec()
    }

    fn summary(commands: &[String], all: &[Vec<Sample>]) -> (String, &'static str) {
        let found = judge(commands, all, Some(0.05)).expect("judged");
        let look = ReportStyle {
            columns: 100,
            wraps: false,
            colour: false,
            detail: Detail::Usual,
            hot: false,
        };
        let gate = match found.gate.and_then(|gate| gate.is_slower) {
            None => "cannot tell",
            Some(true) => "slower",
            Some(false) => "not slower",
        };
        (several_text(&found, &look), gate)
    }

    const FIRST: [f64; 6] = [1.0, 1.01, 1.02, 1.0, 1.01, 1.02];
    const AGAIN: [f64; 6] = [1.02, 1.0, 1.01, 1.03, 0.99, 1.01];

    fn scaled(by: f64) -> Vec<Sample> {
        times(AGAIN.map(|wall_s| wall_s * by))
    }

    /// The first had taken 1.24 times as long as itself, and what took 0.9 times as long was "faster".
    #[test]
    fn nothing_is_faster_by_less_than_the_first_differs_from_itself() {
        let commands = ["gzip -c f", "pigz -c f"].map(String::from);
        let steady = times(AGAIN);
        let judged =
            |by, twin: &[Sample]| summary(&commands, &[times(FIRST), scaled(by), twin.to_vec()]);
        let (text, gate) = judged(0.9, &steady);
        assert!(
            text.contains("'pigz -c f' is 1.11x (1.08 to 1.13) faster than 'gzip -c f'"),
            "{text}"
        );
        assert_eq!(gate, "not slower");
        let (text, gate) = judged(0.9, &scaled(1.24));
        assert!(text.contains("cannot tell whether 'pigz -c f' is faster"), "{text}");
        assert!(
            text.contains("inconclusive") && !text.contains(" faster than 'gzip -c f'\n"),
            "{text}"
        );
        assert_eq!(gate, "cannot tell");
        assert!(judged(0.5, &scaled(1.24)).0.contains("'pigz -c f' is 2.0"), "much more is shown");
        let (text, gate) = judged(1.5, &steady);
        assert!(text.contains("'gzip -c f' is 1.50x ("), "{text}");
        assert_eq!(gate, "slower");
        assert_eq!(judged(1.1, &scaled(1.24)).1, "cannot tell");
    }

    /// Long names were cut at 24 columns, and each pair took two lines.
    #[test]
    fn the_last_line_has_whole_names_where_there_is_room() {
        let long = "tar c src | zstd -T0 -19 -o src.tar.zst".to_owned();
        let commands = ["gzip f".to_owned(), long.clone()];
        let half = scaled(0.5);
        let (text, _) = summary(&commands, &[times(FIRST), half.clone(), times(FIRST)]);
        let line = format!("'{long}' is 2.00x (1.94 to 2.04) faster than 'gzip f'");
        assert!(text.lines().any(|summary| summary == line), "{text}");
        let commands = [long.repeat(2), long.repeat(2)];
        let (text, _) = summary(&commands, &[times(FIRST), half, times(FIRST)]);
        let line = text.lines().find(|line| line.contains("faster than")).expect("an answer");
        assert!(line.chars().count() <= 100 && line.matches("tar c src").count() == 2, "{line}");
    }

    /// The first was "not judged", and the second faster than it all the same.
    #[test]
    fn nothing_is_faster_than_what_ends_now_so_and_now_so() {
        let runs = |statuses: [i32; 6]| {
            statuses
                .map(|status| Sample { wall_s: 1.0, status, output: (0, 0), is_unstarted: false })
                .to_vec()
        };
        let commands = ["a", "b"].map(String::from);
        let is_judged = |first, twin| {
            let found =
                judge(&commands, &[runs(first), runs([0; 6]), runs(twin)], None).expect("judged");
            !several_json(&found).contains("not judged")
        };
        assert!(is_judged([0; 6], [0; 6]));
        assert!(!is_judged([0, 0, 1, 0, 0, 0], [0; 6]));
        assert!(!is_judged([0; 6], [0, 1, 0, 0, 0, 0]), "nor in its second runs");
        let found =
            judge(&commands, &[runs([0; 6]), runs([0; 6]), runs([1; 6])], None).expect("judged");
        let statuses: Vec<Option<i32>> = found.pipelines.iter().map(|of| of.exit_status).collect();
        assert_eq!(statuses, [None, Some(0)]);
    }
}
