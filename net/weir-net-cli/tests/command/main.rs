//! The tests of `weir net`, in one program: they run beside each other and are linked once.

mod common;
mod net_cost;
mod net_errors;
mod net_ethernet;
mod net_fragments;
mod net_hostile;
mod net_local;
mod net_log;
mod net_ping;
mod net_profile;
mod net_relay;
mod net_station;
mod net_tcp;
mod net_tcp_hostile;
mod net_telnet;
mod net_tftp;
mod net_tftp_daemon;
mod net_udp;
mod net_which;
