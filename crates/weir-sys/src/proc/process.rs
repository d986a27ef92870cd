//! Who a process is: its status, its words, its children, its program.

use super::text::field;
use super::{ProcContents, ProcDir, Stat, tasks};
use crate::Pid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most bytes read of a list of children.
const CHILDREN_BYTES: usize = 1 << 20;

/// The contents of `/proc/PID/status`.
#[derive(Clone, Debug)]
pub struct Status(String);

impl ProcContents for Status {
    const FILE: &str = "status";

    fn parse(text: &[u8]) -> Option<Status> {
        // The kernel cuts a name after 15 bytes, within a character as well.
        Some(Status(String::from_utf8_lossy(text).into_owned()))
    }
}

impl Status {
    /// Returns the name, where the kernel writes `\\n` for a line end and two backslashes for one.
    pub fn name(&self) -> Option<String> {
        let text = self.0.lines().find_map(|line| line.strip_prefix("Name:\t"))?;
        let parts = text.split("\\\\").map(|part| part.replace("\\n", "\n"));
        Some(parts.collect::<Vec<_>>().join("\\"))
    }

    /// Returns the peak resident set; a zombie has none.
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        let peak = field(&self.0, "VmHWM")?;
        Some(peak.trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
    }

    /// Returns who traces it.
    pub fn tracer(&self) -> Option<Pid> {
        self.ids("TracerPid")?.next().filter(|tracer| *tracer != 0)
    }

    /// Returns the ids of a line: `Pid`; `NSpid`, of each namespace from that of `/proc` inwards.
    pub fn ids(&self, line: &str) -> Option<impl Iterator<Item = Pid>> {
        Some(field(&self.0, line)?.split_ascii_whitespace().map_while(|id| id.parse().ok()))
    }

    /// Returns the signals, as bits, for which it has a handler and that it does not keep back.
    pub fn handled_signals(&self) -> Option<u64> {
        let set = |name: &str| u64::from_str_radix(field(&self.0, name)?, 16).ok();
        Some(set("SigCgt")? & !set("SigBlk")?)
    }

    /// Returns how often it waited for something (`voluntary_ctxt_switches`).
    pub fn waits(&self) -> Option<u64> {
        field(&self.0, "voluntary_ctxt_switches")?.parse().ok()
    }

    /// Returns the effective number of a line of users or groups.
    fn effective(&self, line: &str) -> Option<u32> {
        field(&self.0, line)?.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

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

/// Returns whose id this is; `None` when it is unused (by now) or hidden.
pub fn identity(id: Pid) -> Option<ProcessIdentity> {
    let status = Status::of(id)?;
    let id = |line| status.ids(line)?.next();
    Some(ProcessIdentity { pid: id("Tgid")?, parent: id("PPid")?, name: status.name()? })
}

/// Returns the name of a process, as the process chose it, so not safe for a terminal: at most 15
/// bytes, and more for a thread of the kernel. `None` when it is gone or hidden.
pub fn name(dir: impl Into<ProcDir>) -> Option<String> {
    let text = |text: &[u8]| Some(String::from_utf8_lossy(text).trim_end_matches('\n').to_owned());
    dir.into().read("comm", text).ok()
}

/// Returns the effective user of a process; `None` when it is gone or hidden.
pub fn uid(pid: Pid) -> Option<u32> {
    Status::of(pid)?.effective("Uid")
}

/// Returns the effective group of a process; `None` when it is gone or hidden.
pub fn gid(pid: Pid) -> Option<u32> {
    Status::of(pid)?.effective("Gid")
}

/// Returns the user and the group to which `/proc` gives the files of a process: those of root for one
/// that may not be inspected.
pub fn owner(pid: Pid) -> Option<(u32, u32)> {
    let found = std::fs::metadata(ProcDir::Process(pid).path("").ok()?).ok()?;
    Some((found.uid(), found.gid()))
}

/// Returns the parent of a process, the parent of that one, and so on.
pub fn ancestors(pid: Pid) -> impl Iterator<Item = Pid> {
    // A new process may have the id of one that has ended since.
    const MOST_ABOVE: usize = 256;
    let parent = |pid: &Pid| Some(Stat::of(*pid)?.parent).filter(|parent| *parent > 0);
    std::iter::successors(parent(&pid), parent).take(MOST_ABOVE)
}

/// Whether `/proc` shows a process or a thread of this id.
pub fn is_shown(id: Pid) -> bool {
    ProcDir::Process(id).path("").is_ok_and(|path| Path::new(&path).exists())
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
    tasks(parent).into_iter().flat_map(|task| children_of_thread(parent, task)).collect()
}

/// Returns the children that a thread of a process started, and those that it adopted.
pub fn children_of_thread(parent: Pid, thread: Pid) -> Vec<Pid> {
    let text = ProcDir::Thread(parent, thread).read_whole("children", CHILDREN_BYTES);
    let text = text.unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// Returns the words of the command of process `pid`, from the first `most_bytes` of them; none
/// where it has ended, or is hidden, or is a thread of the kernel. A process that wrote its title
/// over its words has empty ones.
pub fn words(pid: Pid, most_bytes: usize) -> Vec<String> {
    words_of(pid, "cmdline", most_bytes)
}

/// Returns the environment with which process `pid` began, as [`words`] does the words.
pub fn environment(pid: Pid, most_bytes: usize) -> Vec<String> {
    words_of(pid, "environ", most_bytes)
}

fn words_of(pid: Pid, file: &str, most_bytes: usize) -> Vec<String> {
    // One read returns as much of these files as there is room for.
    words_in(&ProcDir::Process(pid).read_once(file, most_bytes).unwrap_or_default())
}

/// Splits a text into its words, which end with a byte of zero.
fn words_in(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).split_terminator('\0').map(str::to_owned).collect()
}

/// Returns the function of the kernel in which a task waits, where it may be read.
pub fn kernel_function(pid: Pid, task: Pid) -> Option<String> {
    let text = |text: &[u8]| Some(String::from_utf8_lossy(text).trim().to_owned());
    let text = ProcDir::Thread(pid, task).read("wchan", text).ok()?;
    Some(text).filter(|text| !text.is_empty() && text != "0")
}

/// Returns the functions of the kernel in which a task waits, the innermost first, where they may be
/// read: only root may.
pub fn kernel_stack(pid: Pid, task: Pid) -> Option<Vec<String>> {
    let text = ProcDir::Thread(pid, task).read_whole("stack", 65_536)?;
    // [<0>] pipe_read+0x1a/0x3d0
    let name = |line: &str| {
        let frame = line.split_once(' ')?.1;
        Some(frame.split('+').next()?.to_owned())
    };
    let names: Vec<String> = text.lines().filter_map(name).collect();
    (!names.is_empty()).then_some(names)
}

/// Whether a process has set a timer (timer_create(2)).
pub fn has_timers(pid: Pid) -> bool {
    ProcDir::Process(pid).read("timers", |text| Some(!text.is_empty())).unwrap_or(false)
}

/// Returns the directory in which a process is; `None` when it is gone or hidden.
pub fn current_directory(pid: Pid) -> Option<PathBuf> {
    ProcDir::Process(pid).link("cwd")
}

/// Returns the path of the program that a process runs; `None` when it is gone or hidden.
pub fn program(pid: Pid) -> Option<PathBuf> {
    ProcDir::Process(pid).link("exe")
}

/// Returns the path under which the program of a process can be opened, even if it was removed.
pub fn program_path(pid: Pid) -> Option<String> {
    ProcDir::Process(pid).path("exe").ok()
}

/// Returns the path under which a file can be seen here that a process calls by this name.
pub fn seen_by(pid: Pid, name: &str) -> Option<PathBuf> {
    let root = if name.starts_with('/') { "root" } else { "cwd" };
    let root = ProcDir::Process(pid).path(root).ok()?;
    Some(Path::new(&root).join(name.trim_start_matches('/')))
}

/// Returns a table of the sockets in the network namespace of a process: `tcp`, `udp6`, `unix`.
pub fn sockets(pid: Pid, table: &str, most_bytes: usize) -> Option<String> {
    ProcDir::Process(pid).read_whole(format_args!("net/{table}"), most_bytes)
}

/// Returns the inode that tells a namespace of this process, such as `pid`, from all others.
pub fn namespace(kind: &str) -> Option<u64> {
    let path = ProcDir::This.path(format_args!("ns/{kind}")).ok()?;
    Some(std::fs::metadata(path).ok()?.ino())
}

/// Returns the id that `/proc` gives this process: another one where it shows another pid namespace.
pub fn own_id() -> Option<Pid> {
    ProcDir::Host.link("self")?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::processes;

    fn status(text: &str) -> Status {
        Status::parse(text.as_bytes()).expect("a text")
    }

    #[test]
    fn this_process_is_found() {
        let me = std::process::id() as Pid;
        assert!(processes().contains(&me));
        assert!(!tasks(me).is_empty());
        assert_eq!(identity(me).expect("known").pid, me);
        assert!(is_taken(me) && is_taken(1) && !is_taken(Pid::MAX));
        assert!(is_shown(me) && !is_shown(Pid::MAX));
        assert!(Status::of(me).and_then(|it| it.peak_rss_bytes()).expect("known") > 100_000);
        assert_eq!(program(me), std::env::current_exe().ok());
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
        let of = |text: &str| status(&format!("Name:\t{text}\nUmask:\t0022\n")).name();
        for (text, name) in
            [("sh", "sh"), (r"a\\b", r"a\b"), (r"a\nb", "a\nb"), (" a: b ", " a: b ")]
        {
            assert_eq!(of(text).as_deref(), Some(name));
        }
        assert_eq!(status("Pid:\t7\n").name(), None);
    }

    #[test]
    fn the_words_of_a_command_are_those_that_started_it() {
        let own: Vec<String> = std::env::args().collect();
        let me = std::process::id() as Pid;
        assert_eq!(words(me, 1 << 16), own);
        assert_eq!(words(me, 3), [own[0][..3].to_owned()]);
        assert_eq!(words(Pid::MAX, 100), [] as [&str; 0]);
        assert_eq!(words_in(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(words_in(b"cut\0of"), ["cut", "of"]);
    }

    /// The kernel cuts a name after 15 bytes, within a character as well. The peak of its process was
    /// not known then.
    #[test]
    fn a_name_that_is_no_text_hides_no_peak() {
        let status = Status::parse(b"Name:\t\xc3\nVmHWM:\t      12 kB\n").expect("a text");
        assert_eq!(status.peak_rss_bytes(), Some(12 * 1024));
        assert_eq!(Status::parse(b"VmRSS: 1 kB").expect("a text").peak_rss_bytes(), None);
    }
}
