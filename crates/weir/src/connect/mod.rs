//! How ends find and lose each other: names, connections that are accepted, descriptors passed over
//! sockets, lifelines, the thread that watches them, and one wait over several ends.

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
