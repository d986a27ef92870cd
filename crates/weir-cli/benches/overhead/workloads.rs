//! The three pipelines, and the data they run over.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_measure::random::Random;

/// A pipeline whose size can be chosen.
pub struct Workload {
    /// How it is named in the table.
    pub name: &'static str,
    /// Programs it needs.
    needs: &'static [&'static str],
    directory: PathBuf,
    /// Makes the data for this many units and gives the text.
    make: fn(&Path, u64) -> Result<String, String>,
    /// Units to begin with.
    units: u64,
}

/// All workloads, their data in `directory`.
pub fn all(directory: &Path) -> Vec<Workload> {
    let directory = directory.to_owned();
    let workload = |name, needs, make, units| Workload {
        name,
        needs,
        directory: directory.clone(),
        make,
        units,
    };
    vec![
        workload("cat\\|grep\\|wc", &["cat", "grep", "wc"][..], cat_grep_wc, 4),
        workload("zstd\\|grep\\|sort\\|uniq", &["zstd", "grep", "sort"][..], zstd_grep_sort, 2),
        workload("seq\\|awk\\|sort", &["seq", "awk", "sort"][..], seq_awk_sort, 4),
    ]
}

impl Workload {
    /// The text, sized so that it takes at least `seconds` by the clock given.
    pub fn prepare(
        &self,
        seconds: f64,
        clock: &dyn Fn(&str) -> Result<f64, String>,
    ) -> Result<String, String> {
        for program in self.needs {
            let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
            if !found.is_ok_and(|found| found.status.success()) {
                return Err(format!("{program} is not installed"));
            }
        }
        let mut units = self.units;
        // A few steps: times do not grow quite in step with size.
        for _ in 0..8 {
            let text = (self.make)(&self.directory, units)?;
            let took = clock(&text)?.min(clock(&text)?);
            if took >= seconds {
                return Ok(text);
            }
            let factor = (1.1 * seconds / took.max(0.01)).clamp(1.2, 50.0);
            units = ((units as f64 * factor).ceil() as u64).max(units + 1);
        }
        (self.make)(&self.directory, units)
    }
}

/// Lines of one log file.
const LINES: u64 = 200_000;

fn log_file(directory: &Path, lines: u64) -> Result<PathBuf, String> {
    let path = directory.join(format!("log-{lines}"));
    if path.exists() {
        return Ok(path);
    }
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(&path)?);
        let mut random = Random::new(1978);
        for n in 0..lines {
            let (host, item, size) =
                (random.below(21), random.below(100_000), random.below(99_999));
            let time = format!("{:02}:{:02}:{:02}", n / 3600 % 24, n / 60 % 60, n % 60);
            writeln!(file, "2026-11-21 {time} host{host} GET /item/{item} 200 {size}")?;
        }
        file.flush()
    };
    write().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// A file in the page cache, read again and again.
fn cat_grep_wc(directory: &Path, units: u64) -> Result<String, String> {
    let file = log_file(directory, LINES)?;
    let files = format!(" {}", file.display()).repeat(units as usize);
    Ok(format!("cat{files} | grep -v nosuchword | wc -c"))
}

fn zstd_grep_sort(directory: &Path, units: u64) -> Result<String, String> {
    let file = log_file(directory, LINES * units)?;
    let packed = directory.join(format!("log-{units}.zst"));
    if !packed.exists() {
        let done = Command::new("zstd").arg("-q").arg(&file).arg("-o").arg(&packed).status();
        if !done.is_ok_and(|status| status.success()) {
            return Err(String::from("zstd could not pack the data"));
        }
        let _ = std::fs::remove_file(&file);
    }
    Ok(format!("zstd -dc {} | grep host7 | sort -k4 | uniq -c", packed.display()))
}

fn seq_awk_sort(_: &Path, units: u64) -> Result<String, String> {
    let count = units * 100_000;
    Ok(format!("seq {count} | awk '{{print $1 % 1000}}' | sort -n | tail -1"))
}
