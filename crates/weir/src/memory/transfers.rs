//! Frames of a pool on their way to the file and back: an engine, and the loans it works on.

use super::frames::Loan;
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use weir_sys::spill::{
    self, EngineChoice as Wanted, MOST_PIECES, MemoryPiece as Piece, SpillEngine as Engine,
    SpillFile, TransferDirection as Direction,
};

/// Says which engine is wanted: `uring` or `threads`.
const WANTED: &str = "WEIR_SPILL_ENGINE";

/// A file without a name, and what moves frames to and from it.
#[derive(Debug)]
pub(crate) struct Transfers {
    // Dropped first: it waits for the kernel, which the loans must outlive.
    engine: Box<dyn Engine>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    is_direct: bool,
    remarks: Vec<String>,
    /// By place in the file, where what is read back is checked.
    checksums: Option<Vec<u64>>,
}

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel says so.
    Os(Errno),
    /// It says that all went well, but the frame it read from here is not the one that it wrote.
    Lost { offset: u64 },
}

/// A transfer in flight, or the room for one.
#[derive(Debug)]
struct Slot {
    token: u64,
    offset: u64,
    loans: Vec<Loan>,
}

/// Where a pool is spilled to where nothing else is said: `TMPDIR`, or `/var/tmp`, which is a
/// place on disk more often than `/tmp`.
pub(crate) fn usual_directory() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|directory| !directory.is_empty());
    named.map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

impl Transfers {
    /// Makes the file in a directory and the engine that `WEIR_SPILL_ENGINE` wants, or the best.
    pub(crate) fn open(directory: &Path) -> Result<Transfers> {
        let word = std::env::var_os(WANTED).unwrap_or_default();
        let wanted = Wanted::parse(&word.to_string_lossy())
            .map_err(|error| Error::new(ErrorKind::Invalid, "use", WANTED, error.to_string()))?;
        Transfers::open_as(directory, wanted)
    }

    /// The same with the engine that is wanted here.
    pub(crate) fn open_as(directory: &Path, wanted: Wanted) -> Result<Transfers> {
        let file = SpillFile::open(directory, true)
            .map_err(|cause| Error::os("spill to", format!("'{}'", directory.display()), cause))?;
        let (is_direct, mut remarks) = (file.is_direct(), file.remarks().to_vec());
        let (engine, reason) = spill::open(file, wanted)
            .map_err(|cause| Error::os("start", "the engine of a pool", cause))?;
        remarks.extend(reason);
        Ok(Transfers { is_direct, remarks, ..Transfers::with_engine(engine) })
    }

    /// With an engine made elsewhere.
    pub(crate) fn with_engine(engine: Box<dyn Engine>) -> Transfers {
        let most = engine.most_in_flight();
        let slot = |_| Slot { token: 0, offset: 0, loans: Vec::with_capacity(MOST_PIECES) };
        Transfers {
            engine,
            slots: (0..most).map(slot).collect(),
            free: (0..most).rev().collect(),
            is_direct: false,
            remarks: Vec::new(),
            checksums: None,
        }
    }

    /// From now on keeps a checksum of each frame that is written, and checks what is read back.
    pub(crate) fn verify(&mut self) {
        self.checksums.get_or_insert_default();
    }

    /// Whether it does.
    pub(crate) fn verifies(&self) -> bool {
        self.checksums.is_some()
    }

    /// Puts something between the engine and its user.
    #[cfg(test)]
    pub(crate) fn map_engine(
        self,
        change: impl FnOnce(Box<dyn Engine>) -> Box<dyn Engine>,
    ) -> Transfers {
        Transfers { engine: change(self.engine), ..self }
    }

    /// What the engine is called.
    pub(crate) fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// Whether the page cache is passed by.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// What is not the best there might be, and why.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Transfers there is room for.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Transfers that are started and not completed.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Prepares the transfer of frames that lie one after the other in the file, from `offset` on,
    /// and takes their loans out of `loans`. False, with all of them left there, if there is no
    /// room, if there are none or more than [`MOST_PIECES`], if they don't all go the same way, or
    /// in a forked child.
    ///
    /// Nothing moves before [`Transfers::submit`]. A write may wait here for some milliseconds,
    /// while ground is taken for it and those that follow: hold no lock that a writer wants.
    pub(crate) fn start(&mut self, token: u64, offset: u64, loans: &mut Vec<Loan>) -> bool {
        let Some(direction) = loans.first().map(Loan::direction) else { return false };
        let same = loans.iter().all(|loan| loan.direction() == direction && loan.is_here());
        if !same || loans.len() > MOST_PIECES {
            return false;
        }
        if direction == Direction::ToDisk && !self.note_checksums(offset, loans) {
            return false;
        }
        let Some(at) = self.free.pop() else { return false };
        let mut pieces = [Piece { start: std::ptr::null_mut(), bytes: 0 }; MOST_PIECES];
        pieces.iter_mut().zip(loans.iter()).for_each(|(piece, loan)| *piece = loan.piece());
        let pieces = &pieces[..loans.len()];
        // SAFETY: the loans keep the frames mapped, and everybody out who would write them, or use
        // them at all if they are to be filled. They stay in `slots` until the engine says that it
        // is done, or is gone.
        let started = unsafe { self.engine.start(at as u64, direction, offset, pieces) };
        if started {
            (self.slots[at].token, self.slots[at].offset) = (token, offset);
            self.slots[at].loans.append(loans);
        } else {
            self.free.push(at);
        }
        started
    }

    /// Notes what is about to be written. False if there is no memory for that.
    fn note_checksums(&mut self, offset: u64, loans: &[Loan]) -> bool {
        let Some(checksums) = &mut self.checksums else { return true };
        let first = place_of(offset, loans);
        let end = first + loans.len();
        if end > checksums.len() {
            if checksums.try_reserve(end - checksums.len()).is_err() {
                return false;
            }
            checksums.resize(end, 0);
        }
        for (checksum, loan) in checksums[first..end].iter_mut().zip(loans) {
            // SAFETY: it goes to disk.
            *checksum = unsafe { loan.checksum() };
        }
        true
    }

    /// Hands over what was started. One thread, that lasts, is to do this and to wait for it.
    pub(crate) fn submit(&mut self) {
        self.engine.submit();
    }

    /// Calls `each` for every transfer that is done by now, after its loans have ended: frames from
    /// disk are full if it went well, and empty if it did not.
    pub(crate) fn completed(
        &mut self,
        mut each: impl FnMut(u64, std::result::Result<(), Failure>),
    ) {
        let (slots, free, checksums) = (&mut self.slots, &mut self.free, &self.checksums);
        self.engine.completed(&mut |at, result| {
            let at = at as usize;
            let Some(slot) = slots.get_mut(at).filter(|slot| !slot.loans.is_empty()) else {
                return;
            };
            // SAFETY: the engine says that it is done with all of them.
            let sound = || unsafe { check(checksums.as_deref(), slot.offset, &slot.loans) };
            let result = result.map_err(Failure::Os).and_then(|()| sound());
            match result {
                Ok(()) => slot.loans.drain(..).for_each(Loan::filled),
                Err(_) => slot.loans.clear(),
            }
            free.push(at);
            each(slot.token, result);
        });
    }

    /// Readable when something is completed; none in a forked child.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }
}

/// Which of the file's frames the first of these is.
fn place_of(offset: u64, loans: &[Loan]) -> usize {
    let frame_bytes = loans.first().map_or(1, |loan| loan.piece().bytes as u64);
    (offset / frame_bytes) as usize
}

/// Checks frames that were read back against what is noted of them.
///
/// # Safety
/// The kernel does not write them any more.
unsafe fn check(
    checksums: Option<&[u64]>,
    offset: u64,
    loans: &[Loan],
) -> std::result::Result<(), Failure> {
    let from_disk = loans.first().is_some_and(|loan| loan.direction() == Direction::FromDisk);
    let Some(checksums) = checksums.filter(|_| from_disk) else { return Ok(()) };
    let first = place_of(offset, loans);
    for (at, loan) in loans.iter().enumerate() {
        // SAFETY: as the caller promises.
        let found = unsafe { loan.checksum() };
        if checksums.get(first + at) != Some(&found) {
            let offset = offset + at as u64 * loan.piece().bytes as u64;
            return Err(Failure::Lost { offset });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
