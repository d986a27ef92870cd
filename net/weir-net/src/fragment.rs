//! Splitting datagrams into fragments (RFC 791 3.2): which bytes each carries, under which header.

use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES, MOST_BYTES, MOST_OPTION_BYTES};
use crate::wire::options;
use std::fmt;
use std::ops::Range;

/// The smallest MTU a link can have (RFC 791): the longest header and 8 bytes.
pub const LEAST_MTU: usize = 68;

/// Why a datagram cannot be sent over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentError {
    /// It does not fit, and must not be fragmented.
    DontFragment,
    /// It, or the datagram it is a fragment of, would be longer than 65,535 bytes.
    TooLong,
    /// There are more than 40 bytes of options.
    Options,
    /// The MTU is below 68.
    Mtu,
    /// It is not a valid fragment: it is empty, its offset is not a multiple of 8 bytes, or its
    /// length is none although it is not the last.
    Fragment,
}

/// The options of one piece, held by value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FragmentOptions {
    bytes: [u8; MOST_OPTION_BYTES],
    length: u8,
}

impl std::ops::Deref for FragmentOptions {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for FragmentOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl FragmentOptions {
    fn header_bytes(&self) -> usize {
        LEAST_HEADER_BYTES + usize::from(self.length).next_multiple_of(4)
    }
}

/// One fragment, or the whole datagram where it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingFragment {
    /// Its header: length, offset and flags are right.
    pub header: Header,
    /// All options in the first piece, those that are copied in the others.
    pub options: FragmentOptions,
    /// The bytes of the payload that it carries.
    pub payload: Range<usize>,
}

impl OutgoingFragment {
    /// Writes the piece of `payload`, which is that of the whole datagram; returns how many bytes
    /// the piece has. `None` where `out` is too short, or `payload` is not the one the pieces were
    /// made for.
    #[must_use]
    pub fn emit(&self, payload: &[u8], out: &mut [u8]) -> Option<usize> {
        let payload = payload.get(self.payload.clone())?;
        let header_bytes = self.options.header_bytes();
        let total_bytes = header_bytes + payload.len();
        out.get_mut(header_bytes..total_bytes)?.copy_from_slice(payload);
        self.header.emit(&self.options, out)?;
        Some(total_bytes)
    }
}

/// The pieces of a datagram in order, each as long as the MTU allows.
#[derive(Clone, Debug)]
pub struct Pieces {
    header: Header,
    first: FragmentOptions,
    rest: FragmentOptions,
    payload_bytes: usize,
    mtu: usize,
    at: usize,
    done: bool,
}

impl Pieces {
    /// Splits a datagram with `header` (whose total length is ignored), `options` and this many
    /// bytes of payload, for a link of `mtu` bytes. It may be a fragment itself.
    pub fn new(
        header: Header,
        options: &[u8],
        payload_bytes: usize,
        mtu: usize,
    ) -> Result<Pieces, FragmentError> {
        if mtu < LEAST_MTU {
            return Err(FragmentError::Mtu);
        }
        if options.len() > MOST_OPTION_BYTES {
            return Err(FragmentError::Options);
        }
        let mut first =
            FragmentOptions { bytes: [0; MOST_OPTION_BYTES], length: options.len() as u8 };
        first.bytes[..options.len()].copy_from_slice(options);
        let mut rest = FragmentOptions { bytes: [0; MOST_OPTION_BYTES], length: 0 };
        rest.length = options::copied_on_fragments(options, &mut rest.bytes) as u8;
        let total_bytes = first.header_bytes() + payload_bytes;
        if usize::from(header.offset_bytes) + total_bytes > MOST_BYTES {
            return Err(FragmentError::TooLong);
        }
        let is_fragment = header.more_fragments || header.offset_bytes > 0;
        let uneven = header.more_fragments && !payload_bytes.is_multiple_of(8);
        if uneven || is_fragment && payload_bytes == 0 || !header.offset_bytes.is_multiple_of(8) {
            return Err(FragmentError::Fragment);
        }
        if total_bytes > mtu && header.dont_fragment {
            return Err(FragmentError::DontFragment);
        }
        Ok(Pieces { header, first, rest, payload_bytes, mtu, at: 0, done: false })
    }
}

impl Iterator for Pieces {
    type Item = OutgoingFragment;

    fn next(&mut self) -> Option<OutgoingFragment> {
        if self.done {
            return None;
        }
        let options = if self.at == 0 { self.first } else { self.rest };
        let left = self.payload_bytes - self.at;
        // At least 8: the MTU is 68 or more, a header 60 or less.
        let room = self.mtu - options.header_bytes();
        let bytes = if left <= room { left } else { room & !7 };
        let payload = self.at..self.at + bytes;
        self.done = bytes == left;
        let header = Header {
            total_bytes: (options.header_bytes() + bytes) as u16,
            more_fragments: !self.done || self.header.more_fragments,
            offset_bytes: self.header.offset_bytes + self.at as u16,
            ..self.header
        };
        self.at += bytes;
        Some(OutgoingFragment { header, options, payload })
    }
}
