//! Ends of backlogs in a [`crate::Wait`] and in a [`crate::Pollable`].

use super::{BacklogReader, BacklogWriter};
use crate::connect::wait::Waitable;
use crate::error::Result;
use crate::park::WaitSource;
use rustix::fd::BorrowedFd;
use std::sync::atomic::AtomicU32;
use weir_ring::sleep;

macro_rules! waits {
    ($end:ident by $look:ident) => {
        impl Waitable for $end {
            fn source(&mut self) -> &mut dyn WaitSource {
                self
            }

            fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
                self.poll_descriptor()
            }
        }

        /// Its look announces the sleep whenever it finds nothing. An announcement that stays costs
        /// the other end one call into the kernel.
        impl WaitSource for $end {
            fn is_ready(&mut self, _: u64) -> Result<bool> {
                self.$look()
            }

            fn announce(&mut self, _: u64) -> Result<Option<u32>> {
                Ok((!self.$look()?).then_some(sleep::ASLEEP))
            }

            fn words<'w>(&'w self, _: u32, words: &mut Vec<(&'w AtomicU32, u32)>) {
                words.push(self.sleep().asleep());
            }
        }
    };
}

waits!(BacklogReader by finds_something);
// It waits for room of at least one byte, and is ready once the reader is gone.
waits!(BacklogWriter by finds_room);
