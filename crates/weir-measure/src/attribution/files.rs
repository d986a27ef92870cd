//! The files and devices for which a group waited.

use super::classify::Awaited;
use super::position::SOUGHT;
use crate::sys::memory::read_remote;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_doctor::facts::{FileAccess, FileWait, FileWaitKind, Flushes};
use weir_doctor::partition::Times;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, FdInfo, HostFile, Io, Mount, Mounts, ProcContents, access, descriptor,
    kernel_function, link, regular, special,
};

/// Most files of a group that are tracked; time on others is not counted.
const MOST_FILES: usize = 16;
/// Most files that are reported.
const MOST_SHOWN: usize = 3;
/// The kernel's function in which a writer waits that has written too much at once.
const THROTTLES: &str = "balance_dirty_pages";
/// Most bytes of a path.
const PATH_BYTES: usize = 1024;

/// The files for which a group waited.
#[derive(Debug, Default)]
pub struct Files {
    known: Vec<(Key, FileWait)>,
    /// Its waits until what it had written was on the disk.
    pub flushes: Flushes,
    /// How often the process that waited so last had written.
    writes: Option<(Pid, u64)>,
}

/// What makes a file the same as at the last look.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Open(Descriptor),
    Path(String),
    Kernel(Option<String>),
}

impl Files {
    /// Notes that a task of process `pid` was found waiting in this state for a file, with
    /// `weight_ns`.
    pub fn note(&mut self, pid: Pid, state: TaskState, awaited: Awaited, weight_ns: u64) {
        let kind = match state {
            TaskState::Disk => FileWaitKind::Disk,
            TaskState::File => FileWaitKind::File,
            TaskState::Device => FileWaitKind::Device,
            _ => return,
        };
        let key = match awaited {
            Awaited::File { fd: ..0, .. } => Key::Kernel(None),
            Awaited::File { fd, .. } => match descriptor(pid, fd) {
                Some(file) => Key::Open(file),
                None => return,
            },
            Awaited::Path(address) => path_in(pid, address).map_or(Key::Kernel(None), Key::Path),
            Awaited::Unknown { task } => Key::Kernel(kernel_function(pid, task)),
            Awaited::Socket { .. } => return,
        };
        let access = match awaited {
            Awaited::File { fd, access: FileAccess::Write } if keeps_at_once(pid, fd) => {
                FileAccess::Flush
            }
            Awaited::File { access, .. } => access,
            _ => FileAccess::Other,
        };
        if access == FileAccess::Flush {
            self.note_flush(pid, weight_ns);
        }
        let throttled = kind == FileWaitKind::Disk
            && access == FileAccess::Write
            && kernel_function(pid, pid).is_some_and(|name| name.starts_with(THROTTLES));
        let is_same = |(known, wait): &&mut (Key, FileWait)| {
            *known == key && wait.kind == kind && wait.access == access
        };
        if let Some((_, wait)) = self.known.iter_mut().find(is_same) {
            wait.waited_ns += weight_ns;
            wait.throttled |= throttled;
        } else if self.known.len() < MOST_FILES {
            let named = name(pid, &key, awaited);
            let waited_ns = weight_ns;
            self.known.push((key, FileWait { kind, access, throttled, waited_ns, ..named }));
        }
    }

    /// Notes that a process was found waiting until what it had written was on the disk. It was another
    /// such wait than the last one if it has written since.
    fn note_flush(&mut self, pid: Pid, weight_ns: u64) {
        let now = Io::of(pid).map(|io| (pid, io.write_calls));
        let again = self.flushes.times == 0 || now.is_some() && now != self.writes;
        let times = u64::from(again);
        self.flushes = self.flushes.plus(Flushes { times, waited_ns: weight_ns });
        self.writes = now;
    }

    /// Returns the longest waits, the longest first.
    pub fn longest(&self) -> Vec<FileWait> {
        Files::of([self].into_iter())
    }

    /// Returns the longest waits of several groups, and their flushes, as parts of these times: the kernel
    /// tells how long they were blocked, and samples only for what.
    pub fn within<'a>(
        all: impl Iterator<Item = &'a Files> + Clone,
        times: &Times,
    ) -> (Vec<FileWait>, Flushes) {
        let mut waits = Files::merged(all.clone());
        let mut flushes = all.fold(Flushes::default(), |sum, files| sum.plus(files.flushes));
        let kinds = [
            (FileWaitKind::Disk, times.disk_ns),
            (FileWaitKind::File, times.file_ns),
            (FileWaitKind::Device, times.device_ns),
        ];
        for (kind, total_ns) in kinds {
            let of_kind = waits.iter_mut().filter(|wait| wait.kind == kind);
            let seen_ns: u64 = of_kind.map(|wait| wait.waited_ns).sum();
            let part = |ns: u64| (ns as f64 / seen_ns.max(1) as f64 * total_ns as f64) as u64;
            for wait in waits.iter_mut().filter(|wait| wait.kind == kind) {
                wait.waited_ns = part(wait.waited_ns);
            }
            if kind == FileWaitKind::Disk {
                flushes.waited_ns = part(flushes.waited_ns).min(total_ns);
            }
        }
        waits.truncate(MOST_SHOWN);
        (waits, flushes)
    }

    /// Returns the longest waits of several groups.
    fn of<'a>(all: impl Iterator<Item = &'a Files>) -> Vec<FileWait> {
        let mut merged = Files::merged(all);
        merged.truncate(MOST_SHOWN);
        merged
    }

    /// Returns the waits of several groups, the longest first.
    fn merged<'a>(all: impl Iterator<Item = &'a Files>) -> Vec<FileWait> {
        let mut merged: Vec<FileWait> = Vec::new();
        for (_, wait) in all.flat_map(|files| &files.known) {
            match merged.iter_mut().find(|other| other.is_same(wait)) {
                Some(other) => other.waited_ns += wait.waited_ns,
                None => merged.push(wait.clone()),
            }
        }
        merged.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ns));
        merged
    }
}

/// Whether each write to a descriptor ends only once it is on the disk (`O_SYNC`, `O_DSYNC`).
fn keeps_at_once(pid: Pid, fd: i32) -> bool {
    let flags = FdInfo::of(pid, fd).map_or(0, |info| info.flags);
    flags & libc::O_DSYNC as u32 != 0
}

/// Returns the length and the path of the longest regular file that a process has open to be read only:
/// its standard input, or one of the first that it opened. What its program is loaded from is none.
pub fn longest_read(pid: Pid) -> Option<(u64, PathBuf)> {
    let read = |fd: &i32| access(pid, *fd) == Some((true, false));
    let files = SOUGHT.into_iter().filter_map(|fd| Some((regular(pid, fd)?.1, fd)));
    let paths =
        files.filter(|(_, fd)| read(fd)).filter_map(|(len, fd)| Some((len, link(pid, fd)?)));
    paths.filter(|(_, path)| !is_module(path)).max()
}

/// Whether a file is a library, or a module of a language.
fn is_module(path: &Path) -> bool {
    const MODULES: [&str; 4] = ["py", "pyc", "so", "pth"];
    let is_one = |extension: &str| MODULES.contains(&extension);
    let extension = path.extension().and_then(|it| it.to_str());
    // `libc.so.6`
    extension.is_some_and(is_one) || path.to_string_lossy().contains(".so.")
}

/// Returns the file that each of several processes reads, as far as is known of them.
pub fn shared<'a>(all: impl Iterator<Item = &'a Option<(u64, PathBuf)>>) -> Option<String> {
    /// Fewer processes than this are not a loop.
    const SEVERAL: u64 = 3;
    let mut files: BTreeMap<&Path, u64> = BTreeMap::new();
    for (_, path) in all.flatten() {
        *files.entry(path).or_default() += 1;
    }
    // One that another program of the same row had open may be among them.
    let (path, processes) = files.iter().max_by_key(|(_, processes)| **processes)?;
    let others: u64 = files.values().sum::<u64>() - processes;
    let is_one = *processes >= SEVERAL && others * 10 <= *processes;
    is_one.then(|| path.to_string_lossy().into_owned())
}

fn name(pid: Pid, key: &Key, awaited: Awaited) -> FileWait {
    match (key, awaited) {
        (Key::Open(_), Awaited::File { fd, .. }) => {
            let path = link(pid, fd).map(|path| path.to_string_lossy().into_owned());
            let driver = || driver(special(pid, fd)?);
            let on = driver().or_else(|| mount_of(pid, fd));
            let flags = FdInfo::of(pid, fd).map_or(0, |info| info.flags);
            let direct = flags & libc::O_DIRECT as u32 != 0;
            FileWait { path, on, direct, ..FileWait::default() }
        }
        (Key::Path(path), _) => FileWait { path: Some(path.clone()), ..FileWait::default() },
        (Key::Kernel(kernel), _) => FileWait { kernel: kernel.clone(), ..FileWait::default() },
        _ => FileWait::default(),
    }
}

/// Reads the path that a call of the process was given.
pub fn path_in(pid: Pid, address: u64) -> Option<String> {
    const PAGE: u64 = 4096;
    let mut buffer = [0; PATH_BYTES];
    // The page behind it need not be there.
    let in_page = (PAGE - address % PAGE).min(PATH_BYTES as u64) as usize;
    let whole = read_remote(pid, address, &mut buffer).unwrap_or(0);
    let got = match whole {
        0 => read_remote(pid, address, &mut buffer[..in_page]).ok()?,
        got => got,
    };
    let end = buffer[..got].iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(&buffer[..end]).into_owned()).filter(|path| !path.is_empty())
}

/// Returns the driver of a device: of the hardware behind it, or else by its number.
fn driver((major, minor, block): (u32, u32, bool)) -> Option<String> {
    let kind = if block { "block" } else { "char" };
    let device = format!("/sys/dev/{kind}/{major}:{minor}");
    let last = |link: &str| {
        let target = std::fs::read_link(Path::new(&device).join(link)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    let listed = || driver_of(&HostFile::Devices.read(), major, block);
    last("device/driver").or_else(listed).or_else(|| last("subsystem"))
}

/// Searches the text of `/proc/devices` for the driver of a major number; `None` where several
/// share it, as `/dev/tty` and `/dev/ptmx` do.
fn driver_of(text: &str, major: u32, block: bool) -> Option<String> {
    let (chars, blocks) = text.split_once("Block devices:").unwrap_or((text, ""));
    let lines = if block { blocks } else { chars }.lines();
    let entry = |line: &str| {
        let (number, name) = line.trim().split_once(' ')?;
        (number.parse() == Ok(major)).then(|| name.trim().to_owned())
    };
    let mut found = lines.filter_map(entry);
    found.next().filter(|_| found.next().is_none())
}

/// Returns the file system of a descriptor and what it is on: `ext4 on vda1`.
fn mount_of(pid: Pid, fd: i32) -> Option<String> {
    mount_in(&Mounts::of(pid), FdInfo::of(pid, fd)?.mount?)
}

fn mount_in(mounts: &Mounts, id: u64) -> Option<String> {
    let mount = mounts.iter().find(|mount| mount.id == id)?;
    let Mount { kind, source, .. } = mount;
    // Without a device, the source only repeats the type.
    Some(match source.strip_prefix("/dev/") {
        Some(device) => format!("{kind} on {device}"),
        None if source.contains('/') || source.contains(':') => format!("{kind} on {source}"),
        None => kind.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    const MOUNTS: &str = "\
        22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
        23 22 0:21 / /proc rw - proc proc rw\n\
        24 22 0:50 / /nfs rw,noatime shared:7 master:2 - nfs4 server:/export rw,vers=4.2\n\
        25 22 0:51 / /odd\\040name rw - overlay overlay rw,lowerdir=/a\n\
        26 22 0:52 / /cut rw -\n";

    #[test]
    fn a_file_system_is_named_with_what_it_lies_on() {
        assert_eq!(mount_in(&MOUNTS.into(), 22).as_deref(), Some("ext4 on vda1"));
        assert_eq!(mount_in(&MOUNTS.into(), 24).as_deref(), Some("nfs4 on server:/export"));
        assert_eq!(mount_in(&MOUNTS.into(), 25).as_deref(), Some("overlay"));
        assert_eq!(mount_in(&MOUNTS.into(), 26), None);
        assert_eq!(mount_in(&MOUNTS.into(), 2), None);
        assert_eq!(mount_in(&"".into(), 22), None);
    }

    #[test]
    fn the_longest_file_that_is_only_read_is_what_a_process_reads() {
        let directory = tempfile::tempdir().expect("a directory");
        let [short, long, library] =
            ["short", "long", "lib.so.6"].map(|name| directory.path().join(name));
        std::fs::write(&short, [7; 10]).expect("written");
        std::fs::write(&long, [7; 90_000]).expect("written");
        std::fs::write(&library, [7; 20]).expect("written");
        let mut child = std::process::Command::new("bash")
            .args([
                "-c",
                "exec 3<\"$1\" 4>>\"$2\" 6<\"$3\"; echo; read x; exec 5<\"$2\"; echo; read x",
                "bash",
            ])
            .args([&short, &long, &library])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("bash");
        let (pid, mut line) = (child.id() as Pid, String::new());
        let mut input = child.stdin.take().expect("piped");
        let mut output = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        assert_eq!(longest_read(pid), Some((10, short)), "one is written, one is loaded");
        std::io::Write::write_all(&mut input, b"\n").expect("written");
        std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        assert_eq!(longest_read(pid), Some((90_000, long)));
        drop(input);
        child.wait().expect("waited");
        assert_eq!(longest_read(pid), None);
    }

    #[test]
    fn a_file_is_shared_by_those_that_all_read_it() {
        let of = |paths: &[&str]| {
            let all: Vec<_> = paths.iter().map(|path| Some((1, PathBuf::from(path)))).collect();
            shared(all.iter().chain([&None]))
        };
        assert_eq!(of(&["/a", "/a", "/a"]).as_deref(), Some("/a"));
        assert_eq!(of(&["/a", "/a"]), None, "no loop");
        assert_eq!(of(&["/a", "/b", "/c", "/a", "/a"]), None, "a file each");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_driver_is_found_by_its_number() {
        let text = "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/ptmx\n195 nvidia-frontend\n\n\
            Block devices:\n  7 loop\n195 other\n";
        assert_eq!(driver_of(text, 195, false).as_deref(), Some("nvidia-frontend"));
        assert_eq!(driver_of(text, 195, true).as_deref(), Some("other"));
        assert_eq!(driver_of(text, 7, false), None);
        assert_eq!(driver_of(text, 5, false), None, "one of the two, and which is not told");
        assert_eq!(driver_of("nonsense", 7, true), None);
    }

    #[test]
    fn waits_for_one_file_add_up_and_the_longest_is_first() {
        let me = std::process::id() as Pid;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let null = std::fs::File::open("/dev/null").expect("opened");
        let mut files = Files::default();
        let mut note = |state, awaited, ns| files.note(me, state, awaited, ns);
        let of = |fd| Awaited::File { fd, access: FileAccess::Write };
        note(TaskState::Disk, of(file.as_file().as_raw_fd()), 5);
        note(TaskState::Device, of(null.as_raw_fd()), 8);
        note(TaskState::Disk, of(file.as_file().as_raw_fd()), 6);
        note(TaskState::Disk, Awaited::Path(c"/data/x".as_ptr() as u64), 2);
        note(TaskState::Sleep, of(file.as_file().as_raw_fd()), 90);
        note(TaskState::File, of(9_999), 90);
        let waits = files.longest();
        let seen: Vec<_> =
            waits.iter().map(|wait| (wait.path.as_deref(), wait.waited_ns)).collect();
        let path = file.path().to_str();
        assert_eq!(seen, [(path, 11), (Some("/dev/null"), 8), (Some("/data/x"), 2)]);
        assert!(waits[0].on.is_some());
        assert_eq!(waits[1].on.as_deref(), Some("mem"));
        assert_eq!(path_in(me, 8), None);
    }
}
