//! The User Datagram Protocol (RFC 768): a checked view, and a writer.

use super::ipv4::{LEAST_HEADER_BYTES, MOST_BYTES, protocol, pseudo_sum};
use super::word;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// Most payload bytes of a user datagram, in an IP datagram without options.
pub const MOST_PAYLOAD_BYTES: usize = MOST_BYTES - LEAST_HEADER_BYTES - HEADER_BYTES;

/// Why bytes are not a user datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than a header has.
    Short,
    /// The length is below the header's, or beyond the end.
    Length,
    /// Its checksum is present and wrong.
    Checksum,
}

/// A user datagram whose length and checksum have been checked.
#[derive(Clone, Copy, Debug)]
pub struct UdpDatagram<'a> {
    /// Exactly the length the header says.
    bytes: &'a [u8],
}

impl<'a> UdpDatagram<'a> {
    /// Checks the payload of an IP datagram from `source` to `destination`.
    ///
    /// A checksum of 0 means none, and is not checked. Bytes beyond the length are cut off, as
    /// other hosts do (RFC 9868 puts options there).
    pub fn check(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        payload: &'a [u8],
    ) -> Result<UdpDatagram<'a>, Malformed> {
        let datagram = UdpDatagram::check_length(payload)?;
        if datagram.has_checksum() {
            let mut sum = pseudo_sum(protocol::UDP, source, destination, datagram.bytes.len());
            sum.add(datagram.bytes);
            if sum.finish() != 0 {
                return Err(Malformed::Checksum);
            }
        }
        Ok(datagram)
    }

    /// Checks only the length of a payload whose checksum the sending kernel left out, since it is
    /// the kernel of this machine.
    pub fn check_length(payload: &'a [u8]) -> Result<UdpDatagram<'a>, Malformed> {
        if payload.len() < HEADER_BYTES {
            return Err(Malformed::Short);
        }
        let length = usize::from(word(payload, 4));
        if length < HEADER_BYTES || length > payload.len() {
            return Err(Malformed::Length);
        }
        Ok(UdpDatagram { bytes: &payload[..length] })
    }

    /// Returns the source port; 0 if the sender wants no answer.
    pub fn source_port(&self) -> u16 {
        word(self.bytes, 0)
    }

    /// Returns the destination port.
    pub fn destination_port(&self) -> u16 {
        word(self.bytes, 2)
    }

    /// Returns the payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Whether the sender computed a checksum.
    pub fn has_checksum(&self) -> bool {
        word(self.bytes, 6) != 0
    }
}

/// Writes a user datagram into `out`; returns its length. Returns `None`, and writes nothing, where
/// `out` is too short or `payload` longer than [`MOST_PAYLOAD_BYTES`].
#[must_use]
pub fn emit(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    payload: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let bytes = HEADER_BYTES + payload.len();
    if payload.len() > MOST_PAYLOAD_BYTES {
        return None;
    }
    let out = out.get_mut(..bytes)?;
    out[HEADER_BYTES..].copy_from_slice(payload);
    emit_header(source, destination, out)
}

/// Writes the header in front of a payload that lies from the ninth byte of `datagram` to its end;
/// returns the length of the whole. Returns `None`, and writes nothing, where these are fewer than 8
/// or more than 8 and [`MOST_PAYLOAD_BYTES`].
#[must_use]
pub fn emit_header(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    datagram: &mut [u8],
) -> Option<usize> {
    let (head, payload) = datagram.split_first_chunk_mut::<HEADER_BYTES>()?;
    *head = header(source, destination, payload)?;
    Some(datagram.len())
}

/// Returns the header for a payload that lies elsewhere; `None` where that is longer than
/// [`MOST_PAYLOAD_BYTES`].
pub fn header(
    source: SocketAddrV4,
    destination: SocketAddrV4,
    payload: &[u8],
) -> Option<[u8; HEADER_BYTES]> {
    if payload.len() > MOST_PAYLOAD_BYTES {
        return None;
    }
    let bytes = HEADER_BYTES + payload.len();
    let mut header = [0; HEADER_BYTES];
    header[0..2].copy_from_slice(&source.port().to_be_bytes());
    header[2..4].copy_from_slice(&destination.port().to_be_bytes());
    header[4..6].copy_from_slice(&(bytes as u16).to_be_bytes());
    let mut sum = pseudo_sum(protocol::UDP, *source.ip(), *destination.ip(), bytes);
    sum.add(&header);
    sum.add(payload);
    // 0 means no checksum; all ones is the same number.
    let checksum = if sum.finish() == 0 { 0xffff } else { sum.finish() };
    header[6..8].copy_from_slice(&checksum.to_be_bytes());
    Some(header)
}
