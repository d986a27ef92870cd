//! Owners and peers of mpx, and clusters of flags, read from outside.

use super::beginning::{copy_of, copy_of_board};
use super::{Memories, as_seen};
use crate::memory::FirstWords;
use std::mem::offset_of;
use weir_ring::account::ParticipantLine;
use weir_ring::board::Board;
use weir_ring::cluster::{self, Cluster, ClusterLine};
use weir_ring::lane::link::{self, LinkFixed, LinkHeader};

/// The account that an owner or a peer of an mpx keeps about itself.
///
/// ```
/// for mpx in weir::stat::mpxes() {
///     let account: weir::stat::MpxAccount = mpx.account;
///     println!("{} channels, {} records in", account.channels, account.records_in);
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpxAccount {
    /// Its process.
    pub pid: u32,
    /// Peers that are connected. At a peer: 1 while its owner is there.
    pub peers: u64,
    /// Channels, including those that are being opened or closed.
    pub channels: u64,
    /// Bytes of its arenas.
    pub arena_bytes: u64,
    /// Bytes of blocks in its arenas that channels have.
    pub arena_used_bytes: u64,
    /// Records received or moved: data, marks and numbers.
    pub records_in: u64,
    /// Bytes of data in the records received or moved.
    pub bytes_in: u64,
    /// Records sent or moved.
    pub records_out: u64,
    /// Bytes of data in the records sent or moved.
    pub bytes_out: u64,
    /// Sends that were not taken whole.
    pub blocked: u64,
    /// How often a call found nothing and waited.
    pub waits: u64,
    /// Waits that ended by spinning.
    pub spun: u64,
    /// How often it slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Wake-ups that it gave.
    pub wakes_given: u64,
    /// Wake-ups that it got while it slept.
    pub wakes_taken: u64,
    /// Bytes of backlogs in its pool that were chosen to be written to the file, in whole frames, as
    /// the three that follow.
    pub delayed_bytes: u64,
    /// Delayed bytes that were never written, because the receiver came first or memory came free.
    pub cancelled_bytes: u64,
    /// Delayed bytes that were written to the file.
    pub spilled_bytes: u64,
    /// Bytes that were read back from the file.
    pub read_back_bytes: u64,
}

/// The state of one participant of an mpx (of `weir-mpx`) at one moment.
///
/// ```
/// for mpx in weir::stat::mpxes().iter().filter(|mpx| mpx.is_owner) {
///     println!("process {} has {} peers", mpx.account.pid, mpx.account.peers);
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpxStat {
    /// The inode of its memory, which identifies it.
    pub inode: u64,
    /// Whether it is the owner, and not a peer.
    pub is_owner: bool,
    /// Device and inode of the mpx's socket, as the participant reports them. All participants of an
    /// mpx have the same.
    pub socket: (u64, u64),
    /// Its account.
    pub account: MpxAccount,
    /// Processes that hold its memory, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// The state of one shared cluster of flags at one moment.
///
/// ```
/// let _flags = weir::Flags::shared()?;
/// let own = std::process::id() as i32;
/// let clusters = weir::stat::clusters();
/// assert!(clusters.iter().any(|flags| flags.holders.iter().any(|(pid, _)| *pid == own)));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlagsStat {
    /// The inode of its memory, which identifies it.
    pub inode: u64,
    /// The flags that are set.
    pub bits: u64,
    /// Waiters that sleep, or were killed while they slept.
    pub sleepers: u32,
    /// Waits that slept.
    pub waits: u64,
    /// How often these waits slept.
    pub slept: u64,
    /// Time asleep, of all waiters together, in nanoseconds.
    pub slept_ns: u64,
    /// Changes that woke waiters.
    pub wakes_given: u64,
    /// Sleeps that such a change ended.
    pub wakes_taken: u64,
    /// Processes that hold its memory, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// Lists all owners and peers of mpx whose memory this user may open, by mpx, each owner first.
pub fn mpxes() -> Vec<MpxStat> {
    Memories::find().mpxes()
}

/// Lists all shared clusters of flags whose memory this user may open, except those with a name.
/// These are files, and only opening every file would find them.
pub fn clusters() -> Vec<FlagsStat> {
    Memories::find().clusters()
}

impl Memories {
    /// Lists all owners and peers of mpx whose memory this user may open, by mpx, each owner first.
    pub fn mpxes(&self) -> Vec<MpxStat> {
        let found = self.each(&[crate::memory::BOARD, link::FILE], |file, inode| {
            let owner = || {
                let copy = copy_of_board(file)?;
                Some(participant(&copy, offset_of!(Board, mpx), inode, true))
            };
            let peer = || {
                let magic = (offset_of!(LinkFixed, magic), link::MAGIC);
                let version = (offset_of!(LinkFixed, version), link::VERSION);
                let copy = copy_of::<LinkHeader>(file, magic, version)?;
                Some(participant(&copy, offset_of!(LinkHeader, account), inode, false))
            };
            // The board of a port has no such account.
            owner().or_else(peer).filter(|found| found.account.pid != 0)
        });
        let with_holders = found.into_iter().map(|(mut stat, holders)| {
            stat.account.pid = as_seen(stat.account.pid, &holders);
            MpxStat { holders, ..stat }
        });
        let mut found: Vec<MpxStat> = with_holders.collect();
        found.sort_by_key(|stat| (stat.socket, !stat.is_owner, stat.inode));
        found
    }

    /// Lists all shared clusters of flags whose memory this user may open, except those with a name.
    /// These are files, and only opening every file would find them.
    pub fn clusters(&self) -> Vec<FlagsStat> {
        let found = self.each(&[crate::memory::FLAGS], |file, inode| {
            let magic = (offset_of!(Cluster, magic), cluster::MAGIC);
            let version = (offset_of!(Cluster, version), cluster::VERSION);
            let copy = copy_of::<Cluster>(file, magic, version)?;
            let word = |offset: usize| copy.u64(offset_of!(Cluster, account) + offset);
            Some(FlagsStat {
                inode,
                bits: copy.u64(offset_of!(Cluster, bits)),
                sleepers: copy.u32(offset_of!(Cluster, sleepers)),
                waits: word(offset_of!(ClusterLine, waits)),
                slept: word(offset_of!(ClusterLine, slept)),
                slept_ns: word(offset_of!(ClusterLine, slept_ns)),
                wakes_given: word(offset_of!(ClusterLine, wakes_given)),
                wakes_taken: word(offset_of!(ClusterLine, wakes_taken)),
                holders: Vec::new(),
            })
        });
        found.into_iter().map(|(stat, holders)| FlagsStat { holders, ..stat }).collect()
    }
}

fn participant(copy: &FirstWords, at: usize, inode: u64, is_owner: bool) -> MpxStat {
    let word = |offset: usize| copy.u64(at + offset);
    let account = MpxAccount {
        pid: copy.u32(at + offset_of!(ParticipantLine, pid)),
        arena_used_bytes: word(offset_of!(ParticipantLine, arena_used)),
        delayed_bytes: word(offset_of!(ParticipantLine, delayed)),
        cancelled_bytes: word(offset_of!(ParticipantLine, cancelled)),
        spilled_bytes: word(offset_of!(ParticipantLine, spilled)),
        read_back_bytes: word(offset_of!(ParticipantLine, read_back)),
        ..MpxAccount::default()
    };
    let account = fill!(account, word, ParticipantLine: peers channels arena_bytes records_in
        bytes_in records_out bytes_out blocked;
        waiting: waits spun slept slept_ns wakes_given wakes_taken);
    let device = word(offset_of!(ParticipantLine, socket_device));
    let socket = (device, word(offset_of!(ParticipantLine, socket_inode)));
    MpxStat { inode, is_owner, socket, account, holders: Vec::new() }
}
