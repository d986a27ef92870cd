//! The reference host: one process that reads a request from a TUN device, checks it, turns it into
//! the reply in place, and writes it back. No host at user level can do less.

use super::ledger::Ledger;
use crate::engine::case::CaseError;
use std::convert::Infallible;
use weir_net::log::Direction;
use weir_net::sys::tun::Tun;

const IP_HEADER_BYTES: usize = 20;
const ICMP_HEADER_BYTES: usize = 8;
const ICMP: u8 = 1;
const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
/// More than any packet of the device.
const MOST_BYTES: usize = 2_048;

pub fn respond(device: &Tun, ledger: &mut Ledger) -> Result<Infallible, CaseError> {
    let mut packet = [0; MOST_BYTES];
    loop {
        let bytes = rustix::io::read(device, &mut packet)?;
        let Some(bytes) = check(&packet[..bytes]) else { continue };
        ledger.note(Direction::In, &packet[..bytes])?;
        turn_around(&mut packet[..bytes]);
        rustix::io::write(device, &packet[..bytes])?;
        ledger.note(Direction::Out, &packet[..bytes])?;
    }
}

/// Returns the length of an echo request that arrived whole; `None` for anything else.
pub fn check(packet: &[u8]) -> Option<usize> {
    let header_bytes = usize::from(packet.first()? & 0xf) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
    let whole = packet.get(..total_bytes)?;
    let (header, message) = whole.split_at_checked(header_bytes)?;
    let is_ip = packet[0] >> 4 == 4 && header_bytes >= IP_HEADER_BYTES && sum(header) == 0xffff;
    // More fragments follow, or this is not the first.
    let is_fragment = is_ip && u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let is_echo = is_ip
        && !is_fragment
        && header[9] == ICMP
        && message.len() >= ICMP_HEADER_BYTES
        && message[..2] == [ECHO, 0]
        && sum(message) == 0xffff;
    is_echo.then_some(total_bytes)
}

/// Turns a request that [`check`] accepted into its reply. The sum of the addresses does not
/// change, and that of the message changes by its type alone (RFC 1624).
pub fn turn_around(packet: &mut [u8]) {
    let (from, to) = packet[12..20].split_at_mut(4);
    from.swap_with_slice(to);
    let header_bytes = usize::from(packet[0] & 0xf) * 4;
    let message = &mut packet[header_bytes..];
    message[0] = ECHO_REPLY;
    let sum = u16::from_be_bytes([message[2], message[3]]);
    let (added, carried) = sum.overflowing_add(u16::from(ECHO) << 8);
    message[2..4].copy_from_slice(&(added + u16::from(carried)).to_be_bytes());
}

/// Returns the one's complement sum of 16-bit words, 0xffff where the checksum is right (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(2);
    let mut sum: u32 =
        words.by_ref().map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    if let [last] = words.remainder() {
        sum += u32::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a request with eleven bytes of data, an odd number, as the kernel does.
    fn request() -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 39, 7, 7, 0x40, 0, 64, ICMP, 0, 0];
        packet.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        packet.extend([ECHO, 0, 0, 0, 0x12, 0x34, 0, 9]);
        packet.extend(b"eleven byte");
        seal(&mut packet);
        packet
    }

    fn seal(packet: &mut [u8]) {
        for (at, end) in [(10, 20), (22, packet.len())] {
            let from = at - if at == 10 { 10 } else { 2 };
            packet[at..at + 2].fill(0);
            let sum = !sum(&packet[from..end]);
            packet[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }

    #[test]
    fn a_request_becomes_its_reply() {
        let mut packet = request();
        packet.push(0xff); // beyond the datagram
        assert_eq!(check(&packet), Some(39));
        packet.truncate(39);
        turn_around(&mut packet);
        assert_eq!(packet[12..20], [10, 77, 0, 2, 10, 77, 0, 1]);
        assert_eq!(packet[20], ECHO_REPLY);
        assert_eq!(packet[24..], request()[24..]);
        assert_eq!((sum(&packet[..20]), sum(&packet[20..])), (0xffff, 0xffff));
        assert_eq!(check(&packet), None, "a reply is not answered");
    }

    #[test]
    fn the_checksum_of_a_reply_carries() {
        let mut packet = request();
        for number in 0..=u16::MAX {
            packet[26..28].copy_from_slice(&number.to_be_bytes());
            seal(&mut packet);
            turn_around(&mut packet);
            assert_eq!(sum(&packet[20..]), 0xffff, "{number}");
            packet[20] = ECHO;
        }
    }

    #[test]
    fn what_is_no_request_is_left() {
        let whole = request();
        for bytes in 0..whole.len() {
            assert_eq!(check(&whole[..bytes]), None, "cut to {bytes}");
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0x10;
            assert_eq!(check(&broken), None, "a bit of byte {at}");
        }
        for (at, byte) in [(6, 0x20), (7, 1), (9, 17), (20, 13), (21, 1)] {
            let mut other = whole.clone();
            other[at] = byte;
            seal(&mut other);
            assert_eq!(check(&other), None, "byte {at} is {byte}");
        }
    }
}
