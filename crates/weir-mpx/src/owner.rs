//! The owner of an mpx.

use super::channels::ChannelState;
use super::home::ParticipantHome;
use super::link_end::NONE;
use super::listener::PeerListener;
use super::record::{Answer, ChannelId, LABEL_BYTES, Taken};
use super::sides::{Mpx, Multiplexer, Owner};
use super::{HELLO, MpxOptions};
use rustix::fs::Mode;
use std::path::Path;
use std::sync::Arc;
use weir::parts::{Acceptor, Inbox, SharedPage, WaitSource, name, name::Subject};
use weir::{Error, ErrorKind, Identity, Result};
use weir_policy::ready::PRIORITIES;
use weir_ring::board::Board;
use weir_ring::lane::FrameKind;

const CREATE: Subject = Subject { operation: "make", noun: "mpx" };
/// The most mpx that can be joined to one, those joined to them included: one sleep waits for all.
const MOST_JOINED: usize = 32;

impl Mpx {
    /// Makes an mpx and listens. `docs/contracts/mpx.md` says what its name means.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: the name has an owner, or is another program's file;
    /// [`ErrorKind::Invalid`]: the name or an option is not valid; those of the kernel.
    pub fn create(name: impl AsRef<Path>, options: &MpxOptions) -> Result<Mpx> {
        options.check()?;
        let path = name::resolve(&CREATE, name.as_ref())?;
        let (file, page) = SharedPage::<Board>::create()?;
        let page = Arc::new(page);
        let inbox = Inbox::new(page.clone());
        let mode = Mode::from_raw_mode(options.mode);
        let acceptor = Acceptor::new(&CREATE, &path, mode, HELLO, &inbox)?;
        let listener = PeerListener { acceptor, page: file, options: options.clone() };
        let home = ParticipantHome::Owner(page);
        home.introduce(&path);
        let inner = Multiplexer::new(home, inbox, Some(listener), options.waiting);
        Ok(Mpx { inner, role: Owner })
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        let listener = self.inner.listener.as_ref();
        listener.map_or(Path::new(""), |listener| listener.acceptor.path())
    }

    /// Gives many answers, and returns what became of each. An answer that fails does not keep the
    /// others from being given.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn answer(&mut self, answers: &[Answer<'_>]) -> Result<Vec<Taken>> {
        self.inner.check_here()?;
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

    /// Accepts a channel. The owner receives what the peer sends on it from now on, and what it has
    /// already sent.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: no such channel was opened, it was already answered, or it has ended.
    /// [`ErrorKind::Corrupt`]: the peer has corrupted its memory, and is shut out.
    pub fn accept(&mut self, channel: ChannelId) -> Result<()> {
        self.inner.act()?;
        let index = self.asked("accept", channel)?;
        let table = &mut self.inner.table;
        table.channels[index].state = ChannelState::Open;
        let number = table.channels[index].number;
        let sound = table.link_of(index).is_none_or(|link| {
            link.ending.is_some() || link.put_last(number, FrameKind::Accept, &[])
        });
        table.wake(index);
        if sound {
            return Ok(());
        }
        table.shut_out(table.channels[index].link);
        let why = "its lane is not empty";
        Err(Error::new(ErrorKind::Corrupt, "accept", format!("channel {channel}"), why))
    }

    /// Refuses a channel, with a reason of at most 64 bytes. A longer one is cut.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: no such channel was opened, it was already answered, or it has ended.
    pub fn refuse(&mut self, channel: ChannelId, reason: &str) -> Result<()> {
        self.inner.act()?;
        let index = self.asked("refuse", channel)?;
        let fits = |end: &usize| reason.is_char_boundary(*end);
        let end = (0..=LABEL_BYTES.min(reason.len())).rev().find(fits).unwrap_or(0);
        self.inner.table.finish(index, FrameKind::Refuse, &reason.as_bytes()[..end]);
        Ok(())
    }

    fn asked(&self, operation: &'static str, channel: ChannelId) -> Result<u32> {
        let index = self.inner.table.channels.find(operation, channel)?;
        if self.inner.table.channels[index].state == ChannelState::Asked {
            return Ok(index);
        }
        let object = format!("channel {channel}");
        Err(Error::new(ErrorKind::Invalid, operation, object, "it has been answered"))
    }

    /// Sets the priority of a channel, 0 to 63: lower numbers are served first. A channel starts
    /// with 32.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the channel has ended, or the priority is out of range.
    pub fn set_priority(&mut self, channel: ChannelId, priority: u8) -> Result<()> {
        self.inner.check_here()?;
        check_priority(priority)?;
        let table = &mut self.inner.table;
        let index = table.channels.find("set the priority of", channel)?;
        table.channels[index].priority = priority;
        table.has_priorities = true;
        if table.ready.remove(index) {
            table.wake(index);
        }
        Ok(())
    }

    /// Connects two channels. From now on the calls that receive send what comes on `one` to
    /// `other`, and the other way round, and do not show it. They still show that a channel has
    /// ended, which ends the connection.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: one of the channels has ended, was not accepted, is another mpx or is
    /// already connected, or both are the same.
    pub fn connect(&mut self, one: ChannelId, other: ChannelId) -> Result<()> {
        self.link_partners(one, other, true)
    }

    /// Connects two channels in one direction. From now on the calls that receive send what comes on
    /// `from` to `to`, and do not show it. What comes on `to` is shown as before, and the owner may
    /// send on `from`. The end of either ends the connection.
    ///
    /// # Errors
    /// Those of [`Mpx::connect`].
    pub fn connect_one_way(&mut self, from: ChannelId, to: ChannelId) -> Result<()> {
        self.link_partners(from, to, false)
    }

    fn link_partners(&mut self, one: ChannelId, other: ChannelId, back: bool) -> Result<()> {
        self.inner.act()?;
        let places = [self.free_to_connect(one)?, self.free_to_connect(other)?];
        if places[0] == places[1] {
            let object = format!("channel {one}");
            return Err(Error::new(ErrorKind::Invalid, "connect", object, "both are the same"));
        }
        let table = &mut self.inner.table;
        for ([index, partner], forwards) in [(places, true), ([places[1], places[0]], back)] {
            let channel = &mut table.channels[index];
            (channel.partner, channel.forwards) = (partner, forwards);
            table.wake(index);
        }
        Ok(())
    }

    fn free_to_connect(&self, channel: ChannelId) -> Result<u32> {
        let index = self.inner.table.channels.find("connect", channel)?;
        let entry = &self.inner.table.channels[index];
        let has_descriptor = entry.has_input || entry.has_output;
        if entry.state == ChannelState::Open && entry.partner == NONE && !has_descriptor {
            return Ok(index);
        }
        let why = "it is not open, or is connected, or has a descriptor";
        Err(Error::new(ErrorKind::Invalid, "connect", format!("channel {channel}"), why))
    }

    /// Disconnects a channel that [`Mpx::connect`] connected, named by either of the two: whether it
    /// was connected.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the channel has ended.
    pub fn disconnect(&mut self, channel: ChannelId) -> Result<bool> {
        self.inner.act()?;
        let index = self.inner.table.channels.find("disconnect", channel)?;
        Ok(self.inner.table.unlink_partner(index))
    }

    /// Joins another mpx to this one, as a channel that lasts until it is closed. Records of the
    /// other mpx are received here, with the path to their channel, and are answered by way of
    /// [`Mpx::joined`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the priority is out of range, or 32 others are already joined.
    /// [`ErrorKind::Forked`].
    pub fn join(&mut self, other: Mpx, priority: u8) -> Result<ChannelId> {
        self.inner.check_here()?;
        other.inner.check_here()?;
        check_priority(priority)?;
        if self.inner.word_count() + other.inner.word_count() > MOST_JOINED + 1 {
            let why = format!("at most {MOST_JOINED} can be joined");
            return Err(Error::new(ErrorKind::Invalid, "join", "another mpx", why));
        }
        let index = self.inner.table.enter(NONE, NONE, ChannelState::Joined);
        self.inner.table.channels[index].priority = priority;
        self.inner.table.has_priorities = true;
        self.inner.children.push((index, other));
        self.inner.table.wake(index);
        Ok(self.inner.table.channels.id(index))
    }

    /// The mpx that was joined as this channel.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: this channel is not a joined mpx.
    pub fn joined(&mut self, channel: ChannelId) -> Result<&mut Mpx> {
        let index = self.inner.table.channels.find("use", channel)?;
        let found = self.inner.children.iter_mut().find(|(at, _)| *at == index);
        found.map(|(_, child)| child).ok_or_else(|| super::record::invalid("use", channel))
    }

    /// The identity of the process that connected the other side of a channel, from the kernel.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the channel has ended, or is another mpx.
    pub fn identity(&self, channel: ChannelId) -> Result<Identity> {
        let index = self.inner.table.channels.find("identify", channel)?;
        let link = self.inner.table.channels[index].link;
        let found = self.inner.table.links.get(link as usize).and_then(Option::as_ref);
        found
            .and_then(|link| link.other.identity)
            .ok_or_else(|| super::record::invalid("identify", channel))
    }

    /// The number of peers that are connected, or whose channels still have something to receive.
    pub fn peers(&self) -> usize {
        self.inner.table.peers()
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
