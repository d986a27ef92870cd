//! Where the report goes.

use super::pages::cannot_write;
use crate::args::RunOptions;
use crate::report::{self, Detail, Report, ReportStyle};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use weir_command::fault::{Fault, print_message};
use weir_command::output::{create, own_descriptor, print_json};
use weir_command::signals::survive_size_limit;
use weir_command::sys::closed_standard_descriptors;
use weir_command::widths::cut;

/// Where the report goes. The files are opened before the run, so that weir reports a bad name at once.
pub struct Outputs {
    text: Option<Target>,
    json: Option<Target>,
    detail: Detail,
    /// Of a shorter run nothing is reported but what failed.
    least: Duration,
    /// Whether hot functions were asked for, however brief the text is.
    hot: bool,
}

enum Target {
    Stdout,
    Stderr,
    File(File, String),
}

impl Outputs {
    /// Opens what the options name. A program that asked for JSON would continue without it; people
    /// find the text on standard error where its file cannot be opened.
    pub fn open(options: &RunOptions) -> Result<Outputs, Fault> {
        let stderr = || (!closed_standard_descriptors()[2]).then_some(Target::Stderr);
        let json = match options.json.as_deref() {
            None => None,
            Some(path) if path.as_os_str() == "-" => Some(Target::Stdout),
            Some(path) => {
                let file = create(path);
                let file = file.map_err(|error| cannot_write("JSON report", Some(path), &error))?;
                Some(Target::File(file, path.display().to_string()))
            }
        };
        let text = match options.output.as_deref() {
            _ if options.quiet => None,
            Some(path) => opened(create(path), path, "pipeline").or_else(stderr),
            None => stderr(),
        };
        let (detail, hot) = (options.detail(), options.inside.profile);
        Ok(Outputs { text, json, detail, least: Duration::ZERO, hot })
    }

    /// Opens what `weir sh` reports to: the end of this file, or standard error. `least`: the shortest
    /// run that is reported there; without it one of a second on standard error, and any in a file.
    pub fn appended(file: Option<&OsStr>, least: Option<Duration>) -> Outputs {
        let file = file.filter(|name| !name.is_empty());
        let usual = if file.is_some() { Duration::ZERO } else { SHORT };
        let least = least.unwrap_or(usual);
        let target = match file {
            Some(path) => opened(append(Path::new(path)), Path::new(path), "script"),
            None if closed_standard_descriptors()[2] => None,
            None => Some(Target::Stderr),
        };
        let (text, json) = if file.is_some_and(is_json) { (None, target) } else { (target, None) };
        Outputs { text, json, detail: Detail::Usual, least, hot: false }
    }

    /// Appends a report by one write. A line with the command stands above a text; JSON is one line.
    pub fn append(&self, report: &Report) {
        let is_short = Duration::from_nanos(report.run.wall_ns) < self.least;
        if let Some(target) = &self.text {
            let style = target.style(self.detail, self.hot);
            let text = match is_short {
                true => report::failures(report, &style),
                false => report::text(report, &style),
            };
            if text.is_empty() {
                return;
            }
            let command = cut(&report.command, style.columns.saturating_sub(HEAD.len()));
            target.write(&format!("{HEAD}{command}\n{text}"));
        }
        if let Some(target) = self.json.as_ref().filter(|_| !is_short) {
            target.write(&report::json_line(report));
        }
    }

    /// Writes a report, or a comparison of several pipelines.
    pub fn write<T>(
        &self,
        found: &T,
        text: fn(&T, &ReportStyle) -> String,
        json: fn(&T) -> String,
    ) {
        if let Some(target) = &self.text {
            target.write(&text(found, &target.style(self.detail, self.hot)));
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

fn opened(file: io::Result<File>, path: &Path, job: &str) -> Option<Target> {
    match file {
        Ok(file) => Some(Target::File(file, path.display().to_string())),
        Err(error) => {
            let path = path.display();
            print_message(&format!(
                "cannot write the report to '{path}': {error}; the {job} runs anyway"
            ));
            None
        }
    }
}

impl Target {
    fn style(&self, detail: Detail, hot: bool) -> ReportStyle {
        let style = match self {
            Target::Stderr => ReportStyle::of_stderr(detail),
            _ => ReportStyle::of_file(detail),
        };
        ReportStyle { hot, ..style }
    }

    fn write(&self, text: &str) {
        survive_size_limit();
        let (result, name) = match self {
            Target::Stdout => {
                return print_json(text).unwrap_or_else(|fault| fault.print_message());
            }
            Target::Stderr => (io::stderr().lock().write_all(text.as_bytes()), "standard error"),
            Target::File(file, name) => ((&*file).write_all(text.as_bytes()), name.as_str()),
        };
        if let Err(error) = result {
            print_message(&format!("cannot write the report to {name}: {error}"));
        }
    }
}

/// Returns whether a report in this file is JSON, from the file's name.
fn is_json(path: &OsStr) -> bool {
    let name = path.as_encoded_bytes();
    name.ends_with(b".json") || name.ends_with(b".jsonl")
}
