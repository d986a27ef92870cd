//! Classifying the state of one task from its files in `/proc`.
//!
//! A blocked task's system call names the descriptor for which it waits; what that refers to is
//! compared with the input and output of the task's stage. For calls that wait for several
//! descriptors (`poll`, `select`, `epoll_wait`), the sets are read from the process's memory or
//! from `fdinfo`. xz, for one, waits in `poll` on both of its sides.

use super::diag::unix_peer;
use super::peers::holds;
use super::signals::may_be_for_a_child;
use crate::attribution::calls::Call;
use crate::sys::memory::read_remote;
use rustix::fs::fstat;
use rustix::net::sockopt::{socket_domain, socket_peercred};
use rustix::net::{AddressFamily, UCred};
use weir_doctor::facts::FileAccess;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, FdInfo, FileKind, behind_pidfd, borrow, children, descriptor, is_anonymous_pipe,
};

/// A stage's input and output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Its standard input.
    pub input: Option<Descriptor>,
    /// Its standard output.
    pub output: Option<Descriptor>,
}

/// The present state of the pipes at a stage's two sides; decides where a call waits for both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints {
    /// Nothing can be read from the input.
    pub input_empty: bool,
    /// Nothing can be written to the output.
    pub output_full: bool,
}

/// Most entries of a `poll` set that are read.
const POLL_ENTRIES: usize = 64;
/// Sets of epoll may be in others, this deep (kernel: `EP_MAX_NESTS`).
const NESTED_SETS: usize = 4;

/// Returns the state of a task of process `pid` that is blocked in `call`.
pub fn classify(pid: Pid, call: Call, ends: &Endpoints, hints: Hints) -> TaskState {
    match call {
        Call::Read(fd) => waits_for(pid, fd, false, ends),
        Call::Write(fd) => waits_for(pid, fd, true, ends),
        Call::Move { .. } | Call::Poll { .. } | Call::Select { .. } | Call::Epoll(_) => {
            strongest(pid, &set_of(pid, call), ends, hints)
        }
        Call::FileLock | Call::Futex | Call::Futexes { .. } => TaskState::Lock,
        Call::Semaphore | Call::Queue { .. } => TaskState::Lock,
        Call::Child | Call::Vfork => TaskState::Child,
        Call::Signal { set, most: 0 } if may_be_for_a_child(pid, set) => TaskState::Child,
        Call::Sleep | Call::Signal { .. } => TaskState::Sleep,
        Call::Network(_) | Call::Send(_) | Call::Connect { .. } => TaskState::Network,
        Call::Flush(_) | Call::Storage(_) | Call::Lookup { .. } | Call::Completion => {
            TaskState::Disk
        }
        // It waits for neither side.
        Call::Control(fd) => match waits_for(pid, fd, false, &Endpoints::default()) {
            state @ (TaskState::Device | TaskState::Disk) => state,
            _ => TaskState::Unknown,
        },
        Call::Other(_) => TaskState::Unknown,
    }
}

/// What a blocked task waits for, beyond its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A socket.
    Socket {
        /// Its descriptor.
        fd: i32,
        /// Whether it waits for room to write.
        writes: bool,
        /// Whether it waits for no other socket.
        alone: bool,
    },
    /// A file or a device.
    File {
        /// Its descriptor.
        fd: i32,
        /// What is done with it.
        access: FileAccess,
    },
    /// A file whose name is looked up; the path is at this address in its memory.
    Path(u64),
    /// Something that the call does not name.
    Unknown {
        /// The id of the task.
        task: Pid,
    },
}

/// Returns what a task of process `pid` waits for in `call`, in which it is in this state. A socket
/// whose other end is in the same process does not count.
pub fn awaited(
    pid: Pid,
    task: Pid,
    call: Call,
    state: TaskState,
    ends: &Endpoints,
) -> Option<Awaited> {
    match state {
        TaskState::Network => socket(pid, call),
        TaskState::Disk | TaskState::File | TaskState::Device => Some(match call {
            Call::Flush(fd) => Awaited::File { fd, access: FileAccess::Flush },
            Call::Storage(fd) | Call::Control(fd) if fd >= 0 => {
                Awaited::File { fd, access: FileAccess::Other }
            }
            Call::Lookup { path } => Awaited::Path(path),
            call => {
                let of = |(fd, writes): &(i32, bool)| {
                    // Whether a wait for storage is one shows only later.
                    let found = waits_for(pid, *fd, *writes, ends);
                    found == state || found == TaskState::Disk && state == TaskState::File
                };
                let found = set_of(pid, call).into_iter().find(of);
                found.map_or(Awaited::Unknown { task }, |(fd, writes)| Awaited::File {
                    fd,
                    access: FileAccess::of(writes),
                })
            }
        }),
        _ => None,
    }
}

fn socket(pid: Pid, call: Call) -> Option<Awaited> {
    let is_socket = |fd: i32| descriptor(pid, fd).is_some_and(|file| file.is_socket());
    let set = set_of(pid, call).into_iter();
    let mut sockets = set.filter(|(fd, _)| is_socket(*fd) && !is_own_socket(pid, *fd));
    let (fd, mut writes) = sockets.next()?;
    let mut alone = true;
    for (other, also_writes) in sockets {
        alone &= other == fd;
        writes |= other == fd && also_writes;
    }
    Some(Awaited::Socket { fd, writes, alone })
}

/// Returns the waits of a call: descriptors, each with whether the wait is for room to write. A
/// descriptor for which it waits in both directions is there twice.
pub fn set_of(pid: Pid, call: Call) -> Vec<(i32, bool)> {
    match call {
        Call::Network(fd) | Call::Connect { fd, .. } | Call::Read(fd) => vec![(fd, false)],
        Call::Send(fd) | Call::Write(fd) => vec![(fd, true)],
        Call::Move { from, to } => vec![(from, false), (to, true)],
        Call::Select { count, read, write } => flat(pid, select_sets(pid, count, read, write)),
        Call::Poll { .. } | Call::Epoll(_) => {
            flat(pid, asked(pid, call).into_iter().flat_map(ways).collect())
        }
        _ => Vec::new(),
    }
}

/// Whether a call waits for descriptors, but for no data and no room: for hang-ups, that is.
pub fn is_for_hang_ups(pid: Pid, call: Call) -> bool {
    let all = asked(pid, call);
    !all.is_empty() && all.into_iter().flat_map(ways).next().is_none()
}

/// Returns the descriptors of a `poll` or an `epoll_wait`, with the events that are asked for.
fn asked(pid: Pid, call: Call) -> Vec<(i32, u32)> {
    match call {
        Call::Poll { address, count } => poll_set(pid, address, count),
        Call::Epoll(fd) => FdInfo::of(pid, fd).unwrap_or_default().epoll,
        _ => Vec::new(),
    }
}

/// Returns the waits for these events of a descriptor.
fn ways((fd, events): (i32, u32)) -> impl Iterator<Item = (i32, bool)> {
    let data = libc::POLLIN | libc::POLLRDNORM;
    let ways = [(data, false), (libc::POLLOUT | libc::POLLWRNORM, true)];
    let asked = ways.into_iter().filter(move |(event, _)| events & *event as u32 != 0);
    asked.map(move |(_, writes)| (fd, writes))
}

/// Puts what sets of epoll wait for in their place, where they are in another set.
fn flat(pid: Pid, mut set: Vec<(i32, bool)>) -> Vec<(i32, bool)> {
    let is_other = |fd| descriptor(pid, fd).is_some_and(|file| file.kind == FileKind::Anonymous);
    for _ in 0..NESTED_SETS {
        let before = set.len();
        let (others, mut next): (Vec<_>, Vec<_>) = set.into_iter().partition(|it| is_other(it.0));
        let mut opened = false;
        for (fd, writes) in others {
            let inner = FdInfo::of(pid, fd).unwrap_or_default().epoll;
            opened |= !inner.is_empty();
            match inner.is_empty() {
                true => next.push((fd, writes)),
                false => next.extend(inner.into_iter().flat_map(ways)),
            }
        }
        set = next;
        if !opened || set.len() > before + POLL_ENTRIES {
            break;
        }
    }
    set
}

/// Returns the state of a task that waits for data from one descriptor, or for room in it.
fn waits_for(pid: Pid, fd: i32, writes: bool, ends: &Endpoints) -> TaskState {
    let Some(file) = descriptor(pid, fd) else { return TaskState::Unknown };
    match file.kind {
        FileKind::Storage => TaskState::Disk,
        _ if !writes && ends.input == Some(file) => TaskState::BlockedIn,
        _ if writes && ends.output == Some(file) => TaskState::BlockedOut,
        // An anonymous pipe that is neither input nor output joins processes of the stage.
        FileKind::Pipe if is_anonymous_pipe(&file) => TaskState::Child,
        FileKind::Pipe => TaskState::File,
        // So does a pseudo-terminal, for the process that made it and started somebody on it.
        FileKind::PtyMaster if !children(pid).is_empty() => TaskState::Child,
        FileKind::Socket => TaskState::Network,
        FileKind::Device | FileKind::PtyMaster => TaskState::Device,
        FileKind::Anonymous if behind_pidfd(pid, fd).is_some() => TaskState::Child,
        // eventfd, timerfd, inotify: some later event.
        FileKind::Anonymous => TaskState::Sleep,
    }
}

/// Returns the state of a task that waits for any of several descriptors.
fn strongest(pid: Pid, set: &[(i32, bool)], ends: &Endpoints, hints: Hints) -> TaskState {
    let state = |(fd, writes): &(i32, bool)| {
        let state = waits_for(pid, *fd, *writes, ends);
        let wakes_itself = state == TaskState::Network && is_own_socket(pid, *fd);
        if wakes_itself { TaskState::Sleep } else { state }
    };
    let states: Vec<TaskState> = set.iter().map(state).collect();
    let has = |state| states.contains(&state);
    let typed = |file: Descriptor| file.kind == FileKind::Device;
    if has(TaskState::Network) && !has(TaskState::BlockedOut) && ends.input.is_some_and(typed) {
        // A program that would also read from the terminal, like ssh, waits for its socket.
        return TaskState::Network;
    }
    if has(TaskState::BlockedIn) && has(TaskState::BlockedOut) {
        // It waits for both sides: with data to pass on, the output blocks it.
        let input = hints.input_empty || !hints.output_full;
        return if input { TaskState::BlockedIn } else { TaskState::BlockedOut };
    }
    // Among several descriptors the stage's own sides matter most; run-time systems add sockets and
    // timers of their own. A set without descriptors is how select(2) and poll(2) sleep.
    let side = [TaskState::BlockedIn, TaskState::BlockedOut].into_iter().find(|side| has(*side));
    let most = states.iter().copied().max().unwrap_or(TaskState::Sleep);
    // A timer, or what wakes its own loop, says less than the process for whose end it waits. (A
    // pipe may be such a wake-up line too.)
    let is_end = |(fd, _): &(i32, bool)| behind_pidfd(pid, *fd).is_some();
    let is_for_end = most == TaskState::Sleep && has(TaskState::Child) && set.iter().any(is_end);
    side.unwrap_or(if is_for_end { TaskState::Child } else { most })
}

/// Whether a socket's other end is in the same process: for waking its own threads or event loop,
/// as asyncio does. Events of the kernel come from nobody either.
fn is_own_socket(pid: Pid, fd: i32) -> bool {
    let Some(socket) = borrow(pid, fd) else { return false };
    match socket_domain(&socket) {
        Ok(AddressFamily::UNIX) => {
            let made = |peer: UCred| peer.pid.as_raw_nonzero().get() == pid;
            // It may have made the pair for a child, which alone has the other end now.
            let peer = || unix_peer(fstat(&socket).ok()?.st_ino);
            socket_peercred(&socket).is_ok_and(made) && peer().is_none_or(|peer| holds(pid, peer))
        }
        Ok(domain) => domain == AddressFamily::NETLINK,
        Err(_) => false,
    }
}

/// Reads the descriptors and events in a `struct pollfd` array.
fn poll_set(pid: Pid, address: u64, count: u64) -> Vec<(i32, u32)> {
    let mut bytes = [0; POLL_ENTRIES * 8];
    let wanted = (count as usize).min(POLL_ENTRIES) * 8;
    let Ok(got) = read_remote(pid, address, &mut bytes[..wanted]) else { return Vec::new() };
    let entry = |b: &[u8]| {
        let fd = i32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        (fd, u32::from(u16::from_ne_bytes([b[4], b[5]])))
    };
    // A negative descriptor is an entry that poll(2) ignores.
    bytes[..got].chunks_exact(8).map(entry).filter(|(fd, _)| *fd >= 0).collect()
}

/// Reads the descriptors of the two sets of `select`.
fn select_sets(pid: Pid, count: u64, read: u64, write: u64) -> Vec<(i32, bool)> {
    let mut set = Vec::new();
    for (address, writes) in [(read, false), (write, true)] {
        let mut bits = [0; 128];
        let wanted = (count as usize).div_ceil(8).min(bits.len());
        if address == 0 {
            continue;
        }
        let Ok(got) = read_remote(pid, address, &mut bits[..wanted]) else { continue };
        let fds = (0..got * 8).filter(|fd| bits[fd / 8] & (1 << (fd % 8)) != 0);
        set.extend(fds.map(|fd| (fd as i32, writes)));
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    fn me() -> Pid {
        std::process::id() as Pid
    }

    #[test]
    fn a_read_of_the_input_is_blocked_in_and_of_another_pipe_is_the_stage_s_own() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let (other, _other_writer) = rustix::pipe::pipe().expect("a pipe");
        let ends = Endpoints { input: Descriptor::of(&reader), output: None };
        let read = |fd: i32| classify(me(), Call::Read(fd), &ends, Hints::default());
        assert_eq!(read(reader.as_raw_fd()), TaskState::BlockedIn);
        assert_eq!(read(other.as_raw_fd()), TaskState::Child);
        assert_eq!(read(9_999), TaskState::Unknown);
    }

    /// `script` seemed to wait for `/dev/ptmx`, whatever the program on its terminal did.
    #[test]
    fn the_master_of_a_terminal_waits_for_whoever_is_on_it() {
        let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
        let master = rustix::pty::openpt(flags).expect("a terminal");
        let call = Call::Read(master.as_raw_fd());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let state = classify(me(), call, &Endpoints::default(), Hints::default());
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert_eq!(state, TaskState::Child);
    }

    #[test]
    fn poll_is_decoded_from_memory() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (inner, _keep) = rustix::pipe::pipe().expect("a pipe");
        let output = Endpoints { input: None, output: Descriptor::of(&writer) };
        let entry = |fd: i32, events: u16| {
            let mut bytes = [0_u8; 8];
            bytes[..4].copy_from_slice(&fd.to_ne_bytes());
            bytes[4..6].copy_from_slice(&events.to_ne_bytes());
            bytes
        };
        let set = [entry(inner.as_raw_fd(), 1), entry(writer.as_raw_fd(), 4), entry(-1, 1)];
        let call = Call::Poll { address: set.as_ptr() as u64, count: 3 };
        assert_eq!(classify(me(), call, &output, Hints::default()), TaskState::BlockedOut);
        let asleep = Call::Poll { address: 0, count: 0 };
        assert_eq!(classify(me(), asleep, &output, Hints::default()), TaskState::Sleep);
        drop(reader);
    }

    #[test]
    fn a_relay_that_waits_for_both_sides_is_judged_by_the_pipes() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let (_r, writer) = rustix::pipe::pipe().expect("a pipe");
        let ends = Endpoints { input: Descriptor::of(&reader), output: Descriptor::of(&writer) };
        let call = Call::Move { from: reader.as_raw_fd(), to: writer.as_raw_fd() };
        let full = Hints { input_empty: false, output_full: true };
        assert_eq!(classify(me(), call, &ends, full), TaskState::BlockedOut);
        let empty = Hints { input_empty: true, output_full: false };
        assert_eq!(classify(me(), call, &ends, empty), TaskState::BlockedIn);
    }

    #[test]
    fn a_wake_up_line_of_its_own_is_no_network() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let bits = |fds: &[i32]| {
            let mut bits = [0_u8; 128];
            fds.iter().for_each(|fd| bits[*fd as usize / 8] |= 1 << (fd % 8));
            bits
        };
        let ends = Endpoints { input: Descriptor::of(&reader), output: None };
        let waits = |fds: &[i32]| {
            let set = bits(fds);
            let call = Call::Select { count: 1024, read: set.as_ptr() as u64, write: 0 };
            classify(me(), call, &ends, Hints::default())
        };
        assert_eq!(waits(&[near.as_raw_fd(), reader.as_raw_fd()]), TaskState::BlockedIn);
        assert_eq!(waits(&[near.as_raw_fd()]), TaskState::Sleep);
    }

    /// The loop of a program that is in the loop of another one seemed to sleep.
    #[test]
    fn a_set_within_a_set_waits_for_what_is_in_it() {
        use rustix::event::epoll;
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let set = || epoll::create(epoll::CreateFlags::CLOEXEC).expect("a set");
        let add = |set: &_, fd: &std::os::fd::OwnedFd| {
            let data = epoll::EventData::new_u64(0);
            epoll::add(set, fd, data, epoll::EventFlags::IN).expect("added");
        };
        let (inner, outer) = (set(), set());
        add(&inner, &reader);
        add(&outer, &inner);
        let ends = Endpoints { input: Descriptor::of(&reader), output: None };
        let call = Call::Epoll(outer.as_raw_fd());
        assert_eq!(set_of(me(), call), [(reader.as_raw_fd(), false)]);
        assert_eq!(classify(me(), call, &ends, Hints::default()), TaskState::BlockedIn);
        let empty = Call::Epoll(set().as_raw_fd());
        assert_eq!(classify(me(), empty, &ends, Hints::default()), TaskState::Sleep);
    }

    /// An event loop that waits for a child seemed to sleep.
    #[test]
    fn the_end_of_a_child_in_a_set_is_no_sleep() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        let end = weir_sys::proc::pidfd(child.id() as Pid).expect("it lives");
        let (near, _far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let entry = |fd: i32| [fd.to_ne_bytes(), [1, 0, 0, 0]].concat();
        let set = [entry(end.as_raw_fd()), entry(near.as_raw_fd())].concat();
        let call = Call::Poll { address: set.as_ptr() as u64, count: 2 };
        let state = classify(me(), call, &Endpoints::default(), Hints::default());
        child.kill().and_then(|()| child.wait()).expect("it ends");
        assert_eq!(state, TaskState::Child);
    }

    #[test]
    fn who_asks_for_no_data_and_no_room_waits_for_a_hang_up() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let is = |events: u8| {
            let set = [reader.as_raw_fd().to_ne_bytes(), [events, 0, 0, 0]].concat();
            is_for_hang_ups(me(), Call::Poll { address: set.as_ptr() as u64, count: 1 })
        };
        assert!(is(0) && is(libc::POLLPRI as u8));
        assert!(!is(libc::POLLIN as u8) && !is(libc::POLLRDNORM as u8));
        assert!(!is_for_hang_ups(me(), Call::Poll { address: 0, count: 0 }));
    }

    #[test]
    fn select_is_decoded_from_memory() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let fd = reader.as_raw_fd();
        let mut bits = [0_u8; 128];
        bits[fd as usize / 8] |= 1 << (fd % 8);
        let count = fd as u64 + 1;
        let call = Call::Select { count, read: bits.as_ptr() as u64, write: 0 };
        let ends = Endpoints { input: Descriptor::of(&reader), output: None };
        assert_eq!(classify(me(), call, &ends, Hints::default()), TaskState::BlockedIn);
    }
}
