//! One wait for several ends, flags and descriptors.
//!
//! Each is added once, with a number. The ends stay the caller's, who uses and frees them as before; one
//! that is freed leaves the wait by itself. Between two calls they are free to be used; while
//! weir_wait_for() waits, no other thread may use them.

use crate::arguments::{buffer, descriptor, free, given, handle_place, held, place, timeout};
use crate::error::{call, invalid, weir_status};
use crate::flags::{WEIR_ALL, weir_flags};
use crate::held::Held;
use crate::pipe::{weir_reader, weir_writer};
use crate::port::{weir_port, weir_port_writer};
use crate::record::{weir_record_reader, weir_record_writer};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir::parts::WaitSource;
use weir::{Interest, Key, Result, Wait, Waitable};

/// Waits until the descriptor can be read.
pub const WEIR_TO_READ: u32 = 0;
/// Waits until the descriptor can be written to.
pub const WEIR_TO_WRITE: u32 = 1;

/// An end in a wait, which C uses and frees meanwhile.
struct Lent<E>(*mut E);

// SAFETY: the end itself may go to another thread, and C lets one thread at a time use it.
unsafe impl<E: Send> Send for Lent<E> {}

impl<E: Waitable> Waitable for Lent<E> {
    fn source(&mut self) -> &mut dyn WaitSource {
        // SAFETY: the pointer is C's own. The end is there: `weir_wait::sweep` has removed those
        // that are freed. Nobody else uses it, since the thread that may is in a call of the wait.
        unsafe { &mut *self.0 }.source()
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        // SAFETY: as above.
        unsafe { &mut *self.0 }.descriptor_to_poll()
    }

    fn wanted(&self, bytes: usize) -> u64 {
        // SAFETY: as above.
        unsafe { &*self.0 }.wanted(bytes)
    }
}

type Numbered = Wait<'static, u64>;

/// The place of something in a wait, whatever it is.
trait Place {
    fn want(&self, wait: &mut Numbered, bytes: Option<usize>) -> Result<()>;
    fn remove(&self, wait: &mut Numbered);
}

impl<E: 'static> Place for Key<E> {
    fn want(&self, wait: &mut Numbered, bytes: Option<usize>) -> Result<()> {
        wait.want(*self, bytes)
    }

    fn remove(&self, wait: &mut Numbered) {
        drop(wait.remove(*self));
    }
}

/// Something that was added.
struct Entry {
    number: u64,
    place: Box<dyn Place>,
    is_freed: Option<Arc<AtomicBool>>,
}

/// A wait.
pub struct weir_wait {
    wait: Numbered,
    entries: Vec<Entry>,
    /// The numbers of what is ready.
    ready: Vec<u64>,
}

impl weir_wait {
    /// Removes the ends that are freed.
    fn sweep(&mut self) {
        let weir_wait { wait, entries, .. } = self;
        entries.retain(|entry| {
            // Relaxed: see Life.
            let is_freed = entry.is_freed.as_ref().is_some_and(|is| is.load(Ordering::Relaxed));
            if is_freed {
                entry.place.remove(wait);
            }
            !is_freed
        });
    }

    fn add<E: 'static>(
        &mut self,
        number: u64,
        is_freed: Option<Arc<AtomicBool>>,
        add: impl FnOnce(&mut Numbered) -> Result<Key<E>>,
    ) -> Result<()> {
        self.sweep();
        if self.entries.iter().any(|entry| entry.number == number) {
            return Err(invalid("a number", "the wait has another thing of this number"));
        }
        let place = Box::new(add(&mut self.wait)?);
        self.entries.push(Entry { number, place, is_freed });
        Ok(())
    }

    /// Adds an end. `held` finds it in what C holds.
    fn add_end<H, E: Waitable>(
        &mut self,
        number: u64,
        handle: Option<NonNull<H>>,
        held: fn(NonNull<H>) -> *mut Held<E>,
    ) -> Result<()> {
        let held = held(given(handle, "an end")?);
        // SAFETY: C promises a handle that is not freed, and uses it from one thread.
        let is_freed = Some(unsafe { &*held }.is_freed());
        // SAFETY: the place of a field of it. It stays C's, as `Lent` says.
        let end = unsafe { &raw mut (*held).end };
        self.add(number, is_freed, |wait| wait.add(number, Lent(end)))
    }

    fn entry(&mut self, number: u64) -> Result<usize> {
        self.sweep();
        let found = self.entries.iter().position(|entry| entry.number == number);
        found.ok_or_else(|| invalid("a number", "the wait has nothing of this number"))
    }
}

const WAIT: &str = "a wait";

/// Makes an empty wait.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_create(wait: Option<&mut MaybeUninit<*mut weir_wait>>) -> weir_status {
    call(|| {
        let made = weir_wait { wait: Wait::new(), entries: Vec::new(), ready: Vec::new() };
        *handle_place(wait)? = held(made);
        Ok(())
    })
}

/// Adds a writer: it is ready while there is room, for a byte or as much as weir_wait_want() says, and
/// once its reader is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_writer(
    wait: Option<&mut weir_wait>,
    writer: Option<NonNull<weir_writer>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_writer>| unsafe { &raw mut (*handle.as_ptr()).0 };
    call(|| given(wait, WAIT)?.add_end(number, writer, held))
}

/// Adds a reader: it is ready while there is something to read, and once its writer is gone.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_reader(
    wait: Option<&mut weir_wait>,
    reader: Option<NonNull<weir_reader>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_reader>| unsafe { &raw mut (*handle.as_ptr()).0 };
    call(|| given(wait, WAIT)?.add_end(number, reader, held))
}

/// Adds a writer of records, which is ready as a writer is.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_record_writer(
    wait: Option<&mut weir_wait>,
    record_writer: Option<NonNull<weir_record_writer>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_record_writer>| unsafe { &raw mut (*handle.as_ptr()).held };
    call(|| given(wait, WAIT)?.add_end(number, record_writer, held))
}

/// Adds a reader of records, which is ready as a reader is.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_record_reader(
    wait: Option<&mut weir_wait>,
    record_reader: Option<NonNull<weir_record_reader>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_record_reader>| unsafe { &raw mut (*handle.as_ptr()).held };
    call(|| given(wait, WAIT)?.add_end(number, record_reader, held))
}

/// Adds a port: it is ready while there is a message or the end of a writer.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_port(
    wait: Option<&mut weir_wait>,
    port: Option<NonNull<weir_port>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_port>| unsafe { &raw mut (*handle.as_ptr()).0 };
    call(|| given(wait, WAIT)?.add_end(number, port, held))
}

/// Adds a writer to a port, which is ready as a writer is.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_port_writer(
    wait: Option<&mut weir_wait>,
    port_writer: Option<NonNull<weir_port_writer>>,
    number: u64,
) -> weir_status {
    // SAFETY: the place of a field of what C holds.
    let held = |handle: NonNull<weir_port_writer>| unsafe { &raw mut (*handle.as_ptr()).0 };
    call(|| given(wait, WAIT)?.add_end(number, port_writer, held))
}

/// Adds flags. `how` is 0 for any of the mask, WEIR_ALL for all at once. Waiting does not clear them.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_flags(
    wait: Option<&mut weir_wait>,
    flags: Option<&weir_flags>,
    mask: u64,
    how: u32,
    number: u64,
) -> weir_status {
    call(|| {
        let (wait, flags) = (given(wait, WAIT)?, &given(flags, "flags")?.0);
        match how {
            0 => wait.add(number, None, |wait| wait.add_flags(number, flags, mask)),
            WEIR_ALL => wait.add(number, None, |wait| wait.add_all_flags(number, flags, mask)),
            _ => Err(invalid("flags", "how to wait is 0 or WEIR_ALL")),
        }
    })
}

/// Adds a copy of a descriptor. `what` is WEIR_TO_READ or WEIR_TO_WRITE.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_add_descriptor(
    wait: Option<&mut weir_wait>,
    file: c_int,
    what: u32,
    number: u64,
) -> weir_status {
    call(|| {
        let (wait, file) = (given(wait, WAIT)?, descriptor(file)?);
        let interest = match what {
            WEIR_TO_READ => Interest::Read,
            WEIR_TO_WRITE => Interest::Write,
            _ => return Err(invalid("a descriptor", "what to wait for is neither")),
        };
        wait.add(number, None, |wait| wait.add_descriptor(number, file, interest))
    })
}

/// Sets how much room the wait waits for at a writer: for `bytes` of a stream, for a record of `bytes`.
/// At first it is one byte.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_want(
    wait: Option<&mut weir_wait>,
    number: u64,
    bytes: usize,
) -> weir_status {
    call(|| {
        let wait = given(wait, WAIT)?;
        let at = wait.entry(number)?;
        wait.entries[at].place.want(&mut wait.wait, Some(bytes))
    })
}

/// Removes what has this number. An end stays open.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_remove(wait: Option<&mut weir_wait>, number: u64) -> weir_status {
    call(|| {
        let wait = given(wait, WAIT)?;
        let at = wait.entry(number)?;
        wait.entries.remove(at).place.remove(&mut wait.wait);
        Ok(())
    })
}

/// Waits until something is ready. Stores the numbers of what is ready, `size` of them at most, in the
/// order of adding, and how many it stored. What is ready stays so until it was dealt with.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_for(
    wait: Option<&mut weir_wait>,
    numbers: *mut u64,
    size: usize,
    timeout_ns: i64,
    count: Option<&mut MaybeUninit<usize>>,
) -> weir_status {
    call(|| {
        let count = place(count, 0, "a count")?;
        let wait = given(wait, WAIT)?;
        let bytes = size.saturating_mul(size_of::<u64>());
        // SAFETY: C promises that much room.
        let to = unsafe { buffer(numbers.cast(), bytes) }?;
        if to.is_empty() {
            return Err(invalid("a place for numbers", "it has room for none"));
        }
        wait.sweep();
        wait.wait.wait_timeout(&mut wait.ready, timeout(timeout_ns))?;
        for (number, to) in wait.ready.iter().zip(to.chunks_exact_mut(size_of::<u64>())) {
            to.copy_from_slice(&number.to_ne_bytes());
            *count += 1;
        }
        Ok(())
    })
}

/// Frees a wait. What was added to it stays.
#[unsafe(no_mangle)]
pub extern "C" fn weir_wait_free(wait: Option<Box<weir_wait>>) {
    free(wait);
}
