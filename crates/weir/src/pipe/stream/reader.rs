//! The end of a stream that reads.

use super::corrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::park::Until;
use crate::pipe::connection::Role;
use crate::pipe::end::{End, Ended};
use crate::pipe::handle::Handle;
use crate::pipe::options::Options;
use rustix::fd::BorrowedFd;
use std::io;
use std::time::Duration;
use weir_ring::Memory;
use weir_ring::account::{Account, add, raise};
use weir_ring::layout::{Header, STREAM};
use weir_ring::primitive::Ordering;
use weir_ring::stream::StreamReader;

/// The end of a stream that reads. Dropping it closes the stream.
#[derive(Debug)]
pub struct Reader {
    // `None` once it was handed on.
    pub(in crate::pipe) end: Option<End>,
    ring: StreamReader,
}

/// Whether there is something to read in a memory, or another to go over to.
fn look(ring: &mut StreamReader, map: &Map) -> Result<bool> {
    let there = ring.available(map, 1).map_err(|c| corrupt(Role::Reader, c))?;
    Ok(there > 0 || has_moved(map.header()))
}

fn has_moved(header: &Header) -> bool {
    // Acquire pairs with the release in `Writer::resize`: all that was published before is seen.
    header.writer.moved.load(Ordering::Acquire) != 0
}

impl Reader {
    pub(crate) fn over(end: End) -> Result<Reader> {
        let ring = StreamReader::resume(&*end.map).map_err(|c| corrupt(Role::Reader, c))?;
        Ok(Reader { end: Some(end), ring })
    }

    /// Opens an end that was handed on. Of the options its waiting and its habits count.
    ///
    /// # Errors
    /// The handle is a writer's, or its memory is not what it must be.
    pub fn open(handle: Handle, options: &Options) -> Result<Reader> {
        let (half, map) = handle.open_as(Role::Reader, STREAM)?;
        let resolved = options.resolve_over(&map)?;
        Reader::over(End::of(half, map, Role::Reader, &resolved)?)
    }

    /// Hands the end on.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn into_handle(mut self) -> Result<Handle> {
        self.end.take().ok_or_else(gone_on)?.into_handle()
    }

    fn end(&mut self) -> Result<&mut End> {
        let end = self.end.as_mut().ok_or_else(gone_on)?;
        end.check_here()?;
        Ok(end)
    }

    /// Reads what is there, at least a byte, waiting for it as long as it takes; 0 once the writer
    /// is gone and all is read.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory says what cannot be.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is.
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what comes in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came.
    pub fn read_for(&mut self, buffer: &mut [u8], time: Duration) -> Result<usize> {
        self.read_until(buffer, Until::after(time))
    }

    pub(crate) fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        self.end()?;
        if buffer.is_empty() || !self.come(until)? {
            return Ok(0);
        }
        let Reader { end, ring } = self;
        let end = end.as_mut().ok_or_else(gone_on)?;
        let map = &*end.map;
        let wanted = buffer.len() as u64;
        let there = ring.available(map, wanted).map_err(|c| corrupt(Role::Reader, c))?;
        let bytes = there.min(wanted) as usize;
        ring.take(map, &mut buffer[..bytes], end.dirties);
        ring.publish(map);
        let line = end.account_line();
        add(&line.bytes, bytes as u64);
        add(&line.records, 1);
        raise(&line.largest_fill, there);
        let (shape, position) = (end.shape, ring.position());
        end.wake_other(|header| {
            let written = header.writer.position.load(Ordering::Acquire);
            let fill = written.wrapping_sub(position);
            let room = shape.capacity_bytes().saturating_sub(fill);
            shape.wakes_writer(room, header.writer_sleep.wanted.load(Ordering::Relaxed))
        });
        end.moved(1);
        end.acted();
        Ok(bytes)
    }

    /// Waits for something to read. False once the writer is gone and all is read.
    fn come(&mut self, until: Until) -> Result<bool> {
        loop {
            let Reader { end, ring } = self;
            let end = end.as_mut().ok_or_else(gone_on)?;
            let fail = |c| corrupt(Role::Reader, c);
            if ring.available(&*end.map, 1).map_err(fail)? > 0 {
                return Ok(true);
            }
            if has_moved(end.header()) {
                // Looked at again: the last bytes may have come before it was said.
                if ring.available(&*end.map, 1).map_err(fail)? == 0 {
                    self.follow()?;
                }
                continue;
            }
            if until == Until::Now {
                end.arm();
                let gone = end.is_gone();
                // Looked at after the end was: what came before it counts.
                if look(ring, &end.map)? {
                    continue;
                }
                return if gone {
                    Ok(false)
                } else {
                    Err(end.error(ErrorKind::WouldBlock, "it is empty"))
                };
            }
            let dry = std::mem::take(&mut end.since_dry);
            end.pause(dry);
            if end.spin(until, |map: &Map| look(ring, map))? {
                continue;
            }
            match end.sleep(until, &mut |map| look(ring, map))? {
                Ended::Ready => {}
                Ended::Gone => return Ok(false),
                Ended::TimedOut => {
                    return Err(end.error(ErrorKind::TimedOut, "it stayed empty"));
                }
            }
        }
    }

    /// Goes over to the memory that follows this one, which is drained.
    fn follow(&mut self) -> Result<()> {
        let end = self.end()?;
        let (file, map, shape) = end.next_memory(STREAM)?;
        let position = end.map.header().reader.position.load(Ordering::Relaxed);
        end.move_to(file, map.clone(), shape)?;
        self.ring = StreamReader::resume(&*map).map_err(|c| corrupt(Role::Reader, c))?;
        if self.ring.position() != position {
            return Err(end_error(self));
        }
        Ok(())
    }

    /// A lower bound of the bytes that can be read without waiting, which stays true until this end
    /// reads.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub fn available(&mut self) -> Result<u64> {
        let map = self.end()?.map.clone();
        self.ring.available(&*map, u64::MAX).map_err(|c| corrupt(Role::Reader, c))
    }

    /// What the end has counted.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&mut self) -> Result<Account> {
        Ok(self.end()?.account())
    }

    /// A descriptor for poll(2) and epoll(7): readable until a `try_read` has answered
    /// [`ErrorKind::WouldBlock`], and again once there is something to read or the writer is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end()?.poll_descriptor()
    }

    /// The memory, by which the pipe can be tuned from outside.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn memory(&mut self) -> Result<BorrowedFd<'_>> {
        self.end()?.memory()
    }

    pub(crate) fn parts(&mut self) -> Result<(&mut End, &mut StreamReader)> {
        let Reader { end, ring } = self;
        let end = end.as_mut().ok_or_else(gone_on)?;
        end.check_here()?;
        Ok((end, ring))
    }

    /// Whether a read would not wait.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        let (end, ring) = self.parts()?;
        Ok(end.is_gone() || look(ring, &end.map)?)
    }
}

fn end_error(reader: &Reader) -> Error {
    match &reader.end {
        Some(end) => end.error(ErrorKind::Corrupt, "its new memory begins elsewhere"),
        None => gone_on(),
    }
}

fn gone_on() -> Error {
    Error::new(ErrorKind::Invalid, "use", "the reader", "it was handed on")
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            end.close();
        }
    }
}

impl io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(Reader::read(self, buffer)?)
    }
}
