//! A region that several processes share. One of them owns it, and serves the faults of all.

use super::join::join;
use super::member_news::MemberNews;
use super::pager::{Pager, Shown};
use super::thread::{Kick, RegionThread};
use super::{RegionAccount, RegionOptions, bring_or, check_range, each_page};
use crate::memory::{
    MemberFront, MemberMemory, PageTransfers, RegionMemory, SharedFronts, file_bytes,
};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use weir::parts::{Until, page_bytes, passing, wait_for_any, wait_ready};
use weir::{Error, ErrorKind, Result};
use weir_sys::bell;
use weir_sys::forks::ParentOnly;

/// The first word of both messages, and the version of what they say.
const WORD: &str = "weir-region 1";
/// What the owner says to a member that it serves from now on.
const SERVED: &[u8] = b"weir-region served";
/// How long each side waits for the other's message.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Bytes in a budget of memory with a file behind it, which several processes share. This process
/// owns it: it has the file and the budget, and serves the faults of the others.
///
/// A member that dies harms nobody: what it wrote stays. When the owner ends, calls of members fail
/// with [`ErrorKind::Closed`].
///
/// ```no_run
/// use std::os::unix::net::UnixListener;
/// use weir_region::{RegionOptions, SharedRegion, SharedRegionMember};
/// // The owner:
/// let file = std::fs::File::options().read(true).write(true).open("table")?;
/// let region = SharedRegion::over(file, &RegionOptions::new().memory_bytes(64 << 20))?;
/// for member in UnixListener::bind("/run/table")?.incoming() {
///     region.admit(member?)?;
/// }
/// // Each other process:
/// let socket = std::os::unix::net::UnixStream::connect("/run/table")?;
/// let region = SharedRegionMember::join(socket)?;
/// region.write_at(4096, b"abc")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedRegion {
    shared: RegionThread<Owned>,
    bytes: u64,
    writes_back: bool,
}

/// What the owner's thread shares.
#[derive(Debug)]
struct Owned {
    pager: Arc<Mutex<Pager>>,
    fronts: Arc<SharedFronts>,
    /// The members' sockets, which end with the members.
    sockets: Mutex<Vec<(Arc<MemberFront>, Arc<RegionSocket>)>>,
    epoch: u32,
}

/// A descriptor that the other side has sent. Nobody waits until it is closed, unless it is taken
/// out.
#[derive(Debug)]
struct SentFile(Option<ParentOnly>);

impl Drop for SentFile {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(passing::close_later);
    }
}

/// The socket to the other side. The thread that drops it does not close what the other side has
/// sent and nobody has received, for that can take as long as the other side likes.
#[derive(Debug)]
struct RegionSocket(Option<ParentOnly>);

impl RegionSocket {
    fn new(socket: OwnedFd) -> std::io::Result<RegionSocket> {
        Ok(RegionSocket(Some(ParentOnly::new(socket)?)))
    }

    fn get(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref()?.get()
    }

    fn here(&self) -> std::io::Result<BorrowedFd<'_>> {
        self.get().ok_or_else(|| Errno::BADF.into())
    }
}

impl Drop for RegionSocket {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|socket| passing::hang_up(socket, None));
    }
}

impl Owned {
    fn lock(&self) -> MutexGuard<'_, Pager> {
        self.pager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<(Arc<MemberFront>, Arc<RegionSocket>)>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRegion {
    /// Makes a region of zeros, with a file without a name.
    ///
    /// # Errors
    /// Those of [`Region::new`](super::Region::new).
    pub fn new(bytes: u64, options: &RegionOptions) -> Result<SharedRegion> {
        let reserved = options.reserved(bytes)?;
        SharedRegion::with(
            bytes,
            options,
            PageTransfers::spill(&options.directory(), reserved)?,
            false,
        )
    }

    /// Makes a region over a file, open for reading and writing. It is written back by
    /// [`SharedRegion::flush`], and when the region is dropped.
    ///
    /// # Errors
    /// Those of [`Region::over`](super::Region::over).
    pub fn over(file: File, options: &RegionOptions) -> Result<SharedRegion> {
        let bytes = file_bytes(&file)?;
        SharedRegion::with(bytes, options, PageTransfers::over(file, bytes)?, true)
    }

    pub(super) fn with(
        bytes: u64,
        options: &RegionOptions,
        transfers: PageTransfers,
        over: bool,
    ) -> Result<SharedRegion> {
        let memory = RegionMemory::shared(bytes.next_multiple_of(page_bytes()) as usize)?;
        let settings = options.settings(bytes, true, over)?;
        let fronts = Arc::new(SharedFronts::new(settings.pages as usize));
        let shown = Shown::Shared { fronts: Arc::clone(&fronts), toucher: None };
        let pager = Pager::new(memory, (bytes, settings), transfers, Some(shown))?;
        let (pager, _) = join(options.shared_pool(), pager)?;
        let epoch = weir_sys::forks::epoch();
        let owned = Owned { pager, fronts, sockets: Mutex::new(Vec::new()), epoch };
        let shared = RegionThread::start("weir-region", owned, serve)?;
        Ok(SharedRegion { shared, bytes, writes_back: over })
    }

    fn check_here(&self, operation: &'static str) -> Result<()> {
        let is_here = self.shared.epoch == weir_sys::forks::epoch();
        if is_here { Ok(()) } else { Err(Error::forked(operation, "the region")) }
    }

    /// Lets the process on the other side of a Unix socket join, which calls
    /// [`SharedRegionMember::join`]. Waits for its message for at most ten seconds. It can read and
    /// write all of the region from then on, until it ends or the socket is closed.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::Corrupt`]: it says nothing, or something else.
    /// [`ErrorKind::Os`]: the socket or the descriptor that it sent cannot be used.
    pub fn admit(&self, socket: impl Into<OwnedFd>) -> Result<()> {
        self.check_here("admit to")?;
        let failed = |cause: std::io::Error| Error::os("admit to", "the region", cause);
        let socket = RegionSocket::new(socket.into()).map_err(failed)?;
        let number = socket.here().map_err(failed)?;
        {
            let pager = self.shared.lock();
            let text = format!("{WORD} {}", self.bytes);
            let file = pager.memory().file().map_err(|cause| failed(cause.into()))?;
            passing::send(number, text.as_bytes(), &[file])
                .map_err(|cause| failed(cause.into()))?;
        }
        let (text, mut sent) = receive_message(number, "admit to")?;
        let whole = self.bytes.next_multiple_of(page_bytes());
        let is_place =
            |base: &u64| base.is_multiple_of(page_bytes()) && base.checked_add(whole).is_some();
        let base = text.strip_prefix(WORD).and_then(|base| base.trim().parse().ok());
        let Some(base) = base.filter(is_place).filter(|_| sent.0.is_some()) else {
            let why = "the process on the other side is not a member";
            return Err(Error::new(ErrorKind::Corrupt, "admit to", "the region", why));
        };
        let member = MemberFront::new(&mut sent.0, base, whole);
        let member = Arc::new(member.map_err(failed)?);
        // From here on what it has is protected when it goes.
        self.shared.fronts.add(Arc::clone(&member));
        let socket = Arc::new(socket);
        self.shared.sockets().push((member, Arc::clone(&socket)));
        self.shared.kick();
        let number = socket.here().map_err(failed)?;
        passing::send(number, SERVED, &[]).map_err(|cause| failed(cause.into()))
    }

    /// How many members there are now.
    pub fn members(&self) -> usize {
        self.shared.fronts.members().len()
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn each_page(
        &self,
        operation: &'static str,
        (at, bytes): (u64, usize),
        writes: bool,
        each: impl FnMut(&RegionMemory, usize, Range<usize>),
    ) -> Result<()> {
        self.check_here(operation)?;
        check_range(operation, (at, bytes as u64), self.bytes)?;
        each_page(&mut self.shared.lock(), (at, bytes), writes, each)
    }

    /// Fills `to` with the bytes from `at` on, which members may write meanwhile.
    ///
    /// # Errors
    /// Those of [`Region::read_at`](super::Region::read_at).
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.each_page("read from", (at, to.len()), false, |memory, start, part| {
            memory.copy_out(start, &mut to[part]);
        })
    }

    /// Writes all of `from`, from the byte `at` on, where members may read or write meanwhile.
    ///
    /// # Errors
    /// Those of [`Region::read_at`](super::Region::read_at).
    pub fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        self.each_page("write to", (at, from.len()), true, |memory, start, part| {
            memory.copy_in(start, &from[part]);
        })
    }

    /// Writes to the file what is dirty, whoever wrote it, and waits until that is done.
    ///
    /// # Errors
    /// Those of [`Region::flush`](super::Region::flush).
    pub fn flush(&self) -> Result<()> {
        self.check_here("flush")?;
        self.shared.lock().flush()
    }

    /// The account: that of all members together. It is empty in a forked child.
    pub fn account(&self) -> RegionAccount {
        let is_here = self.check_here("ask").is_ok();
        if is_here { self.shared.lock().account() } else { RegionAccount::default() }
    }
}

impl Drop for SharedRegion {
    fn drop(&mut self) {
        // Before the last flush, since members can write as long as it serves them.
        self.shared.end();
        if self.writes_back {
            let _ = self.flush();
        }
    }
}

/// Waits for a message and the descriptor that comes with it.
fn receive_message(socket: BorrowedFd, operation: &'static str) -> Result<(String, SentFile)> {
    let failed = |cause| Error::os(operation, "the region", cause);
    let until = Until::after(ANSWERS_WITHIN);
    // A signal ends a wait too.
    while !wait_ready(socket, PollFlags::IN, until.left()).map_err(failed)? {
        if until.is_over() {
            let why = "the process on the other side says nothing";
            return Err(Error::new(ErrorKind::TimedOut, operation, "the region", why));
        }
    }
    let mut text = [0; 64];
    // A message with several descriptors stays in the socket, which is hung up.
    let (count, file) = match passing::receive_one(socket, &mut text, |_| true) {
        Err(Errno::BADMSG) => (0, None),
        received => received.map_err(failed)?,
    };
    Ok((String::from_utf8_lossy(&text[..count]).into_owned(), SentFile(file)))
}

/// Serves the faults of the members until the region ends.
fn serve(shared: &Owned, kick: &Kick) {
    let mut faults = Vec::new();
    while !kick.stops() {
        let members = {
            let mut sockets = shared.sockets();
            sockets.retain(|(member, _)| !member.is_gone());
            sockets.clone()
        };
        let received = wait(kick, &members);
        for ((member, _), received) in members.iter().zip(received) {
            let goes_on = match received {
                MemberNews::Nothing => true,
                MemberNews::Faults => {
                    member.take(&mut |page, writes| faults.push((page, writes))).is_ok()
                }
                MemberNews::End => false,
            };
            if !goes_on {
                member.end();
            }
            for (page, writes) in faults.drain(..) {
                let fetch = || match shared.lock().fetch_for(member, page, writes) {
                    // It has died, which is not a failure of the file.
                    Err(_) if member.is_gone() => Ok(()),
                    result => result,
                };
                bring_or(fetch, || drop(member.poison(page)));
            }
        }
        // What fails here is tried again for the next fault.
        let _ = shared.lock().complete();
    }
}

/// Waits for a fault of a member, and says what was heard of each.
fn wait(kick: &Kick, members: &[(Arc<MemberFront>, Arc<RegionSocket>)]) -> Vec<MemberNews> {
    let mut descriptors = Vec::with_capacity(2 * members.len() + 1);
    for (member, socket) in members {
        let (Some(faults), Some(socket)) = (member.descriptor(), socket.get()) else {
            return Vec::new();
        };
        descriptors.push(PollFd::from_borrowed_fd(faults, PollFlags::IN));
        descriptors.push(PollFd::from_borrowed_fd(socket, PollFlags::IN | PollFlags::RDHUP));
    }
    let Some(kick) = kick.bell() else { return Vec::new() };
    descriptors.push(PollFd::from_borrowed_fd(kick, PollFlags::IN));
    wait_for_any(&mut descriptors, None);
    if descriptors.last().is_some_and(|kicked| !kicked.revents().is_empty()) {
        bell::clear(kick);
    }
    let pairs = descriptors.chunks_exact(2);
    pairs.map(|pair| MemberNews::by_poll(pair[0].revents(), pair[1].revents())).collect()
}

/// A region that another process owns.
///
/// Its calls copy. What several processes read and write at once may be old, new, or some of each.
///
/// ```no_run
/// let socket = std::os::unix::net::UnixStream::connect("/run/table")?;
/// weir_region::SharedRegionMember::join(socket)?.write_at(4096, b"abc")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedRegionMember {
    shared: RegionThread<Joined>,
    /// Threads of this process do not read what another one writes.
    copies: RwLock<()>,
}

#[derive(Debug)]
struct Joined {
    memory: MemberMemory,
    socket: RegionSocket,
}

impl SharedRegionMember {
    /// Joins the region of the process on the other side of a Unix socket, which calls
    /// [`SharedRegion::admit`].
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::Refused`], [`ErrorKind::Corrupt`]: the other side says
    /// nothing, ends, or says something else. [`ErrorKind::Os`]: there is no userfaultfd here, with
    /// what is missing, or no memory for the mapping.
    pub fn join(socket: impl Into<OwnedFd>) -> Result<SharedRegionMember> {
        let failed = |cause: std::io::Error| Error::os("join", "the region", cause);
        let socket = RegionSocket::new(socket.into()).map_err(failed)?;
        let number = socket.here().map_err(failed)?;
        let (text, mut sent) = receive_message(number, "join")?;
        let bytes = text.strip_prefix(WORD).and_then(|bytes| bytes.trim().parse().ok());
        let (Some(bytes), Some(file)) = (bytes, &sent.0) else {
            let why = "the process on the other side owns none";
            return Err(Error::new(ErrorKind::Corrupt, "join", "the region", why));
        };
        let memory = MemberMemory::received(file, bytes)?;
        drop(sent.0.take());
        let (faults, base) = memory.offer().map_err(|cause| failed(cause.into()))?;
        passing::send(number, format!("{WORD} {base}").as_bytes(), &[faults])
            .map_err(|cause| failed(cause.into()))?;
        if receive_message(number, "join")?.0.as_bytes() != SERVED {
            let why = "its owner refused, or ended";
            return Err(Error::new(ErrorKind::Refused, "join", "the region", why));
        }
        let shared = RegionThread::start("weir-member", Joined { memory, socket }, watch)?;
        Ok(SharedRegionMember { shared, copies: RwLock::new(()) })
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.shared.memory.len() as u64
    }

    /// Whether it has no bytes, which is never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the owner has ended.
    pub fn is_lost(&self) -> bool {
        self.shared.memory.is_lost()
    }

    fn check(&self, operation: &'static str, at: u64, bytes: usize) -> Result<()> {
        if !self.shared.memory.is_here() {
            return Err(Error::forked(operation, "the region"));
        }
        check_range(operation, (at, bytes as u64), self.len())
    }

    fn outcome(operation: &'static str, copied: bool) -> Result<()> {
        let why = "its owner has ended";
        if copied {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Closed, operation, "the region", why))
        }
    }

    /// Fills `to` with the bytes from `at` on, which other processes may write meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the owner has ended. [`ErrorKind::Invalid`]: they reach beyond the end.
    /// [`ErrorKind::Forked`]: this is a forked child.
    pub fn read_at(&self, at: u64, to: &mut [u8]) -> Result<()> {
        self.check("read from", at, to.len())?;
        let _copies = self.copies.read().unwrap_or_else(PoisonError::into_inner);
        let copied = self.shared.memory.copy_out(at as usize, to);
        if !copied {
            to.fill(0);
        }
        SharedRegionMember::outcome("read from", copied)
    }

    /// Writes all of `from`, from the byte `at` on, where other processes may read or write meanwhile.
    ///
    /// # Errors
    /// Those of [`SharedRegionMember::read_at`].
    pub fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        self.check("write to", at, from.len())?;
        let _copies = self.copies.write().unwrap_or_else(PoisonError::into_inner);
        let copied = self.shared.memory.copy_in(at as usize, from);
        SharedRegionMember::outcome("write to", copied)
    }
}

/// Waits for the end of the owner, or of the member.
fn watch(shared: &Joined, kick: &Kick) {
    let (Some(socket), Some(bell)) = (shared.socket.get(), kick.bell()) else { return };
    let events = PollFlags::IN | PollFlags::RDHUP;
    let mut descriptors =
        [PollFd::from_borrowed_fd(socket, events), PollFd::new(&bell, PollFlags::IN)];
    loop {
        wait_for_any(&mut descriptors, None);
        if kick.stops() {
            return;
        }
        // The owner says nothing more: whatever comes is its end.
        if !descriptors[0].revents().is_empty() {
            return shared.memory.lose();
        }
    }
}
