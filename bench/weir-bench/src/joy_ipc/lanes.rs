//! The lower bound for records through an mpx: the loads and stores of eight lanes without a library.
//!
//! A lane is laid out as weir's: a line that the writer stores to, a line that the reader stores to, a
//! line that says whether the reader looks, and a ring of frames, each with a word before its bytes.
//! For each record this code reads and writes what an mpx reads and writes, and the reader lets the
//! writer run ahead as an mpx does, but each time. It omits the checks of what a hostile side may have
//! written, the table of channels, their turns, the accounts, and every way to sleep.

use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LANES: usize = 8;
/// How long the reader waits after each look at all lanes that has found something: a microsecond for
/// each lane. An mpx waits up to four times as long.
const HEAD_START: Duration = Duration::from_micros(LANES as u64);
/// Frames of a ring. An mpx gives a busy lane a ring of 64 KiB; here no frame wraps around its end.
const FRAMES: usize = 960;
const HEAD_BYTES: usize = 4;
/// Bytes between two lanes, enough for records of 64 bytes.
const STRIDE: usize = 4 * LINE_BYTES + (64 << 10);
/// The kind of a frame of data, as it is in its head.
const DATA: u32 = 4 << 16;
/// The offset of the word that says whether the reader looks: a line that the reader seldom stores to.
const ATTENTION: usize = 2 * LINE_BYTES;

/// A lane as one side sees it.
struct BareLane<'a> {
    shared: &'a SharedPages,
    /// The byte at which the words of the lane begin.
    start: usize,
    /// The position of this side, and the last known one of the other side.
    own: u64,
    other: u64,
}

impl<'a> BareLane<'a> {
    fn all(shared: &'a SharedPages) -> [BareLane<'a>; LANES] {
        std::array::from_fn(|lane| BareLane { shared, start: lane * STRIDE, own: 0, other: 0 })
    }

    fn written(&self) -> &AtomicU64 {
        self.shared.word_at(self.start)
    }

    fn read(&self) -> &AtomicU64 {
        self.shared.word_at(self.start + LINE_BYTES)
    }

    /// Returns where the frame at a position lies, for frames of `BYTES`.
    #[inline]
    fn at<const BYTES: usize>(&self, position: u64) -> usize {
        self.start + 4 * LINE_BYTES + position as usize % (FRAMES * footprint(BYTES))
    }

    #[inline]
    fn send<const BYTES: usize>(&mut self, record: &[u8; BYTES]) {
        let ring_bytes = (FRAMES * footprint(BYTES)) as u64;
        while self.own - self.other >= ring_bytes {
            // Acquire: what was given back is read.
            self.other = self.read().load(Ordering::Acquire);
            spin_loop();
        }
        let at = self.at::<BYTES>(self.own);
        self.shared.half_at(at).store(DATA | BYTES as u32, Ordering::Relaxed);
        self.shared.copy_in(at + HEAD_BYTES, record);
        self.own += footprint(BYTES) as u64;
        self.shared.word_at(self.start + 8).store(self.start as u64, Ordering::Relaxed);
        // Release: a reader that sees the position sees the frame.
        self.written().store(self.own, Ordering::Release);
        if self.shared.half_at(self.start + ATTENTION).load(Ordering::Relaxed) != 0 {
            spin_loop();
        }
    }

    /// Receives the frames that are there, and returns their number.
    #[inline]
    fn receive<const BYTES: usize>(&mut self, wrong: &mut u64) -> u64 {
        // Acquire: the frames up to that position are there.
        self.other = self.written().load(Ordering::Acquire);
        let mut count = 0;
        while self.own != self.other {
            let at = self.at::<BYTES>(self.own);
            let head = self.shared.half_at(at).load(Ordering::Relaxed);
            // As an mpx does: the writer gets a line faster that the reader has stored to.
            self.shared.half_at(at).store(head, Ordering::Relaxed);
            let mut end = (at | (LINE_BYTES - 1)) + 1 + LINE_BYTES;
            while end <= at + footprint(BYTES) {
                let last = self.shared.half_at(end - 4);
                last.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
                end += LINE_BYTES;
            }
            let mut record = [0; BYTES];
            self.shared.copy_out(at + HEAD_BYTES, &mut record);
            let is_right = head == DATA | BYTES as u32 && record == [7; BYTES];
            *wrong += u64::from(!is_right);
            self.own += footprint(BYTES) as u64;
            count += 1;
        }
        if count > 0 {
            // Release: they are read.
            self.read().store(self.own, Ordering::Release);
        }
        count
    }
}

const fn footprint(bytes: usize) -> usize {
    HEAD_BYTES + bytes.next_multiple_of(4)
}

/// Makes the case: records of a known length, one lane after the other.
pub fn one_way<const BYTES: usize>(site: &Site) -> MadeWork {
    const { assert!(FRAMES * footprint(BYTES) <= 64 << 10) };
    two_cpus(site)?;
    let shared = SharedPages::new(LANES * STRIDE)?;
    let mut peer = PeerProcess::start(site, |control| {
        let mut lanes = BareLane::all(&shared);
        let (mut done, mut wrong) = (0_u64, 0);
        loop {
            let mut came = 0;
            for lane in &mut lanes {
                came += lane.receive::<BYTES>(&mut wrong);
            }
            if wrong > 0 {
                return Err(CaseError::failed("a wrong record arrived"));
            }
            for _ in 0..came {
                done += 1;
                control.report(done)?;
            }
            control.rest(done)?;
            if came > 0 {
                let begun = Instant::now();
                while begun.elapsed() < HEAD_START {
                    spin_loop();
                }
            } else {
                spin_loop();
            }
        }
    })?;
    let record = [7; BYTES];
    // The state of the lanes, between the batches.
    let mut positions = [(0_u64, 0_u64); LANES];
    work(move |count| {
        let mut lanes = BareLane::all(&shared);
        for (lane, (own, other)) in lanes.iter_mut().zip(positions) {
            (lane.own, lane.other) = (own, other);
        }
        let begun = Instant::now();
        peer.rouse(count)?;
        for at in 0..count as usize {
            lanes[at % LANES].send(&record);
        }
        positions = lanes.map(|lane| (lane.own, lane.other));
        peer.wait()?;
        Ok(Batch::time(elapsed_ns(begun), count))
    })
}
