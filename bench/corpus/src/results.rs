//! Results, one JSON object a line, so that a run can be taken up again where it ended.

use crate::pairs::{Followed, Overhead};
use crate::truth::Truth;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What was measured so far.
#[derive(Debug, Default)]
pub struct Results {
    file: PathBuf,
    pub truths: Vec<Truth>,
    pub overheads: Vec<Overhead>,
    pub followed: Vec<Followed>,
    /// Pipelines of which the advice was followed, also where there was none.
    advised: Vec<String>,
    pub koala: Vec<Overhead>,
}

impl Results {
    /// Reads a file of results; without `keep` it begins anew.
    pub fn open(file: &Path, keep: bool) -> Result<Results, String> {
        let mut results = Results { file: file.to_owned(), ..Results::default() };
        if !keep {
            File::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
            return Ok(results);
        }
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for line in text.lines() {
            results.take(line)?;
        }
        Ok(results)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let value: serde_json::Value =
            serde_json::from_str(line).map_err(|error| format!("results: {error}"))?;
        let name = value["name"].as_str().unwrap_or_default().to_owned();
        match value["part"].as_str() {
            Some("truth") => replace(&mut self.truths, value, |truth| truth.name == name),
            Some("overhead") => replace(&mut self.overheads, value, |one| one.name == name),
            Some("koala") => replace(&mut self.koala, value, |one| one.name == name),
            Some("advice") => {
                let kind = value["kind"].as_str().unwrap_or_default().to_owned();
                replace(&mut self.followed, value, |one| one.name == name && one.kind == kind)
            }
            Some("advised") => {
                self.advised.push(name);
                Ok(())
            }
            _ => Err(String::from("results: a line of no known part")),
        }
    }

    /// Whether this part of a pipeline is there already.
    pub fn has(&self, part: &str, name: &str) -> bool {
        match part {
            "truth" => self.truths.iter().any(|truth| truth.name == name),
            "overhead" => self.overheads.iter().any(|one| one.name == name),
            "koala" => self.koala.iter().any(|one| one.name == name),
            _ => self.advised.iter().any(|advised| advised == name),
        }
    }

    /// Adds a result.
    pub fn add(&mut self, result: &impl Serialize) -> Result<(), String> {
        let line = serde_json::to_string(result).map_err(|error| error.to_string())?;
        let failed = |error: std::io::Error| format!("{}: {error}", self.file.display());
        let mut file =
            File::options().append(true).create(true).open(&self.file).map_err(failed)?;
        writeln!(file, "{line}").map_err(failed)?;
        self.take(&line)
    }
}

/// The later of two results of the same stands.
fn replace<T: DeserializeOwned>(
    all: &mut Vec<T>,
    value: serde_json::Value,
    same: impl Fn(&T) -> bool,
) -> Result<(), String> {
    let new: T = serde_json::from_value(value).map_err(|error| format!("results: {error}"))?;
    match all.iter().position(same) {
        Some(at) => all[at] = new,
        None => all.push(new),
    }
    Ok(())
}
