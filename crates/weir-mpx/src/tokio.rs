//! Owners and peers of an mpx, as streams of records.

use crate::{ChannelId, Participant, Record, RecordKind};
use futures_core::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use weir::parts::{Registered, item};
use weir::{Result, Timeout};

/// Bytes of the buffer. Longer data comes in several records.
const BUFFER_BYTES: usize = 64 << 10;

/// A record of an mpx that owns its bytes: see [`Record`].
///
/// ```
/// use futures::StreamExt;
/// use weir_mpx::tokio::{MpxRecord, MpxStream};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let name = directory.path().join("exchange");
/// let mut records = MpxStream::new(Mpx::create(&name, &MpxOptions::new())?)?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"log")?;
/// let record: MpxRecord = records.next().await.transpose()?.ok_or("no record")?;
/// assert_eq!(record.bytes, b"log");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpxRecord {
    /// The channel, as named by the participant that the path leads to.
    pub channel: ChannelId,
    /// The way to a joined mpx, as in [`Record::path`].
    pub path: Vec<ChannelId>,
    /// The kind.
    pub kind: RecordKind,
    /// With data: the rest follows.
    pub more: bool,
    /// The data, label or reason.
    pub bytes: Vec<u8>,
}

impl From<Record<'_>> for MpxRecord {
    fn from(record: Record<'_>) -> MpxRecord {
        let Record { channel, path, kind, more, bytes } = record;
        MpxRecord { channel, path: path.to_vec(), kind, more, bytes: bytes.to_vec() }
    }
}

/// The records of an owner or a peer of an mpx. Send by [`MpxStream::end`] between two records:
/// sending does not wait. The stream of a peer ends once its owner is gone.
///
/// ```
/// use futures::StreamExt;
/// use weir_mpx::RecordKind;
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let name = directory.path().join("exchange");
/// let owner = Mpx::create(&name, &MpxOptions::new())?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// peer.open(b"greetings")?;
/// let mut records = weir_mpx::tokio::MpxStream::new(owner)?;
/// let record = records.next().await.transpose()?.ok_or("no record")?;
/// assert_eq!((record.kind, &record.bytes[..]), (RecordKind::Open, &b"greetings"[..]));
/// records.end().accept(record.channel)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MpxStream<R> {
    registered: Registered,
    end: Participant<R>,
    buffer: Vec<u8>,
    received: VecDeque<MpxRecord>,
    was_told: bool,
}

impl<R> MpxStream<R> {
    /// Makes a stream of a participant.
    ///
    /// # Errors
    /// The kernel has no descriptors left; there is no runtime, or one without I/O.
    pub fn new(mut end: Participant<R>) -> Result<MpxStream<R>> {
        let registered = Registered::new(end.poll_descriptor()?)?;
        let (buffer, received) = (vec![0; BUFFER_BYTES], VecDeque::new());
        Ok(MpxStream { registered, end, buffer, received, was_told: false })
    }

    /// The participant, to answer records.
    pub fn end(&mut self) -> &mut Participant<R> {
        &mut self.end
    }

    /// Gives the participant back, with the records that were received and not yet taken.
    pub fn into_inner(self) -> (Participant<R>, VecDeque<MpxRecord>) {
        (self.end, self.received)
    }
}

impl<R: Unpin> Stream for MpxStream<R> {
    type Item = Result<MpxRecord>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let MpxStream { registered, end, buffer, received, was_told } = self.get_mut();
        if received.is_empty() {
            let outcome = ready!(registered.poll(context, || {
                let keep = |record: Record<'_>| received.push_back(record.into());
                end.receive_each_timeout(buffer, Timeout::Now, keep)
            }));
            if let Err(error) = outcome {
                return Poll::Ready(item(Err(error), was_told));
            }
        }
        Poll::Ready(received.pop_front().map(Ok))
    }
}
