//! An io_uring for requests that do nothing: the cost of submitting calls in batches.

use std::io;

/// A ring for requests that do nothing.
pub struct Nops {
    ring: io_uring::IoUring,
}

impl std::fmt::Debug for Nops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Nops")
    }
}

impl Nops {
    /// Creates a ring with room for `entries` requests, a power of two.
    ///
    /// `ENOSYS` or `EPERM` if the kernel has none or does not allow it.
    pub fn new(entries: u32) -> io::Result<Nops> {
        Ok(Nops { ring: io_uring::IoUring::new(entries)? })
    }

    /// Submits `count` requests in one call and takes the answers.
    ///
    /// # Errors
    /// Those of io_uring_enter(2); `InvalidInput` for more than there is room for.
    pub fn submit(&mut self, count: u32) -> io::Result<()> {
        for _ in 0..count {
            let entry = io_uring::opcode::Nop::new().build();
            // SAFETY: a request that does nothing refers to no memory.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(|_| io::ErrorKind::InvalidInput)?;
        }
        self.ring.submit_and_wait(count as usize)?;
        let seen = self.ring.completion().count();
        if seen == count as usize { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_done_as_often_as_asked() {
        // A kernel or a container without rings is not an error of this code.
        let Ok(mut nops) = Nops::new(8) else { return };
        nops.submit(1).expect("one");
        nops.submit(8).expect("eight");
        assert!(nops.submit(9).is_err());
    }
}
