//! A cluster of 64 flags: set, clear, wait for any or all.
//!
//! ```
//! let flags = weir::Flags::local();
//! assert_eq!(flags.set(0b101), 0);
//! assert_eq!(flags.wait_any(0b110, None)?, 0b100);
//! assert_eq!(flags.first(u64::MAX), Some(0));
//! assert_eq!(flags.wait_and_clear(0b101, None)?, 0b101);
//! assert_eq!(flags.read(), 0);
//! # Ok::<(), weir::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::memory::Page;
use crate::park::{Until, Wait, futex, look_quickly};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_ring::cluster::{Cluster, matching};

#[derive(Debug)]
enum Home {
    Local(Box<Cluster>),
    Shared { file: OwnedFd, page: Page<Cluster> },
}

/// A cluster of 64 flags. Copies of it are the same cluster.
#[derive(Clone, Debug)]
pub struct Flags {
    home: Arc<Home>,
}

impl Flags {
    /// A cluster of this process.
    pub fn local() -> Flags {
        Flags { home: Arc::new(Home::Local(Box::default())) }
    }

    /// A cluster in shared memory, to be handed on by its descriptor.
    ///
    /// # Errors
    /// The kernel has no memory or descriptors.
    pub fn shared() -> Result<Flags> {
        let (mut file, page) = Page::create()?;
        // Whoever is forked has the cluster, too.
        let file = file.take().ok_or_else(|| {
            Error::new(ErrorKind::Forked, "make", "a cluster of flags", "forked meanwhile")
        })?;
        Ok(Flags { home: Arc::new(Home::Shared { file, page }) })
    }

    /// A shared cluster whose descriptor was handed on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is none.
    pub fn open(file: OwnedFd) -> Result<Flags> {
        let page = Page::open(file.as_fd())?;
        Ok(Flags { home: Arc::new(Home::Shared { file, page }) })
    }

    /// The cluster of this name, which is made, with all flags clear and for this user alone, if
    /// there is none. It stays until its file is removed; those who have it open keep it.
    ///
    /// Whoever may write the file is trusted: to set and clear, and not to truncate it, which ends
    /// its users by SIGBUS. On a file system in memory nothing is written to a disk.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the file is no cluster of flags. [`ErrorKind::Os`]: it may not be
    /// opened or made.
    pub fn named(path: impl AsRef<Path>) -> Result<Flags> {
        let (file, page) = Page::named(path.as_ref())?;
        Ok(Flags { home: Arc::new(Home::Shared { file, page }) })
    }

    /// The descriptor of a shared cluster.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &*self.home {
            Home::Local(_) => None,
            Home::Shared { file, .. } => Some(file.as_fd()),
        }
    }

    fn cluster(&self) -> &Cluster {
        match &*self.home {
            Home::Local(cluster) => cluster,
            Home::Shared { page, .. } => page.words(),
        }
    }

    /// Sets flags, and wakes all waiters they concern: the state before.
    pub fn set(&self, mask: u64) -> u64 {
        let (before, wake) = self.cluster().set(mask);
        if wake {
            futex::wake(&self.cluster().generation, i32::MAX as u32);
        }
        before
    }

    /// Clears flags: the state before.
    pub fn clear(&self, mask: u64) -> u64 {
        self.cluster().clear(mask)
    }

    /// The state.
    pub fn read(&self) -> u64 {
        self.cluster().read()
    }

    /// The lowest flag of `mask` that is set.
    pub fn first(&self, mask: u64) -> Option<u32> {
        let found = self.read() & mask;
        (found != 0).then(|| found.trailing_zeros())
    }

    /// Waits until any flag of `mask` is set: those that are. They stay set.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]; [`ErrorKind::Invalid`]: the mask is empty.
    pub fn wait_any(&self, mask: u64, time: Option<Duration>) -> Result<u64> {
        self.wait(mask, time, || matching(self.read(), mask, false))
    }

    /// Waits until all flags of `mask` are set at once.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any`].
    pub fn wait_all(&self, mask: u64, time: Option<Duration>) -> Result<u64> {
        self.wait(mask, time, || matching(self.read(), mask, true))
    }

    /// Waits until any flag of `mask` is set and clears those that are, in one step: of several
    /// waiters one gets each.
    ///
    /// # Errors
    /// Those of [`Flags::wait_any`].
    pub fn wait_and_clear(&self, mask: u64, time: Option<Duration>) -> Result<u64> {
        self.wait(mask, time, || self.cluster().take(mask, false))
    }

    fn wait(
        &self,
        mask: u64,
        time: Option<Duration>,
        look: impl Fn() -> Option<u64>,
    ) -> Result<u64> {
        if mask == 0 {
            return Err(Error::new(ErrorKind::Invalid, "wait for", "flags", "the mask is empty"));
        }
        let until = time.map_or(Until::Ever, Until::after);
        if let Some(found) = look_quickly(&look) {
            return Ok(found);
        }
        let mut first = true;
        loop {
            let counted = CountedIn::new(self.cluster());
            if let Some(found) = look() {
                return Ok(found);
            }
            if until.is_over() {
                let why = "none was set in time";
                return Err(Error::new(ErrorKind::TimedOut, "wait for", "flags", why));
            }
            let begun = Instant::now();
            let woken = futex::wait(&counted.cluster.generation, counted.generation, until.left());
            let ns = begun.elapsed().as_nanos() as u64;
            counted.cluster.slept(std::mem::take(&mut first), ns, woken);
        }
    }
}

/// A waiter that has said that it sleeps. Dropping it takes that back.
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

impl<'a> Wait<'a> {
    /// For any of these flags.
    ///
    /// # Errors
    /// There are too many already.
    pub fn flags(self, flags: &'a Flags, mask: u64) -> Result<Wait<'a>> {
        self.cluster(flags.cluster(), mask, false)
    }

    /// For all of these flags at once.
    ///
    /// # Errors
    /// There are too many already.
    pub fn all_flags(self, flags: &'a Flags, mask: u64) -> Result<Wait<'a>> {
        self.cluster(flags.cluster(), mask, true)
    }
}
