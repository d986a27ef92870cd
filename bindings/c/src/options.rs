//! Options and accounts.

use crate::arguments::{place, timeout};
use crate::error::{call, invalid, weir_status};
use std::mem::MaybeUninit;
use weir::{Account, Ending, Options, ReaderOptions, Result, Waiting, WriterOptions};

/// A timeout that never passes. A timeout of 0 does not wait.
pub const WEIR_FOREVER: i64 = -1;

/// How an end waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum weir_waiting {
    /// It spins for as long as that has paid lately, then sleeps.
    WEIR_ADAPTIVE = 0,
    /// It sleeps at once.
    WEIR_SLEEP = 1,
    /// It spins until there is something to do. For ends that each have a CPU of their own.
    WEIR_SPIN = 2,
}

/// Options of a pipe, of a connection, or of an end that is opened. Set all to 0 by memset() or
/// `= {0}`, and then what is to be different. NULL stands for the defaults wherever options are taken.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weir_options {
    /// Bytes the ring holds: at most 1 GiB, rounded up to a power of two. 0: `weir tune` or the caches
    /// decide.
    pub capacity_bytes: u64,
    /// Bytes after which a long write is published and its reader woken; of a writer to a port: the
    /// longest piece of a message. 0: a part of the capacity.
    pub segment_bytes: u64,
    /// The longest write to a stream that appears whole. 0: 4096.
    pub atomic_bytes: u64,
    /// A weir_waiting.
    pub waiting: u32,
    /// Must be 0.
    pub reserved: [u32; 9],
}

/// Options of a port. Set all to 0, and then what is to be different.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weir_port_options {
    /// The longest message the port takes. 0: 16 MiB.
    pub most_message_bytes: u64,
    /// The most memory for messages whose last pieces have not come yet. 0: 64 MiB.
    pub most_unfinished_bytes: u64,
    /// The most writers at once, at most 16384. 0: 1024.
    pub most_writers: u32,
    /// The permissions of the port's socket: who may write. 0: 0600.
    pub mode: u32,
    /// A weir_waiting.
    pub waiting: u32,
    /// Must be 0.
    pub reserved: [u32; 9],
}

/// What one end has done so far. It is exact while the end rests.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct weir_account {
    /// Bytes moved.
    pub bytes: u64,
    /// Records moved; of a stream, calls that moved something.
    pub records: u64,
    /// Times the end could not go on, and of these, how often spinning ended the wait.
    pub waits: u64,
    /// See waits.
    pub spun: u64,
    /// Times it slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Times it woke the other end.
    pub wakes_given: u64,
    /// Times the other end woke it.
    pub wakes_taken: u64,
    /// The largest fill of the ring it saw, in bytes.
    pub largest_fill_bytes: u64,
}

/// How the other end has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum weir_ending {
    /// It is there.
    WEIR_THERE = 0,
    /// It was freed.
    WEIR_HAS_CLOSED = 1,
    /// Its process died with it, or executed another program.
    WEIR_HAS_DIED = 2,
    /// This side shut it out, because it broke the protocol or was not wanted any longer.
    WEIR_SHUT_OUT = 3,
}

fn check_reserved(reserved: [u32; 9]) -> Result<()> {
    let is_zero = reserved == [0; 9];
    is_zero.then_some(()).ok_or_else(|| invalid("options", "a reserved field is not 0"))
}

fn waiting(number: u32) -> Result<Waiting> {
    match number {
        0 => Ok(Waiting::Adaptive),
        1 => Ok(Waiting::Sleep),
        2 => Ok(Waiting::Spin),
        _ => Err(invalid("options", "waiting is not a weir_waiting")),
    }
}

/// The options of a pipe, whose connection waits for this long.
pub(crate) fn pipe_options(given: Option<&weir_options>, timeout_ns: i64) -> Result<Options> {
    let mut options = Options::new().connect_timeout(timeout(timeout_ns));
    let Some(given) = given else { return Ok(options) };
    check_reserved(given.reserved)?;
    options = options.waiting(waiting(given.waiting)?);
    if given.capacity_bytes > 0 {
        options = options.capacity_bytes(given.capacity_bytes);
    }
    if given.segment_bytes > 0 {
        options = options.segment_bytes(given.segment_bytes);
    }
    if given.atomic_bytes > 0 {
        options = options.atomic_bytes(given.atomic_bytes);
    }
    Ok(options)
}

pub(crate) fn reader_options(given: Option<&weir_options>) -> Result<ReaderOptions> {
    Ok(ReaderOptions::new().waiting(waiting_of(given)?))
}

pub(crate) fn writer_options(given: Option<&weir_options>) -> Result<WriterOptions> {
    Ok(WriterOptions::new().waiting(waiting_of(given)?))
}

fn waiting_of(given: Option<&weir_options>) -> Result<Waiting> {
    let Some(given) = given else { return Ok(Waiting::Adaptive) };
    check_reserved(given.reserved)?;
    waiting(given.waiting)
}

pub(crate) fn port_options(given: Option<&weir_port_options>) -> Result<weir::PortOptions> {
    let mut options = weir::PortOptions::new();
    let Some(given) = given else { return Ok(options) };
    check_reserved(given.reserved)?;
    options = options.waiting(waiting(given.waiting)?);
    if given.most_message_bytes > 0 {
        options = options.most_message_bytes(given.most_message_bytes);
    }
    if given.most_unfinished_bytes > 0 {
        options = options.most_unfinished_bytes(given.most_unfinished_bytes);
    }
    if given.most_writers > 0 {
        options = options.most_writers(given.most_writers);
    }
    if given.mode > 0 {
        options = options.mode(given.mode);
    }
    Ok(options)
}

pub(crate) fn port_writer_options(
    given: Option<&weir_options>,
    timeout_ns: i64,
) -> Result<weir::PortWriterOptions> {
    let options = weir::PortWriterOptions::new().connect_timeout(timeout(timeout_ns));
    let Some(given) = given else { return Ok(options) };
    check_reserved(given.reserved)?;
    let mut options = options.waiting(waiting(given.waiting)?);
    if given.capacity_bytes > 0 {
        options = options.capacity_bytes(given.capacity_bytes);
    }
    if given.segment_bytes > 0 {
        options = options.piece_bytes(given.segment_bytes);
    }
    Ok(options)
}

impl From<Account> for weir_account {
    fn from(account: Account) -> weir_account {
        weir_account {
            bytes: account.bytes,
            records: account.records,
            waits: account.waits,
            spun: account.spun,
            slept: account.slept,
            slept_ns: account.slept_ns,
            wakes_given: account.wakes_given,
            wakes_taken: account.wakes_taken,
            largest_fill_bytes: account.largest_fill_bytes,
        }
    }
}

impl From<Option<Ending>> for weir_ending {
    fn from(ending: Option<Ending>) -> weir_ending {
        match ending {
            None => weir_ending::WEIR_THERE,
            Some(Ending::Closed) => weir_ending::WEIR_HAS_CLOSED,
            Some(Ending::ShutOut) => weir_ending::WEIR_SHUT_OUT,
            Some(_) => weir_ending::WEIR_HAS_DIED,
        }
    }
}

/// The whole of a function that stores an account.
pub(crate) fn store_account(
    out: Option<&mut MaybeUninit<weir_account>>,
    account: impl FnOnce() -> Result<Account>,
) -> weir_status {
    call(|| {
        let out = place(out, weir_account::default(), "an account")?;
        *out = account()?.into();
        Ok(())
    })
}

/// The whole of a function that stores how the other end has ended.
pub(crate) fn store_ending(
    out: Option<&mut MaybeUninit<weir_ending>>,
    ending: impl FnOnce() -> Result<Option<Ending>>,
) -> weir_status {
    call(|| {
        let out = place(out, weir_ending::WEIR_THERE, "an ending")?;
        *out = ending()?.into();
        Ok(())
    })
}
