//! Whose blocks give way.

use super::Rule;
use super::blocks::{Blocks, NONE};
use super::stream::Stream;
use super::streams::Streams;

/// The run of dirty blocks that gives way by this rule, at most a cluster: its first, its length.
pub fn run(streams: &Streams, now_ns: u64, rule: Rule, cluster: u32) -> Option<(u32, u32)> {
    let dirty = streams.iter().map(|(_, stream)| stream).filter(|stream| stream.dirty.count > 0);
    let blocks = &streams.blocks;
    let backlog = |of: &Stream| distance(blocks, of.head, of.dirty.last);
    match rule {
        Rule::LongestDrain => {
            let victim = dirty.max_by_key(|of| drain_ns(streams, now_ns, of, backlog(of)))?;
            Some(run_before(blocks, victim.dirty.last, cluster))
        }
        Rule::LongestBacklog => {
            let victim = dirty.max_by_key(|of| backlog(of))?;
            Some(run_before(blocks, victim.dirty.last, cluster))
        }
        Rule::OldestFirst | Rule::WriteThrough | Rule::Bbn => {
            let age = |of: &&Stream| core::cmp::Reverse(blocks[of.dirty.first].age);
            Some(run_behind(blocks, dirty.max_by_key(age)?.dirty.first, cluster))
        }
    }
}

/// When the last dirty block of a stream is expected to be read: the blocks before it at the
/// reader's pace, with the stalls that readers of this pool have, and what is left of this one.
fn drain_ns(streams: &Streams, now_ns: u64, stream: &Stream, blocks: u32) -> u128 {
    let stalls = streams.stalls();
    let each_ns = stream.pace_ns(now_ns) + stalls.each_block_ns();
    let stall_ns = if stream.stalls(now_ns) { stalls.mean_ns() } else { 0 };
    u128::from(blocks) * u128::from(each_ns) + u128::from(stall_ns)
}

/// Blocks that are read before this one is done.
fn distance(blocks: &Blocks, head: u32, block: u32) -> u32 {
    blocks[block].sequence.wrapping_sub(blocks[head].sequence) + 1
}

/// The run of dirty blocks in a row that ends here: its first, its length.
fn run_before(blocks: &Blocks, last: u32, cluster: u32) -> (u32, u32) {
    let (mut first, mut count) = (last, 1);
    while count < cluster {
        let before = blocks.before(first);
        if before == NONE || blocks[before].next != first {
            break;
        }
        (first, count) = (before, count + 1);
    }
    (first, count)
}

/// The run of dirty blocks in a row that begins here.
fn run_behind(blocks: &Blocks, first: u32, cluster: u32) -> (u32, u32) {
    let (mut last, mut count) = (first, 1);
    while count < cluster {
        let after = blocks.after(last);
        if after == NONE || blocks[last].next != after {
            break;
        }
        (last, count) = (after, count + 1);
    }
    (first, count)
}
