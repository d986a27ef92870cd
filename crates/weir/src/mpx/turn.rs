//! One turn of a channel: what came of it becomes records, or goes to the channel it is connected
//! to.

use super::link_end::{NONE, is_record};
use super::record::{ChannelId, Kind, LABEL_BYTES, Record};
use super::table::{Channel, ChannelTable, State};
use crate::connect::peer::Ending;
use weir_policy::ready::WorkBudget;
use weir_ring::account::add;
use weir_ring::lane::{FrameKind, LOOKING, LaneFrame, LinkSide, look_at};

/// Where the records of one call go.
pub struct Delivery<'a> {
    pub buffer: &'a mut [u8],
    pub each: &'a mut dyn FnMut(Record<'_>),
    /// The channels by which the reader of them got here.
    pub path: Vec<ChannelId>,
    pub records: usize,
    /// Bytes in records, or moved.
    pub bytes: usize,
    /// What was done, be it shown or not.
    pub work: WorkBudget,
}

impl Delivery<'_> {
    /// Shows a record with so many bytes of the buffer.
    fn record(&mut self, channel: ChannelId, kind: Kind, more: bool, count: usize) {
        self.records += 1;
        self.bytes += count;
        let bytes = &self.buffer[..count];
        (self.each)(Record { channel, path: &self.path, kind, more, bytes });
    }
}

/// What came of one frame.
enum Step {
    /// It was dealt with, so many bytes.
    Done(usize),
    /// There is none.
    Dry,
    /// It is not to be looked at for now.
    Held,
    /// The channel has no entry any more.
    Gone,
}

/// The link to be shut out.
type Nonsense = u32;

/// One turn.
struct ChannelTurn<'a, 'd> {
    table: &'a mut ChannelTable,
    delivery: &'a mut Delivery<'d>,
    index: u32,
    id: ChannelId,
    /// The channel's link, and its number there.
    at: u32,
    number: u32,
}

/// Serves a channel for one turn.
pub fn serve(table: &mut ChannelTable, index: u32, delivery: &mut Delivery) {
    let (id, Channel { link: at, number, .. }) = (table.id(index), table.channels[index as usize]);
    let mut turn = ChannelTurn { table, delivery, index, id, at, number };
    if let Err(link) = turn.run() {
        table.shut_out(link);
        // Also where it was another's.
        table.wake(index);
    }
}

/// Whether a turn of a channel would be for nothing; then it is not looked at any more.
pub fn is_idle(table: &mut ChannelTable, index: u32) -> bool {
    let Channel { link: at, number, state, blocked, tell_blocked, .. } =
        table.channels[index as usize];
    let Some(link) = table.link(at) else { return true };
    let has_room = blocked && !matches!(link.has_room_again(number), Ok(false));
    if has_room || tell_blocked || link.ending == Some(Ending::ShutOut) {
        return false;
    }
    state == State::Asked || link.ending.is_none() && table.cool(at, number)
}

impl ChannelTurn<'_, '_> {
    fn channel(&mut self) -> &mut Channel {
        &mut self.table.channels[self.index as usize]
    }

    fn run(&mut self) -> Result<(), Nonsense> {
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        if let Some(lanes) = link.lanes(self.number) {
            lanes.is_held = false;
        }
        if link.ending == Some(Ending::ShutOut) {
            self.end_channel(Ending::ShutOut);
            return Ok(());
        }
        self.say_blocked()?;
        self.channel().turn.begin(1);
        let (ended, came) = self.frames()?;
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        match ended {
            Some(Step::Gone) => return Ok(()),
            _ => link.give_back(self.number),
        }
        match ended {
            None => self.table.wake(self.index),
            Some(Step::Dry) => self.run_dry(came),
            Some(_) => {
                if let Some(lanes) = link.lanes(self.number) {
                    lanes.is_held = true;
                }
            }
        }
        Ok(())
    }

    /// Frame after frame, as long as the turn lasts: what ended it before, and whether anything had
    /// come.
    fn frames(&mut self) -> Result<(Option<Step>, bool), Nonsense> {
        let mut came = false;
        while self.channel().turn.goes_on() {
            self.delivery.work.does(1);
            match self.step()? {
                Step::Done(bytes) => {
                    came = true;
                    self.channel().turn.serve(bytes as u64);
                }
                step => return Ok((Some(step), came)),
            }
        }
        Ok((None, came))
    }

    /// Shows frames of data, as many as follow each other in this turn.
    fn data(&mut self) -> Result<Step, Nonsense> {
        let ChannelTable { links, channels, .. } = &mut *self.table;
        let turn = &mut channels[self.index as usize].turn;
        let Some(Some(link)) = links.get_mut(self.at as usize) else { return Ok(Step::Held) };
        let (reader, map, lane) = link.reading(self.number);
        let (mut records, mut bytes) = (0, 0);
        let found = loop {
            let frame = match reader.look(map, lane) {
                Ok(Some(frame)) if frame.kind == FrameKind::Data => frame,
                other => break other,
            };
            self.delivery.work.does(1);
            let count = reader.take(map, lane, self.delivery.buffer);
            records += u32::from(count == frame.left);
            bytes += count;
            let more = frame.more || count < frame.left;
            self.delivery.record(self.id, Kind::Data, more, count);
            if !turn.serve(count as u64) {
                break Ok(None);
            }
        };
        self.came(records, bytes);
        found.map(|_| Step::Done(0)).map_err(|_| self.at)
    }

    /// So many records have come.
    fn came(&mut self, records: u32, bytes: usize) {
        let account = self.table.home.account();
        add(&account.records_in, records.into());
        add(&account.bytes_in, bytes as u64);
        self.table.hot.moved(&self.table.links, records);
    }

    /// There is nothing more of the channel.
    fn run_dry(&mut self, came: bool) {
        let ChannelTable { links, channels, hot, .. } = &mut *self.table;
        channels[self.index as usize].turn.end();
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
                look_at(link.attention(self.number), LOOKING);
            }
            self.table.wake(self.index);
        }
    }

    /// Says that a send was not taken whole, and that there is room again.
    fn say_blocked(&mut self) -> Result<(), Nonsense> {
        let channel = self.channel();
        if !channel.blocked {
            return Ok(());
        }
        let partner = channel.partner;
        if std::mem::take(&mut channel.tell_blocked) {
            self.delivery.record(self.id, Kind::Blocked, false, 0);
        }
        let Some(link) = self.table.link(self.at) else { return Ok(()) };
        if link.ending.is_none() && !link.has_room_again(self.number).map_err(|_| self.at)? {
            return Ok(());
        }
        self.channel().blocked = false;
        if partner == NONE {
            self.delivery.record(self.id, Kind::Unblocked, false, 0);
        } else {
            self.table.wake(partner);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Step, Nonsense> {
        let Channel { state, partner, .. } = *self.channel();
        if matches!(state, State::Asked | State::Free | State::Joined) {
            return Ok(Step::Held);
        }
        let Some(link) = self.table.link(self.at) else { return Ok(Step::Held) };
        let (reader, map, lane) = link.reading(self.number);
        let Some(frame) = reader.look(map, lane).map_err(|_| self.at)? else {
            return Ok(Step::Dry);
        };
        match (state, frame.kind) {
            (State::Open, kind) if is_record(kind) && partner != NONE => {
                self.forward(partner, frame)
            }
            (State::Open, FrameKind::Data) => self.data(),
            (State::Open, FrameKind::End) if frame.left == 0 => {
                self.skip();
                self.came(1, 0);
                Ok(self.shown(Kind::End, 0))
            }
            (State::Open, FrameKind::Signal) if frame.left == 4 => {
                let mut number = [0; 4];
                self.take(&mut number);
                self.came(1, 0);
                Ok(self.shown(Kind::Signal(u32::from_le_bytes(number)), 0))
            }
            (State::Closing, FrameKind::Close) => Ok(self.ends()),
            (State::Closing, FrameKind::Refuse) if self.is_peer() => Ok(self.ends()),
            (State::Closing, _) => {
                self.skip();
                Ok(Step::Done(frame.left))
            }
            (State::Open, FrameKind::Close) => {
                self.skip();
                self.end_channel(Ending::Closed);
                Ok(Step::Gone)
            }
            _ => self.begin(state, frame),
        }
    }

    /// What begins a channel, or does not.
    fn begin(&mut self, state: State, frame: LaneFrame) -> Result<Step, Nonsense> {
        let is_short = frame.left <= LABEL_BYTES;
        match (state, frame.kind) {
            (State::Fresh, FrameKind::Open) if is_short => {
                let count = self.take_to_buffer(LABEL_BYTES);
                self.channel().state = State::Asked;
                Ok(self.shown(Kind::Open, count))
            }
            (State::Opening, FrameKind::Accept) if frame.left == 0 => {
                self.skip();
                self.channel().state = State::Open;
                Ok(self.shown(Kind::Accepted, 0))
            }
            (State::Opening, FrameKind::Refuse) if is_short => {
                let count = self.take_to_buffer(LABEL_BYTES);
                self.table.finish(self.index, FrameKind::Close, &[]);
                self.table.leave(self.index);
                self.shown(Kind::Refused, count);
                Ok(Step::Gone)
            }
            _ => Err(self.at),
        }
    }

    fn is_peer(&self) -> bool {
        self.table.home.side() == LinkSide::Peer
    }

    fn shown(&mut self, kind: Kind, count: usize) -> Step {
        self.delivery.record(self.id, kind, false, count);
        Step::Done(count)
    }

    /// The last frame of a channel that this side has closed.
    fn ends(&mut self) -> Step {
        self.skip();
        self.table.leave(self.index);
        Step::Gone
    }

    /// Takes what fits of the frame that was looked at.
    fn take(&mut self, to: &mut [u8]) -> usize {
        let Some(link) = self.table.link(self.at) else { return 0 };
        let (reader, map, lane) = link.reading(self.number);
        reader.take(map, lane, to)
    }

    fn take_to_buffer(&mut self, most: usize) -> usize {
        let buffer = std::mem::take(&mut self.delivery.buffer);
        let count = self.take(&mut buffer[..most]);
        self.delivery.buffer = buffer;
        count
    }

    fn skip(&mut self) {
        if let Some(link) = self.table.link(self.at) {
            link.reading(self.number).0.skip();
        }
    }

    /// Moves a frame, or what there is room for, to the channel this one is connected to.
    fn forward(&mut self, partner: u32, frame: LaneFrame) -> Result<Step, Nonsense> {
        let Channel { link: to, number, .. } = self.table.channels[partner as usize];
        let is_data = frame.kind == FrameKind::Data;
        if !is_data && frame.left > 4 {
            return Err(self.at);
        }
        let wanted = frame.left.min(self.delivery.buffer.len());
        let Some(link) = self.table.link(to) else { return Ok(Step::Held) };
        if link.ending.is_some() {
            // It will be said of it that it has ended, and then this one is looked at again.
            return Ok(Step::Held);
        }
        let mut room = link.room_for(number, wanted).map_err(|_| to)?;
        let is_enough = |room: Option<usize>| room.is_some_and(|room| is_data || room == wanted);
        if !is_enough(room) && link.want_room(number).map_err(|_| to)? {
            room = link.room_for(number, wanted).map_err(|_| to)?;
            self.table.clear_room_request(partner);
        }
        let Some(count) = room.filter(|_| is_enough(room)) else {
            self.table.channels[partner as usize].blocked = true;
            return Ok(Step::Held);
        };
        let count = self.take_to_buffer(count);
        let is_rest = count == frame.left;
        if let Some(link) = self.table.link(to) {
            let more = is_data && (frame.more || !is_rest);
            link.put(number, frame.kind, more, &self.delivery.buffer[..count]);
        }
        self.came(is_rest.into(), if is_data { count } else { 0 });
        self.delivery.bytes += count.max(1);
        Ok(Step::Done(count))
    }

    /// The channel has ended, and not by this side: says so once, if it was ever shown, and
    /// answers the other side's last with this side's.
    fn end_channel(&mut self, ending: Ending) {
        let state = self.channel().state;
        match (state, &self.table.refusal) {
            // Whether it is accepted is still to be said, unless nothing good can come of it.
            (State::Asked, _) if ending != Ending::ShutOut => return,
            (State::Opening, Some(why)) => {
                let count = why.len().min(LABEL_BYTES);
                self.delivery.buffer[..count].copy_from_slice(&why.as_bytes()[..count]);
                self.shown(Kind::Refused, count);
            }
            (State::Open | State::Opening | State::Asked, _) => {
                self.shown(Kind::Close(ending), 0);
            }
            _ => {}
        }
        if state == State::Open && ending == Ending::Closed {
            self.table.finish(self.index, FrameKind::Close, &[]);
        }
        self.table.leave(self.index);
    }
}
