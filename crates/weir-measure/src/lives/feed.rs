//! The kernel's process events (the process connector), and its account of each task that ended
//! (taskstats). Both come over netlink sockets.
//!
//! The connector is for everybody since Linux 6.6, and else for root; taskstats is for root. Both
//! tell only processes of the first pid namespace.

use crate::bytes::{half, long, word};
use crate::netlink::{ACK, HEADER_BYTES, KIND, REQUEST, attribute, open, receive, send};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::netlink;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{Protocol, SocketType};
use weir_doctor::facts::Io;
use weir_sys::Pid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessEvent {
    /// What happened.
    pub kind: EventKind,
    pub task: Pid,
    pub pid: Pid,
    /// When, by the monotonic clock.
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was started, by this process.
    Fork(Pid),
    /// It became another program.
    Exec,
    /// It ended, with this status as waitpid(2) has it.
    Exit(i32),
}

/// The kernel's account of a task that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAccount {
    pub task: Pid,
    /// Name of its program, as the kernel cuts it (15 bytes).
    pub program: String,
    /// Its CPU time, without that since the scheduler last looked: at most a clock tick.
    pub cpu_ns: u64,
    /// How long it was ready and had no CPU.
    pub queue_ns: u64,
    /// Its bytes.
    pub io: Io,
}

/// The sockets.
#[derive(Debug)]
pub struct Feed {
    events: OwnedFd,
    accounts: Option<OwnedFd>,
    /// Whether the kernel dropped some, because they were not read in time.
    pub lost: bool,
}

const PROC_GROUP: u32 = 1;
const CONNECTOR_HEADER: usize = HEADER_BYTES + 20;
const GENERIC_HEADER: usize = HEADER_BYTES + 4;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const GENERIC_CONTROL: u16 = 16;
/// What waits in a socket while this process has no CPU: some ten thousand events.
const BUFFER_BYTES: usize = 16 << 20;
/// Most accounts taken at once: fewer than the events, which must be there first.
const MOST: usize = 4096;

impl Feed {
    /// Begins to listen; `None` where the kernel does not allow it.
    pub fn open() -> Option<Feed> {
        let events = open_wide(SocketType::DGRAM, netlink::CONNECTOR, PROC_GROUP)?;
        let mut text = Vec::new();
        [PROC_GROUP, 1, 0, 0].iter().for_each(|word| text.extend(word.to_ne_bytes()));
        text.extend(4_u16.to_ne_bytes());
        text.extend(0_u16.to_ne_bytes());
        const LISTEN: u32 = 1;
        text.extend(LISTEN.to_ne_bytes());
        send(&events, DONE, 0, &text)?;
        // Events of others may be there before the answer.
        let answered = (0..MOST).find_map(|_| match receive(&events) {
            Ok(Some(text)) => acknowledged(&text),
            Ok(None) => None,
            Err(_) => Some(false),
        });
        answered?.then(|| Feed { events, accounts: accounts(), lost: false })
    }

    /// What to wait for.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(&self.events), self.accounts.as_ref()].into_iter().flatten().map(AsFd::as_fd)
    }

    /// Takes what has come. Each account is of a task whose start is among these events or earlier
    /// ones.
    pub fn take(&mut self) -> (Vec<ProcessEvent>, Vec<TaskAccount>) {
        let mut accounts = Vec::new();
        if let Some(socket) = &self.accounts {
            self.lost |= drain(socket, MOST, |text| accounts.extend(account(text)));
        }
        let mut events = Vec::new();
        self.lost |= drain(&self.events, MOST * 64, |text| events.extend(event(text)));
        (events, accounts)
    }
}

/// Reads what has come; returns whether some was lost.
fn drain(socket: &OwnedFd, most: usize, mut take: impl FnMut(&[u8])) -> bool {
    let mut lost = false;
    for _ in 0..most {
        match receive(socket) {
            Ok(Some(text)) => take(&text),
            // Not from the kernel.
            Ok(None) => {}
            Err(Errno::NOBUFS) => lost = true,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    lost
}

/// Opens a socket with room for much.
fn open_wide(kind: SocketType, protocol: Protocol, groups: u32) -> Option<OwnedFd> {
    let socket = open(kind, protocol, groups)?;
    // Smaller where it is not allowed: then more may be lost, which is told.
    if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        let _ = set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
    }
    Some(socket)
}

/// Whether the kernel accepted that this socket listens; `None` for another message.
fn acknowledged(text: &[u8]) -> Option<bool> {
    let is_answer = word(text, CONNECTOR_HEADER)? == 0;
    is_answer.then(|| word(text, CONNECTOR_HEADER + 16) == Some(0))
}

/// Reads an event; `None` for other kinds, and for what is not an event.
fn event(text: &[u8]) -> Option<ProcessEvent> {
    const FORK: u32 = 1;
    const EXEC: u32 = 2;
    const EXIT: u32 = 0x8000_0000;
    if word(text, HEADER_BYTES)? != PROC_GROUP {
        return None;
    }
    let id = |at: usize| Pid::try_from(word(text, CONNECTOR_HEADER + at)?).ok();
    let at_ns = long(text, CONNECTOR_HEADER + 8)?;
    let (kind, task) = match word(text, CONNECTOR_HEADER)? {
        FORK => (EventKind::Fork(id(20)?), 24),
        EXEC => (EventKind::Exec, 16),
        EXIT => (EventKind::Exit(id(24)?), 16),
        _ => return None,
    };
    Some(ProcessEvent { kind, task: id(task)?, pid: id(task + 4)?, at_ns })
}

/// Asks for the accounts of tasks that end on any CPU.
fn accounts() -> Option<OwnedFd> {
    let socket = open_wide(SocketType::RAW, netlink::GENERIC, 0)?;
    const GET_FAMILY: u8 = 3;
    const FAMILY_NAME: u16 = 2;
    const FAMILY_ID: u16 = 1;
    send(&socket, GENERIC_CONTROL, REQUEST, &generic(GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0"))?;
    let answer = receive(&socket).ok()??;
    let is_answer = half(&answer, KIND)? == GENERIC_CONTROL;
    let family = attribute(answer.get(GENERIC_HEADER..)?, FAMILY_ID)?;
    let family = half(family, 0).filter(|_| is_answer)?;
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    let cpus = format!("{}\0", cpus.trim());
    const GET: u8 = 1;
    const REGISTER_CPUS: u16 = 3;
    send(&socket, family, REQUEST | ACK, &generic(GET, REGISTER_CPUS, cpus.as_bytes()))?;
    // The answer comes first: nothing is sent before.
    for _ in 0..MOST {
        let answer = receive(&socket).ok()??;
        if half(&answer, KIND)? == ERROR {
            return (word(&answer, HEADER_BYTES)? == 0).then_some(socket);
        }
    }
    None
}

/// Makes a generic netlink message with one attribute.
fn generic(command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let mut text = vec![command, 1, 0, 0];
    text.extend((4 + value.len() as u16).to_ne_bytes());
    text.extend(kind.to_ne_bytes());
    text.extend(value);
    text.resize(text.len().next_multiple_of(4), 0);
    text
}

/// Reads the account of a task.
fn account(text: &[u8]) -> Option<TaskAccount> {
    const OF_TASK: u16 = 4;
    const STATS: u16 = 3;
    let stats = attribute(attribute(text.get(GENERIC_HEADER..)?, OF_TASK)?, STATS)?;
    let name = stats.get(80..112)?;
    let name = &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())];
    // The order of these fields has been the same since version 3; new ones come behind them.
    // The kernel rounds these down to 1024 bytes, and the counts of calls to 1024 calls
    // (`xacct_add_tsk`): those tell nothing.
    let io = Io { read_bytes: long(stats, 216)?, write_bytes: long(stats, 224)?, ..Io::default() };
    Some(TaskAccount {
        task: Pid::try_from(word(stats, 128)?).ok()?,
        program: String::from_utf8_lossy(name).into_owned(),
        cpu_ns: long(stats, 72)?,
        queue_ns: long(stats, 24)?,
        io,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn events_are_read_and_others_are_not() {
        let head = |what: u32| words(&[76, 3, 0, 0, 1, 1, 7, 0, 40, what, 0, 5, 0]);
        let text = [head(1), words(&[20, 20, 31, 30, 0, 0])].concat();
        let fork = ProcessEvent { kind: EventKind::Fork(20), task: 31, pid: 30, at_ns: 5 };
        assert_eq!(event(&text), Some(fork));
        let text = [head(0x8000_0000), words(&[31, 30, 0x100, 17, 0, 0])].concat();
        let exit = event(&text).map(|event| (event.kind, event.task, event.pid));
        assert_eq!(exit, Some((EventKind::Exit(0x100), 31, 30)));
        assert_eq!(event(&[head(0x40), words(&[31, 30])].concat()), None);
        assert_eq!(acknowledged(&[head(0), words(&[0])].concat()), Some(true));
        assert_eq!(acknowledged(&[head(0), words(&[13])].concat()), Some(false));
    }

    #[test]
    fn whatever_comes_is_refused_and_not_believed() {
        let mut seed = 7_u64;
        let mut text = Vec::new();
        for _ in 0..600 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push((seed >> 33) as u8 & 7);
            let _ = (event(&text), account(&text), acknowledged(&text));
        }
        assert_eq!((event(&[0; 600]), account(&[0; 600])), (None, None));
    }

    #[test]
    fn what_the_kernel_drops_is_told() {
        let Some(mut feed) = Feed::open() else {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        };
        // The kernel makes it a few kilobytes: some events.
        set_socket_recv_buffer_size(&feed.events, 1).expect("set");
        for _ in 0..40 {
            std::process::Command::new("true").status().expect("true");
        }
        let (events, _) = feed.take();
        assert!(feed.lost, "{} events of 120", events.len());
    }
}
