//! Plumbing between processes, measured.
//!
//! Everything that moves between processes is a ring and a set of flags in shared memory, and
//! everything that moves keeps its own account of where its time went.
//!
//! - [`pipe`]: a stream of bytes, one writer, one reader.
//! - [`records`]: the same for records, with loans instead of copies for large ones.
//! - [`Port`], [`PortWriter`]: many writers, one reader, a name.
//! - [`Flags`]: a cluster of 64 flags, local or shared.
//! - [`Mpx`]: channels by the thousand, of many peers with one owner.
//! - [`Pool`]: buffers larger than memory; what is read soon is never written to their file.
//! - [`Wait`]: one wait over all of these, descriptors and a time.
//! - [`Listener`], [`connect_stream`], [`Handle`]: how ends get to other processes.
//! - `tokio` (feature): all of these in async programs.
//! - [`tune`]: the defaults of pipes, and sizes of pipes in use.
//! - [`stat`]: the accounts of pipes in use, read from outside.
//!
//! What each promises is in `docs/contracts/`. Peers are not trusted: see there.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

mod connect;
mod error;
mod flags;
mod inspect;
mod memory;
pub mod mpx;
mod park;
mod pipe;
mod pool;
mod port;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use connect::wait::{Interest, Key, Wait, Waitable};
pub use error::{Error, ErrorKind, Result};
pub use flags::Flags;
pub use inspect::{stat, tune};
pub use memory::{View, ViewMut};
pub use mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
pub use park::{Timeout, Waiting};
pub use pipe::endpoint::Endpoint;
pub use pipe::handle::Handle;
pub use pipe::options::{Options, ReaderOptions, Sizes, WriterOptions};
pub use pipe::record::{Loan, RecordReader, RecordWriter, Reservation, records};
pub use pipe::socket::{Listener, connect_records, connect_stream};
pub use pipe::stream::{Reader, Writer, pipe};
pub use pool::elastic::ElasticReader;
pub use pool::{BacklogReader, BacklogWriter, Pool, PoolAccount, PoolOptions};
pub use port::{
    Counts, Ending, Event, Identity, Lent, Port, PortName, PortOptions, PortWriter,
    PortWriterOptions, Received, WriterId, WriterStat,
};
pub use weir_ring::account::Account;

/// Ends may be given to other threads. What two threads may use at once can be shared.
#[cfg(test)]
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Port>();
    is_send::<PortWriter>();
    is_send::<Mpx>();
    is_send::<MpxPeer>();
    is_send::<BacklogReader>();
    is_send::<BacklogWriter>();
    is_send::<ElasticReader>();
    is_send::<Pool>();
    is_sync::<Pool>();
    is_send::<PortOptions>();
    is_sync::<PortOptions>();
    is_sync::<PortWriterOptions>();
    is_sync::<MpxOptions>();
    is_sync::<MpxPeerOptions>();
};
