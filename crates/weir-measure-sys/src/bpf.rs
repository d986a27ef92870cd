//! `bpf(2)`: maps, programs at raw tracepoints, and the ring of memory into which they write.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_sys::mapping::{Mapping, READ_WRITE};

/// A map from numbers to numbers.
pub const HASH: u32 = 1;
/// A map from positions to words of 8 bytes.
pub const ARRAY: u32 = 2;
/// A ring of records.
pub const RING: u32 = 27;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const TRACEPOINT_OPEN: libc::c_int = 17;
const RAW_TRACEPOINT: u32 = 17;
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

    /// Puts an address at this word.
    fn with<T: ?Sized>(mut self, at: usize, pointer: *const T) -> Attributes {
        let address = pointer.cast::<u8>().addr() as u64;
        let bytes = address.to_ne_bytes();
        let (low, high) = bytes.split_at(4);
        for (word, half) in self.0[at..at + 2].iter_mut().zip([low, high]) {
            *word = u32::from_ne_bytes([half[0], half[1], half[2], half[3]]);
        }
        self
    }

    fn call(&self, command: libc::c_int) -> io::Result<i32> {
        // SAFETY: the attributes are a live local of the size given. Each address in them is one of
        // a buffer that the caller holds over the call, as long as the command reads or writes.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, self, size_of::<Attributes>()) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        i32::try_from(done).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn open(&self, command: libc::c_int) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the call has just returned this descriptor, and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn word(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// Makes a map of a kind, with keys and values of these sizes.
///
/// # Errors
/// `EPERM`: not allowed; `ENOSYS` or `EINVAL`: the kernel has none.
pub fn map(kind: u32, key: u32, value: u32, entries: u32) -> io::Result<OwnedFd> {
    Attributes::new(&[kind, key, value, entries]).open(MAP_CREATE)
}

/// Sets a number in a [`HASH`] with keys and values of 4 bytes.
///
/// # Errors
/// `E2BIG`: the map is full.
pub fn set(map: BorrowedFd<'_>, key: u32, value: u32) -> io::Result<()> {
    let attributes = Attributes::new(&[word(map)]).with(2, &raw const key);
    attributes.with(4, &raw const value).call(MAP_UPDATE).map(drop)
}

/// Reads the word at the first position of an [`ARRAY`] with values of 8 bytes.
///
/// # Errors
/// Of `bpf(2)`.
pub fn first(map: BorrowedFd<'_>) -> io::Result<u64> {
    let (key, mut value) = (0_u32, 0_u64);
    let attributes = Attributes::new(&[word(map)]).with(2, &raw const key);
    attributes.with(4, &raw mut value).call(MAP_LOOKUP)?;
    Ok(value)
}

/// Loads a program for a raw tracepoint.
///
/// # Errors
/// The kernel's error, and what its verifier wrote.
pub fn load(instructions: &[u64]) -> Result<OwnedFd, (io::Error, String)> {
    let count = u32::try_from(instructions.len()).unwrap_or(u32::MAX);
    let license = c"Dual MIT/GPL";
    let new = || {
        let attributes = Attributes::new(&[RAW_TRACEPOINT, count]);
        attributes.with(2, instructions.as_ptr()).with(4, license.as_ptr())
    };
    if let Ok(program) = new().open(PROGRAM_LOAD) {
        return Ok(program);
    }
    // Again, for what the verifier says.
    let mut log = vec![0_u8; LOG_BYTES];
    let mut attributes = new().with(8, log.as_mut_ptr());
    (attributes.0[6], attributes.0[7]) = (1, LOG_BYTES as u32);
    attributes.open(PROGRAM_LOAD).map_err(|error| {
        let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        (error, text.to_string_lossy().into_owned())
    })
}

/// Runs a program at a tracepoint until the result is dropped.
///
/// # Errors
/// `ENOENT`: the kernel has no such tracepoint.
pub fn attach(program: BorrowedFd<'_>, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let attributes = Attributes::new(&[0, 0, word(program)]);
    attributes.with(0, tracepoint.as_ptr()).open(TRACEPOINT_OPEN)
}

/// The memory of a map of kind [`RING`].
#[derive(Debug)]
pub struct Ring {
    /// The reader's position: one page.
    reader: Mapping,
    /// The writer's position in one page, then the records twice, one behind the other.
    records: Mapping,
    page: usize,
    bytes: usize,
}

// SAFETY: the mappings belong to the ring alone, and nothing in them depends on the thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring that was made with so many bytes.
    ///
    /// # Errors
    /// Of `mmap(2)`.
    pub fn map(map: BorrowedFd<'_>, bytes: usize) -> io::Result<Ring> {
        let page = rustix::param::page_size();
        let reader = Mapping::of_fd(map, 0, page, READ_WRITE)?;
        let records = Mapping::of_fd(map, page, page + 2 * bytes, libc::PROT_READ)?;
        Ok(Ring { reader, records, page, bytes })
    }

    /// Gives each record to `take`, in the order in which they were begun, and frees them.
    pub fn take(&mut self, mut take: impl FnMut(&[u8])) {
        // SAFETY: the first word of either page, aligned to it; the kernel reads and writes it as
        // one word.
        let own = unsafe { AtomicU64::from_ptr(self.reader.start().cast()) };
        // SAFETY: likewise; this page is only read.
        let written = unsafe { AtomicU64::from_ptr(self.records.start().cast()) };
        // Relaxed: only this process stores it.
        let mut at = own.load(Ordering::Relaxed);
        // Acquire: pairs with the kernel's release store after it reserved a record; the headers up
        // to there are set.
        let end = written.load(Ordering::Acquire);
        while at < end {
            let from = (at % self.bytes as u64) as usize;
            // SAFETY: `from` is less than `bytes`, behind the first page of the mapping.
            let start = unsafe { self.records.start().add(self.page + from) };
            // SAFETY: records are aligned to 8 bytes, and so are their headers.
            let header = unsafe { AtomicU32::from_ptr(start.cast()) };
            // Acquire: pairs with the kernel's exchange that commits the record and its bytes.
            let header = header.load(Ordering::Acquire);
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
