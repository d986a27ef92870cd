//! weir for C: the functions of `include/weir.h`, each a thin cover over one of the library.
//!
//! This is the C boundary. An argument that may be NULL is an `Option`, a handle is a `Box`, and
//! bytes and texts are checked by [`arguments`]. No panic crosses it: [`error::call`] stops each. What
//! C has to promise stands at the head of the header: a handle comes from weir and is not freed yet,
//! one thread at a time uses it, and a pointer leads to as many bytes as the call is told.

// The names are those of the header.
#![allow(non_camel_case_types)]
// C cannot be kept from passing a pointer that leads nowhere; the header says what it promises.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod arguments;
mod error;
mod held;
mod options;

mod duplex;
mod flags;
mod handle;
mod listener;
mod pipe;
mod port;
mod record;
mod wait;

pub use duplex::*;
pub use error::*;
pub use flags::*;
pub use handle::*;
pub use listener::*;
pub use options::*;
pub use pipe::*;
pub use port::*;
pub use record::*;
pub use wait::*;
