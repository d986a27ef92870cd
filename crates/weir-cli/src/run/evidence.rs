//! Memory of earlier runs: which pipes of which pipelines would gain from an elastic buffer, and which advice
//! was tried and gained nothing.
//!
//! It is a small JSON file in the user's state directory, which weir replaces as a whole. The file has the
//! SHA-256 of a pipeline's text in place of the text, which may hold secrets. If two runs end at the same
//! moment, the later one's file stays; the next run will show again what the other one showed.
//!
//! Runs of one pipeline differ, so a single run that shows something else decides nothing. Weir keeps what
//! the last [`RUNS`] runs showed about a pipe. A gain counts as long as a third of them showed it.

use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_doctor::advice::AdviceKind;

/// The version of the file.
const SCHEMA: &str = "weir.elastic/1";
/// The largest number of entries. The oldest is removed first.
const MOST_ENTRIES: usize = 256;
/// The largest size of a file with that many entries.
const MOST_BYTES: u64 = 1 << 20;

/// The number of last runs whose findings about a pipe are kept.
const RUNS: usize = 8;
/// Refuted advice is forgotten after this time, since hosts and data change.
const REFUTED_LASTS_S: u64 = 30 * 24 * 3600;

/// What runs showed about one pipe. The figures are those of the last run that showed a gain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipeEvidence {
    /// The key of the pipeline ([`pipeline_key`]).
    pub pipeline: String,
    /// The number of the pipe, from 1.
    pub pipe: usize,
    /// The share of the time in which the pipe was full.
    pub full_share: f64,
    /// The share of the time in which the pipe was empty.
    pub empty_share: f64,
    /// The longest time for which it stayed full.
    pub longest_full_ms: u64,
    /// The longest time for which it stayed empty.
    pub longest_empty_ms: u64,
    /// The time of that run, in seconds since 1970.
    pub when_unix_s: u64,
    /// For each of the last runs, the oldest first, whether it showed that a buffer would help.
    pub runs: Vec<bool>,
}

impl PipeEvidence {
    /// Returns how many of the last runs showed a gain, and how many runs there were.
    pub fn counts(&self) -> (usize, usize) {
        (self.runs.iter().filter(|shown| **shown).count(), self.runs.len())
    }

    /// Returns whether enough of the last runs showed a gain.
    pub fn stands(&self) -> bool {
        let (shown, runs) = self.counts();
        shown > 0 && 3 * shown >= runs
    }

    fn add(&mut self, shown: bool) {
        self.runs.push(shown);
        self.runs.drain(..self.runs.len().saturating_sub(RUNS));
    }
}

/// Advice that was tried and gained nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refuted {
    /// The key of the pipeline ([`pipeline_key`]).
    pub pipeline: String,
    /// The name of the kind of advice.
    pub kind: String,
    /// The stage that the advice was about, as typed, from 1.
    pub stage: Option<usize>,
    /// The pipe that the advice was about, as typed, from 1.
    pub pipe: Option<usize>,
    /// The time of the comparison, in seconds since 1970.
    pub when_unix_s: u64,
}

impl Refuted {
    fn is_about(&self, other: &Refuted) -> bool {
        (&self.pipeline, &self.kind, self.stage, self.pipe)
            == (&other.pipeline, &other.kind, other.stage, other.pipe)
    }
}

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    schema: String,
    /// What runs showed about pipes, the oldest first.
    pub seen: Vec<PipeEvidence>,
    /// Refuted advice, the oldest first.
    pub refuted: Vec<Refuted>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Weir did not write it. Weir may replace it.
    #[error("it is damaged ({0})")]
    Damaged(String),
    /// A weir of another version wrote it.
    #[error("its version is {0}, and this weir uses {SCHEMA}")]
    OtherVersion(String),
    /// The system refused to read or write it.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Returns the path of the file: `WEIR_ELASTIC`, else `weir/elastic.json` under `XDG_STATE_HOME` or
/// `~/.local/state`. `None`: the user has no home directory.
pub fn place() -> Option<PathBuf> {
    weir_sys::places::kept("WEIR_ELASTIC", "elastic.json")
}

/// Returns the key of a pipeline: the SHA-256 of its text.
pub fn pipeline_key(text: &str) -> String {
    hmac_sha256::Hash::hash(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads the file if weir can read it, where there is one, and replace it.
pub fn usable(path: &Path) -> Option<Memory> {
    let memory = match read(path) {
        Err(Trouble::OtherVersion(_) | Trouble::Io(_)) => return None,
        read => read.unwrap_or_default(),
    };
    // The last ancestor of a relative path is empty, and does not exist.
    let there = path.ancestors().skip(1).find(|directory| directory.exists());
    let directory = there.unwrap_or(Path::new("."));
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).ok().map(|()| memory)
}

/// Reads the file. A missing file counts as empty.
pub fn read(path: &Path) -> Result<Memory, Trouble> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Memory::default()),
        // Opening a FIFO would wait for ever.
        Ok(found) if !found.is_file() => {
            return Err(Trouble::Io(std::io::Error::other("not a file")));
        }
        found => found.map(drop)?,
    }
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_end(&mut text)?;
    let damaged = |error: serde_json::Error| Trouble::Damaged(error.to_string());
    let head: serde_json::Value = serde_json::from_slice(&text).map_err(damaged)?;
    match head["schema"].as_str() {
        Some(SCHEMA) => serde_json::from_slice(&text).map_err(damaged),
        Some(schema) if schema.starts_with("weir.elastic/") => {
            Err(Trouble::OtherVersion(schema.chars().take(40).collect()))
        }
        _ => Err(Trouble::Damaged(String::from("it has no schema"))),
    }
}

/// Adds what a run without buffers showed about the pipes of `pipeline`: a buffer would help those in
/// `shown`, and not those in `contrary` (from 1).
///
/// An unchanged file is not written again.
pub fn update(
    path: &Path,
    pipeline: &str,
    shown: &[PipeEvidence],
    contrary: &[usize],
) -> Result<Replaced, Trouble> {
    change(path, |memory| {
        let of =
            |entry: &PipeEvidence, pipe: usize| entry.pipeline == pipeline && entry.pipe == pipe;
        for entry in &mut memory.seen {
            if contrary.iter().any(|pipe| of(entry, *pipe)) {
                entry.add(false);
            }
        }
        for new in shown {
            let before = memory.seen.iter().position(|entry| of(entry, new.pipe));
            let runs = before.map(|at| memory.seen.remove(at).runs).unwrap_or_default();
            let mut new = PipeEvidence { runs, ..new.clone() };
            new.add(true);
            memory.seen.push(new);
        }
        memory.seen.retain(|entry| entry.counts().0 > 0);
    })
}

/// Adds advice that was tried. Advice that gained nothing is not given again; advice that gained is.
pub fn judge_tried(path: &Path, tried: &[Refuted], gained: bool) -> Result<Replaced, Trouble> {
    change(path, |memory| {
        let was_tried = |known: &Refuted| tried.iter().any(|new| new.is_about(known));
        memory.refuted.retain(|known| !was_tried(known));
        if gained {
            return;
        }
        memory.refuted.extend_from_slice(tried);
        memory.seen.retain(|entry| {
            let buffer = |new: &&Refuted| new.kind == AdviceKind::ElasticBuffer.as_ref();
            let same =
                |new: &Refuted| new.pipeline == entry.pipeline && new.pipe == Some(entry.pipe);
            !tried.iter().filter(buffer).any(same)
        });
    })
}

/// What a changed file replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// What weir had written, or nothing.
    Known,
    /// A damaged file.
    Damaged,
}

/// Changes the contents of the file. A damaged file is replaced if there is something to keep.
fn change(path: &Path, change: impl FnOnce(&mut Memory)) -> Result<Replaced, Trouble> {
    let (before, replaced) = match read(path) {
        Err(Trouble::Damaged(_)) => (Memory::default(), Replaced::Damaged),
        read => (read?, Replaced::Known),
    };
    let mut after = before.clone();
    change(&mut after);
    let now = now_unix_s();
    after.refuted.retain(|known| now.saturating_sub(known.when_unix_s) < REFUTED_LASTS_S);
    if after == before {
        return Ok(Replaced::Known);
    }
    after.seen.drain(..after.seen.len().saturating_sub(MOST_ENTRIES));
    after.refuted.drain(..after.refuted.len().saturating_sub(MOST_ENTRIES));
    after.schema = String::from(SCHEMA);
    write(path, &after)?;
    Ok(replaced)
}

/// Returns the time now, in seconds since 1970.
pub fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn write(path: &Path, memory: &Memory) -> Result<(), Trouble> {
    let text = serde_json::to_vec_pretty(memory).map_err(std::io::Error::other)?;
    Ok(weir_command::places::keep(path, &text)?)
}

#[cfg(test)]
mod tests;
