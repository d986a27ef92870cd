//! What if: a pipeline that `weir run --json` has measured, with other pipes, CPUs, or faster stages.
//!
//! The stages run in virtual time with the CPU time, the bytes and the waits that were measured. The
//! model runs the pipeline as it was, and as it would be; the measured time is multiplied by the ratio
//! of the two, so what the model gets wrong in both cancels out.

mod flow;
mod report;
#[cfg(test)]
mod tests;

use crate::machine::{Machine, MachineError};
use flow::{Plan, Ran};
use report::Report;

/// What is changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The capacity of all pipes.
    pub pipe_bytes: Option<u64>,
    /// The CPUs.
    pub cpus: Option<usize>,
    /// Stages by their number, and how many times as fast each computes.
    pub faster: Vec<(usize, f64)>,
}

/// Why nothing can be predicted.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// The text is not a report.
    #[error("it is not a report of weir run --json: {0}")]
    NoReport(String),
    /// The report says too little.
    #[error("{0}")]
    TooLittle(String),
    /// A change names a stage that there is not.
    #[error("there is no stage {stage}: the report has {count}")]
    NoStage {
        /// The stage.
        stage: usize,
        /// How many there are.
        count: usize,
    },
    /// The host lacks a constant.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// What a stage does with its time, in shares of the pipeline's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// CPUs that it uses.
    pub cpu: f64,
    /// Waiting for bytes.
    pub waits_in: f64,
    /// Waiting for room.
    pub waits_out: f64,
}

/// A stage of the forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct StageForecast {
    /// Its number in the report.
    pub index: usize,
    /// Its command.
    pub command: String,
    /// What the model has it do as it was.
    pub before: Shares,
    /// What it would do.
    pub after: Shares,
}

/// What would be.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// What was measured.
    pub measured_s: f64,
    /// What the model makes of the pipeline as it was.
    pub modelled_s: f64,
    /// What it would take.
    pub predicted_s: f64,
    /// The stages.
    pub stages: Vec<StageForecast>,
    /// What to know about it.
    pub notes: Vec<String>,
    /// Events that were simulated.
    pub events: u64,
}

impl Forecast {
    /// Returns how many times as fast the pipeline would be.
    pub fn speedup(&self) -> f64 {
        self.measured_s / self.predicted_s
    }
}

/// Predicts what a pipeline would take.
///
/// # Errors
/// The text is not a report, says too little, or a change names a stage that it does not have.
pub fn forecast(text: &str, host: &Machine, changes: &Changes) -> Result<Forecast, WhatIfError> {
    let report = Report::read(text)?;
    let mut plan = Plan::of(&report, host)?;
    for (stage, _) in &changes.faster {
        if !plan.stages.iter().any(|known| known.index == *stage) {
            return Err(WhatIfError::NoStage { stage: *stage, count: plan.stages.len() });
        }
    }
    // Measured CPU time holds the calls and switches already, which the model adds.
    let first = plan.run();
    for (stage, overhead_ns) in plan.stages.iter_mut().zip(&first.overhead_ns) {
        stage.less_cpu(*overhead_ns);
    }
    let before = plan.run();
    let changed = plan.changed(changes);
    let after = changed.run();
    let ratio = after.wall_ns as f64 / (before.wall_ns as f64).max(1.0);
    let stage = |(index, of): (usize, &flow::Stage)| StageForecast {
        index: of.index,
        command: of.command.clone(),
        before: before.shares[index],
        after: after.shares[index],
    };
    Ok(Forecast {
        measured_s: report.wall_s,
        modelled_s: before.wall_ns as f64 / 1e9 * plan.scale,
        predicted_s: report.wall_s * ratio,
        stages: plan.stages.iter().enumerate().map(stage).collect(),
        notes: notes(&report, &plan, changes, &before),
        events: first.events + before.events + after.events,
    })
}

fn notes(report: &Report, plan: &Plan, changes: &Changes, before: &Ran) -> Vec<String> {
    let mut notes = Vec::new();
    let modelled_s = before.wall_ns as f64 / 1e9 * plan.scale;
    let off = modelled_s / report.wall_s - 1.0;
    if off.abs() > 0.15 {
        notes.push(format!(
            "the model is {:+.0}% off for the run as it was: trust the prediction less",
            off * 100.0
        ));
    }
    for stage in plan.stages.iter().filter(|stage| stage.is_barrier()) {
        let of = format!("{} {}", stage.index, stage.command);
        notes.push(format!("{of} is taken to write only after it has read everything"));
    }
    if changes.cpus.is_some() {
        for stage in plan.stages.iter().filter(|stage| stage.workers > 1) {
            let of = format!("{} {}", stage.index, stage.command);
            notes.push(format!("{of} keeps its {} tasks, whatever the CPUs", stage.workers));
        }
    }
    if report.others() > 0.1 {
        let text = format!("other processes used {:.2} CPUs, and still do", report.others());
        notes.push(text);
    }
    notes
}
