//! A machine for the paging policy: memory and a file that hold versions of pages, transfers that
//! end in any order, and a clock of costs.

use std::collections::BTreeMap;
use weir_policy::paging::{PagingAction, PagingPolicy, PagingSettings, Run, Touch};

/// Nanoseconds of a read or write of one page, and of each further page (a virtual disk, 2026-11-21).
const READ_NS: (u64, u64) = (78_000, 4_500);
const WRITE_NS: (u64, u64) = (60_000, 1_500);

pub struct World {
    pub policy: PagingPolicy,
    pub settings: PagingSettings,
    /// The version of each page in memory.
    memory: BTreeMap<u32, u64>,
    /// Pages that touches reach without a fault, where touches are seen by faults.
    mapped: BTreeMap<u32, bool>,
    pub file: BTreeMap<u32, u64>,
    /// What was written to each page last: the naive reference.
    pub expected: BTreeMap<u32, u64>,
    transfers: Vec<(Run, bool, Vec<u64>)>,
    random: u64,
    pub now_ns: u64,
    disk_free_ns: u64,
    pub references: u64,
    /// One write in this many fails; 0 for none.
    pub failing: u64,
}

impl World {
    pub fn new(settings: PagingSettings) -> World {
        World {
            policy: PagingPolicy::new(settings).expect("memory"),
            settings,
            memory: BTreeMap::new(),
            mapped: BTreeMap::new(),
            file: BTreeMap::new(),
            expected: BTreeMap::new(),
            transfers: Vec::new(),
            random: 88_172_645_463_325_252,
            now_ns: 0,
            disk_free_ns: 0,
            references: 0,
            failing: 0,
        }
    }

    pub fn below(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % most
    }

    pub fn act(&mut self) {
        while let Some(action) = self.policy.action() {
            match action {
                PagingAction::Zero(run) => {
                    run.pages().for_each(|page| _ = self.memory.insert(page, 0));
                    self.came(run, true);
                }
                PagingAction::Read(run) => self.transfers.push((run, false, Vec::new())),
                PagingAction::Write(run) => {
                    let versions = run.pages().map(|page| self.memory[&page]).collect();
                    // Writes wait for the disk, but nobody waits for them unless frames run out.
                    let begins = self.disk_free_ns.max(self.now_ns);
                    self.disk_free_ns = begins + cost(WRITE_NS, run);
                    self.transfers.push((run, true, versions));
                }
                PagingAction::Look(run) => {
                    let mut written = 0;
                    for page in run.pages() {
                        if self.mapped.remove(&page) == Some(true) {
                            written |= 1 << (page - run.first);
                        }
                    }
                    self.policy.looked(run, written);
                }
                PagingAction::Drop(run) => run.pages().for_each(|page| {
                    self.memory.remove(&page);
                    assert!(!self.mapped.contains_key(&page), "a page goes that touches reach");
                }),
            }
        }
        let frames = self.settings.frames as usize;
        assert!(self.memory.len() <= frames, "{} pages in {frames} frames", self.memory.len());
    }

    fn came(&mut self, run: Run, succeeded: bool) {
        self.policy.came(run, succeeded);
        if self.settings.looks && succeeded {
            let seen = run.pages().filter(|page| !self.policy.is_unasked(*page));
            let seen: Vec<u32> = seen.collect();
            self.mapped.extend(seen.into_iter().map(|page| (page, false)));
        }
    }

    /// Ends one transfer.
    pub fn end(&mut self, at: usize) {
        let (run, writes, versions) = self.transfers.remove(at);
        let fails = self.failing > 0 && self.below(self.failing) == 0;
        if writes {
            self.now_ns = self.now_ns.max(self.disk_free_ns.saturating_sub(READ_NS.0));
            if !fails {
                self.file.extend(run.pages().zip(versions));
            }
            self.policy.written(run, !fails);
        } else {
            let begins = self.disk_free_ns.max(self.now_ns).min(self.now_ns + WRITE_NS.0);
            self.now_ns = begins + cost(READ_NS, run);
            if !fails {
                run.pages().for_each(|page| _ = self.memory.insert(page, self.file[&page]));
            }
            self.came(run, !fails);
        }
        self.act();
    }

    /// Ends a transfer, if one is under way.
    pub fn end_any(&mut self) -> bool {
        // Reads first: somebody waits for them.
        let read = self.transfers.iter().position(|(_, writes, _)| !writes);
        let Some(at) = read.or(if self.transfers.is_empty() { None } else { Some(0) }) else {
            return false;
        };
        self.end(at);
        true
    }

    /// Touches a page as a program does. False: it cannot be brought in.
    pub fn touch(&mut self, page: u32, writes: bool) -> bool {
        self.references += 1;
        let mut tries = 0;
        loop {
            if self.settings.looks && self.mapped.contains_key(&page) {
                break;
            }
            match self.policy.touch(page, writes) {
                Touch::Here if self.policy.has_actions() => self.act(),
                Touch::Here => break,
                Touch::Coming => assert!(self.end_any(), "it comes"),
                Touch::Absent => {
                    let comes = self.policy.bring(page);
                    self.act();
                    if !comes {
                        self.end_any();
                        tries += 1;
                        if tries > 50 {
                            return false;
                        }
                    }
                }
            }
        }
        let found = *self.memory.get(&page).expect("a page that is here is in memory");
        assert_eq!(found, self.expected.get(&page).copied().unwrap_or(0), "page {page}");
        if self.settings.looks {
            *self.mapped.entry(page).or_insert(false) |= writes;
        }
        if writes {
            self.memory.insert(page, self.references);
            self.expected.insert(page, self.references);
        }
        if !self.transfers.is_empty() && self.below(3) == 0 {
            let at = self.below(self.transfers.len() as u64) as usize;
            if self.transfers[at].1 {
                self.end(at);
            }
        }
        true
    }

    /// Whether a touch of a page meets it without a fault, where touches are seen by faults.
    pub fn reaches(&self, page: u32) -> bool {
        self.mapped.contains_key(&page)
    }

    pub fn flush(&mut self) {
        let mut from = 0;
        while let Some(next) = self.policy.flush(from) {
            from = next;
            self.act();
            while self.end_any() {}
        }
        while self.end_any() {}
    }

    /// Checks that the file holds all that was written.
    pub fn check_file(&self) {
        for (page, version) in &self.expected {
            assert_eq!(self.file.get(page), Some(version), "page {page} of the file");
        }
    }
}

fn cost((first, further): (u64, u64), run: Run) -> u64 {
    first + further * u64::from(run.count - 1)
}
