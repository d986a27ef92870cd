//! The regions of a pool, and what they wish: memory, or to begin.

use super::region::pager::Pager as RegionPager;
use super::region::share::ShareState;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

pub type Pager = Mutex<RegionPager>;

/// A region of the pool.
#[derive(Debug, Clone)]
pub struct Member {
    pub pager: Weak<Pager>,
    pub state: Arc<ShareState>,
}

/// What the lock protects.
#[derive(Debug, Default)]
struct Wishes {
    members: Vec<Member>,
    asked: bool,
    /// Regions that wait until they can begin.
    joining: u32,
    started: bool,
    stops: bool,
}

/// The regions of a pool, and what they wish.
#[derive(Debug, Default)]
pub struct Lending {
    wishes: Mutex<Wishes>,
    changed: Condvar,
    /// Whole regions are sent out.
    pub swaps: AtomicBool,
    /// The oldest of so many of the largest goes.
    pub swap_largest: AtomicU32,
}

/// A region that waits until it can begin.
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

    /// Adds a region: whether it is the first, for which the thread that decides must be started.
    pub fn add(&self, pager: &Arc<Pager>, state: &Arc<ShareState>) -> bool {
        let mut wishes = self.lock();
        wishes.members.retain(|member| member.pager.strong_count() > 0);
        wishes.members.push(Member { pager: Arc::downgrade(pager), state: Arc::clone(state) });
        !std::mem::replace(&mut wishes.started, true)
    }

    /// Takes back that the thread was to be started.
    pub fn not_started(&self) {
        self.lock().started = false;
    }

    /// How many regions wait until they can begin.
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
                wishes.members.retain(|member| member.pager.strong_count() > 0);
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
