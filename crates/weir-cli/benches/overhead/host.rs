//! Which machine this is, and what time it is.

use crate::halves::{Half, Runner};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

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
            date: utc(since.as_secs()),
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

/// Seconds since 1970 as "2026-11-21 05:52 UTC".
fn utc(seconds: u64) -> String {
    let (days, minutes) = (seconds / 86_400, seconds / 60 % 1440);
    // Years begin in March, so that the leap day is the last (H. Hinnant's civil_from_days).
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}
