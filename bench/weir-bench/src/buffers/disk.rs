//! The disk's own rate, for comparison with what keeps a backlog on it: the same bytes are written
//! and then read, past the page cache, in clusters as a pool has them.

use super::line::{complaint, complaints, side};
use super::way::memory_bytes;
use crate::engine::case::CaseError;
use crate::sys::sequential::{Sequential, measure_sequential};
use crate::sys::shared::{LINE_BYTES, PageBuffer, SharedPages};
use crate::tools::{direct_file, elapsed_ns};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;
use weir_measure::sys::wait::Reaped;

const CLUSTER_BYTES: usize = 256 << 10;
const BYTE: u8 = 0xa5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// This many transfers at once, by the engine of a pool.
    InFlight(usize),
    /// One after the other, by pwrite(2) and pread(2).
    Calls,
}

/// The bytes moved, the times, and what the process used.
pub type Moved = (u64, Sequential, Reaped);

impl Disk {
    pub fn title(self) -> String {
        match self {
            Disk::InFlight(count) => format!("disk, {count} in flight"),
            Disk::Calls => "disk, one in flight".into(),
        }
    }

    pub fn mechanism(self) -> &'static str {
        match self {
            Disk::InFlight(_) => "spill-engine",
            Disk::Calls => "pread-pwrite",
        }
    }

    /// Moves the part of a backlog that exceeds the memory, in a process of its own: engines may
    /// start threads, and this process forks.
    pub fn run(self, directory: &Path, backlog_bytes: u64) -> Result<Moved, CaseError> {
        let clusters = (backlog_bytes - memory_bytes(backlog_bytes)) / CLUSTER_BYTES as u64;
        let times = SharedPages::new(2 * LINE_BYTES)?;
        let complaints = complaints()?;
        let mut child = side(&complaints, || {
            let took = match self {
                Disk::InFlight(count) => {
                    measure_sequential(directory, clusters, CLUSTER_BYTES, count)?
                }
                Disk::Calls => by_calls(directory, clusters)?,
            };
            // Release pairs with acquire below, after this process has ended.
            times.word(0).store(took.write_ns, Ordering::Release);
            times.word(1).store(took.read_ns, Ordering::Release);
            Ok(())
        })?;
        let ended = child.wait()?;
        if !ended.status.success() {
            return Err(CaseError::failed(complaint(&complaints).trim_end()));
        }
        // Acquire pairs with the releases above.
        let [write_ns, read_ns] = [0, 1].map(|word| times.word(word).load(Ordering::Acquire));
        Ok((clusters * CLUSTER_BYTES as u64, Sequential { write_ns, read_ns }, ended))
    }
}

fn by_calls(directory: &Path, clusters: u64) -> Result<Sequential, CaseError> {
    let file = direct_file(directory)?;
    let mut cluster = PageBuffer::new(CLUSTER_BYTES)?;
    cluster.fill(BYTE);
    let offset = |number| number * CLUSTER_BYTES as u64;
    let begun = Instant::now();
    for number in 0..clusters {
        file.write_all_at(&cluster, offset(number))?;
    }
    let write_ns = elapsed_ns(begun) as u64;
    cluster.fill(0);
    let begun = Instant::now();
    for number in 0..clusters {
        file.read_exact_at(&mut cluster, offset(number))?;
    }
    let read_ns = elapsed_ns(begun) as u64;
    if clusters > 0 && cluster.iter().any(|byte| *byte != BYTE) {
        return Err(CaseError::failed("the disk returned wrong bytes"));
    }
    Ok(Sequential { write_ns, read_ns })
}

/// Fails unless a backlog can be kept there: room for two of them, and direct access.
pub fn check(directory: &Path, backlog_bytes: u64) -> Result<(), CaseError> {
    let shown = directory.display();
    let about = rustix::fs::statvfs(directory)?;
    let free = about.f_bavail * about.f_frsize;
    if free / 2 < backlog_bytes {
        let (free, bytes) = (free / 1_000_000, backlog_bytes / 1_000_000);
        let text =
            format!("{free} MB free in {shown}, less than twice the {bytes} MB of a backlog");
        return Err(CaseError::left_out(text));
    }
    direct_file(directory).map(drop)
}
