//! What becomes of a stream when its ends go.

use super::blocks::{NONE, State};
use super::{Action, Pool};

impl Pool {
    /// The writer wants no frame, and an empty last block is given up.
    pub(super) fn withdraw(&mut self, stream: u32, empty: bool) {
        let at = &mut self.streams[stream as usize];
        if core::mem::take(&mut at.appending) {
            self.appending.retain(|waiting| *waiting != stream);
        }
        let (head, last) = (at.head, at.tail);
        if !empty || last == NONE || self.blocks[last].state != State::Open || at.holds(last) {
            return;
        }
        if head == last {
            return self.drop_head(stream);
        }
        // Blocks know only those behind them. This happens once in the life of a stream.
        let mut before = head;
        while self.blocks[before].next != last {
            before = self.blocks[before].next;
        }
        self.blocks[before].next = NONE;
        at.tail = before;
        at.count -= 1;
        at.counts.consumed += 1;
        self.counts.consumed += 1;
        self.free.push(self.blocks[last].frame);
        self.blocks.drop(last);
    }

    /// The reader has gone: only the last block is left, at most.
    pub(super) fn abandon(&mut self, stream: u32) {
        while self.streams[stream as usize].head != self.streams[stream as usize].tail {
            self.drop_head(stream);
        }
        let at = &mut self.streams[stream as usize];
        self.waiting_readers -= u32::from(core::mem::take(&mut at.wanting));
    }

    /// Both ends have gone, and all that was in the stream goes.
    pub(super) fn close(&mut self, stream: u32) {
        self.abandon(stream);
        if self.streams[stream as usize].head != NONE {
            self.drop_head(stream);
        }
        let at = &mut self.streams[stream as usize];
        at.open = false;
        at.appending = false;
        self.appending.retain(|waiting| *waiting != stream);
        self.actions.retain(|action| match action {
            Action::Grant { stream: of, .. }
            | Action::Show { stream: of, .. }
            | Action::Fail { stream: of, .. } => *of != stream,
            Action::Begin { .. } | Action::Trouble { .. } => true,
        });
    }
}
