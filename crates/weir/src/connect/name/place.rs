//! Where names lie that are no paths.

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Directories that anybody may make files in, where there is no directory of the user's own.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// What lies at a path.
enum Found {
    Nothing,
    /// A directory of this user's that only this user may write.
    Own,
    /// Anything else.
    Foreign,
}

/// The directory of names that are no paths: `$XDG_RUNTIME_DIR/weir`, or one in a directory for
/// temporary files that is the user's alone. It is made if it is missing.
///
/// In directories that all users share another user may have made it first. Then it is the next of
/// them; one that is there already comes before one that would have to be made, so that all
/// processes of the user find the same.
///
/// # Errors
/// None of them can be made, or is the user's alone.
pub fn directory() -> Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    if let Some(runtime) = runtime.filter(|path| path.is_absolute()) {
        let own = runtime.join("weir");
        return choose(std::slice::from_ref(&own), uid);
    }
    let name = format!("weir-{uid}");
    let wanted = std::env::temp_dir();
    if !SHARED.iter().any(|shared| wanted == Path::new(shared)) {
        // A stale one (of cron, or of a session that has ended) is as none.
        let place = wanted.join(&name);
        if make(&place, uid).is_ok() {
            return Ok(place);
        }
    }
    choose(&SHARED.map(|shared| Path::new(shared).join(&name)), uid)
}

/// The first that is there and the user's, or else the first that can be made.
fn choose(places: &[PathBuf], uid: u32) -> Result<PathBuf> {
    for place in places {
        if matches!(look_at(place, uid), Ok(Found::Own)) {
            return Ok(place.clone());
        }
    }
    let mut first = None;
    for place in places {
        match make(place, uid) {
            Ok(()) => return Ok(place.clone()),
            // What is said is what was wrong with the place where it should be.
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
    match look_at(place, uid).map_err(|cause| Error::os("use", object(), cause))? {
        Found::Own => Ok(()),
        Found::Nothing => Err(Error::os("use", object(), Errno::NOENT)),
        Found::Foreign => {
            let why =
                "it is not a directory that belongs to this user and that only this user may write";
            Err(Error::new(ErrorKind::Taken, "use", object(), why))
        }
    }
}

fn look_at(place: &Path, uid: u32) -> rustix::io::Result<Found> {
    let found = match rustix::fs::lstat(place) {
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        found => found?,
    };
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let is_own = is_directory && found.st_uid == uid && found.st_mode & 0o022 == 0;
    Ok(if is_own { Found::Own } else { Found::Foreign })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_that_another_made_first_is_passed_by_and_the_same_is_found_again() {
        let room = tempfile::tempdir().expect("a directory");
        let uid = rustix::process::getuid().as_raw();
        let places = ["one", "two", "three"].map(|name| room.path().join(name));
        // Not the user's alone, as one of another user would be, or a file, or a link.
        std::fs::create_dir(&places[0]).expect("made");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&places[0], open).expect("set");
        assert_eq!(choose(&places, uid).expect("the next"), places[1]);
        // The first has gone: what is there stays the place.
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
    fn one_of_another_user_is_none_of_this_one_s() {
        let room = tempfile::tempdir().expect("a directory");
        let other = rustix::process::getuid().as_raw() + 1;
        assert!(matches!(look_at(room.path(), other), Ok(Found::Foreign)));
    }
}
