//! The files that a report fills: replaced whole, or appended to.

use rustix::fs::{Access, OFlags, access, fcntl_getfl, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use weir_command::fault::Fault;
use weir_command::output::own_descriptor;
use weir_command::places::{directory_of, replace};
use weir_command::signals::survive_size_limit;
use weir_sys::places::variable;

/// A report cannot be written: wrong usage, if that is known before anything runs.
pub fn cannot_write(what: &str, path: Option<&Path>, error: &io::Error) -> Fault {
    let path = path.unwrap_or(Path::new("")).display();
    Fault::usage(format!("cannot write the {what} to '{path}': {error}"))
}

/// Whether a file can be written, before it is.
pub fn writable(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        _ if own_descriptor(path).is_some() => Ok(()),
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if !found.is_file() => Ok(access(path, Access::WRITE_OK)?),
        _ => Ok(access(directory_of(path), Access::WRITE_OK)?),
    }
}

/// Writes a file: at once, so that others find the old one or the new one.
pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
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
