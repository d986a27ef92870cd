//! What a forecast needs of a report (`weir.run/1`).

use super::WhatIfError;
use serde::Deserialize;

/// Stages that are modelled at most.
const STAGES_MAX: usize = 256;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Report {
    schema: String,
    mode: String,
    pub(super) wall_s: f64,
    pub(super) cpus: f64,
    pub(super) stages: Vec<MeasuredStage>,
    #[serde(default)]
    pub(super) pipes: Vec<MeasuredPipe>,
    #[serde(default)]
    host: Option<Host>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct MeasuredStage {
    pub(super) index: usize,
    pub(super) command: String,
    #[serde(default)]
    pub(super) program: String,
    pub(super) wall_s: f64,
    #[serde(default)]
    pub(super) busy: f64,
    pub(super) cpu_s: f64,
    #[serde(default)]
    pub(super) runq_sum_s: f64,
    #[serde(default)]
    pub(super) blocked_in_s: f64,
    #[serde(default)]
    pub(super) blocked_out_s: f64,
    #[serde(default)]
    pub(super) blocked_other: Other,
    pub(super) bytes_in: Option<u64>,
    pub(super) bytes_out: Option<u64>,
    pub(super) pipe_bytes_in: Option<u64>,
    pub(super) pipe_bytes_out: Option<u64>,
    pub(super) read_calls: Option<u64>,
    pub(super) write_calls: Option<u64>,
    #[serde(default)]
    pub(super) most_tasks: usize,
    pub(super) failure: Option<String>,
}

/// Waits that no pipe explains.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Other {
    disk_s: f64,
    file_s: f64,
    child_s: f64,
    sleep_s: f64,
    network_s: f64,
    device_s: f64,
}

impl Other {
    pub(super) fn sum_s(&self) -> f64 {
        self.disk_s + self.file_s + self.child_s + self.sleep_s + self.network_s + self.device_s
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct MeasuredPipe {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) capacity_bytes: Option<u64>,
    #[serde(default)]
    pub(super) longest_empty_s: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Host {
    others_cpus: Option<f64>,
}

fn too_little(why: impl Into<String>) -> WhatIfError {
    WhatIfError::TooLittle(why.into())
}

impl Report {
    pub(super) fn read(text: &str) -> Result<Report, WhatIfError> {
        let report: Report =
            serde_json::from_str(text).map_err(|why| WhatIfError::NoReport(why.to_string()))?;
        if report.schema != "weir.run/1" {
            return Err(WhatIfError::NoReport(format!("its schema is '{}'", report.schema)));
        }
        if report.mode != "pipeline" {
            let why = format!("the run was a {}, and only a pipeline can be modelled", report.mode);
            return Err(too_little(why));
        }
        report.check()?;
        report.check_pipes()?;
        Ok(report)
    }

    /// Figures from a file can be anything.
    fn check(&self) -> Result<(), WhatIfError> {
        let time = |seconds: f64| (0.0..1e7).contains(&seconds);
        if !time(self.wall_s) || !(0.0..1e5).contains(&self.cpus) {
            return Err(WhatIfError::NoReport(String::from("its times make no sense")));
        }
        if self.wall_s < 0.02 {
            return Err(too_little("the run was too short to say anything about"));
        }
        if self.stages.is_empty() || self.stages.len() > STAGES_MAX {
            let why =
                format!("it has {} stages: 1 to {STAGES_MAX} are modelled", self.stages.len());
            return Err(too_little(why));
        }
        for stage in &self.stages {
            if let Some(why) = &stage.failure {
                let index = stage.index;
                return Err(too_little(format!("stage {index} could not be started: {why}")));
            }
            let times = [
                stage.wall_s,
                stage.cpu_s,
                stage.runq_sum_s,
                stage.blocked_in_s,
                stage.blocked_out_s,
                stage.blocked_other.sum_s(),
                stage.busy,
            ];
            if !times.into_iter().all(time) {
                let why = format!("the times of stage {} make no sense", stage.index);
                return Err(WhatIfError::NoReport(why));
            }
        }
        Ok(())
    }

    /// In a pipeline each stage has one pipe to a later one at most, and one from an earlier one:
    /// stages in a circle would wait for each other for ever.
    fn check_pipes(&self) -> Result<(), WhatIfError> {
        let is_later = |pipe: &MeasuredPipe| pipe.from < pipe.to;
        let same = |one: &MeasuredPipe| {
            let either = |pipe: &&MeasuredPipe| pipe.from == one.from || pipe.to == one.to;
            self.pipes.iter().filter(either).count() > 1
        };
        match self.pipes.iter().find(|pipe| !is_later(pipe) || same(pipe)) {
            Some(MeasuredPipe { from, to, .. }) => {
                let why = format!("the pipe from stage {from} to {to} makes it no pipeline");
                Err(WhatIfError::NoReport(why))
            }
            None => Ok(()),
        }
    }

    /// CPUs that other processes used.
    pub(super) fn others(&self) -> f64 {
        let others = self.host.and_then(|host| host.others_cpus).unwrap_or(0.0);
        if others.is_finite() { others.clamp(0.0, 1024.0) } else { 0.0 }
    }
}
