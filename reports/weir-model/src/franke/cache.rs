//! The first caches of the CPUs, kilobyte by kilobyte: what a copy finds there.
//!
//! Each CPU keeps what it touched last. A line that another CPU has written comes from there, over
//! the bus; all others come from the second cache, which holds everything here.

/// Bytes that are looked at as one.
const GRAIN: u64 = 1024;

/// Most kilobytes of a piece of memory.
const MOST_GRAINS: u64 = 64;

/// A kilobyte of a piece of memory: the number of the piece times 64, and the kilobyte in it.
type Grain = u32;

/// The CPU of what was not written, or read since by another one.
const NOBODY: u8 = u8::MAX;

/// What the bytes of a copy cost more than bytes in the first cache.
#[derive(Clone, Copy)]
pub(super) struct Misses {
    /// Out of the second cache.
    pub(super) cold_byte_ns: f64,
    /// Out of the cache of another CPU.
    pub(super) remote_byte_ns: f64,
}

/// The caches of all CPUs.
pub(super) struct Caches {
    misses: Misses,
    grains: usize,
    /// What each CPU has, the last touched last.
    held: Vec<Vec<Grain>>,
    /// What a CPU has written, and no other has read since.
    written: Vec<u8>,
}

impl Caches {
    /// Makes empty caches of so many bytes.
    pub(super) fn new(cpus: usize, bytes: u64, misses: Misses) -> Caches {
        let grains = (bytes / GRAIN) as usize;
        Caches { misses, grains, held: vec![Vec::new(); cpus], written: Vec::new() }
    }

    /// Copies bytes. Each side is a piece of memory and where in it the copy begins. Returns what
    /// the misses cost.
    pub(super) fn copy(&mut self, cpu: usize, from: (u64, u64), to: (u64, u64), bytes: u64) -> f64 {
        let mut cost = 0.0;
        let mut done = 0;
        while done < bytes {
            let at = |(of, begun): (u64, u64)| (of * MOST_GRAINS + (begun + done) / GRAIN) as Grain;
            let left = |(_, begun): (u64, u64)| GRAIN - (begun + done) % GRAIN;
            let part = left(from).min(left(to)).min(bytes - done);
            cost += self.touch(cpu, at(from), false) * part as f64;
            cost += self.touch(cpu, at(to), true) * part as f64;
            done += part;
        }
        cost
    }

    /// Touches a kilobyte. Returns what each of its bytes costs more.
    fn touch(&mut self, cpu: usize, grain: Grain, writes: bool) -> f64 {
        let held = &mut self.held[cpu];
        let found = held.iter().rposition(|known| *known == grain);
        if let Some(at) = found {
            held.remove(at);
        } else if held.len() == self.grains {
            held.remove(0);
        }
        held.push(grain);
        if self.written.len() <= grain as usize {
            self.written.resize(grain as usize + 1, NOBODY);
        }
        let writer = &mut self.written[grain as usize];
        let is_remote = *writer != NOBODY && *writer != cpu as u8;
        if writes {
            *writer = cpu as u8;
            for (other, held) in self.held.iter_mut().enumerate() {
                if other != cpu {
                    held.retain(|known| *known != grain);
                }
            }
        } else if is_remote {
            *writer = NOBODY;
        }
        match (is_remote, found) {
            (true, _) => self.misses.remote_byte_ns,
            (false, None) => self.misses.cold_byte_ns,
            (false, Some(_)) => 0.0,
        }
    }
}
