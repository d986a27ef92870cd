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
fn look(ring: &mut StreamReader, map: &impl RingMemory) -> Result<bool> {
    let there = ring.available(map, 1).map_err(|c| corrupt(Role::Reader, c))?;
    Ok(there > 0 || has_moved(map.header()))
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

    pub(crate) fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        self.end.check_here()?;
        if buffer.is_empty() || !self.come(until)? {
            return Ok(0);
        }
        let Endpoint { end, ring } = self;
        let map = &*end.map;
        let wanted = buffer.len() as u64;
        let there = ring.available(map, wanted).map_err(|c| corrupt(Role::Reader, c))?;
        let bytes = there.min(wanted) as usize;
        let (shape, mut rest) = (end.shape, &mut buffer[..bytes]);
        while !rest.is_empty() {
            let step = shape.read_step_bytes(rest.len() as u64) as usize;
            let (now, later) = std::mem::take(&mut rest).split_at_mut(step);
            rest = later;
            ring.take(map, now, end.dirtying.now());
            ring.publish(map);
            let position = ring.position();
            end.wake_other(|header| {
                // Acquire: pairs with the release in `StreamWriter::publish`.
                let written = header.writer.position.load(Ordering::Acquire);
                let fill = written.wrapping_sub(position);
                let room = shape.capacity_bytes().saturating_sub(fill);
                shape.wakes_writer(room, header.writer_sleep.wanted.load(Ordering::Relaxed))
            });
        }
        raise(&end.account_line().largest_fill, there);
        end.taken(1, bytes);
        end.acted();
        Ok(bytes)
    }

    /// Waits for something to read. Returns false once the writer is gone and everything is read.
    fn come(&mut self, until: Until) -> Result<bool> {
        loop {
            let Endpoint { end, ring } = &mut *self;
            let fail = |c| corrupt(Role::Reader, c);
            if ring.available(&*end.map, 1).map_err(fail)? > 0 {
                return Ok(true);
            }
            if has_moved(end.header()) {
                // Look again: the last bytes may have come before the announcement.
                if ring.available(&*end.map, 1).map_err(fail)? == 0 {
                    self.follow()?;
                }
                continue;
            }
            if until == Until::Now {
                end.arm();
                let gone = end.is_gone();
                // Looked at after `is_gone`: what the writer wrote before it went counts.
                if look(ring, &*end.map)? {
                    continue;
                }
                let empty = end.error(ErrorKind::WouldBlock, "it is empty");
                return if gone { Ok(false) } else { Err(empty) };
            }
            if end.spin(until, |map| Ok(look(ring, &map)?.then_some(())))?.is_some() {
                continue;
            }
            match end.sleep(until, &mut |map| look(ring, map))? {
                WaitOutcome::Ready => {}
                WaitOutcome::Gone => return Ok(false),
                WaitOutcome::TimedOut => {
                    return Err(end.error(ErrorKind::TimedOut, "it stayed empty"));
                }
            }
        }
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
        let (end, ring) = self.parts()?;
        ring.available(&*end.map, u64::MAX).map_err(|c| corrupt(Role::Reader, c))
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
        // Looked at after the announcement: the last bytes came before it.
        has_moved(map.header()) && self.available(map, 1) == Ok(0)
    }

    fn is_ready(&mut self, end: &End, _: u64) -> Result<bool> {
        Ok(end.is_gone() || look(self, &*end.map)?)
    }
}

impl io::Read for Endpoint<StreamReader> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(Reader::read(self, buffer)?)
    }
}
