//! Owners and peers of mpxes, and clusters of flags, read from outside.

use super::beginning::Beginning;
use super::each_memory;
use std::mem::offset_of;
use weir_ring::account::ParticipantLine;
use weir_ring::board::{self, Board};
use weir_ring::cluster::{self, Cluster, ClusterLine};
use weir_ring::lane::link::{self, LinkFixed, LinkHeader};

/// What an owner or a peer of an mpx says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpxAccount {
    /// The process it is in.
    pub pid: u32,
    /// Peers that are connected; of a peer 1 while its owner is there.
    pub peers: u64,
    /// Channels, also those that are being opened or closed.
    pub channels: u64,
    /// Bytes of the arenas it disposes of.
    pub arena_bytes: u64,
    /// Of these, bytes of blocks that channels have.
    pub arena_used_bytes: u64,
    /// Records received or moved: data, marks and numbers.
    pub records_in: u64,
    /// Bytes of data in these.
    pub bytes_in: u64,
    /// Records sent or moved.
    pub records_out: u64,
    /// Bytes of data in these.
    pub bytes_out: u64,
    /// Sends that were not taken whole.
    pub blocked: u64,
    /// Times a call found nothing and waited.
    pub waits: u64,
    /// Of these, ended by spinning.
    pub spun: u64,
    /// Times it slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Wake-ups it gave.
    pub wakes_given: u64,
    /// Wake-ups it was given while it slept.
    pub wakes_taken: u64,
}

/// One participant of an mpx at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpxStat {
    /// The inode of its memory, by which it is known.
    pub inode: u64,
    /// Whether it is the owner, and not a peer.
    pub is_owner: bool,
    /// Device and inode of the mpx's socket, as the participant says: the same for all of one mpx.
    pub socket: (u64, u64),
    /// What it has counted.
    pub account: MpxAccount,
    /// Processes that hold its memory, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// One shared cluster of flags at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlagsStat {
    /// The inode of its memory, by which it is known.
    pub inode: u64,
    /// The flags that are set.
    pub bits: u64,
    /// Waiters that sleep, or were killed while they did.
    pub sleepers: u32,
    /// Waits that slept.
    pub waits: u64,
    /// Times they slept.
    pub slept: u64,
    /// Time asleep, of all together, in nanoseconds.
    pub slept_ns: u64,
    /// Changes that woke whoever slept.
    pub wakes_given: u64,
    /// Sleeps that were ended so.
    pub wakes_taken: u64,
    /// Processes that hold its memory, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// All owners and peers of mpxes whose memory this user may open, by mpx, each owner first.
pub fn mpxes() -> Vec<MpxStat> {
    let found = each_memory(&[crate::memory::BOARD, crate::memory::LINK], |file, inode| {
        let owner = || {
            let copy = Beginning::of(file, size_of::<Board>())?;
            let is_board = copy.u64(offset_of!(Board, magic)) == board::MAGIC
                && copy.u32(offset_of!(Board, version)) == board::VERSION;
            is_board.then(|| participant(&copy, offset_of!(Board, mpx), inode, true))
        };
        let peer = || {
            let copy = Beginning::of(file, size_of::<LinkHeader>())?;
            let is_link = copy.u64(offset_of!(LinkFixed, magic)) == link::MAGIC
                && copy.u32(offset_of!(LinkFixed, version)) == link::VERSION;
            is_link.then(|| participant(&copy, offset_of!(LinkHeader, account), inode, false))
        };
        // The board of a port has no such account.
        owner().or_else(peer).filter(|found| found.account.pid != 0)
    });
    let with_holders = found.into_iter().map(|(stat, holders)| MpxStat { holders, ..stat });
    let mut found: Vec<MpxStat> = with_holders.collect();
    found.sort_by_key(|stat| (stat.socket, !stat.is_owner, stat.inode));
    found
}

fn participant(copy: &Beginning, at: usize, inode: u64, is_owner: bool) -> MpxStat {
    let word = |offset: usize| copy.u64(at + offset);
    let account = MpxAccount {
        pid: copy.u32(at + offset_of!(ParticipantLine, pid)),
        peers: word(offset_of!(ParticipantLine, peers)),
        channels: word(offset_of!(ParticipantLine, channels)),
        arena_bytes: word(offset_of!(ParticipantLine, arena_bytes)),
        arena_used_bytes: word(offset_of!(ParticipantLine, arena_used)),
        records_in: word(offset_of!(ParticipantLine, records_in)),
        bytes_in: word(offset_of!(ParticipantLine, bytes_in)),
        records_out: word(offset_of!(ParticipantLine, records_out)),
        bytes_out: word(offset_of!(ParticipantLine, bytes_out)),
        blocked: word(offset_of!(ParticipantLine, blocked)),
        waits: word(offset_of!(ParticipantLine, waits)),
        spun: word(offset_of!(ParticipantLine, spun)),
        slept: word(offset_of!(ParticipantLine, slept)),
        slept_ns: word(offset_of!(ParticipantLine, slept_ns)),
        wakes_given: word(offset_of!(ParticipantLine, wakes_given)),
        wakes_taken: word(offset_of!(ParticipantLine, wakes_taken)),
    };
    let device = word(offset_of!(ParticipantLine, socket_device));
    let socket = (device, word(offset_of!(ParticipantLine, socket_inode)));
    MpxStat { inode, is_owner, socket, account, holders: Vec::new() }
}

/// All shared clusters of flags whose memory this user may open. Those with a name are files, which
/// cannot be told from others without opening them all.
pub fn clusters() -> Vec<FlagsStat> {
    let found = each_memory(&[crate::memory::FLAGS], |file, inode| {
        let copy = Beginning::of(file, size_of::<Cluster>())?;
        let is_cluster = copy.u64(offset_of!(Cluster, magic)) == cluster::MAGIC
            && copy.u32(offset_of!(Cluster, version)) == cluster::VERSION;
        let word = |offset: usize| copy.u64(offset_of!(Cluster, account) + offset);
        is_cluster.then(|| FlagsStat {
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
