//! The host from outside: the log, messages, datagrams, TCP and TFTP, without a device.
//!
//! One program for all, which is built and linked once. What is killed is a program of its own beside
//! it.

#[path = "../any_packet/mod.rs"]
mod any_packet;
#[path = "../any_segments/mod.rs"]
mod any_segments;
#[path = "../datagrams/mod.rs"]
mod datagrams;

mod log;
mod log_format;
mod log_ring;
mod message;
mod reassembly;
mod reassembly_model;
mod tcp_hostile;
mod tcp_requests;
mod tftp;
mod tftp_client;
mod tftp_server;
mod wire;
mod wire_fragment;
mod wire_hostile;
