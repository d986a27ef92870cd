//! Which machine this is, and what time it is.

use crate::halves::{Half, Runner};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_command::units::utc;

/// The machine, and the programs that are compared.
pub struct Host {
    kernel: String,
    cpu: String,
    cpus: f64,
    date: String,
    bash: String,
    weir: String,
}

impl Host {
    /// Finds out about the machine.
    pub fn read(runner: &Runner) -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name"));
        let version = |half| runner.version(half).unwrap_or_else(|| String::from("unknown"));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Host {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: model.unwrap_or("unknown CPU").trim_start_matches(['\t', ' ', ':']).to_owned(),
            cpus: weir_measure::machine::usable_cpus(),
            date: format!("{} UTC", utc(since.as_secs())),
            bash: version(Half::Bash),
            weir: version(Half::Weir),
        }
    }

    /// Describes the machine in one line.
    pub fn line(&self) -> String {
        let Host { kernel, cpu, cpus, date, .. } = self;
        format!("Linux {kernel}, {cpu}, {cpus} CPUs, {date}")
    }

    /// Describes in one line what is compared.
    pub fn programs(&self) -> String {
        format!("a: {}; b: {}", self.bash, self.weir)
    }

    /// Describes it as JSON.
    pub fn json(&self) -> Value {
        let Host { kernel, cpu, cpus, date, bash, weir } = self;
        json!({
            "kernel": kernel, "cpu": cpu, "cpus": cpus, "date": date, "bash": bash, "weir": weir,
        })
    }
}
