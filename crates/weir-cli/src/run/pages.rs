//! The files that show the course of a run: the page and the trace.
//!
//! A file is replaced at once, when it is complete. What cannot be written is said, and changes
//! nothing about the run or its status.

use crate::args::LookInside;
use crate::report::{Report, chrome_trace, html};
use rustix::fs::{Access, access};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weir_command::fault::tell;
use weir_command::output::own_descriptor;
use weir_command::places::{directory_of, replace};
use weir_command::signals::survive_size_limit;

/// The files that were asked for and can be written.
#[derive(Debug, Default)]
pub struct Pages {
    html: Option<PathBuf>,
    trace: Option<PathBuf>,
}

impl Pages {
    /// Checks before the run that the files can be written. The run takes place anyway.
    pub fn check(options: &LookInside) -> Pages {
        let usable = |path: &Option<PathBuf>, what| {
            let path = path.clone()?;
            match writable(&path) {
                Ok(()) => Some(path),
                Err(error) => {
                    let path = path.display();
                    tell(&format!("cannot write the {what} to '{path}': {error}"));
                    None
                }
            }
        };
        Pages { html: usable(&options.html, "page"), trace: usable(&options.chrome_trace, "trace") }
    }

    /// Writes the files.
    pub fn write(&self, report: &Report) {
        let give = |path: &Option<PathBuf>, what, text: fn(&Report) -> String| {
            let Some(path) = path else { return };
            if let Err(error) = write(path, text(report).as_bytes()) {
                tell(&format!("cannot write the {what} to '{}': {error}", path.display()));
            }
        };
        give(&self.html, "page", html);
        give(&self.trace, "trace", chrome_trace);
    }
}

/// Says that files which were asked for are not written, since nothing ran.
pub fn tell_none(options: &LookInside) {
    for (path, what) in [(&options.html, "page"), (&options.chrome_trace, "trace")] {
        if let Some(path) = path {
            tell(&format!("no {what} was written to '{}': nothing ran", path.display()));
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
    // What a link points to is replaced, and not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        // A device or a FIFO stays what it is.
        return File::options().write(true).open(&path)?.write_all(text);
    }
    // As for any new file, the mask decides who may read it.
    replace(&path, text, 0o666)
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
