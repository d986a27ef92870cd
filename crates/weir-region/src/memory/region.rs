//! The memory of a region: a memory file with a place for each page, mapped for the pager, and for
//! the program too if its faults are served. Pages that are not in memory are holes.

use rustix::fd::BorrowedFd;
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use weir::parts::{MapAccess, Mapping, SEALS, allocate, make_empty, page_bytes, wanted_engine};
use weir::{Error, ErrorKind, Result};
use weir_policy::paging::Run;
use weir_sys::forks::ParentOnly;
use weir_sys::may_reach;
use weir_sys::spill::{
    self, MOST_IN_FLIGHT, MemoryPiece, SpillEngine, SpillFile, TransferDirection,
};
use weir_sys::userfault::{UserFault, UserFaults};

/// The name of the memory in /proc.
const NAME: &str = "weir-region";

/// The pager's side of a region's memory.
#[derive(Debug)]
pub(crate) struct RegionMemory {
    file: ParentOnly,
    back: Mapping,
    bytes: usize,
    page_bytes: usize,
}

impl RegionMemory {
    /// Reserves addresses for `bytes`, a multiple of a page, and takes no memory yet.
    pub(crate) fn new(bytes: usize) -> Result<RegionMemory> {
        RegionMemory::with(bytes, MemfdFlags::empty())
    }

    /// As `new`, for memory that other processes map. None can make it shorter.
    pub(crate) fn shared(bytes: usize) -> Result<RegionMemory> {
        let memory = RegionMemory::with(bytes, MemfdFlags::ALLOW_SEALING)?;
        let sealed = memory.file.here().and_then(|file| rustix::fs::fcntl_add_seals(file, SEALS));
        sealed.map_err(|cause| Error::os("seal", "the memory of a region", cause))?;
        Ok(memory)
    }

    fn with(bytes: usize, flags: MemfdFlags) -> Result<RegionMemory> {
        let failed = |cause: Errno| Error::os("make", format!("a region of {bytes} bytes"), cause);
        let file = make_empty(NAME, bytes as u64, flags).map_err(failed)?;
        let back = file.here().and_then(|file| Mapping::of_file(file, bytes, MapAccess::Own));
        let page_bytes = page_bytes() as usize;
        Ok(RegionMemory { back: back.map_err(failed)?, file, bytes, page_bytes })
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The memory file, to be sent to other processes.
    pub(crate) fn file(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.file.here()
    }

    fn place(&self, run: Run) -> (usize, usize) {
        (run.first as usize * self.page_bytes, run.count as usize * self.page_bytes)
    }

    fn piece(&self, run: Run, most_bytes: u64) -> MemoryPiece {
        let (at, bytes) = self.place(run);
        let bytes = bytes.min(usize::try_from(most_bytes).unwrap_or(usize::MAX) - at);
        MemoryPiece { start: self.back.at(at, bytes), bytes }
    }

    /// Gives pages back to the machine. They are holes then.
    pub(crate) fn release(&self, run: Run) -> rustix::io::Result<()> {
        let (at, bytes) = self.place(run);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file.here()?, hole, at as u64, bytes as u64)
    }

    /// Gives all pages back to the machine.
    pub(crate) fn release_all(&self) -> rustix::io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file.here()?, hole, 0, self.bytes as u64)
    }

    /// Makes pages of zeros where there are holes.
    pub(crate) fn fill(&self, run: Run) -> rustix::io::Result<()> {
        let (at, bytes) = self.place(run);
        allocate(self.file.here()?, at as u64, bytes as u64)
    }

    /// Copies bytes of pages that are in memory out. The region's lock is held.
    pub(crate) fn copy_out(&self, at: usize, to: &mut [u8]) {
        let from = self.back.at(at, to.len());
        // SAFETY: inside of the mapping (`at` asserts). Threads copy under the region's lock, and
        // the kernel fills no page that the policy says is in memory.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes into pages that are in memory. The region's lock is held.
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) {
        let to = self.back.at(at, from.len());
        // SAFETY: as in `copy_out`. The kernel may be writing the page to the file: then the file
        // has old or new bytes, and the page is dirty and will be written once more.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
}

/// The program's side of a region's memory. Its faults are served by the region's thread.
#[derive(Debug)]
pub(crate) struct RegionFront {
    // Before the mapping: the faults end before the memory does.
    faults: UserFaults,
    front: Arc<Mapping>,
    page_bytes: usize,
}

/// The bytes of a front. Its owner alone lends them to the program.
#[derive(Debug)]
pub(crate) struct FrontBytes(Arc<Mapping>);

impl RegionFront {
    /// Maps the memory once more, and has its faults served.
    pub(crate) fn new(memory: &RegionMemory) -> std::io::Result<(RegionFront, FrontBytes)> {
        let faults = UserFaults::open()?;
        let bytes = memory.bytes;
        let front = Arc::new(Mapping::of_file(memory.file.here()?, bytes, MapAccess::Own)?);
        // SAFETY: the front is a mapping of a memory file, and is dropped after `faults`.
        unsafe { faults.register(front.at(0, bytes), bytes)? };
        let lent = FrontBytes(Arc::clone(&front));
        Ok((RegionFront { faults, front, page_bytes: memory.page_bytes }, lent))
    }

    pub(crate) fn serves_calls(&self) -> bool {
        self.faults.serves_calls()
    }

    pub(crate) fn is_here(&self) -> bool {
        self.front.is_here()
    }

    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.faults.descriptor()
    }

    /// Calls `each` with the page of each fault that waits, whether it is a write, and the thread.
    pub(crate) fn take(&self, each: &mut dyn FnMut(u32, bool, i32)) -> std::io::Result<()> {
        let (start, page_bytes) = (self.front.base() as usize, self.page_bytes);
        self.faults.take(&mut |fault: UserFault| {
            each(((fault.address - start) / page_bytes) as u32, fault.writes, fault.thread);
        })
    }

    fn place(&self, run: Run) -> (*mut u8, usize) {
        let bytes = run.count as usize * self.page_bytes;
        (self.front.at(run.first as usize * self.page_bytes, bytes), bytes)
    }

    /// Lets touches reach pages that are in memory.
    pub(crate) fn show(&self, run: Run) -> std::io::Result<()> {
        let (start, bytes) = self.place(run);
        // SAFETY: inside of the front (`at` asserts).
        unsafe { self.faults.show(start, bytes) }
    }

    /// Lets touches of pages fault. Returns which of those that were shown have been written.
    pub(crate) fn hide(&self, run: Run, shown: u32) -> std::io::Result<u32> {
        let (start, bytes) = self.place(run);
        // SAFETY: inside of the front (`at` asserts); the memory file keeps the pages.
        unsafe { self.faults.hide(start, bytes, shown) }
    }

    /// Makes touches of a page end in SIGBUS: nobody gets bytes that are wrong.
    pub(crate) fn poison(&self, page: u32) -> std::io::Result<()> {
        let (start, _) = self.place(Run { first: page, count: 1 });
        // SAFETY: inside of the front (`at` asserts).
        unsafe { self.faults.poison(start) }
    }
}

impl FrontBytes {
    /// The program's bytes.
    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        assert!(self.0.is_here(), "a region is mapped in the process that made it only");
        // SAFETY: inside of the front (`at` asserts), mapped as long as `self`. The region's thread
        // changes no byte of a page that the front reaches, and nobody else changes the file (it is
        // without a name, or an `ExclusiveFile`), so a page that goes and comes back has the same
        // bytes; the memory file is this process's own.
        unsafe { std::slice::from_raw_parts(self.0.at(0, count), count) }
    }

    /// The program's bytes, to be written.
    pub(crate) fn bytes_mut(&mut self, count: usize) -> &mut [u8] {
        assert!(self.0.is_here(), "a region is mapped in the process that made it only");
        // SAFETY: as in `bytes`. `self` is the only one of this front, and is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.0.at(0, count), count) }
    }
}

/// A file without a name that the kernel pages by itself, where faults cannot be served.
#[derive(Debug)]
pub(crate) struct KernelPaged {
    map: Mapping,
}

impl KernelPaged {
    pub(crate) fn new(directory: &Path, bytes: usize) -> Result<KernelPaged> {
        let failed = |cause: std::io::Error| {
            Error::os("map a file in", format!("'{}'", directory.display()), cause)
        };
        let file = SpillFile::open(directory, false).map_err(failed)?;
        let file = file.get().ok_or_else(|| failed(Errno::BADF.into()))?;
        if !may_reach(bytes as u64) {
            return Err(failed(Errno::FBIG.into()));
        }
        // Blocks that are missing later would end the process at a touch.
        allocate(file, 0, bytes as u64)
            .and_then(|()| Mapping::of_file(file, bytes, MapAccess::Own))
            .map(|map| KernelPaged { map })
            .map_err(|cause| failed(cause.into()))
    }

    pub(crate) fn is_here(&self) -> bool {
        self.map.is_here()
    }

    /// Passes advice on.
    pub(crate) fn advise(&self, at: usize, bytes: usize, advice: rustix::mm::Advice) {
        let start = self.map.at(at, bytes).cast();
        // SAFETY: the range is part of the mapping (`at` asserts); the advice that is given
        // here changes no byte of a file's mapping.
        let _ = unsafe { rustix::mm::madvise(start, bytes, advice) };
    }

    pub(crate) fn bytes(&self, count: usize) -> &[u8] {
        assert!(self.is_here(), "a region is mapped in the process that made it only");
        // SAFETY: inside of the mapping of a file that has no name and no other user.
        unsafe { std::slice::from_raw_parts(self.map.at(0, count), count) }
    }

    pub(crate) fn bytes_mut(&mut self, count: usize) -> &mut [u8] {
        assert!(self.is_here(), "a region is mapped in the process that made it only");
        // SAFETY: as in `bytes`; `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.map.at(0, count), count) }
    }
}

/// The file of a region, and the engine that moves pages.
#[derive(Debug)]
pub(crate) struct PageTransfers {
    engine: Box<dyn SpillEngine>,
    /// Bytes from here on are not in the file: the rest of the last page.
    end: u64,
    /// A user's file, which others may cut off.
    cuttable: Option<ParentOnly>,
    is_cut: bool,
    is_direct: bool,
    remarks: Vec<String>,
}

impl PageTransfers {
    /// Makes a file without a name in a directory. Blocks are allocated as pages are written.
    pub(crate) fn spill(directory: &Path, bytes: u64) -> Result<PageTransfers> {
        let failed = |cause| Error::os("spill to", format!("'{}'", directory.display()), cause);
        let file = SpillFile::open(directory, true).map_err(failed)?.take_ahead(0);
        // A write that makes the file longer waits for all others.
        if may_reach(bytes) {
            let number = file.get().ok_or_else(|| failed(Errno::BADF.into()))?;
            let _ = rustix::fs::ftruncate(number, bytes);
        }
        PageTransfers::with(file, u64::MAX, None)
    }

    /// Takes a user's file.
    pub(crate) fn over(file: std::fs::File, bytes: u64) -> Result<PageTransfers> {
        let failed = |cause: std::io::Error| Error::os("page", "the file of a region", cause);
        let copy = file.try_clone().and_then(|copy| ParentOnly::new(copy.into()));
        let file = SpillFile::over(OwnedFd::from(file)).map_err(failed)?;
        PageTransfers::with(file, bytes, Some(copy.map_err(failed)?))
    }

    fn with(file: SpillFile, end: u64, cuttable: Option<ParentOnly>) -> Result<PageTransfers> {
        let (is_direct, mut remarks) = (file.is_direct(), file.remarks().to_vec());
        let wanted = wanted_engine()?;
        let (engine, reason) = spill::open(file, wanted)
            .map_err(|cause| Error::os("start", "the engine of a region", cause))?;
        remarks.extend(reason);
        Ok(PageTransfers { engine, end, cuttable, is_cut: false, is_direct, remarks })
    }

    /// Puts an engine that fails on demand around this one.
    #[cfg(test)]
    pub(crate) fn faulty(self) -> (PageTransfers, super::tests::faulty::Faults) {
        let (engine, faults) = super::tests::faulty::Faulty::new(self.engine).expect("faulty");
        (PageTransfers { engine: Box::new(engine), ..self }, faults)
    }

    /// Describes in one line what moves pages.
    pub(crate) fn describe(&self) -> String {
        let cache = if self.is_direct { "O_DIRECT" } else { "cached" };
        let mut line = format!("{}, {cache}", self.engine.name());
        self.remarks.iter().for_each(|remark| {
            line.push_str("; ");
            line.push_str(remark);
        });
        line
    }

    /// Whether the user's file was once shorter than the region. What was cut off is lost: a page
    /// that were written beyond the end would make the file long again, with zeros in between.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Fails for ever once the user's file was found shorter than the region.
    fn check_length(&mut self) -> std::result::Result<(), Errno> {
        if let Some(file) = self.cuttable.as_ref().filter(|_| !self.is_cut) {
            let length = file.here().and_then(rustix::fs::fstat)?.st_size as u64;
            self.is_cut = length < self.end;
        }
        if self.is_cut { Err(Errno::IO) } else { Ok(()) }
    }

    /// Begins a transfer of pages that the policy gives to nobody else meanwhile: whether it could.
    pub(crate) fn start(
        &mut self,
        memory: &RegionMemory,
        token: u64,
        direction: TransferDirection,
        run: Run,
    ) -> bool {
        if direction == TransferDirection::ToDisk && self.check_length().is_err() {
            return false;
        }
        let piece = memory.piece(run, self.end);
        let offset = u64::from(run.first) * memory.page_bytes as u64;
        // SAFETY: the pages stay mapped while the engine lives (the region drops the engine
        // first). The policy lets nobody touch pages that come in. Pages that go to the file may
        // change meanwhile, as the engine allows: see `RegionMemory::copy_in`.
        let started = unsafe { self.engine.start(token, direction, offset, &[piece]) };
        self.engine.submit();
        started
    }

    /// Returns the transfers that have ended, and how.
    pub(crate) fn completed(
        &mut self,
    ) -> impl Iterator<Item = (u64, std::result::Result<(), Errno>)> + use<> {
        let mut done = [(0, Ok(())); MOST_IN_FLIGHT];
        let mut count = 0;
        self.engine.completed(&mut |token, result| {
            done[count] = (token, result);
            count += 1;
        });
        // Looked at once they have ended: the file may have been cut off while they were under way,
        // and an earlier write have made it long again.
        let whole = if count > 0 { self.check_length() } else { Ok(()) };
        done.into_iter().take(count).map(move |(token, result)| (token, result.and(whole)))
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.engine.most_in_flight()
    }

    /// A descriptor that is readable when a transfer has ended.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.engine.descriptor()
    }
}

/// The length of a user's file.
pub(crate) fn file_bytes(file: &std::fs::File) -> Result<u64> {
    let about =
        file.metadata().map_err(|cause| Error::os("page", "the file of a region", cause))?;
    if !about.is_file() || about.len() == 0 {
        let why = "it is not a regular file of at least a byte";
        return Err(Error::new(ErrorKind::Invalid, "page", "the file of a region", why));
    }
    Ok(about.len())
}
