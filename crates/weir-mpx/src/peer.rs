//! A peer of an mpx.

use super::channels::ChannelState;
use super::home::ParticipantHome;
use super::link_end::{LinkEnd, OpenNumber};
use super::record::{ChannelId, LABEL_BYTES};
use super::sides::{MpxPeer, Multiplexer, Peer};
use super::{HELLO, MpxPeerOptions};
use crate::memory::LinkMap;
use std::path::Path;
use std::sync::Arc;
use weir::parts::{Inbox, Lifeline, hand_over, name, name::Subject, wait_until};
use weir::{Error, ErrorKind, Result};
use weir_ring::Corrupt;
use weir_ring::lane::FrameKind;

const CONNECT: Subject = Subject { operation: "connect to", noun: "mpx" };

impl MpxPeer {
    /// Connects to an mpx. The peer can be used at once, even while the owner is busy.
    ///
    /// # Errors
    /// [`ErrorKind::NoReader`]: nobody has the name; [`ErrorKind::Invalid`]: the name or an option
    /// is not valid; [`ErrorKind::Taken`]: another program has the name; those of the kernel.
    pub fn connect(name: impl AsRef<Path>, options: &MpxPeerOptions) -> Result<MpxPeer> {
        let extent = options.extent()?;
        let path = name::resolve(&CONNECT, name.as_ref())?;
        // Made before the connection, so that the owner need not wait for it.
        let (memory, map) = LinkMap::create(extent)?;
        let map = Arc::new(map);
        let until = wait_until(options.connect_timeout);
        let socket = hand_over(&CONNECT, &path, until, HELLO, &memory)?;
        let inbox = Inbox::new(map.clone());
        let line = Lifeline::start(socket, inbox.clone(), 0)?.exclusive();
        let home = ParticipantHome::Peer(map.clone());
        home.introduce(&path);
        let mut inner = Multiplexer::new(home.clone(), inbox, None, options.waiting);
        inner.table.add_link(0, LinkEnd::new(map, line, home, None));
        Ok(MpxPeer { inner, role: Peer { channels: extent.channels, _memory: memory } })
    }

    /// Opens a channel with a label of at most 64 bytes. What is sent on it waits until the owner
    /// has accepted it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the label is too long. [`ErrorKind::Refused`]: the peer has as many
    /// channels as its options asked for, or the owner has refused this peer.
    /// [`ErrorKind::WouldBlock`]: the owner has not yet read closed channels to their end.
    /// [`ErrorKind::Closed`]: the owner is gone. [`ErrorKind::Forked`].
    pub fn open(&mut self, label: &[u8]) -> Result<ChannelId> {
        self.inner.act()?;
        let failed = |kind, why: String| Err(Error::new(kind, "open", "a channel", why));
        if label.len() > LABEL_BYTES {
            let bytes = label.len();
            let why = format!("its label has {bytes} bytes, more than the limit of {LABEL_BYTES}");
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
            Ok(OpenNumber::Free(number)) => number,
            Ok(OpenNumber::NoRoom) => {
                let why = "the owner has not read closed channels to their end".to_owned();
                return failed(ErrorKind::WouldBlock, why);
            }
            Ok(OpenNumber::None) => {
                let why =
                    format!("this peer has {} channels already, its limit", self.role.channels);
                return failed(ErrorKind::Refused, why);
            }
            Err(Corrupt(what)) => {
                table.shut_out(0);
                return failed(ErrorKind::Corrupt, format!("{what} is invalid"));
            }
        };
        let index = table.enter(0, number, ChannelState::Opening);
        if let Some(link) = table.link_of(index) {
            link.put(number, FrameKind::Open, false, label);
        }
        Ok(table.channels.id(index))
    }

    /// Whether the owner is known to have taken this peer in.
    pub fn is_taken_in(&mut self) -> bool {
        let Ok(()) = self.inner.check_here() else { return false };
        self.inner.table.link(0).is_some_and(|link| {
            if !link.other.has_welcomed() {
                link.other.take_messages();
            }
            link.other.has_welcomed()
        })
    }
}
