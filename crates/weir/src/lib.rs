//! Plumbing between processes, measured.
//!
//! Data moves between processes through rings and flags in shared memory, and each end keeps an
//! account of where its time went. Peers are not trusted: nothing that another process writes can
//! make these calls panic, hang or read beyond their memory.
//!
//! # Quick start
//!
//! This program sends a request to another thread, receives the reply and asks the server's end for
//! its account. The server could as well be another process.
//!
//! ```
//! use std::time::Duration;
//! use weir::{Options, RecordDuplex};
//!
//! let (mut client, mut server) = RecordDuplex::pair(&Options::new())?;
//! let serving = std::thread::spawn(move || {
//!     let mut request = [0; 64];
//!     while let Some(bytes) = server.reader.receive(&mut request)? {
//!         request[..bytes].reverse();
//!         server.writer.send(&request[..bytes])?;
//!     }
//!     server.reader.account()
//! });
//!
//! let mut reply = [0; 64];
//! let bytes = client.request_timeout(b"stressed", &mut reply, Duration::from_secs(10))?;
//! assert_eq!(&reply[..bytes], b"desserts");
//!
//! drop(client);
//! let account = serving.join().expect("no panic")?;
//! assert_eq!((account.records, account.bytes), (1, 8));
//! println!("the server slept {} ns", account.slept_ns);
//! # Ok::<(), weir::Error>(())
//! ```
//!
//! # What to use
//!
//! | to move | use |
//! |---|---|
//! | a stream of bytes | [`pipe`]: a [`Writer`] and a [`Reader`] |
//! | records, large ones without a copy | [`records`]: a [`RecordWriter`] and a [`RecordReader`] |
//! | requests and replies | [`RecordDuplex`], [`StreamDuplex`] |
//! | messages from many writers to one named reader | [`Port`], [`PortWriter`] |
//! | flags | [`Flags`] |
//! | streams of more than memory holds | [`Pool`], [`ElasticReader`], [`ElasticRecordReader`], [`ElasticPort`] |
//!
//! Ends reach other processes by a path ([`Listener`],
//! [`Writer::connect`](Endpoint#method.connect)) or as descriptors ([`Handle`], [`DuplexHandle`]).
//! [`Wait`] waits for several ends at once; the feature `tokio` makes them asynchronous, and
//! [`Pollable`] puts them into other reactors. [`stat`] reads the accounts of pipes in use, and
//! [`tune`] changes their defaults and sizes.
//!
//! On top of it stand `weir-mpx` (records over thousands of channels) and `weir-region` (memory
//! larger than the memory it may use).
//!
//! # Conventions
//!
//! - `x(..)` waits as long as it takes. `x_timeout(.., timeout)` waits as a [`Timeout`] says:
//!   a `Duration`, an `Instant`, `Timeout::Now`. `read`, `write`, `send` and `receive` of pipes and
//!   backlogs, and `send` of a [`PortWriter`], also have a `try_x`, which is `x_timeout` with
//!   `Timeout::Now`. A send of an mpx never waits.
//! - Streams are *read* and *written*; records and messages are *sent* and *received*. A place to
//!   write is *reserved* and *committed*; a place to read is *lent* and *consumed*.
//! - `create` makes a name, `connect` goes to one, `bind` makes an address, and `open` turns a
//!   handle into an end.
//! - A call that can fail does so with [`ErrorKind::Forked`] in a child of the end's process, and
//!   with [`ErrorKind::Corrupt`] where it finds nonsense in shared memory. Not every `# Errors`
//!   repeats these two.
//! - `poll_descriptor` is for poll(2) and epoll(7), and makes the descriptor when it is first asked
//!   for. [`Pollable`] holds an end together with it and is `AsFd`. `memory_descriptor` is the memory
//!   and cannot be polled.
//! - Ends are `Send`, and one thread at a time uses an end. [`Flags`], [`Listener`], handles,
//!   options and [`Error`] are `Send` and `Sync`.

// Some of what `parts` shows has no other use.
#![cfg_attr(not(feature = "parts"), allow(dead_code, unused_imports))]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("weir runs on 64-bit Linux only");

/// Makes setters of options. Each stores its argument in a field.
macro_rules! setters {
    ($options:ty; $($(#[$doc:meta])* $name:ident: $value:ty => $($field:ident).+;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $name: $value) -> $options {
            self.$($field).+ = $name;
            self
        }
    )* };
}

mod connect;
mod error;
mod flags;
mod inspect;
mod memory;
mod park;
#[cfg(feature = "parts")]
pub mod parts;
mod pipe;
mod pool;
mod port;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use connect::wait::{Interest, Key, Pollable, Wait, Waitable};
pub use error::{Error, ErrorKind, Result};
pub use flags::Flags;
pub use inspect::{stat, tune};
pub use memory::{View, ViewMut};
pub use park::{Timeout, Waiting};
pub use pipe::defaults::Sizes;
pub use pipe::duplex::{Duplex, DuplexHandle, RecordDuplex, StreamDuplex};
pub use pipe::endpoint::Endpoint;
pub use pipe::handle::Handle;
pub use pipe::options::{Options, ReaderOptions, WriterOptions};
pub use pipe::record::{Loan, RecordReader, RecordWriter, Reservation, records};
pub use pipe::socket::{Accept, Listener};
pub use pipe::stream::{Reader, Writer, pipe};
pub use pool::elastic::{ElasticReader, ElasticRecordReader};
pub use pool::{BacklogReader, BacklogWriter, Pool, PoolAccount, PoolOptions};
pub use port::{
    ElasticPort, Ending, Event, Identity, Lent, Port, PortCounts, PortHandle, PortName,
    PortOptions, PortWriter, PortWriterOptions, Received, WriterId, WriterStat,
};
/// What [`PoolOptions::rule`] sets (feature `rules`).
#[cfg(feature = "rules")]
pub use weir_policy::pool::Rule as PoolRule;
/// What one end of a pipe or port has done so far, as its `account` returns it.
///
/// ```
/// let (mut writer, mut reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"hello, ")?;
/// writer.write(b"world")?;
/// reader.read(&mut [0; 64])?;
/// let (written, read): (weir::Account, weir::Account) = (writer.account()?, reader.account()?);
/// assert_eq!((written.bytes, written.records), (12, 2));
/// assert_eq!((read.bytes, read.records, read.slept_ns), (12, 1, 0));
/// # Ok::<(), weir::Error>(())
/// ```
pub use weir_ring::account::Account;

/// Checks which types can be given to other threads, and which several threads can share.
#[cfg(test)]
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Port>();
    is_send::<PortWriter>();
    is_send::<BacklogReader>();
    is_send::<BacklogWriter>();
    is_send::<ElasticReader>();
    is_send::<ElasticRecordReader>();
    is_send::<ElasticPort>();
    is_send::<Pool>();
    is_sync::<Pool>();
    is_send::<PortOptions>();
    is_sync::<PortOptions>();
    is_sync::<PortWriterOptions>();
};
