//! Transfers of frames between a pool and its file: an engine, and the loans it works on.

use super::frames::FrameLoan;
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use weir_sys::spill::{
    self, EngineChoice, MOST_PIECES, MemoryPiece, SpillEngine, SpillFile, TransferDirection,
};

/// The variable that chooses the engine: `uring` or `threads`.
const WANTED: &str = "WEIR_SPILL_ENGINE";

/// A file without a name, and the engine that moves frames to and from it.
#[derive(Debug)]
pub(crate) struct FrameTransfers {
    // Dropped first: that waits until the kernel is done with the loans.
    engine: Box<dyn SpillEngine>,
    slots: Vec<TransferSlot>,
    free: Vec<usize>,
    is_direct: bool,
    remarks: Vec<String>,
    /// The checksum of each place in the file, if frames that are read back are checked.
    checksums: Option<Vec<u64>>,
}

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The kernel reported an error.
    Os(Errno),
    /// The kernel reported success, but the frame it read here is not the one that it wrote.
    Lost { offset: u64 },
}

/// A transfer in flight, or room for one.
#[derive(Debug)]
struct TransferSlot {
    token: u64,
    offset: u64,
    loans: Vec<FrameLoan>,
}

/// The default directory of a pool's file: `TMPDIR`, or else `/var/tmp`, which is on disk more
/// often than `/tmp`.
pub fn usual_directory() -> PathBuf {
    let named = weir_sys::places::variable("TMPDIR").filter(|directory| !directory.is_empty());
    named.map_or_else(|| "/var/tmp".into(), PathBuf::from)
}

/// The engine that `WEIR_SPILL_ENGINE` asks for.
pub fn wanted_engine() -> Result<EngineChoice> {
    let word = std::env::var_os(WANTED).unwrap_or_default();
    EngineChoice::parse(&word.to_string_lossy())
        .map_err(|error| Error::new(ErrorKind::Invalid, "use", WANTED, error.to_string()))
}

impl FrameTransfers {
    /// Makes the file in a directory, with the engine of `WEIR_SPILL_ENGINE` or the best one.
    pub(crate) fn open(directory: &Path) -> Result<FrameTransfers> {
        FrameTransfers::open_as(directory, wanted_engine()?)
    }

    /// As [`FrameTransfers::open`], with this engine.
    pub(crate) fn open_as(directory: &Path, wanted: EngineChoice) -> Result<FrameTransfers> {
        let file = SpillFile::open(directory, true)
            .map_err(|cause| Error::os("spill to", format!("'{}'", directory.display()), cause))?;
        let (is_direct, mut remarks) = (file.is_direct(), file.remarks().to_vec());
        let (engine, reason) = spill::open(file, wanted)
            .map_err(|cause| Error::os("start", "the engine of a pool", cause))?;
        remarks.extend(reason);
        Ok(FrameTransfers { is_direct, remarks, ..FrameTransfers::with_engine(engine) })
    }

    pub(crate) fn with_engine(engine: Box<dyn SpillEngine>) -> FrameTransfers {
        let most = engine.most_in_flight();
        let slot = |_| TransferSlot { token: 0, offset: 0, loans: Vec::with_capacity(MOST_PIECES) };
        FrameTransfers {
            engine,
            slots: (0..most).map(slot).collect(),
            free: (0..most).rev().collect(),
            is_direct: false,
            remarks: Vec::new(),
            checksums: None,
        }
    }

    /// From now on keeps a checksum of each frame that is written, and checks frames that are read.
    pub(crate) fn verify(&mut self) {
        self.checksums.get_or_insert_default();
    }

    pub(crate) fn verifies(&self) -> bool {
        self.checksums.is_some()
    }

    /// Replaces the engine by one around it.
    #[cfg(test)]
    pub(crate) fn map_engine(
        self,
        change: impl FnOnce(Box<dyn SpillEngine>) -> Box<dyn SpillEngine>,
    ) -> FrameTransfers {
        FrameTransfers { engine: change(self.engine), ..self }
    }

    pub(crate) fn engine(&self) -> &'static str {
        self.engine.name()
    }

    /// Whether the file bypasses the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Why a slower way than the best one is used.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// How many more transfers can be started.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Prepares the transfer of frames that are in a row in the file, from `offset` on, and takes
    /// their loans out of `loans`. Returns false and leaves the loans there if there is no room for
    /// a transfer, if there are no loans or more than [`MOST_PIECES`], if their directions differ,
    /// or in a forked child.
    ///
    /// Nothing moves before [`FrameTransfers::submit`]. A write may wait here for some milliseconds
    /// while the file is extended: hold no lock that a writer wants.
    pub(crate) fn start(&mut self, token: u64, offset: u64, loans: &mut Vec<FrameLoan>) -> bool {
        let Some(direction) = loans.first().map(FrameLoan::direction) else { return false };
        let same = loans.iter().all(|loan| loan.direction() == direction && loan.is_here());
        if !same || loans.len() > MOST_PIECES {
            return false;
        }
        if direction == TransferDirection::ToDisk && !self.note_checksums(offset, loans) {
            return false;
        }
        let Some(at) = self.free.pop() else { return false };
        let mut pieces = [MemoryPiece { start: std::ptr::null_mut(), bytes: 0 }; MOST_PIECES];
        pieces.iter_mut().zip(loans.iter()).for_each(|(piece, loan)| *piece = loan.piece());
        let pieces = &pieces[..loans.len()];
        // SAFETY: the loans keep the frames mapped. They keep out everybody who would write the
        // frames and, if these are to be filled, everybody else. The loans stay in `slots` until
        // the engine reports that it is done, or is gone.
        let started = unsafe { self.engine.start(at as u64, direction, offset, pieces) };
        if started {
            (self.slots[at].token, self.slots[at].offset) = (token, offset);
            self.slots[at].loans.append(loans);
        } else {
            self.free.push(at);
        }
        started
    }

    /// Keeps the checksums of frames that are about to be written. Returns false if there is no
    /// memory for them.
    fn note_checksums(&mut self, offset: u64, loans: &[FrameLoan]) -> bool {
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
            // SAFETY: the transfer is one to disk.
            *checksum = unsafe { loan.checksum() };
        }
        true
    }

    /// Hands what was started to the kernel. Only one thread, which lives as long as the transfers,
    /// may submit and wait.
    pub(crate) fn submit(&mut self) {
        self.engine.submit();
    }

    /// Calls `each` for every transfer that is done, after its loans have ended. Frames from disk
    /// are full if the transfer succeeded, and empty if it failed.
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
            // SAFETY: the engine has reported that it is done with them.
            let sound = || unsafe { check(checksums.as_deref(), slot.offset, &slot.loans) };
            let result = result.map_err(Failure::Os).and_then(|()| sound());
            match result {
                Ok(()) => slot.loans.drain(..).for_each(FrameLoan::filled),
                Err(_) => slot.loans.clear(),
            }
            free.push(at);
            each(slot.token, result);
        });
    }

    /// A descriptor that is readable when a transfer is completed; `None` in a forked child.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }
}

fn place_of(offset: u64, loans: &[FrameLoan]) -> usize {
    let frame_bytes = loans.first().map_or(1, |loan| loan.piece().bytes as u64);
    (offset / frame_bytes) as usize
}

/// Checks frames that were read back against their checksums.
///
/// # Safety
/// The kernel does not write them any longer.
unsafe fn check(
    checksums: Option<&[u64]>,
    offset: u64,
    loans: &[FrameLoan],
) -> std::result::Result<(), Failure> {
    let from_disk =
        loans.first().is_some_and(|loan| loan.direction() == TransferDirection::FromDisk);
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
