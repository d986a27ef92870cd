//! What one thread waits for.

use super::open;
use crate::attribution::calls::Call;
use crate::attribution::classify::{Awaited, set_of};
use crate::attribution::files::{Files, function, path_in};
use crate::attribution::peers::find;
use crate::proc::{
    Blocked, Descriptor, FileKind, borrow, children, descriptor, identity, is_anonymous_pipe, link,
    uid,
};
use rustix::io::{Errno, ioctl_fionread};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use weir_doctor::facts::FileWait;
use weir_doctor::state::TaskState;
use weir_doctor::why::{Cause, PipeWait, decisive};
use weir_measure_sys::memory::read_remote;
use weir_sys::Pid;
use weir_sys::proc::{read_small, tasks};

const POLLIN: u32 = 0x1;
const POLLOUT: u32 = 0x4;
/// The bit of a futex that only one process uses.
const FUTEX_PRIVATE: u64 = 128;
/// A mutex that is locked and for which somebody waits (glibc: `lowlevellock.h`).
const LOCKED: i32 = 2;
/// The bits of a word that are its owner's id (`FUTEX_TID_MASK`).
const FUTEX_OWNER: i32 = 0x3fff_ffff;
/// Most entries of a set that are looked at.
const MOST_ENTRIES: usize = 16;

/// Returns what a thread of process `pid` waits for.
pub fn wait(pid: Pid, task: Pid) -> Cause {
    let mut buffer = [0; 256];
    let blocked = match read_small(&format!("/proc/{pid}/task/{task}/syscall"), &mut buffer) {
        Ok(text) => Blocked::parse(text),
        Err(Errno::PERM | Errno::ACCESS) => return Cause::Hidden { uid: uid(pid) },
        Err(_) => None,
    };
    let unknown = || Cause::Unknown { kernel: function(pid, task) };
    match blocked {
        // It goes on; how much it computes is counted elsewhere.
        Some(Blocked::Running) => Cause::Computes { cpus: 0.0 },
        Some(Blocked::Call(number, args)) => {
            let call = Call::decode(number, &args);
            in_call(pid, call, &args).unwrap_or_else(unknown)
        }
        // A page fault, mostly.
        Some(Blocked::NotInCall) => {
            file(pid, TaskState::Disk, Awaited::Unknown { task }).unwrap_or_else(unknown)
        }
        None => unknown(),
    }
}

fn in_call(pid: Pid, call: Call, args: &[u64; 6]) -> Option<Cause> {
    match call {
        Call::Read(fd) | Call::Network(fd) => on(pid, fd, false),
        Call::Write(fd) | Call::Send(fd) => on(pid, fd, true),
        Call::Move { from, to } => {
            let empty =
                borrow(pid, from).is_none_or(|end| ioctl_fionread(end).is_ok_and(|n| n == 0));
            if empty { on(pid, from, false) } else { on(pid, to, true) }
        }
        Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => Some(any_of(pid, call)),
        Call::FileLock => file_lock(pid, args[0] as u32 as i32),
        Call::Futex => Some(futex(pid, args)),
        Call::Child => Some(child(pid)),
        Call::Sleep => Some(Cause::Sleep { asked_ns: asked(pid, args) }),
        Call::Storage(fd) => file(pid, TaskState::Disk, Awaited::File(fd)),
        Call::Control(fd) => file(pid, TaskState::Device, Awaited::File(fd)),
        Call::Lookup { path } => {
            fifo(pid, path).or_else(|| file(pid, TaskState::Disk, Awaited::Path(path)))
        }
        Call::Completion => Some(Cause::Events { of: vec![String::from("its transfers")] }),
        Call::Other(_) => None,
    }
}

/// Returns the wait for one descriptor.
fn on(pid: Pid, fd: i32, writes: bool) -> Option<Cause> {
    let what = descriptor(pid, fd)?;
    match what.kind {
        FileKind::Pipe => Some(Cause::Pipe(pipe(pid, fd, &what, writes))),
        FileKind::Socket => Some(Cause::Socket { peer: Box::new(find(pid, fd).peer), writes }),
        FileKind::Device | FileKind::PtyMaster => file(pid, TaskState::Device, Awaited::File(fd)),
        FileKind::Storage => file(pid, TaskState::Disk, Awaited::File(fd)),
        FileKind::Anonymous => {
            let name = link(pid, fd)?;
            Some(Cause::Events { of: vec![event(&name.to_string_lossy()).to_owned()] })
        }
    }
}

/// Names what an anonymous file tells of.
fn event(link: &str) -> &str {
    let kind = link.trim_start_matches("anon_inode:").trim_matches(['[', ']']);
    match kind {
        "eventfd" => "an event of another thread or process",
        "timerfd" => "a timer",
        "inotify" | "fanotify" => "a change of a file that it watches",
        "signalfd" => "a signal",
        "pidfd" => "the end of a process",
        other => other,
    }
}

fn pipe(pid: Pid, fd: i32, what: &Descriptor, writes: bool) -> PipeWait {
    let (openings, unseen) = open::openings(what);
    let other_end = |one: &&open::Opening| if writes { one.reads } else { one.writes };
    let mut others: Vec<Pid> = openings.iter().filter(other_end).map(|one| one.pid).collect();
    others.dedup();
    let own = others.contains(&pid);
    others.retain(|other| *other != pid);
    let looker = open::openings_of(open::own(), what).unwrap_or_default();
    let path = link(pid, fd).filter(|_| !is_anonymous_pipe(what));
    let filled = borrow(pid, fd).and_then(|end| ioctl_fionread(end).ok());
    PipeWait {
        writes,
        path: path.map(|path| path.to_string_lossy().into_owned()),
        filled_bytes: filled,
        others,
        own,
        looker: looker.iter().any(|one| other_end(&one)),
        unseen,
    }
}

/// Returns the wait for any of several descriptors.
fn any_of(pid: Pid, call: Call) -> Cause {
    let mut waits = Vec::new();
    for (fd, events) in set_of(pid, call).into_iter().take(MOST_ENTRIES) {
        let ways = [(POLLIN, false), (POLLOUT, true)];
        let asked = ways.into_iter().filter(|(event, _)| events & event != 0);
        waits.extend(asked.filter_map(|(_, writes)| on(pid, fd, writes)));
    }
    let mut names: Vec<String> = Vec::new();
    for wait in &waits {
        if let Cause::Events { of } = wait {
            names.extend(
                of.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
            );
        }
    }
    waits.retain(|wait| !matches!(wait, Cause::Events { .. }));
    match (decisive(waits), names.is_empty()) {
        (Some(wait), _) => wait,
        (None, false) => Cause::Events { of: names },
        // A set without descriptors is how select(2) and poll(2) sleep.
        (None, true) => Cause::Sleep { asked_ns: None },
    }
}

/// Returns the wait for a file or a device.
fn file(pid: Pid, state: TaskState, awaited: Awaited) -> Option<Cause> {
    let mut files = Files::default();
    files.note(pid, state, awaited, 1);
    let wait = files.longest().into_iter().next()?;
    Some(Cause::File(FileWait { waited_ns: 0, ..wait }))
}

/// Returns the wait for the other end of a FIFO that is being opened.
fn fifo(pid: Pid, path: u64) -> Option<Cause> {
    let path = path_in(pid, path)?;
    let root = format!("/proc/{pid}/{}", if path.starts_with('/') { "root" } else { "cwd" });
    let seen = Path::new(&root).join(path.trim_start_matches('/'));
    let is = std::fs::metadata(seen).ok()?.file_type().is_fifo();
    is.then_some(Cause::Open { path })
}

/// Returns the wait for a child. A shell that has this process as a child waits for the command
/// that it runs, which is this one: the others are in its background.
fn child(pid: Pid) -> Cause {
    let mut children = children(pid);
    let looker = children.contains(&open::own());
    if looker {
        children.clear();
    }
    Cause::Child { children, looker }
}

fn file_lock(pid: Pid, fd: i32) -> Option<Cause> {
    let what = descriptor(pid, fd)?;
    let mut holders = open::lock_holders(&what);
    holders.retain(|holder| *holder != pid);
    let path = link(pid, fd);
    Some(Cause::Lock { path: path.map(|path| path.to_string_lossy().into_owned()), holders })
}

/// Returns the wait for a word in memory: the owner of a mutex that processes share stands beside
/// it (glibc: `pthread_mutex_t`).
fn futex(pid: Pid, args: &[u64; 6]) -> Cause {
    if args[1] & FUTEX_PRIVATE != 0 {
        return Cause::Threads;
    }
    let mut bytes = [0; 12];
    let got = read_remote(pid, args[0], &mut bytes).unwrap_or(0);
    let word =
        |at: usize| i32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if got < bytes.len() {
        return Cause::Threads;
    }
    // The end of a thread: the word is its id until then.
    let own = tasks(pid);
    if own.contains(&word(0)) {
        return Cause::Threads;
    }
    let owner = match word(0) {
        // Locked, and somebody waits: the owner stands behind word and count.
        LOCKED if args[2] == LOCKED as u64 => word(8),
        // Robust, or with priority inheritance: the word is the owner.
        word if word < 0 => word & FUTEX_OWNER,
        _ => 0,
    };
    let holder = identity(owner).filter(|_| owner > 1 && !own.contains(&owner));
    Cause::Lock { path: None, holders: holder.into_iter().map(|holder| holder.pid).collect() }
}

/// Returns how long a thread wanted to sleep, as its call asked.
fn asked(pid: Pid, args: &[u64; 6]) -> Option<u64> {
    // nanosleep(REQUEST, ..), clock_nanosleep(CLOCK, FLAGS, REQUEST, ..): flags of 0 are relative.
    let address = if args[0] > 1 << 16 { args[0] } else { args[2] };
    if address == args[2] && args[1] != 0 {
        return None;
    }
    let mut bytes = [0; 16];
    (read_remote(pid, address, &mut bytes).ok()? == bytes.len()).then_some(())?;
    let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let (seconds, ns) = (long(0), long(8));
    (ns < 1_000_000_000).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_of_who_looks_waits_for_no_other_child() {
        let parent = std::os::unix::process::parent_id() as Pid;
        assert_eq!(child(parent), Cause::Child { children: Vec::new(), looker: true });
    }
}
