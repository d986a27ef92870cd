//! Saved runs: a directory in the user's state directory, with a file `NAME.json` for each run.
//!
//! A file holds a report as `weir bench --json` writes it. It is written and synchronised under
//! another name first. So the directory has a run whole or not at all, even after a kill.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use weir_bench::engine::record::Report;
use weir_command::fault::Fault;

const SUFFIX: &str = ".json";

/// A saved run, as it is listed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SavedRun {
    /// The name it was saved under.
    pub name: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// The host's kernel.
    pub kernel: String,
    /// The host's CPU.
    pub cpu: String,
    /// How many figures it has.
    pub cases: usize,
    /// The smallest difference that the host resolved.
    pub resolves_share: Option<f64>,
}

/// Returns the directory: `WEIR_HISTORY`, or below `XDG_STATE_HOME` or `~/.local/state`.
pub fn directory() -> Result<PathBuf, Fault> {
    weir_sys::places::kept("WEIR_HISTORY", "history").ok_or_else(|| {
        Fault::failed(
            "cannot locate the history: WEIR_HISTORY is not set, nor XDG_STATE_HOME or HOME to a \
             whole path",
        )
    })
}

fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{SUFFIX}"))
}

/// Refuses names that would be taken for a path or an option.
fn check_name(name: &str) -> Result<(), Fault> {
    let bad = name.is_empty()
        || name.starts_with('-')
        || name.ends_with(SUFFIX)
        || name.contains('/')
        || name.chars().any(weir_policy::text::is_unsafe_to_print);
    if bad {
        return Err(Fault::usage(format!(
            "cannot save as '{}': a name must not be empty, contain '/' or control characters, begin \
             with '-' or end with '{SUFFIX}'",
            name.escape_debug()
        )));
    }
    Ok(())
}

/// Makes the directory, and refuses a name that is taken, unless it may be replaced.
pub fn prepare(name: &str, replace: bool) -> Result<(), Fault> {
    check_name(name)?;
    let directory = directory()?;
    std::fs::create_dir_all(&directory).map_err(|error| cannot("create", &directory, &error))?;
    match file(&directory, name).exists() && !replace {
        true => Err(taken(name)),
        false => Ok(()),
    }
}

/// Saves a run. Refuses a name that is taken, unless it may be replaced.
pub fn save(name: &str, report: &Report, replace: bool) -> Result<(), Fault> {
    prepare(name, replace)?;
    let directory = directory()?;
    let text = serde_json::to_vec(report).map_err(Fault::cannot("make JSON"))?;
    let write = || {
        let mut new = tempfile::NamedTempFile::new_in(&directory)?;
        new.write_all(&text)?;
        new.as_file().sync_all()?;
        let path = file(&directory, name);
        let kept = if replace { new.persist(path) } else { new.persist_noclobber(path) };
        kept.map_err(|error| error.error)?;
        File::open(&directory)?.sync_all()
    };
    write().map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => taken(name),
        _ => cannot("write", &directory, &error),
    })
}

pub fn load(name: &str) -> Result<Report, Fault> {
    let path = find(name)?;
    let text = std::fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
    parse(&text, name)
}

/// Parses a report; `name` is for the error.
pub fn parse(text: &str, name: &str) -> Result<Report, Fault> {
    Report::from_json(text).map_err(Fault::cannot(&format!("read '{name}'")))
}

/// Returns all saved runs, the newest first. What cannot be read is told and left out.
pub fn list() -> Result<Vec<SavedRun>, Fault> {
    let mut runs = Vec::new();
    for name in names(&directory()?)? {
        match load(&name) {
            Ok(Report { started_unix_s, host, cases, self_test, .. }) => runs.push(SavedRun {
                name,
                started_unix_s,
                kernel: host.kernel,
                cpu: host.cpu,
                cases: cases.len(),
                resolves_share: self_test.resolves_share,
            }),
            Err(fault) => fault.print_message(),
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.started_unix_s));
    Ok(runs)
}

/// Returns the names of all saved runs in order; none where nothing was saved yet.
fn names(directory: &Path) -> Result<Vec<String>, Fault> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(Iterator::collect::<Result<Vec<_>, _>>),
    };
    let entries = entries.map_err(|error| cannot("open", directory, &error))?;
    let files = entries.iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.strip_suffix(SUFFIX)?.to_owned())).collect();
    names.sort_unstable();
    Ok(names)
}

pub fn remove(name: &str) -> Result<(), Fault> {
    let path = find(name)?;
    std::fs::remove_file(&path).map_err(|error| cannot("write", &path, &error))
}

/// Returns the file of a saved run. The error of a run that is not there names the one most like it.
fn find(name: &str) -> Result<PathBuf, Fault> {
    let directory = directory()?;
    let names = names(&directory)?;
    if names.iter().any(|other| other == name) {
        return Ok(file(&directory, name));
    }
    let near = names.iter().map(|other| (strsim::jaro_winkler(name, other), other));
    let nearest = near.filter(|(score, _)| *score > 0.6).max_by(|a, b| a.0.total_cmp(&b.0));
    Err(Fault::failed(match nearest {
        Some((_, nearest)) => format!("there is no saved run '{name}'; did you mean '{nearest}'?"),
        None => format!("there is no saved run '{name}'; weir history lists them"),
    }))
}

fn taken(name: &str) -> Fault {
    Fault::failed(format!(
        "cannot save as '{name}': a run of that name exists (--replace overwrites it)"
    ))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Fault {
    Fault::failed(format!("cannot {what} the history '{}': {error}", path.display()))
}
