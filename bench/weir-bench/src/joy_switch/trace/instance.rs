//! A private tracing instance, which does not affect what others trace.

use crate::engine::case::{CaseError, Site};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use weir_sys::proc::{is_shown, path_of_own};

const PREFIX: &str = "weir-bench-";
const EVENTS: [&str; 5] = [
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_switch",
    "raw_syscalls/sys_enter",
    "raw_syscalls/sys_exit",
];
const BUFFER_KIB: &str = "4096";

/// The instance, removed when dropped. One that a killed process left is removed by the next
/// process.
#[derive(Debug)]
pub struct TraceInstance {
    path: PathBuf,
    // Keeps the file system reachable, although it is not mounted anywhere any more.
    _root: Option<OwnedFd>,
}

impl TraceInstance {
    /// Creates an instance that traces the switches and calls of some processes.
    pub fn new(site: &Site, pids: &[u32]) -> Result<TraceInstance, CaseError> {
        let (tracing, root) = tracing(site)?;
        let instances = tracing.join("instances");
        remove_stale(&instances);
        let path = instances.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| lacking("make a tracing instance", &error))?;
        let instance = TraceInstance { path, _root: root };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "x86-tsc")?;
        instance.set("buffer_size_kb", BUFFER_KIB)?;
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        instance.set("set_event_pid", &pids.join(" "))?;
        for event in EVENTS {
            instance.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    pub fn start(&self) -> Result<(), CaseError> {
        self.set("trace", "")?;
        self.set("tracing_on", "1")
    }

    pub fn stop(&self) -> Result<String, CaseError> {
        self.set("tracing_on", "0")?;
        let text = fs::read(self.path.join("trace"));
        let text = text.map_err(|error| lacking("read a trace", &error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn set(&self, file: &str, value: &str) -> Result<(), CaseError> {
        fs::write(self.path.join(file), value)
            .map_err(|error| lacking(&format!("set {file} of a trace"), &error))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn lacking(what: &str, error: &std::io::Error) -> CaseError {
    CaseError::left_out(format!(
        "cannot {what}: {error} (root can, if the kernel supports tracing)"
    ))
}

/// Returns the tracing file system where it is mounted, or mounts it for this process alone.
fn tracing(site: &Site) -> Result<(PathBuf, Option<OwnedFd>), CaseError> {
    let usual = Path::new("/sys/kernel/tracing");
    if usual.join("instances").exists() {
        return Ok((usual.into(), None));
    }
    let place = site.directory.join(format!(".{PREFIX}{}", std::process::id()));
    fs::create_dir(&place)?;
    let mounted = rustix::mount::mount("none", &place, "tracefs", MountFlags::empty(), None);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = mounted.and_then(|()| {
        let root = rustix::fs::open(&place, flags, Mode::empty());
        let _ = rustix::mount::unmount(&place, UnmountFlags::DETACH);
        root
    });
    let _ = fs::remove_dir(&place);
    let root = root.map_err(|error| lacking("mount tracefs", &error.into()))?;
    Ok((PathBuf::from(path_of_own(&root)), Some(root)))
}

fn remove_stale(instances: &Path) {
    let names = fs::read_dir(instances).into_iter().flatten().flatten();
    for name in names.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<i32>().ok());
        if pid.is_some_and(|pid| !is_shown(pid)) {
            let _ = fs::remove_dir(instances.join(name));
        }
    }
}
