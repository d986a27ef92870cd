//! What one thread waits for.

use super::{connect, ends, locks, open};
use crate::attribution::calls::Call;
use crate::attribution::classify::{Awaited, set_of};
use crate::attribution::files::{Files, function, path_in};
use crate::attribution::peers::find;
use crate::bytes::long;
use crate::proc::{
    Blocked, Descriptor, FileKind, borrow, descriptor, is_anonymous_pipe, link, uid,
};
use rustix::io::ioctl_fionread;
use std::os::unix::fs::FileTypeExt;
use weir_doctor::facts::{FileWait, PeerKind};
use weir_doctor::state::TaskState;
use weir_doctor::why::{Cause, PipeWait, decisive};
use weir_measure_sys::memory::read_remote;
use weir_sys::Pid;

/// Most waits of a set that are looked at.
const MOST_WAITS: usize = 32;

/// Returns what a thread of process `pid` waits for.
pub fn wait(pid: Pid, task: Pid) -> Cause {
    let unknown = || Cause::Unknown { kernel: function(pid, task) };
    match Blocked::of(pid, task) {
        Some(Blocked::Hidden) => Cause::Hidden { uid: uid(pid) },
        // It goes on; how much it computes is counted elsewhere.
        Some(Blocked::Running) => Cause::Computes { cpus: 0.0 },
        Some(Blocked::Call(number, args)) => {
            in_call(pid, task, number, &args).unwrap_or_else(unknown)
        }
        // A page fault, mostly.
        Some(Blocked::NotInCall) => {
            file(pid, TaskState::Disk, Awaited::Unknown { task }, None).unwrap_or_else(unknown)
        }
        None => unknown(),
    }
}

fn in_call(pid: Pid, task: Pid, number: i64, args: &[u64; 6]) -> Option<Cause> {
    let call = Call::decode(number, args);
    match call {
        Call::Read(fd) | Call::Network(fd) => on(pid, fd, false),
        Call::Write(fd) | Call::Send(fd) => on(pid, fd, true),
        Call::Move { from, to } => {
            let empty =
                borrow(pid, from).is_none_or(|end| ioctl_fionread(end).is_ok_and(|n| n == 0));
            if empty { on(pid, from, false) } else { on(pid, to, true) }
        }
        Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => Some(any_of(pid, call)),
        Call::FileLock => locks::on_file(pid, number, args),
        Call::Futex => Some(locks::futex(pid, args)),
        Call::Futexes { address, count } => Some(locks::futexes(pid, address, count, args[3] != 0)),
        Call::Semaphore => Some(Cause::Semaphore),
        Call::Queue { fd, writes } => {
            let path = fd.and_then(|fd| link(pid, fd));
            Some(Cause::Queue {
                path: path.map(|path| path.to_string_lossy().into_owned()),
                writes,
            })
        }
        Call::Child => Some(ends::child(pid, number, args)),
        Call::Vfork => ends::vfork(pid, task, number, args),
        Call::Sleep => Some(Cause::Sleep { asked_ns: asked(pid, number, args) }),
        Call::Signal { most } => Some(Cause::Signal { most_ns: time_at(pid, most) }),
        Call::Connect { fd, address, length } => Some(connect::call(pid, fd, address, length)),
        Call::Storage(fd) => file(pid, TaskState::Disk, Awaited::File(fd), None),
        Call::Control(fd) => file(pid, TaskState::Device, Awaited::File(fd), None),
        Call::Lookup { path } => {
            fifo(pid, path).or_else(|| file(pid, TaskState::Disk, Awaited::Path(path), None))
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
        FileKind::Socket => {
            let peer = Box::new(find(pid, fd).peer);
            let pending = || connect::pending(pid, fd).filter(|_| peer.kind == PeerKind::Unknown);
            Some(pending().unwrap_or(Cause::Socket { peer, writes }))
        }
        FileKind::Device | FileKind::PtyMaster => {
            file(pid, TaskState::Device, Awaited::File(fd), Some(writes))
        }
        FileKind::Storage => file(pid, TaskState::Disk, Awaited::File(fd), Some(writes)),
        FileKind::Anonymous => {
            if let Some(of) = ends::behind(pid, fd) {
                return Some(Cause::Ends { of: vec![of] });
            }
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
    let set = set_of(pid, call).into_iter().take(MOST_WAITS);
    let (mut waits, mut names, mut processes) = (Vec::new(), Vec::new(), Vec::new());
    for wait in set.filter_map(|(fd, writes)| on(pid, fd, writes)) {
        match wait {
            Cause::Events { of } => {
                let new = of.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>();
                names.extend(new);
            }
            Cause::Ends { of } => processes.extend(of),
            wait => waits.push(wait),
        }
    }
    let is_obscure = |wait: &Cause| match wait {
        Cause::Socket { peer, .. } => peer.kind == PeerKind::Unknown,
        _ => false,
    };
    if let Some(ends) = ends::any(pid, processes) {
        // Of a socket with no other end, such as one of the kernel's events, there is less to say.
        waits.retain(|wait| !is_obscure(wait));
        waits.push(ends);
    }
    match (decisive(waits), names.is_empty()) {
        (Some(wait), _) => wait,
        (None, false) => Cause::Events { of: names },
        // A set without descriptors is how select(2) and poll(2) sleep.
        (None, true) => Cause::Sleep { asked_ns: None },
    }
}

/// Returns the wait for a file or a device, and whether it is for room to write.
fn file(pid: Pid, state: TaskState, awaited: Awaited, writes: Option<bool>) -> Option<Cause> {
    let mut files = Files::default();
    files.note(pid, state, awaited, 1);
    let wait = files.longest().into_iter().next()?;
    Some(Cause::File { wait: FileWait { waited_ns: 0, ..wait }, writes })
}

/// Returns the wait for the other end of a FIFO that is being opened.
fn fifo(pid: Pid, path: u64) -> Option<Cause> {
    let path = path_in(pid, path)?;
    let is = std::fs::metadata(connect::seen_by(pid, &path)).ok()?.file_type().is_fifo();
    is.then_some(Cause::Open { path })
}

/// Returns how long a thread wanted to sleep, as its call asked.
fn asked(pid: Pid, number: i64, args: &[u64; 6]) -> Option<u64> {
    match number {
        libc::SYS_nanosleep => time_at(pid, args[0]),
        // clock_nanosleep(CLOCK, FLAGS, REQUEST, ..): flags of 0 are relative.
        _ if args[1] == 0 => time_at(pid, args[2]),
        _ => None,
    }
}

/// Reads a time (`struct timespec`) from the memory of a process.
fn time_at(pid: Pid, address: u64) -> Option<u64> {
    let mut bytes = [0; 16];
    (read_remote(pid, address, &mut bytes).ok()? == bytes.len()).then_some(())?;
    let (seconds, ns) = (long(&bytes, 0)?, long(&bytes, 8)?);
    (ns < 1_000_000_000).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}
