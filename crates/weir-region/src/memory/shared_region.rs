//! The memory of a region that several processes map: its members, and what the owner shows them.

use rustix::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir::parts::{MapAccess, Mapping, SEALS, copy, page_bytes, refused};
use weir::{Error, Result};
use weir_policy::paging::Run;
use weir_sys::forks::ParentOnly;
use weir_sys::userfault::UserFault;
use weir_sys::userfault::shared::{MemberFaults, ServedFaults};

/// A member, as the owner sees it.
#[derive(Debug)]
pub(crate) struct MemberFront {
    faults: ServedFaults,
    base: u64,
    bytes: u64,
    /// It has died, or cannot be served.
    gone: AtomicBool,
}

impl MemberFront {
    /// Takes the descriptor that a member sent, unless it is none of faults.
    pub(crate) fn new(
        sent: &mut Option<ParentOnly>,
        base: u64,
        bytes: u64,
    ) -> std::io::Result<MemberFront> {
        let faults = ServedFaults::received(sent)?;
        Ok(MemberFront { faults, base, bytes, gone: AtomicBool::new(false) })
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.faults.descriptor()
    }

    /// Calls `each` with the page of each fault that waits, and whether it is a write.
    pub(crate) fn take(&self, each: &mut dyn FnMut(u32, bool)) -> std::io::Result<()> {
        self.faults.take(&mut |fault: UserFault| {
            // The member chose the address: one outside is nobody's.
            let at = (fault.address as u64).wrapping_sub(self.base);
            if at < self.bytes {
                each((at / page_bytes()) as u32, fault.writes);
            }
        })
    }

    fn place(&self, run: Run) -> (u64, u64) {
        (
            self.base.wrapping_add(u64::from(run.first) * page_bytes()),
            u64::from(run.count) * page_bytes(),
        )
    }

    pub(crate) fn show(&self, run: Run, writes: bool) -> std::io::Result<()> {
        let (start, bytes) = self.place(run);
        self.faults.show(start, bytes, writes)
    }

    pub(crate) fn poison(&self, page: u32) -> std::io::Result<()> {
        self.faults.poison(self.place(Run { first: page, count: 1 }).0)
    }

    /// Does not serve it any longer.
    pub(crate) fn end(&self) {
        // Relaxed: a flag that is looked at again.
        self.gone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

/// All members of a region, and the pages that one of them may write.
#[derive(Debug)]
pub(crate) struct SharedFronts {
    members: Mutex<Vec<Arc<MemberFront>>>,
    written: Mutex<Vec<u64>>,
}

impl SharedFronts {
    pub(crate) fn new(pages: usize) -> SharedFronts {
        let written = Mutex::new(vec![0; pages.div_ceil(64)]);
        SharedFronts { members: Mutex::new(Vec::new()), written }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<MemberFront>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn written(&self) -> MutexGuard<'_, Vec<u64>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, member: Arc<MemberFront>) {
        self.lock().push(member);
    }

    /// The members that live.
    pub(crate) fn members(&self) -> Vec<Arc<MemberFront>> {
        let mut members = self.lock();
        members.retain(|member| !member.is_gone());
        members.clone()
    }

    /// Notes that a member may write a page now.
    pub(crate) fn note(&self, page: u32) {
        self.written()[page as usize / 64] |= 1 << (page % 64);
    }

    /// Protects pages in all members. Returns which of them could be written before, in the bits of
    /// the run: bit 0 is its first page.
    pub(crate) fn hide(&self, run: Run) -> u32 {
        for member in self.members() {
            let (start, bytes) = member.place(run);
            // One whose pages cannot be protected might write what is lost then: it has died, or is
            // not served any longer.
            if member.faults.protect(start, bytes).is_err() {
                member.end();
            }
        }
        let mut words = self.written();
        let mut written = 0;
        for page in run.pages() {
            let (word, bit) = (&mut words[page as usize / 64], 1 << (page % 64));
            written |= u32::from(*word & bit != 0) << (page - run.first);
            *word &= !bit;
        }
        written
    }
}

/// The memory of a region in a member.
#[derive(Debug)]
pub(crate) struct MemberMemory {
    // Before the mapping: the faults end before the memory does.
    faults: MemberFaults,
    map: Mapping,
    bytes: usize,
    lost: AtomicBool,
}

impl MemberMemory {
    /// Maps the memory that the owner sent.
    pub(crate) fn received(file: &ParentOnly, bytes: u64) -> Result<MemberMemory> {
        let failed = |cause| Error::os("join", "a region", cause);
        let number = file.here().map_err(|cause| failed(cause.into()))?;
        let seals = rustix::fs::fcntl_get_seals(number);
        if !seals.is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(refused("it is not sealed"));
        }
        let whole = bytes.checked_next_multiple_of(page_bytes()).filter(|whole| *whole > 0);
        let about = rustix::fs::fstat(number).map_err(|cause| failed(cause.into()))?;
        let Some(whole) = whole.filter(|whole| u64::try_from(about.st_size) == Ok(*whole)) else {
            return Err(refused("it has another length"));
        };
        let faults = MemberFaults::open().map_err(failed)?;
        let map = Mapping::of_file(number, whole as usize, MapAccess::Own)
            .map_err(|cause| failed(cause.into()))?;
        // SAFETY: the mapping is one of a memory file, and is dropped after `faults`.
        unsafe { faults.register(map.base(), whole as usize) }.map_err(failed)?;
        Ok(MemberMemory { faults, map, bytes: bytes as usize, lost: AtomicBool::new(false) })
    }

    /// The descriptor of its faults and the address of its memory, for the owner.
    pub(crate) fn offer(&self) -> rustix::io::Result<(BorrowedFd<'_>, u64)> {
        Ok((self.faults.here()?, self.map.base() as u64))
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_here(&self) -> bool {
        self.map.is_here()
    }

    /// The owner has died. Whoever waits for a page continues with zeros, and learns here that they
    /// are none of the region's.
    pub(crate) fn lose(&self) {
        // Release: pairs with the Acquire in `is_lost`. It comes before the zeros do.
        self.lost.store(true, Ordering::Release);
        if self.map.replace().is_err() {
            // They would wait for ever.
            std::process::abort();
        }
        let _ =
            self.faults.wake(self.map.base(), self.bytes.next_multiple_of(page_bytes() as usize));
    }

    pub(crate) fn is_lost(&self) -> bool {
        // Acquire: pairs with the release in `lose`.
        self.lost.load(Ordering::Acquire)
    }

    /// Copies bytes out, which others may write meanwhile: whether they are the region's.
    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) -> bool {
        let from = self.map.at(at, to.len());
        // SAFETY: inside of the mapping (`at` asserts), to which this lends no references. Threads
        // of this process that share a region keep apart what they write, as its users promise by
        // the lock of `SharedRegionMember`; others are processes of their own.
        unsafe { copy(from, to.as_mut_ptr(), to.len()) };
        // The copy comes before the look: zeros that were copied come with the loss.
        fence(Ordering::Acquire);
        !self.is_lost()
    }

    /// Copies bytes in: whether the region has them.
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) -> bool {
        let to = self.map.at(at, from.len());
        // SAFETY: as in `copy_out`.
        unsafe { copy(from.as_ptr(), to, from.len()) };
        !self.is_lost()
    }
}
