//! The directory of names that are not paths.

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use weir_sys::places::variable;

/// Directories that all users may write, for users without a runtime directory.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Whose directory is at a path.
enum Ownership {
    Missing,
    /// It belongs to this user, and only this user may write it.
    Own,
    /// Anything else.
    Foreign,
}

/// The directory of names that are not paths: `$XDG_RUNTIME_DIR/weir`, or one in a directory for
/// temporary files that only this user may write. It is made if it is missing.
///
/// In a directory that all users share, another user may have made it first. Then the next shared
/// directory is used. One that exists already is preferred to one that would have to be made, so
/// that all processes of the user find the same.
///
/// # Errors
/// No directory exists that only this user may write, and none can be made.
pub fn directory() -> Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|path| path.is_absolute()) {
        let own = runtime.join("weir");
        return choose(std::slice::from_ref(&own), uid);
    }
    let name = format!("weir-{uid}");
    let wanted = PathBuf::from(variable("TMPDIR").unwrap_or_default());
    if wanted.is_absolute() && !SHARED.iter().any(|shared| wanted == Path::new(shared)) {
        // TMPDIR may be stale (of cron, or of a session that has ended): then it is ignored. So is
        // one that is empty or relative, which would be another directory for each process.
        let place = wanted.join(&name);
        if make(&place, uid).is_ok() {
            return Ok(place);
        }
    }
    choose(&SHARED.map(|shared| Path::new(shared).join(&name)), uid)
}

/// The first place that exists and is the user's own, or else the first that can be made.
fn choose(places: &[PathBuf], uid: u32) -> Result<PathBuf> {
    for place in places {
        if matches!(ownership_of(place, uid), Ok(Ownership::Own)) {
            return Ok(place.clone());
        }
    }
    let mut first = None;
    for place in places {
        match make(place, uid) {
            Ok(()) => return Ok(place.clone()),
            // The error tells what is wrong with the preferred place.
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| Error::os("make", "the directory of names", Errno::NOENT)))
}

fn make(place: &Path, uid: u32) -> Result<()> {
    let object = || format!("the directory of names '{}'", place.display());
    match rustix::fs::mkdir(place, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(cause) => return Err(Error::os("make", object(), cause)),
    }
    match ownership_of(place, uid).map_err(|cause| Error::os("use", object(), cause))? {
        Ownership::Own => Ok(()),
        Ownership::Missing => Err(Error::os("use", object(), Errno::NOENT)),
        Ownership::Foreign => {
            let why =
                "it is not a directory that belongs to this user and that only this user may write";
            Err(Error::new(ErrorKind::Taken, "use", object(), why))
        }
    }
}

fn ownership_of(place: &Path, uid: u32) -> rustix::io::Result<Ownership> {
    let found = match rustix::fs::lstat(place) {
        Err(Errno::NOENT) => return Ok(Ownership::Missing),
        found => found?,
    };
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let is_own = is_directory && found.st_uid == uid && found.st_mode & 0o022 == 0;
    Ok(if is_own { Ownership::Own } else { Ownership::Foreign })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_another_user_made_first_is_skipped() {
        let room = tempfile::tempdir().expect("a directory");
        let uid = rustix::process::getuid().as_raw();
        let places = ["one", "two", "three"].map(|name| room.path().join(name));
        // Others may write it, which is refused as another user's would be; later a file, a link.
        std::fs::create_dir(&places[0]).expect("made");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&places[0], open).expect("set");
        assert_eq!(choose(&places, uid).expect("the next"), places[1]);
        // The first is gone: the one that exists is still preferred.
        std::fs::remove_dir(&places[0]).expect("removed");
        assert_eq!(choose(&places, uid).expect("found"), places[1]);
        std::fs::remove_dir(&places[1]).expect("removed");
        std::fs::write(&places[0], "").expect("a file");
        std::os::unix::fs::symlink(room.path(), &places[1]).expect("a link");
        assert_eq!(choose(&places, uid).expect("the next"), places[2]);
        std::fs::remove_dir(&places[2]).expect("removed");
        std::fs::write(&places[2], "").expect("a file");
        let error = choose(&places, uid).expect_err("none is left");
        assert_eq!(error.kind(), ErrorKind::Taken);
        assert!(error.to_string().contains(&*places[0].to_string_lossy()), "{error}");
    }

    #[test]
    fn a_directory_of_another_user_is_foreign() {
        let room = tempfile::tempdir().expect("a directory");
        let other = rustix::process::getuid().as_raw() + 1;
        assert!(matches!(ownership_of(room.path(), other), Ok(Ownership::Foreign)));
    }
}
