//! Sockets and descriptors as a program sends them that does not use the library.

#![allow(dead_code, reason = "each test program uses a part")]

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, recvmsg, sendmsg, socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

/// Connects to a name, and sends nothing. Fails if the queue is full or nobody listens.
pub fn try_dial(name: &Path) -> rustix::io::Result<OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // If the queue is full, a connect waits as long as a send may.
    set_socket_timeout(&socket, Timeout::Send, Some(Duration::from_secs(5)))?;
    connect(&socket, &SocketAddrUnix::new(name)?)?;
    Ok(socket)
}

/// Connects if somebody listens.
pub fn dial(name: &Path) -> OwnedFd {
    try_dial(name).expect("connected")
}

/// Listens at a path.
pub fn listen(path: &Path) -> OwnedFd {
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("short")).expect("bound");
    rustix::net::listen(&socket, 1).expect("it listens");
    socket
}

/// Accepts who has connected.
pub fn accept(listens: &OwnedFd) -> OwnedFd {
    accept_with(listens, SocketFlags::CLOEXEC).expect("accepted")
}

/// Sends a message with descriptors.
pub fn send(socket: BorrowedFd, text: &[u8], files: &[BorrowedFd]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)));
    let flags = SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(text)], &mut ancillary, flags).expect("sent");
}

/// The descriptor that has come, if there is one.
pub fn receive_file(socket: BorrowedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; 64];
    let mut parts = [IoSliceMut::new(&mut text)];
    recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::DONTWAIT).ok()?;
    ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    })
}
