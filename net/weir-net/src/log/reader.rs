//! Reading a log while others write it, or after they have ended.
//!
//! The reader copies the file into its own memory and checks the copy. It does not map the file, so
//! a file that is shortened meanwhile gives an error and not a signal.

use super::corrupt;
use super::event::LogEvent;
use super::file::{object, open_any};
use super::layout::{HEADER_BYTES, LogShape, UNIT_BYTES, word, words_of};
use super::scan::{MOST_RECORD_UNITS, Scan, ScanStep};
use crate::elapsed::elapsed_ns;
use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Units read at once: more than a record has.
const BLOCK_UNITS: usize = 4096;
const _: () = assert!(MOST_RECORD_UNITS <= BLOCK_UNITS);
/// Consecutive reads that come too late, or bring too little, before the reader reports nothing.
const TRIES: u32 = 64;

/// How long a follower that found nothing waits before it looks again.
pub const IDLE: Duration = Duration::from_millis(20);

/// Counts of what a reader missed since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Units of 32 bytes that were overwritten before they were read. An event has one unit; a dump
    /// has one, and one more for each 24 bytes beyond the first 8.
    pub overwritten_units: u64,
    /// Gaps whose writers died, or were stopped, before they finished.
    pub unfinished: u64,
    /// Events that were to be on the disk, but whose write to disk failed. Counted for the log, not
    /// for this reader.
    pub unsynced: u64,
}

/// A reader of a log. It changes nothing, and writers do not notice it.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    file: File,
    shape: LogShape,
    scan: Scan,
    /// Units from `block_at` on; those before it have been used.
    block: Vec<u8>,
    block_at: usize,
    begun: Instant,
    /// Counts from the logs that this one replaced.
    before: LogCounts,
}

impl LogReader {
    /// Opens a log and begins at the oldest event in it.
    ///
    /// # Errors
    /// `Corrupt`: the file is not a log, or is damaged. Else the kernel's error.
    pub fn open(path: impl AsRef<Path>) -> Result<LogReader> {
        let path = path.as_ref();
        let (file, shape) = open_any(path)?;
        let head = head_of(&file, path)?;
        let scan = Scan::new(shape, head, 0);
        Ok(LogReader {
            path: path.to_owned(),
            file,
            shape,
            scan,
            block: Vec::new(),
            block_at: 0,
            begun: Instant::now(),
            before: LogCounts::default(),
        })
    }

    /// Returns the next event, if there is one now.
    ///
    /// # Errors
    /// `Corrupt`: the file was shortened, or its head went back. Else the kernel's error.
    // Not an iterator: after `None` there may be more events later.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and go on after None")]
    pub fn next(&mut self) -> Result<Option<LogEvent>> {
        // The position at which this call has read the file; it does not search there twice.
        let mut looked = None;
        let mut tries = 0;
        // A call ends whatever other processes do meanwhile.
        let mut passed = 0;
        while passed <= 2 * self.shape.units && tries <= TRIES {
            let step = match self.block.get(self.block_at..) {
                Some(units) if !units.is_empty() => self.scan.step(units),
                _ => ScanStep::More,
            };
            let step = match step {
                ScanStep::Absent => self.scan.absent().unwrap_or(ScanStep::Absent),
                step => step,
            };
            let again = looked == Some(self.scan.position());
            match step {
                ScanStep::Event(event, units) => {
                    self.block_at += units * UNIT_BYTES;
                    return Ok(Some(event));
                }
                ScanStep::Over(units) => {
                    self.block_at += units * UNIT_BYTES;
                    passed += units as u64;
                }
                ScanStep::Absent if again => return Ok(None),
                ScanStep::More if again && self.scan.behind() == 0 => return Ok(None),
                ScanStep::Absent | ScanStep::More => {
                    tries += u32::from(again);
                    self.refill()?;
                    looked = Some(self.scan.position());
                }
            }
        }
        Ok(None)
    }

    /// Whether the reader has read all units up to the last head it saw, and waits for no gap.
    pub fn is_at_end(&self) -> bool {
        self.scan.behind() == 0
    }

    /// Returns the position of the next event, in units since the log was created.
    pub fn position(&self) -> u64 {
        self.scan.position()
    }

    /// Returns the log's head, in the same units: all units before it were written, or begun, at
    /// the last look.
    pub fn head(&self) -> u64 {
        self.scan.head()
    }

    /// Returns when the log was created, in ns since 1970.
    pub fn created_ns(&self) -> u64 {
        self.shape.created_ns
    }

    /// Returns the counts of what was missed.
    ///
    /// # Errors
    /// The header can no longer be read.
    pub fn counts(&self) -> Result<LogCounts> {
        let read = |index| read_word(&self.file, index).map_err(|cause| failed(&self.path, cause));
        Ok(LogCounts {
            // A hostile log may say that nearly 2^64 were overwritten, and its successor too.
            overwritten_units: self.before.overwritten_units.saturating_add(self.scan.overwritten),
            unfinished: self.before.unfinished.saturating_add(self.scan.unfinished),
            unsynced: read(word::UNSYNCED)?,
        })
    }

    /// Switches to another log that now is at the same path, from its beginning. Returns whether
    /// it did. For a follower that has read this log to its end.
    ///
    /// # Errors
    /// Those of [`LogReader::open`], except that a missing file is not an error.
    pub fn reopen(&mut self) -> Result<bool> {
        let now = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            now => now.map_err(|cause| failed(&self.path, cause))?,
        };
        let own = self.file.metadata().map_err(|cause| failed(&self.path, cause))?;
        if (now.dev(), now.ino()) == (own.dev(), own.ino()) {
            return Ok(false);
        }
        let before = self.counts()?;
        match LogReader::open(&self.path) {
            // Removed between the two looks.
            Err(error) if is_missing(&error) => Ok(false),
            opened => {
                *self = LogReader { before, ..opened? };
                Ok(true)
            }
        }
    }

    /// Reads units from the position on, and keeps those that were not overwritten meanwhile.
    fn refill(&mut self) -> Result<()> {
        let spoilt = |path: &Path, why: &str| corrupt("read", path, why);
        let head = head_of(&self.file, &self.path)?;
        let now_ns = elapsed_ns(self.begun);
        self.scan.note_head(head, now_ns).map_err(|why| spoilt(&self.path, why))?;
        // Fits: at most BLOCK_UNITS.
        let units = self.scan.behind().min(BLOCK_UNITS as u64) as usize;
        self.block.resize(units * UNIT_BYTES, 0);
        self.block_at = 0;
        if units == 0 {
            return Ok(());
        }
        let at = (self.scan.position() & (self.shape.units - 1)) as usize;
        let whole = self.block.len();
        let first = whole.min((self.shape.units as usize - at) * UNIT_BYTES);
        let ring = |at: usize| (HEADER_BYTES + at * UNIT_BYTES) as u64;
        let (low, high) = self.block.split_at_mut(first);
        let read = self.file.read_exact_at(low, ring(at));
        let read = read.and_then(|()| self.file.read_exact_at(high, ring(0)));
        read.map_err(|cause| failed(&self.path, cause))?;
        // With the fence of `Log::reserve`: if a word above is of the next lap, so is this head.
        fence(Ordering::Acquire);
        let head = head_of(&self.file, &self.path)?;
        let lost = self.scan.advance(head).map_err(|why| spoilt(&self.path, why))?;
        self.block_at = lost.min(units as u64) as usize * UNIT_BYTES;
        Ok(())
    }
}

fn is_missing(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::NotFound)
}

fn head_of(file: &File, path: &Path) -> Result<u64> {
    read_word(file, word::HEAD).map_err(|cause| failed(path, cause))
}

fn read_word(file: &File, index: usize) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index as u64 * 8)?;
    Ok(words_of::<1>(&bytes)[0])
}

fn failed(path: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof => corrupt("read", path, "it was shortened"),
        _ => Error::os("read", object(path), cause),
    }
}
