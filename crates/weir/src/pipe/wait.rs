//! Ends of pipes among the things a [`Wait`] waits for.

use super::connection::Role;
use super::end::WRITER_SLICE;
use super::endpoint::{Endpoint, Ring};
use super::record::{RecordReader, RecordWriter};
use super::stream::{Reader, Writer};
use crate::error::Result;
use crate::park::{Parked, Source, Wait};
use std::time::Duration;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;

impl<'a> Wait<'a> {
    /// For data of a stream, or its end.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`]: there are too many already. So of all that follow.
    pub fn reader(self, reader: &'a mut Reader) -> Result<Wait<'a>> {
        self.source(reader, 0)
    }

    /// For so much room in a stream, at most its capacity; or for its reader to be gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn writer(self, writer: &'a mut Writer, room: u64) -> Result<Wait<'a>> {
        self.source(writer, room)
    }

    /// For a record, or the end of them.
    ///
    /// # Errors
    /// There are too many already.
    pub fn record_reader(self, reader: &'a mut RecordReader) -> Result<Wait<'a>> {
        self.source(reader, 0)
    }

    /// For room for a record of so many bytes; or for the reader to be gone.
    ///
    /// # Errors
    /// There are too many already.
    pub fn record_writer(self, writer: &'a mut RecordWriter, bytes: usize) -> Result<Wait<'a>> {
        self.source(writer, bytes as u64)
    }
}

impl<R: Ring> Source for Endpoint<R> {
    fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        Endpoint::is_ready(self, wanted)
    }

    fn announce(&mut self, wanted: u64) -> Result<Option<u32>> {
        let (end, ring) = self.parts()?;
        ring.want(end, wanted);
        let said = end.announce(sleep::ASLEEP);
        // That the other is gone is seen by the look that follows.
        end.life.inbox().falls_asleep();
        let is_ready = ring.is_ready(end, wanted);
        if !matches!(is_ready, Ok(false)) {
            self.retract();
        }
        Ok((!is_ready?).then_some(said))
    }

    fn retract(&mut self) {
        // One that is not this process's did not sleep either.
        if self.end.check_here().is_ok() {
            Parked::retract(self.end.sleep_word(), self.end.life.inbox());
        }
    }

    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((self.end.sleep_word(), said));
    }

    fn most_sleep(&self) -> Option<Duration> {
        // Room of less than a segment is looked for, as an end does that sleeps alone.
        (R::ROLE == Role::Writer).then_some(WRITER_SLICE)
    }
}
