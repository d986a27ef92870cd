//! The reasons why a stage was busy.

use crate::facts::{FileAccess, FileWait, FileWaitKind, Peer, Run, Stage};
use crate::load::StageFinding;
use crate::outside::Limit;
use crate::parts::{BusyPart, parts};
use crate::programs;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Parts of a stage's time below this share are not mentioned.
const WORTH: f64 = 0.05;
const MOST: usize = 3;

/// What a stage was busy with.
#[derive(Clone, Debug, PartialEq)]
pub enum Busy {
    /// It started short processes for this share of the run.
    Starting(f64),
    /// It waited for a socket for this share of the run: what is at its other end, and what limited that.
    Outside(Box<Peer>, Limit, f64),
    /// It spent its time on these parts, the largest first, each with its share of the run.
    Parts(Vec<(BusyPart, f64)>),
    /// It keeps to a rate: the same parts, but sleeping, which is its nature, comes first.
    Paced(Vec<(BusyPart, f64)>),
}

/// Returns the parts of a stage's busy time that are worth mentioning.
pub(super) fn busy(run: &Run, stage: &Stage, found: &StageFinding) -> Busy {
    if let Some(share) = found.starting {
        return Busy::Starting(share);
    }
    let file = |kind, ns| {
        let most = |wait: &&FileWait| wait.kind == kind && wait.waited_ns * 2 >= ns;
        let found = stage.files.iter().find(most).cloned();
        let flushed = kind == FileWaitKind::Disk && stage.flushes.waited_ns * 2 >= ns;
        let flush = FileWait { access: FileAccess::Flush, ..FileWait::default() };
        found.or_else(|| flushed.then_some(flush))
    };
    let mut parts = parts(&stage.times, stage.peer.as_ref(), file);
    if programs::encrypts(&stage.label) {
        parts[0].0 = BusyPart::Cipher;
    }
    parts[1].0 = BusyPart::Queue(stage.quota.clone().filter(|_| found.throttled));
    let first = |part: &BusyPart| found.paced && *part == BusyPart::Sleep;
    parts.sort_by_key(|(part, ns)| core::cmp::Reverse((first(part), *ns)));
    let shares = parts.into_iter().map(|(part, ns)| (part, run.share(ns))).enumerate();
    let worth = shares.filter(|(position, (_, share))| *position == 0 || *share >= WORTH);
    let parts: Vec<_> = worth.take(MOST).map(|(_, part)| part).collect();
    match (&parts[0], &found.limit) {
        _ if found.paced => Busy::Paced(parts),
        ((BusyPart::Socket(Some(peer)), share), Some(limit)) => {
            Busy::Outside(peer.clone(), limit.clone(), *share)
        }
        _ => Busy::Parts(parts),
    }
}
