//! The rate of a disk when a spill file is written from end to end and then read: the bound for
//! whatever keeps a backlog there.

use crate::sys::shared::PageBuffer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::time::Instant;
use weir_sys::spill::{
    self, EngineChoice, MOST_IN_FLIGHT, MemoryPiece, SpillEngine, SpillFile, TransferDirection,
};

/// The times of writing and then reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequential {
    /// The time of all writes.
    pub write_ns: u64,
    /// All of the reading.
    pub read_ns: u64,
}

/// Writes a spill file of `clusters` clusters past the page cache and reads it, with up to
/// `in_flight` transfers at once, by the best engine available.
///
/// # Errors
/// `Unsupported` if the page cache cannot be avoided; otherwise those of the file and of transfers,
/// or if the bytes read are not those written.
pub fn measure_sequential(
    directory: &Path,
    clusters: u64,
    cluster_bytes: usize,
    in_flight: usize,
) -> io::Result<Sequential> {
    let file = SpillFile::open(directory, true)?;
    if !file.is_direct() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, file.remarks().join("; ")));
    }
    let in_flight = in_flight.clamp(1, MOST_IN_FLIGHT);
    let mut run = DiskRun {
        engine: spill::open(file, EngineChoice::Best)?.0,
        memory: PageBuffer::new(cluster_bytes * in_flight)?,
        cluster_bytes,
        clusters,
    };
    let mut cluster = vec![0; cluster_bytes];
    fill(&mut cluster);
    for slot in run.memory.chunks_exact_mut(cluster_bytes) {
        slot.copy_from_slice(&cluster);
    }
    let write_ns = run.pass(TransferDirection::ToDisk)?;
    run.memory.fill(0);
    let read_ns = run.pass(TransferDirection::FromDisk)?;
    let used = in_flight.min(usize::try_from(clusters).unwrap_or(usize::MAX));
    if run.memory.chunks_exact(cluster_bytes).take(used).any(|slot| slot != cluster) {
        return Err(io::Error::other("the disk returned wrong bytes"));
    }
    Ok(Sequential { write_ns, read_ns })
}

/// Fills with bytes that no disk or file system can compress.
fn fill(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
}

/// A run; the engine is dropped before the memory, and waits for the transfers under way.
#[derive(Debug)]
struct DiskRun {
    engine: Box<dyn SpillEngine>,
    memory: PageBuffer,
    cluster_bytes: usize,
    clusters: u64,
}

impl DiskRun {
    /// Transfers all clusters in order, each from or to the slot that has been free the longest.
    fn pass(&mut self, to: TransferDirection) -> io::Result<u64> {
        let memory = self.memory.as_mut_ptr();
        let slots = self.memory.len() / self.cluster_bytes;
        let mut free: std::collections::VecDeque<usize> = (0..slots).collect();
        let (mut next, mut done, mut failed) = (0, 0, None);
        let begun = Instant::now();
        while done < self.clusters && failed.is_none() {
            while next < self.clusters
                && let Some(slot) = free.front()
            {
                let start = memory.wrapping_add(slot * self.cluster_bytes);
                let piece = MemoryPiece { start, bytes: self.cluster_bytes };
                let offset = next * self.cluster_bytes as u64;
                // SAFETY: the slot is free, so no other transfer has it. Nobody else touches the
                // memory before all are completed; where a wait fails the engine goes first.
                if !unsafe { self.engine.start(*slot as u64, to, offset, &[piece]) } {
                    break;
                }
                free.pop_front();
                next += 1;
            }
            self.engine.submit();
            wait(&*self.engine)?;
            self.engine.completed(&mut |slot, result| {
                free.push_back(slot as usize);
                done += 1;
                failed = failed.or(result.err());
            });
        }
        let took_ns = begun.elapsed().as_nanos() as u64;
        while self.engine.in_flight() > 0 {
            wait(&*self.engine)?;
            self.engine.completed(&mut |_, _| {});
        }
        failed.map_or(Ok(took_ns), |cause| Err(cause.into()))
    }
}

/// Waits until a transfer is completed.
fn wait(engine: &dyn SpillEngine) -> io::Result<()> {
    let Some(descriptor) = engine.descriptor().filter(|_| engine.in_flight() > 0) else {
        return Err(io::Error::other("no transfer is taken"));
    };
    match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(cause) => Err(cause.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_whatever_is_in_flight() {
        for (clusters, in_flight) in [(0, 4), (3, 16), (40, 16), (5, 1)] {
            match measure_sequential(&std::env::temp_dir(), clusters, 64 << 10, in_flight) {
                Ok(took) => assert!(clusters == 0 || took.write_ns > 0 && took.read_ns > 0),
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    eprintln!("SKIPPED: {error}");
                }
                Err(error) => panic!("{clusters} by {in_flight}: {error}"),
            }
        }
        let nowhere = Path::new("/nonexistent");
        let error = measure_sequential(nowhere, 1, 4096, 1).expect_err("no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
