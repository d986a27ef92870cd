//! `joy-fs`: reading and writing a file in units of 1 KiB to 1 MiB, in sequential and random order,
//! through the page cache, past it, mapped, and through a region of weir with a quarter of the file in
//! memory. Joy concluded that larger blocks pay.
//!
//! The file is unnamed and has 64 MiB. Cached writes are not forced to the disk: the cases measure
//! the way into the cache, along with whatever the kernel writes back meanwhile. Both ends of every
//! unit that is read are checked, and every 64th unit in full.

use crate::engine::load::scratch_file;
use crate::sys::shared::{PageBuffer, SharedPages};
use crate::tools::own::trouble;
use crate::tools::prelude::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use weir_policy::random::Random;
use weir_region::{Region, RegionOptions};

const FILE_BYTES: usize = 64 << 20;
/// Memory of a region over it.
const REGION_BYTES: u64 = FILE_BYTES as u64 / 4;
const UNIT_BYTES: [usize; 4] = [1 << 10, 8 << 10, 64 << 10, 1 << 20];
/// The content of the file repeats after this many bytes. It is not a power of two, so that a unit
/// from a wrong place is seen. It is a number of whole pages, so that units can be passed on
/// without copying.
const PERIOD_BYTES: usize = (1 << 20) - 4096;
/// One unit in this many is compared in full.
const CHECKED_EVERY: u64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum FileAccess {
    Cached,
    Direct,
    Mapped,
    /// A region of weir over the file.
    Region,
}

impl FileAccess {
    fn name(self) -> &'static str {
        self.into()
    }
}

pub fn suite() -> Suite {
    let access = [FileAccess::Cached, FileAccess::Direct, FileAccess::Mapped, FileAccess::Region];
    Suite {
        name: "joy-fs",
        about: "How fast files are read and written, by the size of each access: cached, direct, mapped, by a region.",
        source: "W. Joy, March 1980, on larger file-system blocks",
        groups: access.into_iter().flat_map(groups).collect(),
    }
}

/// Makes groups for reading and for writing: write-back would disturb reading.
fn groups(access: FileAccess) -> [Group; 2] {
    [false, true].map(|write| {
        let mut cases = Vec::new();
        for random in [false, true] {
            cases.extend(UNIT_BYTES.map(|bytes| file_case(access, write, random, bytes)));
        }
        let name = format!("{} {}", access.name(), if write { "write" } else { "read" });
        Group {
            processes: 12,
            twin: access == FileAccess::Cached,
            ..group(name, Sides::One, cases)
        }
    })
}

fn file_case(access: FileAccess, write: bool, random: bool, bytes: usize) -> Case {
    let (operation, pattern) =
        (if write { "write" } else { "read" }, if random { "random" } else { "sequential" });
    let params = Params {
        operation: Some(operation.into()),
        pattern: Some(pattern.into()),
        access: Some(access.name().into()),
        chunk_bytes: Some(bytes as u64),
        ..Params::default()
    };
    let name = format!("{} {pattern} {operation}, {}", access.name(), size(bytes as u64));
    let make = move |site: &Site| transfer(site, access, write, random, bytes);
    Case {
        standard: access == FileAccess::Cached && !write && !random && bytes == 8 << 10,
        normalise: if access == FileAccess::Direct { Normalise::Never } else { Normalise::Always },
        size: BatchSize::Time { ns: 10_000_000 },
        weight: 3.0,
        ..case(name, params, Measure::THROUGHPUT, make)
    }
}

/// The file, and the two contents that it may have.
struct TestFile {
    file: File,
    periods: [PageBuffer; 2],
}

/// Makes content that repeats, from a seed.
fn period(seed: u64) -> Result<PageBuffer, CaseError> {
    let mut period = PageBuffer::new(PERIOD_BYTES + UNIT_BYTES[3])?;
    let mut random = Random::new(seed);
    for word in period[..PERIOD_BYTES].chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    period.copy_within(..UNIT_BYTES[3], PERIOD_BYTES);
    Ok(period)
}

impl TestFile {
    fn make(site: &Site, access: FileAccess) -> Result<TestFile, CaseError> {
        let periods = [period(1)?, period(2)?];
        let file = match access {
            FileAccess::Direct => direct_file(&site.directory)?,
            _ => scratch_file(site)?,
        };
        for at in (0..FILE_BYTES).step_by(UNIT_BYTES[3]) {
            let from = at % PERIOD_BYTES;
            let unit = &periods[0][from..from + UNIT_BYTES[3]];
            file.write_all_at(unit, at as u64).map_err(|error| no_room(site, &error))?;
        }
        Ok(TestFile { file, periods })
    }

    /// Returns what the first or the second content has at a place.
    fn unit(&self, which: usize, at: usize, bytes: usize) -> &[u8] {
        let from = at % PERIOD_BYTES;
        &self.periods[which][from..from + bytes]
    }

    fn check(&self, which: usize, at: usize, got: &[u8], number: u64) -> Result<(), CaseError> {
        let right = self.unit(which, at, got.len());
        let ends = got.first() == right.first() && got.last() == right.last();
        if ends && (!number.is_multiple_of(CHECKED_EVERY) || got == right) {
            return Ok(());
        }
        Err(CaseError::failed(format!("the file returned wrong bytes at {at}")))
    }
}

fn no_room(site: &Site, error: &std::io::Error) -> CaseError {
    use std::io::ErrorKind;
    let directory = site.directory.display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => CaseError::left_out(format!(
            "not enough space for a file of 64 MiB in {directory}: {error}"
        )),
        _ => CaseError::failed(format!("cannot write a file in {directory}: {error}")),
    }
}

fn transfer(site: &Site, access: FileAccess, write: bool, random: bool, bytes: usize) -> MadeWork {
    let content = TestFile::make(site, access)?;
    let mapped =
        (access == FileAccess::Mapped).then(|| SharedPages::of_file(&content.file, FILE_BYTES));
    let map = mapped.transpose()?;
    let mut buffer = PageBuffer::new(bytes)?;
    let (mut places, mut number) = (Random::new(bytes as u64), 0_u64);
    let units = (FILE_BYTES / bytes) as u64;
    if access == FileAccess::Direct
        && let Err(error) = content.file.read_at(&mut buffer, 0)
    {
        return Err(CaseError::left_out(format!(
            "cannot read directly in units of {bytes}: {error}"
        )));
    }
    let region = (access == FileAccess::Region).then(|| -> Result<Region, CaseError> {
        let options = RegionOptions::new().memory_bytes(REGION_BYTES);
        Region::over(content.file.try_clone()?, &options).map_err(trouble)
    });
    let region = region.transpose()?;
    let mut which = 0;
    work(move |count| {
        // Each batch writes other bytes than the file has.
        which = if write { 1 - which } else { 0 };
        let mut at = 0;
        let begun = Instant::now();
        for _ in 0..count {
            let unit = if random { places.below(units) } else { number % units };
            at = unit as usize * bytes;
            number += 1;
            let place = at as u64;
            match (&map, &region, write) {
                (Some(map), _, true) => map.copy_in(at, content.unit(which, at, bytes)),
                (Some(map), _, false) => map.copy_out(at, &mut buffer),
                (_, Some(region), true) => {
                    region.write_at(place, content.unit(which, at, bytes)).map_err(trouble)?;
                }
                (_, Some(region), false) => region.read_at(place, &mut buffer).map_err(trouble)?,
                (.., true) => content.file.write_all_at(content.unit(which, at, bytes), place)?,
                (.., false) => content.file.read_exact_at(&mut buffer, place)?,
            }
            if !write {
                content.check(which, at, &buffer, number)?;
            }
        }
        let elapsed = elapsed_ns(begun);
        if write {
            // The last unit is read back outside of the measured time.
            region.as_ref().map(Region::flush).transpose().map_err(trouble)?;
            content.file.read_exact_at(&mut buffer, at as u64)?;
            content.check(which, at, &buffer, 0)?;
        }
        Ok(Batch::throughput(elapsed, count * bytes as u64))
    })
}
