//! A child in limited memory that does what it is asked, a batch at a time.

use super::cage::Cage;
use crate::engine::case::{CaseError, Site};
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::peer::PeerProcess;
use rustix::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The most figures that a batch gives.
pub const FIGURES: usize = 3;

/// The child, as the measuring side sees it.
pub struct Caged {
    peer: PeerProcess,
    requests: OwnedFd,
    results: SharedPages,
    // Dropped after the child has ended.
    _cage: Rc<Cage>,
}

impl Caged {
    /// Starts the child in its cage, and waits until `make` has made what carries out the batches. That
    /// gets what is asked for, and returns its figures.
    pub fn start<W>(
        site: &Site,
        cage: &Rc<Cage>,
        make: impl FnOnce() -> Result<W, CaseError>,
    ) -> Result<Caged, CaseError>
    where
        W: FnMut(u8) -> Result<[u64; FIGURES], CaseError>,
    {
        let results = SharedPages::new(FIGURES * LINE_BYTES)?;
        let (asked, requests) = rustix::pipe::pipe()?;
        let mut peer = PeerProcess::start(site, |control| {
            cage.enter()?;
            let mut batch = make()?;
            control.report(1)?;
            let (mut done, mut which) = (1, [0]);
            while rustix::io::read(&asked, &mut which)? != 0 {
                for (line, figure) in batch(which[0])?.into_iter().enumerate() {
                    results.word(line).store(figure, Ordering::Release);
                }
                done += 1;
                control.report(done)?;
            }
            Ok(())
        })?;
        peer.more(1);
        peer.wait()?;
        Ok(Caged { peer, requests, results, _cage: Rc::clone(cage) })
    }

    /// Has the child begin a batch.
    pub fn begin(&mut self, which: u8) -> Result<(), CaseError> {
        self.peer.more(1);
        rustix::io::write(&self.requests, &[which])?;
        Ok(())
    }

    /// Waits for the end of the batch that was begun. Returns its figures.
    pub fn end(&mut self) -> Result<[u64; FIGURES], CaseError> {
        self.peer.wait()?;
        // Acquire pairs with the release of the child, which stored them before its report.
        Ok(std::array::from_fn(|line| self.results.word(line).load(Ordering::Acquire)))
    }
}
