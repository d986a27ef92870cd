//! Owners and peers of an mpx, as streams of records.

use super::Registered;
use crate::error::Result;
use crate::mpx::{ChannelId, Kind, Mpx, MpxPeer, Record};
use futures_core::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Bytes of the buffer: longer data comes in several records, as it does where the buffer of
/// [`Mpx::receive_each`] is short.
const BUFFER_BYTES: usize = 64 << 10;

/// A record of an mpx, kept: see [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpxRecord {
    /// The channel, of the participant that the path leads to.
    pub channel: ChannelId,
    /// The way there, of what came by another mpx that was joined.
    pub path: Vec<ChannelId>,
    /// What it is.
    pub kind: Kind,
    /// Of data: the rest follows.
    pub more: bool,
    /// Data, label or reason.
    pub bytes: Vec<u8>,
}

impl From<Record<'_>> for MpxRecord {
    fn from(record: Record<'_>) -> MpxRecord {
        let Record { channel, path, kind, more, bytes } = record;
        MpxRecord { channel, path: path.to_vec(), kind, more, bytes: bytes.to_vec() }
    }
}

macro_rules! stream {
    ($stream:ident, $end:ty, $what:literal) => {
        #[doc = concat!("The records of ", $what, ". Sending does not wait, so that it is done by")]
        /// the end itself, between two records.
        #[derive(Debug)]
        pub struct $stream {
            registered: Registered,
            end: $end,
            buffer: Vec<u8>,
            received: VecDeque<MpxRecord>,
        }

        impl $stream {
            /// Takes an end over.
            ///
            /// # Errors
            /// The kernel has no descriptors; this is no runtime with I/O.
            pub fn new(mut end: $end) -> Result<$stream> {
                let registered = Registered::new(end.poll_descriptor()?)?;
                let (buffer, received) = (vec![0; BUFFER_BYTES], VecDeque::new());
                Ok($stream { registered, end, buffer, received })
            }

            /// The end, to answer with.
            pub fn end(&mut self) -> &mut $end {
                &mut self.end
            }

            /// Gives the end back, and what was received and not yet taken.
            pub fn into_inner(self) -> ($end, VecDeque<MpxRecord>) {
                (self.end, self.received)
            }
        }

        impl Stream for $stream {
            type Item = Result<MpxRecord>;

            fn poll_next(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Self::Item>> {
                let $stream { registered, end, buffer, received } = self.get_mut();
                if received.is_empty() {
                    ready!(registered.poll(context, || {
                        end.try_receive_each(buffer, |record| received.push_back(record.into()))
                    }))?;
                }
                Poll::Ready(received.pop_front().map(Ok))
            }
        }
    };
}

stream!(MpxStream, Mpx, "an owner");
stream!(MpxPeerStream, MpxPeer, "a peer");
