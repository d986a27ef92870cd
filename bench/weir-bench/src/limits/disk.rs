//! Direct reads and writes of the disk, which bypass the page cache, by size.

use crate::sys::shared::PageBuffer;
use crate::tools::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Instant;
use weir_policy::random::Random;

const BYTES: [u64; 4] = [4 << 10, 64 << 10, 256 << 10, 1 << 20];
/// The size of the file: much larger than a unit, and small enough that each process can write one.
const FILE_BYTES: u64 = 32 << 20;
/// Every byte of the file.
const BYTE: u8 = 0xa5;

pub fn transfers() -> Group {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for write in [true, false] {
            let (operation, pattern) =
                if write { ("write", "sequential") } else { ("read", "random") };
            let params = Params {
                operation: Some(operation.into()),
                pattern: Some(pattern.into()),
                access: Some("direct".into()),
                chunk_bytes: Some(bytes),
                ..Params::default()
            };
            let name = format!("disk {operation} {}", size(bytes));
            let make = move |site: &Site| disk(site, bytes as usize, write);
            cases.push(Case {
                standard: bytes == 64 << 10,
                normalise: Normalise::Never,
                size: BatchSize::Time { ns: 20_000_000 },
                ..case(name, params, Measure::THROUGHPUT, make)
            });
        }
    }
    Group { twin: false, processes: 12, ..group("disk", Sides::One, cases) }
}

fn disk(site: &Site, bytes: usize, write: bool) -> MadeWork {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = file_for_all(&FILE, || filled_file(site))?;
    let mut buffer = PageBuffer::new(bytes)?;
    buffer.fill(BYTE);
    let places = FILE_BYTES / bytes as u64;
    let (mut random, mut next) = (Random::new(bytes as u64), 0);
    work(move |count| {
        let begun = Instant::now();
        for _ in 0..count {
            if write {
                file.write_all_at(&buffer, next % places * bytes as u64)?;
                next += 1;
            } else {
                file.read_exact_at(&mut buffer, random.below(places) * bytes as u64)?;
            }
        }
        let elapsed = elapsed_ns(begun);
        if buffer.iter().any(|byte| *byte != BYTE) {
            return Err(CaseError::failed("the disk returned wrong bytes"));
        }
        Ok(Batch::throughput(elapsed, count * bytes as u64))
    })
}

/// Writes the file that all cases share: all of them write the same bytes.
fn filled_file(site: &Site) -> Result<File, CaseError> {
    let file = direct_file(&site.directory)?;
    let mut whole = PageBuffer::new(1 << 20)?;
    whole.fill(BYTE);
    for at in (0..FILE_BYTES).step_by(whole.len()) {
        file.write_all_at(&whole, at).map_err(|error| {
            let directory = site.directory.display();
            CaseError::left_out(format!("not enough space for 32 MiB in {directory}: {error}"))
        })?;
    }
    Ok(file)
}
