//! Ends of pipes as sources of a [`crate::Wait`].

use super::connection::Role;
use super::end::WRITER_SLICE;
use super::endpoint::{Endpoint, Ring};
use crate::connect::wait::Waitable;
use crate::error::Result;
use crate::park::{Parked, Slept, WaitSource};
use rustix::fd::BorrowedFd;
use std::time::Duration;
use weir_ring::account::add;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;

impl<R: Ring + 'static> Waitable for Endpoint<R> {
    fn source(&mut self) -> &mut dyn WaitSource {
        self
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}

impl<R: Ring> WaitSource for Endpoint<R> {
    fn is_ready(&mut self, wanted: u64) -> Result<bool> {
        self.end.check_here()?;
        // Another memory alone is nothing to read. Why a reader cannot go over, its call says.
        let cannot = R::move_to_next_memory(self).is_err();
        Ok(cannot || Endpoint::is_ready(self, wanted)?)
    }

    fn announce(&mut self, wanted: u64) -> Result<Option<u32>> {
        let (end, ring) = self.parts()?;
        ring.want(end, wanted);
        let said = end.announce(sleep::ASLEEP);
        // `is_ready` below sees if the other end is gone.
        end.life.inbox().falls_asleep();
        let is_ready = ring.is_ready(end, wanted);
        if !matches!(is_ready, Ok(false)) {
            self.retract();
        }
        Ok((!is_ready?).then_some(said))
    }

    fn retract(&mut self) {
        // A forked child has not announced anything.
        if self.end.check_here().is_ok() {
            Parked::retract(self.end.sleep_word(), self.end.life.inbox());
        }
    }

    fn words<'w>(&'w self, said: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
        words.push((self.end.sleep_word(), said));
    }

    fn count_wait(&self) {
        add(&self.end.account_line().waiting.waits, 1);
    }

    fn after_sleep(&mut self, slept: Slept) -> Result<()> {
        self.end.account_line().waiting.count_sleep(slept.ns, slept.woken);
        Ok(())
    }

    fn most_sleep(&self) -> Option<Duration> {
        // As a writer that sleeps alone, it looks for room of less than a segment now and then.
        (R::ROLE == Role::Writer).then_some(WRITER_SLICE)
    }
}
