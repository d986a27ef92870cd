//! The files that show a run elsewhere than in a terminal: Markdown, the page and the trace.
//!
//! A file is replaced at once, when it is complete. What cannot be written then is said, and changes
//! nothing about the run or its status.

use crate::args::LookInside;
use crate::files::{cannot_write, writable, write};
use crate::report::{Detail, Place, Report, chrome_trace, html, markdown, verb};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_command::fault::{Fault, print_message};
use weir_command::output::Output;
use weir_doctor::facts::Run;
use weir_measure::machine::cpu_model;
use weir_policy::text::printable_lines;

/// The files that were asked for and can be written.
#[derive(Debug, Default)]
pub struct Pages {
    md: Option<PathBuf>,
    html: Option<PathBuf>,
    trace: Option<PathBuf>,
}

impl Pages {
    /// Checks before the run that the files can be written: what was asked for a page would
    /// continue without one.
    pub fn check(options: &LookInside) -> Result<Pages, Fault> {
        let usable = |path: &Option<PathBuf>, what| match path.as_deref().map(writable) {
            None | Some(Ok(())) => Ok(path.clone()),
            Some(Err(error)) => Err(cannot_write(what, path.as_deref(), &error)),
        };
        let md = match options.is_md_stdout() {
            true => options.md.clone(),
            false => usable(&options.md, MD)?,
        };
        let (html, trace) = (usable(&options.html, PAGE)?, usable(&options.chrome_trace, TRACE)?);
        Ok(Pages { md, html, trace })
    }

    /// Writes the files. False if the reader of standard output has left.
    pub fn write(&self, report: &Report, detail: Detail) -> Result<bool, Fault> {
        let give = |path: &Option<PathBuf>, what, text: &dyn Fn() -> String| {
            let Some(path) = path else { return };
            if let Err(error) = write(path, text().as_bytes()) {
                cannot_write(what, Some(path), &error).print_message();
            }
        };
        give(&self.html, PAGE, &|| html(report, &place_of(&report.run)));
        give(&self.trace, TRACE, &|| chrome_trace(report));
        let text = || markdown(report, verb(report), detail);
        if self.md.as_deref() == Some(Path::new("-")) {
            return Output::requested_stdout()?.write(printable_lines(&text()));
        }
        give(&self.md, MD, &text);
        Ok(true)
    }
}

/// The names of the files in messages.
const MD: &str = "Markdown";
const PAGE: &str = "page";
const TRACE: &str = "trace";

/// Returns where a run that has just ended took place, and when it began.
pub fn place_of(run: &Run) -> Place {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wall = Duration::from_nanos(run.wall_ns + run.stopped_ns);
    let uname = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Place {
        begun_unix_s: now.saturating_sub(wall).as_secs(),
        host: word(uname.nodename()),
        cpu: cpu_model(),
        kernel: format!("{} {}", word(uname.sysname()), word(uname.release())),
    }
}

/// Says that files which were asked for are not written, since nothing ran.
pub fn report_none(options: &LookInside) {
    for (path, what) in [(&options.md, MD), (&options.html, PAGE), (&options.chrome_trace, TRACE)] {
        if let Some(path) = path {
            print_message(&format!("no {what} was written to '{}': nothing ran", path.display()));
        }
    }
}
