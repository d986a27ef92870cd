//! A ring of bytes. It is full when `written - read == capacity`.

use super::{Area, Corrupt, RingMemory, check_behind};
use crate::primitive::Ordering;

/// The writer's side of a stream.
#[derive(Debug, Default)]
pub struct StreamWriter {
    written: u64,
    read_seen: u64,
    capacity: u64,
}

/// The reader's side of a stream.
#[derive(Debug, Default)]
pub struct StreamReader {
    read: u64,
    written_seen: u64,
    capacity: u64,
}

impl StreamWriter {
    /// Goes on where the memory says that the writer was.
    pub fn resume(memory: &impl RingMemory) -> Result<StreamWriter, Corrupt> {
        let capacity = memory.bytes(Area::Ring);
        // Acquire: an end that was handed on finds what its former owner published.
        let written = memory.header().writer.position.load(Ordering::Acquire);
        let read = memory.header().reader.position.load(Ordering::Acquire);
        let read_seen = check_behind(written, read, capacity, "the reader's position")?;
        Ok(StreamWriter { written, read_seen, capacity })
    }

    /// Returns the known room, or all there is if less than `needed` is known.
    pub fn room(&mut self, memory: &impl RingMemory, needed: u64) -> Result<u64, Corrupt> {
        let known = self.capacity - self.fill();
        if known >= needed {
            return Ok(known);
        }
        // Acquire pairs with the release in `StreamReader::publish`: the bytes have been copied
        // out before they are written over.
        let alleged = memory.header().reader.position.load(Ordering::Acquire);
        self.read_seen =
            check_behind(self.written, alleged, self.capacity, "the reader's position")?;
        Ok(self.capacity - self.fill())
    }

    /// Copies in bytes for which there is room. The reader does not see them yet.
    pub fn put(&mut self, memory: &impl RingMemory, bytes: &[u8]) {
        memory.copy_in(Area::Ring, self.written, bytes);
        self.written = self.written.wrapping_add(bytes.len() as u64);
    }

    /// Shows the reader all that was put.
    pub fn publish(&self, memory: &impl RingMemory) {
        // Release pairs with the acquire in `StreamReader::available`: the bytes are there.
        memory.header().writer.position.store(self.written, Ordering::Release);
    }

    /// Returns the bytes written that are not known to be read.
    #[inline]
    pub fn fill(&self) -> u64 {
        self.written.wrapping_sub(self.read_seen)
    }

    /// Returns the bytes written in all.
    #[inline]
    pub fn position(&self) -> u64 {
        self.written
    }
}

impl StreamReader {
    /// Goes on where the memory says that the reader was.
    pub fn resume(memory: &impl RingMemory) -> Result<StreamReader, Corrupt> {
        let capacity = memory.bytes(Area::Ring);
        // Acquire pairs with the release in `publish`: a reader that was handed on finds what its
        // former owner did.
        let read = memory.header().reader.position.load(Ordering::Acquire);
        let mut reader = StreamReader { read, written_seen: read, capacity };
        reader.available(memory, u64::MAX)?;
        Ok(reader)
    }

    /// Returns the bytes known to be there, or all there are if fewer than `needed` are known.
    pub fn available(&mut self, memory: &impl RingMemory, needed: u64) -> Result<u64, Corrupt> {
        let known = self.written_seen.wrapping_sub(self.read);
        if known >= needed {
            return Ok(known);
        }
        // Acquire pairs with the release in `StreamWriter::publish`.
        let alleged = memory.header().writer.position.load(Ordering::Acquire);
        let ahead = alleged.wrapping_sub(self.read);
        if ahead > self.capacity || ahead < known {
            return Err(Corrupt("the writer's position"));
        }
        self.written_seen = alleged;
        Ok(ahead)
    }

    /// Copies the next bytes out, which are there, and moves on.
    pub fn take(&mut self, memory: &impl RingMemory, to: &mut [u8]) {
        memory.copy_out(Area::Ring, self.read, to);
        self.read = self.read.wrapping_add(to.len() as u64);
    }

    /// Gives the room of what was taken back to the writer.
    pub fn publish(&self, memory: &impl RingMemory) {
        // Release pairs with the acquire in `StreamWriter::room`.
        memory.header().reader.position.store(self.read, Ordering::Release);
    }

    /// Returns the bytes read in all.
    #[inline]
    pub fn position(&self) -> u64 {
        self.read
    }
}
