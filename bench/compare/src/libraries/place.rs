//! Names for the files and the shared memory of a library, and their removal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_bench::engine::case::CaseError;

/// The directory of named shared memory.
const SHARED: &str = "/dev/shm";
/// The time in which both ends must find each other.
const MEETING: Duration = Duration::from_secs(10);

/// A name that nobody else uses.
#[derive(Clone, Debug)]
pub struct UniqueName {
    name: String,
}

impl UniqueName {
    /// Chooses a new name.
    pub fn new() -> UniqueName {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the numbers only have to differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let run = std::os::unix::process::parent_id();
        UniqueName { name: format!("{}{}-{number}", prefix(run), std::process::id()) }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a directory of that name in shared memory, which does not exist yet.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(SHARED).join(&self.name)
    }
}

/// Returns the prefix of all names of the cells of one run.
fn prefix(run: u32) -> String {
    format!("weir-compare-{run}-")
}

/// Removes what the cells of this process left: a killed cell removes nothing.
pub fn remove_leftovers() {
    let prefix = prefix(std::process::id());
    let directories = [PathBuf::from(SHARED), std::env::temp_dir()];
    let entries = directories.iter().filter_map(|at| std::fs::read_dir(at).ok()).flatten();
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // A failure leaves only an unused file.
        let path = entry.path();
        let _ =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
}

/// Repeats an attempt until it succeeds, for as long as the other side may need to appear.
pub fn meet<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, CaseError> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Ok(met) => return Ok(met),
            Err(error) if begun.elapsed() > MEETING => {
                return Err(CaseError::failed(format!("{what}: {error}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
