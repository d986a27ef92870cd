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

mod error;
mod primitive;
mod ring;

#[cfg(not(loom))]
mod account;
#[cfg(not(loom))]
mod barrier;
#[cfg(not(loom))]
mod closing;
#[cfg(not(loom))]
mod elastic;
#[cfg(not(loom))]
mod end;
#[cfg(not(loom))]
mod entrance;
#[cfg(not(loom))]
mod flags;
#[cfg(not(loom))]
mod futex;
#[cfg(not(loom))]
mod gathering;
#[cfg(not(loom))]
mod handle;
#[cfg(not(loom))]
mod life;
#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
pub mod mpx;
#[cfg(not(loom))]
mod name;
#[cfg(not(loom))]
mod options;
#[cfg(not(loom))]
mod pipe;
#[cfg(not(loom))]
mod poll;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod port;
#[cfg(not(loom))]
mod record;
#[cfg(not(loom))]
mod socket;
#[cfg(not(loom))]
pub mod stat;
#[cfg(all(not(loom), feature = "tokio"))]
pub mod tokio;
#[cfg(not(loom))]
pub mod tune;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod watcher;

pub use error::{Error, ErrorKind, Result};

#[cfg(not(loom))]
pub use {
    account::Account,
    elastic::ElasticReader,
    flags::Flags,
    handle::Handle,
    map::{View, ViewMut},
    mpx::{Mpx, MpxOptions, MpxPeer},
    options::{Options, Waiting},
    pipe::{Reader, Writer, pipe},
    pool::{BacklogReader, BacklogWriter, Pool, PoolAccount, PoolOptions},
    port::{
        Counts, Ending, Event, Identity, Lent, Port, PortName, PortOptions, PortWriter, Received,
        WriterId, WriterStat, port_names, port_path, remove_port,
    },
    record::{Loan, RecordReader, RecordWriter, Reservation, records},
    socket::{Listener, connect_records, connect_stream},
    wait::{Interest, Wait},
    weir_policy::pipe::Shape,
    weir_policy::pool::Rule,
};
