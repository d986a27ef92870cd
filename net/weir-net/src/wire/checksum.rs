//! The Internet checksum (RFC 1071): a ones' complement sum of 16-bit words, in pieces.

/// A running sum. Pieces may have any length: after an odd one the next continues in mid-word.
///
/// Words are added in the machine's byte order, which RFC 1071 2 (B) allows: the sum of swapped
/// words is the swapped sum. It is swapped once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningSum {
    /// In the machine's byte order, carries not folded yet; below 2^32.
    words: u64,
    /// Whether an odd number of bytes was added so far.
    odd: bool,
}

impl RunningSum {
    /// Creates an empty sum.
    pub const fn new() -> RunningSum {
        RunningSum { words: 0, odd: false }
    }

    /// Adds bytes, which follow those added before.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.add_folded(sum(bytes), bytes.len() % 2 == 1);
    }

    /// Adds a header's word, given by value: its high byte comes first.
    #[inline]
    pub fn add_word(&mut self, word: u16) {
        self.add_folded(word.to_be(), false);
    }

    /// Returns the checksum for a header: the complement of the sum.
    #[inline]
    pub fn finish(&self) -> u16 {
        !u16::from_be(fold(self.words))
    }

    #[inline]
    fn add_folded(&mut self, piece: u16, odd: bool) {
        // A piece that begins at an odd byte has its words swapped.
        let piece = if self.odd { piece.swap_bytes() } else { piece };
        self.words = u64::from(fold(self.words)) + u64::from(piece);
        self.odd ^= odd;
    }
}

/// Returns the checksum of `bytes`, whose checksum field, if any, is zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    let mut sum = RunningSum::new();
    sum.add(bytes);
    sum.finish()
}

/// Whether `bytes`, including their checksum field, have a correct checksum.
///
/// Zeroes have none, and neither do no bytes: a correct sum is all ones.
#[inline]
pub fn is_right(bytes: &[u8]) -> bool {
    of(bytes) == 0
}

/// Returns the folded sum of the words of `bytes`, in the machine's order; an odd byte is the first
/// of its word.
fn sum(bytes: &[u8]) -> u16 {
    let (eights, rest) = bytes.as_chunks::<8>();
    // Two sums of 32-bit halves: neither overflows below 2^32 chunks, which is 32 GiB.
    let (mut low, mut high) = (0u64, 0u64);
    for eight in eights {
        let eight = u64::from_ne_bytes(*eight);
        low += eight & 0xffff_ffff;
        high += eight >> 32;
    }
    // Headers end here; copying up to 7 bytes would take longer than all the rest.
    let (fours, rest) = rest.as_chunks::<4>();
    for four in fours {
        low += u64::from(u32::from_ne_bytes(*four));
    }
    let (twos, rest) = rest.as_chunks::<2>();
    for two in twos {
        high += u64::from(u16::from_ne_bytes(*two));
    }
    if let [odd] = rest {
        high += u64::from(u16::from_ne_bytes([*odd, 0]));
    }
    fold(u64::from(fold(low)) + u64::from(fold(high)))
}

/// Adds carries back until none is left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 taken literally: sum the words, then fold the carries.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(of(&bytes), !0xddf2);
        let mut words = RunningSum::new();
        for word in [0x0001, 0xf203, 0xf4f5, 0xf6f7] {
            words.add_word(word);
        }
        assert_eq!(words.finish(), !0xddf2);
    }

    #[test]
    fn all_lengths_at_all_alignments() {
        let bytes: Vec<u8> =
            (0..700u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for start in 0..16 {
            for end in start..bytes.len() {
                assert_eq!(of(&bytes[start..end]), naive(&bytes[start..end]), "{start}..{end}");
            }
        }
    }

    #[test]
    fn the_longest_and_the_fullest() {
        for bytes in [vec![0xff; 65_535], vec![0xff; 65_536], vec![0; 65_535], vec![0x80; 65_535]] {
            assert_eq!(of(&bytes), naive(&bytes));
        }
        assert!(is_right(&[0xff; 20]) && !is_right(&[0; 20]) && !is_right(&[]));
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_sum_up_to_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 0..12),
            word in any::<u16>(),
            at in 0usize..12,
        ) {
            let (mut sum, mut whole) = (RunningSum::new(), Vec::new());
            for (index, piece) in pieces.iter().enumerate() {
                if index == at {
                    sum.add_word(word);
                    whole.extend_from_slice(&word.to_be_bytes());
                }
                sum.add(piece);
                whole.extend_from_slice(piece);
            }
            prop_assert_eq!(sum.finish(), naive(&whole));
            let checksum = of(&whole);
            if whole.len().is_multiple_of(2) {
                whole.extend_from_slice(&checksum.to_be_bytes());
                prop_assert!(is_right(&whole));
            }
        }
    }
}
