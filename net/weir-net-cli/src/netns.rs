//! A network namespace with a name, as `ip netns` makes them. It is removed when the switch ends. If
//! a switch was killed, the next one removes its namespace.

use rustix::fs::{Mode, OFlags};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use weir_command::fault::{Fault, print_message};
use weir_net::sys::tun;
use weir_sys::namespace;

/// Where `ip netns` looks for namespaces.
const DIRECTORY: &str = "/run/netns";

/// Where weir notes which namespaces are its own. Each note is a file that its creator locks, and it
/// names the namespace. This distinguishes what a killed switch has left from what others created.
const OURS: &str = "/run/weir-netns";

/// A namespace that this process created and entered.
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
    note: PathBuf,
    /// Held while this process lives.
    lock: File,
}

impl Netns {
    /// Creates a namespace and moves this process, which must have one thread, into it. Replaces one
    /// of the same name whose creator has died.
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
        // A note that is not text is not ours.
        let _ = lock.read_to_string(&mut said);
        if !said.is_empty() && Some(said) == identity(&path) {
            print_message(&format!(
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
        made.report().map_err(failed)?;
        namespace::new_network().map_err(failed)?;
        mount_bind("/proc/self/ns/net", &made.path).map_err(|error| failed(error.into()))?;
        made.report().map_err(failed)?;
        tun::switch_on("lo").map_err(failed)?;
        Ok(made)
    }

    /// Notes which namespace is ours; before it is mounted, which file.
    fn report(&self) -> io::Result<()> {
        let identity = identity(&self.path).unwrap_or_default();
        self.lock.set_len(0)?;
        self.lock.write_all_at(identity.as_bytes(), 0)
    }
}

/// Takes the lock of a name, unless a living switch holds it.
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
        // The previous holder may have removed the file since it was opened.
        let there = std::fs::metadata(note).map(|it| (it.dev(), it.ino())).ok();
        let own = file.metadata()?;
        if there == Some((own.dev(), own.ino())) {
            return Ok(Ok(file));
        }
    }
}

/// The identity of the namespace that is mounted at a path.
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
        // Removed while it is locked, so that it is still ours.
        let _ = std::fs::remove_file(&self.note);
    }
}
