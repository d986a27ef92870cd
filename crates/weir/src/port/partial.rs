//! A message that comes in several records, until it is whole and received.

use crate::error::{Error, ErrorKind, Result};
use std::time::Instant;

/// Bytes that each writer of long messages keeps for putting them together.
const KEPT_BYTES: usize = 256 << 10;

/// What is known of a writer's message that comes in several records, and the memory that it uses.
#[derive(Debug, Default)]
pub struct PartialMessage {
    /// The pieces that were put away, or all of the message once `complete`.
    bytes: Vec<u8>,
    /// The message has begun, and its last piece has not been taken.
    pub in_message: bool,
    /// The message is whole, but no buffer has had room for it, or it was taken back.
    pub complete: bool,
    /// A piece was taken back: whether it was the first and the last.
    pub piece: Option<(bool, bool)>,
    /// When the message began of which pieces were put away.
    pub begun: Option<Instant>,
    /// The memory for unfinished messages that is counted as its writer's.
    pub kept_bytes: u64,
    /// The writer waits for such memory.
    pub held_up: bool,
    /// The writer may use more than the limit of such memory.
    pub is_first: bool,
}

impl PartialMessage {
    /// The bytes that were put away.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The memory that it uses.
    pub fn memory_bytes(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// Forgets what was put away, and keeps its memory for the next message.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.begun = None;
    }

    /// Forgets the message, and frees its memory.
    pub fn discard(&mut self) {
        self.bytes = Vec::new();
        (self.complete, self.in_message, self.begun) = (false, false, None);
        self.piece = None;
    }

    /// Frees memory that is only kept for later: how many bytes.
    pub fn give_back_memory(&mut self) -> u64 {
        if !self.bytes.is_empty() || self.complete {
            return 0;
        }
        self.bytes = Vec::new();
        std::mem::take(&mut self.kept_bytes)
    }

    /// Whether this many more bytes can be put away, with `room_bytes` of new memory.
    pub fn has_room(&self, bytes: usize, room_bytes: u64) -> bool {
        let room = self.memory_bytes().saturating_add(room_bytes);
        (self.bytes.len() + bytes) as u64 <= room
    }

    /// Makes room for this many bytes, and for some more if `room_bytes` allow it.
    fn make_room(&mut self, bytes: usize, room_bytes: u64) {
        let (had, has) = (self.bytes.len(), self.bytes.capacity());
        if had == 0 {
            self.begun = Some(Instant::now());
        }
        if has - had < bytes {
            let room = usize::try_from(room_bytes).unwrap_or(usize::MAX);
            let more = (has - had).saturating_add(room).min(bytes.max(had / 4));
            self.bytes.reserve_exact(more.max(bytes));
        }
    }

    /// Puts pieces away that are in a buffer.
    pub fn put_away(&mut self, pieces: &[u8], room_bytes: u64) {
        self.make_room(pieces.len(), room_bytes);
        self.bytes.extend_from_slice(pieces);
    }

    /// Adds a piece of this many zeros: where its bytes belong.
    pub fn add(&mut self, bytes: usize, room_bytes: u64) -> &mut [u8] {
        self.make_room(bytes, room_bytes);
        let had = self.bytes.len();
        self.bytes.resize(had + bytes, 0);
        &mut self.bytes[had..]
    }

    /// Takes a message back, or a piece, that was received and comes again.
    pub fn take_back(&mut self, bytes: &[u8], piece: Option<(bool, bool)>) {
        self.put_away(bytes, u64::MAX);
        (self.complete, self.piece) = (true, piece);
    }

    /// Copies the whole message to a buffer: how many bytes.
    pub fn deliver(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.bytes.len();
        if bytes > buffer.len() {
            return Err(too_small(bytes, buffer.len()));
        }
        buffer[..bytes].copy_from_slice(&self.bytes);
        self.complete = false;
        self.clear();
        // Frees the memory of a very long message.
        self.bytes.shrink_to(KEPT_BYTES);
        Ok(bytes)
    }
}

#[cold]
pub fn too_small(message: usize, buffer: usize) -> Error {
    let why = format!("the message has {message} bytes, the buffer {buffer}");
    let error = Error::new(ErrorKind::TooSmall, "read from", "the port", why);
    error.with_bytes(message)
}
