//! Whose blocks give way.

use super::Rule;
use super::blocks::{Blocks, NONE, follow};
use super::stream::PoolStream;
use super::streams::Streams;

/// Chooses a run of at most a cluster of dirty blocks to give way. Returns its first and its length.
pub fn run(streams: &Streams, now_ns: u64, rule: Rule, cluster: u32) -> Option<(u32, u32)> {
    let dirty = streams.iter().map(|(_, stream)| stream).filter(|stream| stream.dirty.count > 0);
    let blocks = &streams.blocks;
    let backlog = |of: &PoolStream| distance(blocks, of.head, of.dirty.last);
    match rule {
        Rule::LongestDrain => {
            let victim = dirty.max_by_key(|of| drain_ns(streams, now_ns, of, backlog(of)))?;
            Some(run_before(blocks, victim.dirty.last, cluster))
        }
        Rule::LongestBacklog => {
            let victim = dirty.max_by_key(|of| backlog(of))?;
            Some(run_before(blocks, victim.dirty.last, cluster))
        }
        Rule::OldestFirst | Rule::WriteThrough | Rule::Synchronous | Rule::Bbn => {
            let age = |of: &&PoolStream| core::cmp::Reverse(blocks[of.dirty.first].age);
            Some(dirty_run(blocks, dirty.max_by_key(age)?.dirty.first, cluster))
        }
    }
}

/// Estimates when the last dirty block of a stream will be read: the blocks before it at the
/// reader's pace, with the usual stalls of this pool's readers, and the rest of a present stall.
fn drain_ns(streams: &Streams, now_ns: u64, stream: &PoolStream, blocks: u32) -> u128 {
    let stalls = streams.stalls();
    let each_ns = stream.pace_ns(now_ns) + stalls.each_block_ns();
    let stall_ns = if stream.stalls(now_ns) { stalls.mean_ns() } else { 0 };
    u128::from(blocks) * u128::from(each_ns) + u128::from(stall_ns)
}

/// Returns the number of blocks that are read until this one is done.
fn distance(blocks: &Blocks, head: u32, block: u32) -> u32 {
    blocks[block].sequence.wrapping_sub(blocks[head].sequence) + 1
}

/// Returns the run of dirty blocks in a row that ends here: its first, and its length.
fn run_before(blocks: &Blocks, last: u32, cluster: u32) -> (u32, u32) {
    follow(last, cluster, |at| {
        let before = blocks.before(at);
        (before != NONE && blocks[before].next == at).then_some(before)
    })
}

/// Returns the run of dirty blocks in a row that begins here.
fn dirty_run(blocks: &Blocks, first: u32, cluster: u32) -> (u32, u32) {
    let (_, count) = follow(first, cluster, |at| {
        let after = blocks.after(at);
        (after != NONE && blocks[at].next == after).then_some(after)
    });
    (first, count)
}
