//! Messages to the kernel and from it, over netlink sockets.

use crate::bytes::half;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};

/// Length of the head of a message; its type is at `KIND`.
pub const HEADER_BYTES: usize = 16;
pub const KIND: usize = 4;
/// Flags of a message: it asks for something; it asks to be acknowledged.
pub const REQUEST: u16 = 1;
pub const ACK: u16 = 4;

/// Opens a socket that listens to these groups.
pub fn open(kind: SocketType, protocol: Protocol, groups: u32) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(protocol)).ok()?;
    bind(&socket, &SocketAddrNetlink::new(0, groups)).ok()?;
    Some(socket)
}

/// Sends a message to the kernel. Where it answers, the answer is there before this returns.
pub fn send(socket: &OwnedFd, kind: u16, flags: u16, body: &[u8]) -> Option<()> {
    let mut text = Vec::with_capacity(HEADER_BYTES + body.len());
    text.extend((HEADER_BYTES as u32 + body.len() as u32).to_ne_bytes());
    text.extend(kind.to_ne_bytes());
    text.extend(flags.to_ne_bytes());
    text.extend([0; 8]);
    text.extend(body);
    sendto(socket, &text, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).ok().map(drop)
}

/// Receives a message; `None` for one that the kernel did not send.
///
/// # Errors
/// Those of recvfrom(2): `AGAIN` where none has come, `NOBUFS` where some were dropped.
pub fn receive(socket: &OwnedFd) -> Result<Option<Vec<u8>>, Errno> {
    let mut buffer = [0_u8; 2048];
    let (_, length, from) = recvfrom(socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
    let is_kernel = from.is_some_and(|from| from.pid() == 0);
    Ok(is_kernel.then(|| buffer[..length.min(buffer.len())].to_vec()))
}

/// Finds an attribute of a message.
pub fn attribute(mut text: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(half(text, 0)?);
        let (kind, value) = (half(text, 2)?, text.get(4..length)?);
        // The upper bits are flags.
        if kind & 0x3fff == wanted {
            return Some(value);
        }
        text = text.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_behind_others_and_as_far_as_they_are_whole() {
        let text = [5_u16, 1, 7, 0, 6, 2 | 1 << 15, 9].map(u16::to_ne_bytes).concat();
        assert_eq!(attribute(&text, 2), Some(&9_u16.to_ne_bytes()[..]));
        assert_eq!(attribute(&text, 3), None);
        assert_eq!(attribute(&text[..text.len() - 1], 2), None);
        assert_eq!(attribute(&[2, 0, 0, 0, 0, 0], 0), None);
    }
}
