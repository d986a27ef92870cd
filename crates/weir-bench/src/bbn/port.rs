//! `bbn-port`: records from writers to one reader, each behind an 8-byte header and checked in
//! full (as t.port1 did), and bare.

use super::{BLOCK_BYTES, COSTS, Meter, costly};
use crate::tools::channel::{Channel, Mechanism};
use crate::tools::pattern::sum;
use crate::tools::peer::Peer;
use crate::tools::{case, group, size, work};
use weir_measure::bench::case::{Case, Measure, Sides, Site, Suite, Trouble, Work};
use weir_measure::bench::params::{Params, Placement};
use weir_measure::random::Random;
use weir_sys::fork::{self, Child};
use weir_sys::shared::{LINE_BYTES, Shared};

const HEADER_BYTES: usize = 8;
/// What is in a header beside the length: the kind, and "end of message".
const KIND: u16 = 1;
const END: u16 = 1;
/// The largest record of a message queue, in most kernels.
const QUEUE_BYTES: u64 = 8_192;
/// Above this a socket's buffer holds few records, and the report ended at 4096.
const PACKET_BYTES: u64 = 65_536;

/// The suite.
pub fn suite() -> Suite {
    let (mut checked, mut bare, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for mechanism in [Mechanism::UnixSeqpacket, Mechanism::PosixMq] {
        for bytes in BLOCK_BYTES.into_iter().filter(|bytes| *bytes <= limit(mechanism)) {
            checked.push(record(mechanism, bytes, 1, true));
            bare.push(record(mechanism, bytes, 1, false));
        }
        many.extend([64, 1_024].map(|bytes| record(mechanism, bytes, 4, false)));
    }
    let mut bare = group("bare", Sides::Two, bare);
    bare.standard = vec![Placement::SameCpu];
    Suite {
        name: "bbn-port",
        about: "records from writers to one reader, with header and checking, and bare",
        source: "BBN Report 3970 (M. Kranc, November 1978), tables 3 and 4, t.port1",
        groups: vec![
            group("t.port1", Sides::Two, checked),
            bare,
            group("many writers", Sides::Two, many),
        ],
    }
}

fn limit(mechanism: Mechanism) -> u64 {
    if mechanism == Mechanism::PosixMq { QUEUE_BYTES / 2 } else { PACKET_BYTES }
}

fn record(mechanism: Mechanism, bytes: u64, writers: u64, checked: bool) -> Case {
    let params = Params {
        mechanism: Some(mechanism.name().into()),
        direction: Some("one-way".into()),
        chunk_bytes: Some(bytes),
        writers: Some(writers),
        operation: Some(if checked { "header-and-check" } else { "bare" }.into()),
        ..Params::default()
    };
    let kind = if checked { "header and check" } else { "bare" };
    let who = if writers == 1 { String::new() } else { format!("{writers} writers, ") };
    let name = format!("{}, {who}{kind}, {}", mechanism.name(), size(bytes));
    let make = move |site: &Site| records(site, mechanism, bytes as usize, writers, checked);
    let made = costly(case(name, params, Measure::TIME, make));
    // What the writers beside the first used is not known when the reader reports.
    if writers > 1 { Case { measures: vec![COSTS[0], COSTS[4]], ..made } } else { made }
}

/// A record of `bytes` bytes: its header and its data, of which the sum is known.
fn made(bytes: usize) -> (Vec<u8>, u64) {
    let mut random = Random::new(bytes as u64);
    let mut record = Vec::with_capacity(HEADER_BYTES + bytes);
    record.extend_from_slice(&(bytes as u32).to_le_bytes());
    record.extend_from_slice(&KIND.to_le_bytes());
    record.extend_from_slice(&END.to_le_bytes());
    record.extend((0..bytes).map(|_| random.next_u64() as u8));
    let sum = sum(&record[HEADER_BYTES..]);
    (record, sum)
}

/// The reader is the other side; this side is a writer, and so are the children beyond the first.
fn records(
    site: &Site,
    mechanism: Mechanism,
    bytes: usize,
    writers: u64,
    checked: bool,
) -> Result<Box<dyn Work>, Trouble> {
    let (record, right) = made(bytes);
    let sent = if checked { record.clone() } else { record[HEADER_BYTES..].to_vec() };
    let channel = Channel::new(mechanism, sent.len())?;
    let mut peer = Peer::start(site, |control| {
        let (mut buffer, mut done) = (vec![0; sent.len()], 0);
        loop {
            channel.receive(&mut buffer)?;
            if checked
                && (buffer[..HEADER_BYTES] != record[..HEADER_BYTES]
                    || sum(&buffer[HEADER_BYTES..]) != right)
            {
                return Err(Trouble::failed("a record arrived with other bytes than were sent"));
            }
            done += 1;
            control.report_with_usage(done)?;
        }
    })?;
    let helpers = Helpers::start(site, &channel, &sent, writers - 1)?;
    work(move |count| {
        let meter = Meter::start(&peer);
        let share = count.div_ceil(writers);
        peer.more(share * writers);
        helpers.send(share)?;
        for _ in 0..share {
            channel.send(&sent)?;
        }
        peer.wait()?;
        let mut batch = meter.stop(&peer, share * writers, bytes as u64);
        if writers > 1 {
            batch.values = vec![batch.values[0], batch.values[4]];
        }
        Ok(batch)
    })
}

/// Writers beside the measuring one; each sleeps until there is something to send.
struct Helpers {
    shares: Shared,
    children: Vec<Child>,
}

impl Helpers {
    fn start(site: &Site, channel: &Channel, sent: &[u8], count: u64) -> Result<Helpers, Trouble> {
        let shares = Shared::new(LINE_BYTES)?;
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(fork::child(|| {
                if site.go_here().is_err() {
                    return 1;
                }
                let mut done = 0;
                while let Ok(goal) = next_goal(&shares, done) {
                    while done != goal {
                        if channel.send(sent).is_err() {
                            return 1;
                        }
                        done = done.wrapping_add(1);
                    }
                }
                1
            })?);
        }
        Ok(Helpers { shares, children })
    }

    fn send(&self, share: u64) -> Result<(), Trouble> {
        use rustix::thread::futex;
        if self.children.is_empty() {
            return Ok(());
        }
        let word = self.shares.half(0);
        // Release pairs with acquire in `next_goal`; numbers wrap around together.
        word.fetch_add(share as u32, std::sync::atomic::Ordering::Release);
        futex::wake(word, futex::Flags::empty(), i32::MAX as u32)?;
        Ok(())
    }
}

fn next_goal(shares: &Shared, done: u32) -> Result<u32, Trouble> {
    use rustix::io::Errno;
    use rustix::thread::futex;
    let word = shares.half(0);
    loop {
        let goal = word.load(std::sync::atomic::Ordering::Acquire);
        if goal != done {
            return Ok(goal);
        }
        match futex::wait(word, futex::Flags::empty(), goal, None) {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
