//! Where the report goes.

use crate::args::RunOptions;
use crate::report::{self, Detail, Look, Report};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use weir_command::fault::tell;
use weir_command::output::{create, own_descriptor, print_json};
use weir_command::signals::survive_size_limit;
use weir_command::sys::closed_standard_descriptors;
use weir_command::widths::cut;

/// Where the report goes. The files are opened before the run, so that weir reports a bad name at once,
/// and the pipeline runs anyway.
pub struct Outputs {
    text: Option<Target>,
    json: Option<Target>,
    detail: Detail,
    /// Of a shorter run nothing is reported but what failed.
    least: Duration,
}

enum Target {
    Stdout,
    Stderr,
    File(File, String),
}

impl Outputs {
    pub fn open(options: &RunOptions) -> Outputs {
        let stderr = || (!closed_standard_descriptors()[2]).then_some(Target::Stderr);
        let text = match &options.output {
            _ if options.quiet => None,
            // A run is not repeated for a report that had no place.
            Some(path) => open(path, "report").or_else(stderr),
            None => stderr(),
        };
        let json = options.json.as_ref().and_then(|path| match path.as_os_str() == "-" {
            true => Some(Target::Stdout),
            false => open(path, "JSON report"),
        });
        Outputs { text, json, detail: options.detail(), least: Duration::ZERO }
    }

    /// Opens what `weir sh` reports to: the end of this file, or standard error. `least`: the shortest
    /// run that is reported there; without it one of a second on standard error, and any in a file.
    pub fn appended(file: Option<&OsStr>, least: Option<Duration>) -> Outputs {
        let file = file.filter(|name| !name.is_empty());
        let usual = if file.is_some() { Duration::ZERO } else { SHORT };
        let least = least.unwrap_or(usual);
        let target = match file {
            Some(path) => opened(append(Path::new(path)), Path::new(path), "report", "script"),
            None if closed_standard_descriptors()[2] => None,
            None => Some(Target::Stderr),
        };
        let (text, json) = if file.is_some_and(is_json) { (None, target) } else { (target, None) };
        Outputs { text, json, detail: Detail::Usual, least }
    }

    /// Appends a report by one write. A line with the command stands above a text; JSON is one line.
    pub fn append(&self, report: &Report) {
        let is_short = Duration::from_nanos(report.run.wall_ns) < self.least;
        if let Some(target) = &self.text {
            let look = target.look(self.detail);
            let text = match is_short {
                true => report::failures(report, &look),
                false => report::text(report, &look),
            };
            if text.is_empty() {
                return;
            }
            let command = cut(&report.command, look.columns.saturating_sub(HEAD.len()));
            target.write(&format!("{HEAD}{command}\n{text}"));
        }
        if let Some(target) = self.json.as_ref().filter(|_| !is_short) {
            target.write(&report::json_line(report));
        }
    }

    /// Writes a report, or a comparison of several pipelines.
    pub fn write<T>(&self, found: &T, text: fn(&T, &Look) -> String, json: fn(&T) -> String) {
        if let Some(target) = &self.text {
            target.write(&text(found, &target.look(self.detail)));
        }
        if let Some(target) = &self.json {
            target.write(&json(found));
        }
    }
}

/// A shell that is called for each line of a recipe, or each minute, runs for less than this.
const SHORT: Duration = Duration::from_secs(1);
/// The text before the command in the line above a report.
const HEAD: &str = "weir sh: ";

/// Opens a file to append to. A FIFO without a reader is an error, since it may never get one.
fn append(path: &Path) -> io::Result<File> {
    if let Some(own) = own_descriptor(path) {
        return Ok(own);
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn open(path: &Path, what: &str) -> Option<Target> {
    opened(create(path), path, what, "pipeline")
}

fn opened(file: io::Result<File>, path: &Path, what: &str, job: &str) -> Option<Target> {
    match file {
        Ok(file) => Some(Target::File(file, path.display().to_string())),
        Err(error) => {
            let path = path.display();
            tell(&format!("cannot write the {what} to '{path}': {error}; the {job} runs anyway"));
            None
        }
    }
}

impl Target {
    fn look(&self, detail: Detail) -> Look {
        match self {
            Target::Stderr => Look::of_stderr(detail),
            _ => Look::of_file(detail),
        }
    }

    fn write(&self, text: &str) {
        survive_size_limit();
        let (result, name) = match self {
            Target::Stdout => return print_json(text).unwrap_or_else(|fault| fault.tell()),
            Target::Stderr => (io::stderr().lock().write_all(text.as_bytes()), "standard error"),
            Target::File(file, name) => ((&*file).write_all(text.as_bytes()), name.as_str()),
        };
        if let Err(error) = result {
            tell(&format!("cannot write the report to {name}: {error}"));
        }
    }
}

/// Returns whether a report in this file is JSON, from the file's name.
fn is_json(path: &OsStr) -> bool {
    let name = path.as_encoded_bytes();
    name.ends_with(b".json") || name.ends_with(b".jsonl")
}
