//! System call numbers, grouped by what the caller waits for.
//!
//! `/proc/PID/syscall` holds the number and the six arguments of the call in which a task is
//! blocked. [`Call::decode`] converts these to the descriptor or the kind of event waited for. It
//! knows the numbers of the architecture it was built for (a 32-bit program on a 64-bit kernel is
//! decoded wrongly, and its numbers do not show that).

use libc::c_long;

/// The highest number of a clock (`MAX_CLOCKS`, less 1).
const LAST_CLOCK: u64 = 15;

/// What a blocked task's system call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Data from a descriptor: `read`, `readv`, `pread`.
    Read(i32),
    /// Room in a descriptor: `write`, `writev`, `pwrite`.
    Write(i32),
    /// Data moved between two descriptors in the kernel: `splice`, `tee`, `sendfile`.
    Move {
        /// The descriptor that is read.
        from: i32,
        /// The descriptor that is written.
        to: i32,
    },
    /// `poll` or `ppoll`: `count` entries at `address`; no entries is a sleep.
    Poll {
        /// Where the `struct pollfd` array is in the caller's memory.
        address: u64,
        /// Number of entries.
        count: u64,
    },
    /// `select` or `pselect`: descriptors below `count`, bit sets at the two addresses (0: none).
    Select {
        /// One more than the highest descriptor in the sets.
        count: u64,
        /// Address of the set waited on for reading.
        read: u64,
        /// Address of the set waited on for writing.
        write: u64,
    },
    /// `epoll_wait` on the descriptor.
    Epoll(i32),
    /// A record or whole-file lock: `flock`, or `fcntl` that waits.
    FileLock,
    /// `futex`: another thread or process.
    Futex,
    /// `futex_waitv`: any of `count` words, which `address` lists.
    Futexes {
        /// Where the `struct futex_waitv` array is in the caller's memory.
        address: u64,
        /// Number of entries.
        count: u64,
    },
    /// A semaphore of System V: another process.
    Semaphore,
    /// A message queue: its descriptor, for one of POSIX, and whether the wait is for room.
    Queue {
        /// The descriptor; `None` for a queue of System V.
        fd: Option<i32>,
        /// Whether the caller sends.
        writes: bool,
    },
    /// `wait4` or `waitid`: a child.
    Child,
    /// `vfork`, and what starts programs as that does: the child's `exec` or end.
    Vfork,
    /// A timer: `nanosleep`.
    Sleep,
    /// A signal: `pause`, `sigsuspend`, `sigtimedwait`.
    Signal {
        /// Where the set of the signals is in the caller's memory (0: all that have a handler).
        set: u64,
        /// Where the longest time is in the caller's memory (0: none).
        most: u64,
    },
    /// A socket: `recv*`, `accept`.
    Network(i32),
    /// A connection of a socket: `connect`.
    Connect {
        /// The descriptor of the socket.
        fd: i32,
        /// Where the address is in the caller's memory.
        address: u64,
        /// Bytes of the address.
        length: u64,
    },
    /// Room in a socket: `send*`.
    Send(i32),
    /// Storage that has to keep what was written: `fsync`, `fdatasync`.
    Flush(i32),
    /// Storage that is changed: `ftruncate`.
    Storage(i32),
    /// Storage whose names are looked up: `open`, `stat`.
    Lookup {
        /// Where the path is in the caller's memory.
        path: u64,
    },
    /// `ioctl` on the descriptor.
    Control(i32),
    /// `io_uring_enter` or `io_getevents`: completions of some input or output.
    Completion,
    /// Any other call, by its number.
    Other(i64),
}

impl Call {
    /// Decodes a call from its number and arguments as `/proc/PID/syscall` prints them.
    pub fn decode(number: i64, args: &[u64; 6]) -> Call {
        let fd = |i: usize| args[i] as u32 as i32;
        let nr = number as c_long;
        match nr {
            libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 | libc::SYS_preadv => {
                Call::Read(fd(0))
            }
            libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev => {
                Call::Write(fd(0))
            }
            libc::SYS_preadv2 => Call::Read(fd(0)),
            libc::SYS_pwritev2 | libc::SYS_vmsplice => Call::Write(fd(0)),
            libc::SYS_splice | libc::SYS_copy_file_range => Call::Move { from: fd(0), to: fd(2) },
            libc::SYS_tee => Call::Move { from: fd(0), to: fd(1) },
            libc::SYS_sendfile => Call::Move { from: fd(1), to: fd(0) },
            libc::SYS_ppoll => Call::Poll { address: args[0], count: args[1] },
            libc::SYS_pselect6 => Call::Select { count: args[0], read: args[1], write: args[2] },
            libc::SYS_epoll_pwait => Call::Epoll(fd(0)),
            libc::SYS_epoll_pwait2 => Call::Epoll(fd(0)),
            libc::SYS_flock => Call::FileLock,
            libc::SYS_fcntl => fcntl(args[1]),
            libc::SYS_futex => Call::Futex,
            libc::SYS_wait4 | libc::SYS_waitid => Call::Child,
            _ => Self::decode_rest(nr, args),
        }
    }

    fn decode_rest(nr: c_long, args: &[u64; 6]) -> Call {
        match nr {
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Call::Sleep,
            // After a stop, `clock_nanosleep` continues under this number: its first argument is
            // the clock, those of the other calls that do so are addresses.
            libc::SYS_restart_syscall if args[0] <= LAST_CLOCK => Call::Sleep,
            libc::SYS_rt_sigtimedwait => Call::Signal { set: args[0], most: args[2] },
            libc::SYS_rt_sigsuspend => Call::Signal { set: 0, most: 0 },
            libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_accept
            | libc::SYS_accept4 => Call::Network(args[0] as u32 as i32),
            libc::SYS_connect => {
                Call::Connect { fd: args[0] as u32 as i32, address: args[1], length: args[2] }
            }
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg => {
                Call::Send(args[0] as u32 as i32)
            }
            libc::SYS_ioctl => Call::Control(args[0] as u32 as i32),
            libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_syncfs
            | libc::SYS_sync_file_range => Call::Flush(args[0] as u32 as i32),
            libc::SYS_fallocate | libc::SYS_ftruncate | libc::SYS_getdents64 | libc::SYS_close => {
                Call::Storage(args[0] as u32 as i32)
            }
            // These name no file.
            libc::SYS_sync | libc::SYS_msync => Call::Flush(-1),
            libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_unlinkat
            | libc::SYS_renameat2 => Call::Lookup { path: args[1] },
            libc::SYS_futex_waitv => Call::Futexes { address: args[0], count: args[1] },
            libc::SYS_semop | libc::SYS_semtimedop => Call::Semaphore,
            libc::SYS_msgrcv | libc::SYS_msgsnd => {
                Call::Queue { fd: None, writes: nr == libc::SYS_msgsnd }
            }
            libc::SYS_mq_timedreceive | libc::SYS_mq_timedsend => Call::Queue {
                fd: Some(args[0] as u32 as i32),
                writes: nr == libc::SYS_mq_timedsend,
            },
            libc::SYS_clone if args[0] & libc::CLONE_VFORK as u64 != 0 => Call::Vfork,
            // Its flags are in memory, but without that one there is little to wait for.
            libc::SYS_clone3 => Call::Vfork,
            libc::SYS_io_uring_enter | libc::SYS_io_getevents => Call::Completion,
            _ => old_calls(nr, args).unwrap_or(Call::Other(nr)),
        }
    }

    /// Whether bytes moved by this call are missing from `rchar` and `wchar` of `/proc/PID/io`.
    pub fn moves_uncounted(&self) -> bool {
        let socket = matches!(self, Call::Network(_) | Call::Send(_) | Call::Connect { .. });
        socket || matches!(self, Call::Move { .. } | Call::Completion)
    }
}

fn fcntl(command: u64) -> Call {
    match command as i32 {
        libc::F_SETLKW | libc::F_OFD_SETLKW => Call::FileLock,
        _ => Call::Other(libc::SYS_fcntl),
    }
}

/// Calls that newer architectures (aarch64, riscv64) never had.
#[cfg(target_arch = "x86_64")]
fn old_calls(nr: c_long, args: &[u64; 6]) -> Option<Call> {
    Some(match nr {
        libc::SYS_poll => Call::Poll { address: args[0], count: args[1] },
        libc::SYS_select => Call::Select { count: args[0], read: args[1], write: args[2] },
        libc::SYS_epoll_wait => Call::Epoll(args[0] as u32 as i32),
        libc::SYS_pause => Call::Signal { set: 0, most: 0 },
        libc::SYS_vfork => Call::Vfork,
        libc::SYS_open | libc::SYS_stat | libc::SYS_lstat | libc::SYS_unlink => {
            Call::Lookup { path: args[0] }
        }
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn old_calls(_nr: c_long, _args: &[u64; 6]) -> Option<Call> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_taken_from_the_right_argument() {
        let args = [3, 4, 5, 0, 0, 0];
        assert_eq!(Call::decode(libc::SYS_read, &args), Call::Read(3));
        assert_eq!(Call::decode(libc::SYS_splice, &args), Call::Move { from: 3, to: 5 });
        assert_eq!(Call::decode(libc::SYS_sendfile, &args), Call::Move { from: 4, to: 3 });
        assert_eq!(Call::decode(libc::SYS_sendto, &args), Call::Send(3));
        assert_eq!(Call::decode(libc::SYS_fsync, &args), Call::Flush(3));
        assert_eq!(Call::decode(libc::SYS_ftruncate, &args), Call::Storage(3));
        assert_eq!(Call::decode(libc::SYS_openat, &args), Call::Lookup { path: 4 });
        assert_eq!(Call::decode(libc::SYS_openat2, &args), Call::Lookup { path: 4 });
        assert_eq!(Call::decode(libc::SYS_ioctl, &args), Call::Control(3));
        assert_eq!(Call::decode(99_999, &args), Call::Other(99_999));
    }

    /// The set of signals was once read as a time, and a message queue as a lock.
    #[test]
    fn signals_and_queues_are_no_sleeps_and_no_locks() {
        let args = [3, 4, 5, 0, 0, 0];
        let call = |number| Call::decode(number, &args);
        assert_eq!(call(libc::SYS_rt_sigtimedwait), Call::Signal { set: 3, most: 5 });
        assert_eq!(call(libc::SYS_rt_sigsuspend), Call::Signal { set: 0, most: 0 });
        assert_eq!(call(libc::SYS_msgsnd), Call::Queue { fd: None, writes: true });
        assert_eq!(call(libc::SYS_mq_timedreceive), Call::Queue { fd: Some(3), writes: false });
        assert_eq!(call(libc::SYS_semop), Call::Semaphore);
        assert_eq!(call(libc::SYS_connect), Call::Connect { fd: 3, address: 4, length: 5 });
    }

    /// A sleeper that was stopped and continued waited for something unknown from then on.
    #[test]
    fn a_sleep_that_was_stopped_continues_as_one() {
        let restarted = |args| Call::decode(libc::SYS_restart_syscall, &args);
        assert_eq!(restarted([0, 0, 0x7ffe_0000, 0, 0, 0]), Call::Sleep);
        assert!(matches!(restarted([0x7ffe_0000, 1, 5000, 0, 0, 0]), Call::Other(_)));
    }

    #[test]
    fn only_a_waiting_fcntl_is_a_lock() {
        let wait = [3, libc::F_SETLKW as u64, 0, 0, 0, 0];
        let get = [3, libc::F_GETFL as u64, 0, 0, 0, 0];
        assert_eq!(Call::decode(libc::SYS_fcntl, &wait), Call::FileLock);
        assert!(matches!(Call::decode(libc::SYS_fcntl, &get), Call::Other(_)));
    }
}
