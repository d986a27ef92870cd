//! The watcher, the inboxes it puts news into, and a wait for several at once, under loom. Run by
//! `just loom`. Only the kernel is a stand-in: [`Inbox`], [`Fate`] and [`Rounds`] are the real ones.
//!
//! A wait sleeps on several words at once; one lock stands for the kernel's, as in `Futex`.

use super::inbox::{Fate, Inbox, News, Sleeper};
use super::notify::{Recipient, Rounds};
use super::sleep;
use crate::primitive::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex, Notify};
use std::sync::Arc;

/// The kernel's futexes of one process.
struct Kernel {
    lock: Mutex<()>,
    sleepers: Condvar,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel { lock: Mutex::new(()), sleepers: Condvar::new() }
    }

    /// Sleeps while each word is as expected.
    fn wait(&self, words: &[(&AtomicU32, u32)]) {
        let guard = self.lock.lock().expect("no panic");
        if words.iter().all(|(word, expected)| word.load(Ordering::Relaxed) == *expected) {
            drop(self.sleepers.wait(guard).expect("no panic"));
        }
    }

    fn wake(&self) {
        let _guard = self.lock.lock().expect("no panic");
        self.sleepers.notify_all();
    }
}

/// Where one sleeps on a word that other processes share: an end, or the reader of many rings.
struct SleepPlace {
    word: AtomicU32,
    kernel: Arc<Kernel>,
}

impl Sleeper for SleepPlace {
    fn wake(&self) {
        sleep::take(&self.word);
        self.kernel.wake();
    }
}

/// A sleeper, its inbox, and one peer of it.
struct ModelSleeper {
    place: Arc<SleepPlace>,
    inbox: Arc<Inbox<SleepPlace>>,
    peer: Arc<Fate<SleepPlace>>,
}

impl ModelSleeper {
    fn new(kernel: &Arc<Kernel>) -> ModelSleeper {
        let place = Arc::new(SleepPlace { word: AtomicU32::new(0), kernel: kernel.clone() });
        let inbox = Inbox::new(place.clone());
        let peer = Arc::new(Fate::new(inbox.clone(), 7));
        ModelSleeper { place, inbox, peer }
    }

    /// Announces its sleep, looks and sleeps, as an end and the reader of many rings do.
    fn until_news(&self) -> News {
        loop {
            if self.inbox.has_news() {
                return self.inbox.take();
            }
            let said = sleep::announce(&self.place.word, sleep::ASLEEP);
            if self.inbox.falls_asleep() {
                self.place.kernel.wait(&[(&self.place.word, said)]);
            }
            self.inbox.wakes_up();
            sleep::retract(&self.place.word, sleep::ASLEEP);
        }
    }
}

/// Tells all of these as the watcher does, and looks again until all have heard.
fn notify_all(all: Vec<Arc<dyn Recipient>>) {
    let mut rounds = Rounds::default();
    for one in &all {
        rounds.notify(Arc::downgrade(one));
    }
    while !rounds.is_empty() {
        loom::thread::yield_now();
        rounds.go();
    }
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn a_death_reaches_a_sleeper_whose_word_another_process_sets_back() {
    check(2, || {
        let own = ModelSleeper::new(&Arc::new(Kernel::new()));
        let (peer, spoilt) = (own.peer.clone(), own.place.clone());
        let watcher = loom::thread::spawn(move || notify_all(vec![peer]));
        let hostile =
            loom::thread::spawn(move || spoilt.word.store(sleep::ASLEEP, Ordering::Relaxed));
        let mut gone = Vec::new();
        while gone.is_empty() {
            gone = own.until_news().gone;
        }
        assert_eq!(gone, [7]);
        assert!(own.peer.is_dead());
        hostile.join().expect("no panic");
        watcher.join().expect("no panic");
    });
}

/// A sleeper takes its news while the watcher brings more: none is lost, and each is delivered.
#[test]
fn a_death_and_a_connection_are_both_heard() {
    check(2, || {
        let own = ModelSleeper::new(&Arc::new(Kernel::new()));
        let told: Vec<Arc<dyn Recipient>> = vec![own.inbox.clone(), own.peer.clone()];
        let watcher = loom::thread::spawn(move || notify_all(told));
        let mut heard = News::default();
        while !heard.notified || heard.gone.is_empty() {
            let news = own.until_news();
            heard.notified |= news.notified;
            heard.gone.extend(news.gone);
        }
        assert_eq!(heard.gone, [7]);
        watcher.join().expect("no panic");
    });
}

/// A sleeper moves to another place while its peer dies.
#[test]
fn one_that_moves_hears_of_a_death_all_the_same() {
    check(2, || {
        let kernel = Arc::new(Kernel::new());
        let mut own = ModelSleeper::new(&kernel);
        let peer = own.peer.clone();
        let watcher = loom::thread::spawn(move || notify_all(vec![peer]));
        own.place = Arc::new(SleepPlace { word: AtomicU32::new(0), kernel });
        own.inbox.move_to(own.place.clone());
        while !own.peer.is_dead() {
            own.until_news();
        }
        watcher.join().expect("no panic");
    });
}

/// A sleeper has announced its sleep and does not continue before another one has heard: it is in
/// its second look, or a debugger holds it. The watcher tells the other one nevertheless.
#[test]
fn one_that_does_not_continue_keeps_no_news_from_another() {
    check(2, || {
        let kernel = Arc::new(Kernel::new());
        let (stuck, other) = (ModelSleeper::new(&kernel), ModelSleeper::new(&kernel));
        let heard = loom::sync::Arc::new(Notify::new());
        let (told, hears): (Vec<Arc<dyn Recipient>>, _) =
            (vec![stuck.peer.clone(), other.peer.clone()], heard.clone());
        let watcher = loom::thread::spawn(move || notify_all(told));
        let sleeping = loom::thread::spawn(move || {
            other.until_news();
            hears.notify();
        });
        stuck.inbox.falls_asleep();
        heard.wait();
        stuck.inbox.wakes_up();
        sleeping.join().expect("no panic");
        watcher.join().expect("no panic");
    });
}

/// Waits for any of these in the order of `Wait`: a look, the announcement of all sleeps, a second
/// look, and the sleep on all words.
fn wait_for_any(
    kernel: &Kernel,
    sleepers: &[&ModelSleeper],
    mut is_ready: impl FnMut(&ModelSleeper) -> bool,
) {
    while !sleepers.iter().any(|one| is_ready(one)) {
        let said: Vec<_> = sleepers
            .iter()
            .map(|one| (&one.place.word, sleep::announce(&one.place.word, sleep::ASLEEP)))
            .collect();
        let mut nothing = true;
        for one in sleepers {
            nothing &= one.inbox.falls_asleep();
        }
        if nothing {
            kernel.wait(&said);
        }
        for one in sleepers {
            one.inbox.wakes_up();
            sleep::retract(&one.place.word, sleep::ASLEEP);
        }
    }
}

/// A wait for a pipe and for the reader of many rings. More connect to the reader than it accepts
/// at once, so it notifies itself. The watcher tells both, and waits for neither.
#[test]
fn a_wait_for_several_hears_of_each() {
    check(2, || {
        let kernel = Arc::new(Kernel::new());
        let (pipe, port) = (ModelSleeper::new(&kernel), ModelSleeper::new(&kernel));
        let told: Vec<Arc<dyn Recipient>> = vec![port.inbox.clone(), pipe.peer.clone()];
        let watcher = loom::thread::spawn(move || notify_all(told));
        let (mut rounds_of_letting_in, mut is_dead) = (0, false);
        while rounds_of_letting_in < 2 || !is_dead {
            let mut left: Vec<&ModelSleeper> = Vec::new();
            left.extend((!is_dead).then_some(&pipe));
            left.extend((rounds_of_letting_in < 2).then_some(&port));
            wait_for_any(&kernel, &left, |one| {
                if std::ptr::eq(one, &pipe) {
                    is_dead = pipe.peer.is_dead();
                    return is_dead;
                }
                let notified = port.inbox.take().notified;
                if notified && rounds_of_letting_in == 0 {
                    port.inbox.notify();
                }
                rounds_of_letting_in += u32::from(notified);
                rounds_of_letting_in == 2
            });
        }
        watcher.join().expect("no panic");
    });
}
