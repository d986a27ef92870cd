//! Holds the far side still until its case is run and between its batches: what polls would
//! otherwise take the CPU from the other cases of the group.

use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use weir_bench::tools::peer::{Control, PeerProcess};
use weir_measure::bench::case::CaseError;

/// Made before the fork; the far side borrows it, the near side keeps its own half.
pub struct Gate {
    go: OwnedFd,
    say_ready: OwnedFd,
    /// What the far side has been let through to.
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
    /// A closed one.
    pub fn new() -> Result<Gate, CaseError> {
        let ((go, say_go), (ready, say_ready)) = (rustix::pipe::pipe()?, rustix::pipe::pipe()?);
        let near = Near { say_go, ready, begun: false };
        Ok(Gate { go, say_ready, until: Cell::new(0), near })
    }

    /// After the fork: without the far side's ends, so that its death is seen.
    pub fn near(self) -> Near {
        self.near
    }

    /// The far side: waits until it is to open its ends.
    pub fn await_beginning(&self) -> Result<(), CaseError> {
        if take(&self.go)? { Ok(()) } else { Err(CaseError::failed("never begun")) }
    }

    /// The far side: waits while all that was asked for is done.
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
    /// Has the far side open its ends; does nothing the second time.
    pub fn begin(&mut self) -> Result<(), CaseError> {
        if !self.begun {
            rustix::io::write(&self.say_go, b".")?;
            self.begun = true;
        }
        Ok(())
    }

    /// Asks for so many more; returns when the far side is about to receive.
    pub fn open(&self, peer: &mut PeerProcess, count: u64) -> Result<(), CaseError> {
        peer.more(count);
        rustix::io::write(&self.say_go, b".")?;
        if take(&self.ready)? { Ok(()) } else { peer.wait() }
    }
}

/// Takes a byte; false at the end.
fn take(from: &OwnedFd) -> Result<bool, CaseError> {
    loop {
        match rustix::io::read(from, &mut [0]) {
            Err(Errno::INTR) => {}
            Ok(count) => return Ok(count == 1),
            Err(error) => return Err(error.into()),
        }
    }
}
