//! Ends of pipes among the things a [`crate::Wait`] waits for.

use super::connection::Role;
use super::end::WRITER_SLICE;
use super::endpoint::{Endpoint, Ring};
use crate::connect::wait::Waitable;
use crate::error::Result;
use crate::park::{Parked, Source};
use std::time::Duration;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;

impl<R: Ring + 'static> Waitable for Endpoint<R> {
    fn source(&mut self) -> &mut dyn Source {
        self
    }
}

impl<R: Ring> Source for Endpoint<R> {
    fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        Endpoint::is_ready(self, wanted)
    }

    fn announce(&mut self, wanted: u64) -> Result<Option<u32>> {
        let (end, ring) = self.parts()?;
        ring.want(end, wanted);
        let said = end.announce(sleep::ASLEEP);
        // That the other is gone is seen by the look that follows.
        end.life.inbox().falls_asleep();
        let is_ready = ring.is_ready(end, wanted);
        if !matches!(is_ready, Ok(false)) {
            self.retract();
        }
        Ok((!is_ready?).then_some(said))
    }

    fn retract(&mut self) {
        // One that is not this process's did not sleep either.
        if self.end.check_here().is_ok() {
            Parked::retract(self.end.sleep_word(), self.end.life.inbox());
        }
    }

    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((self.end.sleep_word(), said));
    }

    fn most_sleep(&self) -> Option<Duration> {
        // Room of less than a segment is looked for, as an end does that sleeps alone.
        (R::ROLE == Role::Writer).then_some(WRITER_SLICE)
    }
}
