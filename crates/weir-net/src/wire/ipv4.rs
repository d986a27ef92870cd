//! Headers of the Internet Protocol (RFC 791 3.1): a checked view of a datagram, and what is
//! written.

use super::{address, checksum, word};
use std::net::Ipv4Addr;

/// Bytes that a datagram has at most, its header included.
pub const MOST_BYTES: usize = 65_535;
/// Bytes of a header without options.
pub const LEAST_HEADER_BYTES: usize = 20;
/// Bytes of a header with all the options it can have.
pub const MOST_HEADER_BYTES: usize = 60;
/// Bytes of options that a header can have.
pub const MOST_OPTION_BYTES: usize = MOST_HEADER_BYTES - LEAST_HEADER_BYTES;

/// Numbers of protocols (RFC 790).
pub mod protocol {
    /// Control messages (RFC 792).
    pub const ICMP: u8 = 1;
    /// Gateway to gateway (RFC 823).
    pub const GGP: u8 = 3;
    /// RFC 793.
    pub const TCP: u8 = 6;
    /// RFC 768.
    pub const UDP: u8 = 17;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A header but for what is reckoned from the rest: version, header length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of service, as it lies there.
    pub tos: u8,
    /// Length of the datagram, its header included, in bytes.
    pub total_bytes: u16,
    /// What tells datagrams apart where they are fragmented.
    pub id: u16,
    /// Gateways must not fragment it.
    pub dont_fragment: bool,
    /// It is a fragment, and not the last one.
    pub more_fragments: bool,
    /// Where its payload begins in that of the whole datagram, in bytes: a multiple of 8.
    pub offset_bytes: u16,
    /// Time to live: gateways that it may yet pass.
    pub ttl: u8,
    /// What the payload is, see [`protocol`].
    pub protocol: u8,
    /// Who sent it, or says so.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Writes the header with `options`, padded by ends of list to four bytes, and its checksum;
    /// says how many bytes that are.
    ///
    /// `None`, and nothing written, where that cannot be a header: more than 40 bytes of options,
    /// `out` too short for it, a total length below the header's, an offset that is no multiple of
    /// 8.
    #[must_use]
    pub fn emit(&self, options: &[u8], out: &mut [u8]) -> Option<usize> {
        let header_bytes = LEAST_HEADER_BYTES + options.len().next_multiple_of(4);
        if header_bytes > MOST_HEADER_BYTES
            || usize::from(self.total_bytes) < header_bytes
            || !self.offset_bytes.is_multiple_of(8)
        {
            return None;
        }
        let out = out.get_mut(..header_bytes)?;
        let mut flags = self.offset_bytes / 8;
        if self.dont_fragment {
            flags |= DONT_FRAGMENT;
        }
        if self.more_fragments {
            flags |= MORE_FRAGMENTS;
        }
        out[0] = 0x40 | (header_bytes / 4) as u8;
        out[1] = self.tos;
        out[2..4].copy_from_slice(&self.total_bytes.to_be_bytes());
        out[4..6].copy_from_slice(&self.id.to_be_bytes());
        out[6..8].copy_from_slice(&flags.to_be_bytes());
        out[8] = self.ttl;
        out[9] = self.protocol;
        out[10..12].fill(0);
        out[12..16].copy_from_slice(&self.source.octets());
        out[16..20].copy_from_slice(&self.destination.octets());
        out[20..20 + options.len()].copy_from_slice(options);
        out[20 + options.len()..].fill(0);
        let checksum = checksum::of(out);
        out[10..12].copy_from_slice(&checksum.to_be_bytes());
        Some(header_bytes)
    }

    /// What the first 20 bytes of `bytes` say, whether they were checked or not.
    #[inline]
    pub(crate) fn of_checked(bytes: &[u8]) -> Header {
        let flags = word(bytes, 6);
        Header {
            tos: bytes[1],
            total_bytes: word(bytes, 2),
            id: word(bytes, 4),
            dont_fragment: flags & DONT_FRAGMENT != 0,
            more_fragments: flags & MORE_FRAGMENTS != 0,
            offset_bytes: (flags & OFFSET) * 8,
            ttl: bytes[8],
            protocol: bytes[9],
            source: address(bytes, 12),
            destination: address(bytes, 16),
        }
    }
}

/// Why bytes are no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer bytes than a header has.
    Short,
    /// The version is neither 4 nor 6.
    Version,
    /// The version is 6.
    Version6,
    /// The header length is below 20 bytes, or beyond the end.
    HeaderLength,
    /// The total length is below the header's, or beyond the end.
    TotalLength,
    /// The checksum of the header is wrong.
    Checksum,
    /// A fragment that no datagram has: it ends beyond the longest one, it is empty, or it is not
    /// the last and its length is no multiple of 8.
    Fragment,
}

/// A datagram, its header checked as RFC 1122 3.2.1 wants it: options are not, nor are addresses.
///
/// The reserved flag is not looked at, as in other hosts: whoever sets it gets no special
/// treatment. A fragment may have the don't-fragment flag: hosts that discover the path's MTU send
/// such.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Exactly the total length.
    bytes: &'a [u8],
    /// 20 to 60, and not beyond `bytes`.
    header_bytes: usize,
}

impl<'a> Datagram<'a> {
    /// Checks `bytes`; those beyond the total length are cut off (a link may pad).
    pub fn check(bytes: &'a [u8]) -> Result<Datagram<'a>, Malformed> {
        if bytes.len() < LEAST_HEADER_BYTES {
            return Err(Malformed::Short);
        }
        match bytes[0] >> 4 {
            4 => {}
            6 => return Err(Malformed::Version6),
            _ => return Err(Malformed::Version),
        }
        let header_bytes = usize::from(bytes[0] & 0xf) * 4;
        if header_bytes < LEAST_HEADER_BYTES || header_bytes > bytes.len() {
            return Err(Malformed::HeaderLength);
        }
        if !checksum::is_right(&bytes[..header_bytes]) {
            return Err(Malformed::Checksum);
        }
        let total_bytes = usize::from(word(bytes, 2));
        if total_bytes < header_bytes || total_bytes > bytes.len() {
            return Err(Malformed::TotalLength);
        }
        let datagram = Datagram { bytes: &bytes[..total_bytes], header_bytes };
        if datagram.is_fragment() && !datagram.is_possible_fragment() {
            return Err(Malformed::Fragment);
        }
        Ok(datagram)
    }

    /// Its header.
    #[inline]
    pub fn header(&self) -> Header {
        Header::of_checked(self.bytes)
    }

    /// Bytes of its header, 20 to 60.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Its options as they lie there, padding included: 0 to 40 bytes.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[LEAST_HEADER_BYTES..self.header_bytes]
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes..]
    }

    /// Header and payload.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it is part of a datagram only.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        word(self.bytes, 6) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether a datagram can have this fragment.
    fn is_possible_fragment(&self) -> bool {
        let header = self.header();
        let payload_bytes = self.bytes.len() - self.header_bytes;
        // The whole datagram has a header too, whatever this one's length is.
        let end = usize::from(header.offset_bytes) + payload_bytes;
        payload_bytes > 0
            && end <= MOST_BYTES - LEAST_HEADER_BYTES
            && (!header.more_fragments || payload_bytes.is_multiple_of(8))
    }
}
