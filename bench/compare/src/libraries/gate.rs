//! Holds the far side still until its case runs, and between its batches. Otherwise its polling
//! would take the CPU from the other cases of the group.

use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use weir_bench::tools::peer::{Control, PeerProcess};
use weir_bench::engine::case::CaseError;

/// A gate, made before the fork. The far side borrows it; the near side keeps its own half.
pub struct Gate {
    go: OwnedFd,
    say_ready: OwnedFd,
    /// The number of operations up to which the far side may go.
    until: Cell<u64>,
    near: Near,
}

/// The near side's half.
pub struct Near {
    say_go: OwnedFd,
    ready: OwnedFd,
    begun: bool,
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Result<Gate, CaseError> {
        let ((go, say_go), (ready, say_ready)) = (rustix::pipe::pipe()?, rustix::pipe::pipe()?);
        let near = Near { say_go, ready, begun: false };
        Ok(Gate { go, say_ready, until: Cell::new(0), near })
    }

    /// Drops the far side's ends after the fork, so that the far side's death is seen.
    pub fn near(self) -> Near {
        self.near
    }

    /// Waits, on the far side, until it should open its ends.
    pub fn await_beginning(&self) -> Result<(), CaseError> {
        if take(&self.go)? { Ok(()) } else { Err(CaseError::failed("the case was never begun")) }
    }

    /// Waits, on the far side, while all that was asked for is done.
    pub fn pass(&self, control: &Control, done: u64) -> Result<(), CaseError> {
        if done < self.until.get() {
            return Ok(());
        }
        take(&self.go)?;
        self.until.set(control.goal());
        rustix::io::write(&self.say_ready, b".")?;
        Ok(())
    }
}

impl Near {
    /// Lets the far side open its ends; later calls do nothing.
    pub fn begin(&mut self) -> Result<(), CaseError> {
        if !self.begun {
            rustix::io::write(&self.say_go, b".")?;
            self.begun = true;
        }
        Ok(())
    }

    /// Asks for `count` more operations. Returns when the far side is about to receive.
    pub fn open(&self, peer: &mut PeerProcess, count: u64) -> Result<(), CaseError> {
        peer.more(count);
        rustix::io::write(&self.say_go, b".")?;
        if take(&self.ready)? { Ok(()) } else { peer.wait() }
    }
}

/// Reads a byte. Returns false at the end.
fn take(from: &OwnedFd) -> Result<bool, CaseError> {
    loop {
        match rustix::io::read(from, &mut [0]) {
            Err(Errno::INTR) => {}
            Ok(count) => return Ok(count == 1),
            Err(error) => return Err(error.into()),
        }
    }
}
