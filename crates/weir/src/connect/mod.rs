//! How ends find and lose each other: descriptors passed over sockets, the lifeline that dies with
//! its last holder, the thread that watches, one wait over
//! several of them, names, and who is let in.

pub mod acceptor;
pub mod board;
mod closing;
pub mod lifeline;
pub mod name;
pub mod passing;
pub mod peer;
pub mod process;
pub mod site;
pub mod wait;
pub mod watcher;
