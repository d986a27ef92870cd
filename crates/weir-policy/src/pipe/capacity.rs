//! The usual capacity of a pipe, which follows from the caches.
//!
//! The lines of a ring that fits the second level stay in the reader's own cache, where they were only
//! read. Those of a larger one are mostly in the third level when the writer comes back to them.

/// The sizes of a CPU's caches; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// The bytes of the second level, which a CPU has for itself.
    pub second_bytes: u64,
    /// The bytes of the third level, which CPUs share.
    pub third_bytes: u64,
}

const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 4 << 20;

impl Caches {
    /// Returns the usual capacity of a pipe: twice the second-level cache, within 1 to 4 MiB and a
    /// quarter of the third-level cache.
    pub fn capacity_bytes(&self) -> u64 {
        let third = if self.third_bytes == 0 { u64::MAX } else { self.third_bytes / 4 };
        let fits = |bytes: u64| if bytes == 0 { 0 } else { 1 << bytes.ilog2() };
        let capacity_bytes = (2 * self.second_bytes).next_power_of_two();
        capacity_bytes.min(fits(third)).clamp(LEAST_BYTES, MOST_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_lies_between_the_caches() {
        let capacity_mib = |second_mib: u64, third_mib: u64| {
            let caches = Caches { second_bytes: second_mib << 20, third_bytes: third_mib << 20 };
            caches.capacity_bytes() >> 20
        };
        assert_eq!(capacity_mib(1, 32), 2);
        assert_eq!(capacity_mib(0, 0), 1);
        assert_eq!(capacity_mib(4, 6), 1);
        assert_eq!(capacity_mib(8, 0), 4);
    }
}
