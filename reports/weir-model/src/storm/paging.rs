//! Random touches and faults over the pages of a region.
//!
//! Transfers fail, are torn, come late and in any order; a flush writes everything, and after one
//! the process may die and begin again with what is in the file. Whatever happens, a page that is
//! read holds what was written to it last, memory stays within its budget, and a touch gets its page
//! as long as transfers succeed now and then.

use super::{Ended, Trace};
use weir_policy::paging::{
    Advice, LEAST_FRAMES, MOST_CLUSTER, PageReplacement, PagingAction, PagingPolicy,
    PagingSettings, Run, Touch,
};
use weir_policy::random::Random;

const TOUCHES: u64 = 100;
/// A touch that has waited for so many transfers has waited for ever.
const PATIENCE: u32 = 2000;

struct PageTransfer {
    run: Run,
    /// What is written; nothing for a read.
    versions: Option<Vec<u64>>,
}

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Touch { page: u32, writes: bool },
    Action(PagingAction),
    Ended { run: Run, writes: bool, fails: bool },
    Flushed,
    Died,
}

struct Storm {
    policy: PagingPolicy,
    settings: PagingSettings,
    /// The version of each page in memory.
    memory: Vec<Option<u64>>,
    /// Pages that touches reach without a fault, and whether they were written since.
    mapped: Vec<Option<bool>>,
    file: Vec<u64>,
    expected: Vec<u64>,
    transfers: Vec<PageTransfer>,
    random: Random,
    version: u64,
    /// One transfer in so many fails; 0 for none.
    faulty: u64,
    trace: Trace<Traced>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut storm = Storm::new(seed);
    let ran = storm.run();
    storm.trace.ended(ran)
}

fn policy(settings: PagingSettings) -> PagingPolicy {
    let Ok(policy) = PagingPolicy::new(settings) else { unreachable!("memory for a few pages") };
    policy
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut random = Random::new(seed ^ 0x9a61);
        let pages = 8 + random.below(120) as u32;
        let settings = PagingSettings {
            pages,
            frames: LEAST_FRAMES + random.below(40) as u32,
            most_cluster: 1 + random.below(u64::from(MOST_CLUSTER)) as u32,
            replacement: PageReplacement::ALL[random.below(3) as usize],
            looks: random.once_in(2),
            starts_filed: random.once_in(2),
        };
        let count = pages as usize;
        Storm {
            policy: policy(settings),
            settings,
            memory: vec![None; count],
            mapped: vec![None; count],
            file: vec![0; count],
            expected: vec![0; count],
            transfers: Vec::new(),
            version: 0,
            faulty: [0, 0, 3, 20][random.below(4) as usize],
            random,
            trace: Trace::new(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let mut place = 0;
        for _ in 0..TOUCHES {
            self.change_advice();
            place = match self.random.below(4) {
                0 => self.random.below(u64::from(self.settings.pages)) as u32,
                1 => place,
                _ => (place + 1) % self.settings.pages,
            };
            let writes = self.random.once_in(2);
            self.touch(place, writes)?;
            if self.random.once_in(40) {
                self.flush()?;
                if self.random.once_in(2) {
                    self.die();
                }
            }
        }
        self.faulty = 0;
        self.flush()
    }

    fn change_advice(&mut self) {
        if self.random.once_in(30) {
            let all = [Advice::Normal, Advice::Sequential, Advice::Random];
            self.policy.advise(all[self.random.below(3) as usize]);
        }
        if self.random.once_in(30) {
            let sweeps = self.random.once_in(2);
            self.policy.sweep(sweeps);
        }
        if self.random.once_in(30) {
            let page = self.random.below(u64::from(self.settings.pages)) as u32;
            self.policy.let_go(Run { first: page, count: 1 });
        }
    }

    fn act(&mut self) -> Result<(), String> {
        while let Some(action) = self.policy.action() {
            self.trace.push(Traced::Action(action));
            match action {
                PagingAction::Zero(run) => {
                    for page in run.pages() {
                        self.memory[page as usize] = Some(0);
                    }
                    self.came(run, true);
                }
                PagingAction::Read(run) => {
                    self.transfers.push(PageTransfer { run, versions: None })
                }
                PagingAction::Write(run) => {
                    let versions: Option<Vec<u64>> =
                        run.pages().map(|page| self.memory[page as usize]).collect();
                    if versions.is_none() {
                        return Err(format!("{run:?} is written, and not all of it is in memory"));
                    }
                    self.transfers.push(PageTransfer { run, versions });
                }
                PagingAction::Look(run) => {
                    let mut written = 0;
                    for page in run.pages() {
                        if self.mapped[page as usize].take() == Some(true) {
                            written |= 1 << (page - run.first);
                        }
                    }
                    self.policy.looked(run, written);
                }
                PagingAction::Drop(run) => {
                    for page in run.pages() {
                        self.memory[page as usize] = None;
                        if self.mapped[page as usize].is_some() {
                            return Err(format!("page {page} goes, and touches reach it"));
                        }
                    }
                }
            }
        }
        let held = self.memory.iter().flatten().count();
        let (used, most) = self.policy.frames_used();
        let budget = self.settings.frames;
        if held > budget as usize || used > budget || most > budget {
            return Err(format!("{held} pages lie in {used} (at most {most}) of {budget} frames"));
        }
        Ok(())
    }

    fn came(&mut self, run: Run, succeeded: bool) {
        self.policy.came(run, succeeded);
        if self.settings.looks && succeeded {
            for page in run.pages().filter(|page| !self.policy.is_unasked(*page)) {
                self.mapped[page as usize] = Some(false);
            }
        }
    }

    /// Ends a transfer, whichever: late ones are overtaken.
    fn end_one(&mut self) -> Result<bool, String> {
        if self.transfers.is_empty() {
            return Ok(false);
        }
        let at = self.random.below(self.transfers.len() as u64) as usize;
        let PageTransfer { run, versions } = self.transfers.swap_remove(at);
        let fails = self.faulty > 0 && self.random.once_in(self.faulty);
        let writes = versions.is_some();
        self.trace.push(Traced::Ended { run, writes, fails });
        let versions = versions.unwrap_or_default();
        for (index, page) in run.pages().enumerate() {
            // A torn transfer has moved a part of its pages.
            let is_moved = !fails || self.random.once_in(2);
            if is_moved && writes {
                self.file[page as usize] = versions[index];
            } else if is_moved {
                self.memory[page as usize] = Some(self.file[page as usize]);
            }
        }
        if writes {
            self.policy.written(run, !fails);
        } else {
            if fails {
                run.pages().for_each(|page| self.memory[page as usize] = None);
            }
            self.came(run, !fails);
        }
        self.act()?;
        Ok(true)
    }

    /// Touches a page as a program does, and waits for it.
    fn touch(&mut self, page: u32, writes: bool) -> Result<(), String> {
        self.trace.push(Traced::Touch { page, writes });
        let at = page as usize;
        let mut tries = 0;
        while self.mapped[at].is_none() {
            tries += 1;
            if tries > PATIENCE {
                return Err(format!("a touch of page {page} waits for ever"));
            }
            match self.policy.touch(page, writes) {
                Touch::Here if self.policy.has_actions() => self.act()?,
                Touch::Here => break,
                Touch::Coming => {
                    if !self.end_one()? {
                        return Err(format!("page {page} is coming, and nothing is under way"));
                    }
                }
                Touch::Absent => {
                    let comes = self.policy.bring(page);
                    self.act()?;
                    if !comes {
                        self.end_one()?;
                    }
                }
            }
        }
        let (found, expected) = (self.memory[at], self.expected[at]);
        if found != Some(expected) {
            return Err(format!("page {page} holds version {found:?}, not {expected}"));
        }
        if self.settings.looks {
            self.mapped[at] = Some(self.mapped[at].unwrap_or(false) || writes);
        }
        if writes {
            self.version += 1;
            self.memory[at] = Some(self.version);
            self.expected[at] = self.version;
        }
        if self.random.once_in(3) {
            self.end_one()?;
        }
        Ok(())
    }

    /// Writes everything, again and again while transfers fail, and checks the file.
    fn flush(&mut self) -> Result<(), String> {
        self.trace.push(Traced::Flushed);
        while self.end_one()? {}
        for _ in 0..PATIENCE {
            let mut from = 0;
            while let Some(next) = self.policy.flush(from) {
                from = next;
                self.act()?;
                while self.end_one()? {}
            }
            let is_kept = |(kept, wanted): (&u64, &u64)| kept == wanted;
            if self.file.iter().zip(&self.expected).all(is_kept) {
                return Ok(());
            }
            if self.faulty == 0 {
                return Err(String::from("everything was written, and the file lacks some"));
            }
        }
        Err(String::from("a flush does not end"))
    }

    /// The process dies after a flush, and another begins with the file.
    fn die(&mut self) {
        self.trace.push(Traced::Died);
        self.settings.starts_filed = true;
        self.policy = policy(self.settings);
        self.memory.fill(None);
        self.mapped.fill(None);
        self.transfers.clear();
    }
}
