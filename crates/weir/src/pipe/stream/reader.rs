//! The reader of a stream.

use crate::error::{ErrorKind, Result};
use crate::memory::Map;
use crate::park::{Timeout, Until};
use crate::pipe::connection::Role;
use crate::pipe::end::{End, WaitOutcome, drain::has_moved};
use crate::pipe::endpoint::{Endpoint, Ring};
use crate::pipe::options::ReaderOptions;
use crate::pipe::storage::{corrupt, not_next};
use std::io;
use weir_ring::account::raise;
use weir_ring::layout::STREAM;
use weir_ring::primitive::Ordering;
use weir_ring::stream::StreamReader;
use weir_ring::{Corrupt, RingMemory};

/// The reader of a stream, which is a [`std::io::Read`] too. Dropping it closes the stream.
///
/// ```
/// use std::io::Read as _;
/// let (mut writer, mut reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"hello")?;
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It is no [`std::io::BufRead`], which lends `&[u8]`: the writer's process could change such bytes
/// while they are borrowed, and Rust does not allow that. [`std::io::BufReader`] copies them once,
/// and reads lines:
///
/// ```
/// use std::io::{BufRead as _, BufReader};
/// let (mut writer, reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"one\ntwo\n")?;
/// drop(writer);
/// let lines: Vec<String> = BufReader::new(reader).lines().collect::<Result<_, _>>()?;
/// assert_eq!(lines, ["one", "two"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub type Reader = Endpoint<StreamReader>;

/// Whether there is something to read in this memory, or another memory to move to.
fn poll(ring: &mut StreamReader, map: &impl RingMemory) -> Result<bool> {
    let there = ring.available(map, 1).map_err(|c| corrupt(Role::Reader, c))?;
    Ok(there > 0 || has_moved(map.header()))
}

/// Arms the doorbell. The next memory comes after the last bytes of this one: while there are some,
/// the reader does not continue there.
fn arm(end: &mut End, ring: &mut StreamReader) {
    end.arm_and(|map| !matches!(ring.available(map, 1), Ok(1..)));
}

impl Endpoint<StreamReader> {
    /// Reads what is there, waiting for at least one byte as long as it takes. Returns how many
    /// bytes it read, 0 once the writer is gone and everything is read.
    ///
    /// A read of more than a segment gives its room back segment by segment, so that the writer goes
    /// on meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there, without waiting.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is there. Those of [`Reader::read`].
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what is there, waiting for at least one byte until the timeout.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. Those of [`Reader::read`].
    pub fn read_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<usize> {
        self.read_until(buffer, timeout.into().start())
    }

    /// Reads what is there, and mostly something is. Otherwise it waits first.
    pub(crate) fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        self.end.check_here()?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let is_there = self.bytes_up_to(1)? > 0;
        if !is_there && !self.wait_for_bytes(until)? {
            return Ok(0);
        }
        self.end.adopt_writer_settings();
        let there = self.bytes_up_to(buffer.len() as u64)?;
        let bytes = there.min(buffer.len() as u64) as usize;
        let mut rest = &mut buffer[..bytes];
        while !rest.is_empty() {
            let step = self.end.shape.read_step_bytes(rest.len() as u64) as usize;
            let (now, later) = std::mem::take(&mut rest).split_at_mut(step);
            self.take(now);
            rest = later;
        }
        let end = &mut self.end;
        raise(&end.account_line().largest_fill, there);
        end.taken(1, bytes);
        end.acted();
        Ok(bytes)
    }

    /// The bytes that are known to be there, or all there are if fewer than these are known.
    fn bytes_up_to(&mut self, bytes: u64) -> Result<u64> {
        self.ring.available(&*self.end.map, bytes).map_err(|c| corrupt(Role::Reader, c))
    }

    /// Takes bytes that are there, gives their room back, and wakes a writer that waits for it.
    fn take(&mut self, to: &mut [u8]) {
        let Endpoint { end, ring } = self;
        ring.take(&*end.map, to);
        ring.publish(&*end.map);
        let (shape, position) = (end.shape, ring.position());
        end.wake_other(|header| {
            // Acquire: pairs with the release in `StreamWriter::publish`.
            let written = header.writer.position.load(Ordering::Acquire);
            let room = shape.capacity_bytes().saturating_sub(written.wrapping_sub(position));
            shape.wakes_writer(room, header.writer_sleep.wanted.load(Ordering::Relaxed))
        });
    }

    /// Waits for something to read: spins, then sleeps. Returns false once the writer is gone and
    /// everything is read.
    #[cold]
    fn wait_for_bytes(&mut self, until: Until) -> Result<bool> {
        loop {
            if self.bytes_up_to(1)? > 0 {
                return Ok(true);
            }
            if has_moved(self.end.header()) {
                self.go_on()?;
                continue;
            }
            let Endpoint { end, ring } = &mut *self;
            if until == Until::Now {
                arm(end, ring);
                let gone = end.is_gone();
                // Looked at after `is_gone`: what the writer wrote before it went counts.
                match (poll(ring, &*end.map)?, gone) {
                    (true, _) => continue,
                    (false, true) => return Ok(false),
                    (false, false) => return Err(end.error(ErrorKind::WouldBlock, "it is empty")),
                }
            }
            if end.spin(until, |map| Ok(poll(ring, &map)?.then_some(())))?.is_some() {
                continue;
            }
            match end.sleep(until, &mut |map| poll(ring, map))? {
                WaitOutcome::Ready => {}
                WaitOutcome::Gone => return Ok(false),
                WaitOutcome::TimedOut => {
                    return Err(end.error(ErrorKind::TimedOut, "it stayed empty"));
                }
            }
        }
    }

    /// Moves to the memory that follows this one, if there is one and this is drained.
    fn go_on(&mut self) -> Result<()> {
        // Looked at after `has_moved`: the last bytes may have come before the announcement.
        let is_over = has_moved(self.end.header()) && self.bytes_up_to(1)? == 0;
        if is_over { self.follow() } else { Ok(()) }
    }

    /// Moves to the memory that follows this one, which is drained.
    fn follow(&mut self) -> Result<()> {
        let position = self.ring.position();
        self.ring = self.end.follow(|map| {
            let ring = StreamReader::resume(map).map_err(|c| corrupt(Role::Reader, c))?;
            let follows = ring.position() == position;
            follows.then_some(ring).ok_or_else(|| not_next("its new memory begins elsewhere"))
        })?;
        Ok(())
    }

    /// Returns how many bytes, at least, can be read without waiting, until this end reads.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn available(&mut self) -> Result<u64> {
        self.end.check_here()?;
        self.bytes_up_to(u64::MAX)
    }
}

impl Ring for StreamReader {
    const ROLE: Role = Role::Reader;
    const KIND: u32 = STREAM;
    type Options = ReaderOptions;

    fn resume(map: &Map) -> std::result::Result<StreamReader, Corrupt> {
        StreamReader::resume(map)
    }

    fn has_drained(&mut self, map: &Map) -> bool {
        self.available(map, 1) == Ok(0)
    }

    fn move_to_next_memory(reader: &mut Reader) -> Result<()> {
        reader.go_on()
    }

    fn is_ready(&mut self, end: &mut End, _: u64) -> Result<bool> {
        Ok(end.is_gone() || poll(self, &*end.map)?)
    }
}

impl io::Read for Endpoint<StreamReader> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(Reader::read(self, buffer)?)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::pipe::options::Options;

    /// A reader in poll that had found nothing took the pipe's next memory off its socket, although
    /// bytes had come meanwhile, or its writer had not announced it yet. Handed on then, it left
    /// that memory behind, with all that was in it.
    #[test]
    fn a_reader_in_poll_is_handed_on_with_what_comes_next() {
        for bytes in [0, 100] {
            let small = Options::new().capacity_bytes(4096);
            let (mut writer, mut reader) = crate::pipe(&small).expect("made");
            reader.poll_descriptor().expect("made");
            writer.write(&vec![1; bytes]).expect("written");
            writer.resize(65_536).expect("resized");
            // As it was before the last step of that.
            let map = reader.end.map.clone();
            let number = map.header().writer.moved.swap(0, Ordering::Relaxed);
            // The end of a call that has found nothing.
            arm(&mut reader.end, &mut reader.ring);
            writer.write(&[2; 200]).expect("written");
            let (mut came, mut buffer) = (Vec::new(), [0; 64]);
            if bytes > 0 {
                map.header().writer.moved.store(number, Ordering::Relaxed);
                let count = reader.read(&mut buffer[..10]).expect("read");
                came.extend_from_slice(&buffer[..count]);
            }
            let handle = reader.into_handle().expect("handed on");
            map.header().writer.moved.store(number, Ordering::Relaxed);
            let mut reader = Reader::open(handle).expect("opened");
            while came.len() < bytes + 200 {
                let count = reader.read(&mut buffer).expect("it is there");
                came.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(came, [vec![1; bytes], vec![2; 200]].concat());
            assert_eq!(reader.account().expect("here").bytes, bytes as u64 + 200);
        }
    }
}
