//! Descriptors whose closing takes long.

#![allow(dead_code, reason = "each test program uses a part")]

use crate::raw::{dial, send};
use rustix::fd::{AsFd, OwnedFd};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use weir::{Wait, Waitable};

/// How long the closing takes, and how long a call may take that does not wait for it.
const LINGER: Duration = Duration::from_secs(12);
pub const BOUND: Duration = Duration::from_secs(4);
/// The time of a wait in which nothing need come.
pub const TIME: Duration = Duration::from_millis(50);

/// A socket that takes long to close: the other side, which is kept, never reads what is in it.
pub fn slow() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut slow = TcpStream::connect(listener.local_addr().expect("one")).expect("connected");
    let (other, _) = listener.accept().expect("accepted");
    rustix::net::sockopt::set_socket_linger(&slow, Some(LINGER)).expect("set");
    slow.set_nonblocking(true).expect("set");
    while slow.write(&[0; 65_536]).is_ok() {}
    slow.set_nonblocking(false).expect("set");
    (slow.into(), other)
}

pub fn in_time<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let value = call();
    assert!(begun.elapsed() < BOUND, "{what} took {:?}", begun.elapsed());
    value
}

/// Sends a descriptor that is slow to close, and keeps no copy. Returns what keeps it slow.
pub fn send_slow(socket: impl AsFd, text: &[u8], count: usize) -> Vec<TcpStream> {
    let (files, others): (Vec<_>, Vec<_>) = (0..count).map(|_| slow()).unzip();
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    send(socket.as_fd(), text, &borrowed);
    others
}

/// Connects and hands over something other than memory, in each of these ways.
pub fn come_to(name: &Path, hello: &[u8]) -> Vec<(OwnedFd, Vec<TcpStream>)> {
    [(hello, 1), (hello, 5), (b"nonsense".as_slice(), 1), (b"", 1)]
        .map(|(text, count)| {
            let socket = dial(name);
            let others = send_slow(&socket, text, count);
            (socket, others)
        })
        .into()
}

/// Waits for an end for a moment.
pub fn wait_for(end: &mut impl Waitable) -> weir::Result<()> {
    let mut wait = Wait::new();
    wait.add_borrowed((), end)?;
    wait.wait_timeout(&mut Vec::new(), TIME)
}
