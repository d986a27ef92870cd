//! The choice of the next writer: among hot rings, cold rings whose writers set their bit on the
//! board, and writers that have just come.

use super::backlog::Polled;
use super::counts::Counts;
use super::entrance::Entrance;
use super::slot::{WriterSlot, WriterSlots};
use super::unfinished::Unfinished;
use super::{Ending, PortOptions, WriterId, WriterStat};
use crate::connect::acceptor::Arrival;
use crate::connect::passing::{refuse, turn_away};
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::SharedPage;
use crate::park::doorbell::Doorbell;
use crate::pipe::options::Resolved;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_policy::ready::{Rotation, TurnPace, Usual};
use weir_ring::account::add;
use weir_ring::board::Board;
use weir_ring::primitive::Ordering;
use weir_ring::sleep;

/// A hot ring goes cold after this many looks that found nothing, while others are busy.
const MOST_EMPTY_LOOKS: u32 = 64;
/// Turns between two readings of the clock, for the occasional look at all rings.
const TURNS: u32 = 256;
/// How often the reader looks at all rings, whatever the board says.
pub const LOOK_AT_ALL: Duration = Duration::from_millis(100);

/// All writers, and the choice of the next one.
#[derive(Debug)]
pub struct Choice {
    board: Arc<SharedPage<Board>>,
    inbox: Arc<Inbox>,
    entrance: Entrance,
    pub slots: WriterSlots,
    free: Vec<u32>,
    pub hot: Rotation,
    usual: Usual,
    /// The writer whose turn it is.
    current: Option<u32>,
    /// The writer that was served last.
    pub last: Option<u32>,
    turns: u32,
    all_seen: Instant,
    unfinished: Unfinished,
}

#[cold]
fn writer_gone_error() -> Error {
    Error::new(ErrorKind::Invalid, "use", "a writer", "it is gone")
}

impl Choice {
    pub fn new(options: &PortOptions) -> Result<Choice> {
        let (board_file, board) = SharedPage::<Board>::create()?;
        let board = Arc::new(board);
        board.words().account.pid.store(std::process::id(), Ordering::Relaxed);
        let inbox = Inbox::new(board.clone());
        Ok(Choice {
            entrance: Entrance::new(board_file, inbox.clone(), options)?,
            inbox,
            board,
            slots: Vec::new(),
            free: Vec::new(),
            hot: Rotation::default(),
            usual: Usual::default(),
            current: None,
            last: None,
            turns: 0,
            all_seen: Instant::now(),
            unfinished: Unfinished::new(options.most_unfinished_bytes),
        })
    }

    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    pub fn resolved(&self) -> &Resolved {
        &self.entrance.resolved
    }

    pub fn page(&self) -> Arc<SharedPage<Board>> {
        self.board.clone()
    }

    pub fn board(&self) -> &Board {
        self.board.words()
    }

    pub fn slot(&mut self, place: u32) -> Result<&mut WriterSlot> {
        let slot = self.slots.get_mut(place as usize).and_then(Option::as_deref_mut);
        slot.ok_or_else(writer_gone_error)
    }

    /// The writer whose turn it still is, unless there is news of others.
    #[inline]
    pub fn current_place(&mut self) -> Option<u32> {
        let place = self.current.filter(|_| !self.inbox.has_news())?;
        let slot = self.slots.get(place as usize)?.as_deref()?;
        (slot.turn.continues() && !slot.is_set_aside()).then_some(place)
    }

    pub fn id_at(&self, place: u32) -> Option<WriterId> {
        Some(self.slots.get(place as usize)?.as_ref()?.id)
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Lets a writer in, or refuses it: whether it is in. Only the writer itself hears why not.
    pub fn let_in(
        &mut self,
        arrival: Arrival,
        options: &PortOptions,
        doorbell: Option<&Doorbell>,
    ) -> bool {
        if self.len() >= options.most_writers as usize {
            let why = format!("it has {} writers already, its limit", options.most_writers);
            turn_away(arrival.socket, &why);
            return false;
        }
        let place = self.free.pop().unwrap_or(self.slots.len() as u32);
        let admitted = self.entrance.admit(arrival, place, &mut self.slots, options);
        let Some(slot) = admitted.and_then(|slot| polled(slot, doorbell)) else {
            if (place as usize) < self.slots.len() {
                self.free.push(place);
            }
            return false;
        };
        let slot = Some(Box::new(slot));
        match self.slots.get_mut(place as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        self.hot.push(place, TurnPace::New);
        let account = &self.board().account;
        add(&account.opened, 1);
        account.open.store(self.len() as u32, Ordering::Relaxed);
        true
    }

    pub fn remove(&mut self, place: u32, ending: Ending) -> Result<()> {
        self.set_aside(place);
        self.last = self.last.filter(|last| *last != place);
        if let Some(mut slot) = self.slots.get_mut(place as usize).and_then(Option::take) {
            self.free.push(place);
            let released = self.unfinished.forget_writer(&slot);
            self.release(released)?;
            if ending == Ending::ShutOut
                && let Ok((end, _)) = slot.reader.parts()
                && let Some(socket) = end.life.socket()
            {
                refuse(socket, "its reader has shut this writer out");
            }
        }
        let account = &self.board().account;
        let count = if ending == Ending::Closed { &account.closed } else { &account.died };
        add(count, 1);
        account.open.store(self.len() as u32, Ordering::Relaxed);
        Ok(())
    }

    /// A writer, and where what it brings is counted.
    #[inline]
    pub fn slot_and_counts(&mut self, place: u32) -> Result<(&mut WriterSlot, Counts<'_>)> {
        let slot = self.slots.get_mut(place as usize).and_then(Option::as_deref_mut);
        let counts = Counts { usual: &mut self.usual, board: self.board.words() };
        Ok((slot.ok_or_else(writer_gone_error)?, counts))
    }

    pub fn count(&mut self, messages: u64, bytes: u64) {
        Counts { usual: &mut self.usual, board: self.board.words() }.count(messages, bytes);
    }

    /// Ends the turn of a writer that has nothing more.
    pub fn ran_dry(&mut self, place: u32) {
        if let Ok(slot) = self.slot(place) {
            slot.turn.end();
        }
    }

    /// Finds a writer that has something, and whose turn it is.
    #[inline]
    pub fn ready_now(&mut self) -> Result<Option<u32>> {
        if let Some(place) = self.current {
            let slot = self.slot(place)?;
            if slot.turn.continues() && !slot.is_set_aside() && slot.poll()? == Polled::Something {
                return Ok(Some(place));
            }
            self.current = None;
            self.hot.push(place, TurnPace::Busy);
        }
        self.take_turns()
    }

    fn take_turns(&mut self) -> Result<Option<u32>> {
        self.gather()?;
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS) {
            self.poll_all_in_time()?;
        }
        for rounds in 0.. {
            // After a long message a writer may owe more than its turn grants. Then it waits for
            // more turns, and others are served meanwhile.
            let mut someone_owes = false;
            for _ in 0..self.hot.len() {
                let Some((place, pace)) = self.hot.pop() else { break };
                let alone = self.hot.is_empty();
                let long_turn = match pace {
                    TurnPace::Busy => self.usual.begin_turn(self.hot.len()),
                    TurnPace::New => 0,
                };
                let Ok(slot) = self.slot(place) else { continue };
                if slot.is_set_aside() {
                    continue;
                }
                if slot.poll()? == Polled::Something {
                    slot.empty_looks = 0;
                    match pace {
                        _ if rounds > 0 => slot.turn.begin_in_debt(slot.share, rounds),
                        TurnPace::New => slot.turn.begin(slot.share),
                        TurnPace::Busy => slot.turn.begin_long(slot.share, long_turn),
                    }
                    if slot.turn.continues() {
                        (self.current, self.last) = (Some(place), Some(place));
                        return Ok(Some(place));
                    }
                    someone_owes = true;
                    self.hot.push(place, TurnPace::Busy);
                    continue;
                }
                slot.turn.end();
                slot.empty_looks += 1;
                // The last hot ring stays hot until the reader sleeps.
                if alone || slot.empty_looks < MOST_EMPTY_LOOKS {
                    self.hot.push(place, TurnPace::Busy);
                } else if !slot.cool()? {
                    self.warm(place)?;
                }
            }
            if !someone_owes {
                break;
            }
        }
        Ok(None)
    }

    /// Whether there may be something: looks at the board, the inbox and the hot rings.
    pub fn sees(&mut self) -> Result<bool> {
        if self.board.words().any() || self.inbox.has_news() {
            return Ok(true);
        }
        for place in self.hot.iter() {
            if let Some(slot) = &mut self.slots[place as usize]
                && slot.poll()? == Polled::Something
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives the room back that was read in the hot rings. The others have given theirs back.
    pub fn give_back(&mut self) -> Result<()> {
        for place in self.hot.iter() {
            if let Some(slot) = &mut self.slots[place as usize] {
                slot.give_back_what_is_owed()?;
            }
        }
        Ok(())
    }

    pub fn warm(&mut self, place: u32) -> Result<()> {
        let slot = self.slot(place)?;
        slot.warm()?;
        if !slot.is_set_aside() {
            self.hot.push(place, TurnPace::New);
        }
        Ok(())
    }

    /// Makes the rings hot whose bits are set on the board.
    fn gather(&mut self) -> Result<()> {
        if !self.board.words().any() {
            return Ok(());
        }
        let board = self.board.clone();
        let mut named = Vec::new();
        board.words().gather(|ring| named.push(ring));
        for place in named {
            self.warm_if_there(place)?;
        }
        Ok(())
    }

    /// Makes a ring hot. A place without a writer (anybody can set its bit) is ignored.
    pub fn warm_if_there(&mut self, place: u32) -> Result<()> {
        if self.id_at(place).is_some() { self.warm(place) } else { Ok(()) }
    }

    /// Makes the rings hot whose backlogs may have come into memory.
    pub fn warm_backlogs(&mut self) -> Result<()> {
        for place in 0..self.slots.len() as u32 {
            if self.slot(place).is_ok_and(|slot| slot.cold && slot.backlog.is_there()) {
                self.warm(place)?;
            }
        }
        Ok(())
    }

    /// Looks at all rings if it is time for that.
    pub fn poll_all_in_time(&mut self) -> Result<()> {
        if self.all_seen.elapsed() < LOOK_AT_ALL { Ok(()) } else { self.poll_all() }
    }

    /// Looks at all rings, since a writer may have spoiled the bits of others.
    pub fn poll_all(&mut self) -> Result<()> {
        self.all_seen = Instant::now();
        for place in self.unfinished.late(&self.slots) {
            self.shut_out(place)?;
        }
        for place in 0..self.slots.len() as u32 {
            let Ok(slot) = self.slot(place) else { continue };
            if slot.cold && slot.poll()? == Polled::Something {
                self.warm(place)?;
            }
        }
        Ok(())
    }

    /// Shuts a writer out: nothing more is received from it.
    pub fn shut_out(&mut self, place: u32) -> Result<()> {
        self.slot(place)?.shut_out();
        self.account_for(place)?;
        self.resume(place)
    }

    /// Makes all rings cold, before the reader sleeps: whether none of them has anything.
    pub fn cool_all(&mut self) -> Result<bool> {
        if let Some(place) = self.current.take() {
            self.hot.push(place, TurnPace::Busy);
        }
        for _ in 0..self.hot.len() {
            let Some((place, _)) = self.hot.pop() else { break };
            let Ok(slot) = self.slot(place) else { continue };
            if !slot.is_set_aside() && !slot.cool()? {
                self.warm(place)?;
            }
        }
        Ok(self.hot.is_empty())
    }

    /// Receives nothing from a writer until [`Choice::resume`].
    pub fn suspend(&mut self, place: u32) -> Result<()> {
        self.set_aside(place);
        let Some(Some(slot)) = self.slots.get_mut(place as usize) else { return Ok(()) };
        slot.suspended = true;
        let released = self.unfinished.suspended(slot);
        self.release(released)
    }

    /// Takes a writer out of the rotation.
    fn set_aside(&mut self, place: u32) {
        self.hot.remove(place);
        self.current = self.current.filter(|current| *current != place);
    }

    /// Receives from a writer again.
    pub fn resume(&mut self, place: u32) -> Result<()> {
        self.slot(place)?.suspended = false;
        if self.current != Some(place) {
            self.warm(place)?;
        }
        Ok(())
    }

    /// Accounts for the memory that a writer uses for an unfinished message.
    #[inline]
    pub fn account_for(&mut self, place: u32) -> Result<()> {
        let Some(Some(slot)) = self.slots.get_mut(place as usize) else { return Ok(()) };
        let released = self.unfinished.account_for(slot);
        self.release(released)
    }

    /// Bytes that a writer may use for unfinished messages beside those it already uses.
    pub fn room_for(&self, place: u32) -> u64 {
        self.unfinished.room_for(place)
    }

    /// Whether a writer is held up, which may end by time alone.
    pub fn holds_someone_up(&self) -> bool {
        self.unfinished.holds_someone_up()
    }

    /// Holds a writer up, because there is no memory for a piece of its message.
    pub fn hold_up(&mut self, place: u32) -> Result<()> {
        let (waits, continues) = self.unfinished.hold_up(place, &mut self.slots);
        if waits {
            self.set_aside(place);
        }
        self.release(continues)
    }

    /// Receives again from writers that were held up.
    #[inline]
    fn release(&mut self, places: impl IntoIterator<Item = u32>) -> Result<()> {
        for place in places {
            if let Ok(slot) = self.slot(place) {
                slot.partial.held_up = false;
                self.warm(place)?;
            }
        }
        Ok(())
    }

    pub fn available(&mut self, in_pieces: bool) -> Result<usize> {
        self.gather()?;
        let mut bytes = 0;
        for slot in self.slots.iter_mut().flatten().filter(|slot| !slot.is_set_aside()) {
            bytes += slot.available(in_pieces, self.unfinished.room_for(slot.id.slot))?;
        }
        Ok(bytes)
    }

    pub fn stats(&mut self) -> Result<Vec<WriterStat>> {
        let mut stats = Vec::with_capacity(self.len());
        for slot in self.slots.iter_mut().flatten() {
            let (end, _) = slot.reader.parts()?;
            let parked = end.header().writer_sleep.word.load(Ordering::Relaxed);
            stats.push(WriterStat {
                id: slot.id,
                identity: slot.identity,
                messages: slot.sequence,
                bytes: slot.bytes,
                share: slot.share,
                suspended: slot.suspended,
                waiting: parked & (sleep::ASLEEP | sleep::POLLING) != 0,
            });
        }
        stats.sort_by_key(|stat| stat.id.number());
        Ok(stats)
    }

    /// Writes to the board that no writer is open any more.
    pub fn publish_closed(&self) {
        self.board().account.open.store(0, Ordering::Relaxed);
    }
}

/// Makes a writer's bells ring the doorbell, or refuses the writer: nobody who polls would hear it.
fn polled(mut slot: WriterSlot, doorbell: Option<&Doorbell>) -> Option<WriterSlot> {
    if doorbell.is_none_or(|doorbell| slot.is_polled_by(doorbell).is_ok()) {
        return Some(slot);
    }
    if let Ok((end, _)) = slot.reader.parts()
        && let Some(socket) = end.life.socket()
    {
        refuse(socket, "its reader cannot poll one more writer");
    }
    None
}
