//! BBN 1978: pipes and ports that are files, over the buffer cache of V6.

pub mod cache;
pub mod file;
pub mod pipe;
pub mod run;
pub mod setup;
pub mod tables;

use crate::kernel::{Sys, WaitChannel, World};
use cache::{Cache, Rules};

/// Priority of sleeping for a buffer.
pub const PRIBIO: i32 = -50;
/// Priority of sleeping for a pipe.
pub const PPIPE: i32 = 1;

/// What parts of the kernel's work take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Costs {
    /// A read or write call, with its locks.
    pub call_ns: u64,
    /// More for a call on a port.
    pub port_ns: u64,
    /// A block of a call: map it, get its buffer, free it.
    pub block_ns: u64,
    /// A byte that is copied.
    pub byte_ns: u64,
    /// Starting the disk.
    pub disk_ns: u64,
    /// An interrupt of the disk.
    pub interrupt_ns: u64,
    /// Looking at one block of a pipe for a delayed write to cancel.
    pub cancel_ns: u64,
    /// User time of a call.
    pub user_ns: u64,
    /// Checking a byte.
    pub check_ns: u64,
    /// Starting the test.
    pub start_ns: u64,
}

/// The channels on which processes sleep.
pub struct Channels;

impl Channels {
    /// Any buffer.
    pub const FREE: WaitChannel = 1;

    /// The lock of a pipe.
    pub fn lock(pipe: usize) -> WaitChannel {
        1000 + 4 * pipe as WaitChannel
    }

    /// Room in a pipe.
    pub fn room(pipe: usize) -> WaitChannel {
        1001 + 4 * pipe as WaitChannel
    }

    /// Bytes in a pipe.
    pub fn bytes(pipe: usize) -> WaitChannel {
        1002 + 4 * pipe as WaitChannel
    }

    /// A buffer.
    pub fn buffer(buffer: usize) -> WaitChannel {
        100 + buffer as WaitChannel
    }
}

/// A file: that of a pipe, or a plain one.
#[derive(Clone, Debug, Default)]
pub struct PipeFile {
    /// Whether it is a plain file, whose writes are never delayed.
    pub plain: bool,
    /// Bytes in it; the reader sets this back to 0.
    pub size: usize,
    /// How far the reader has come.
    pub read: usize,
    /// Somebody is at work on it.
    pub locked: bool,
    /// Somebody waits for the lock.
    pub wanted: bool,
    /// The reader sleeps.
    pub reader_waits: bool,
    /// The writer sleeps.
    pub writer_waits: bool,
    /// The writer has closed it.
    pub closed: bool,
    /// The block that was read last.
    pub last_read: Option<usize>,
    /// Blocks that the file has.
    pub allocated: usize,
    /// Where they are on the disk.
    pub blocks: Vec<u64>,
}

/// What the processes of the test share.
pub struct Bbn {
    /// The buffers and the disk.
    pub cache: Cache,
    /// The files.
    pub pipes: Vec<PipeFile>,
    /// What things cost.
    pub costs: Costs,
    /// What BBN changed.
    pub rules: Rules,
}

/// The disk has ended a transfer.
pub struct DiskDone;

impl World for Bbn {
    type Event = DiskDone;

    fn on(sys: &mut Sys<Bbn>, DiskDone: DiskDone) -> u64 {
        let (ended, next_ns) = sys.world.cache.disk.end(sys.now_ns);
        if let Some(ns) = next_ns {
            sys.after(ns, DiskDone);
        }
        if let Some(request) = ended {
            sys.world.cache.buffers[request.tag].done = true;
            if sys.world.cache.buffers[request.tag].is_async {
                sys.release(request.tag);
            } else {
                sys.wake(Channels::buffer(request.tag));
            }
        }
        sys.world.costs.interrupt_ns
    }
}

impl Sys<Bbn> {
    /// Frees a buffer and wakes those who wait for it or for any.
    pub fn release(&mut self, buffer: usize) {
        self.world.cache.release(buffer);
        self.wake(Channels::buffer(buffer));
        self.wake(Channels::FREE);
    }

    /// Starts a transfer.
    pub fn start(&mut self, buffer: usize, writes: bool, is_async: bool) {
        let now_ns = self.now_ns;
        if let Some(ns) = self.world.cache.start(now_ns, buffer, writes, is_async) {
            self.after(ns, DiskDone);
        }
    }
}
