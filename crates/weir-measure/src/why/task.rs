//! What one thread waits for.

use super::{connect, ends, locks, open};
use crate::attribution::by_letter;
use crate::attribution::calls::Call;
use crate::attribution::classify::{Awaited, is_for_hang_ups, set_of};
use crate::attribution::files::{Files, function, path_in};
use crate::attribution::peers::find;
use crate::bytes::long;
use crate::proc::{
    Blocked, Descriptor, FileKind, behind_pidfd, borrow, descriptor, is_anonymous_pipe, link, uid,
};
use rustix::io::ioctl_fionread;
use std::os::unix::fs::FileTypeExt;
use weir_doctor::facts::{FileWait, FileWaitKind, PeerKind};
use weir_doctor::state::TaskState;
use weir_doctor::why::{Cause, PipeWait, decisive};
use weir_measure_sys::memory::read_remote;
use weir_sys::Pid;
use weir_sys::proc::Stat;

/// Most waits of a set that are looked at.
const MOST_WAITS: usize = 32;
/// What an eventfd tells: mostly it wakes a loop of the same process.
const EVENT: &str = "an event of another thread or process";

/// Returns what a thread of process `pid` waits for, and whether something else may end the wait.
pub fn wait(pid: Pid, task: Pid) -> (Cause, bool) {
    if let Some(Blocked::Call(number, args)) = Blocked::of(pid, task)
        && let call = Call::decode(number, &args)
        && matches!(call, Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_))
    {
        let (cause, has_way_out) = any_of(pid, call);
        return (cause, has_way_out || is_limited(number, &args));
    }
    (single(pid, task), false)
}

/// Whether a call that waits for a set waits for a limited time.
fn is_limited(number: i64, args: &[u64; 6]) -> bool {
    let ms = |at: usize| args[at] as u32 as i32 >= 0;
    match number {
        libc::SYS_ppoll => args[2] != 0,
        libc::SYS_pselect6 => args[4] != 0,
        libc::SYS_epoll_pwait2 => args[3] != 0,
        libc::SYS_epoll_pwait => ms(3),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => ms(2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => args[4] != 0,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => ms(3),
        _ => false,
    }
}

/// Returns what a thread waits for that does not wait for a set.
fn single(pid: Pid, task: Pid) -> Cause {
    let unknown = || Cause::Unknown { kernel: function(pid, task) };
    match Blocked::of(pid, task) {
        Some(Blocked::Hidden) => Cause::Hidden { uid: uid(pid) },
        // It goes on; how much it computes is counted elsewhere.
        Some(Blocked::Running) => Cause::Computes { cpus: 0.0 },
        Some(Blocked::Call(number, args)) => {
            in_call(pid, task, number, &args).map_or_else(unknown, |cause| settled(task, cause))
        }
        Some(Blocked::NotInCall) => fault(pid, task).unwrap_or_else(unknown),
        None => unknown(),
    }
}

/// Returns the wait of a thread outside of a call: a page fault, mostly.
fn fault(pid: Pid, task: Pid) -> Option<Cause> {
    if function(pid, task).is_some_and(|kernel| kernel == "handle_userfault") {
        let page =
            "a page of its memory that another thread or process has to provide (userfaultfd)";
        return Some(Cause::Events { of: vec![String::from(page)] });
    }
    // Whatever else stopped it names nothing.
    let disk = state(task, false) == Some(TaskState::Disk);
    disk.then(|| file(pid, TaskState::Disk, Awaited::Unknown { task }, None))?
}

/// Returns what a wait for storage is, by the state of the thread.
fn state(task: Pid, in_call: bool) -> Option<TaskState> {
    by_letter(Stat::of(task)?.state, TaskState::Disk, in_call)
}

/// Corrects a wait for storage that is none for a disk: another process has to give up a lease, or
/// to answer for its file system.
fn settled(task: Pid, mut cause: Cause) -> Cause {
    if let Cause::File { wait, .. } = &mut cause
        && wait.kind == FileWaitKind::Disk
        && state(task, true) != Some(TaskState::Disk)
    {
        wait.kind = FileWaitKind::File;
    }
    cause
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
        Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => Some(any_of(pid, call).0),
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
            let fifo = || fifo(pid, directory(number, args), path);
            fifo().or_else(|| file(pid, TaskState::Disk, Awaited::Path(path), None))
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
            if let Some(of) = behind_pidfd(pid, fd) {
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
        "eventfd" => EVENT,
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

/// Returns the wait for any of several descriptors that says most, and whether another of them may
/// end it too.
fn any_of(pid: Pid, call: Call) -> (Cause, bool) {
    let set = set_of(pid, call);
    let is_cut = set.len() > MOST_WAITS;
    let (mut waits, mut names, mut processes) = (Vec::new(), Vec::new(), Vec::new());
    for wait in set.into_iter().take(MOST_WAITS).filter_map(|(fd, writes)| on(pid, fd, writes)) {
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
    // A pipe to itself only wakes a loop, where that waits for something else too.
    let is_own =
        |wait: &Cause| matches!(wait, Cause::Pipe(pipe) if pipe.own && pipe.others.is_empty());
    let wait = decisive(waits.clone()).filter(|wait| names.is_empty() || !is_own(wait));
    let cause = match (wait, names.is_empty()) {
        (Some(wait), _) => wait,
        (None, false) => Cause::Events { of: names.clone() },
        (None, true) if is_for_hang_ups(pid, call) => {
            let of = "a hang-up or a special event of a file that it has open";
            Cause::Events { of: vec![String::from(of)] }
        }
        // A set without descriptors is how select(2) and poll(2) sleep.
        (None, true) => Cause::Sleep { asked_ns: None },
    };
    let is_out = waits.iter().any(|wait| wait.is_way_out(&cause));
    (cause, is_cut || is_out || names.iter().any(|name| name != EVENT))
}

/// Returns the wait for a file or a device, and whether it is for room to write.
fn file(pid: Pid, state: TaskState, awaited: Awaited, writes: Option<bool>) -> Option<Cause> {
    let mut files = Files::default();
    files.note(pid, state, awaited, 1);
    let wait = files.longest().into_iter().next()?;
    Some(Cause::File { wait: FileWait { waited_ns: 0, ..wait }, writes })
}

/// Returns the wait for the other end of a FIFO that is being opened, in this directory if its name
/// is relative.
fn fifo(pid: Pid, directory: Option<i32>, path: u64) -> Option<Cause> {
    let path = path_in(pid, path)?;
    let seen = match directory.filter(|_| !path.starts_with('/')) {
        Some(fd) => format!("/proc/{pid}/fd/{fd}/{path}").into(),
        None => connect::seen_by(pid, &path),
    };
    let is = std::fs::metadata(seen).ok()?.file_type().is_fifo();
    is.then_some(Cause::Open { path })
}

/// Returns the descriptor of the directory in which a call looks a name up; `None` for the current
/// one.
fn directory(number: i64, args: &[u64; 6]) -> Option<i32> {
    let at = [libc::SYS_openat, libc::SYS_openat2].contains(&number);
    let fd = args[0] as u32 as i32;
    (at && fd >= 0).then_some(fd)
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
