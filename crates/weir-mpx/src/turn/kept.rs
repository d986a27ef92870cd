//! What a turn of a channel does with its backlog, whose frames come before those of the lane.

use super::{ChannelTurn, CorruptLink, FrameStep};
use crate::backlog::{FrameBacklog, Kept, KeptFrame};
use crate::channels::ChannelState;
use crate::record::RecordKind;
use crate::table::ChannelTable;
use std::ops::ControlFlow;
use weir_ring::lane::{FrameKind, LaneFrame};

/// Whether the backlog of a channel has something to show now; `None` if it has no backlog.
pub fn has_kept(table: &mut ChannelTable, index: u32) -> Option<bool> {
    if !table.channels[index].accumulates {
        return None;
    }
    match table.overflows.as_mut()?.next_frame(index, &table.home) {
        Ok(Kept::Nothing) => None,
        Ok(Kept::Waiting) => Some(false),
        // A call that receives reports what cannot be read back.
        Ok(Kept::Frame(_)) | Err(_) => Some(true),
    }
}

impl ChannelTurn<'_, '_> {
    pub(super) fn backlog(&mut self) -> Option<&mut FrameBacklog> {
        self.table.overflows.as_mut()?.backlog(self.index)
    }

    /// The next frame, of the backlog or of the lane; a break if there is none.
    pub(super) fn next_frame(&mut self) -> Result<ControlFlow<FrameStep, LaneFrame>, CorruptLink> {
        self.kept = None;
        if self.channel().accumulates && self.channel().state == ChannelState::Open {
            match self.peek_backlog() {
                Some(Ok(frame)) => {
                    let KeptFrame { kind, more, is_cut, left } = *self.kept.insert(frame);
                    let frame = LaneFrame { kind, more: more || is_cut, left };
                    return Ok(ControlFlow::Continue(frame));
                }
                Some(Err(step)) => return Ok(ControlFlow::Break(step)),
                None => {}
            }
        }
        let Some(link) = self.table.link(self.at) else {
            return Ok(ControlFlow::Break(FrameStep::Held));
        };
        let (reader, map, lane) = link.reading(self.number);
        let frame = reader.next_frame(map, lane).map_err(|_| self.at)?;
        Ok(frame.map_or(ControlFlow::Break(FrameStep::Dry), ControlFlow::Continue))
    }

    /// Whether the frame that was looked at is a part, whose rest follows.
    pub(super) fn is_cut(&self) -> bool {
        self.kept.is_some_and(|frame| frame.is_cut)
    }

    /// The first frame of the backlog, or why it cannot be shown; `None` if there is no backlog.
    fn peek_backlog(&mut self) -> Option<Result<KeptFrame, FrameStep>> {
        let table = &mut *self.table;
        match table.overflows.as_mut()?.next_frame(self.index, &table.home) {
            Ok(Kept::Frame(frame)) => Some(Ok(frame)),
            Ok(Kept::Nothing) => None,
            Ok(Kept::Waiting) => Some(Err(FrameStep::Held)),
            Err(fault) => {
                table.faults.push((self.index, fault));
                Some(Err(FrameStep::Held))
            }
        }
    }

    /// Shows a record of the backlog. Its parts are put together as far as they are there.
    pub(super) fn kept_data(&mut self) -> FrameStep {
        let (mut count, mut more) = (0, true);
        let buffer = std::mem::take(&mut self.delivery.buffer);
        while let Some(Ok(frame)) = self.peek_backlog() {
            if frame.kind != FrameKind::Data {
                break;
            }
            self.delivery.work.does(1);
            let taken = self.take(&mut buffer[count..]);
            count += taken;
            let is_whole = taken == frame.left;
            more = frame.more || frame.is_cut || !is_whole;
            if !is_whole || !frame.is_cut || count == buffer.len() {
                self.came((is_whole && !frame.is_cut).into(), 0);
                break;
            }
        }
        self.delivery.buffer = buffer;
        self.came(0, count);
        self.delivery.record(self.id, RecordKind::Data, more, count);
        FrameStep::Done(count)
    }
}
