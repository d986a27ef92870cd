//! The owner of an mpx.

use super::core::State;
use super::hub::{Door, Hub, OwnBoard};
use super::link::NONE;
use super::record::{Answer, ChannelId, LABEL_BYTES, Record, Taken};
use super::{HELLO, MpxOptions};
use crate::connect::acceptor::Acceptor;
use crate::connect::name::{self, Subject};
use crate::connect::peer::Identity;
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Page;
use crate::park::Until;
use rustix::fd::BorrowedFd;
use rustix::fs::Mode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_policy::ready::PRIORITIES;
use weir_ring::board::Board;
use weir_ring::lane::{FrameKind, Side};

const CREATE: Subject = Subject { operation: "make", noun: "mpx" };
/// Most others that can be joined to one, those joined to them included: what one sleep can be for.
const MOST_JOINED: usize = 32;

/// The owner of an mpx. Dropping it ends all its channels, and its name goes.
#[derive(Debug)]
pub struct Mpx {
    pub(super) hub: Hub,
}

impl Mpx {
    /// Makes an mpx and listens. What its name means says `docs/contracts/mpx.md`.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: the name has an owner, or is another program's file;
    /// [`ErrorKind::Invalid`]: the name or an option cannot be; the kernel's.
    pub fn create(name: impl AsRef<Path>, options: &MpxOptions) -> Result<Mpx> {
        options.check_owner()?;
        let path = name::resolve(&CREATE, name.as_ref())?;
        let (file, page) = Page::<Board>::create()?;
        let page = Arc::new(page);
        page.words().account.pid.store(std::process::id(), weir_ring::primitive::Ordering::Relaxed);
        let inbox = Inbox::new(page.clone());
        let mode = Mode::from_raw_mode(options.mode);
        let entrance = Acceptor::new(&CREATE, &path, mode, HELLO, &inbox)?;
        let board = OwnBoard { page: page.clone(), file };
        let door = Door { entrance, board, options: options.clone() };
        Ok(Mpx { hub: Hub::new(Side::Owner, page, inbox, Some(door), options.waiting) })
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        self.hub.door.as_ref().map_or(Path::new(""), |door| door.entrance.path())
    }

    /// Receives what has come of channels, each record through `buffer`, waiting for the first as
    /// long as it takes: how many records. Data longer than the buffer comes in several.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the buffer has less than 64 bytes. [`ErrorKind::Forked`]. The
    /// kernel's.
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.hub.receive(buffer, Until::Ever, &mut each)
    }

    /// The same, if something has come.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing has. Those of [`Mpx::receive_each`].
    pub fn try_receive_each(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.hub.receive(buffer, Until::Now, &mut each)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing did. Those of [`Mpx::receive_each`].
    pub fn receive_each_for(
        &mut self,
        buffer: &mut [u8],
        time: Duration,
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.hub.receive(buffer, Until::after(time), &mut each)
    }

    /// Gives many answers: what became of each. One that cannot be given holds up no other.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn answer(&mut self, answers: &[Answer<'_>]) -> Result<Vec<Taken>> {
        self.hub.check_here()?;
        Ok(answers.iter().map(|answer| self.answer_one(answer)).collect())
    }

    fn answer_one(&mut self, answer: &Answer<'_>) -> Taken {
        let done = match *answer {
            Answer::Accept(channel) => self.accept(channel).map(|()| Taken::Whole),
            Answer::Refuse(channel, why) => self.refuse(channel, why).map(|()| Taken::Whole),
            Answer::Send(channel, bytes) => self
                .send(channel, bytes)
                .map(|taken| if taken == bytes.len() { Taken::Whole } else { Taken::Bytes(taken) }),
            Answer::End(channel) => self.end(channel).map(whole_or_not),
            Answer::Signal(channel, number) => self.signal(channel, number).map(whole_or_not),
            Answer::Close(channel) => self.close(channel).map(|()| Taken::Whole),
        };
        done.unwrap_or_else(|error| Taken::Not(error.kind()))
    }

    /// Accepts a channel: what the peer has sent on it is received from now on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: no open came of it, or it was answered, or has ended.
    /// [`ErrorKind::Corrupt`]: the peer has spoilt it, and is shut out.
    pub fn accept(&mut self, channel: ChannelId) -> Result<()> {
        self.hub.acted();
        let index = self.asked("accept", channel)?;
        let core = &mut self.hub.core;
        core.channels[index as usize].state = State::Open;
        let number = core.channels[index as usize].number;
        let sound = core.link_of(index).is_none_or(|link| {
            link.ending.is_some() || link.put_last(number, FrameKind::Accept, &[])
        });
        core.wake(index);
        if sound {
            return Ok(());
        }
        core.shut_out(core.channels[index as usize].link);
        let why = "its lane is not empty";
        Err(Error::new(ErrorKind::Corrupt, "accept", format!("channel {channel}"), why))
    }

    /// Refuses a channel, for a reason of at most 64 bytes; what is longer is cut.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: no open came of it, or it was answered, or has ended.
    pub fn refuse(&mut self, channel: ChannelId, reason: &str) -> Result<()> {
        self.hub.acted();
        let index = self.asked("refuse", channel)?;
        let fits = |end: &usize| reason.is_char_boundary(*end);
        let end = (0..=LABEL_BYTES.min(reason.len())).rev().find(fits).unwrap_or(0);
        self.hub.core.finish(index, FrameKind::Refuse, &reason.as_bytes()[..end]);
        Ok(())
    }

    fn asked(&self, operation: &'static str, channel: ChannelId) -> Result<u32> {
        self.hub.check_here()?;
        let index = self.hub.core.find(operation, channel)?;
        if self.hub.core.channels[index as usize].state == State::Asked {
            return Ok(index);
        }
        let object = format!("channel {channel}");
        Err(Error::new(ErrorKind::Invalid, operation, object, "it has been answered"))
    }

    /// Sends bytes on a channel: how many were taken. If not all, a record says so, and another
    /// once there is room; the rest may then be sent, and comes as what goes on with the first. No
    /// bytes are nothing: a mark is set by [`Mpx::end`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more, or it was not accepted.
    /// [`ErrorKind::Closed`]: the peer is gone; a record says so too. [`ErrorKind::Corrupt`]: the
    /// peer has spoilt it, and is shut out. [`ErrorKind::Forked`].
    pub fn send(&mut self, channel: ChannelId, bytes: &[u8]) -> Result<usize> {
        self.hub.check_here()?;
        self.hub.acted();
        self.hub.core.send(channel, bytes)
    }

    /// Sends a mark: whether it was taken.
    ///
    /// # Errors
    /// Those of [`Mpx::send`].
    pub fn end(&mut self, channel: ChannelId) -> Result<bool> {
        self.hub.check_here()?;
        self.hub.acted();
        self.hub.core.send_small("end", channel, FrameKind::End, &[])
    }

    /// Sends a number: whether it was taken.
    ///
    /// # Errors
    /// Those of [`Mpx::send`].
    pub fn signal(&mut self, channel: ChannelId, number: u32) -> Result<bool> {
        self.hub.check_here()?;
        self.hub.acted();
        let bytes = number.to_le_bytes();
        self.hub.core.send_small("signal", channel, FrameKind::Signal, &bytes)
    }

    /// Closes a channel: what was sent on it is still received there, and then that it was closed.
    /// Nothing more comes of it here. One that was not answered is refused. Another mpx that was
    /// joined is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more. [`ErrorKind::Forked`].
    pub fn close(&mut self, channel: ChannelId) -> Result<()> {
        self.hub.check_here()?;
        self.hub.acted();
        let index = self.hub.core.find("close", channel)?;
        match self.hub.core.channels[index as usize].state {
            State::Asked => self.hub.core.finish(index, FrameKind::Refuse, &[]),
            State::Joined => {
                self.hub.children.retain(|(at, _)| *at != index);
                self.hub.core.leave(index);
            }
            _ => self.hub.core.finish(index, FrameKind::Close, &[]),
        }
        Ok(())
    }

    /// Has a channel served before those of higher numbers: 0 to 63, 32 where nothing was said.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more, or no such priority.
    pub fn set_priority(&mut self, channel: ChannelId, priority: u8) -> Result<()> {
        self.hub.check_here()?;
        check_priority(priority)?;
        let core = &mut self.hub.core;
        let index = core.find("set the priority of", channel)?;
        core.channels[index as usize].priority = priority;
        if core.ready.remove(index) {
            core.wake(index);
        }
        Ok(())
    }

    /// From now on what comes on `one` goes to `other`, and back, in the calls that receive, and is
    /// not shown; that a channel has ended is, and ends this.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: one of them is no channel any more, was not accepted, is another
    /// mpx, is connected, or both are one.
    pub fn connect(&mut self, one: ChannelId, other: ChannelId) -> Result<()> {
        self.hub.check_here()?;
        let places = [self.free_to_connect(one)?, self.free_to_connect(other)?];
        if places[0] == places[1] {
            let object = format!("channel {one}");
            return Err(Error::new(ErrorKind::Invalid, "connect", object, "both are the same"));
        }
        let core = &mut self.hub.core;
        for [index, partner] in [places, [places[1], places[0]]] {
            core.channels[index as usize].partner = partner;
            core.wake(index);
        }
        Ok(())
    }

    fn free_to_connect(&self, channel: ChannelId) -> Result<u32> {
        let index = self.hub.core.find("connect", channel)?;
        let entry = &self.hub.core.channels[index as usize];
        if entry.state == State::Open && entry.partner == NONE {
            return Ok(index);
        }
        let why = "it is connected, or not open";
        Err(Error::new(ErrorKind::Invalid, "connect", format!("channel {channel}"), why))
    }

    /// Ends what [`Mpx::connect`] began, from either side: whether it was connected.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more.
    pub fn disconnect(&mut self, channel: ChannelId) -> Result<bool> {
        self.hub.check_here()?;
        let index = self.hub.core.find("disconnect", channel)?;
        Ok(self.hub.core.part(index))
    }

    /// Takes another mpx in as a channel of this one, which it is until it is closed. Its records
    /// come from here, with the path to their channel, and are answered by [`Mpx::joined`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such priority, or there are 32 already.
    /// [`ErrorKind::Forked`].
    pub fn join(&mut self, other: Mpx, priority: u8) -> Result<ChannelId> {
        self.hub.check_here()?;
        other.hub.check_here()?;
        check_priority(priority)?;
        if self.joined_in_all() + other.joined_in_all() + 1 > MOST_JOINED {
            let why = format!("{MOST_JOINED} are the most");
            return Err(Error::new(ErrorKind::Invalid, "join", "another mpx", why));
        }
        let index = self.hub.core.enter(NONE, NONE, State::Joined);
        self.hub.core.channels[index as usize].priority = priority;
        self.hub.children.push((index, other));
        self.hub.core.wake(index);
        Ok(self.hub.core.id(index))
    }

    fn joined_in_all(&self) -> usize {
        let children = &self.hub.children;
        children.len() + children.iter().map(|(_, child)| child.joined_in_all()).sum::<usize>()
    }

    /// The mpx that was joined as this channel.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is none of this channel.
    pub fn joined(&mut self, channel: ChannelId) -> Result<&mut Mpx> {
        let index = self.hub.core.find("use", channel)?;
        let found = self.hub.children.iter_mut().find(|(at, _)| *at == index);
        found.map(|(_, child)| child).ok_or_else(|| super::record::invalid("use", channel))
    }

    /// Who is at the other side of a channel, as the kernel says: the process that connected.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more, or it is another mpx.
    pub fn identity(&self, channel: ChannelId) -> Result<Identity> {
        let index = self.hub.core.find("identify", channel)?;
        let link = self.hub.core.channels[index as usize].link;
        let found = self.hub.core.links.get(link as usize).and_then(Option::as_ref);
        found.map(|link| link.identity).ok_or_else(|| super::record::invalid("identify", channel))
    }

    /// Channels that are open, or to be accepted or refused, those of joined ones not included.
    pub fn channels(&self) -> usize {
        self.hub.core.open_channels()
    }

    /// Peers that are connected, or of whose channels there is something left.
    pub fn peers(&self) -> usize {
        self.hub.core.peers()
    }

    /// For [`crate::Wait`].
    pub(crate) fn hub(&mut self) -> &mut Hub {
        &mut self.hub
    }

    /// A descriptor for poll and epoll: readable while `try_receive_each` has not answered
    /// [`ErrorKind::WouldBlock`], and again once there is something. Not of what is joined.
    ///
    /// # Errors
    /// The kernel has no descriptors. [`ErrorKind::Forked`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.hub.poll_descriptor()
    }
}

fn whole_or_not(taken: bool) -> Taken {
    if taken { Taken::Whole } else { Taken::Bytes(0) }
}

fn check_priority(priority: u8) -> Result<()> {
    if usize::from(priority) < PRIORITIES {
        return Ok(());
    }
    let why = format!("{priority} is out of range: 0 to {}", PRIORITIES - 1);
    Err(Error::new(ErrorKind::Invalid, "set", "the priority of a channel", why))
}
