//! Bytes that the receiver knows and checks.
//!
//! Each chunk begins with its number (as much of it as fits), followed by a fixed sequence. Each of
//! several writers may have its own numbers. The reader checks every number, and the sum of all
//! bytes of every 64th chunk. A checksum of each chunk would be measured along with the transfer,
//! since it runs at about the speed of memcpy.

use crate::engine::case::CaseError;
use weir_policy::random::Random;

/// One chunk in this many is summed in full.
const SUMMED_EVERY: u64 = 64;
const NUMBER_BYTES: usize = 8;

/// Makes or checks chunks of one size.
#[derive(Clone, Debug)]
pub struct Pattern {
    chunk: Vec<u8>,
    sum: u64,
    number: u64,
    step: u64,
    /// Number of chunks made or checked so far.
    count: u64,
}

impl Pattern {
    /// Creates the pattern of chunks of `bytes` bytes, numbered from 0.
    pub fn new(bytes: usize) -> Pattern {
        Pattern::of(bytes, 0, 1)
    }

    /// Creates the pattern of writer `writer` of `writers`, a power of two. Its numbers, or as much
    /// of them as fits, have the remainder `writer` when divided by `writers`.
    pub fn of(bytes: usize, writer: u64, writers: u64) -> Pattern {
        let mut random = Random::new(bytes as u64);
        let mut chunk: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
        let head = bytes.min(NUMBER_BYTES);
        chunk[..head].fill(0);
        let sum = sum(&chunk[head..]);
        Pattern { chunk, sum, number: writer, step: writers, count: 0 }
    }

    /// Makes the next chunk.
    #[inline]
    pub fn next_chunk(&mut self) -> &[u8] {
        let number = self.number.to_le_bytes();
        // With a known length this is one instruction; nanoseconds count for a small record.
        if let Some(head) = self.chunk.first_chunk_mut::<NUMBER_BYTES>() {
            *head = number;
        } else if let Some(head) = self.chunk.as_mut_array::<4>() {
            *head = *number.first_chunk().expect("8 bytes");
        } else {
            let head = self.chunk.len();
            self.chunk.copy_from_slice(&number[..head]);
        }
        self.number += self.step;
        self.count += 1;
        &self.chunk
    }

    /// Checks the next chunk that arrived.
    #[inline]
    pub fn check(&mut self, chunk: &[u8]) -> Result<(), CaseError> {
        let (number, count) = (self.number, self.count);
        self.number += self.step;
        self.count += 1;
        let numbered = match chunk.split_first_chunk::<NUMBER_BYTES>() {
            Some((head, rest)) => {
                *head == number.to_le_bytes()
                    && (!count.is_multiple_of(SUMMED_EVERY) || sum(rest) == self.sum)
            }
            None if chunk.len() == 4 => {
                chunk.first_chunk() == number.to_le_bytes().first_chunk::<4>()
            }
            None => *chunk == number.to_le_bytes()[..chunk.len()],
        };
        if numbered && chunk.len() == self.chunk.len() { Ok(()) } else { Err(wrong(number)) }
    }
}

#[cold]
fn wrong(number: u64) -> CaseError {
    CaseError::failed(format!("chunk {number} arrived with wrong bytes"))
}

/// Returns a sum that depends on every byte and on the order of the words.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let add = |sum: u64, word: u64| sum.rotate_left(1).wrapping_add(word);
    let sum = words.iter().fold(0, |sum, word| add(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| add(sum, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_accepted_and_nothing_else() {
        for bytes in [1, 4, 6, 8, 100] {
            let (mut writer, mut reader) = (Pattern::new(bytes), Pattern::new(bytes));
            for _ in 0..200 {
                let chunk = writer.next_chunk().to_vec();
                reader.check(&chunk).expect("as sent");
            }
        }
        let (mut writer, mut reader) = (Pattern::new(100), Pattern::new(100));
        let mut torn = writer.next_chunk().to_vec();
        torn[60] ^= 1;
        assert!(reader.check(&torn).is_err(), "a byte changed");
        writer.next_chunk();
        assert!(reader.check(writer.next_chunk()).is_err(), "one was lost");
        assert!(Pattern::new(4).check(&[0; 3]).is_err(), "one is short");
        let mut third = Pattern::of(4, 3, 4);
        assert_eq!((third.next_chunk()[0], third.next_chunk()[0]), (3, 7));
        let (mut far, mut reader) = (Pattern::of(6, 1 << 33, 1), Pattern::of(6, 1 << 33, 1));
        assert_eq!(far.next_chunk(), [0, 0, 0, 0, 2, 0], "as much of the number as fits");
        reader.check(&[0, 0, 0, 0, 2, 0]).expect("as sent");
    }

    #[test]
    fn the_sum_sees_bytes_and_order() {
        assert_ne!(sum(b"abcdefgh12345678"), sum(b"12345678abcdefgh"));
        assert_ne!(sum(b"x"), sum(b"y"));
    }
}
