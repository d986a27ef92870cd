//! What one thread waits for.

use super::open::Host;
use super::{connect, ends, locks, open, signals, terminal};
use crate::attribution::by_letter;
use crate::attribution::calls::Call;
use crate::attribution::classify::{Awaited, is_for_hang_ups, set_of};
use crate::attribution::files::{Files, path_in};
use crate::attribution::peers::{Found, accepts, find_among, place};
use crate::bytes::long;
use crate::sys::memory::read_remote;
use rustix::io::ioctl_fionread;
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use weir_doctor::facts::{FileAccess, FileWait, FileWaitKind, PeerKind};
use weir_doctor::state::TaskState;
use weir_doctor::why::{Cause, PipeWait, decisive};
use weir_sys::Pid;
use weir_sys::proc::{
    Blocked, Descriptor, FileKind, ProcContents, ProcDir, Stat, behind_pidfd, borrow, children,
    descriptor, is_anonymous_pipe, kernel_function, link, path_of, seen_by, uid, words,
};

/// Most waits of a set that are looked at.
const MOST_WAITS: usize = 32;
/// Parts of the names of the kernel's functions in which the opening of a FIFO waits.
const FIFO_OPENS: [&str; 2] = ["wait_for_partner", "fifo_open"];
/// What an eventfd tells: mostly it wakes a loop of the same process.
const EVENT: &str = "an event of another thread or process";

/// Returns what a thread of process `pid` waits for that is blocked so, and whether something else may
/// end the wait.
pub fn wait(host: &Host, pid: Pid, task: Pid, blocked: Option<Blocked>) -> (Cause, bool) {
    let Some(Blocked::Call(number, args)) = blocked else {
        return (outside(pid, task, blocked), false);
    };
    let call = Call::decode(number, &args);
    let is_limited = is_limited(number, &args);
    let (cause, has_way_out) = match call {
        Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => {
            let (cause, has_way_out) = any_of(host, pid, call);
            (if is_limited { or_a_time(cause) } else { cause }, has_way_out)
        }
        _ => {
            let cause = single(host, pid, task, number, &args);
            let is_short = matches!(cause, Cause::Polls { .. });
            (cause, is_short)
        }
    };
    let may_go_on = has_way_out || is_limited || has_timeout(pid, call);
    (cause, may_go_on || signals::may_alarm(pid, task))
}

/// Adds the time limit to the wait of a loop that otherwise only its own process wakes: mostly that
/// is what it waits for.
fn or_a_time(cause: Cause) -> Cause {
    let is_own = match &cause {
        Cause::Events { of } => of == &[EVENT],
        other => other.is_own(),
    };
    match is_own {
        true => Cause::Events { of: vec![String::from("a time"), EVENT.to_owned()] },
        false => cause,
    }
}

/// Whether a call waits for a socket that gives up after a time (`SO_RCVTIMEO`, `SO_SNDTIMEO`).
fn has_timeout(pid: Pid, call: Call) -> bool {
    let (fd, which) = match call {
        Call::Read(fd) | Call::Network(fd) => (fd, Timeout::Recv),
        Call::Write(fd) | Call::Send(fd) | Call::Connect { fd, .. } => (fd, Timeout::Send),
        _ => return false,
    };
    // To close a borrowed file may ask its server, which may not answer.
    let file = descriptor(pid, fd).filter(Descriptor::is_socket);
    let socket = file.and_then(|_| borrow(pid, fd));
    socket.is_some_and(|socket| socket_timeout(socket, which).is_ok_and(|time| time.is_some()))
}

/// Whether a call that waits for a set, or for a word in memory, waits for a limited time.
fn is_limited(number: i64, args: &[u64; 6]) -> bool {
    let ms = |at: usize| args[at] as u32 as i32 >= 0;
    match number {
        libc::SYS_ppoll => args[2] != 0,
        libc::SYS_pselect6 => args[4] != 0,
        libc::SYS_epoll_pwait2 | libc::SYS_futex | libc::SYS_futex_waitv => args[3] != 0,
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

/// Returns what a thread waits for whose call does not wait for a set.
fn single(host: &Host, pid: Pid, task: Pid, number: i64, args: &[u64; 6]) -> Cause {
    let cause = in_call(host, pid, task, number, args).map(|cause| settled(task, cause));
    cause.unwrap_or_else(|| unknown(pid, task))
}

/// Returns what a thread waits for, or does, that waits in no call.
fn outside(pid: Pid, task: Pid, blocked: Option<Blocked>) -> Cause {
    match blocked {
        Some(Blocked::Hidden) => Cause::Hidden { uid: uid(pid) },
        // It continues; how much it computes is counted elsewhere.
        Some(Blocked::Running) => Cause::Computes { cpus: 0.0 },
        Some(Blocked::NotInCall) => fault(pid, task).unwrap_or_else(|| unknown(pid, task)),
        _ => unknown(pid, task),
    }
}

fn unknown(pid: Pid, task: Pid) -> Cause {
    Cause::Unknown { kernel: kernel_function(pid, task) }
}

/// Returns the wait of a thread outside of a call: a page fault, mostly.
fn fault(pid: Pid, task: Pid) -> Option<Cause> {
    if kernel_function(pid, task).is_some_and(|kernel| kernel == "handle_userfault") {
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

fn in_call(host: &Host, pid: Pid, task: Pid, number: i64, args: &[u64; 6]) -> Option<Cause> {
    let call = Call::decode(number, args);
    match call {
        Call::Read(fd) | Call::Network(fd) => on(host, pid, fd, false),
        Call::Write(fd) | Call::Send(fd) => on(host, pid, fd, true),
        Call::Move { from, to } => {
            let is = |fd, kind| descriptor(pid, fd).is_some_and(|file| file.kind == kind);
            // A file is not borrowed: to close it may ask its server, which may not answer.
            let is_empty = match is(from, FileKind::Storage) {
                true => is(to, FileKind::Storage),
                false => {
                    borrow(pid, from).is_none_or(|it| ioctl_fionread(it).is_ok_and(|n| n == 0))
                }
            };
            if is_empty { on(host, pid, from, false) } else { on(host, pid, to, true) }
        }
        Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => Some(any_of(host, pid, call).0),
        Call::FileLock => locks::on_file(host, pid, number, args),
        Call::Futex => Some(match locks::futex(pid, args) {
            own @ Cause::Threads { alone: true, timed: false } => {
                signals::beside(pid, task).unwrap_or(own)
            }
            other => other,
        }),
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
        Call::Sleep => {
            let asked_ns = asked(pid, number, args);
            let most_ns = asked_ns.or_else(|| left(pid, number, args));
            Some(locks::polled(host, pid, most_ns).unwrap_or(Cause::Sleep { asked_ns }))
        }
        Call::Signal { set, most } => Some(signals::any(pid, task, set, time_at(pid, most))),
        Call::Connect { fd, address, length } => {
            Some(connect::call(host, pid, fd, address, length))
        }
        Call::Flush(fd) => open_file(pid, TaskState::Disk, fd, FileAccess::Flush),
        Call::Storage(fd) => open_file(pid, TaskState::Disk, fd, FileAccess::Other),
        Call::Control(fd) => open_file(pid, TaskState::Device, fd, FileAccess::Other),
        Call::Lookup { path } => {
            let fifo = || {
                let path = fifo(pid, task, directory(number, args), path)?;
                let others = other_openers(host, pid, &path);
                Some(Cause::Open { path, others })
            };
            fifo().or_else(|| file(pid, TaskState::Disk, Awaited::Path(path), None))
        }
        Call::Completion => Some(Cause::Events { of: vec![String::from("its transfers")] }),
        Call::Other(_) => None,
    }
}

/// Returns the wait for one descriptor.
fn on(host: &Host, pid: Pid, fd: i32, writes: bool) -> Option<Cause> {
    let what = descriptor(pid, fd)?;
    match what.kind {
        FileKind::Pipe => Some(Cause::Pipe(pipe(host, pid, fd, &what, writes))),
        FileKind::Socket => {
            let owners_of = |inode| host.owners_of(inode);
            let Found { peer, mut owners, mut more, .. } = find_among(pid, fd, &owners_of);
            // Of a pair in another network namespace only who made it is known.
            let made = owners.is_empty() && peer.pid == Some(pid);
            more |= made;
            let own = made || owners == [pid];
            owners.retain(|owner| *owner != pid);
            if owners.is_empty() && !own && peer.kind == PeerKind::Local {
                owners = connect::untaken(host, pid, &what);
            }
            let is_known = peer.kind != PeerKind::Unknown;
            let pending = if is_known { None } else { connect::pending(host, pid, fd) };
            let peer = Box::new(peer);
            Some(pending.unwrap_or(Cause::Socket { peer, owners, own, more, writes }))
        }
        FileKind::Device | FileKind::PtyMaster => {
            terminal::other_side(host, pid, fd, &what, writes)
                .or_else(|| open_file(pid, TaskState::Device, fd, FileAccess::of(writes)))
        }
        FileKind::Storage => open_file(pid, TaskState::Disk, fd, FileAccess::of(writes)),
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

fn pipe(host: &Host, pid: Pid, fd: i32, what: &Descriptor, writes: bool) -> PipeWait {
    let (openings, unseen) = host.openings(what);
    let other_end = |one: &&open::Opening| if writes { one.reads } else { one.writes };
    let mut others: Vec<Pid> = openings.iter().filter(other_end).map(|one| one.pid).collect();
    others.dedup();
    let own = others.contains(&pid);
    others.retain(|other| *other != pid);
    let looker = open::openings_of(open::own(), what).unwrap_or_default();
    let path = link(pid, fd).filter(|_| !is_anonymous_pipe(what));
    let filled = borrow(pid, fd).and_then(|end| ioctl_fionread(end).ok());
    PipeWait {
        inode: what.inode,
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
fn any_of(host: &Host, pid: Pid, call: Call) -> (Cause, bool) {
    let set = without_clients(pid, set_of(pid, call));
    let is_cut = set.len() > MOST_WAITS;
    let (mut waits, mut names, mut processes) = (Vec::new(), Vec::new(), Vec::new());
    for wait in
        set.into_iter().take(MOST_WAITS).filter_map(|(fd, writes)| on(host, pid, fd, writes))
    {
        match wait {
            Cause::Events { of } => {
                let new = of.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>();
                names.extend(new);
            }
            Cause::Ends { of } => processes.extend(of),
            wait => waits.push(wait),
        }
    }
    set_aside(pid, &mut waits, &mut names);
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
    let wait = decisive(waits.clone()).filter(|wait| names.is_empty() || !wait.is_own());
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

/// Removes the connections of its clients from the set of a server that waits for more of them too.
fn without_clients(pid: Pid, mut set: Vec<(i32, bool)>) -> Vec<(i32, bool)> {
    let listen: Vec<i32> = set.iter().map(|it| it.0).filter(|fd| accepts(pid, *fd)).collect();
    let places: Vec<String> = listen.iter().filter_map(|fd| place(pid, *fd)).collect();
    let is_client = |fd: i32| {
        !listen.contains(&fd) && place(pid, fd).is_some_and(|place| places.contains(&place))
    };
    if !places.is_empty() {
        set.retain(|(fd, writes)| *writes || !is_client(*fd));
    }
    set
}

/// Removes pipes of processes that a process did not start, other than its input, from the waits of a set for
/// which it also waits for a signal, a timer or the like: mostly they tell of the end of those.
fn set_aside(pid: Pid, waits: &mut Vec<Cause>, names: &mut Vec<String>) {
    let (input, children) = (descriptor(pid, 0), children(pid));
    let aside = |wait: &Cause| match wait {
        Cause::Pipe(pipe) => {
            let is_input = input.as_ref().is_some_and(|it| it.is_pipe() && it.inode == pipe.inode);
            let is_of_child = pipe.others.iter().any(|other| children.contains(other));
            !pipe.writes && !pipe.own && !is_input && !is_of_child
        }
        _ => false,
    };
    if names.iter().any(|name| name != EVENT) {
        let before = waits.len();
        waits.retain(|wait| !aside(wait));
        names.extend((waits.len() < before).then(|| String::from("a pipe")));
    }
}

/// Returns the wait for a file or a device that is open.
fn open_file(pid: Pid, state: TaskState, fd: i32, access: FileAccess) -> Option<Cause> {
    let writes = match access {
        FileAccess::Read => Some(false),
        FileAccess::Write => Some(true),
        FileAccess::Flush | FileAccess::Other => None,
    };
    file(pid, state, Awaited::File { fd, access }, writes)
}

/// Returns the wait for a file or a device, and whether it is for room to write.
fn file(pid: Pid, state: TaskState, awaited: Awaited, writes: Option<bool>) -> Option<Cause> {
    let mut files = Files::default();
    files.note(pid, state, awaited, 1);
    let wait = files.longest().into_iter().next()?;
    Some(Cause::File { wait: FileWait { waited_ns: 0, ..wait }, writes })
}

/// Returns the FIFO that a thread is opening, whose name is relative to this directory.
fn fifo(pid: Pid, task: Pid, directory: Option<i32>, path: u64) -> Option<String> {
    // To look up what a server of files does not find would wait as long as the thread does.
    if kernel_function(pid, task)
        .is_some_and(|kernel| !FIFO_OPENS.iter().any(|it| kernel.contains(it)))
    {
        return None;
    }
    let path = path_in(pid, path)?;
    let seen = match directory.filter(|_| !path.starts_with('/')) {
        Some(fd) => Path::new(&path_of(pid, fd)?).join(&path),
        None => seen_by(pid, &path)?,
    };
    let is = std::fs::metadata(seen).ok()?.file_type().is_fifo();
    is.then_some(path)
}

/// Returns the other processes of the session that wait for the opening of another FIFO. Where words
/// of one name the FIFO for which it waits, they must name the other one too.
fn other_openers(host: &Host, pid: Pid, path: &str) -> Vec<Pid> {
    let session = |pid: Pid| Stat::of(pid).map(|stat| stat.session);
    let own = session(pid);
    let opens = |other: &Pid| {
        if *other == pid || session(*other) != own {
            return None;
        }
        let Blocked::Call(number, args) = Blocked::of(ProcDir::Thread(*other, *other))? else {
            return None;
        };
        let Call::Lookup { path } = Call::decode(number, &args) else { return None };
        fifo(*other, *other, directory(number, &args), path)
    };
    let may_open = |pid: Pid, own: &str, other: &str| {
        let words = words(pid, super::COMMAND_BYTES).join(" ");
        !words.contains(own) || words.contains(other)
    };
    let fits = |other: &Pid| {
        opens(other).is_some_and(|theirs| {
            theirs != path && may_open(pid, path, &theirs) && may_open(*other, &theirs, path)
        })
    };
    host.near_processes().into_iter().filter(fits).collect()
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

/// Returns how long a thread still sleeps that asked to sleep until a time, as Python does.
fn left(pid: Pid, number: i64, args: &[u64; 6]) -> Option<u64> {
    let clock = match args[0] as i32 {
        libc::CLOCK_REALTIME => ClockId::Realtime,
        libc::CLOCK_MONOTONIC => ClockId::Monotonic,
        libc::CLOCK_BOOTTIME => ClockId::Boottime,
        _ => return None,
    };
    (number == libc::SYS_clock_nanosleep && args[1] == libc::TIMER_ABSTIME as u64).then_some(())?;
    let now = clock_gettime(clock);
    let now_ns =
        (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64);
    Some(time_at(pid, args[2])?.saturating_sub(now_ns))
}

/// Reads a time (`struct timespec`) from the memory of a process.
fn time_at(pid: Pid, address: u64) -> Option<u64> {
    let mut bytes = [0; 16];
    (read_remote(pid, address, &mut bytes).ok()? == bytes.len()).then_some(())?;
    let (seconds, ns) = (long(&bytes, 0)?, long(&bytes, 8)?);
    (ns < 1_000_000_000).then(|| seconds.saturating_mul(1_000_000_000).saturating_add(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sync` waited "in the kernel", and not for the disk.
    #[test]
    fn a_call_that_names_no_file_waits_for_the_disk_all_the_same() {
        let me = std::process::id() as Pid;
        let disk = |number| {
            let cause = in_call(&Host::default(), me, me, number, &[0; 6]);
            matches!(cause, Some(Cause::File { wait, .. }) if wait.kind == FileWaitKind::Disk)
        };
        assert!(disk(libc::SYS_sync) && disk(libc::SYS_msync));
    }
}
