//! A peer of an mpx: what its user calls.

use super::home::Home;
use super::link_end::LinkEnd;
use super::participant::Participant;
use super::record::{ChannelId, LABEL_BYTES, Record};
use super::table::State;
use super::waiting::Waiter;
use super::{HELLO, MpxOptions};
use crate::connect::acceptor::hand_over;
use crate::connect::lifeline::Lifeline;
use crate::connect::name::{self, Subject};
use crate::connect::peer::Identity;
use crate::connect::site::Inbox;
use crate::connect::wait::Waitable;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::LinkMap;
use crate::park::{Source, Until};
use rustix::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_ring::Corrupt;
use weir_ring::lane::FrameKind;
use weir_sys::forks::ParentOnly;

const CONNECT: Subject = Subject { operation: "connect to", noun: "mpx" };

/// One that is connected to an mpx, and opens channels there. Dropping it ends them; the owner
/// still receives what was sent.
#[derive(Debug)]
pub struct MpxPeer {
    pub(super) inner: Participant,
    channels: u32,
    /// The link's memory, by which others find its account.
    _memory: ParentOnly,
}

impl MpxPeer {
    /// Connects, and can be used at once, also while the owner does something else.
    ///
    /// # Errors
    /// [`ErrorKind::NoReader`]: nobody has the name; [`ErrorKind::Invalid`]: the name or an option
    /// cannot be; [`ErrorKind::Taken`]: another program has the name; the kernel's.
    pub fn connect(name: impl AsRef<Path>, options: &MpxOptions) -> Result<MpxPeer> {
        let extent = options.peer_extent()?;
        let path = name::resolve(&CONNECT, name.as_ref())?;
        // First, so that the owner does not wait for it.
        let (memory, map) = LinkMap::create(extent)?;
        let map = Arc::new(map);
        let until = options.owner_time.and_then(|time| Instant::now().checked_add(time));
        let socket = hand_over(&CONNECT, &path, until, HELLO, &memory)?;
        let inbox = Inbox::new(map.clone());
        let line = Lifeline::start(socket, inbox.clone(), 0)?.exclusive();
        let home = Home::Peer(map.clone());
        home.introduce(&path);
        let mut inner = Participant::new(home.clone(), inbox, None, options.waiting);
        let nobody = Identity { pid: 0, uid: 0, gid: 0 };
        inner.table.add_link(0, LinkEnd::new(map, line, home, nobody));
        Ok(MpxPeer { inner, channels: extent.channels, _memory: memory })
    }

    /// Opens a channel, of a label of at most 64 bytes. What is sent on it waits until the owner
    /// has accepted it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the label is too long. [`ErrorKind::Refused`]: there are as many
    /// channels as were asked for, or the owner has not taken this peer. [`ErrorKind::WouldBlock`]:
    /// the owner has not yet read to the end of those that were closed. [`ErrorKind::Closed`]: the
    /// owner is gone. [`ErrorKind::Forked`].
    pub fn open(&mut self, label: &[u8]) -> Result<ChannelId> {
        self.inner.act()?;
        let failed = |kind, why: String| Err(Error::new(kind, "open", "a channel", why));
        if label.len() > LABEL_BYTES {
            let why = format!("its label has {} bytes, {LABEL_BYTES} are the most", label.len());
            return failed(ErrorKind::Invalid, why);
        }
        let table = &mut self.inner.table;
        if let Some(why) = &table.refusal {
            return failed(ErrorKind::Refused, why.clone());
        }
        let Some(link) = table.link(0).filter(|link| link.ending.is_none()) else {
            return failed(ErrorKind::Closed, "the owner is gone".to_owned());
        };
        let number = match link.number_for_open(label.len()) {
            Ok(Ok(number)) => number,
            Ok(Err(true)) => {
                let why = "the owner has not read what came before".to_owned();
                return failed(ErrorKind::WouldBlock, why);
            }
            Ok(Err(false)) => {
                let why = format!("there are {} already, as were asked for", self.channels);
                return failed(ErrorKind::Refused, why);
            }
            Err(Corrupt(what)) => {
                table.shut_out(0);
                return failed(ErrorKind::Corrupt, format!("{what} is invalid"));
            }
        };
        let index = table.enter(0, number, State::Opening);
        if let Some(link) = table.link_of(index) {
            link.put(number, FrameKind::Open, false, label);
        }
        Ok(table.id(index))
    }

    /// Receives what has come of channels, as [`super::Mpx::receive_each`].
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the owner is gone, and all that came from it was received.
    /// [`ErrorKind::Refused`]: it has not taken this peer; why is in the text. Those of
    /// [`super::Mpx::receive_each`].
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        Waiter(&mut self.inner).receive(buffer, Until::Ever, &mut each)
    }

    /// The same, if something has come.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing has. Those of [`MpxPeer::receive_each`].
    pub fn try_receive_each(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        Waiter(&mut self.inner).receive(buffer, Until::Now, &mut each)
    }

    /// The same, if something comes in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing did. Those of [`MpxPeer::receive_each`].
    pub fn receive_each_for(
        &mut self,
        buffer: &mut [u8],
        time: Duration,
        mut each: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        Waiter(&mut self.inner).receive(buffer, Until::after(time), &mut each)
    }

    /// Sends bytes on a channel, as [`super::Mpx::send`].
    ///
    /// # Errors
    /// Those of [`super::Mpx::send`].
    pub fn send(&mut self, channel: ChannelId, bytes: &[u8]) -> Result<usize> {
        self.inner.act()?;
        Ok(self.inner.table.send("send on", channel, FrameKind::Data, bytes)?.0)
    }

    /// Sends a mark: whether it was taken.
    ///
    /// # Errors
    /// Those of [`super::Mpx::send`].
    pub fn end(&mut self, channel: ChannelId) -> Result<bool> {
        self.inner.act()?;
        Ok(self.inner.table.send("end", channel, FrameKind::End, &[])?.1)
    }

    /// Sends a number: whether it was taken.
    ///
    /// # Errors
    /// Those of [`super::Mpx::send`].
    pub fn signal(&mut self, channel: ChannelId, number: u32) -> Result<bool> {
        self.inner.act()?;
        Ok(self.inner.table.send("signal", channel, FrameKind::Signal, &number.to_le_bytes())?.1)
    }

    /// Closes a channel, as [`super::Mpx::close`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: there is no such channel any more. [`ErrorKind::Forked`].
    pub fn close(&mut self, channel: ChannelId) -> Result<()> {
        self.inner.act()?;
        let index = self.inner.table.find("close", channel)?;
        self.inner.table.finish(index, FrameKind::Close, &[]);
        Ok(())
    }

    /// Channels that are open, or being opened.
    pub fn channels(&self) -> usize {
        self.inner.table.open_channels()
    }

    /// Whether the owner has taken this peer in, as far as was heard.
    pub fn is_taken_in(&mut self) -> bool {
        let Ok(()) = self.inner.check_here() else { return false };
        self.inner.table.link(0).is_some_and(|link| {
            if !link.is_welcome() {
                link.hear();
            }
            link.is_welcome()
        })
    }

    /// A descriptor for poll and epoll, as [`super::Mpx::poll_descriptor`].
    ///
    /// # Errors
    /// Those of [`super::Mpx::poll_descriptor`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.inner.poll_descriptor()
    }
}

impl Waitable for MpxPeer {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.inner
    }
}
