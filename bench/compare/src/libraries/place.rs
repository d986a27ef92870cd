//! Names for what a library needs in the file system or in shared memory, and their removal.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_measure::bench::case::CaseError;

/// Where shared memory has names.
const SHARED: &str = "/dev/shm";
/// Both ends find each other within this time.
const MEETING: Duration = Duration::from_secs(10);

/// A name nobody else uses.
#[derive(Clone, Debug)]
pub struct UniqueName {
    name: String,
}

impl UniqueName {
    /// One more.
    pub fn new() -> UniqueName {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the numbers must differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let run = std::os::unix::process::parent_id();
        UniqueName { name: format!("{}{}-{number}", prefix(run), std::process::id()) }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A directory of that name in shared memory; nobody has made it.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(SHARED).join(&self.name)
    }
}

/// Begins every name of the cells of one run.
fn prefix(run: u32) -> String {
    format!("weir-compare-{run}-")
}

/// Removes what cells of this process left: a killed one tidies nothing up.
pub fn remove_leftovers() {
    let prefix = prefix(std::process::id());
    let directories = [PathBuf::from(SHARED), std::env::temp_dir()];
    let entries = directories.iter().filter_map(|at| std::fs::read_dir(at).ok()).flatten();
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        // What can't be removed is only untidy.
        let path = entry.path();
        let _ =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
}

/// Tries until it succeeds, for as long as the other side may need to come.
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
