//! Locks: on files, and in memory.

use super::ends::{id_at, level};
use super::open;
use crate::bytes::{half, long, word};
use crate::sys::memory::read_remote;
use weir_doctor::why::{Cause, Lacks};
use weir_sys::Pid;
use weir_sys::proc::{
    Blocked, FileKind, Mapping, Mappings, ProcContents, Stat, descriptor, descriptors, identity,
    link, locks, tasks,
};

/// The bit of a futex that only one process uses.
const FUTEX_PRIVATE: u64 = 128;
/// A mutex that is locked and for which somebody waits (glibc: `lowlevellock.h`).
const LOCKED: i32 = 2;
/// The bits of a word that are its owner's id (`FUTEX_TID_MASK`).
const FUTEX_OWNER: i32 = 0x3fff_ffff;
/// Most words of a set that are looked at.
const MOST_WORDS: usize = 128;

/// A lock on a file for which a process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    kind: Kind,
    /// Whether it excludes locks that share.
    exclusive: bool,
    /// Its first and last byte.
    range: (u64, u64),
}

/// Kinds of locks on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `flock`.
    Flock,
    /// `fcntl`, of the process.
    Record,
    /// `fcntl`, of the open file.
    OpenRecord,
}

/// Returns the wait for a lock on a file, and who holds one that excludes it.
pub fn on_file(host: &open::Host, pid: Pid, number: i64, args: &[u64; 6]) -> Option<Cause> {
    let fd = args[0] as u32 as i32;
    let what = descriptor(pid, fd)?;
    let wanted = Wanted::decode(pid, number, args);
    let (openings, _) = host.openings(&what);
    let excludes = |one: &open::Opening| {
        let own = (one.pid == pid).then_some(one.fd == fd);
        locks(one.pid, one.fd).iter().any(|lock| wanted.is_excluded(lock, own) == Some(true))
    };
    let mut holders: Vec<Pid> = openings.into_iter().filter(excludes).map(|one| one.pid).collect();
    holders.dedup();
    let own = holders.contains(&pid);
    holders.retain(|holder| *holder != pid);
    let path = link(pid, fd).map(|path| path.to_string_lossy().into_owned());
    Some(Cause::Lock { path, holders, own })
}

/// Returns the lock that others hold on a file which a process has open that sleeps for a short time: SQLite, for
/// one, tries again until its time is up (`busy_timeout`).
pub fn polled(host: &open::Host, pid: Pid, asked_ns: Option<u64>) -> Option<Cause> {
    const LONGEST_NS: u64 = 1_000_000_000;
    const MOST_FILES: usize = 64;
    asked_ns.filter(|ns| *ns <= LONGEST_NS)?;
    let is_exclusive = |lock: &String| lock.split_ascii_whitespace().nth(3) == Some("WRITE");
    let of = |fd: i32| {
        let what = descriptor(pid, fd).filter(|file| file.kind == FileKind::Storage)?;
        // One that it has locked itself, or inherited with the lock, is not what it lacks.
        locks(pid, fd).is_empty().then_some(())?;
        let holds =
            |one: &open::Opening| one.pid != pid && locks(one.pid, one.fd).iter().any(is_exclusive);
        let (openings, _) = host.openings(&what);
        let mut holders: Vec<Pid> =
            openings.iter().filter(|it| holds(it)).map(|it| it.pid).collect();
        holders.dedup();
        let path = link(pid, fd).map(|path| path.to_string_lossy().into_owned());
        (!holders.is_empty()).then_some(Cause::Polls { path, holders })
    };
    descriptors(pid)?.take(MOST_FILES).find_map(of)
}

impl Wanted {
    fn decode(pid: Pid, number: i64, args: &[u64; 6]) -> Wanted {
        let all = (0, u64::MAX);
        if number == libc::SYS_flock {
            let exclusive = args[1] as i32 & libc::LOCK_SH == 0;
            return Wanted { kind: Kind::Flock, exclusive, range: all };
        }
        let kind = match args[1] as i32 {
            libc::F_OFD_SETLKW => Kind::OpenRecord,
            _ => Kind::Record,
        };
        // struct flock, as 64-bit kernels have it.
        let mut lock = [0; 24];
        if read_remote(pid, args[2], &mut lock).ok() != Some(lock.len()) {
            return Wanted { kind, exclusive: true, range: all };
        }
        let exclusive = half(&lock, 0) != Some(libc::F_RDLCK as u16);
        let whole = || {
            let (start, length) = (long(&lock, 8)?.cast_signed(), long(&lock, 16)?.cast_signed());
            (half(&lock, 2)? == libc::SEEK_SET as u16).then_some(())?;
            let first = if length < 0 { start.checked_add(length)? } else { start };
            let last = match length {
                0 => u64::MAX,
                _ => {
                    u64::try_from(first.checked_add(length.checked_abs()?)?.checked_sub(1)?).ok()?
                }
            };
            Some((u64::try_from(first).ok()?, last))
        };
        Wanted { kind, exclusive, range: whole().unwrap_or(all) }
    }

    /// Whether a line of `/proc/locks` is a lock that excludes this one; `None` for any other. `own`
    /// tells of a descriptor of the process that waits whether it is the one of its call.
    fn is_excluded(&self, lock: &str, own: Option<bool>) -> Option<bool> {
        // 1: FLOCK  ADVISORY  WRITE 4711 fe:01:17 0 EOF
        let fields: Vec<&str> = lock.split_ascii_whitespace().collect();
        let [_, class, _, mode, _, _, start, end] = fields.as_slice() else { return None };
        let alike = match self.kind {
            Kind::Flock => *class == "FLOCK",
            Kind::Record => *class == "OFDLCK" || *class == "POSIX" && own.is_none(),
            Kind::OpenRecord => *class == "POSIX" || *class == "OFDLCK" && own != Some(true),
        };
        let end = if *end == "EOF" { u64::MAX } else { end.parse().ok()? };
        let overlaps = start.parse::<u64>().ok()? <= self.range.1 && self.range.0 <= end;
        Some(alike && overlaps && (self.exclusive || *mode == "WRITE"))
    }
}

/// Whether only one of these threads has not ended.
fn is_alone(tasks: &[Pid]) -> bool {
    let lives = |task: &&Pid| Stat::of(**task).is_some_and(|stat| !stat.has_ended());
    tasks.len() == 1 || tasks.iter().filter(lives).take(2).count() == 1
}

/// Returns the wait for a word in memory: the owner of a mutex is beside it (glibc:
/// `pthread_mutex_t`).
pub fn futex(pid: Pid, args: &[u64; 6]) -> Cause {
    let tasks = tasks(pid);
    let alone = is_alone(&tasks);
    let threads = Cause::Threads { alone, timed: args[3] != 0 };
    let is_private = args[1] & FUTEX_PRIVATE != 0;
    let mut bytes = [0; 12];
    let known = read_remote(pid, args[0], &mut bytes).is_ok_and(|got| got == bytes.len());
    let word = |at: usize| word(&bytes, at).filter(|_| known).map_or(0, u32::cast_signed);
    // The words hold ids as the process knows them.
    let is_own = |id: Pid| match level(pid).filter(|_| id > 0) {
        Some(level) if level > 0 => {
            tasks.iter().any(|task| id_at(*task, "NSpid", level) == Some(id))
        }
        _ => tasks.contains(&id),
    };
    let owner = owner(args, word);
    let held = |holders: Vec<Pid>, own: bool| Cause::Lock { path: None, holders, own };
    match owner {
        owner if alone && is_own(owner) => held(Vec::new(), true),
        // The end of a thread: the word is its id until then.
        owner if is_private || is_own(owner) || is_own(word(0)) => threads,
        owner => {
            let is_known = owner > 1 && level(pid).is_none_or(|level| level == 0);
            // The word may be of something else, such as a barrier, and no id at all.
            let holder = identity(owner).filter(|_| is_known).map(|holder| holder.pid);
            let holder = holder.filter(|holder| shares(pid, args[0], *holder));
            held(holder.into_iter().collect(), false)
        }
    }
}

/// Returns who holds a mutex, from the words at its address.
fn owner(args: &[u64; 6], word: impl Fn(usize) -> i32) -> i32 {
    match word(0) {
        // Locked, and somebody waits: the owner is behind word and count.
        LOCKED if args[2] == LOCKED as u64 => word(8),
        // Robust, or with priority inheritance: the word is the owner.
        word if word < 0 => word & FUTEX_OWNER,
        _ => 0,
    }
}

/// Tells what a thread lacks that is blocked so, of these of its process, where that is known; `None`
/// where it waits for something else than memory of the process alone, or for a limited time.
pub fn stuck(pid: Pid, blocked: Blocked, tasks: &[Pid]) -> Option<Option<Lacks>> {
    let Blocked::Call(libc::SYS_futex, args) = blocked else { return None };
    let mut bytes = [0; 12];
    let known = read_remote(pid, args[0], &mut bytes).is_ok_and(|got| got == bytes.len());
    let word = |at: usize| word(&bytes, at).filter(|_| known).map_or(0, u32::cast_signed);
    // The words hold ids as the process knows them.
    let is_level = level(pid).is_none_or(|level| level == 0);
    let is_thread = |id: &Pid| is_level && tasks.contains(id);
    let is_private = args[1] & FUTEX_PRIVATE != 0;
    let lacks = match Some(owner(&args, word)).filter(is_thread) {
        // The end of a thread: the word, which the kernel clears, is its id until then.
        None if !is_private => Some(Lacks::End(Some(word(0)).filter(is_thread)?)),
        holder => holder.map(Lacks::Lock),
    };
    (args[3] == 0 && (is_private || lacks.is_some())).then_some(lacks)
}

/// Whether another process has the memory too that is at this address of a process.
fn shares(pid: Pid, address: u64, other: Pid) -> bool {
    let holds = |part: &Mapping| part.is_shared && (part.start..part.end).contains(&address);
    let (own, others) = (Mappings::of(pid), Mappings::of(other));
    let file = |part: Mapping| (part.device, part.inode);
    let shared = own.iter().find(holds).map(file);
    let mut others = others.iter().filter(|part| part.is_shared).map(file);
    shared.is_some_and(|shared| others.any(|other| other == shared))
}

/// Returns the wait for any of several words.
pub fn futexes(pid: Pid, address: u64, count: u64, timed: bool) -> Cause {
    // struct futex_waitv: a value, an address, flags, nothing.
    const ENTRY: usize = 24;
    let mut bytes = [0; MOST_WORDS * ENTRY];
    let wanted = (count as usize).min(MOST_WORDS) * ENTRY;
    let got = read_remote(pid, address, &mut bytes[..wanted]).unwrap_or(0);
    let is_private = |entry: &[u8]| word(entry, 16).map_or(0, u64::from) & FUTEX_PRIVATE != 0;
    if bytes[..got].chunks_exact(ENTRY).all(is_private) {
        return Cause::Threads { alone: is_alone(&tasks(pid)), timed };
    }
    Cause::Lock { path: None, holders: Vec::new(), own: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_those_of_its_kind_and_its_bytes() {
        let line = |class: &str, mode: &str, bytes: &str| {
            format!("1: {class}  ADVISORY  {mode} 4711 fe:01:17 {bytes}")
        };
        let flock = Wanted { kind: Kind::Flock, exclusive: true, range: (0, u64::MAX) };
        let shared = Wanted { exclusive: false, ..flock };
        let record = Wanted { kind: Kind::Record, exclusive: true, range: (10, 19) };
        let open = Wanted { kind: Kind::OpenRecord, ..record };
        let (write, read) = (line("FLOCK", "WRITE", "0 EOF"), line("FLOCK", "READ", "0 EOF"));
        assert_eq!(flock.is_excluded(&read, None), Some(true));
        assert_eq!(shared.is_excluded(&read, None), Some(false));
        assert_eq!(shared.is_excluded(&write, Some(false)), Some(true));
        assert_eq!(record.is_excluded(&write, None), Some(false));
        for (bytes, is) in [("0 9", false), ("0 10", true), ("19 EOF", true), ("20 EOF", false)] {
            assert_eq!(record.is_excluded(&line("POSIX", "WRITE", bytes), None), Some(is));
        }
        let posix = line("POSIX", "WRITE", "0 EOF");
        assert_eq!(record.is_excluded(&posix, Some(false)), Some(false), "its own");
        assert_eq!(open.is_excluded(&posix, Some(true)), Some(true));
        let ofd = line("OFDLCK", "WRITE", "0 EOF");
        assert_eq!(open.is_excluded(&ofd, Some(true)), Some(false), "the same open file");
        assert_eq!(open.is_excluded(&ofd, Some(false)), Some(true));
        for other in ["pos:\t0", "lock:", "lock:\t1: -> FLOCK  ADVISORY  WRITE 4711 fe:01:17 0 EOF"]
        {
            assert_eq!(flock.is_excluded(other, None), None);
        }
    }

    #[test]
    fn the_bytes_of_a_lock_are_read_from_memory() {
        let me = std::process::id() as Pid;
        let range = |whence: i32, start: i64, length: i64| {
            let mut lock = [0_u8; 24];
            lock[..2].copy_from_slice(&(libc::F_WRLCK as u16).to_ne_bytes());
            lock[2..4].copy_from_slice(&(whence as u16).to_ne_bytes());
            lock[8..16].copy_from_slice(&start.to_ne_bytes());
            lock[16..].copy_from_slice(&length.to_ne_bytes());
            let args = [3, libc::F_SETLKW as u64, lock.as_ptr() as u64, 0, 0, 0];
            Wanted::decode(me, libc::SYS_fcntl, &args).range
        };
        assert_eq!(range(libc::SEEK_SET, 10, 5), (10, 14));
        assert_eq!(range(libc::SEEK_SET, 10, -5), (5, 9));
        assert_eq!(range(libc::SEEK_SET, 10, 0), (10, u64::MAX));
        let all = (0, u64::MAX);
        assert_eq!(range(libc::SEEK_END, 10, 5), all);
        assert_eq!(range(libc::SEEK_SET, i64::MAX, i64::MAX), all);
        assert_eq!(range(libc::SEEK_SET, 0, i64::MIN), all);
    }
}
