//! The files that show a run elsewhere than in a terminal: Markdown, the page and the trace.
//!
//! A file is replaced at once, when it is complete. What cannot be written then is said, and changes
//! nothing about the run or its status.

use crate::args::LookInside;
use crate::report::{Detail, Place, Report, chrome_trace, html, markdown, verb};
use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_command::fault::{Fault, print_message};
use weir_command::output::{Output, own_descriptor};
use weir_command::places::{directory_of, replace};
use weir_command::signals::survive_size_limit;
use weir_doctor::facts::Run;
use weir_measure::machine::cpu_model;
use weir_policy::text::printable_lines;
use weir_sys::places::variable;

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

/// A report cannot be written: wrong usage, if that is known before anything runs.
pub fn cannot_write(what: &str, path: Option<&Path>, error: &io::Error) -> Fault {
    let path = path.unwrap_or(Path::new("")).display();
    Fault::usage(format!("cannot write the {what} to '{path}': {error}"))
}

/// Returns where a run that has just ended took place, and when it began.
fn place_of(run: &Run) -> Place {
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

fn writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        _ if own_descriptor(path).is_some() => Ok(()),
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if !found.is_file() => Ok(access(path, Access::WRITE_OK)?),
        _ => Ok(access(directory_of(path), Access::WRITE_OK)?),
    }
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    survive_size_limit();
    if let Some(mut own) = own_descriptor(path) {
        return own.write_all(text);
    }
    if summary_of_step().is_some_and(|summary| summary == path.as_os_str()) {
        // Other commands of the step have written there.
        return append(path)?.write_all(text);
    }
    // What a link points to is replaced, and not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        // A device or a FIFO stays what it is.
        return File::options().write(true).open(&path)?.write_all(text);
    }
    // As for any new file, the mask decides who may read it.
    replace(&path, text, 0o666)
}

/// Opens a file to append to. A FIFO without a reader is an error, since it may never get one.
pub fn append(path: &Path) -> io::Result<File> {
    if let Some(own) = own_descriptor(path) {
        return Ok(own);
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// Returns the file of GitHub Actions whose Markdown stands on the page of the job, a new one for each step.
pub fn summary_of_step() -> Option<OsString> {
    variable("GITHUB_STEP_SUMMARY").filter(|file| !file.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_link_stays_one() {
        let place = tempfile::tempdir().expect("a directory");
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        write(&file, b"one").expect("written");
        write(&link, b"two").expect("written");
        assert_eq!(std::fs::read(&file).expect("a file"), b"two");
        assert!(std::fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(std::fs::read_dir(place.path()).expect("a directory").count(), 2);
        assert!(writable(place.path()).is_err());
        assert!(writable(&place.path().join("none/file")).is_err());
        write(Path::new("/dev/null"), b"x").expect("a device");
    }
}
