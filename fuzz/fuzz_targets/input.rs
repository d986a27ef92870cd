//! The fuzzer's bytes as steps and numbers.

/// What is left of an input. An end of it gives zeros.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte, as long as there is one.
    pub fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number of one to eight bytes, so that small ones are near.
    pub fn number(&mut self) -> u64 {
        let bytes = usize::from(self.step().unwrap_or(0) % 8) + 1;
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.step().unwrap_or(0)))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }
}

/// Bytes that tell their order.
pub fn pattern(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|at| (((at + seed) * 167) >> 3) as u8).collect()
}
