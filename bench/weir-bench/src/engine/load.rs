//! Processes beside the measurement: competing load, and spinners that keep CPUs from idling.

use super::case::{CaseError, Site};
use super::params::{Load, Placement};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use weir_measure::sys::fork::{self, Child};
use weir_policy::random::Random;

const COPIED_BYTES: u64 = 64 << 20;
/// Bytes of the copy's reads and writes.
const BLOCK_BYTES: usize = 1 << 20;
const WALKED_BYTES: usize = 256 << 20;

/// Starts the processes that the site asks for; they end with the returned value.
///
/// # Errors
/// No process or no file can be made.
pub fn start(site: &Site) -> Result<Vec<Child>, CaseError> {
    let mut children = Vec::new();
    if site.placement == Placement::OtherCpuAwake {
        for cpu in site.cpus.clone() {
            children.push(fork::child(move || keep_awake(cpu as usize))?);
        }
    }
    match site.load {
        Load::None => {}
        Load::Cpu => {
            for cpu in super::place::Topology::read().allowed().to_vec() {
                children.push(fork::child(move || {
                    let _ = super::place::pin(cpu);
                    compute()
                })?);
            }
        }
        Load::Copy => {
            let (from, to) = (source(site)?, scratch_file(site)?);
            children.push(fork::child(move || copy(from, &to))?);
        }
        Load::Memory => children.push(fork::child(walk)?),
    }
    Ok(children)
}

/// Returns the file that is copied: one for all copies of a process, since writing it takes a while.
fn source(site: &Site) -> Result<&'static File, CaseError> {
    static SOURCE: OnceLock<File> = OnceLock::new();
    if let Some(made) = SOURCE.get() {
        return Ok(made);
    }
    let mut file = scratch_file(site)?;
    let mut random = Random::new(COPIED_BYTES);
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|_| random.next_u64() as u8).collect();
    for _ in 0..COPIED_BYTES / BLOCK_BYTES as u64 {
        file.write_all(&block)?;
    }
    file.sync_data()?;
    Ok(SOURCE.get_or_init(|| file))
}

/// Creates an unnamed file in the directory of the site.
///
/// # Errors
/// The directory is missing, not writable or full.
pub fn scratch_file(site: &Site) -> Result<File, CaseError> {
    tempfile::tempfile_in(&site.directory).map_err(|error| {
        CaseError::failed(format!("cannot make a file in {}: {error}", site.directory.display()))
    })
}

fn keep_awake(cpu: usize) -> u8 {
    if super::place::pin(cpu).is_err() || weir_measure::sys::sched::run_only_when_idle().is_err() {
        return 1;
    }
    loop {
        std::hint::spin_loop();
    }
}

fn compute() -> u8 {
    let mut x = 1_u64;
    loop {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Copies without end. Each pass reads the disk, since the source is dropped from the page cache
/// before it, and each block is on the disk before the next.
fn copy(from: &File, to: &File) -> u8 {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        // A file system in memory drops nothing; then the copy is one of memory.
        let _ = fadvise(from, 0, None, Advice::DontNeed);
        for at in (0..COPIED_BYTES).step_by(BLOCK_BYTES) {
            // By places: other copies have the same file open.
            let read = from.read_exact_at(&mut buffer, at);
            let copied = read.and_then(|()| to.write_all_at(&buffer, at));
            if copied.and_then(|()| to.sync_data()).is_err() {
                return 1;
            }
        }
    }
}

fn walk() -> u8 {
    const LINE_BYTES: usize = 64;
    let mut memory = vec![0_u8; WALKED_BYTES];
    loop {
        for line in memory.chunks_exact_mut(LINE_BYTES) {
            line[0] = black_box(line[0].wrapping_add(1));
        }
    }
}
