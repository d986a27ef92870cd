//! Memory that one CPU writes and another then reads: the least time that it takes to move bytes
//! between two CPUs.

use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::sync::atomic::Ordering;
use std::time::Instant;

const BYTES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];
/// The line of the word that says whose turn it is. The buffer begins two lines later.
const TURN: usize = 0;
const BUFFER: usize = 2 * LINE_BYTES;

/// Makes the cases: reading what the other side has just written, and rewriting what was just read.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for (name, reads) in [("hand-over-read", true), ("hand-over-write", false)] {
            let params = Params { chunk_bytes: Some(bytes), ..operation(name) };
            let verb = if reads { "read" } else { "rewrite" };
            let name = format!("hand-over {verb} {}", size(bytes));
            let make = move |site: &Site| hand_over(site, bytes as usize, reads);
            let standard = bytes == 64 << 10;
            cases.push(Case { standard, ..case(name, params, Measure::THROUGHPUT, make) });
        }
    }
    cases
}

/// Both sides spin and take turns. Only the copying of this side is timed.
fn hand_over(site: &Site, bytes: usize, reads: bool) -> MadeWork {
    two_cpus(site)?;
    let shared = std::rc::Rc::new(SharedPages::new(BUFFER + bytes)?);
    let sample: Vec<u8> = (0..bytes).map(|at| at as u8 ^ 0x5a).collect();
    let theirs = shared.clone();
    let mut peer = PeerProcess::start(site, |control| {
        let mut own = sample.clone();
        let mut done = 0;
        loop {
            control.rest(done)?;
            wait_for(&theirs, 1);
            if reads {
                theirs.copy_in(BUFFER, &own);
            } else {
                theirs.copy_out(BUFFER, &mut own);
            }
            done += 1;
            control.report(done)?;
            pass(&theirs, 0);
        }
    })?;
    let mut own = sample.clone();
    work(move |count| {
        peer.rouse(count)?;
        let mut elapsed = 0.0;
        for _ in 0..count {
            pass(&shared, 1);
            wait_for(&shared, 0);
            let begun = Instant::now();
            if reads {
                shared.copy_out(BUFFER, &mut own);
            } else {
                shared.copy_in(BUFFER, &own);
            }
            elapsed += elapsed_ns(begun);
        }
        peer.wait()?;
        if own != sample {
            return Err(CaseError::failed("memory arrived with wrong bytes"));
        }
        Ok(Batch::throughput(elapsed, count * bytes as u64))
    })
}

fn pass(shared: &SharedPages, side: u64) {
    // Release pairs with acquire in `wait_for`: the copying before it is done.
    shared.word(TURN).store(side, Ordering::Release);
}

/// Spins until it is `side`'s turn. Yields now and then, in case both sides share a CPU.
fn wait_for(shared: &SharedPages, side: u64) {
    let mut spins = 0_u32;
    while shared.word(TURN).load(Ordering::Acquire) != side {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(100_000) {
            std::thread::yield_now();
        }
    }
}
