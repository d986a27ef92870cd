//! Headers of the Internet Protocol (RFC 791 3.1): a checked view of a datagram, and a writer.

use super::checksum::{self, RunningSum};
use super::{address, word};
use std::net::Ipv4Addr;

/// Most bytes of a datagram, its header included.
pub const MOST_BYTES: usize = 65_535;
/// Bytes of a header without options.
pub const LEAST_HEADER_BYTES: usize = 20;
/// Most bytes of a header, with options.
pub const MOST_HEADER_BYTES: usize = 60;
/// Most bytes of options.
pub const MOST_OPTION_BYTES: usize = MOST_HEADER_BYTES - LEAST_HEADER_BYTES;

/// Numbers of protocols (RFC 790).
pub mod protocol {
    /// Control messages (RFC 792).
    pub const ICMP: u8 = 1;
    /// Gateway to gateway (RFC 823).
    pub const GGP: u8 = 3;
    /// Transmission control (RFC 793).
    pub const TCP: u8 = 6;
    /// User datagrams (RFC 768).
    pub const UDP: u8 = 17;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A header without its computed fields: version, header length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Type of service, unchanged.
    pub tos: u8,
    /// Length of the datagram, its header included, in bytes.
    pub total_bytes: u16,
    /// Identification, shared by the fragments of a datagram.
    pub id: u16,
    /// Whether gateways must not fragment it.
    pub dont_fragment: bool,
    /// Whether it is a fragment other than the last.
    pub more_fragments: bool,
    /// Where its payload begins in that of the whole datagram, in bytes: a multiple of 8.
    pub offset_bytes: u16,
    /// Time to live: gateways that it may still pass.
    pub ttl: u8,
    /// The protocol of the payload, see [`protocol`].
    pub protocol: u8,
    /// The source address, as stated.
    pub source: Ipv4Addr,
    /// The destination.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Writes the header with `options`, padded to four bytes by ends of list, and its checksum;
    /// returns its length.
    ///
    /// Returns `None`, and writes nothing, where that is not a valid header: more than 40 bytes of
    /// options, `out` too short, a total length below the header's, an offset that is not a
    /// multiple of 8.
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

    /// Reads the fields in the first 20 bytes of `bytes`, checked or not.
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

/// Sums the pseudo-header, which the checksums of TCP and UDP cover beside a payload of `bytes` bytes
/// (RFC 768; RFC 9293, 3.1).
pub(crate) fn pseudo_sum(
    protocol: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    bytes: usize,
) -> RunningSum {
    let mut sum = RunningSum::new();
    sum.add(&source.octets());
    sum.add(&destination.octets());
    sum.add_word(u16::from(protocol));
    // Fits: a datagram has at most 65,535 bytes.
    sum.add_word(bytes as u16);
    sum
}

/// Reads the header of a whole datagram of `bytes` bytes, whatever its checksum, addresses and
/// options are. Returns it and its length; `None` if the lengths do not agree, or it is a fragment.
#[inline]
pub(crate) fn shape_of(front: &[u8], bytes: usize) -> Option<(Header, usize)> {
    if front.len() < LEAST_HEADER_BYTES || front[0] >> 4 != 4 {
        return None;
    }
    let header_bytes = usize::from(front[0] & 0xf) * 4;
    let total_bytes = usize::from(word(front, 2));
    let is_fragment = word(front, 6) & (MORE_FRAGMENTS | OFFSET) != 0;
    let is_sound = (LEAST_HEADER_BYTES..=total_bytes).contains(&header_bytes)
        && header_bytes <= front.len()
        && total_bytes <= bytes
        && !is_fragment;
    is_sound.then(|| (Header::of_checked(front), header_bytes))
}

/// Why bytes are not a datagram.
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
    /// An impossible fragment: it ends beyond the longest datagram, it is empty, or it is not the
    /// last and its length is not a multiple of 8.
    Fragment,
}

/// A datagram whose header was checked as RFC 1122 3.2.1 demands; options and addresses were not.
///
/// The reserved flag is ignored, as in other hosts. A fragment may carry the don't-fragment flag:
/// hosts that discover the path's MTU send such fragments.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its bytes: exactly the total length.
    bytes: &'a [u8],
    /// The header's length: 20 to 60, and within `bytes`.
    header_bytes: usize,
}

/// Where header and payload of a checked datagram are, for whoever changes its bytes meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    header_bytes: usize,
    total_bytes: usize,
}

impl Checked {
    /// Returns the datagram again, whose bytes these are, and maybe padding behind them.
    pub fn of(self, bytes: &[u8]) -> Datagram<'_> {
        Datagram { bytes: &bytes[..self.total_bytes], header_bytes: self.header_bytes }
    }
}

impl<'a> Datagram<'a> {
    /// Returns where its parts are.
    pub(crate) fn checked(&self) -> Checked {
        Checked { header_bytes: self.header_bytes, total_bytes: self.bytes.len() }
    }

    /// Checks `bytes`; cuts off those beyond the total length (a link may pad).
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

    /// Returns its header.
    #[inline]
    pub fn header(&self) -> Header {
        Header::of_checked(self.bytes)
    }

    /// Returns the length of its header in bytes, 20 to 60.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Returns its options unchanged, with padding: 0 to 40 bytes.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        &self.bytes[LEAST_HEADER_BYTES..self.header_bytes]
    }

    /// Returns the bytes after the header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes..]
    }

    /// Returns header and payload.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it is only a part of a datagram.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        word(self.bytes, 6) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Whether such a fragment is possible.
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
