//! One turn of a channel. What came on it becomes records, or goes to the channel that it is connected
//! to.

use super::backlog::{FrameBacklog, KeptFrame};
use super::channels::{ChannelEntry, ChannelState};
use super::home::ParticipantHome;
use super::link_end::NONE;
use super::record::{ChannelId, LABEL_BYTES, Record, RecordKind};
use super::table::ChannelTable;
use crate::memory::LinkMap;
use std::ops::ControlFlow;
use weir::Ending;
use weir_policy::ready::WorkBudget;
use weir_ring::account::add;
use weir_ring::lane::{FrameKind, LaneFrame, LinkSide, POLLING, start_polling};
use weir_sys::forks;

mod descriptors;
mod kept;

/// The destination of the records of one call.
pub struct RecordDelivery<'a> {
    pub buffer: &'a mut [u8],
    pub each: &'a mut dyn FnMut(Record<'_>),
    /// The channels of joined mpx on the way here.
    pub path: Vec<ChannelId>,
    pub records: usize,
    /// Bytes in records, or moved between connected channels.
    pub bytes: usize,
    /// All work of the call, with or without records.
    pub work: WorkBudget,
    /// The process that the call is made in, as [`forks::epoch`] counts them.
    epoch: u32,
}

/// A call ends after this many records, even if there are more.
const MOST_RECORDS: usize = 1024;
/// A call ends after this many bytes, even if there are more.
const MOST_BYTES: usize = 256 << 10;

impl<'a> RecordDelivery<'a> {
    pub fn new(buffer: &'a mut [u8], each: &'a mut dyn FnMut(Record<'_>)) -> RecordDelivery<'a> {
        let (path, work) = (Vec::new(), WorkBudget::default());
        RecordDelivery { buffer, each, path, records: 0, bytes: 0, work, epoch: forks::epoch() }
    }

    /// Whether what was called for a record has forked, and this is the child: it has no links.
    #[inline]
    pub fn has_forked(&self) -> bool {
        self.epoch != forks::epoch()
    }

    /// Whether the call has done its part.
    pub fn is_full(&self) -> bool {
        self.records >= MOST_RECORDS || self.bytes >= MOST_BYTES || self.work.is_over()
    }

    /// Shows a record with `count` bytes of the buffer.
    fn record(&mut self, channel: ChannelId, kind: RecordKind, more: bool, count: usize) {
        self.records += 1;
        self.bytes += count;
        let bytes = &self.buffer[..count];
        (self.each)(Record { channel, path: &self.path, kind, more, bytes });
    }
}

/// The outcome of a look at the next frame.
enum FrameStep {
    /// The frame, of this many bytes, was dealt with.
    Done(usize),
    /// There is no frame.
    Dry,
    /// The channel is not looked at for now.
    Held,
    /// The channel has no entry any more.
    Gone,
    /// This is a child that was forked meanwhile. It leaves everything as it is.
    Forked,
}

/// Data that has come in one turn. Dropping it counts it, also if what was called panics.
struct DataCame<'a> {
    home: &'a ParticipantHome,
    map: &'a LinkMap,
    records: u32,
    bytes: usize,
}

impl Drop for DataCame<'_> {
    fn drop(&mut self) {
        // In a forked child it is the parent's.
        if self.map.is_here() {
            let account = self.home.account();
            add(&account.records_in, self.records.into());
            add(&account.bytes_in, self.bytes as u64);
        }
    }
}

/// The link that must be shut out because its memory is corrupt.
type CorruptLink = u32;

struct ChannelTurn<'a, 'd> {
    table: &'a mut ChannelTable,
    delivery: &'a mut RecordDelivery<'d>,
    index: u32,
    id: ChannelId,
    /// The channel's link, and its number there.
    at: u32,
    number: u32,
    /// The frame that was looked at, if it is in the backlog and not in the lane.
    kept: Option<KeptFrame>,
}

pub fn serve(table: &mut ChannelTable, index: u32, delivery: &mut RecordDelivery) {
    let (id, ChannelEntry { link: at, number, .. }) =
        (table.channels.id(index), table.channels[index]);
    let mut turn = ChannelTurn { table, delivery, index, id, at, number, kept: None };
    if let Err(link) = turn.run() {
        table.shut_out(link);
        // The link may be that of the channel it is connected to.
        table.wake(index);
    }
}

/// Whether a turn of a channel would do nothing. If so, the caller takes it out of the queue.
pub fn is_idle(table: &mut ChannelTable, index: u32) -> bool {
    let ChannelEntry { link: at, number, state, blocked, report_blocked, .. } =
        table.channels[index];
    let Some(link) = table.link(at) else { return true };
    let has_room = blocked && !matches!(link.has_room_again(number), Ok(false));
    if has_room || report_blocked || link.ending == Some(Ending::ShutOut) {
        return false;
    }
    let is_alive = link.ending.is_none();
    if is_alive && descriptors::has_work(table, index) {
        return false;
    }
    if let Some(has_kept) = kept::has_kept(table, index) {
        return !has_kept;
    }
    state == ChannelState::Asked || is_alive && table.cool(at, number)
}

impl ChannelTurn<'_, '_> {
    fn channel(&mut self) -> &mut ChannelEntry {
        &mut self.table.channels[self.index]
    }

    fn run(&mut self) -> Result<(), CorruptLink> {
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        if let Some(lanes) = link.lanes(self.number) {
            lanes.is_held = false;
        }
        if link.ending == Some(Ending::ShutOut) {
            self.end_channel(Ending::ShutOut);
            return Ok(());
        }
        self.report_blocked()?;
        let has_more = !self.delivery.has_forked() && self.descriptors()?;
        self.channel().turn.begin(1);
        let (ended, came) = self.frames()?;
        if matches!(ended, Some(FrameStep::Forked)) {
            return Ok(());
        }
        if has_more {
            self.table.wake(self.index);
        }
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        match ended {
            Some(FrameStep::Gone) => return Ok(()),
            _ => link.give_back(self.number),
        }
        match ended {
            None => self.table.wake(self.index),
            Some(FrameStep::Dry) => self.run_dry(came),
            Some(_) => {
                if let Some(lanes) = link.lanes(self.number) {
                    lanes.is_held = true;
                }
            }
        }
        Ok(())
    }

    /// Takes frames for as long as the turn lasts. Returns what ended it early, if anything did, and
    /// whether anything had come.
    fn frames(&mut self) -> Result<(Option<FrameStep>, bool), CorruptLink> {
        let mut came = false;
        loop {
            if self.delivery.has_forked() {
                return Ok((Some(FrameStep::Forked), came));
            }
            if !self.channel().turn.continues() {
                return Ok((None, came));
            }
            self.delivery.work.does(1);
            match self.step()? {
                FrameStep::Done(bytes) => {
                    came = true;
                    self.channel().turn.serve(bytes as u64);
                }
                step => return Ok((Some(step), came)),
            }
        }
    }

    /// Shows the frames of data that follow each other in this turn.
    fn data(&mut self) -> Result<FrameStep, CorruptLink> {
        let ChannelTable { links, channels, home, hot, .. } = &mut *self.table;
        let turn = &mut channels[self.index].turn;
        let Some(Some(link)) = links.get_mut(self.at as usize) else { return Ok(FrameStep::Held) };
        let (reader, map, lane) = link.reading(self.number);
        let (id, path) = (self.id, &self.delivery.path[..]);
        let RecordDelivery { buffer, each, work, records: shown, bytes: moved, .. } = self.delivery;
        let mut came = DataCame { home, map, records: 0, bytes: 0 };
        let found = reader.take_data(map, lane, buffer, |taken, data| {
            work.does(1);
            came.records += u32::from(taken.is_rest);
            came.bytes += data.len();
            *shown += 1;
            let (kind, more) = (RecordKind::Data, taken.more);
            each(Record { channel: id, path, kind, more, bytes: data });
            // What was called may have forked: the child has no link.
            turn.serve(data.len() as u64) && map.is_here()
        });
        *moved += came.bytes;
        if !map.is_here() {
            return Ok(FrameStep::Forked);
        }
        let records = came.records;
        drop(came);
        hot.moved(links, records);
        found.map(|()| FrameStep::Done(0)).map_err(|_| self.at)
    }

    /// Counts records that have come.
    fn came(&mut self, records: u32, bytes: usize) {
        let account = self.table.home.account();
        add(&account.records_in, records.into());
        add(&account.bytes_in, bytes as u64);
        self.table.hot.moved(&self.table.links, records);
    }

    /// Ends the turn of a channel on which nothing more has come.
    fn run_dry(&mut self, came: bool) {
        let ChannelTable { links, channels, hot, .. } = &mut *self.table;
        channels[self.index].turn.end();
        let Some(Some(link)) = links.get_mut(self.at as usize) else { return };
        if let Some(ending) = link.ending {
            self.end_channel(ending);
            return;
        }
        let is_hot = link.lanes(self.number).is_some_and(|lanes| lanes.is_hot);
        if is_hot || came && hot.keep(link, self.at, self.number) {
            return;
        }
        if !self.table.cool(self.at, self.number) {
            if let Some(link) = self.table.link(self.at) {
                start_polling(link.attention(self.number), POLLING);
            }
            self.table.wake(self.index);
        }
    }

    /// Reports that a send was not taken whole, or that there is room again.
    fn report_blocked(&mut self) -> Result<(), CorruptLink> {
        let channel = self.channel();
        if !channel.blocked {
            return Ok(());
        }
        let partner = channel.partner;
        if std::mem::take(&mut channel.report_blocked) {
            channel.knows_blocked = true;
            self.delivery.record(self.id, RecordKind::Blocked, false, 0);
            if self.delivery.has_forked() {
                return Ok(());
            }
        }
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        if link.ending.is_none() && !link.has_room_again(self.number).map_err(|_| self.at)? {
            return Ok(());
        }
        let channel = self.channel();
        channel.blocked = false;
        let knows_blocked = std::mem::take(&mut channel.knows_blocked);
        if partner != NONE && self.table.is_fed(self.index) {
            self.table.wake(partner);
        }
        if knows_blocked {
            self.delivery.record(self.id, RecordKind::Unblocked, false, 0);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<FrameStep, CorruptLink> {
        let ChannelEntry { state, partner, forwards, has_output, .. } = *self.channel();
        if matches!(state, ChannelState::Asked | ChannelState::Free | ChannelState::Joined) {
            return Ok(FrameStep::Held);
        }
        let frame = match self.next_frame()? {
            ControlFlow::Continue(frame) => frame,
            ControlFlow::Break(step) => return Ok(step),
        };
        match (state, frame.kind) {
            (ChannelState::Open, kind) if kind.is_record() && forwards => {
                self.forward(partner, frame)
            }
            (ChannelState::Open, FrameKind::Data | FrameKind::End) if has_output => {
                self.write_out(frame)
            }
            (ChannelState::Open, FrameKind::Data) if self.kept.is_some() => Ok(self.kept_data()),
            (ChannelState::Open, FrameKind::Data) => self.data(),
            (ChannelState::Open, FrameKind::End) if frame.left == 0 => {
                self.skip();
                self.came(1, 0);
                Ok(self.shown(RecordKind::End, 0))
            }
            (ChannelState::Open, FrameKind::Signal) if frame.left == 4 => {
                let mut number = [0; 4];
                self.take(&mut number);
                self.came(1, 0);
                Ok(self.shown(RecordKind::Signal(u32::from_le_bytes(number)), 0))
            }
            (ChannelState::Closing, FrameKind::Close) => Ok(self.ends()),
            (ChannelState::Closing, FrameKind::Refuse) if self.is_peer() => Ok(self.ends()),
            (ChannelState::Closing, _) => {
                self.skip();
                Ok(FrameStep::Done(frame.left))
            }
            (ChannelState::Open, FrameKind::Close) => {
                self.skip();
                self.end_channel(Ending::Closed);
                Ok(FrameStep::Gone)
            }
            _ => self.begin(state, frame),
        }
    }

    /// Takes the frames that open, accept or refuse a channel. Any other is invalid here.
    fn begin(&mut self, state: ChannelState, frame: LaneFrame) -> Result<FrameStep, CorruptLink> {
        let is_short = frame.left <= LABEL_BYTES;
        match (state, frame.kind) {
            (ChannelState::Fresh, FrameKind::Open) if is_short => {
                let count = self.take_to_buffer(LABEL_BYTES);
                self.channel().state = ChannelState::Asked;
                Ok(self.shown(RecordKind::Open, count))
            }
            (ChannelState::Opening, FrameKind::Accept) if frame.left == 0 => {
                self.skip();
                self.channel().state = ChannelState::Open;
                Ok(self.shown(RecordKind::Accepted, 0))
            }
            (ChannelState::Opening, FrameKind::Refuse) if is_short => {
                let count = self.take_to_buffer(LABEL_BYTES);
                self.table.finish(self.index, FrameKind::Close, &[]);
                self.table.leave(self.index);
                self.shown(RecordKind::Refused, count);
                Ok(FrameStep::Gone)
            }
            _ => Err(self.at),
        }
    }

    fn is_peer(&self) -> bool {
        self.table.home.side() == LinkSide::Peer
    }

    fn shown(&mut self, kind: RecordKind, count: usize) -> FrameStep {
        self.delivery.record(self.id, kind, false, count);
        FrameStep::Done(count)
    }

    /// Takes the last frame of a channel that this side has closed.
    fn ends(&mut self) -> FrameStep {
        self.skip();
        self.table.leave(self.index);
        FrameStep::Gone
    }

    /// Takes as much of the current frame as fits.
    fn take(&mut self, to: &mut [u8]) -> usize {
        let count = self.peek(to);
        self.pass(count);
        count
    }

    /// Copies as much of the current frame as fits, and takes none of it.
    fn peek(&mut self, to: &mut [u8]) -> usize {
        if self.kept.is_some() {
            return self.backlog().map_or(0, |backlog| backlog.peek(to));
        }
        let Some(link) = self.table.link(self.at) else { return 0 };
        let (reader, map, _) = link.reading(self.number);
        reader.peek(map, to)
    }

    /// Takes bytes of the current frame. The last bytes end it.
    fn pass(&mut self, count: usize) {
        if self.kept.is_some() {
            if let Some(backlog) = self.backlog() {
                backlog.pass(count);
            }
        } else if let Some(link) = self.table.link(self.at) {
            link.reading(self.number).0.pass(count);
        }
    }

    fn take_to_buffer(&mut self, most: usize) -> usize {
        let buffer = std::mem::take(&mut self.delivery.buffer);
        let count = self.take(&mut buffer[..most]);
        self.delivery.buffer = buffer;
        count
    }

    fn skip(&mut self) {
        self.pass(usize::MAX);
    }

    /// Moves a frame, or as much as there is room for, to the channel that this one is connected to.
    fn forward(&mut self, partner: u32, frame: LaneFrame) -> Result<FrameStep, CorruptLink> {
        let ChannelEntry { link: to, number, .. } = self.table.channels[partner];
        let is_data = frame.kind == FrameKind::Data;
        if !FrameBacklog::keeps(&frame) {
            return Err(self.at);
        }
        let wanted = frame.left.min(self.delivery.buffer.len());
        let Some(link) = self.table.link(to) else { return Ok(FrameStep::Held) };
        if link.ending.is_some() {
            // The end of that channel will be reported, and then this one is looked at again.
            return Ok(FrameStep::Held);
        }
        let Some(count) = self.room_on(partner, wanted, is_data)? else {
            return Ok(FrameStep::Held);
        };
        let count = self.take_to_buffer(count);
        let is_rest = count == frame.left;
        if let Some(link) = self.table.link(to) {
            let more = is_data && (frame.more || !is_rest);
            link.put(number, frame.kind, more, &self.delivery.buffer[..count]);
        }
        self.came((is_rest && !self.is_cut()).into(), if is_data { count } else { 0 });
        self.delivery.bytes += count.max(1);
        Ok(FrameStep::Done(count))
    }

    /// Room on a channel for a frame of this many bytes, or for a part of it. If there is none, the
    /// channel is looked at again once there is some.
    fn room_on(
        &mut self,
        index: u32,
        wanted: usize,
        in_parts: bool,
    ) -> Result<Option<usize>, CorruptLink> {
        let ChannelEntry { link: to, number, .. } = self.table.channels[index];
        let Some(link) = self.table.link(to) else { return Ok(None) };
        let mut room = link.room_for(number, wanted).map_err(|_| to)?;
        let is_enough = |room: Option<usize>| room.is_some_and(|room| in_parts || room == wanted);
        if !is_enough(room) && link.want_room(number).map_err(|_| to)? {
            room = link.room_for(number, wanted).map_err(|_| to)?;
            self.table.clear_room_request(index);
        }
        let room = room.filter(|_| is_enough(room));
        self.table.channels[index].blocked |= room.is_none();
        Ok(room)
    }

    /// Handles a channel that the other side has ended. Reports it once, if the channel was ever
    /// shown, and answers the other side's last frame with this side's.
    fn end_channel(&mut self, ending: Ending) {
        let state = self.channel().state;
        let last = match (state, &self.table.refusal) {
            // The user must still answer the open, unless the peer was shut out.
            (ChannelState::Asked, _) if ending != Ending::ShutOut => return,
            (ChannelState::Opening, Some(why)) => {
                let count = why.len().min(LABEL_BYTES);
                self.delivery.buffer[..count].copy_from_slice(&why.as_bytes()[..count]);
                Some((RecordKind::Refused, count))
            }
            (ChannelState::Open | ChannelState::Opening | ChannelState::Asked, _) => {
                Some((RecordKind::Close(ending), 0))
            }
            _ => None,
        };
        if state == ChannelState::Open && ending == Ending::Closed {
            self.table.finish(self.index, FrameKind::Close, &[]);
        }
        // Before the caller sees it, who may panic or fork.
        self.table.leave(self.index);
        if let Some((kind, count)) = last {
            self.shown(kind, count);
        }
    }
}
