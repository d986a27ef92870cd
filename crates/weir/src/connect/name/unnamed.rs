//! A listening socket without a name, which descriptors lead to.

use super::{BoundName, Subject, directory, open, unix_socket};
use crate::error::Result;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{bind, listen};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tries for a name that no other socket has.
const TRIES: u64 = 64;
/// What errors call a socket without a name.
pub const SHOWN: &str = "(unnamed)";

impl BoundName {
    /// Listens without a name. Whoever holds the descriptor that is returned can connect by its path
    /// in `/proc/self/fd`, if `mode` lets them.
    ///
    /// A socket that listens needs a name. So it gets one in a directory that only this user may
    /// write, and loses it before anybody else hears of it.
    pub fn unnamed(what: &Subject, mode: Mode, backlog: i32) -> Result<(BoundName, OwnedFd)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let directory = directory()?;
        for _ in 0..TRIES {
            // Relaxed: numbers only have to differ.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            // A process of another pid namespace may have the same number, and the same directory.
            let path = directory.join(format!(".unnamed-{}-{number}", std::process::id()));
            let failed = |cause: Errno| what.os(&path, cause);
            let (made, address) = unix_socket(what, &path)?;
            let socket = made.here().map_err(failed)?;
            rustix::fs::fchmod(socket, mode).map_err(failed)?;
            match bind(socket, &address) {
                Err(Errno::ADDRINUSE) => continue,
                bound => bound.map_err(failed)?,
            }
            let way = way_to(&path, mode);
            let _ = rustix::fs::unlink(&path);
            let way = way.map_err(failed)?;
            listen(socket, backlog).map_err(failed)?;
            let path = PathBuf::from(SHOWN);
            return Ok((BoundName { socket: made, lock: None, id: None, path }, way));
        }
        Err(what.os(&directory, Errno::ADDRINUSE))
    }
}

/// A descriptor of the socket's file, through which others connect.
fn way_to(path: &Path, mode: Mode) -> rustix::io::Result<OwnedFd> {
    super::set_mode(path, mode)?;
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, how, Mode::empty())?.take().ok_or(Errno::BADF)
}
