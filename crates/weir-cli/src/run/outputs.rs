//! Where the report goes.

use crate::args::RunOptions;
use crate::files::{append, cannot_write, summary_of_step};
use crate::report::{self, Detail, Report, ReportStyle};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;
use weir_command::fault::{Fault, print_message};
use weir_command::output::{create, print_err, print_json};
use weir_command::signals::survive_size_limit;
use weir_command::sys::closed_standard_descriptors;
use weir_command::widths::cut;
use weir_sys::places::variable;

/// Where the report goes. The files are opened before the run, so that weir reports a bad name at once.
pub struct Outputs {
    text: Option<Target>,
    json: Option<Target>,
    md: Option<Target>,
    detail: Detail,
    /// Of a shorter run nothing is reported but what failed.
    least: Duration,
    /// What the user set for that.
    asked_least: Option<Duration>,
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
        let least = Duration::ZERO;
        Ok(Outputs { text, json, md: None, detail, least, asked_least: None, hot })
    }

    /// Opens what `weir sh` reports to: the end of this file, or standard error. `least`: the shortest
    /// run that is reported there; without it one of a second on standard error, and any in a file.
    pub fn appended(file: Option<OsString>, least: Option<Duration>) -> Outputs {
        let summary = summary_of_step();
        // In the variables of a workflow nobody puts in what this stands for.
        let file = file.and_then(|name| match name == "$GITHUB_STEP_SUMMARY" {
            true => summary.clone(),
            false => Some(name).filter(|name| !name.is_empty()),
        });
        let file = file.as_deref();
        let usual = if file.is_some() { Duration::ZERO } else { SHORT };
        let (least, asked_least) = (least.unwrap_or(usual), least);
        let target = match file {
            Some(path) => opened(append(Path::new(path)), Path::new(path), "script"),
            None if closed_standard_descriptors()[2] => None,
            None => Some(Target::Stderr),
        };
        let mut to = Outputs {
            text: None,
            json: None,
            md: None,
            detail: Detail::Usual,
            least,
            asked_least,
            hot: false,
        };
        let is_md = |file: &OsStr| ends_in(file, &[".md"]) || summary.as_deref() == Some(file);
        match file {
            Some(file) if ends_in(file, &[".json", ".jsonl"]) => to.json = target,
            Some(file) if is_md(file) => to.md = target,
            _ => to.text = target,
        }
        to
    }

    /// Writes the notices of a step of GitHub Actions to standard error, which is read for them: the verdict as
    /// one line of the log, and what failed.
    pub fn annotate(&self, report: &Report) {
        if closed_standard_descriptors()[2]
            || variable("GITHUB_ACTIONS").is_none_or(|is| is != "true")
        {
            return;
        }
        let least = self.asked_least.unwrap_or(SHORT);
        let is_short = Duration::from_nanos(report.run.wall_ns) < least;
        let root =
            variable("GITHUB_WORKSPACE").and_then(|root| Path::new(&root).canonicalize().ok());
        let below = |path: &Path| {
            let whole = path.canonicalize().ok()?;
            whole.strip_prefix(root.as_ref()?).ok()?.to_str().map(String::from)
        };
        print_err(&report::annotations(report, is_short, below));
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
        if let Some(target) = &self.md {
            let text = match is_short {
                true => report::markdown_failures(report, VERB),
                false => report::markdown(report, VERB, self.detail),
            };
            if !text.is_empty() {
                target.write(&format!("{text}\n"));
            }
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
/// Whose report it is.
const VERB: &str = "weir sh";
/// The text before the command in the line above a report.
const HEAD: &str = "weir sh: ";

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

/// Returns whether the name of a file has one of these ends: it decides in which form the report is.
fn ends_in(path: &OsStr, ends: &[&str]) -> bool {
    ends.iter().any(|end| path.as_encoded_bytes().ends_with(end.as_bytes()))
}
