//! The header of a segment of TCP (RFC 9293, 3.1), as far as this side looks at it.

use crate::wire::ports::LEAST_TCP_BYTES;

/// Flags.
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
/// The option that says by how many bits windows are shifted (RFC 7323, 2.2), and its most bits.
const WINDOW_SCALE: u8 = 3;
const MOST_SHIFT: u8 = 14;

/// What a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The port of its sender.
    pub source: u16,
    /// The port that it is for.
    pub destination: u16,
    /// The number of its first byte.
    pub sequence: u32,
    /// The number of the byte that its sender expects next; only with [`ACK`].
    pub acknowledgement: u32,
    pub flags: u8,
    /// The window field, not shifted.
    pub window: u16,
    pub data_bytes: u32,
    header_bytes: usize,
}

impl Segment {
    /// Looks at the payload of an IP datagram; `None` where that is shorter than its header.
    pub fn of(payload: &[u8]) -> Option<Segment> {
        let header = payload.first_chunk::<LEAST_TCP_BYTES>()?;
        let header_bytes = (usize::from(header[12] >> 4) * 4).max(LEAST_TCP_BYTES);
        let data_bytes = payload.len().checked_sub(header_bytes)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
        Some(Segment {
            source: word(0),
            destination: word(2),
            sequence: long(4),
            acknowledgement: long(8),
            flags: header[13],
            window: word(14),
            // Fits: a datagram has at most 65,535 bytes.
            data_bytes: data_bytes as u32,
            header_bytes,
        })
    }

    /// Whether all of these flags are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Returns the number after its last byte; SYN and FIN count as one each.
    pub fn end(&self) -> u32 {
        let marks = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        self.sequence.wrapping_add(self.data_bytes).wrapping_add(marks)
    }

    /// Returns by how many bits its sender shifts windows, if the options of `payload`, which it was
    /// made of, say so.
    pub fn window_shift(&self, payload: &[u8]) -> Option<u8> {
        let mut options = payload.get(LEAST_TCP_BYTES..self.header_bytes)?;
        loop {
            match *options {
                [1, ref rest @ ..] => options = rest,
                [WINDOW_SCALE, 3, shift, ..] => return Some(shift.min(MOST_SHIFT)),
                [kind, bytes, ..] if kind > 1 && bytes > 1 => {
                    options = options.get(usize::from(bytes)..)?;
                }
                _ => return None,
            }
        }
    }
}

/// Whether one sequence number comes before another.
pub fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_options(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; LEAST_TCP_BYTES];
        bytes[12] = ((LEAST_TCP_BYTES + options.len()) as u8 / 4) << 4;
        bytes.extend_from_slice(options);
        bytes
    }

    #[test]
    fn the_shift_of_windows_is_found_among_options() {
        let shift = |options: &[u8]| {
            let bytes = with_options(options);
            Segment::of(&bytes).expect("a header").window_shift(&bytes)
        };
        assert_eq!(shift(&[]), None);
        assert_eq!(shift(&[2, 4, 5, 180, 1, 3, 3, 7]), Some(7));
        assert_eq!(shift(&[3, 3, 200, 0]), Some(14), "more than 14 is 14 (RFC 7323, 2.3)");
        assert_eq!(shift(&[0, 3, 3, 7]), None, "after the end of the list");
        assert_eq!(shift(&[2, 0, 3, 3]), None, "an option without a length");
        assert_eq!(shift(&[2, 9, 3, 3]), None, "an option beyond the header");
    }

    #[test]
    fn a_segment_shorter_than_its_header_is_none() {
        let mut bytes = with_options(&[1; 8]);
        assert_eq!(Segment::of(&bytes).expect("a header").data_bytes, 0);
        bytes.pop();
        assert_eq!(Segment::of(&bytes), None);
        assert_eq!(Segment::of(&bytes[..19]), None);
    }

    #[test]
    fn the_numbers_of_a_segment_go_round() {
        let mut bytes = with_options(&[]);
        bytes[4..8].fill(0xff);
        bytes[13] = SYN | FIN;
        bytes.extend_from_slice(b"abc");
        let segment = Segment::of(&bytes).expect("a header");
        assert_eq!((segment.sequence, segment.end()), (u32::MAX, 4));
        assert!(is_before(segment.sequence, segment.end()));
        assert!(!is_before(segment.end(), segment.sequence));
    }
}
