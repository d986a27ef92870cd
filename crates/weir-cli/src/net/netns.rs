//! A network namespace with a name, as `ip netns` has them, that goes when the switch ends.

use crate::fault::Fault;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use std::io;
use std::path::{Path, PathBuf};
use weir_sys::{namespace, tun};

/// Where `ip netns` looks for them.
const DIRECTORY: &str = "/run/netns";

/// A namespace that this process made and is in.
#[derive(Debug)]
pub struct Netns {
    path: PathBuf,
}

impl Netns {
    /// Makes it and moves this process, which must have one thread, into it.
    pub fn make(name: &str) -> Result<Netns, Fault> {
        let is_name = !name.is_empty()
            && name.len() <= 255
            && !name.contains('/')
            && !matches!(name, "." | "..");
        if !is_name {
            return Err(Fault::usage(format!("'{name}' cannot be the name of a namespace")));
        }
        let path = Path::new(DIRECTORY).join(name);
        let failed = |error: io::Error| {
            Fault::failed(match error.kind() {
                io::ErrorKind::AlreadyExists => format!(
                    "cannot make network namespace '{name}': it is there already \
                     (ip netns delete {name} removes it)"
                ),
                _ => format!("cannot make network namespace '{name}': {error}"),
            })
        };
        std::fs::create_dir_all(DIRECTORY).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let made = Netns { path };
        namespace::new_network().map_err(failed)?;
        mount_bind("/proc/self/ns/net", &made.path).map_err(|error| failed(error.into()))?;
        tun::switch_on("lo").map_err(failed)?;
        Ok(made)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = unmount(&self.path, UnmountFlags::DETACH);
        let _ = std::fs::remove_file(&self.path);
    }
}
