//! The watcher, those it tells, and a wait for several at once, under loom. Run by `just loom`.
//!
//! A wait sleeps on several words at once; here one lock stands for the kernel's, as in `Futex`.

use super::rouse::{Heard, Rounds, Rouse, Sleep};
use super::sleep;
use crate::primitive::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex, Notify};

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

/// One who sleeps on a word that others share: an end, or the reader of many.
struct Sleeper {
    sleep: Sleep,
    word: AtomicU32,
    kernel: Arc<Kernel>,
}

impl Sleeper {
    fn new(kernel: &Arc<Kernel>) -> Arc<Sleeper> {
        let (sleep, word) = (Sleep::default(), AtomicU32::new(0));
        Arc::new(Sleeper { sleep, word, kernel: kernel.clone() })
    }

    /// As an end does, and the reader of many: says so, looks, sleeps.
    fn until_news(&self) {
        while !self.sleep.take_news() {
            let said = sleep::announce(&self.word, sleep::ASLEEP);
            if self.sleep.falls_asleep() {
                self.kernel.wait(&[(&self.word, said)]);
            }
            self.sleep.wakes_up();
            sleep::retract(&self.word, sleep::ASLEEP);
        }
    }
}

/// What the watcher keeps of one.
struct Told(Arc<Sleeper>);

impl Rouse for Told {
    fn rouse(&self) -> Heard {
        let Sleeper { sleep, word, kernel } = &*self.0;
        if !sleep.is_unheard() {
            return Heard::Yes;
        }
        sleep::take(word);
        kernel.wake();
        Heard::Perhaps
    }
}

/// The watcher: tells each of these, and looks again until all have heard.
fn tell(all: &[&Arc<Sleeper>]) {
    let mut rounds = Rounds::default();
    for one in all {
        one.sleep.note();
        rounds.tell(Told(Arc::clone(one)));
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
fn news_reach_a_sleeper_whose_word_another_process_sets_back() {
    check(2, || {
        let sleeper = Sleeper::new(&Arc::new(Kernel::new()));
        let (watched, spoilt) = (sleeper.clone(), sleeper.clone());
        let watcher = loom::thread::spawn(move || tell(&[&watched]));
        let hostile =
            loom::thread::spawn(move || spoilt.word.store(sleep::ASLEEP, Ordering::Relaxed));
        sleeper.until_news();
        hostile.join().expect("no panic");
        watcher.join().expect("no panic");
    });
}

/// One that has said that it sleeps, and does not go on before another has heard: a wait in its
/// second look, a thread that is held by a debugger. The watcher tells the other all the same.
#[test]
fn one_that_does_not_go_on_keeps_no_news_from_another() {
    check(2, || {
        let kernel = Arc::new(Kernel::new());
        let (stuck, other) = (Sleeper::new(&kernel), Sleeper::new(&kernel));
        let heard = Arc::new(Notify::new());
        let (watched, hears) = ([stuck.clone(), other.clone()], heard.clone());
        let watcher = loom::thread::spawn(move || tell(&[&watched[0], &watched[1]]));
        let sleeping = loom::thread::spawn(move || {
            other.until_news();
            hears.notify();
        });
        stuck.sleep.falls_asleep();
        heard.wait();
        stuck.sleep.wakes_up();
        sleeping.join().expect("no panic");
        watcher.join().expect("no panic");
    });
}

/// Waits for any of these, in the order of `Wait`: a look, all say that they sleep, a second look,
/// and the sleep on all words.
fn wait_for_any(
    kernel: &Kernel,
    sleepers: &[&Sleeper],
    mut is_ready: impl FnMut(&Sleeper) -> bool,
) {
    while !sleepers.iter().any(|one| is_ready(one)) {
        let said: Vec<_> = sleepers
            .iter()
            .map(|one| (&one.word, sleep::announce(&one.word, sleep::ASLEEP)))
            .collect();
        let mut nothing = true;
        for one in sleepers {
            nothing &= one.sleep.falls_asleep();
        }
        if nothing {
            kernel.wait(&said);
        }
        for one in sleepers {
            one.sleep.wakes_up();
            sleep::retract(&one.word, sleep::ASLEEP);
        }
    }
}

/// A wait for a pipe and for the reader of many, which finds more at its door than it lets in at
/// once and says so to itself; the watcher tells both, and waits for neither.
#[test]
fn a_wait_for_several_hears_of_each() {
    check(2, || {
        let kernel = Arc::new(Kernel::new());
        let (pipe, port) = (Sleeper::new(&kernel), Sleeper::new(&kernel));
        let watched = [port.clone(), pipe.clone()];
        let watcher = loom::thread::spawn(move || tell(&[&watched[0], &watched[1]]));
        let (mut rounds_of_letting_in, mut is_dead) = (0, false);
        while rounds_of_letting_in < 2 || !is_dead {
            let mut left: Vec<&Sleeper> = Vec::new();
            left.extend((!is_dead).then_some(&*pipe));
            left.extend((rounds_of_letting_in < 2).then_some(&*port));
            wait_for_any(&kernel, &left, |one| {
                if std::ptr::eq(one, &*pipe) {
                    is_dead = one.sleep.has_news();
                    return is_dead;
                }
                let knocked = one.sleep.take_news();
                if knocked && rounds_of_letting_in == 0 {
                    one.sleep.note();
                }
                rounds_of_letting_in += u32::from(knocked);
                rounds_of_letting_in == 2
            });
        }
        watcher.join().expect("no panic");
    });
}
