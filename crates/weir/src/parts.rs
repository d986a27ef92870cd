//! What crates on top of this one are built from: memory, waiting, connections, and what a pool has.
//!
//! `weir-mpx` and `weir-region` use it. These names follow the inside of the library, and change with
//! it: they are no part of what it promises.

pub use crate::connect::acceptor::{Acceptor, Arrival, hand_over, wait_until};
pub use crate::connect::board::{BoardSlot, welcome};
pub use crate::connect::lifeline::Lifeline;
pub use crate::connect::site::{Inbox, ParkSite};
pub use crate::connect::watcher::WatchedDescriptor;
pub use crate::error::Text;
pub use crate::memory::{
    AtomicWords, MapAccess, Mapping, PageContent, SEALS, SHORT_BYTES, SealedMemory, SharedPage,
    Use, allocate, copy, copy_far, copy_short, errno_of, make_empty, page_bytes, prefetch,
    prefetch_to_write, refused, usual_directory, wanted_engine,
};
pub use crate::park::doorbell::Doorbell;
pub use crate::park::ready::{wait_for_any, wait_ready};
pub use crate::park::{
    HeadStart, Parked, Slept, Spinner, Until, WaitSource, peer_of, publish_cpu, sleep_on,
};
pub use crate::pool::elastic::{
    AddDescriptor, CountedBacklog, Drainable, Drained, Draining, Pass, Turns,
};
pub use crate::pool::{Backlog, Borrower, Share, ShareState};
pub use crate::port::{Bell, MODE_BITS};
#[cfg(feature = "tokio")]
pub use crate::tokio::{Registered, item};
use crate::{BacklogReader, BacklogWriter, Pool, PoolOptions, RecordReader, RecordWriter, Result};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use weir_sys::spill::SpillEngine;

/// Names in the file system.
pub mod name {
    pub use crate::connect::name::{Subject, publish_socket_id, resolve};
}

/// Descriptors that go from one process to another.
pub mod passing {
    pub use crate::connect::passing::{
        close_later, copy_of, hang_up, receive_one, refuse, send, turn_away,
    };
}

/// Barriers on all CPUs that run this process, or another that has asked for them.
pub mod barrier {
    pub use crate::park::barrier::{is_available, pass, reaches_here};
}

/// How a writer asks the thread that drains for room.
pub mod drain {
    pub use crate::pipe::end::drain::request_drain;
}

/// Opens a stream as [`Pool::backlog`] does. The bell rings too when something was read back.
///
/// # Errors
/// Those of [`Pool::backlog`].
pub fn backlog_with(pool: &Pool, bell: &Arc<OwnedFd>) -> Result<(BacklogWriter, BacklogReader)> {
    pool.backlog_with(bell)
}

/// Lends the room at the end of a backlog, as [`BacklogWriter::reserve`] does. `None` if the pool has
/// none now.
///
/// # Errors
/// Those of [`BacklogWriter::reserve`].
pub fn try_reserve(writer: &mut BacklogWriter) -> Result<Option<&mut [u8]>> {
    writer.try_reserve()
}

/// Sends the record that was begun by [`RecordWriter::reserve`](crate::Endpoint) whose
/// [`Reservation`](crate::Reservation) was then forgotten, for callers that cannot hold it. Without
/// one it does nothing.
///
/// # Errors
/// Those of [`Reservation::commit`](crate::Reservation::commit).
pub fn commit_forgotten(writer: &mut RecordWriter) -> Result<()> {
    writer.forgotten().commit()
}

/// Sends a record if that takes few instructions: for callers into whose code
/// [`RecordWriter::send`](crate::Endpoint) cannot be inlined, which try this first. Returns false if it
/// did not, or the reader is gone.
#[inline(always)]
pub fn send_fast(writer: &mut RecordWriter, bytes: &[u8]) -> bool {
    writer.send_fast(None, bytes)
}

/// Receives a record that is there and as long as the buffer and the last one, as [`send_fast`] sends.
/// Returns false if it did not.
#[inline(always)]
pub fn receive_fast(reader: &mut RecordReader, buffer: &mut [u8]) -> bool {
    reader.receive_there(buffer)
}

/// Where a backlog waits for room.
pub fn state_of(writer: &BacklogWriter) -> Arc<Backlog> {
    writer.shared()
}

/// Bytes of a backlog that were delayed, cancelled, spilled and read back.
pub fn counts_of(reader: &BacklogReader) -> [u64; 4] {
    reader.counts()
}

/// Makes a pool whose file another engine reaches, such as one that fails when a test tells it to.
///
/// # Errors
/// Those of [`Pool::new`].
pub fn pool_over(options: &PoolOptions, engine: Box<dyn SpillEngine>) -> Result<Pool> {
    Pool::over(options, engine)
}
