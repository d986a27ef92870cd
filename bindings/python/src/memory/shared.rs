//! The memory that the processes of a queue share: a header, and rings behind it.
//!
//! Whoever has a queue can run code in the others, by what it pickles. So its processes trust each
//! other; what is read here is still checked, so that a mistake is an error and not a crash.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::UnsafeCell;
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use weir::parts::{MapAccess, Mapping, allocate, make_empty};

/// The unit of the places of rings, a multiple of any page.
pub const PAGE_BYTES: u64 = 65536;
/// Processes that are known. Others use the queue, and nobody hears of their deaths.
const PEERS: usize = 1000;
const MAGIC: u64 = u64::from_le_bytes(*b"weirqueu");
const VERSION: u32 = 2;

/// One of the two sides of a queue, each with a lock and a word for its sleepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those who put.
    Put,
    /// Those who get.
    Get,
}

/// A word on lines of its own: the two sides write different ones.
#[repr(C, align(128))]
pub struct Lines<T>(pub T);

/// What a queue has of one process, on a line of its own: each process counts what it does.
#[repr(C, align(64))]
pub struct Peer {
    /// Its number.
    pub pid: AtomicU32,
    /// What it is doing: see `peers`.
    pub state: AtomicU32,
    /// When it started, in ticks of the clock, which tells it from others of its number.
    pub start: AtomicU64,
    /// Items it has put.
    pub put: AtomicU64,
    /// Items it has got.
    pub got: AtomicU64,
}

/// A robust mutex of the C library, between processes.
#[repr(C, align(128))]
struct Lock(UnsafeCell<libc::pthread_mutex_t>);

/// The beginning of the memory.
#[repr(C)]
pub struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    /// The most items, or 0.
    pub most_items: AtomicU32,
    locks: [Lock; 2],
    /// Where the ring of each side begins.
    pub rings: [Lines<AtomicU64>; 2],
    /// Whether one of a side may sleep.
    pub sleepers: [Lines<AtomicU32>; 2],
    /// The processes.
    pub peers: [Peer; PEERS],
}

const _: () = assert!(size_of::<Header>() <= PAGE_BYTES as usize);

/// The words before a ring.
#[repr(C)]
pub struct RingWords {
    /// Bytes of the ring, a power of two.
    pub bytes: AtomicU64,
    /// Where the ring that follows begins, or 0.
    pub next: AtomicU64,
    /// How far each side is: items and units of 8 bytes, in one word.
    pub places: [Lines<AtomicU64>; 2],
}

/// A mapping of the memory in this process. Forked children have it too.
pub struct Shared {
    file: OwnedFd,
    header: Mapping,
}

impl Shared {
    /// Makes the memory, with one ring.
    pub fn make(most_items: u32, ring_bytes: u64) -> io::Result<Shared> {
        let mut made = make_empty("weir-queue", PAGE_BYTES, rustix::fs::MemfdFlags::empty())?;
        let file = made.take().ok_or(io::ErrorKind::Interrupted)?;
        allocate(file.as_fd(), 0, PAGE_BYTES)?;
        let shared = Shared::map(file)?;
        let header = shared.header();
        header.most_items.store(most_items, Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        for lock in &header.locks {
            init(lock)?;
        }
        let (ring, _) = shared.add_ring(ring_bytes, 0)?;
        header.rings.iter().for_each(|place| place.0.store(ring, Ordering::Relaxed));
        // Release: whoever loads this finds the rest.
        header.magic.store(MAGIC, Ordering::Release);
        Ok(shared)
    }

    /// Maps the memory that another process has made.
    pub fn open(file: OwnedFd) -> io::Result<Shared> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        if (rustix::fs::fstat(&file)?.st_size as u64) < PAGE_BYTES {
            return Err(refused("it is too short for a queue"));
        }
        let shared = Shared::map(file)?;
        let header = shared.header();
        // Acquire: pairs with the Release in `make`.
        if header.magic.load(Ordering::Acquire) != MAGIC {
            return Err(refused("it is not the memory of a queue"));
        }
        match header.version.load(Ordering::Relaxed) {
            VERSION => Ok(shared),
            _ => Err(refused("it is a queue of another version of weir")),
        }
    }

    fn map(file: OwnedFd) -> io::Result<Shared> {
        let header = Mapping::of_file(file.as_fd(), PAGE_BYTES as usize, MapAccess::Inherited)?;
        Ok(Shared { file, header })
    }

    /// The memory's descriptor.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The words at its beginning.
    pub fn header(&self) -> &Header {
        // SAFETY: mapped as long as `self`, aligned, and as long as a header (asserted above). It
        // consists of atomics and of locks that only this module's calls touch; any bytes are one.
        unsafe { &*self.header.at(0, size_of::<Header>()).cast() }
    }

    /// Maps all there is now, for the rings.
    pub fn map_rings(&self) -> io::Result<Mapping> {
        let bytes = rustix::fs::fstat(&self.file)?.st_size as usize;
        Ok(Mapping::of_file(self.file.as_fd(), bytes, MapAccess::Inherited)?)
    }

    /// Adds an empty ring behind the others, which goes on counting items where another ends:
    /// where it begins, and a mapping that has it.
    pub fn add_ring(&self, bytes: u64, items: u32) -> io::Result<(u64, Mapping)> {
        let at = rustix::fs::fstat(&self.file)?.st_size as u64;
        let end = at + PAGE_BYTES + bytes;
        rustix::fs::ftruncate(&self.file, end)?;
        // All of it, so that a lack of memory is an error here and not a SIGBUS later.
        if let Err(cause) = allocate(self.file.as_fd(), at, PAGE_BYTES + bytes) {
            rustix::fs::ftruncate(&self.file, at)?;
            return Err(cause.into());
        }
        let mapping = self.map_rings()?;
        let words = Shared::ring(&mapping, at).ok_or(io::ErrorKind::InvalidData)?;
        words.bytes.store(bytes, Ordering::Relaxed);
        let place = u64::from(items) << 32;
        words.places.iter().for_each(|word| word.0.store(place, Ordering::Relaxed));
        Ok((at, mapping))
    }

    /// Enters the pages of a ring into this process's tables in one go, as it is going to use all
    /// of them: one by one, that takes longer than to copy into them.
    pub fn populate(mapping: &Mapping, at: u64, bytes: u64) {
        let advice = rustix::mm::Advice::LinuxPopulateWrite;
        let start = mapping.at((at + PAGE_BYTES) as usize, bytes as usize);
        // SAFETY: `at` asserts that the range is mapped. No byte of it changes. Kernels before 5.14
        // refuse, and then each page is entered when it is used.
        let _ = unsafe { rustix::mm::madvise(start.cast(), bytes as usize, advice) };
    }

    /// Gives the memory of a ring that is not used any more back to the machine, but for its words.
    pub fn forget_ring(&self, at: u64, bytes: u64) {
        let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        // Where this fails the memory stays until the queue goes.
        let _ = rustix::fs::fallocate(&self.file, how, at + PAGE_BYTES, bytes);
    }

    /// The words of the ring that begins at a place; `None` if that is not in the mapping.
    pub fn ring(mapping: &Mapping, at: u64) -> Option<&RingWords> {
        let at = usize::try_from(at).ok().filter(|at| at.is_multiple_of(PAGE_BYTES as usize))?;
        let there = at >= PAGE_BYTES as usize && at < mapping.bytes();
        // SAFETY: a page of it is mapped as long as the mapping, aligned, and longer than the
        // words, which are atomics.
        there.then(|| unsafe { &*mapping.at(at, size_of::<RingWords>()).cast() })
    }

    /// Copies into the ring of so many bytes that begins at `at`, from a position on.
    pub fn copy_in(mapping: &Mapping, (at, bytes): (u64, u64), position: u64, from: &[u8]) {
        let (first, second) = parts((at, bytes), position, from.len());
        for (place, part) in [(first, &from[..first.1]), (second, &from[first.1..])] {
            // SAFETY: `at` asserts that the place is mapped. The caller holds the lock of those
            // who put, and the place is free: nobody else touches it.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    part.as_ptr(),
                    mapping.at(place.0, place.1),
                    part.len(),
                )
            };
        }
    }

    /// Copies out of a ring, as [`Shared::copy_in`] copies in.
    pub fn copy_out(mapping: &Mapping, (at, bytes): (u64, u64), position: u64, to: &mut [u8]) {
        let (first, second) = parts((at, bytes), position, to.len());
        let (one, two) = to.split_at_mut(first.1);
        for (place, part) in [(first, one), (second, two)] {
            // SAFETY: `at` asserts that the place is mapped. The caller holds the lock of those
            // who get, and the place is filled: nobody writes it.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    mapping.at(place.0, place.1),
                    part.as_mut_ptr(),
                    part.len(),
                )
            };
        }
    }

    /// Takes the lock of a side, if nobody has it.
    pub fn try_lock(&self, side: Side) -> io::Result<Option<Guard<'_>>> {
        let lock = &self.header().locks[side as usize];
        // SAFETY: initialised by `make`, and mapped as long as `self`.
        self.locked(side, unsafe { libc::pthread_mutex_trylock(lock.0.get()) })
    }

    /// Takes the lock of a side, and waits for it at most so long.
    pub fn lock_within(&self, side: Side, time: Duration) -> io::Result<Option<Guard<'_>>> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let then = Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + time;
        let until = libc::timespec {
            tv_sec: then.as_secs() as libc::time_t,
            tv_nsec: then.subsec_nanos().into(),
        };
        let lock = &self.header().locks[side as usize];
        // SAFETY: initialised by `make`, and mapped as long as `self`.
        self.locked(side, unsafe { libc::pthread_mutex_timedlock(lock.0.get(), &until) })
    }

    fn locked(&self, side: Side, answer: i32) -> io::Result<Option<Guard<'_>>> {
        let guard = Guard { shared: self, side, thread: PhantomData };
        match answer {
            0 => Ok(Some(guard)),
            libc::EOWNERDEAD => {
                let lock = &self.header().locks[side as usize];
                // Each change under a lock is one store, so what a dead holder has left is sound.
                // SAFETY: this thread has just got the lock.
                unsafe { libc::pthread_mutex_consistent(lock.0.get()) };
                Ok(Some(guard))
            }
            other => {
                std::mem::forget(guard);
                match other {
                    libc::EBUSY | libc::ETIMEDOUT => Ok(None),
                    error => Err(io::Error::from_raw_os_error(error)),
                }
            }
        }
    }
}

// SAFETY: the locks are for threads and processes; all else is atomics and addresses.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}

/// The two parts of a ring that a range is, the second of them at its beginning: place and length
/// each.
fn parts((at, bytes): (u64, u64), position: u64, count: usize) -> ((usize, usize), (usize, usize)) {
    let begin = (at + PAGE_BYTES) as usize;
    let offset = (position & (bytes - 1)) as usize;
    let first = count.min(bytes as usize - offset);
    assert!(count <= bytes as usize, "a part of no ring");
    ((begin + offset, first), (begin, count - first))
}

fn init(lock: &Lock) -> io::Result<()> {
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: a place for attributes, which this fills.
    done(unsafe { libc::pthread_mutexattr_init(attributes) })?;
    // SAFETY: initialised above.
    done(unsafe { libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED) })?;
    // SAFETY: as above.
    done(unsafe { libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST) })?;
    // SAFETY: nobody else has the memory yet.
    done(unsafe { libc::pthread_mutex_init(lock.0.get(), attributes) })
}

fn done(answer: i32) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(answer)) }
}

/// A lock that this thread holds. Dropping it lets it go.
pub struct Guard<'a> {
    shared: &'a Shared,
    side: Side,
    /// A robust mutex belongs to a thread.
    thread: PhantomData<*mut ()>,
}

// SAFETY: a closure that runs detached runs on the same thread, which `Python::detach` cannot say.
unsafe impl Send for Guard<'_> {}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let lock = &self.shared.header().locks[self.side as usize];
        // SAFETY: this thread holds the lock.
        unsafe { libc::pthread_mutex_unlock(lock.0.get()) };
    }
}

/// A copy of a descriptor that Python has by its number.
pub fn duplicate(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(rustix::io::Errno::BADF.into());
    }
    // SAFETY: borrowed for one call, which fails if nothing has this number.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
}
