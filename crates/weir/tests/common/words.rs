//! Ends that write valid words of the protocol of ports in any order: whole records, in the right
//! places, without regard to what they mean. Written without the library.

#![allow(dead_code, reason = "each test program uses a part")]

use super::raw::{dial, receive_file, send};
use rustix::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weir::{Handle, Options, Port};

pub const FIRST: u32 = 1 << 8;
pub const LAST: u32 = 2 << 8;
const DATA: u32 = 1;
const COMMITTED: u32 = 1 << 31;
const HEADER_BYTES: u64 = 4096;
/// Longest record that is in the ring itself.
pub const INLINE_BYTES: usize = 1024;

/// A writer of a port: its ring, its socket, and the board if it has got one.
pub struct Words {
    pub ring: OwnedFd,
    pub mapped: weir_sys::words::Words,
    pub socket: OwnedFd,
    pub board: Option<OwnedFd>,
    ring_bytes: u64,
    written: u64,
}

impl Words {
    /// Connects with a valid ring, as an honest writer does.
    pub fn enter(name: &Path, port: &mut Port, ring_bytes: u64) -> Words {
        let had = port.writers().expect("mine").len();
        let mut words = Words::connect(name, ring_bytes);
        let begun = Instant::now();
        while port.writers().expect("mine").len() == had {
            assert!(begun.elapsed() < Duration::from_secs(10), "it is let in");
        }
        words.board = receive_file(words.socket.as_fd());
        words
    }

    /// Hands a ring over, and does not wait. The ring is mapped here first, because later nobody
    /// can map it.
    pub fn connect(name: &Path, ring_bytes: u64) -> Words {
        Words::over(dial(name), ring_bytes)
    }

    /// Hands a ring over by a connection that was made before.
    pub fn over(socket: OwnedFd, ring_bytes: u64) -> Words {
        let options = Options::new().capacity_bytes(ring_bytes);
        let (writer, _reader) = Handle::record_pair(&options).expect("a pipe");
        let (ring, _) = writer.into_descriptors();
        // A ring of a port, by the kind its header says.
        rustix::io::pwrite(&ring, &3_u32.to_le_bytes(), 12).expect("written");
        let mapped = words_of(&ring);
        send(socket.as_fd(), b"weir-port", &[ring.as_fd()]);
        Words { ring, mapped, socket, board: None, ring_bytes, written: 0 }
    }

    /// The bytes of the ring that are free, by the reader's position.
    pub fn room(&self) -> u64 {
        let mut read = [0; 8];
        rustix::io::pread(&self.ring, &mut read, 256).expect("read");
        self.ring_bytes - self.written.wrapping_sub(u64::from_le_bytes(read))
    }

    /// Writes bytes through the mapping, and leaves those beside them as they are.
    fn write(&self, at: u64, bytes: &[u8]) {
        for (place, byte) in (at..).zip(bytes) {
            let (index, shift) = ((place / 8) as usize, 8 * (place % 8));
            let put = |word: u64| Some(word & !(0xFF << shift) | u64::from(*byte) << shift);
            let word = self.mapped.word(index);
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, put);
        }
    }

    fn put_at(&self, position: u64, bytes: &[u8]) {
        let at = position & (self.ring_bytes - 1);
        let first = bytes.len().min((self.ring_bytes - at) as usize);
        for (at, part) in [(at, &bytes[..first]), (0, &bytes[first..])] {
            if !part.is_empty() {
                self.write(HEADER_BYTES + at, part);
            }
        }
    }

    /// Puts a record of at most [`INLINE_BYTES`]. Returns whether there was room.
    pub fn put(&mut self, flags: u32, bytes: &[u8]) -> bool {
        let room = footprint(bytes.len());
        if self.room() < room {
            return false;
        }
        self.half(flags, bytes);
        let word = COMMITTED | bytes.len() as u32;
        self.put_at(self.written, &word.to_le_bytes());
        self.written += room;
        true
    }

    /// Puts all of a record except the word that commits it.
    pub fn half(&mut self, flags: u32, bytes: &[u8]) {
        let record = [&(DATA | flags).to_le_bytes(), bytes].concat();
        self.put_at(self.written + 4, &record);
    }

    /// Puts at most this many records of no bytes, as room allows. Returns how many it put.
    pub fn flood(&mut self, flags: u32, most: u64) -> u64 {
        let count = (self.room() / 8).min(most);
        let record = [COMMITTED.to_le_bytes(), (DATA | flags).to_le_bytes()].concat();
        self.put_at(self.written, &record.repeat(count as usize));
        self.written += count * 8;
        count
    }

    /// Announces that it has closed.
    pub fn say_closed(&self) {
        self.write(512 + 4, &1_u32.to_le_bytes());
    }
}

/// The words of a file, mapped.
pub fn words_of(file: &OwnedFd) -> weir_sys::words::Words {
    let file = std::fs::File::from(file.try_clone().expect("copied"));
    let bytes = file.metadata().expect("known").len() as usize;
    weir_sys::words::Words::of_file(&file, bytes).expect("mapped")
}

/// Bytes of the ring that a record takes.
pub fn footprint(bytes: usize) -> u64 {
    let needed = (8 + bytes as u64).max(8);
    if needed <= 64 { needed.next_power_of_two() } else { needed.next_multiple_of(64) }
}
