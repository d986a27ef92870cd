//! `weir run --compare 'A' 'B' ...`: which of several pipelines is faster, and is it sure?
//!
//! Each round runs all of them once in random order, and the first a second time. Those two runs of the same
//! pipeline show which differences this host resolves.

use super::elastic;
use super::outputs::Outputs;
use super::plan::Planned;
use super::rounds::{BAND, Entrant, Sample, Standard, compared, rounds};
use crate::args::RunOptions;
use crate::fault::Fault;
use crate::report::{Against, ComparedPipeline, Several, several_json, several_text};
use std::process::ExitCode;
use weir_measure::machine;

/// Runs the verb for several pipelines.
pub fn compare(options: &RunOptions, mut plans: Vec<Planned>) -> Result<ExitCode, Fault> {
    if let Some(empty) = plans.iter().position(|plan| plan.job.stages.is_empty()) {
        let number = empty + 1;
        return Err(Fault::usage(format!("cannot compare: pipeline {number} holds no command")));
    }
    for plan in &mut plans {
        elastic::put_in(options.elastic.as_ref(), plan)?;
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
    let mut pipelines = Vec::new();
    for (position, command) in commands.iter().enumerate() {
        let of = &samples[position];
        let same_status = alike(|sample| (sample.status as u64, 0), of);
        let found = (position > 0).then(|| against(of)).transpose()?;
        let statuses = |status: i32| of.iter().all(|sample| sample.status == status);
        pipelines.push(ComparedPipeline {
            command: command.clone(),
            exit_status: Some(of[0].status).filter(|status| statuses(*status)),
            wall_s: wall_s(of),
            same_output: alike(|sample| sample.output, of),
            bytes_out: of[0].output.0,
            // A pipeline with another status did other work, so its time says nothing.
            against_first: found.map(|found| Against::new(found, same_status, BAND)),
        });
    }
    let twin = samples.last().map_or(&[][..], Vec::as_slice);
    let same_status = samples.iter().all(|of| alike(|sample| (sample.status as u64, 0), of));
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
