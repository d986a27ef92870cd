//! This process's mappings of memory files, read and written as a hostile process could its own.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// A part of this process's memory that a memory file is mapped to.
#[derive(Debug)]
pub struct Mapped {
    from: u64,
    pub bytes: u64,
    memory: File,
}

impl Mapped {
    /// Writes bytes from `at` on.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, self.from + at).expect("written");
    }

    /// Writes the word at `at`.
    pub fn write_word(&self, at: u64, word: u64) {
        self.write(at, &word.to_ne_bytes());
    }

    /// The word at `at`.
    pub fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, self.from + at).expect("read");
        u64::from_ne_bytes(bytes)
    }
}

/// Mappings of files of this name.
pub fn mapped(name: &str) -> Vec<Mapped> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("there");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    let memory = || File::options().read(true).write(true).open("/proc/self/mem").expect("mine");
    let lines = maps.lines().filter(|line| line.contains(name));
    lines
        .map(|line| {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let (from, to) = range.expect("a range");
            let (from, bytes) = (number(from), number(to) - number(from));
            Mapped { from, bytes, memory: memory() }
        })
        .collect()
}

/// What `make` gives, and the mapping of this name that it made.
pub fn mapped_by<T>(name: &str, make: impl FnOnce() -> T) -> (T, Mapped) {
    let before: Vec<u64> = mapped(name).iter().map(|map| map.from).collect();
    let made = make();
    let mut now = mapped(name);
    now.retain(|map| !before.contains(&map.from));
    (made, now.remove(0))
}
