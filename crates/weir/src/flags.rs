//! Clusters of 64 flags: set them, clear them, wait for any or all.

use crate::connect::wait::{Key, Wait, WaitItem};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::SharedPage;
use crate::park::{QUICK_LOOKS, Slept, Timeout, WaitSource, Waiting, futex, poll_quickly};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_ring::cluster::{Cluster, matching};
use weir_ring::primitive::AtomicU32;

#[derive(Debug)]
enum FlagsMemory {
    Local(Box<Cluster>),
    Shared { file: OwnedFd, page: SharedPage<Cluster> },
}

/// A cluster of 64 flags. Its clones share the cluster.
///
/// ```
/// let flags = weir::Flags::local();
/// assert_eq!(flags.set(0b101), 0);
/// assert_eq!(flags.wait_any(0b110)?, 0b100);
/// assert_eq!(flags.first(u64::MAX), Some(0));
/// assert_eq!(flags.wait_and_clear(0b101)?, 0b101);
/// assert_eq!(flags.read(), 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flags {
    memory: Arc<FlagsMemory>,
    waiting: Waiting,
}

impl Flags {
    /// Makes a cluster for the threads of this process.
    pub fn local() -> Flags {
        Flags::over(FlagsMemory::Local(Box::default()))
    }

    /// Makes a cluster in shared memory, which other processes open by its descriptor.
    ///
    /// # Errors
    /// The kernel has no memory or descriptors left.
    pub fn shared() -> Result<Flags> {
        let (mut file, page) = SharedPage::create()?;
        // Forked children have the cluster too.
        let file = file.take().ok_or_else(|| {
            let why = "the process was forked meanwhile";
            Error::new(ErrorKind::Forked, "make", "a cluster of flags", why)
        })?;
        Ok(Flags::over(FlagsMemory::Shared { file, page }))
    }

    /// Opens a shared cluster by the descriptor that another process handed on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the file is not a cluster of flags.
    pub fn open(file: OwnedFd) -> Result<Flags> {
        let page = SharedPage::open(file.as_fd())?;
        Ok(Flags::over(FlagsMemory::Shared { file, page }))
    }

    /// Opens the cluster of this name. If there is none, makes one with all flags clear that only
    /// this user may open. It exists until its file is removed, and longer where it is open.
    ///
    /// Every process that may write the file is trusted not to truncate it: that would end the
    /// cluster's users by SIGBUS. Choose a file system in memory to keep writes off the disk.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the file is not a cluster of flags. [`ErrorKind::Os`]: the file
    /// cannot be opened or made.
    pub fn named(path: impl AsRef<Path>) -> Result<Flags> {
        let (file, page) = SharedPage::named(path.as_ref())?;
        Ok(Flags::over(FlagsMemory::Shared { file, page }))
    }

    /// Returns the descriptor of a shared cluster, for other processes. It cannot be polled.
    pub fn memory_descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &*self.memory {
            FlagsMemory::Local(_) => None,
            FlagsMemory::Shared { file, .. } => Some(file.as_fd()),
        }
    }

    fn over(memory: FlagsMemory) -> Flags {
        Flags { memory: Arc::new(memory), waiting: Waiting::Adaptive }
    }

    /// Sets how calls of this handle wait: [`Waiting::Sleep`] looks once and sleeps; the others look
    /// 40 times first. Other handles and processes wait as they did.
    ///
    /// ```
    /// let flags = weir::Flags::local().waiting(weir::Waiting::Sleep);
    /// flags.set(0b11);
    /// assert_eq!(flags.wait_all_and_clear(0b11)?, 0b11);
    /// # Ok::<(), weir::Error>(())
    /// ```
    #[must_use]
    pub fn waiting(mut self, waiting: Waiting) -> Flags {
        self.waiting = waiting;
        self
    }

    fn cluster(&self) -> &Cluster {
        match &*self.memory {
            FlagsMemory::Local(cluster) => cluster,
            FlagsMemory::Shared { page, .. } => page.words(),
        }
    }

    /// Sets flags and wakes the waiters. Returns the state before.
    pub fn set(&self, mask: u64) -> u64 {
        let (before, wake) = self.cluster().set(mask);
        if wake {
            futex::wake(&self.cluster().generation, i32::MAX as u32);
        }
        before
    }

    /// Clears flags. Returns the state before.
    pub fn clear(&self, mask: u64) -> u64 {
        self.cluster().clear(mask)
    }

    /// Returns the state.
    pub fn read(&self) -> u64 {
        self.cluster().read()
    }

    /// Returns the lowest flag of `mask` that is set.
    pub fn first(&self, mask: u64) -> Option<u32> {
        let found = self.read() & mask;
        (found != 0).then(|| found.trailing_zeros())
    }

    /// Waits until any flag of `mask` is set, as long as it takes. Returns the flags of `mask` that
    /// are set, and leaves them set.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the mask is empty.
    pub fn wait_any(&self, mask: u64) -> Result<u64> {
        self.wait_any_timeout(mask, Timeout::Never)
    }

    /// Waits until any flag of `mask` is set, or the timeout passes.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::WouldBlock`]: none was set in time. Those of
    /// [`Flags::wait_any`].
    pub fn wait_any_timeout(&self, mask: u64, timeout: impl Into<Timeout>) -> Result<u64> {
        self.wait(mask, timeout.into(), || matching(self.read(), mask, false))
    }

    /// Waits until all flags of `mask` are set at once, as long as it takes.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any`].
    pub fn wait_all(&self, mask: u64) -> Result<u64> {
        self.wait_all_timeout(mask, Timeout::Never)
    }

    /// Waits until all flags of `mask` are set at once, or the timeout passes.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any_timeout`].
    pub fn wait_all_timeout(&self, mask: u64, timeout: impl Into<Timeout>) -> Result<u64> {
        self.wait(mask, timeout.into(), || matching(self.read(), mask, true))
    }

    /// Waits until any flag of `mask` is set, and clears the set ones in the same step: if several
    /// threads wait, each flag goes to one of them.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any`].
    pub fn wait_and_clear(&self, mask: u64) -> Result<u64> {
        self.wait_and_clear_timeout(mask, Timeout::Never)
    }

    /// Waits until all flags of `mask` are set at once, and clears them in the same step: if several
    /// threads wait, one of them gets all.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any`].
    pub fn wait_all_and_clear(&self, mask: u64) -> Result<u64> {
        self.wait_all_and_clear_timeout(mask, Timeout::Never)
    }

    /// Waits until all flags of `mask` are set at once, or the timeout passes, and clears them.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any_timeout`].
    pub fn wait_all_and_clear_timeout(
        &self,
        mask: u64,
        timeout: impl Into<Timeout>,
    ) -> Result<u64> {
        self.wait(mask, timeout.into(), || self.cluster().take(mask, true))
    }

    /// Waits until any flag of `mask` is set, or the timeout passes, and clears the set ones.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any_timeout`].
    pub fn wait_and_clear_timeout(&self, mask: u64, timeout: impl Into<Timeout>) -> Result<u64> {
        self.wait(mask, timeout.into(), || self.cluster().take(mask, false))
    }

    fn wait(&self, mask: u64, timeout: Timeout, poll: impl Fn() -> Option<u64>) -> Result<u64> {
        check_mask(mask)?;
        if self.waiting != Waiting::Sleep
            && let Some(found) = poll_quickly(QUICK_LOOKS, || false, &poll)
        {
            return Ok(found);
        }
        let (until, mut first) = (timeout.start(), true);
        loop {
            let counted = CountedIn::new(self.cluster());
            if let Some(found) = poll() {
                return Ok(found);
            }
            if until.is_over() {
                let (kind, why) = match timeout {
                    Timeout::Now => (ErrorKind::WouldBlock, "they are not set"),
                    _ => (ErrorKind::TimedOut, "they were not set in time"),
                };
                return Err(Error::new(kind, "wait for", "flags", why));
            }
            let begun = Instant::now();
            let time = until.at_most(LONGEST_SLEEP);
            let woken = futex::wait(&counted.cluster.generation, counted.generation, time);
            let ns = begun.elapsed().as_nanos() as u64;
            if std::mem::take(&mut first) {
                counted.cluster.count_wait();
            }
            counted.cluster.slept(ns, woken);
        }
    }
}

/// The longest sleep. A process that sets a flag and is killed before it has woken the waiters leaves them
/// asleep, and those that set the flag once more wake nobody.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

fn check_mask(mask: u64) -> Result<()> {
    let refused = || Error::new(ErrorKind::Invalid, "wait for", "flags", "the mask is empty");
    (mask != 0).then_some(()).ok_or_else(refused)
}

/// A waiter that is counted as asleep. Dropping it counts it out.
struct CountedIn<'a> {
    cluster: &'a Cluster,
    generation: u32,
}

impl CountedIn<'_> {
    fn new(cluster: &Cluster) -> CountedIn<'_> {
        CountedIn { cluster, generation: cluster.count_in() }
    }
}

impl Drop for CountedIn<'_> {
    fn drop(&mut self) {
        self.cluster.count_out();
    }
}

/// Flags that a [`Wait`] waits for.
struct WantedFlags {
    flags: Flags,
    mask: u64,
    all: bool,
}

impl WantedFlags {
    fn new(flags: &Flags, mask: u64, all: bool) -> Result<Box<WantedFlags>> {
        check_mask(mask)?;
        Ok(Box::new(WantedFlags { flags: flags.clone(), mask, all }))
    }

    fn matching(&self) -> bool {
        matching(self.flags.read(), self.mask, self.all).is_some()
    }
}

impl WaitSource for WantedFlags {
    fn is_ready(&mut self, _: u64) -> Result<bool> {
        Ok(self.matching())
    }

    fn announce(&mut self, _: u64) -> Result<Option<u32>> {
        let said = self.flags.cluster().count_in();
        if self.matching() {
            self.retract();
            return Ok(None);
        }
        Ok(Some(said))
    }

    fn retract(&mut self) {
        self.flags.cluster().count_out();
    }

    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((&self.flags.cluster().generation, said));
    }

    fn most_sleep(&self) -> Option<Duration> {
        Some(LONGEST_SLEEP)
    }

    fn count_wait(&self) {
        self.flags.cluster().count_wait();
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.flags.cluster().slept(slept.ns, slept.woken);
        Ok(())
    }
}

impl WaitItem for WantedFlags {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }

    fn end(&self) -> &dyn Any {
        &self.flags
    }

    fn end_mut(&mut self) -> &mut dyn Any {
        &mut self.flags
    }

    fn into_end(self: Box<Self>) -> Option<Box<dyn Any>> {
        Some(Box::new(self.flags))
    }
}

impl<T: Clone> Wait<'_, T> {
    /// Adds flags to the wait, which then waits for any of `mask`.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the mask is empty. Those of [`Wait::add`].
    pub fn add_flags(&mut self, token: T, flags: &Flags, mask: u64) -> Result<Key<Flags>> {
        self.hold(token, WantedFlags::new(flags, mask, false)?)
    }

    /// Adds flags to the wait, which then waits until all of `mask` are set at once.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the mask is empty. Those of [`Wait::add`].
    pub fn add_all_flags(&mut self, token: T, flags: &Flags, mask: u64) -> Result<Key<Flags>> {
        self.hold(token, WantedFlags::new(flags, mask, true)?)
    }
}
