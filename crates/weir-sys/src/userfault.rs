//! Page faults that this process serves itself (userfaultfd(2)), over memory of a memory file.
//!
//! The memory is mapped twice. Threads of the program use the *front*, whose faults come here. The
//! server fills and empties pages through the other mapping, and maps a page into the front when it
//! is full ([`UserFaults::show`]) or unmaps it before it goes ([`UserFaults::hide`]). Pages are shown
//! write-protected, and the kernel takes that off at the first write (`WP_ASYNC`). A page that was
//! hidden leaves a mark if it was still protected, so [`UserFaults::hide`] knows, after nobody can
//! write any longer, which pages were written.

pub mod shared;

use crate::check;
use crate::forks::ParentOnly;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

// linux/userfaultfd.h and linux/fs.h; the C library has none of it.
const API: u64 = 0xaa;
const IOC_NEW: libc::Ioctl = 0xaa00;
const IOC_API: libc::Ioctl = iowr(0xaa, 0x3f, 24);
const IOC_REGISTER: libc::Ioctl = iowr(0xaa, 0, 32);
const IOC_WAKE: libc::Ioctl = 2 << 30 | 16 << 16 | 0xaa << 8 | 2;
const IOC_WRITEPROTECT: libc::Ioctl = iowr(0xaa, 6, 24);
const IOC_CONTINUE: libc::Ioctl = iowr(0xaa, 7, 32);
const IOC_POISON: libc::Ioctl = iowr(0xaa, 8, 32);
const IOC_PAGEMAP_SCAN: libc::Ioctl = iowr(b'f' as libc::Ioctl, 16, 96);
const USER_MODE_ONLY: libc::c_int = 1;
const FEATURES: [(u64, &str); 6] = [
    (1 << 5, "MISSING_SHMEM"),
    (1 << 8, "THREAD_ID"),
    (1 << 10, "MINOR_SHMEM"),
    (1 << 12, "WP_HUGETLBFS_SHMEM"),
    (1 << 14, "POISON"),
    (1 << 15, "WP_ASYNC"),
];
/// `MISSING`, `WP` and `MINOR`.
const REGISTER_ALL: u64 = 1 | 2 | 4;
const CONTINUE_WP: u64 = 2;
const EVENT_PAGEFAULT: u8 = 0x12;
const FAULT_WRITES: u64 = 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// Messages that are read at once.
const MESSAGES: usize = 16;

const fn iowr(kind: libc::Ioctl, number: libc::Ioctl, bytes: libc::Ioctl) -> libc::Ioctl {
    3 << 30 | bytes << 16 | kind << 8 | number
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserFault {
    /// Its address, at the beginning of a page.
    pub address: usize,
    /// It is a write.
    pub writes: bool,
    /// The thread that waits.
    pub thread: crate::Pid,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u32,
    padding: u32,
}

#[repr(C)]
struct RangeCall {
    start: u64,
    bytes: u64,
    mode: u64,
    done: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// The faults of this process's fronts. A forked child has no part in it.
#[derive(Debug)]
pub struct UserFaults {
    descriptor: ParentOnly,
    pagemap: File,
    serves_calls: bool,
    page_bytes: usize,
}

/// Opens a descriptor of faults, and says whether it serves those of system calls too.
fn open() -> io::Result<(ParentOnly, bool)> {
    let mut serves_calls = true;
    let descriptor = ParentOnly::make(|| {
        if let Ok(device) = File::options().read(true).write(true).open("/dev/userfaultfd") {
            // SAFETY: the device makes a descriptor of these flags, or returns an error.
            let made = unsafe { libc::ioctl(device.as_raw_fd(), IOC_NEW, FLAGS) };
            if made >= 0 {
                // SAFETY: the kernel has just made it, and nobody else has it.
                return Ok(unsafe { OwnedFd::from_raw_fd(made) });
            }
        }
        make(FLAGS).or_else(|_| {
            serves_calls = false;
            make(FLAGS | USER_MODE_ONLY)
        })
    });
    let descriptor = descriptor.map_err(|cause: io::Error| {
        let why = match cause.raw_os_error() {
            Some(libc::ENOSYS) => "the kernel has no userfaultfd",
            Some(libc::EPERM) => "a sandbox (such as seccomp in a container) forbids userfaultfd",
            _ => "userfaultfd cannot be opened",
        };
        io::Error::new(cause.kind(), format!("{why}: {cause}"))
    })?;
    Ok((descriptor, serves_calls))
}

/// Asks for features. The kernel refuses all if one is missing, so that one is looked for.
fn agree(descriptor: RawFd, features: &[(u64, &str)]) -> io::Result<()> {
    let wanted = features.iter().fold(0, |all, (bit, _)| all | bit);
    let mut call = [API, wanted, 0];
    // SAFETY: the kernel reads and writes three words, which are a live local.
    let agreed = unsafe { libc::ioctl(descriptor, IOC_API, call.as_mut_ptr()) };
    if agreed == 0 {
        return Ok(());
    }
    // On EINVAL the kernel has cleared the words.
    let has = made_features().unwrap_or(0);
    let missing = features.iter().filter(|(bit, _)| has & bit == 0).map(|(_, name)| *name);
    let missing = missing.collect::<Vec<_>>().join(", ");
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        format!("the kernel's userfaultfd lacks {missing}"),
    ))
}

/// Makes the faults of a range come to a descriptor.
///
/// # Safety
/// The range is a mapping of a memory file of this process, and stays mapped while the descriptor
/// is open.
unsafe fn register(descriptor: RawFd, start: *mut u8, bytes: usize) -> io::Result<()> {
    let mut call =
        RangeCall { start: start as u64, bytes: bytes as u64, mode: REGISTER_ALL, done: 0 };
    // SAFETY: the kernel reads and writes the live local; it checks the range.
    check(unsafe { libc::ioctl(descriptor, IOC_REGISTER, &raw mut call) }).map(drop)
}

/// Whether the kernel reads faults without waiting when it is asked to (`userfaultfd_new` in
/// fs/userfaultfd.c sets `FMODE_NOWAIT`).
static READS_NOW: AtomicBool = AtomicBool::new(true);

/// Reads messages that are there; returns how many bytes they are.
///
/// Whether a descriptor waits is a property of its description, which a member shares and can
/// change at any instant. So each read says that it does not wait. A kernel that cannot do that
/// reads as the description says.
fn read_now(descriptor: RawFd, messages: &mut [Message; MESSAGES]) -> io::Result<usize> {
    let bytes = size_of_val(messages);
    // Relaxed: a flag that stands for nothing else.
    if READS_NOW.load(Ordering::Relaxed) {
        let whole = libc::iovec { iov_base: messages.as_mut_ptr().cast(), iov_len: bytes };
        // SAFETY: the buffer is a live local of the caller, of this many bytes, of integers only.
        let read = unsafe { libc::preadv2(descriptor, &whole, 1, -1, libc::RWF_NOWAIT) };
        match check_count(read) {
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                READS_NOW.store(false, Ordering::Relaxed);
            }
            result => return result,
        }
    }
    // SAFETY: as above.
    check_count(unsafe { libc::read(descriptor, messages.as_mut_ptr().cast(), bytes) })
}

fn check_count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Calls `each` with the faults that wait, if any do.
fn take(descriptor: RawFd, page_bytes: usize, each: &mut dyn FnMut(UserFault)) -> io::Result<()> {
    let none = Message { event: 0, reserved: [0; 7], flags: 0, address: 0, thread: 0, padding: 0 };
    let mut messages = [none; MESSAGES];
    let read = match read_now(descriptor, &mut messages) {
        Ok(bytes) => bytes,
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => 0,
        Err(cause) => return Err(cause),
    };
    let count = (read / size_of::<Message>()).min(MESSAGES);
    for message in messages[..count].iter().filter(|message| message.event == EVENT_PAGEFAULT) {
        let address = message.address as usize;
        each(UserFault {
            address: address - address % page_bytes,
            writes: message.flags & FAULT_WRITES != 0,
            thread: message.thread as crate::Pid,
        });
    }
    Ok(())
}

/// Maps pages that the memory file has, and wakes who waits for them. `mapped` is called for each
/// page that is mapped already, where the kernel stops and wakes nobody.
fn map_pages(
    descriptor: RawFd,
    range: std::ops::Range<u64>,
    mode: u64,
    page_bytes: u64,
    mapped: impl Fn(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let mut call = RangeCall { start: at, bytes: range.end - at, mode, done: 0 };
        // SAFETY: the kernel reads and writes the live local, and changes which pages are mapped of
        // a registered range only: those have the bytes of the memory file.
        let result = unsafe { libc::ioctl(descriptor, IOC_CONTINUE, &raw mut call) };
        if result == 0 {
            return Ok(());
        }
        let cause = io::Error::last_os_error();
        at += u64::try_from(call.done).unwrap_or(0);
        match cause.raw_os_error() {
            Some(libc::EAGAIN) => {}
            Some(libc::EEXIST) => {
                mapped(at)?;
                at += page_bytes;
            }
            _ => return Err(cause),
        }
    }
    Ok(())
}

fn wake(descriptor: RawFd, start: u64, bytes: u64) -> io::Result<()> {
    let mut call = [start, bytes];
    // SAFETY: the kernel reads two words, which are a live local.
    check(unsafe { libc::ioctl(descriptor, IOC_WAKE, call.as_mut_ptr()) }).map(drop)
}

/// Makes touches of a page end in SIGBUS, and wakes who waits for it.
fn poison(descriptor: RawFd, start: u64, bytes: u64) -> io::Result<()> {
    let mut call = RangeCall { start, bytes, mode: 0, done: 0 };
    // SAFETY: the kernel reads and writes the live local, and marks pages of a registered range.
    check(unsafe { libc::ioctl(descriptor, IOC_POISON, &raw mut call) })?;
    wake(descriptor, start, bytes)
}

impl UserFaults {
    /// Opens a descriptor of faults: of `/dev/userfaultfd` if this process may open it, of the
    /// system call, or of the system call for faults of user mode only.
    ///
    /// # Errors
    /// A sentence says what is missing: the kernel has no userfaultfd or lacks a feature, or a
    /// sandbox forbids it.
    pub fn open() -> io::Result<UserFaults> {
        let (descriptor, serves_calls) = open()?;
        agree(descriptor.here()?.as_raw_fd(), &FEATURES)?;
        let page_bytes = rustix::param::page_size();
        let pagemap = crate::proc::own_page_map()?;
        Ok(UserFaults { descriptor, pagemap, serves_calls, page_bytes })
    }

    fn raw(&self) -> io::Result<RawFd> {
        Ok(self.descriptor.here()?.as_raw_fd())
    }

    /// Whether faults inside of system calls (`read` into the front) are served too. Otherwise such
    /// a call fails with `EFAULT` where a page is absent.
    pub fn serves_calls(&self) -> bool {
        self.serves_calls
    }

    /// A descriptor that is readable when there are faults. `None` in a forked child.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get()
    }

    /// Makes the faults of a front come here.
    ///
    /// # Safety
    /// The range is a mapping of a memory file of this process, and stays mapped while this lives.
    pub unsafe fn register(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { register(self.raw()?, start, bytes) }
    }

    /// Calls `each` with the faults that wait, if any do.
    pub fn take(&self, each: &mut dyn FnMut(UserFault)) -> io::Result<()> {
        take(self.raw()?, self.page_bytes, each)
    }

    /// Maps pages, which the memory file has, into a front, and wakes who waits for them. Pages that
    /// are mapped already stay as they are; who waits for them is woken too.
    ///
    /// # Safety
    /// The range is in a registered front.
    ///
    /// # Errors
    /// Those of the kernel: the memory file lacks a page.
    pub unsafe fn show(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        let (descriptor, page) = (self.raw()?, self.page_bytes as u64);
        let range = start as u64..start as u64 + bytes as u64;
        map_pages(descriptor, range, CONTINUE_WP, page, |at| wake(descriptor, at, page))
    }

    /// Makes touches of a page end in SIGBUS, and wakes who waits for it.
    ///
    /// # Safety
    /// The page is in a registered front.
    pub unsafe fn poison(&self, start: *mut u8) -> io::Result<()> {
        poison(self.raw()?, start as u64, self.page_bytes as u64)
    }

    /// Unmaps up to 32 pages of a front, so that the next touch faults. Returns which of `shown`
    /// (those that were shown) have been written since, in the same bits: the first page is bit 0.
    ///
    /// # Safety
    /// The range is in a registered front. The memory file keeps the pages.
    pub unsafe fn hide(&self, start: *mut u8, bytes: usize, shown: u32) -> io::Result<u32> {
        // SAFETY: the memory file keeps the bytes, and the next touch is served.
        check(unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) })?;
        // The mark of a page that was protected looks like one that is swapped out.
        let marked = self.pages_with(start as u64, bytes as u64, PAGE_IS_SWAPPED)?;
        // A page that was touched after it was hidden faults, and stays unmapped until it is shown.
        Ok(shown & !marked)
    }

    /// The pages of a range that are of a category.
    fn pages_with(&self, start: u64, bytes: u64, category: u64) -> io::Result<u32> {
        let mut found = [PageRegion::default(); 32];
        let (vector, entries) = (found.as_mut_ptr() as u64, found.len() as u64);
        // struct pm_scan_arg: size, flags, start, end, walk_end, vec, vec_len, max_pages,
        // category_inverted, category_mask, category_anyof_mask, return_mask.
        let mut call =
            [96, 0, start, start + bytes, 0, vector, entries, 0, 0, category, 0, category];
        let file = self.pagemap.as_fd().as_raw_fd();
        // SAFETY: the kernel reads the words and writes at most `found.len()` entries, both live.
        let count = check(unsafe { libc::ioctl(file, IOC_PAGEMAP_SCAN, call.as_mut_ptr()) })?;
        let page = self.page_bytes as u64;
        let mut mask = 0_u32;
        for region in &found[..(count as usize).min(found.len())] {
            for at in (region.start..region.end).step_by(self.page_bytes) {
                mask |= 1_u32.checked_shl(((at - start) / page) as u32).unwrap_or(0);
            }
        }
        Ok(mask)
    }

    /// Which pages of a range of up to 32 are mapped.
    pub fn mapped(&self, start: *mut u8, bytes: usize) -> io::Result<u32> {
        self.pages_with(start as u64, bytes as u64, PAGE_IS_PRESENT)
    }
}

const FLAGS: libc::c_int = libc::O_CLOEXEC | libc::O_NONBLOCK;

fn make(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes flags only.
    let made = check(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
    // SAFETY: the kernel has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(made as RawFd) })
}

/// The features of this kernel.
fn made_features() -> io::Result<u64> {
    let probe = make(FLAGS | USER_MODE_ONLY)?;
    let mut call = [API, 0, 0];
    // SAFETY: the kernel reads and writes three words, which are a live local.
    check(unsafe { libc::ioctl(probe.as_raw_fd(), IOC_API, call.as_mut_ptr()) })?;
    Ok(call[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags};

    const PAGE: usize = 4096;
    const PAGES: usize = 8;

    /// Maps a memory file of eight pages.
    fn map(file: &OwnedFd) -> *mut u8 {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let map =
            unsafe { rustix::mm::mmap(null, PAGES * PAGE, access, MapFlags::SHARED, file, 0) };
        map.expect("mapped").cast()
    }

    /// The order of events that a pager relies on: pages that are shown are clean, a write is seen
    /// when the page is hidden, and a page that was only read is not taken for written.
    #[test]
    fn hiding_says_which_pages_were_written() {
        let faults = match UserFaults::open() {
            Ok(faults) => faults,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        let file = rustix::fs::memfd_create("weir-test", rustix::fs::MemfdFlags::CLOEXEC);
        let file = file.expect("a memory file");
        rustix::fs::ftruncate(&file, (PAGES * PAGE) as u64).expect("length");
        let (back, front) = (map(&file), map(&file));
        // SAFETY: the front is mapped until the process ends.
        unsafe { faults.register(front, PAGES * PAGE) }.expect("registered");
        for page in 0..PAGES {
            // SAFETY: inside of the mapping, and no other thread has it.
            unsafe { back.wrapping_add(page * PAGE).write(page as u8 + 1) };
        }
        for round in 0..3 {
            // SAFETY: inside of the front.
            unsafe { faults.show(front, 6 * PAGE) }.expect("shown");
            // SAFETY: as above. What is shown already does no harm.
            unsafe { faults.show(front, 7 * PAGE) }.expect("shown");
            for page in [1, 4] {
                // SAFETY: shown above, and no other thread has it.
                unsafe { front.wrapping_add(page * PAGE + 9).write(round) };
            }
            for page in [0, 4, 6] {
                // SAFETY: as above.
                let byte = unsafe { front.wrapping_add(page * PAGE).read() };
                assert_eq!(byte, page as u8 + 1);
            }
            assert_eq!(faults.mapped(front, PAGES * PAGE).expect("mapped"), 0b0111_1111);
            // SAFETY: inside of the front.
            let written = unsafe { faults.hide(front, PAGES * PAGE, 0b0111_1111) };
            assert_eq!(written.expect("hidden"), 0b0001_0010, "round {round}");
            assert_eq!(faults.mapped(front, PAGES * PAGE).expect("mapped"), 0);
        }
        let address = front as usize + 7 * PAGE;
        let toucher = std::thread::spawn(move || {
            // SAFETY: as above; the test shows the page.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address + 5).write(1) };
        });
        let mut seen = None;
        while seen.is_none() {
            faults.take(&mut |fault| seen = Some(fault)).expect("read");
        }
        let seen = seen.expect("a fault");
        assert_eq!((seen.address, seen.writes), (address, true));
        assert!(seen.thread > 0);
        // SAFETY: inside of the front.
        unsafe { faults.show(front.wrapping_add(7 * PAGE), PAGE) }.expect("shown");
        toucher.join().expect("it went on");
        // SAFETY: inside of the front.
        let written = unsafe { faults.hide(front.wrapping_add(7 * PAGE), PAGE, 1) };
        assert_eq!(written.expect("hidden"), 1);
    }
}
