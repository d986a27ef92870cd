//! Descriptors that a forked child does not keep.
//!
//! `O_CLOEXEC` closes descriptors at exec. A forked child that continues without exec would keep
//! its parent's ends of channels open, and nobody would see the parent die. A handler of
//! `pthread_atfork(3)` closes them in the child. [`epoch`] tells parent and child apart.
//!
//! A descriptor must be in the table before any thread forks. So the system call that makes it and
//! the store into the table are one step: the [`gate`](hold_off) lets only one step or one `fork(3)`
//! in at a time. A step takes no other lock and allocates nothing, since a thread that waits at the
//! gate to fork may hold the allocator's lock.
//!
//! A descriptor leaves the table after it was closed. It is not closed inside of the gate, because a
//! peer can make close(2) wait for as long as it likes. So a child may find the number of a
//! descriptor that was closed before the fork and given to another file. It closes the number only
//! if the file is the one in the table.

mod gate;

pub use gate::hold_off;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Descriptors in one block of the table.
const BLOCK: usize = 256;
const FREE: RawFd = -1;
/// An entry whose owner is about to make a descriptor.
const RESERVED: RawFd = -2;

/// How many forks lie between this process and the first that used this module.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static TABLE: TableBlock = TableBlock::new();
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// A further function of this crate that runs in a child.
static IN_CHILD: OnceLock<fn()> = OnceLock::new();

#[derive(Debug)]
struct TableEntry {
    descriptor: AtomicI32,
    /// Inode of the file while its owner closes it, 0 before.
    inode: AtomicU64,
    /// Device of the file while its owner closes it.
    device: AtomicU64,
}

impl TableEntry {
    const fn new() -> TableEntry {
        let (inode, device) = (AtomicU64::new(0), AtomicU64::new(0));
        TableEntry { descriptor: AtomicI32::new(FREE), inode, device }
    }

    fn free(&self) {
        self.inode.store(0, Ordering::Relaxed);
        // Release pairs with the acquire in `TableBlock::add`.
        self.descriptor.store(FREE, Ordering::Release);
    }

    /// Closes the descriptor, and then frees the entry.
    fn close(&self, descriptor: OwnedFd) {
        let Ok(file) = rustix::fs::fstat(&descriptor) else {
            // The file cannot be identified, as one that a peer has sent. A child may keep it.
            hold_off(|| self.free());
            return;
        };
        if rustix::fs::FileType::from_raw_mode(file.st_mode) == rustix::fs::FileType::Unknown {
            // An event counter, an epoll or a process: all of one kind have the same inode, and
            // closing them never waits.
            hold_off(|| {
                self.free();
                drop(descriptor);
            });
            return;
        }
        self.device.store(file.st_dev, Ordering::Relaxed);
        // Release: pairs with the Acquire in `close_in_child`: a child that sees the inode sees the
        // device.
        self.inode.store(file.st_ino, Ordering::Release);
        drop(descriptor);
        // The kernel copies the descriptors of a child before its memory. A child that got this
        // descriptor must not find its entry free.
        hold_off(|| self.free());
    }

    /// Closes the descriptor in a forked child, which may call fstat(2) and close(2).
    fn close_in_child(&self) {
        let descriptor = self.descriptor.swap(FREE, Ordering::Relaxed);
        // Acquire: pairs with the Release in `close`, so that the device below is the inode's.
        let inode = self.inode.swap(0, Ordering::Acquire);
        if descriptor < 0 {
            return;
        }
        // SAFETY: only fstat(2) gets the number, and it may be closed.
        let number = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let is_same = || {
            let file = rustix::fs::fstat(number).map(|file| (file.st_ino, file.st_dev));
            file == Ok((inode, self.device.load(Ordering::Relaxed)))
        };
        if inode == 0 || is_same() {
            // SAFETY: the table holds descriptors of `ParentOnly`s. These know by the epoch that
            // they own nothing in this process. One that was being closed is still the same file.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// A block of the table, which only grows: the handler walks it without a lock, as a handler must.
struct TableBlock {
    entries: [TableEntry; BLOCK],
    next: OnceLock<Box<TableBlock>>,
}

impl TableBlock {
    const fn new() -> TableBlock {
        TableBlock { entries: [const { TableEntry::new() }; BLOCK], next: OnceLock::new() }
    }

    fn add(&'static self, descriptor: RawFd) -> &'static TableEntry {
        for entry in &self.entries {
            // AcqRel: the entry belongs to this caller from here on.
            let taken = entry.descriptor.compare_exchange(
                FREE,
                descriptor,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                return entry;
            }
        }
        get_or_make(&self.next, || Box::new(TableBlock::new())).add(descriptor)
    }
}

extern "C" fn before_the_fork() {
    gate::enter_to_fork();
}

extern "C" fn in_the_parent() {
    gate::leave_after_fork();
}

extern "C" fn in_the_child() {
    gate::reset_in_child();
    // Relaxed: the child has one thread.
    EPOCH.fetch_add(1, Ordering::Relaxed);
    let mut block = Some(&TABLE);
    while let Some(here) = block {
        here.entries.iter().for_each(TableEntry::close_in_child);
        block = here.next.get().map(Box::as_ref);
    }
    if let Some(rest) = IN_CHILD.get() {
        rest();
    }
}

/// Calls `rest` in children that are forked from now on. `rest` does only what is allowed after a
/// fork. Only the first such function is kept.
pub(crate) fn in_children(rest: fn()) -> io::Result<()> {
    install()?;
    let _ = hold_off(|| IN_CHILD.set(rest));
    Ok(())
}

/// Returns the value of a cell, made by `make` if it has none. Threads that ask at the same time may
/// each make one, of which the first is kept.
///
/// A child that is forked meanwhile finds the cell empty or full. `OnceLock::get_or_init` would wait
/// there for a thread of its parent, and so for ever.
pub fn get_or_make<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let made = make();
    // Without the handlers, a child that is forked while the gate is closed finds it closed. Where
    // they cannot be installed, it finds that out by itself.
    let _ = install();
    let _spare = hold_off(|| cell.set(made));
    cell.get().expect("it was set just now, or before")
}

/// Sees to it that forked children know that they are.
///
/// Nobody waits here for another thread, which a child might not have. So threads that come at the
/// same time may all install the handlers, which do no harm if they run twice.
pub(crate) fn install() -> io::Result<()> {
    // Acquire pairs with the release below: who sees it may rely on the handlers.
    if INSTALLED.load(Ordering::Acquire) {
        return Ok(());
    }
    // SAFETY: the handlers are functions of this module that do what is allowed around a fork.
    let error = unsafe {
        libc::pthread_atfork(Some(before_the_fork), Some(in_the_parent), Some(in_the_child))
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    INSTALLED.store(true, Ordering::Release);
    Ok(())
}

/// A number that differs between a process and its forked children.
#[inline]
pub fn epoch() -> u32 {
    // Relaxed: it changes only while a process has a single thread, at its start.
    EPOCH.load(Ordering::Relaxed)
}

/// A descriptor that is closed in forked children.
#[derive(Debug)]
pub struct ParentOnly {
    descriptor: Option<OwnedFd>,
    place: &'static TableEntry,
    epoch: u32,
}

impl ParentOnly {
    /// Keeps a descriptor from children that are forked from now on. [`ParentOnly::make`] also keeps
    /// it from children that are forked while it is made.
    ///
    /// # Errors
    /// `ENOMEM`: the handlers could not be installed.
    pub fn new(descriptor: OwnedFd) -> io::Result<ParentOnly> {
        install()?;
        let place = TABLE.add(descriptor.as_raw_fd());
        Ok(ParentOnly { descriptor: Some(descriptor), place, epoch: epoch() })
    }

    /// Makes a descriptor that no child has, whenever it was forked. `make` does one system call
    /// that does not wait, and nothing else: see [`hold_off`].
    ///
    /// # Errors
    /// Those of `make`; `ENOMEM`: the handlers could not be installed.
    pub fn make<E: From<io::Error>>(
        make: impl FnOnce() -> Result<OwnedFd, E>,
    ) -> Result<ParentOnly, E> {
        let [made] = ParentOnly::make_all(|| make().map(|made| [Some(made)]))?;
        made.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF).into())
    }

    /// Makes two descriptors in one step, as [`ParentOnly::make`] does.
    pub fn make_two<E: From<io::Error>>(
        make: impl FnOnce() -> Result<(OwnedFd, OwnedFd), E>,
    ) -> Result<(ParentOnly, ParentOnly), E> {
        let made = ParentOnly::make_all(|| make().map(|(one, two)| [Some(one), Some(two)]))?;
        let [Some(one), Some(two)] = made else {
            return Err(io::Error::from_raw_os_error(libc::EBADF).into());
        };
        Ok((one, two))
    }

    /// Makes up to `N` descriptors in one step, as [`ParentOnly::make`] does.
    pub fn make_all<const N: usize, E: From<io::Error>>(
        make: impl FnOnce() -> Result<[Option<OwnedFd>; N], E>,
    ) -> Result<[Option<ParentOnly>; N], E> {
        install()?;
        // Reserved before the gate, since the table may have to grow for it.
        let places = [(); N].map(|()| ReservedEntry(TABLE.add(RESERVED)));
        hold_off(|| {
            let mut places = places.into_iter();
            Ok(make()?.map(|descriptor| {
                let (descriptor, place) = (descriptor?, places.next()?.keep());
                // Relaxed: the entry belongs to this caller, and the gate orders it for a child.
                place.descriptor.store(descriptor.as_raw_fd(), Ordering::Relaxed);
                Some(ParentOnly { descriptor: Some(descriptor), place, epoch: epoch() })
            }))
        })
    }

    /// The descriptor. `None` in a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        if self.epoch != epoch() {
            return None;
        }
        self.descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// The descriptor.
    ///
    /// # Errors
    /// `BADF`: this is a forked child.
    pub fn here(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.get().ok_or(rustix::io::Errno::BADF)
    }

    /// Moves the descriptor to a new `ParentOnly`. `None` in a forked child, or if it was taken.
    pub fn pass_on(&mut self) -> Option<ParentOnly> {
        self.get()?;
        let (descriptor, place, epoch) = (self.descriptor.take(), self.place, self.epoch);
        Some(ParentOnly { descriptor, place, epoch })
    }

    /// Takes the descriptor out, so that children inherit it again. `None` in a forked child.
    pub fn take(&mut self) -> Option<OwnedFd> {
        let descriptor = self.descriptor.take()?;
        if self.epoch == epoch() {
            self.place.free();
            return Some(descriptor);
        }
        // The handler has closed it, and its number may belong to another file by now.
        let _ = descriptor.into_raw_fd();
        None
    }
}

/// An entry of the table that is freed on drop unless it is kept.
struct ReservedEntry(&'static TableEntry);

impl ReservedEntry {
    fn keep(self) -> &'static TableEntry {
        let place = self.0;
        std::mem::forget(self);
        place
    }
}

impl Drop for ReservedEntry {
    fn drop(&mut self) {
        self.0.free();
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        match self.descriptor.take() {
            Some(descriptor) if self.epoch == epoch() => self.place.close(descriptor),
            // The handler has closed it, and its number may belong to another file by now.
            Some(descriptor) => drop(descriptor.into_raw_fd()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_forked_child_does_not_keep_it() {
        let (mut read, write) = io::pipe().expect("a pipe");
        let kept = ParentOnly::new(OwnedFd::from(write)).expect("kept");
        let (mut go, mut gone) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
        // SAFETY: the child makes system calls only, and ends by one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let closed = kept.get().is_none() && epoch() == 1;
            let _ = gone.1.write(&[u8::from(closed)]);
            let _ = go.0.read(&mut [0]);
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(0) };
        }
        let mut said = [0];
        gone.0.read_exact(&mut said).expect("said");
        assert_eq!(said, [1], "the child does not have it");
        assert!(kept.get().is_some());
        drop(kept);
        assert_eq!(read.read(&mut [0]).expect("read"), 0, "the end is seen while the child lives");
        go.1.write_all(b".").expect("told");
        // SAFETY: waits for the child above.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }

    /// Descriptors of this process that refer to an event counter or a socket.
    fn count_kept() -> usize {
        let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let is_kept = |link: &std::path::PathBuf| {
            let link = link.to_string_lossy();
            link.contains("[eventfd]") || link.contains("socket:")
        };
        links.filter(is_kept).count()
    }

    /// Runs one test of this program again in a process of its own, because other tests make
    /// descriptors too. Returns whether this is that process.
    fn is_alone(test: &str) -> bool {
        if std::env::var_os("WEIR_TEST_ALONE").is_some() {
            return true;
        }
        let mut command = std::process::Command::new(std::env::current_exe().expect("a program"));
        command.args([test, "--exact", "--nocapture"]).env("WEIR_TEST_ALONE", "1");
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        false
    }

    #[test]
    fn a_child_forked_at_any_instant_has_none_that_was_being_made() {
        if !is_alone("forks::tests::a_child_forked_at_any_instant_has_none_that_was_being_made") {
            return;
        }
        use rustix::event::{EventfdFlags, eventfd};
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let before = count_kept();
        let stops = AtomicBool::new(false);
        let counter = || eventfd(0, EventfdFlags::empty()).map_err(io::Error::from);
        let sockets = || {
            let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            socketpair(unix, kind, SocketFlags::empty(), None).map_err(io::Error::from)
        };
        let make = || {
            let mut made = 0;
            while !stops.load(Ordering::Relaxed) {
                let counter = ParentOnly::make(counter).expect("made");
                let sockets = ParentOnly::make_two(sockets).expect("made");
                assert!(counter.get().is_some() && sockets.1.get().is_some());
                made += 1;
            }
            made
        };
        let (made, kept) = std::thread::scope(|scope| {
            let makers = [scope.spawn(make), scope.spawn(make)];
            let mut kept = 0;
            for _ in 0..1000 {
                // SAFETY: the child makes system calls and allocates, which it may with this C
                // library, and ends by a system call.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let count = i32::from(count_kept() > before);
                    // SAFETY: ends the child without running what the parent's exit would run.
                    unsafe { libc::_exit(count) };
                }
                let mut status = 0;
                // SAFETY: waits for the child above; the pointer is to a live local.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                kept += u32::from(status != 0);
            }
            stops.store(true, Ordering::Relaxed);
            let made = makers.map(|maker| maker.join().expect("no panic"));
            (made.iter().sum::<u32>(), kept)
        });
        assert_eq!(kept, 0, "children of 1000 have one");
        assert!(made >= 100, "only {made} were made meanwhile: forks keep makers out");
    }

    /// A child that was forked while another thread installed the handlers found a lock that nobody
    /// would open, and could make nothing. So threads install them without a lock, each for itself
    /// if they come together.
    #[test]
    fn handlers_that_are_installed_twice_do_what_they_do_once() {
        if !is_alone("forks::tests::handlers_that_are_installed_twice_do_what_they_do_once") {
            return;
        }
        install().expect("installed");
        INSTALLED.store(false, Ordering::Relaxed);
        let (_read, write) = io::pipe().expect("a pipe");
        let kept = ParentOnly::new(OwnedFd::from(write)).expect("installed again");
        // SAFETY: the child makes system calls and allocates, which it may with this C library, and
        // ends by a system call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right = kept.get().is_none() && hold_off(|| true) && hold_off(|| true);
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child above; the pointer is to a live local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child has it not, and its gate is open");
        assert!(kept.get().is_some());
        assert_eq!(hold_off(|| 9), 9, "the parent's gate is open");
    }

    /// A child that was forked while another thread installed the handlers and was in the gate ran
    /// none of them. It waited for that thread's ticket for ever.
    #[test]
    fn a_child_without_handlers_finds_an_open_gate() {
        if !is_alone("forks::tests::a_child_without_handlers_finds_an_open_gate") {
            return;
        }
        let barrier = std::sync::Barrier::new(2);
        let epoch_before = epoch();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                hold_off(|| {
                    barrier.wait();
                    barrier.wait();
                });
            });
            barrier.wait();
            // SAFETY: no handler runs, as in such a child; it makes system calls and ends by one.
            let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
            if child == 0 {
                // SAFETY: it ends a child that waits for ever.
                unsafe { libc::alarm(20) };
                let is_right = hold_off(|| true) && epoch() != epoch_before;
                // SAFETY: ends the child without running what the parent's exit would run.
                unsafe { libc::_exit(i32::from(!is_right)) };
            }
            let mut status = 0;
            // SAFETY: waits for the child above; the pointer is to a live local.
            assert_eq!(unsafe { libc::waitpid(child as i32, &mut status, 0) }, child as i32);
            assert_eq!(status, 0, "it went through the gate, as a child");
            barrier.wait();
        });
        assert_eq!((hold_off(|| 9), epoch()), (9, epoch_before), "the parent's gate is open");
    }

    #[test]
    fn steps_that_nest_fail_or_panic_leave_the_gate_open() {
        let failed = ParentOnly::make(|| Err(io::Error::from_raw_os_error(libc::EMFILE)));
        assert_eq!(failed.expect_err("fails").raw_os_error(), Some(libc::EMFILE));
        assert_eq!(hold_off(|| hold_off(|| 7)), 7);
        let panics = std::panic::catch_unwind(|| hold_off(|| panic!("inside")));
        assert!(panics.is_err());
        assert_eq!(hold_off(|| 8), 8);
    }

    #[test]
    fn a_descriptor_that_was_taken_out_can_be_used() {
        let (read, write) = io::pipe().expect("a pipe");
        let mut kept = ParentOnly::new(OwnedFd::from(write)).expect("kept");
        let write = kept.take().expect("mine");
        io::PipeWriter::from(write).write_all(b"x").expect("written");
        let mut byte = [0];
        io::PipeReader::from(OwnedFd::from(read)).read_exact(&mut byte).expect("read");
        assert_eq!(&byte, b"x");
    }
}
