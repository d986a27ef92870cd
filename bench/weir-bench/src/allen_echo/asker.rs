//! The asker: a socket of the kernel for echo requests, with a window of requests under way at
//! once.
//!
//! It checks the identifier, the sequence number and each byte of the data of every reply. A
//! request without a reply within two seconds, and a reply that comes twice, are errors.

use super::{LOST_AFTER, PAYLOAD_BYTES, Took};
use crate::engine::case::CaseError;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The header of an ICMP echo: type, code, checksum, identifier, sequence number.
const HEADER_BYTES: usize = 8;
const MESSAGE_BYTES: usize = HEADER_BYTES + PAYLOAD_BYTES;
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
/// The data begins with the number of the request; known bytes follow.
const NUMBER_BYTES: usize = 8;

#[derive(Debug)]
pub struct Asker {
    socket: OwnedFd,
    id: u16,
    /// Number of requests sent so far; they are numbered from 1.
    sent: u64,
    /// The number of the request under way at each place, or 0.
    window: Vec<u64>,
    message: [u8; MESSAGE_BYTES],
    patience: Duration,
}

impl Asker {
    /// Creates an asker for `to` with at most `window` requests under way.
    pub fn new(to: Ipv4Addr, window: usize) -> Result<Asker, CaseError> {
        let kind = SocketType::DGRAM;
        let socket = rustix::net::socket(AddressFamily::INET, kind, Some(ipproto::ICMP))?;
        rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
        rustix::net::connect(&socket, &SocketAddrV4::new(to, 0))?;
        // The kernel chooses the identifier and gives this socket the replies that carry it.
        let own = SocketAddrV4::try_from(rustix::net::getsockname(&socket)?)?;
        let mut message = [0; MESSAGE_BYTES];
        message[0] = ECHO;
        for (at, byte) in message[HEADER_BYTES + NUMBER_BYTES..].iter_mut().enumerate() {
            *byte = 0x10 + at as u8;
        }
        let patience = Duration::ZERO;
        let window = vec![0; window];
        let mut made = Asker { socket, id: own.port(), sent: 0, window, message, patience };
        made.set_patience(Some(LOST_AFTER))?;
        Ok(made)
    }

    /// Sets how long to wait for a reply; `None` waits for ever.
    pub fn set_patience(&mut self, time: Option<Duration>) -> Result<(), CaseError> {
        self.patience = time.unwrap_or_default();
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, time)?)
    }

    pub fn turnarounds(&mut self, count: u64) -> Result<Took, CaseError> {
        Took::of(self, count, Asker::send, Asker::receive)
    }

    /// Keeps as many requests under way as the window allows, until all are answered.
    pub fn stream(&mut self, count: u64) -> Result<(), CaseError> {
        let (mut left, mut awaited) = (count, count);
        while awaited > 0 {
            while left > 0 && self.has_room() {
                self.send()?;
                left -= 1;
            }
            self.receive()?;
            awaited -= 1;
        }
        Ok(())
    }

    fn place(&self, number: u64) -> usize {
        (number % self.window.len() as u64) as usize
    }

    fn has_room(&self) -> bool {
        self.window[self.place(self.sent + 1)] == 0
    }

    fn send(&mut self) -> Result<(), CaseError> {
        let number = self.sent + 1;
        self.message[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        self.message[HEADER_BYTES..][..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
        // The kernel fills in the identifier and the checksum.
        if rustix::net::send(&self.socket, &self.message, SendFlags::empty())? != MESSAGE_BYTES {
            return Err(CaseError::failed("a request was truncated"));
        }
        self.sent = number;
        let place = self.place(number);
        self.window[place] = number;
        Ok(())
    }

    fn receive(&mut self) -> Result<(), CaseError> {
        let mut reply = [0; MESSAGE_BYTES + 1];
        let received = rustix::net::recv(&self.socket, &mut reply, RecvFlags::empty());
        let (bytes, _) = received.map_err(|error| self.lost(error))?;
        let number = self.number_of(&reply[..bytes])?;
        let place = self.place(number);
        if self.window[place] != number || number == 0 {
            let text = format!("the reply to request {number} came twice or was not requested");
            return Err(CaseError::failed(text));
        }
        self.window[place] = 0;
        Ok(())
    }

    /// Returns the number in a reply if everything else in it is right.
    fn number_of(&self, reply: &[u8]) -> Result<u64, CaseError> {
        let wrong = || CaseError::failed(format!("a reply came with wrong bytes: {reply:02x?}"));
        let known = HEADER_BYTES + NUMBER_BYTES;
        if reply.len() != MESSAGE_BYTES || reply[..2] != [ECHO_REPLY, 0] {
            return Err(wrong());
        }
        let number = reply[HEADER_BYTES..known].try_into().map(u64::from_le_bytes);
        let number = number.map_err(|_| wrong())?;
        let right = reply[4..6] == self.id.to_be_bytes()
            && reply[6..8] == (number as u16).to_be_bytes()
            && reply[known..] == self.message[known..];
        if right { Ok(number) } else { Err(wrong()) }
    }

    fn lost(&self, error: Errno) -> CaseError {
        if error != Errno::AGAIN {
            return CaseError::failed(format!("cannot receive a reply: {error}"));
        }
        let awaited = self.window.iter().filter(|number| **number > 0).count();
        let first = self.window.iter().filter(|number| **number > 0).min().unwrap_or(&0);
        CaseError::failed(format!(
            "replies were lost: {awaited} were awaited, the first to request {first}, and none \
             came for {:?}",
            self.patience
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bare::{check, turn_around};
    use super::super::network::{MTU, PREFIX_BITS, Subnet};
    use super::*;
    use weir_net::sys::tun::{Tun, configure};

    /// Returns an asker and the device where its requests come out; `None` without the privilege
    /// for it. Only this thread moves into a namespace.
    fn line(window: usize) -> Option<(Asker, Tun)> {
        let opened = Subnet::new().and_then(|subnet| {
            let tun = Tun::open(&subnet.device(), false)?;
            configure(tun.name(), subnet.here(), PREFIX_BITS, MTU)?;
            Ok((Asker::new(subnet.there(), window)?, tun))
        });
        opened.inspect_err(|trouble| eprintln!("SKIPPED: {trouble}")).ok()
    }

    /// Reads the next request and returns the reply to it.
    fn reply(tun: &Tun) -> Vec<u8> {
        let mut packet = vec![0; 2_048];
        let bytes = rustix::io::read(tun, &mut packet).expect("a packet");
        packet.truncate(check(&packet[..bytes]).expect("a request"));
        turn_around(&mut packet);
        packet
    }

    fn write(tun: &Tun, packet: &[u8]) {
        assert_eq!(rustix::io::write(tun, packet), Ok(packet.len()));
    }

    fn refused(received: Result<(), CaseError>, why: &str) {
        let trouble = received.expect_err(why);
        assert!(!trouble.left_out && trouble.text.contains(why), "{trouble}");
    }

    #[test]
    fn replies_are_taken_in_any_order() {
        let Some((mut asker, tun)) = line(4) else { return };
        for _ in 0..4 {
            assert!(asker.has_room());
            asker.send().expect("sent");
        }
        assert!(!asker.has_room(), "as many as the window allows");
        let replies: Vec<Vec<u8>> = (0..4).map(|_| reply(&tun)).collect();
        for place in [2, 0, 3] {
            write(&tun, &replies[place]);
            asker.receive().expect("a reply");
        }
        assert!(asker.has_room(), "the first has come");
        asker.send().expect("sent");
        assert!(!asker.has_room(), "the second has not");
    }

    #[test]
    fn a_reply_that_comes_twice_is_an_error() {
        let Some((mut asker, tun)) = line(2) else { return };
        asker.send().expect("sent");
        let reply = reply(&tun);
        write(&tun, &reply);
        write(&tun, &reply);
        asker.receive().expect("the first");
        refused(asker.receive(), "the reply to request 1 came twice");
    }

    #[test]
    fn a_reply_with_other_bytes_is_an_error() {
        const DATA: usize = 28 + NUMBER_BYTES;
        // Exchanges two words of the data, and the sequence number with one of the data. No
        // checksum shows that.
        for (one, other) in [(DATA, DATA + 2), (26, DATA + 4)] {
            let Some((mut asker, tun)) = line(1) else { return };
            asker.send().expect("sent");
            let mut changed = reply(&tun);
            let (before, after) = changed.split_at_mut(other);
            before[one..one + 2].swap_with_slice(&mut after[..2]);
            write(&tun, &changed);
            refused(asker.receive(), "a reply came with wrong bytes");
        }
    }

    #[test]
    fn a_lost_reply_is_an_error_in_time() {
        let Some((mut asker, tun)) = line(2) else { return };
        asker.set_patience(Some(Duration::from_millis(20))).expect("set");
        asker.send().expect("sent");
        asker.send().expect("sent");
        let (_lost, second) = (reply(&tun), reply(&tun));
        write(&tun, &second);
        asker.receive().expect("the second");
        refused(asker.receive(), "1 were awaited, the first to request 1");
    }
}
