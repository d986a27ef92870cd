//! One turn of a channel: what came of it becomes records, or goes to the channel it is connected
//! to.

use super::core::{Channel, Core, State};
use super::link::NONE;
use super::record::{ChannelId, Kind, LABEL_BYTES, Record};
use crate::port::Ending;
use weir_policy::ready::Work;
use weir_ring::lane::{Frame, FrameKind, Side, go_warm};

/// Where records go.
pub struct Show<'a> {
    pub buffer: &'a mut [u8],
    pub each: &'a mut dyn FnMut(Record<'_>),
    /// The channels by which the reader of them got here.
    pub path: Vec<ChannelId>,
    pub records: usize,
    /// Bytes in records, or moved.
    pub bytes: usize,
    /// What was done, be it shown or not.
    pub work: Work,
}

impl Show<'_> {
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

impl Core {
    /// Serves a channel for one turn.
    pub fn serve(&mut self, index: u32, show: &mut Show) {
        if let Err(link) = self.turn(index, show) {
            self.shut_out(link);
            // Also where it was another's.
            self.wake(index);
        }
    }

    /// Whether a turn of a channel would be for nothing; then it is not looked at any more.
    pub fn is_idle(&mut self, index: u32) -> bool {
        let Channel { link: at, number, state, blocked, tell_blocked, .. } =
            self.channels[index as usize];
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return true };
        let has_room = blocked && !matches!(link.has_room_again(number), Ok(false));
        if has_room || tell_blocked || link.ending == Some(Ending::ShutOut) {
            return false;
        }
        state == State::Asked || link.ending.is_none() && link.cool(number)
    }

    fn turn(&mut self, index: u32, show: &mut Show) -> Result<(), Nonsense> {
        let Channel { link: at, number, .. } = self.channels[index as usize];
        let Some(Some(link)) = self.links.get(at as usize) else { return Ok(()) };
        if link.ending == Some(Ending::ShutOut) {
            self.end_channel(index, Ending::ShutOut, show);
            return Ok(());
        }
        self.say_blocked(index, show)?;
        self.channels[index as usize].turn.begin(1);
        let ended = loop {
            if !self.channels[index as usize].turn.goes_on() {
                break None;
            }
            show.work.does(1);
            match self.step(index, show)? {
                Step::Done(bytes) => {
                    self.channels[index as usize].turn.serve(bytes as u64);
                }
                Step::Gone => return Ok(()),
                step => break Some(step),
            }
        };
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return Ok(()) };
        link.give_back(number);
        match ended {
            None => self.wake(index),
            Some(Step::Dry) => {
                self.channels[index as usize].turn.end();
                if let Some(ending) = link.ending {
                    self.end_channel(index, ending, show);
                } else if !link.cool(number) {
                    go_warm(&link.inward_words(number).reader.told);
                    self.wake(index);
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Says that a send was not taken whole, and that there is room again.
    fn say_blocked(&mut self, index: u32, show: &mut Show) -> Result<(), Nonsense> {
        let Channel { link: at, number, partner, .. } = self.channels[index as usize];
        let id = self.id(index);
        let channel = &mut self.channels[index as usize];
        if !channel.blocked {
            return Ok(());
        }
        if std::mem::take(&mut channel.tell_blocked) {
            show.record(id, Kind::Blocked, false, 0);
        }
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return Ok(()) };
        if link.ending.is_none() && !link.has_room_again(number).map_err(|_| at)? {
            return Ok(());
        }
        self.channels[index as usize].blocked = false;
        if partner == NONE {
            show.record(id, Kind::Unblocked, false, 0);
        } else {
            self.wake(partner);
        }
        Ok(())
    }

    fn step(&mut self, index: u32, show: &mut Show) -> Result<Step, Nonsense> {
        let Channel { link: at, number, state, partner, .. } = self.channels[index as usize];
        if matches!(state, State::Asked | State::Free | State::Joined) {
            return Ok(Step::Held);
        }
        let Some(Some(link)) = self.links.get_mut(at as usize) else { return Ok(Step::Held) };
        let (reader, map, lane) = link.reading(number);
        let Some(frame) = reader.look(map, lane).map_err(|_| at)? else {
            return Ok(Step::Dry);
        };
        let id = self.id(index);
        match (state, frame.kind) {
            (State::Open, FrameKind::Data) if partner == NONE => {
                let count = self.take(index, show.buffer);
                show.record(id, Kind::Data, frame.more || count < frame.left, count);
                Ok(Step::Done(count))
            }
            (State::Open, FrameKind::Data | FrameKind::End | FrameKind::Signal)
                if partner != NONE =>
            {
                self.forward(index, partner, frame, show)
            }
            (State::Open, FrameKind::End) if frame.left == 0 => {
                self.skip(index);
                show.record(id, Kind::End, false, 0);
                Ok(Step::Done(0))
            }
            (State::Open, FrameKind::Signal) if frame.left == 4 => {
                let mut number = [0; 4];
                self.take(index, &mut number);
                show.record(id, Kind::Signal(u32::from_le_bytes(number)), false, 0);
                Ok(Step::Done(4))
            }
            (State::Closing, FrameKind::Close) => {
                self.skip(index);
                self.leave(index);
                Ok(Step::Gone)
            }
            (State::Closing, FrameKind::Refuse) if self.side == Side::Peer => {
                self.skip(index);
                self.leave(index);
                Ok(Step::Gone)
            }
            (State::Closing, _) => {
                self.skip(index);
                Ok(Step::Done(frame.left))
            }
            (State::Open, FrameKind::Close) => {
                self.skip(index);
                self.end_channel(index, Ending::Closed, show);
                Ok(Step::Gone)
            }
            _ => self.begin(index, state, frame, show),
        }
    }

    /// What begins a channel, or does not.
    fn begin(
        &mut self,
        index: u32,
        state: State,
        frame: Frame,
        show: &mut Show,
    ) -> Result<Step, Nonsense> {
        let id = self.id(index);
        let short = frame.left <= LABEL_BYTES;
        match (state, frame.kind) {
            (State::Fresh, FrameKind::Open) if short => {
                let count = self.take(index, show.buffer);
                self.channels[index as usize].state = State::Asked;
                show.record(id, Kind::Open, false, count);
                Ok(Step::Done(count))
            }
            (State::Opening, FrameKind::Accept) if frame.left == 0 => {
                self.skip(index);
                self.channels[index as usize].state = State::Open;
                show.record(id, Kind::Accepted, false, 0);
                Ok(Step::Done(0))
            }
            (State::Opening, FrameKind::Refuse) if short => {
                let count = self.take(index, show.buffer);
                self.finish(index, FrameKind::Close, &[]);
                self.leave(index);
                show.record(id, Kind::Refused, false, count);
                Ok(Step::Gone)
            }
            _ => Err(self.channels[index as usize].link),
        }
    }

    /// Takes what fits of the frame that was looked at.
    fn take(&mut self, index: u32, to: &mut [u8]) -> usize {
        let number = self.channels[index as usize].number;
        let Some(link) = self.link_of(index) else { return 0 };
        let (reader, map, lane) = link.reading(number);
        reader.take(map, lane, to)
    }

    fn skip(&mut self, index: u32) {
        let number = self.channels[index as usize].number;
        if let Some(link) = self.link_of(index) {
            link.reading(number).0.skip();
        }
    }

    /// Moves a frame, or what there is room for, to the channel this one is connected to.
    fn forward(
        &mut self,
        index: u32,
        partner: u32,
        frame: Frame,
        show: &mut Show,
    ) -> Result<Step, Nonsense> {
        let Channel { link: to, number, .. } = self.channels[partner as usize];
        let is_data = frame.kind == FrameKind::Data;
        if !is_data && frame.left > 4 {
            return Err(self.channels[index as usize].link);
        }
        let wanted = frame.left.min(show.buffer.len());
        let Some(Some(link)) = self.links.get_mut(to as usize) else { return Ok(Step::Held) };
        if link.ending.is_some() {
            // It will be said of it that it has ended, and then this one is looked at again.
            return Ok(Step::Held);
        }
        let mut room = link.room_for(number, wanted).map_err(|_| to)?;
        let enough = |room: Option<usize>| room.is_some_and(|room| is_data || room == wanted);
        if !enough(room) && link.want_room(number).map_err(|_| to)? {
            room = link.room_for(number, wanted).map_err(|_| to)?;
            self.content(partner);
        }
        let Some(count) = room.filter(|_| enough(room)) else {
            self.channels[partner as usize].blocked = true;
            return Ok(Step::Held);
        };
        let buffer = std::mem::take(&mut show.buffer);
        let count = self.take(index, &mut buffer[..count]);
        if let Some(Some(link)) = self.links.get_mut(to as usize) {
            let more = is_data && (frame.more || count < frame.left);
            link.put(number, frame.kind, more, &buffer[..count]);
        }
        show.buffer = buffer;
        show.bytes += count.max(1);
        Ok(Step::Done(count))
    }

    /// The channel has ended, and not by this side: says so once, if it was ever shown, and
    /// answers the other side's last with this side's.
    fn end_channel(&mut self, index: u32, ending: Ending, show: &mut Show) {
        let id = self.id(index);
        let state = self.channels[index as usize].state;
        match (state, &self.refusal) {
            // Whether it is accepted is still to be said, unless nothing good can come of it.
            (State::Asked, _) if ending != Ending::ShutOut => return,
            (State::Opening, Some(why)) => {
                let count = why.len().min(LABEL_BYTES);
                show.buffer[..count].copy_from_slice(&why.as_bytes()[..count]);
                show.record(id, Kind::Refused, false, count);
            }
            (State::Open | State::Opening | State::Asked, _) => {
                show.record(id, Kind::Close(ending), false, 0);
            }
            _ => {}
        }
        if state == State::Open && ending == Ending::Closed {
            self.finish(index, FrameKind::Close, &[]);
        }
        self.leave(index);
    }
}
