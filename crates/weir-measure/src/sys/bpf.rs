//! `bpf(2)`: maps, programs at raw tracepoints, and the ring of memory into which they write.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use weir_sys::mapping::{Access, Mapping};

/// The kinds of maps: from keys to values, from positions to values, and a ring of records.
const HASH: u32 = 1;
const ARRAY: u32 = 2;
const RING: u32 = 27;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const TRACEPOINT_OPEN: libc::c_int = 17;
const RAW_TRACEPOINT: u32 = 17;
/// An instruction that calls, and the kernel's function that writes memory of processes
/// (`bpf_probe_write_user`).
const CALL: u8 = 0x85;
const WRITE_PROCESS: i32 = 36;
/// Most text of the verifier that is kept.
const LOG_BYTES: usize = 1 << 16;
/// Bits of a record's length: it is still being written, or it does not count.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEADER: u64 = 8;

/// `union bpf_attr`, as words of 4 bytes.
#[repr(C, align(8))]
struct Attributes([u32; 32]);

impl Attributes {
    fn new(words: &[u32]) -> Attributes {
        let mut all = [0; 32];
        all[..words.len()].copy_from_slice(words);
        Attributes(all)
    }

    /// Puts an address at this word. The kernel may read and write through it.
    fn with<T: ?Sized>(mut self, at: usize, pointer: *const T) -> Attributes {
        let address = pointer.cast::<u8>().expose_provenance() as u64;
        let bytes = address.to_ne_bytes();
        let (low, high) = bytes.split_at(4);
        for (word, half) in self.0[at..at + 2].iter_mut().zip([low, high]) {
            *word = u32::from_ne_bytes([half[0], half[1], half[2], half[3]]);
        }
        self
    }

    /// Makes the call.
    ///
    /// # Safety
    /// Each address in the attributes is one of memory that lives until this returns, is as long as
    /// the command reads or writes, and may be written if it writes.
    unsafe fn call(&self, command: libc::c_int) -> io::Result<i32> {
        // SAFETY: the attributes are a live local of the size given. The addresses in them are as
        // the caller promises.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, self, size_of::<Attributes>()) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        i32::try_from(done).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Makes a call that returns a descriptor.
    ///
    /// # Safety
    /// As for `call`; the command returns a new descriptor.
    unsafe fn open(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: as the caller promises.
        let fd = unsafe { self.call(command) }?;
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn word(fd: &impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().cast_unsigned()
}

/// Makes a map of a kind, with keys and values of so many bytes.
fn make(kind: u32, key_bytes: u32, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new(&[kind, key_bytes, value_bytes, entries]);
    // SAFETY: there are no addresses in them.
    unsafe { attributes.open(MAP_CREATE) }
}

/// A map from numbers to numbers.
#[derive(Debug)]
pub struct NumberMap(OwnedFd);

impl NumberMap {
    /// Makes a map for so many numbers.
    ///
    /// # Errors
    /// `EPERM`: not allowed; `ENOSYS` or `EINVAL`: the kernel has none.
    pub fn make(entries: u32) -> io::Result<NumberMap> {
        make(HASH, 4, 4, entries).map(NumberMap)
    }

    /// Sets the number of a key.
    ///
    /// # Errors
    /// `E2BIG`: the map is full.
    pub fn set(&self, key: u32, value: u32) -> io::Result<()> {
        let attributes = Attributes::new(&[word(self)]).with(2, &raw const key);
        let attributes = attributes.with(4, &raw const value);
        // SAFETY: the call reads two live locals, as long as keys and values of such a map are.
        unsafe { attributes.call(MAP_UPDATE) }.map(drop)
    }
}

impl AsFd for NumberMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A map that holds one word of 8 bytes, 0 at first.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Makes a counter.
    pub fn make() -> io::Result<Counter> {
        make(ARRAY, 4, 8, 1).map(Counter)
    }

    /// Reads the word.
    pub fn first(&self) -> io::Result<u64> {
        let (key, mut value) = (0_u32, 0_u64);
        let attributes = Attributes::new(&[word(self)]).with(2, &raw const key);
        let attributes = attributes.with(4, &raw mut value);
        // SAFETY: the call reads and writes live locals, as long as keys and values of such a map
        // are.
        unsafe { attributes.call(MAP_LOOKUP) }?;
        Ok(value)
    }
}

impl AsFd for Counter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Loads a program for a raw tracepoint.
///
/// The program cannot write memory of processes. The kernel's verifier sees to all the rest.
///
/// # Errors
/// The kernel's error, and what its verifier wrote. `InvalidInput`: it calls what could write
/// memory of processes.
pub fn load(instructions: &[u64]) -> Result<OwnedFd, (io::Error, String)> {
    if instructions.iter().any(|one| may_write_processes(*one)) {
        return Err((io::ErrorKind::InvalidInput.into(), String::new()));
    }
    let count = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    let license = c"Dual MIT/GPL";
    let new = || {
        let attributes = Attributes::new(&[RAW_TRACEPOINT, count]);
        attributes.with(2, instructions.as_ptr()).with(4, license.as_ptr())
    };
    // SAFETY: the call reads the instructions, as many as there are, and the name of the license.
    if let Ok(program) = unsafe { new().open(PROGRAM_LOAD) } {
        return Ok(program);
    }
    // Again, for what the verifier says.
    let mut log = vec![0_u8; LOG_BYTES];
    let mut attributes = new().with(8, log.as_mut_ptr());
    (attributes.0[6], attributes.0[7]) = (1, LOG_BYTES as u32);
    // SAFETY: as above; it also writes the log, at most as many bytes as that has.
    let program = unsafe { attributes.open(PROGRAM_LOAD) };
    program.map_err(|error| {
        let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        (error, text.to_string_lossy().into_owned())
    })
}

/// Whether an instruction is a call that may write memory of processes. Functions that are not from
/// the fixed list of helpers are unknown, and count as such.
fn may_write_processes(instruction: u64) -> bool {
    let [code, registers, _, _, number @ ..] = instruction.to_ne_bytes();
    code == CALL && (registers != 0 || i32::from_ne_bytes(number) == WRITE_PROCESS)
}

/// Runs a program at a tracepoint until the result is dropped.
///
/// # Errors
/// `ENOENT`: the kernel has no such tracepoint.
pub fn attach(program: BorrowedFd<'_>, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let attributes = Attributes::new(&[0, 0, word(&program)]).with(0, tracepoint.as_ptr());
    // SAFETY: the call reads the name of the tracepoint up to its end.
    unsafe { attributes.open(TRACEPOINT_OPEN) }
}

/// A ring into which programs write records, and its memory.
#[derive(Debug)]
pub struct RecordRing {
    map: OwnedFd,
    /// The reader's position: one page.
    reader: Mapping,
    /// The writer's position in one page, then the records twice, one behind the other.
    records: Mapping,
    page: usize,
    bytes: usize,
}

// SAFETY: the mappings belong to the ring alone, and nothing in them depends on the thread.
unsafe impl Send for RecordRing {}

impl AsFd for RecordRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl RecordRing {
    /// Makes a ring of so many bytes, a power of two and at least a page, and maps it.
    pub fn make(bytes: u32) -> io::Result<RecordRing> {
        let map = make(RING, 0, 0, bytes)?;
        let (page, bytes) = (rustix::param::page_size(), bytes as usize);
        let reader = Mapping::of_fd(&map, 0, page, Access::ReadWrite)?;
        let records = Mapping::of_fd(&map, page, page + 2 * bytes, Access::Read)?;
        Ok(RecordRing { map, reader, records, page, bytes })
    }

    /// Gives each record to `take`, in the order in which they were begun, and frees them.
    pub fn take(&mut self, mut take: impl FnMut(&[u8])) {
        // SAFETY: the first word of either page, aligned to it; the kernel reads and writes it as
        // one word.
        let own = unsafe { AtomicU64::from_ptr(self.reader.start().cast()) };
        // SAFETY: likewise. This page is mapped for reading only, and only loaded, with Relaxed.
        let written = unsafe { AtomicU64::from_ptr(self.records.start().cast()) };
        // Relaxed: only this process stores it.
        let mut at = own.load(Ordering::Relaxed);
        // Relaxed: std allows no other load of memory that is mapped read-only.
        let end = written.load(Ordering::Relaxed);
        // Acquire: pairs with the kernel's release store of the position that was loaded, after it
        // reserved a record; the headers up to there are set.
        fence(Ordering::Acquire);
        while at < end {
            let from = (at % self.bytes as u64) as usize;
            // SAFETY: `from` is less than `bytes`, behind the first page of the mapping.
            let start = unsafe { self.records.start().add(self.page + from) };
            // SAFETY: records are aligned to 8 bytes, and so are their headers. They are only
            // loaded, with Relaxed.
            let header = unsafe { AtomicU32::from_ptr(start.cast()) };
            // Relaxed: as for the position.
            let header = header.load(Ordering::Relaxed);
            // Acquire: pairs with the kernel's exchange of the header that was loaded, which
            // commits the record: its bytes are there.
            fence(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            let length = (header & !DISCARDED) as usize;
            if length > self.bytes - HEADER as usize {
                break;
            }
            if header & DISCARDED == 0 {
                // SAFETY: the record begins behind its header, within the mapping.
                let body = unsafe { start.add(HEADER as usize) };
                // SAFETY: the record has `length` bytes, at most `bytes` with its header, and the
                // records are mapped twice in a row. The kernel does not write there until the
                // position is stored below.
                let record = unsafe { std::slice::from_raw_parts(body, length) };
                take(record);
            }
            at += (length as u64 + HEADER).next_multiple_of(8);
            // Release: the record has been read before the kernel may write there; pairs with its
            // acquire load of the position.
            own.store(at, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_hold_what_they_were_made_for() {
        let numbers = match NumberMap::make(1) {
            Ok(numbers) => numbers,
            Err(error) => return println!("SKIPPED: bpf: {error}"),
        };
        numbers.set(7, 1).expect("there is room");
        numbers.set(7, 2).expect("it is the same key");
        let full = numbers.set(8, 1).map_err(|error| error.raw_os_error());
        assert_eq!(full, Err(Some(libc::E2BIG)));
        assert_eq!(Counter::make().and_then(|counter| counter.first()).expect("read"), 0);
        let bytes = rustix::param::page_size() as u32;
        let mut ring = RecordRing::make(bytes).expect("mapped");
        ring.take(|record| panic!("nobody wrote {record:?}"));
        assert!(RecordRing::make(bytes + 1).is_err(), "no power of two");
    }

    #[test]
    fn a_program_that_may_write_memory_of_processes_is_refused() {
        let exit = [0x95, 0, 0, 0, 0, 0, 0, 0];
        for call in [[CALL, 0, 0, 0, 36, 0, 0, 0], [CALL, 0x20, 0, 0, 1, 0, 0, 0]] {
            let refused = load(&[call, exit].map(u64::from_le_bytes)).map_err(|(error, _)| error);
            assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidInput);
        }
    }
}
