//! How an end moves to the next memory of its pipe, and to another process.

use super::End;
use super::drain::has_moved;
use crate::error::{Error, Result};
use crate::memory::Map;
use crate::pipe::claim::{Claim, ClaimedFile};
use crate::pipe::handle::{Handle, forked_meanwhile};
use crate::pipe::storage::{close_in, copy_account, not_next, open_next};
use std::sync::Arc;
use weir_policy::pipe::PipeShape;
use weir_ring::RingMemory;
use weir_ring::primitive::{Ordering, fence};

impl End {
    /// Moves to the memory that follows this one, which the writer has announced. `resume` makes
    /// the ring that continues there. If that fails, the end stays where it is.
    pub fn follow<R>(&mut self, resume: impl FnOnce(&Map) -> Result<R>) -> Result<R> {
        let followed = self.try_to_follow(resume);
        if followed.is_err() {
            // The message is taken that made the descriptor readable, and the next call may
            // succeed.
            self.acted();
        }
        followed
    }

    fn try_to_follow<R>(&mut self, resume: impl FnOnce(&Map) -> Result<R>) -> Result<R> {
        let failed = |cause| Error::os("read from", "the pipe", cause);
        let file = match self.arrived.take() {
            Some(file) => Some(file),
            None => self.life.take_next().map_err(failed)?,
        };
        let file = file.ok_or_else(|| match self.life.is_broken() {
            true => not_next("its new memory is not a file that can be sealed"),
            false => not_next("its new memory did not come"),
        })?;
        let open = || {
            let (map, shape) = open_next(&file, &self.map)?;
            let ring = resume(&map)?;
            let here = file.here().map_err(|cause| Error::os("open", "memory", cause))?;
            let taken = |_| not_next("its new memory is open in this process already");
            Ok((Claim::new(here, self.role).map_err(taken)?, map, shape, ring))
        };
        match open() {
            Ok((claim, map, shape, ring)) => {
                self.move_to(ClaimedFile::of(claim, file), map, shape);
                Ok(ring)
            }
            Err(error) => {
                // What is in it is not lost: it may be that only memory lacks, and only for now.
                self.arrived = Some(file);
                Err(error)
            }
        }
    }

    /// Publishes in the memory that follows this one, if there is one, that the reader has closed:
    /// its writer is there already.
    pub fn close_next(&mut self) {
        // Pairs with the fence in `Writer::move_to`: that sees that this end has closed, or this
        // sees that there is another memory.
        fence(Ordering::SeqCst);
        if has_moved(self.header()) {
            let next = self.arrived.take().or_else(|| self.life.take_next().ok().flatten());
            if let Some(next) = next {
                close_in(&next, &self.map);
            }
        }
    }

    /// Goes on in another memory.
    pub fn move_to(&mut self, file: ClaimedFile, map: Arc<Map>, shape: PipeShape) {
        self.file = Some(file);
        self.life.move_to(map.clone());
        let account = self.account();
        self.map = map;
        account.write(self.account_line());
        self.shape = shape;
        self.tuning.forget_seen();
        self.introduce();
    }

    /// Gives the end up and returns its two descriptors. If this memory `has_drained`, the next one
    /// is handed on where it has come already: its message is not in the socket any more.
    pub fn hand_on(&mut self, has_drained: bool) -> Result<Handle> {
        self.fences.give_back(self.role.sleep(self.map.header()));
        let next = self.arrived.take().filter(|next| has_drained && copy_account(next, &self.map));
        let memory = next.or_else(|| self.file.take().map(|own| own.file));
        let memory = memory.and_then(|mut file| file.take()).ok_or_else(forked_meanwhile)?;
        let socket = self.life.take_socket().ok_or_else(forked_meanwhile)?;
        self.handed_on = true;
        Ok(Handle::new(self.role, memory, socket))
    }
}
