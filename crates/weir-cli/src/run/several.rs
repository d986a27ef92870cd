//! `weir run --compare 'A' 'B' ...`: which of several pipelines is faster, and is it sure?
//!
//! Each round runs all of them once in random order, and the first a second time. Those two runs of the same
//! pipeline show which differences this host resolves.

use super::elastic;
use super::outputs::Outputs;
use super::plan::Planned;
use super::rounds::{BAND, Entrant, Sample, Standard, compared, rounds};
use crate::args::RunOptions;
use crate::report::{Against, ComparedPipeline, Several, several_json, several_text};
use std::process::ExitCode;
use weir_command::fault::{Fault, tell};
use weir_measure::machine;

/// Runs the verb for several pipelines.
pub fn compare(options: &RunOptions, mut plans: Vec<Planned>) -> Result<ExitCode, Fault> {
    if let Some(empty) = plans.iter().position(|plan| plan.job.stages.is_empty()) {
        let number = empty + 1;
        return Err(Fault::usage(format!("cannot compare: pipeline {number} holds no command")));
    }
    for (position, plan) in plans.iter_mut().enumerate() {
        let number = position + 1;
        for note in elastic::put_in(options.elastic.as_ref(), plan)? {
            tell(&format!("pipeline {number}: {note}"));
        }
    }
    let commands: Vec<String> = plans.iter().map(|plan| plan.command.clone()).collect();
    let entrants: Vec<Entrant> = plans
        .into_iter()
        .map(|Planned { job, negated, .. }| Entrant { job, pipefail: options.pipefail, negated })
        .collect();
    let standard = Standard::keep()?;
    let outputs = Outputs::open(options);
    // The first runs do not count: they read files that are not in memory yet.
    for entrant in &entrants {
        standard.run(entrant)?.ok_or_else(Fault::interrupted)?;
    }
    let twice: Vec<&Entrant> = entrants.iter().chain(entrants.first()).collect();
    let samples = rounds(&twice, options.runs, &standard)?.ok_or_else(Fault::interrupted)?;
    drop(standard);
    let several = judge(&commands, &samples)?;
    outputs.write(&several, several_text, several_json);
    Ok(ExitCode::from(u8::from(!several.same_status)))
}

/// Returns what the samples show. The last ones are those of the first pipeline's second runs.
fn judge(commands: &[String], samples: &[Vec<Sample>]) -> Result<Several, Fault> {
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
            against_first: found.map(|found| Against::new(found, same_status, BAND)),
        });
    }
    let twin = samples.last().map_or(&[][..], Vec::as_slice);
    let same_status = samples.iter().all(|of| alike(status, of));
    Ok(Several {
        cpus: machine::usable_cpus(),
        rounds: first.len(),
        same_output: samples.iter().all(|of| alike(|sample| sample.output, of)),
        same_status,
        twin_s: wall_s(twin),
        resolves: against(twin)?.resolution(),
        pipelines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first was "not judged", and the second faster than it all the same.
    #[test]
    fn nothing_is_faster_than_what_ends_now_so_and_now_so() {
        let runs = |statuses: [i32; 6]| {
            statuses.map(|status| Sample { wall_s: 1.0, status, output: (0, 0) }).to_vec()
        };
        let commands = ["a", "b"].map(String::from);
        let is_judged = |first, twin| {
            let found = judge(&commands, &[runs(first), runs([0; 6]), runs(twin)]).expect("judged");
            !several_json(&found).contains("not judged")
        };
        assert!(is_judged([0; 6], [0; 6]));
        assert!(!is_judged([0, 0, 1, 0, 0, 0], [0; 6]));
        assert!(!is_judged([0; 6], [0, 1, 0, 0, 0, 0]), "nor in its second runs");
        let found = judge(&commands, &[runs([0; 6]), runs([0; 6]), runs([1; 6])]).expect("judged");
        let statuses: Vec<Option<i32>> = found.pipelines.iter().map(|of| of.exit_status).collect();
        assert_eq!(statuses, [None, Some(0)]);
    }
}
