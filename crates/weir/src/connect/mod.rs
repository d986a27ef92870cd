//! How ends find and lose each other: descriptors passed over sockets, the lifeline that dies with
//! its last holder, the thread that watches, names, and who is let in.

pub mod acceptor;
pub mod board;
mod closing;
pub mod descriptor;
pub mod lifeline;
pub mod name;
pub mod passing;
pub mod peer;
pub mod process;
pub mod site;
pub mod watcher;
