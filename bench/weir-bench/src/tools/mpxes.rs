//! One channel of an mpx. Each side opens its end when it first uses it, because a process with an mpx
//! has threads and must not be forked.

use super::own::trouble;
use super::place::Meeting;
use crate::engine::case::CaseError;
use std::cell::RefCell;
use std::time::Duration;
use weir_mpx::{ChannelId, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

/// How long a sender waits for the owner to appear.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that the owner takes in one call.
const TAKEN_BYTES: usize = 64 << 10;

/// An mpx with a channel: its owner receives, its peer sends.
#[derive(Debug)]
pub struct LazyMpx {
    meeting: Meeting,
    owner: RefCell<Option<Receiving>>,
    peer: RefCell<Option<Sending>>,
}

#[derive(Debug)]
struct Receiving {
    mpx: Mpx,
    buffer: Vec<u8>,
    /// Bytes that came and were not asked for yet, and how many of them were taken.
    pending: Vec<u8>,
    taken: usize,
}

#[derive(Debug)]
struct Sending {
    mpx: MpxPeer,
    channel: ChannelId,
}

impl LazyMpx {
    /// Chooses a name; neither end is open yet.
    pub fn new() -> Result<LazyMpx, CaseError> {
        let (meeting, owner, peer) = (Meeting::new()?, RefCell::new(None), RefCell::new(None));
        Ok(LazyMpx { meeting, owner, peer })
    }

    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), CaseError> {
        let mut peer = self.peer.borrow_mut();
        if peer.is_none() {
            *peer = Some(self.open()?);
        }
        let Some(Sending { mpx, channel }) = &mut *peer else { return Err(closed()) };
        let mut left = bytes;
        loop {
            left = &left[mpx.send(*channel, left).map_err(trouble)?..];
            if left.is_empty() {
                return Ok(());
            }
            if self.meeting.has_both() {
                // Nobody else makes room.
                let mut owner = self.owner.borrow_mut();
                self.receiving(&mut owner)?.take()?;
                continue;
            }
            // Waits until the channel has room again.
            mpx.receive_each(&mut [0; 64], |_| {}).map_err(trouble)?;
        }
    }

    #[cold]
    fn open(&self) -> Result<Sending, CaseError> {
        if self.meeting.has_both() {
            // A process that sends to itself needs its owner first.
            let mut owner = self.owner.borrow_mut();
            self.receiving(&mut owner)?;
        }
        let options = MpxPeerOptions::new().connect_timeout(PATIENCE);
        let mut mpx = MpxPeer::connect(self.meeting.place().name(), &options).map_err(trouble)?;
        let channel = mpx.open(b"").map_err(trouble)?;
        Ok(Sending { mpx, channel })
    }

    fn receiving<'r>(
        &self,
        owner: &'r mut Option<Receiving>,
    ) -> Result<&'r mut Receiving, CaseError> {
        if owner.is_none() {
            let mpx =
                Mpx::create(self.meeting.place().name(), &MpxOptions::new()).map_err(trouble)?;
            let buffer = vec![0; TAKEN_BYTES];
            *owner = Some(Receiving { mpx, buffer, pending: Vec::new(), taken: 0 });
        }
        owner.as_mut().ok_or_else(closed)
    }

    /// Fills `bytes` and returns their number.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<usize, CaseError> {
        self.receiving(&mut self.owner.borrow_mut())?.fill(bytes)
    }
}

impl Receiving {
    #[inline]
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, CaseError> {
        while self.pending.len() - self.taken < bytes.len() {
            self.pending.drain(..self.taken);
            self.taken = 0;
            self.take()?;
        }
        let end = self.taken + bytes.len();
        bytes.copy_from_slice(&self.pending[self.taken..end]);
        self.taken = end;
        Ok(bytes.len())
    }

    /// Takes all that is there, at least one record.
    fn take(&mut self) -> Result<(), CaseError> {
        let (pending, mut asking, mut gone) = (&mut self.pending, None, false);
        let received = self.mpx.receive_each(&mut self.buffer, |record| match record.kind {
            RecordKind::Open => asking = Some(record.channel),
            RecordKind::Data => pending.extend_from_slice(record.bytes),
            RecordKind::Close(_) => gone = true,
            _ => {}
        });
        received.map_err(trouble)?;
        if let Some(channel) = asking {
            self.mpx.accept(channel).map_err(trouble)?;
        }
        if gone { Err(CaseError::failed("the other side ended")) } else { Ok(()) }
    }
}

#[cold]
fn closed() -> CaseError {
    CaseError::failed("the end is not open")
}
