//! A control group with a CPU quota or a limit of memory, to run weir or one of its stages in.

use super::{Ran, WEIR};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A control group with a quota of 0.2 CPUs, or with a limit of memory. Dropping this removes it.
pub struct Group(std::path::PathBuf);

impl Group {
    /// Makes the group, or returns `None` if that is not allowed.
    pub fn make() -> Option<Group> {
        Group::with([
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000"),
            ("/sys/fs/cgroup", "cpu.max", "20000 100000"),
        ])
    }

    /// Makes one with this limit of memory in bytes.
    pub fn of_memory(limit: &str) -> Option<Group> {
        Group::with([
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", limit),
            ("/sys/fs/cgroup", "memory.max", limit),
        ])
    }

    fn with(ways: [(&str, &str, &str); 2]) -> Option<Group> {
        // Tests of one process run beside each other.
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the number matters.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-test-{}-{number}", std::process::id());
        for (base, file, value) in ways {
            let group = Group(Path::new(base).join(&name));
            if std::fs::create_dir(&group.0).is_ok()
                && std::fs::write(group.0.join(file), value).is_ok()
            {
                return Some(group);
            }
        }
        None
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the text of a stage that enters the group and becomes this command.
    pub fn stage(&self, command: &str) -> String {
        format!("sh -c 'echo $$ > {}/cgroup.procs; exec {command}'", self.0.display())
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Moves a process into it.
    pub fn add(&self, pid: i32) {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("moved");
    }

    /// Returns a command that runs weir in the group, with arguments to be added.
    pub fn weir(&self) -> Command {
        self.command(WEIR)
    }

    /// Returns a command that runs a program in the group, with arguments to be added.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        // The shell enters the group, so weir and its children are in it from their start.
        let script = "echo $$ > \"$1/cgroup.procs\" && shift && exec \"$@\"";
        let mut inside = Command::new("bash");
        inside.args(["-c", script, "bash"]).arg(&self.0).arg(program);
        inside
    }

    /// Runs a pipeline in the group, and writes what weir says into `output`.
    pub fn run(&self, text: &str) -> Ran {
        let directory = tempfile::tempdir().expect("a directory");
        let report = directory.path().join("report.json");
        let mut inside = self.weir();
        inside.args(["run", "--json"]).arg(&report).arg(text);
        let output = inside.env("XDG_STATE_HOME", directory.path()).output().expect("bash");
        assert!(output.status.success());
        let text = std::fs::read_to_string(&report).expect("a report");
        Ran { output, json: serde_json::from_str(&text).expect("JSON") }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
