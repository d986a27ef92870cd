//! The library from outside: pipes, ports, pools and flags, by what docs/contracts promise of them.
//!
//! One program for all, which is built and linked once. What changes limits, variables or the memory of its whole
//! process, or is killed, is a program of its own beside it.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/follow.rs"]
mod follow;
#[path = "../common/raw.rs"]
mod raw;
#[path = "../common/slow.rs"]
mod slow;
#[path = "../common/words.rs"]
mod words;

mod api;
mod deaths;
mod duplex;
mod elastic;
mod flags;
mod hostile;
mod just_gone;
mod listener;
mod one_word;
mod pipe;
mod pipe_segments;
mod pipe_socket;
mod pollable;
mod pool;
mod pool_ends;
mod port;
mod port_bounds;
mod port_elastic;
mod port_errors;
mod port_hostile;
mod port_lent;
mod port_names;
mod port_namespaces;
mod port_panic;
mod port_polled;
mod port_properties;
mod port_unfinished;
mod port_unnamed;
mod port_wait;
mod port_words;
mod record;
mod record_elastic;
mod slow_close;
mod wait;
