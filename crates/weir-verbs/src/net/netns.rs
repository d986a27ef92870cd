//! A network namespace with a name, as `ip netns` has them, that goes when the switch ends. What a
//! switch that was killed has left is taken away by the next.

use crate::fault::{Fault, tell};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use weir_sys::{namespace, tun};

/// Where `ip netns` looks for them.
const DIRECTORY: &str = "/run/netns";

/// Where it is noted which of them are ours: for each a lock that its maker holds, and in it which
/// namespace it made. What a maker that was killed has left is told by that from what others made.
const OURS: &str = "/run/weir-netns";

/// A namespace that this process made and is in.
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
    note: PathBuf,
    /// Held as long as this process lives.
    lock: File,
}

impl Netns {
    /// Makes it and moves this process, which must have one thread, into it. One of the same name
    /// whose maker has died gives way.
    pub fn make(name: &str) -> Result<Netns, Fault> {
        let is_name = !name.is_empty()
            && name.len() <= 255
            && !name.contains('/')
            && !matches!(name, "." | "..");
        if !is_name {
            return Err(Fault::usage(format!(
                "'{name}' cannot be the name of a network namespace"
            )));
        }
        let path = Path::new(DIRECTORY).join(name);
        let note = Path::new(OURS).join(name);
        let failed = |error: io::Error| {
            Fault::failed(match error.kind() {
                io::ErrorKind::AlreadyExists => format!(
                    "cannot create network namespace '{name}': it exists already \
                     (ip netns delete {name} removes it)"
                ),
                _ => format!("cannot create network namespace '{name}': {error}"),
            })
        };
        std::fs::create_dir_all(DIRECTORY).map_err(failed)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(OURS).map_err(failed)?;
        let mut lock = take_lock(&note, name).map_err(failed)??;
        let mut said = String::new();
        // What is no text is no note of ours.
        let _ = lock.read_to_string(&mut said);
        if !said.is_empty() && Some(said) == identity(&path) {
            tell(&format!(
                "network namespace '{name}' was left by a switch that died: creating it again"
            ));
            take_away(&path);
        }
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| {
            let _ = std::fs::remove_file(&note);
            failed(error.into())
        })?;
        let made = Netns { path, note, lock };
        made.say().map_err(failed)?;
        namespace::new_network().map_err(failed)?;
        mount_bind("/proc/self/ns/net", &made.path).map_err(|error| failed(error.into()))?;
        made.say().map_err(failed)?;
        tun::switch_on("lo").map_err(failed)?;
        Ok(made)
    }

    /// Notes which namespace (before it is mounted: which file) is ours.
    fn say(&self) -> io::Result<()> {
        let identity = identity(&self.path).unwrap_or_default();
        self.lock.set_len(0)?;
        self.lock.write_all_at(identity.as_bytes(), 0)
    }
}

/// The lock of a name, unless a switch that lives has it.
fn take_lock(note: &Path, name: &str) -> io::Result<Result<File, Fault>> {
    loop {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(note)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let why = "the switch that made it is up";
                let text = format!("cannot create network namespace '{name}': {why}");
                return Ok(Err(Fault::failed(text)));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Who had it may have taken it away since it was opened.
        let there = std::fs::metadata(note).map(|it| (it.dev(), it.ino())).ok();
        let own = file.metadata()?;
        if there == Some((own.dev(), own.ino())) {
            return Ok(Ok(file));
        }
    }
}

/// Which namespace is mounted at a path.
fn identity(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    Some(format!("{}:{}\n", found.dev(), found.ino()))
}

fn take_away(path: &Path) {
    let _ = unmount(path, UnmountFlags::DETACH);
    let _ = std::fs::remove_file(path);
}

impl Drop for Netns {
    fn drop(&mut self) {
        take_away(&self.path);
        // While it is locked, so that it is still ours.
        let _ = std::fs::remove_file(&self.note);
    }
}
