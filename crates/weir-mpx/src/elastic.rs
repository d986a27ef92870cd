//! An mpx, or a peer of one, whose channels have backlogs larger than their lanes.
//!
//! While it keeps up nothing changes. A sender that finds the lane of such a channel full wakes a
//! thread in the process of the receiver, which moves the frames of that lane to the receiver's
//! pool. Frames of a backlog are received before those in the lane, so their order stays.

use super::channels::{ChannelEntry, ChannelState};
use super::home::ParticipantHome;
use super::multiplexer::LOOK_AT_ALL;
use super::overflow::Overflows;
use super::record::{ChannelId, Record};
use super::sides::{Owner, Participant, Peer};
use super::table::ChannelTable;
use rustix::fd::BorrowedFd;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::time::Duration;
use weir::parts::{
    AddDescriptor, Bell, Drainable, Drained, Draining, Pass, Turns, Until, WaitSource, sleep_on,
};
use weir::{Error, ErrorKind, Pool, Result, Timeout, Waitable};
use weir_ring::layout::{SleepLine, WaitCounts};

/// A side of an mpx with a pool, made by [`Participant::elastic`]. What comes on a channel of
/// [`ElasticParticipant::accumulate`] while its lane is full goes to the pool.
///
/// ```
/// use weir_mpx::RecordKind;
/// use weir::{Pool, PoolOptions};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(4 << 20))?;
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?.elastic(&pool)?;
/// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let channel = peer.open(b"log")?;
/// let mut opened = Vec::new();
/// owner.receive_each(&mut [0; 4096], |record| opened.push(record.channel))?;
/// owner.lock()?.accept(opened[0])?;
/// owner.accumulate(opened[0], 2 << 20)?;
/// // Sixteen times what a lane holds, before anybody receives.
/// let mut sent = 0;
/// while sent < 1 << 20 {
///     sent += peer.send(channel, &vec![7; (1 << 20) - sent])?;
/// }
/// let (mut received, mut buffer) = (0, vec![0; 64 << 10]);
/// while received < 1 << 20 {
///     owner.receive_each(&mut buffer, |record| received += record.bytes.len())?;
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct ElasticParticipant<R: std::fmt::Debug + Send + 'static> {
    inner: Draining<Participant<R>>,
}

/// The owner of an mpx with a pool.
///
/// ```
/// use weir_mpx::ElasticMpx;
/// use weir::{Pool, PoolOptions};
/// use weir_mpx::{Mpx, MpxOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let owner: ElasticMpx = Mpx::create(&name, &MpxOptions::new())?.elastic(&pool)?;
/// assert_eq!(owner.backlog_bytes(), 0);
/// # Ok::<(), weir::Error>(())
/// ```
pub type ElasticMpx = ElasticParticipant<Owner>;

/// A peer of an mpx with a pool.
///
/// ```
/// use weir_mpx::ElasticMpxPeer;
/// use weir::{Pool, PoolOptions};
/// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let _owner = Mpx::create(&name, &MpxOptions::new())?;
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
/// let mut peer: ElasticMpxPeer = peer.elastic(&pool)?;
/// let channel = peer.lock()?.open(b"log")?;
/// peer.accumulate(channel, 1 << 20)?;
/// # Ok::<(), weir::Error>(())
/// ```
pub type ElasticMpxPeer = ElasticParticipant<Peer>;

/// A side of an mpx while its thread moves nothing: see [`ElasticParticipant::lock`].
///
/// ```
/// use weir::{Pool, PoolOptions};
/// use weir_mpx::{Mpx, MpxOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("exchange");
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let mut owner = Mpx::create(&name, &MpxOptions::new())?.elastic(&pool)?;
/// assert_eq!(owner.lock()?.peers(), 0);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct Locked<'a, R>(MutexGuard<'a, Participant<R>>);

impl<R> Deref for Locked<'_, R> {
    type Target = Participant<R>;

    fn deref(&self) -> &Participant<R> {
        &self.0
    }
}

impl<R> DerefMut for Locked<'_, R> {
    fn deref_mut(&mut self) -> &mut Participant<R> {
        &mut self.0
    }
}

impl<R: std::fmt::Debug + Send + 'static> Participant<R> {
    /// Gives this side a pool of this process, and a thread that moves there what accumulates on
    /// channels that ask for it.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`]; a thread cannot be started; those of the kernel.
    pub fn elastic(mut self, pool: &Pool) -> Result<ElasticParticipant<R>> {
        self.inner.check_here()?;
        let bell = Bell::new(&self.inner.inbox)?;
        self.inner.table.overflows = Some(Overflows::new(bell));
        Ok(ElasticParticipant { inner: Draining::start(self, pool)? })
    }
}

/// Moves frames of a channel to its backlog if its sender waits for room. Returns whether any were
/// moved as well.
fn overflow(
    table: &mut ChannelTable,
    index: u32,
    pool: &Pool,
    stops: impl Fn() -> bool,
) -> Result<(bool, Drained)> {
    let ChannelEntry { link: at, number, state, .. } = table.channels[index];
    let ChannelTable { links, overflows, home, .. } = table;
    let (Some(overflows), Some(Some(link))) = (overflows, links.get_mut(at as usize)) else {
        return Ok((false, Drained::Done));
    };
    overflows.count(index, home);
    if state != ChannelState::Open || link.ending.is_some() || !link.is_pressed(number) {
        return Ok((false, Drained::Done));
    }
    let drained = overflows.drain((index, number), link, (pool, home), stops)?;
    if drained.0 {
        table.wake(index);
    }
    Ok(drained)
}

impl<R: std::fmt::Debug + Send + 'static> Drainable for Participant<R> {
    type Memory = ParticipantHome;
    const OBJECT: &'static str = "an elastic mpx";
    /// Ready bits and bells are hints, which a hostile peer can keep from coming: so all links are
    /// looked at this often.
    const MOST_SLEEP: Option<Duration> = Some(LOOK_AT_ALL);

    fn memory(&self) -> ParticipantHome {
        self.inner.table.home.clone()
    }

    fn line(home: &ParticipantHome) -> &SleepLine {
        home.sleep()
    }

    /// Moves what is in the lanes of all channels whose senders wait for room.
    fn pass(&mut self, turns: &Turns<Participant<R>>) -> Result<Pass> {
        let inner = &mut self.inner;
        inner.check_here()?;
        let (mut pass, mut acted) = (Pass::default(), false);
        let channels = inner.table.overflows.as_ref().map_or(Vec::new(), Overflows::channels);
        for index in channels {
            if turns.leaves() {
                pass.more = true;
                break;
            }
            let Ok((moved, drained)) =
                overflow(&mut inner.table, index, &turns.pool, || turns.leaves())
            else {
                // Without a backlog its sender waits for the reader.
                continue;
            };
            acted |= moved;
            pass.add(drained);
        }
        if acted {
            inner.acted();
        }
        Ok(pass)
    }

    fn is_ready(&mut self, _: &Turns<Participant<R>>) -> Result<bool> {
        Ok(!self.inner.poll_again()?)
    }

    fn waiting(&mut self) -> Result<&WaitCounts> {
        Ok(&self.inner.table.home.account().waiting)
    }

    fn descriptors(&mut self, add: &mut AddDescriptor) -> Result<()> {
        let overflows = self.inner.table.overflows.as_ref();
        overflows.map_or(Ok(()), |overflows| add(overflows.bell()))?;
        add(Participant::poll_descriptor(self)?)
    }
}

impl<R: std::fmt::Debug + Send + 'static> ElasticParticipant<R> {
    /// Locks it for calls of the side itself. Nothing is moved until this is dropped, so a call that
    /// waits should be one of this type.
    ///
    /// # Errors
    /// [`ErrorKind::Forked`].
    pub fn lock(&mut self) -> Result<Locked<'_, R>> {
        self.inner.enter().map(Locked)
    }

    /// Lets what comes on a channel accumulate: while its lane is full, up to `most_bytes` of it and
    /// 8 bytes for each record go to the pool. A second call changes the limit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the channel has ended, or is another mpx. [`ErrorKind::Forked`].
    pub fn accumulate(&mut self, channel: ChannelId, most_bytes: u64) -> Result<()> {
        let mut side = self.inner.enter()?;
        let table = &mut side.inner.table;
        let index = table.channels.find("let accumulate", channel)?;
        let entry = &mut table.channels[index];
        if entry.state == ChannelState::Joined {
            return Err(super::record::invalid("let accumulate", channel));
        }
        entry.accumulates = true;
        if let Some(overflows) = &mut table.overflows {
            overflows.begin(index, most_bytes);
        }
        Ok(())
    }

    /// Receives what has come, as [`Participant::receive_each`]. While it waits, the lanes of channels
    /// that accumulate are emptied.
    ///
    /// # Errors
    /// Those of [`Participant::receive_each`]. [`ErrorKind::Os`] or [`ErrorKind::Corrupt`]: what comes
    /// next on a channel could not be read back; a later call tries again.
    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        self.receive_each_timeout(buffer, Timeout::Never, see)
    }

    /// Receives what comes within `timeout`, as [`Participant::receive_each_timeout`].
    ///
    /// # Errors
    /// Those of [`Participant::receive_each_timeout`] and [`ElasticParticipant::receive_each`].
    pub fn receive_each_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
        mut see: impl FnMut(Record<'_>),
    ) -> Result<usize> {
        let until = Until::starting(timeout.into());
        // Made before the first look, so that nothing is missed after it.
        self.poll_descriptor()?;
        let mut is_first = true;
        loop {
            let received = self.inner.enter()?.receive_each_timeout(buffer, Timeout::Now, &mut see);
            match received {
                Err(error) if error.kind() == ErrorKind::WouldBlock && until != Until::Now => {}
                received => return received,
            }
            if until.is_over() {
                let why = "nothing came in time";
                return Err(Error::new(ErrorKind::TimedOut, "read from", "the mpx", why));
            }
            if sleep_on(&mut self.inner, until)?.is_some() && std::mem::take(&mut is_first) {
                self.inner.count_wait();
            }
        }
    }

    /// Bytes in the backlogs of all channels, with 8 bytes for each record; 0 in a forked child.
    pub fn backlog_bytes(&self) -> u64 {
        let Ok(side) = self.inner.enter() else { return 0 };
        side.inner.table.overflows.as_ref().map_or(0, Overflows::bytes)
    }

    /// A descriptor for poll and epoll, as [`Participant::poll_descriptor`].
    ///
    /// # Errors
    /// The kernel has no descriptors left. [`ErrorKind::Forked`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.inner.poll_descriptor()
    }
}

impl<R: std::fmt::Debug + Send + 'static> Waitable for ElasticParticipant<R> {
    fn source(&mut self) -> &mut dyn WaitSource {
        &mut self.inner
    }

    fn descriptor_to_poll(&mut self) -> Result<BorrowedFd<'_>> {
        self.poll_descriptor()
    }
}
