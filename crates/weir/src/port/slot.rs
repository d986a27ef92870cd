//! One writer, as the reader of the port sees it.

use super::{DATA, Ending, FIRST, LAST, WriterId};
use crate::connect::peer::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, View};
use crate::park::doorbell::Doorbell;
use crate::pipe::record::RecordReader;
use std::time::Instant;
use weir_policy::ready::Turn;
use weir_ring::{record, sleep};

/// Pieces put together in one go: they may have no bytes.
const MOST_PIECES: u32 = 1024;
/// Bytes kept for putting messages together, of each writer that sends long ones.
const KEPT_BYTES: usize = 256 << 10;

/// One writer.
#[derive(Debug)]
pub struct Slot {
    pub reader: RecordReader,
    pub id: WriterId,
    pub identity: Identity,
    pub share: u32,
    pub turn: Turn,
    pub suspended: bool,
    /// The writer was told to say on the board when it has something.
    pub cold: bool,
    /// Looks in a row that found nothing.
    pub empty_looks: u32,
    /// Messages received, or pieces where those are shown.
    pub sequence: u64,
    pub bytes: u64,
    /// How it ends, once that is decided here.
    ending: Option<Ending>,
    /// A message of which there are pieces yet to come; or all of it, where `complete`.
    partial: Vec<u8>,
    in_message: bool,
    complete: bool,
    /// When the message was begun of which pieces were put away.
    pub begun: Option<Instant>,
    /// Of the memory for such messages: what is counted as this writer's, whether it waits for
    /// some, whether it may have more than there is.
    pub kept_bytes: u64,
    pub held_up: bool,
    pub is_first: bool,
}

/// Writers by their places.
pub type Slots = Vec<Option<Box<Slot>>>;

/// What is to be seen at a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Something,
    Nothing,
}

/// What a step with a writer's ring gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A message in the buffer.
    Message(usize),
    /// A piece in the buffer: its length, whether it is the first and the last.
    Piece(usize, bool, bool),
    /// A piece was put away, so many bytes.
    PutAway(usize),
    /// There is no room to put the next piece away.
    NoRoom,
    /// There is nothing.
    Nothing,
    /// The writer is gone, and all it sent was received.
    Closed(Ending),
}

/// What the port wants of steps.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub in_pieces: bool,
    pub most_message_bytes: u64,
    /// Memory there is for pieces of messages to come, beside what the writer has.
    pub room_bytes: u64,
}

/// Where a message lies that is shown: at the front of its writer's ring.
pub struct InRing<'a> {
    map: &'a Map,
    ring: &'a record::RecordReader,
}

impl<'a> InRing<'a> {
    /// Copies its bytes out.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        self.ring.copy_out(self.map, to.len(), 0, to);
    }

    /// Its bytes where they lie.
    #[inline]
    pub fn view(&self, bytes: usize) -> View<'a> {
        View::new(self.map, self.ring.place(bytes), bytes)
    }
}

/// What is at the front of a ring, checked.
enum Front {
    Record { bytes: usize, first: bool, last: bool },
    Nothing,
    Nonsense,
}

impl Slot {
    pub fn new(reader: RecordReader, id: WriterId, identity: Identity) -> Slot {
        Slot {
            reader,
            id,
            identity,
            share: 1,
            turn: Turn::default(),
            suspended: false,
            cold: false,
            empty_looks: 0,
            sequence: 0,
            bytes: 0,
            ending: None,
            partial: Vec::new(),
            in_message: false,
            complete: false,
            begun: None,
            kept_bytes: 0,
            held_up: false,
            is_first: false,
        }
    }

    /// Whether there is something to receive, be it that the writer is gone.
    #[inline]
    pub fn look(&mut self) -> Result<Sight> {
        if self.ending.is_some() || self.complete {
            return Ok(Sight::Something);
        }
        let (end, ring) = self.reader.parts()?;
        // Nonsense is something: it is dealt with where it is received.
        if !matches!(ring.look(&*end.map), Ok(None)) || end.is_gone() {
            return Ok(Sight::Something);
        }
        Ok(Sight::Nothing)
    }

    /// The writer will not be listened to any more.
    pub fn shut_out(&mut self) {
        self.ending = Some(Ending::ShutOut);
        self.partial = Vec::new();
        (self.complete, self.in_message, self.begun) = (false, false, None);
    }

    /// Memory it has for messages that are not whole.
    pub fn partial_bytes(&self) -> u64 {
        self.partial.capacity() as u64
    }

    /// Whether there are pieces of a message, and more to come.
    pub fn is_unfinished(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether it can go on with its message by itself.
    pub fn can_finish(&self) -> bool {
        self.is_unfinished() && !self.complete && !self.suspended && self.ending.is_none()
    }

    /// Whether it is not to be received from.
    #[inline]
    pub fn is_set_aside(&self) -> bool {
        self.suspended || self.held_up
    }

    /// Gives memory back that is only kept for later: how many bytes.
    pub fn give_back_memory(&mut self) -> u64 {
        if !self.partial.is_empty() || self.complete {
            return 0;
        }
        self.partial = Vec::new();
        std::mem::take(&mut self.kept_bytes)
    }

    /// Whether there is room for so many bytes more of a message that is put away.
    fn has_room(&self, bytes: usize, manner: Manner) -> bool {
        let room = (self.partial.capacity() as u64).saturating_add(manner.room_bytes);
        (self.partial.len() + bytes) as u64 <= room
    }

    /// Makes room for so many bytes, and for some more where there is memory.
    fn make_room(&mut self, bytes: usize, manner: Manner) {
        let (had, has) = (self.partial.len(), self.partial.capacity());
        if had == 0 {
            self.begun = Some(Instant::now());
        }
        if has - had < bytes {
            let room = usize::try_from(manner.room_bytes).unwrap_or(usize::MAX);
            let more = (has - had).saturating_add(room).min(bytes.max(had / 4));
            self.partial.reserve_exact(more.max(bytes));
        }
    }

    /// Looks at the next record and its header.
    #[inline]
    fn front(&mut self) -> Result<Front> {
        let (end, ring) = self.reader.parts()?;
        let bytes = match ring.look(&*end.map) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Front::Nothing),
            Err(_) => return Ok(Front::Nonsense),
        };
        let header = ring.header(&*end.map);
        if header & !(FIRST | LAST) != DATA {
            return Ok(Front::Nonsense);
        }
        Ok(Front::Record { bytes, first: header & FIRST != 0, last: header & LAST != 0 })
    }

    /// Receives the next of what there is.
    pub fn step(&mut self, buffer: &mut [u8], manner: Manner) -> Result<Step> {
        if let Some(ending) = self.ending {
            return Ok(Step::Closed(ending));
        }
        if self.complete {
            return self.deliver_partial(buffer);
        }
        let (bytes, first, last) = match self.front()? {
            Front::Record { bytes, first, last } => (bytes, first, last),
            Front::Nothing => return self.nothing(),
            Front::Nonsense => return Ok(self.give_up()),
        };
        if first {
            // A message that was not finished before never will be.
            self.partial.clear();
            self.begun = None;
        } else if !self.in_message {
            return Ok(self.give_up());
        }
        if (self.partial.len() + bytes) as u64 > manner.most_message_bytes {
            return Ok(self.give_up());
        }
        if manner.in_pieces || (first && last) {
            self.take_into(buffer, bytes)?;
            self.in_message = !last;
            self.count(bytes);
            if manner.in_pieces {
                return Ok(Step::Piece(bytes, first, last));
            }
            return Ok(Step::Message(bytes));
        }
        if !self.has_room(bytes, manner) {
            return Ok(Step::NoRoom);
        }
        if first && bytes <= buffer.len() {
            return self.put_together(buffer, bytes, manner);
        }
        self.put_away(bytes, manner)?;
        self.in_message = !last;
        if !last {
            return Ok(Step::PutAway(bytes));
        }
        self.complete = true;
        self.deliver_partial(buffer)
    }

    /// A message of which the first piece, of `bytes`, is there: puts it together in the buffer, as
    /// far as its pieces are there and fit, and is done if that is all of it. Else what there is of
    /// it is put away.
    fn put_together(&mut self, buffer: &mut [u8], bytes: usize, manner: Manner) -> Result<Step> {
        self.take_into(buffer, bytes)?;
        self.in_message = true;
        let mut done = bytes;
        for _ in 1..MOST_PIECES {
            let Front::Record { bytes, first: false, last } = self.front()? else { break };
            let whole = done + bytes;
            if whole > buffer.len()
                || whole as u64 > manner.most_message_bytes
                || !(last || self.has_room(whole, manner))
            {
                break;
            }
            self.take_into(&mut buffer[done..], bytes)?;
            done = whole;
            if last {
                self.in_message = false;
                self.count(done);
                return Ok(Step::Message(done));
            }
        }
        self.make_room(done, manner);
        self.partial.extend_from_slice(&buffer[..done]);
        Ok(Step::PutAway(done))
    }

    #[inline]
    fn count(&mut self, bytes: usize) {
        self.sequence += 1;
        self.bytes += bytes as u64;
    }

    /// Nothing there: the writer is gone, or has not sent.
    fn nothing(&mut self) -> Result<Step> {
        let (end, ring) = self.reader.parts()?;
        if !end.is_gone() {
            return Ok(Step::Nothing);
        }
        // Looked at once more, now that it is gone: what it sent before counts.
        if !matches!(ring.look(&*end.map), Ok(None)) {
            return Ok(Step::PutAway(0));
        }
        let closed = end.other_has_closed();
        Ok(Step::Closed(if closed { Ending::Closed } else { Ending::Died }))
    }

    fn give_up(&mut self) -> Step {
        self.shut_out();
        Step::Closed(Ending::ShutOut)
    }

    fn take_into(&mut self, buffer: &mut [u8], bytes: usize) -> Result<()> {
        if bytes > buffer.len() {
            return Err(too_small(bytes, buffer.len()));
        }
        let (end, ring) = self.reader.parts()?;
        ring.copy_out(&*end.map, bytes, 0, &mut buffer[..bytes]);
        ring.consume(&*end.map, bytes, end.dirties);
        self.turn.serve(bytes as u64);
        self.reader.settle(1, bytes)
    }

    fn put_away(&mut self, bytes: usize, manner: Manner) -> Result<()> {
        self.make_room(bytes, manner);
        let had = self.partial.len();
        self.partial.resize(had + bytes, 0);
        let (end, ring) = self.reader.parts()?;
        ring.copy_out(&*end.map, bytes, 0, &mut self.partial[had..]);
        ring.consume(&*end.map, bytes, end.dirties);
        self.turn.serve(bytes as u64);
        self.reader.settle(1, bytes)
    }

    fn deliver_partial(&mut self, buffer: &mut [u8]) -> Result<Step> {
        let bytes = self.partial.len();
        if bytes > buffer.len() {
            return Err(too_small(bytes, buffer.len()));
        }
        buffer[..bytes].copy_from_slice(&self.partial);
        (self.complete, self.begun) = (false, None);
        self.partial.clear();
        // The memory of a very long message is not kept.
        self.partial.shrink_to(KEPT_BYTES);
        self.count(bytes);
        Ok(Step::Message(bytes))
    }

    /// Shows messages of one piece where they lie, one after the other, until the turn is over,
    /// there were `most`, `show` does not take one, or there is something else to do: how many.
    #[inline]
    pub fn serve(
        &mut self,
        most: usize,
        manner: Manner,
        mut show: impl FnMut(u64, usize, InRing<'_>) -> bool,
    ) -> Result<usize> {
        if self.ending.is_some() || self.complete || manner.in_pieces {
            return Ok(0);
        }
        let (mut messages, mut moved, mut unsettled) = (0, 0, 0);
        while self.turn.goes_on() && messages < most {
            let Front::Record { bytes, first: true, last: true } = self.front()? else { break };
            if bytes as u64 > manner.most_message_bytes {
                break;
            }
            let (end, ring) = self.reader.parts()?;
            if !show(self.sequence + 1, bytes, InRing { map: &end.map, ring }) {
                break;
            }
            ring.consume(&*end.map, bytes, end.dirties);
            // Room is given back long before a lap of the ring: what was read lies there until
            // then, as if it had been sent again.
            let owes_much = ring.owes_much();
            if self.in_message {
                (self.in_message, self.begun) = (false, None);
                self.partial = Vec::new();
            }
            self.count(bytes);
            messages += 1;
            unsettled += 1;
            moved += bytes;
            self.turn.serve(bytes as u64);
            if owes_much {
                self.reader.settle(unsettled, moved)?;
                (unsettled, moved) = (0, 0);
            }
        }
        if unsettled > 0 {
            self.reader.settle(unsettled, moved)?;
        }
        Ok(messages)
    }

    /// Bytes that can be received without waiting, at least.
    pub fn available(&mut self) -> Result<usize> {
        if self.complete {
            return Ok(self.partial.len());
        }
        Ok(match self.front()? {
            Front::Record { bytes, .. } => bytes,
            Front::Nothing | Front::Nonsense => 0,
        })
    }

    /// Has the writer's bells ring this doorbell.
    pub fn is_polled_by(&mut self, doorbell: &Doorbell) -> Result<()> {
        let (end, _) = self.reader.parts()?;
        if let Some(socket) = end.life.socket() {
            end.life.is_polled_by(doorbell.add(socket, self.id.slot.into())?);
        }
        Ok(())
    }

    /// Tells the writer to say on the board when it has something. Whether it has nothing now.
    pub fn cool(&mut self) -> Result<bool> {
        let (end, ring) = self.reader.parts()?;
        crate::pipe::record::give_back(end, ring);
        end.announce(sleep::COLD);
        self.cold = true;
        Ok(self.look()? == Sight::Nothing)
    }

    /// The writer need not say anything: it is looked at.
    pub fn warm(&mut self) -> Result<()> {
        if std::mem::take(&mut self.cold) {
            let (end, _) = self.reader.parts()?;
            sleep::retract(end.sleep_word(), sleep::COLD);
        }
        self.empty_looks = 0;
        Ok(())
    }
}

#[cold]
fn too_small(message: usize, buffer: usize) -> Error {
    let why = format!("the message has {message} bytes, the buffer {buffer}");
    let error = Error::new(ErrorKind::TooSmall, "read from", "the port", why);
    error.with_bytes(message)
}
