//! How ends find and lose each other: descriptors passed over sockets, the lifeline that dies with
//! its last holder, the thread that watches, names, and who is let in.

pub mod acceptor;
pub mod closing;
pub mod ending;
pub mod inbox;
pub mod lifeline;
pub mod name;
pub mod watcher;
