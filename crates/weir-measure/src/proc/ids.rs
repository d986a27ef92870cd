//! Finding processes and threads cheaply, by their ids.
//!
//! The last field of `/proc/loadavg` is the newest id that the kernel assigned in this pid
//! namespace. While it stays the same, no process or thread was started, so no search is needed; if
//! it advanced by a few, only those few ids need a look. Walking all of `/proc` is the fallback.

use super::io::field;
use weir_sys::Pid;
use weir_sys::proc::{ProcFile, read_small, tasks};

/// The process of an id, and its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// The process (thread group) the id belongs to.
    pub pid: Pid,
    /// The parent of that process.
    pub parent: Pid,
    /// Name of its program, as the kernel truncates it (15 bytes).
    pub name: String,
}

/// Returns the newest id, from an open `/proc/loadavg`; `None` where it is hidden.
pub fn last_id(loadavg: &ProcFile) -> Option<Pid> {
    let mut buffer = [0; 128];
    let text = std::str::from_utf8(loadavg.read(&mut buffer).ok()?).ok()?;
    text.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Returns the largest id that the kernel assigns; the usual one where that is hidden.
pub fn largest_id() -> Pid {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse::<Pid>().map_or(32_768, |most| most.saturating_sub(1))
}

/// Returns whose id this is; `None` when it is unused (by now) or hidden.
pub fn identity(id: Pid) -> Option<ProcessIdentity> {
    let mut buffer = [0; 512];
    let text = read_small(&format!("/proc/{id}/status"), &mut buffer).ok()?;
    let text = String::from_utf8_lossy(text);
    let number = |name: &str| field(&text, name)?.parse::<Pid>().ok();
    Some(ProcessIdentity { pid: number("Tgid")?, parent: number("PPid")?, name: name_in(&text)? })
}

/// Returns the name in the contents of `/proc/PID/status`, where the kernel writes `\\n` for a line end
/// and two backslashes for one.
pub fn name_in(status: &str) -> Option<String> {
    let text = status.lines().find_map(|line| line.strip_prefix("Name:\t"))?;
    Some(text.split("\\\\").map(|part| part.replace("\\n", "\n")).collect::<Vec<_>>().join("\\"))
}

/// Returns the name of a process, as the process chose it, so not safe for a terminal: at most 15
/// bytes, and more for a thread of the kernel. `None` when it is gone or hidden.
pub fn name(pid: Pid) -> Option<String> {
    let mut buffer = [0; 128];
    let text = read_small(&format!("/proc/{pid}/comm"), &mut buffer).ok()?;
    Some(String::from_utf8_lossy(text).trim_end_matches('\n').to_owned())
}

/// Returns the effective user of a process; `None` when it is gone or hidden.
pub fn uid(pid: Pid) -> Option<u32> {
    effective(pid, "Uid")
}

/// Returns the effective group of a process; `None` when it is gone or hidden.
pub fn gid(pid: Pid) -> Option<u32> {
    effective(pid, "Gid")
}

/// Returns the second number of a line of `/proc/PID/status`: the effective one.
fn effective(pid: Pid, field_name: &str) -> Option<u32> {
    status(pid, |text| field(text, field_name)?.split_ascii_whitespace().nth(1)?.parse().ok())
}

/// Reads the status of a process or a thread.
pub fn status<T>(id: Pid, read: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut buffer = [0; 4096];
    let text = read_small(&format!("/proc/{id}/status"), &mut buffer).ok()?;
    read(&String::from_utf8_lossy(text))
}

/// Whether this id is in use, hidden or not.
pub fn is_taken(id: Pid) -> bool {
    rustix::process::Pid::from_raw(id).is_some_and(|id| {
        let found = rustix::process::test_kill_process(id);
        found.is_ok() || found == Err(rustix::io::Errno::PERM)
    })
}

/// Whether `child` is a child of process `parent`, even a hidden one; `false` where the kernel was
/// built without `CONFIG_PROC_CHILDREN`.
pub fn is_child(child: Pid, parent: Pid) -> bool {
    children(parent).contains(&child)
}

/// Returns the children of process `parent`, even hidden ones; none where the kernel was built
/// without `CONFIG_PROC_CHILDREN`.
pub fn children(parent: Pid) -> Vec<Pid> {
    let of = |task: Pid| {
        let path = format!("/proc/{parent}/task/{task}/children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()
    };
    tasks(parent).into_iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sys::proc::processes;

    #[test]
    fn this_process_is_found() {
        let me = std::process::id() as Pid;
        assert!(processes().contains(&me));
        assert!(!tasks(me).is_empty());
        assert_eq!(identity(me).expect("known").pid, me);
        assert!(is_taken(me) && is_taken(1) && !is_taken(Pid::MAX));
    }

    #[test]
    fn a_process_has_a_name_a_user_and_a_group() {
        let me = std::process::id() as Pid;
        assert_eq!(name(me), identity(me).map(|me| me.name));
        assert_eq!(uid(me), Some(rustix::process::geteuid().as_raw()));
        assert_eq!(gid(me), Some(rustix::process::getegid().as_raw()));
        assert_eq!((name(Pid::MAX), uid(Pid::MAX), gid(Pid::MAX)), (None, None, None));
    }

    /// The kernel writes `a\\b` for a name of `a\b`, and that was the name shown.
    #[test]
    fn a_name_is_the_one_that_the_process_has() {
        let of = |text: &str| name_in(&format!("Name:\t{text}\nUmask:\t0022\n"));
        for (text, name) in
            [("sh", "sh"), (r"a\\b", r"a\b"), (r"a\nb", "a\nb"), (" a: b ", " a: b ")]
        {
            assert_eq!(of(text).as_deref(), Some(name));
        }
        assert_eq!(name_in("Pid:\t7\n"), None);
    }

    #[test]
    fn a_new_process_moves_the_last_id() {
        let loadavg = ProcFile::open("/proc/loadavg").expect("loadavg");
        let before = last_id(&loadavg).expect("an id");
        let mut child = std::process::Command::new("true").spawn().expect("true");
        assert_ne!(last_id(&loadavg).expect("an id"), before);
        let (pid, me) = (child.id() as Pid, std::process::id() as Pid);
        let counted = std::path::Path::new("/proc/thread-self/children").exists();
        assert_eq!((is_child(pid, me), is_child(me, pid)), (counted, false));
        child.wait().expect("waited");
    }
}
