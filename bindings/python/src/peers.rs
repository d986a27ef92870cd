//! The processes of a queue: who has it open, and who died with it.

use crate::memory::{Header, Peer};
use std::sync::atomic::{AtomicU32, Ordering};

/// Nobody has this place.
const FREE: u32 = 0;
/// Its process is filling it in.
const COMING: u32 = 1;
/// Its process has the queue open.
const OPEN: u32 = 2;
/// Its process has ended by an error of its program.
const FAILED: u32 = 3;

/// How a process went, and what it had done.
pub struct Gone {
    /// Its place, with its start: what tells this end from others.
    pub key: (usize, u64),
    pub pid: u32,
    /// It ended by an error, and was not killed.
    pub failed: bool,
    pub put: u64,
    pub got: u64,
}

/// Takes a place for this process. `None` if there are too many processes.
pub fn join(header: &Header) -> Option<usize> {
    let pid = std::process::id();
    let start = start_of(pid).unwrap_or(0);
    let take = |peer: &Peer, from| {
        peer.state.compare_exchange(from, COMING, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let mut places = header.peers.iter();
    // Those that died keep their places, for all to hear of it, as long as there are others.
    let place = places
        .position(|peer| take(peer, FREE))
        .or_else(|| header.peers.iter().position(|peer| has_died(peer) && take(peer, OPEN)))?;
    let peer = &header.peers[place];
    peer.pid.store(pid, Ordering::Relaxed);
    peer.start.store(start, Ordering::Relaxed);
    peer.put.store(0, Ordering::Relaxed);
    peer.got.store(0, Ordering::Relaxed);
    // Release: who finds it open finds the rest.
    peer.state.store(OPEN, Ordering::Release);
    Some(place)
}

/// Gives the place back, or says that this process has failed.
pub fn leave(header: &Header, place: usize, failed: bool) {
    let state = if failed { FAILED } else { FREE };
    header.peers[place].state.store(state, Ordering::Release);
}

/// The processes that are gone and did not close the queue.
pub fn gone(header: &Header) -> impl Iterator<Item = Gone> {
    let of = |state: &AtomicU32| state.load(Ordering::Acquire);
    header.peers.iter().enumerate().filter_map(move |(place, peer)| {
        let failed = match of(&peer.state) {
            FAILED => true,
            OPEN if has_died(peer) => false,
            _ => return None,
        };
        Some(Gone {
            key: (place, peer.start.load(Ordering::Relaxed)),
            pid: peer.pid.load(Ordering::Relaxed),
            failed,
            put: peer.put.load(Ordering::Relaxed),
            got: peer.got.load(Ordering::Relaxed),
        })
    })
}

fn has_died(peer: &Peer) -> bool {
    let (pid, start) = (peer.pid.load(Ordering::Relaxed), peer.start.load(Ordering::Relaxed));
    // Without a start it is not known, as where /proc is not mounted.
    pid != std::process::id() && start != 0 && start_of(pid) != Some(start)
}

/// When a process that lives started, in ticks since boot.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    // A process that was not waited for yet has ended all the same.
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
