//! Page faults of other processes, over memory that they share with the server.
//!
//! A member process maps the memory file, and hands the descriptor of its faults to the server
//! ([`MemberFaults`]). The server maps pages into the members ([`ServedFaults`]). A page is shown
//! write-protected until a member writes it, and then the server is told. Before a page leaves, it is
//! protected in all members. A hole in the memory file takes it away from all of them.
//!
//! A member keeps a copy of its descriptor. Otherwise the death of the server would let touches of
//! absent pages find zeros.

use super::{
    CONTINUE_WP, IOC_WRITEPROTECT, RangeCall, UserFault, agree, map_pages, open, poison, register,
    take, wake,
};
use crate::check;
use crate::forks::ParentOnly;
use crate::proc::{self, FdInfo, ProcDir};
use rustix::fd::{AsRawFd, BorrowedFd, RawFd};
use std::io;

const FEATURES: [(u64, &str); 6] = [
    (1, "PAGEFAULT_FLAG_WP"),
    (1 << 5, "MISSING_SHMEM"),
    (1 << 8, "THREAD_ID"),
    (1 << 10, "MINOR_SHMEM"),
    (1 << 12, "WP_HUGETLBFS_SHMEM"),
    (1 << 14, "POISON"),
];
/// The kernel's own mark of a descriptor whose features are fixed (`UFFD_FEATURE_INITIALIZED`).
const INITIALIZED: u64 = 1 << 31;
/// The name of such a descriptor in /proc.
const LINK: &str = "anon_inode:[userfaultfd]";

/// The faults of this process, which another one serves.
#[derive(Debug)]
pub struct MemberFaults {
    descriptor: ParentOnly,
}

impl MemberFaults {
    /// Opens a descriptor of faults.
    pub fn open() -> io::Result<MemberFaults> {
        let (descriptor, _) = open()?;
        agree(descriptor.here()?.as_raw_fd(), &FEATURES)?;
        Ok(MemberFaults { descriptor })
    }

    /// The descriptor, to be sent to the server.
    ///
    /// # Errors
    /// `BADF`: this is a forked child.
    pub fn here(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.descriptor.here()
    }

    /// Makes the faults of a mapping come to the descriptor.
    ///
    /// # Safety
    /// The range is a mapping of a memory file of this process, and stays mapped while this lives.
    pub unsafe fn register(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { register(self.here()?.as_raw_fd(), start, bytes) }
    }

    /// Wakes all that wait in a range. They touch it again.
    pub fn wake(&self, start: *mut u8, bytes: usize) -> io::Result<()> {
        wake(self.here()?.as_raw_fd(), start as u64, bytes as u64)
    }
}

/// The faults of a member. Addresses are those of the member.
#[derive(Debug)]
pub struct ServedFaults {
    descriptor: ParentOnly,
    page_bytes: u64,
}

impl ServedFaults {
    /// Takes a descriptor that a member sent. One that is refused is left there: to close what is
    /// no descriptor of faults, or to ask what it is, can take as long as its sender likes.
    ///
    /// Its features are fixed, and they are those of [`MemberFaults`]. One that also tells of forks
    /// would give this process a descriptor for each fork of the member, and while it has told of
    /// something that nobody has read, the kernel refuses to map or protect pages.
    ///
    /// # Errors
    /// It is not a descriptor of faults, or one of other features.
    pub fn received(sent: &mut Option<ParentOnly>) -> io::Result<ServedFaults> {
        let refused = || io::Error::new(io::ErrorKind::InvalidData, "it serves no faults");
        let number = sent.as_ref().ok_or_else(refused)?.here()?.as_raw_fd();
        let name = proc::link(ProcDir::This, number).ok_or_else(refused)?;
        let wanted = FEATURES.iter().fold(0, |all, (bit, _)| all | bit);
        if name.as_os_str() != LINK || features_of(number) & !INITIALIZED != wanted {
            return Err(refused());
        }
        let descriptor = sent.take().ok_or_else(refused)?;
        // The one who reads does not wait.
        rustix::io::ioctl_fionbio(descriptor.here()?, true).or_else(|_| {
            rustix::fs::fcntl_setfl(descriptor.here()?, rustix::fs::OFlags::NONBLOCK)
        })?;
        Ok(ServedFaults { descriptor, page_bytes: rustix::param::page_size() as u64 })
    }

    fn raw(&self) -> io::Result<RawFd> {
        Ok(self.descriptor.here()?.as_raw_fd())
    }

    /// A descriptor that is readable when there are faults. `None` in a forked child.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.get()
    }

    /// Calls `each` with the faults that wait, if any do.
    pub fn take(&self, each: &mut dyn FnMut(UserFault)) -> io::Result<()> {
        take(self.raw()?, self.page_bytes as usize, each)
    }

    /// Maps pages, which the memory file has, into the member, protected or to be written, and wakes
    /// who waits for them.
    ///
    /// # Errors
    /// Those of the kernel: the memory file lacks a page, or the member has died.
    pub fn show(&self, start: u64, bytes: u64, writes: bool) -> io::Result<()> {
        let descriptor = self.raw()?;
        let mode = if writes { 0 } else { CONTINUE_WP };
        map_pages(descriptor, start..start + bytes, mode, self.page_bytes, |at| match writes {
            true => protect(descriptor, at, self.page_bytes, false),
            false => wake(descriptor, at, self.page_bytes),
        })
    }

    /// Protects pages: whoever writes one afterwards waits until it is shown to be written.
    ///
    /// # Errors
    /// Those of the kernel: the member has died.
    pub fn protect(&self, start: u64, bytes: u64) -> io::Result<()> {
        protect(self.raw()?, start, bytes, true)
    }

    /// Makes touches of a page end in SIGBUS, and wakes who waits for it.
    pub fn poison(&self, start: u64) -> io::Result<()> {
        poison(self.raw()?, start, self.page_bytes)
    }
}

/// The features that a descriptor of faults was made to have (`userfaultfd_show_fdinfo` in
/// fs/userfaultfd.c). None before its API was agreed upon.
fn features_of(descriptor: RawFd) -> u64 {
    FdInfo::of(ProcDir::This, descriptor).and_then(|info| info.fault_features).unwrap_or(0)
}

fn protect(descriptor: RawFd, start: u64, bytes: u64, protects: bool) -> io::Result<()> {
    loop {
        // Without protection it wakes who waits.
        let mut call = RangeCall { start, bytes, mode: u64::from(protects), done: 0 };
        // SAFETY: the kernel reads the first three words of the live local, and changes the
        // protection of pages of a registered range only.
        let result = unsafe { libc::ioctl(descriptor, IOC_WRITEPROTECT, &raw mut call) };
        match check(result) {
            Err(cause) if cause.raw_os_error() == Some(libc::EAGAIN) => {}
            result => return result.map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::userfault::READS_NOW;
    use rustix::fs::{OFlags, fcntl_setfl};
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    /// Opens a descriptor of these features, as a member might that does not keep to the protocol.
    fn open_with(features: Option<u64>) -> Option<ParentOnly> {
        let (descriptor, _) = open().map_err(|why| println!("SKIPPED: {why}")).ok()?;
        if let Some(bits) = features {
            let number = descriptor.here().expect("here").as_raw_fd();
            agree(number, &[(bits, "asked for")]).map_err(|why| println!("SKIPPED: {why}")).ok()?;
        }
        Some(descriptor)
    }

    /// A descriptor that tells of forks gave the owner one more descriptor for each fork of the
    /// member, until it had none left; and one that had told of a fork held up all members.
    #[test]
    fn a_descriptor_of_other_features_is_refused() {
        const EVENT_FORK: u64 = 1 << 1;
        let wanted = FEATURES.iter().fold(0, |all, (bit, _)| all | bit);
        for features in [None, Some(0), Some(EVENT_FORK), Some(wanted | EVENT_FORK)] {
            let Some(descriptor) = open_with(features) else { return };
            let mut sent = Some(descriptor);
            let refused = ServedFaults::received(&mut sent).expect_err("other features");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{features:?}");
            assert!(sent.is_some(), "its receiver decides who closes it");
        }
        let Some(descriptor) = open_with(Some(wanted)) else { return };
        ServedFaults::received(&mut Some(descriptor)).expect("those of a member");
    }

    /// A member can make the description wait at any instant, also between poll(2) and read(2).
    #[test]
    fn a_read_does_not_wait_though_the_description_does() {
        let wanted = FEATURES.iter().fold(0, |all, (bit, _)| all | bit);
        let mut sent = open_with(Some(wanted));
        if sent.is_none() {
            return;
        }
        let served = ServedFaults::received(&mut sent).expect("served");
        served.take(&mut |_| panic!("no fault")).expect("read");
        if !READS_NOW.load(Ordering::Relaxed) {
            return println!("SKIPPED: this kernel's reads of faults cannot do without waiting");
        }
        fcntl_setfl(served.descriptor().expect("here"), OFlags::empty()).expect("waits");
        let (says, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || says.send(served.take(&mut |_| panic!("no fault")).is_ok()));
        assert!(heard.recv_timeout(Duration::from_secs(20)).expect("it does not wait"));
    }
}
