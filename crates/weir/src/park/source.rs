//! One wait over ends, flags, descriptors and a time.
//!
//! ```
//! use weir::{Flags, Options, Wait};
//! let (mut writer, mut reader) = weir::pipe(&Options::new())?;
//! let flags = Flags::local();
//! writer.write(b"x")?;
//! let ready = Wait::new().reader(&mut reader)?.flags(&flags, 1)?.wait(None)?;
//! assert_eq!(ready, [0]);
//! # Ok::<(), weir::Error>(())
//! ```
//!
//! It sleeps on the words of all it waits for by `futex_waitv` (Linux 5.16; before, and where a
//! filter forbids it, short sleeps on one of them). Each object follows its own protocol, so that
//! what happens between looking and sleeping is seen.

use super::{Until, futex};
use crate::error::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir_ring::cluster::{Cluster, matching};
use weir_ring::notify::{Heard, Observer};

/// Most ends and clusters of one wait.
pub const MOST_WORDS: usize = 120;
/// Most descriptors of one wait.
pub const MOST_DESCRIPTORS: usize = 1000;

/// An object a [`Wait`] can wait for. The rooms that have such objects implement it, and add to
/// `Wait` a method of their own, which calls [`Wait::source`].
pub trait Source {
    /// Whether there is as much as is wanted: room, say.
    fn is_ready(&mut self, wanted: u64) -> Result<bool>;

    /// Says that it is about to be slept on, and looks once more. `None`, and nothing said, if there
    /// is something; otherwise what to expect of its word.
    fn announce(&mut self, wanted: u64) -> Result<Option<u32>>;

    /// Takes back what [`Source::announce`] said.
    fn retract(&mut self);

    /// The words to sleep on, and what to expect of each.
    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>);

    /// How many words those are.
    fn word_count(&self) -> usize {
        1
    }

    /// The most it may sleep.
    fn most_sleep(&self) -> Option<Duration> {
        None
    }

    /// What is to be done after a sleep of that length.
    fn after_sleep(&mut self, slept: Duration) -> Result<()> {
        let _ = slept;
        Ok(())
    }
}

/// How often a descriptor of a wait became ready: what the wait sleeps on meanwhile.
#[derive(Debug, Default)]
pub struct Rung(pub AtomicU32);

impl Observer for Rung {
    fn note(&self) {
        // Release pairs with the acquire of the wait: the descriptor is ready.
        self.0.fetch_add(1, Ordering::Release);
    }

    fn wake(&self) -> Heard {
        // No other process has the word: a sleep that begins later sees that it has changed.
        futex::wake(&self.0, u32::MAX);
        Heard::Yes
    }
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
}

/// Tells who sleeps once a descriptor is ready, until what it returns is dropped. `None`: the
/// descriptor is always ready.
pub type Watch = fn(BorrowedFd, Interest, &Arc<Rung>) -> Result<Option<Box<dyn Send>>>;

enum Kind<'a> {
    Object(&'a mut (dyn Source + Send), u64),
    Cluster {
        cluster: &'a Cluster,
        mask: u64,
        all: bool,
    },
    Descriptor {
        fd: BorrowedFd<'a>,
        interest: Interest,
        watch: Watch,
        watched: Option<Box<dyn Send>>,
    },
}

struct Item<'a> {
    kind: Kind<'a>,
    /// What to expect of its word, once it has said that it sleeps.
    said: Option<u32>,
}

/// A wait that is being put together.
#[derive(Default)]
pub struct Wait<'a> {
    items: Vec<Item<'a>>,
    words: usize,
    descriptors: usize,
}

impl<'a> Wait<'a> {
    /// For nothing yet.
    pub fn new() -> Wait<'a> {
        Wait::default()
    }

    /// For so much of an object.
    pub(crate) fn source(
        self,
        source: &'a mut (dyn Source + Send),
        wanted: u64,
    ) -> Result<Wait<'a>> {
        self.add(Kind::Object(source, wanted))
    }

    /// For any or all of these flags.
    pub(crate) fn cluster(self, cluster: &'a Cluster, mask: u64, all: bool) -> Result<Wait<'a>> {
        self.add(Kind::Cluster { cluster, mask, all })
    }

    /// For a descriptor, which is watched so.
    pub(crate) fn watched(
        self,
        fd: BorrowedFd<'a>,
        interest: Interest,
        watch: Watch,
    ) -> Result<Wait<'a>> {
        self.add(Kind::Descriptor { fd, interest, watch, watched: None })
    }

    fn add(mut self, kind: Kind<'a>) -> Result<Wait<'a>> {
        match &kind {
            Kind::Object(source, _) => self.words += source.word_count(),
            Kind::Cluster { .. } => self.words += 1,
            Kind::Descriptor { .. } => self.descriptors += 1,
        }
        if self.words > MOST_WORDS || self.descriptors > MOST_DESCRIPTORS {
            let most = format!(
                "more than {MOST_WORDS} ends and clusters, or {MOST_DESCRIPTORS} descriptors"
            );
            return Err(Error::new(ErrorKind::Invalid, "wait for", "so many", most));
        }
        self.items.push(Item { kind, said: None });
        Ok(self)
    }

    /// Waits until something is ready: the places of what is, in the order of adding.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]; [`ErrorKind::Corrupt`] of an end; [`ErrorKind::Invalid`]: there is
    /// nothing to wait for.
    pub fn wait(&mut self, time: Option<Duration>) -> Result<Vec<usize>> {
        let until = time.map_or(Until::Ever, Until::after);
        if self.items.is_empty() && until == Until::Ever {
            return Err(Error::new(ErrorKind::Invalid, "wait", "for ever", "nothing was added"));
        }
        let rung: Arc<Rung> = Arc::default();
        loop {
            let ready = self.ready()?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            if until.is_over() {
                let why = "nothing was ready in time";
                return Err(Error::new(ErrorKind::TimedOut, "wait for", "any of these", why));
            }
            self.sleep_unless_ready(&rung, until)?;
        }
    }

    /// What is ready now.
    fn ready(&mut self) -> Result<Vec<usize>> {
        let mut ready = Vec::new();
        for (place, item) in self.items.iter_mut().enumerate() {
            if item.is_ready()? {
                ready.push(place);
            }
        }
        Ok(ready)
    }

    fn sleep_unless_ready(&mut self, rung: &Arc<Rung>, until: Until) -> Result<()> {
        // Acquire pairs with the release of who counts it up.
        let seen = rung.0.load(Ordering::Acquire);
        let announced = Announced(&mut self.items);
        for item in announced.0.iter_mut() {
            item.said = item.announce(rung)?;
            if item.said.is_none() {
                return Ok(());
            }
        }
        let mut words: Vec<(&AtomicU32, u32)> = vec![(&rung.0, seen)];
        announced.0.iter().for_each(|item| item.words(&mut words));
        let most = announced.0.iter().filter_map(Item::most_sleep).min();
        let begun = Instant::now();
        futex::wait_any(&words, until.at_most(most))
            .map_err(|cause| Error::os("wait for", "several things", cause))?;
        let slept = begun.elapsed();
        drop(announced);
        for item in &mut self.items {
            if let Kind::Object(source, _) = &mut item.kind {
                source.after_sleep(slept)?;
            }
        }
        Ok(())
    }
}

/// Some of these have said that they sleep. Dropping it takes that back.
struct Announced<'w, 'a>(&'w mut Vec<Item<'a>>);

impl Drop for Announced<'_, '_> {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Item::retract);
    }
}

impl Item<'_> {
    fn is_ready(&mut self) -> Result<bool> {
        match &mut self.kind {
            Kind::Object(source, wanted) => source.is_ready(*wanted),
            Kind::Cluster { cluster, mask, all } => {
                Ok(matching(cluster.read(), *mask, *all).is_some())
            }
            Kind::Descriptor { fd, interest, .. } => is_ready(*fd, *interest),
        }
    }

    /// Says that it is about to be slept on, and looks once more. `None` if there is something.
    fn announce(&mut self, rung: &Arc<Rung>) -> Result<Option<u32>> {
        match &mut self.kind {
            Kind::Object(source, wanted) => source.announce(*wanted),
            Kind::Cluster { cluster, mask, all } => {
                let said = cluster.count_in();
                let is_ready = matching(cluster.read(), *mask, *all).is_some();
                if is_ready {
                    cluster.count_out();
                }
                Ok((!is_ready).then_some(said))
            }
            Kind::Descriptor { fd, interest, watch, watched } => {
                // One that is ready already is told at once.
                *watched = watch(*fd, *interest, rung)?;
                Ok(Some(0))
            }
        }
    }

    fn retract(&mut self) {
        let said = self.said.take();
        match &mut self.kind {
            Kind::Descriptor { watched, .. } => *watched = None,
            Kind::Cluster { cluster, .. } if said.is_some() => cluster.count_out(),
            Kind::Object(source, _) if said.is_some() => source.retract(),
            _ => {}
        }
    }

    fn words<'w>(&'w self, words: &mut Vec<(&'w AtomicU32, u32)>) {
        match (&self.kind, self.said) {
            (Kind::Object(source, _), Some(said)) => source.words(said, words),
            (Kind::Cluster { cluster, .. }, Some(said)) => words.push((&cluster.generation, said)),
            _ => {}
        }
    }

    fn most_sleep(&self) -> Option<Duration> {
        match &self.kind {
            Kind::Object(source, _) => source.most_sleep(),
            _ => None,
        }
    }
}

fn is_ready(descriptor: BorrowedFd, interest: Interest) -> Result<bool> {
    let flags = if interest == Interest::Read { PollFlags::IN } else { PollFlags::OUT };
    let mut asked = [PollFd::from_borrowed_fd(descriptor, flags)];
    match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(count) => Ok(count > 0),
        Err(Errno::INTR) => Ok(false),
        Err(cause) => Err(Error::os("wait for", "a descriptor", cause)),
    }
}
