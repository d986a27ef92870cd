//! Who borrows memory of a pool, and what they wish: memory, or to begin.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_policy::paging::Run;

/// A borrower that is out waits at most this long, whatever becomes of the thread that lets it in.
const MOST_OUT: Duration = Duration::from_secs(30);
const LOOKS_AGAIN: Duration = Duration::from_millis(50);

/// What a pool knows of a borrower without its lock.
#[derive(Debug, Default)]
pub struct ShareState {
    // All are numbers, and flags that are looked at again: Relaxed does for them.
    pub(super) pages: AtomicU32,
    pub(super) faults: AtomicU64,
    pub(super) again: AtomicU64,
    pub(super) waited_ns: AtomicU64,
    /// It faults, and would take more memory.
    pub(super) wants: AtomicBool,
    /// How often it went out.
    pub(super) swapped: AtomicU64,
    is_out: AtomicBool,
    gate: Mutex<()>,
    opened: Condvar,
}

impl ShareState {
    pub(super) fn is_out(&self) -> bool {
        self.is_out.load(Ordering::Relaxed)
    }

    /// Sends the borrower out, or lets it in.
    pub(super) fn set_out(&self, out: bool) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_out.store(out, Ordering::Relaxed);
        self.swapped.fetch_add(u64::from(out), Ordering::Relaxed);
        drop(gate);
        self.opened.notify_all();
    }

    /// Waits while the borrower is out, unless `stops`.
    pub fn wait_until_in(&self, stops: impl Fn() -> bool) {
        if !self.is_out() {
            return;
        }
        let begun = Instant::now();
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_out() && !stops() && begun.elapsed() < MOST_OUT {
            let waited = self.opened.wait_timeout(gate, LOOKS_AGAIN);
            gate = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One that pages within memory of a pool, and can give some of it back, such as a region.
pub trait Borrower: std::fmt::Debug + Send + Sync {
    /// Whether it is dropped, and has nothing of the pool any more.
    fn is_gone(&self) -> bool;
    /// Gives the memory of so many pages back, as far as it can. Returns how many frames it gave.
    fn give(&self, pages: u32) -> usize;
    /// Gives back all but the least that it needs. Returns the pages that it had.
    fn go_out(&self) -> Vec<Run>;
    /// Takes memory for so many pages, and brings these back into it.
    fn come_in(&self, pages: u32, had: &[Run]);
}

/// A borrower, and what the pool knows of it.
#[derive(Debug, Clone)]
pub struct Member {
    pub borrower: Arc<dyn Borrower>,
    pub state: Arc<ShareState>,
}

/// What the lock protects.
#[derive(Debug, Default)]
struct Wishes {
    members: Vec<Member>,
    asked: bool,
    /// Borrowers that wait until they can begin.
    joining: u32,
    started: bool,
    stops: bool,
}

/// The borrowers of a pool, and what they wish.
#[derive(Debug, Default)]
pub struct Lending {
    wishes: Mutex<Wishes>,
    changed: Condvar,
    /// Whole borrowers are sent out.
    pub swaps: AtomicBool,
    /// The oldest of so many of the largest goes.
    pub swap_largest: AtomicU32,
}

/// A borrower that waits until it can begin.
pub struct Joining<'a>(&'a Lending);

impl Joining<'_> {
    /// Waits until memory may have come back.
    pub fn wait(&self, most: Duration) {
        self.0.ask();
        // sleep: others give within a few milliseconds, and this is looked at again.
        std::thread::sleep(most.min(Duration::from_millis(5)));
    }
}

impl Drop for Joining<'_> {
    fn drop(&mut self) {
        self.0.lock().joining -= 1;
    }
}

impl Lending {
    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that somebody lacks memory.
    pub fn ask(&self) {
        let mut wishes = self.lock();
        if !wishes.asked {
            wishes.asked = true;
            self.changed.notify_all();
        }
    }

    pub fn stop(&self) {
        self.lock().stops = true;
        self.changed.notify_all();
    }

    pub fn joining(&self) -> Joining<'_> {
        self.lock().joining += 1;
        Joining(self)
    }

    /// Adds a borrower: whether it is the first, for which the thread that decides must be started.
    pub fn add(&self, member: Member) -> bool {
        let mut wishes = self.lock();
        wishes.members.retain(|member| !member.borrower.is_gone());
        wishes.members.push(member);
        !std::mem::replace(&mut wishes.started, true)
    }

    /// Takes back that the thread was to be started.
    pub fn not_started(&self) {
        self.lock().started = false;
    }

    /// How many borrowers wait until they can begin.
    pub fn waiting(&self) -> u32 {
        self.lock().joining
    }

    /// Waits for a wish, or for the time: the members, or `None` at the end.
    pub fn wait(&self, most: Option<Duration>) -> Option<(Vec<Member>, bool)> {
        let mut wishes = self.lock();
        let begun = Instant::now();
        loop {
            let over = most.is_some_and(|most| begun.elapsed() >= most);
            if wishes.stops {
                return None;
            }
            if wishes.asked || over {
                let asked = std::mem::take(&mut wishes.asked);
                wishes.members.retain(|member| !member.borrower.is_gone());
                return Some((wishes.members.clone(), asked));
            }
            wishes = match most {
                None => self.changed.wait(wishes).unwrap_or_else(PoisonError::into_inner),
                Some(most) => {
                    let left = most.saturating_sub(begun.elapsed());
                    let waited = self.changed.wait_timeout(wishes, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
