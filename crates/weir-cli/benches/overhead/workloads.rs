//! The three pipelines, and the data they run over.
//!
//! A pipeline grows by units: it reads its input that many times, or its input is that long. The
//! data is the same on every host and in every run.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use weir_measure::programs::find_program;
use weir_policy::random::Random;

/// A pipeline of any size.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name in `--only` and in the table.
    pub name: &'static str,
    /// What a larger pipeline has more of.
    pub unit: &'static str,
    /// The programs it needs.
    needs: &'static [&'static str],
    /// The text before and after the units.
    around: (&'static str, &'static str),
    input: Input,
}

/// What the units are.
#[derive(Clone, Copy)]
enum Input {
    /// This file, named once per unit.
    Files(&'static str),
    /// A number, in thousands.
    Thousands,
}

/// All pipelines.
pub const ALL: [Workload; 3] = [
    // Nothing matches, so the only work is to move bytes and look at each once.
    Workload {
        name: "grep",
        unit: "log",
        needs: &["cat", "grep", "wc"],
        around: ("cat", " | grep no-such-word | wc -l"),
        input: Input::Files(LOG),
    },
    Workload {
        name: "zstd",
        unit: "log.zst",
        needs: &["zstd", "grep", "sort", "uniq"],
        around: ("zstd -dc", " | grep host7 | sort -k4 | uniq -c"),
        input: Input::Files(PACKED),
    },
    Workload {
        name: "awk",
        unit: "1000 lines",
        needs: &["seq", "awk", "sort", "tail"],
        around: ("seq", " | awk '{ s += $1; print $1 % 1000 }' | sort -n | tail -1"),
        input: Input::Thousands,
    },
];

const LOG: &str = "log";
const PACKED: &str = "log.zst";
/// About 25 MB.
const LOG_LINES: u64 = 500_000;
/// Hosts 7 and 70 to 79 are one line in nine.
const LOG_HOSTS: u64 = 100;
/// No host needs more units than this. As file names they still fit into one argument.
const UNITS_MAX: u64 = 20_000;
/// Steps towards the right size.
const STEPS_MAX: usize = 12;

impl Workload {
    /// The text of the pipeline with this many units.
    pub fn text(&self, units: u64) -> String {
        let (before, after) = self.around;
        match self.input {
            Input::Files(file) => {
                format!("{before}{}{after}", format!(" {file}").repeat(units as usize))
            }
            Input::Thousands => format!("{before} {}{after}", units * 1000),
        }
    }

    /// The text of the pipeline for people, without every name.
    pub fn shown(&self, units: u64) -> String {
        let (before, after) = self.around;
        match self.input {
            Input::Files(file) if units > 1 => format!("{before} {file} [{units} times]{after}"),
            _ => self.text(units),
        }
    }

    /// Returns a program that the pipeline needs and that is missing.
    pub fn missing(&self) -> Option<&'static str> {
        let lacks = |program: &&&str| find_program(Path::new(**program)).is_none();
        self.needs.iter().find(lacks).copied()
    }

    /// Makes the data that the pipeline needs and that is not there yet.
    pub fn make_data(&self, directory: &Path) -> Result<(), String> {
        let Input::Files(file) = self.input else { return Ok(()) };
        if !directory.join(LOG).exists() {
            let written = write_log(&directory.join(LOG));
            written.map_err(|error| format!("cannot write the data: {error}"))?;
        }
        if file == PACKED && !directory.join(PACKED).exists() {
            let mut zstd = Command::new("zstd");
            zstd.args(["-q", LOG, "-o", PACKED]).current_dir(directory).stdin(Stdio::null());
            let status = zstd.status().map_err(|error| format!("cannot start zstd: {error}"))?;
            if !status.success() {
                return Err(format!("zstd could not pack the data: {status}"));
            }
        }
        Ok(())
    }

    /// Returns how many units take at least `seconds` by the given clock. The faster of two runs
    /// counts, so that a moment of noise does not look like a long pipeline.
    pub fn units_for(
        &self,
        seconds: f64,
        mut clock_s: impl FnMut(u64, &str) -> Result<f64, String>,
    ) -> Result<u64, String> {
        let mut units = 1;
        for _ in 0..STEPS_MAX {
            let text = self.text(units);
            let took_s = clock_s(units, &text)?.min(clock_s(units, &text)?);
            if took_s >= seconds {
                return Ok(units);
            }
            // A tenth more than in proportion, in steps, because the time to start is not part of
            // the slope.
            let factor = (1.1 * seconds / took_s).clamp(1.1, 20.0);
            units = ((units as f64 * factor).ceil() as u64).max(units + 1);
            if units > UNITS_MAX {
                break;
            }
        }
        Err(format!("{}: cannot be made to take {seconds} s; ask for fewer", self.name))
    }
}

fn write_log(path: &Path) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut random = Random::new(1978);
    for n in 0..LOG_LINES {
        let (h, m, s) = (n / 36_000 % 24, n / 600 % 60, n / 10 % 60);
        let (host, item, bytes) =
            (random.below(LOG_HOSTS), random.below(100_000), random.below(99_999));
        writeln!(file, "2026-11-21 {h:02}:{m:02}:{s:02} host{host} GET /item/{item} 200 {bytes}")?;
    }
    file.flush()
}
