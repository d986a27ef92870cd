//! `bbn-port`: records from writers to one reader, with an 8-byte header and checked in full (as in
//! t.port1), with each of the two alone, and bare.
//!
//! With the kernel's mechanisms the header precedes the data. weir's port has a header of its own,
//! also of 8 bytes, of which the reader checks writer and number. In the bare cases pipes stand
//! beside it: streams, and a record pipe, which is the same ring without the header and without a
//! choice among writers. A last group has a port in a pool under the report's rules.

use super::{BLOCK_BYTES, COSTS, Meter, costly, pool};
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::crew::Crew;
use crate::tools::own::{ChannelSide, PipeSettings};
use crate::tools::pattern::sum;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use weir::Waiting;
use weir_policy::random::Random;

const HEADER_BYTES: usize = 8;
/// The fields of a header beside the length: the kind, and "end of message".
const KIND: u16 = 1;
const END: u16 = 1;
/// The largest record of a message queue in most kernels.
const QUEUE_BYTES: u64 = 8_192;
/// Above this size a socket's buffer holds few records; the report ended at 4096.
const PACKET_BYTES: u64 = 65_536;

pub fn suite() -> Suite {
    let kernels = [Mechanism::UnixSeqpacket, Mechanism::PosixMq];
    let port = Mechanism::WeirPort(Waiting::Adaptive);
    let each = |mechanism: Mechanism, extra: Extra| {
        let sizes = BLOCK_BYTES.into_iter().filter(move |bytes| *bytes <= limit(mechanism));
        sizes.map(move |bytes| record(mechanism, bytes, 1, extra))
    };
    let with = |last: Mechanism| kernels.into_iter().chain([last]);
    let checked = with(port).flat_map(|mechanism| each(mechanism, Extra::BOTH)).collect();
    let pipes = [
        Mechanism::Pipe(0),
        Mechanism::WeirPipe(PipeSettings::DEFAULT),
        Mechanism::WeirRecord(PipeSettings::DEFAULT),
    ];
    let bare = with(port).chain(pipes).flat_map(|mechanism| each(mechanism, Extra::NONE)).collect();
    let four = |mechanism| [64, 1_024].map(|bytes| record(mechanism, bytes, 4, Extra::NONE));
    let many = with(port).flat_map(four).collect();
    // A port always has its header.
    let header = Extra { header: true, check: false };
    let check = Extra { header: false, check: true };
    let alone =
        [(Mechanism::UnixSeqpacket, header), (Mechanism::UnixSeqpacket, check), (port, check)];
    let parts =
        |(mechanism, extra)| [64, 512, 4_096].map(|bytes| record(mechanism, bytes, 1, extra));
    let parts = alone.into_iter().flat_map(parts).collect();
    let ruled = |bytes: u64| {
        let params = Params {
            chunk_bytes: Some(bytes),
            writers: Some(1),
            operation: Some(check.names().1.into()),
            ..moving("weir-port", "one-way")
        };
        pool::RULES.map(|rule| pool::rule_case(pool::Through::Port, rule, bytes, &params))
    };
    let ruled = BLOCK_BYTES.into_iter().filter(|bytes| *bytes <= 4_096).flat_map(ruled).collect();
    let mut bare = group("bare", Sides::Two, bare);
    bare.standard = vec![Placement::SameCpu];
    Suite {
        name: "bbn-port",
        about: "Messages from several writers to one reader, which checks each sender and that none is missing.",
        source: "BBN Report 3970 (M. Kranc, November 1978), tables 3 and 4, t.port1",
        groups: vec![
            group("t.port1", Sides::Two, checked),
            bare,
            Group { twin: false, ..group("parts of t.port1", Sides::Two, parts) },
            group("many writers", Sides::Two, many),
            Group { twin: false, processes: 10, ..group("rules", Sides::Two, ruled) },
        ],
    }
}

/// What a case does beside moving blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extra {
    /// A header of 8 bytes precedes the data.
    header: bool,
    /// The reader checks all bytes.
    check: bool,
}

impl Extra {
    const NONE: Extra = Extra { header: false, check: false };
    const BOTH: Extra = Extra { header: true, check: true };

    /// Its name in cases and in parameters.
    fn names(self) -> (&'static str, &'static str) {
        match (self.header, self.check) {
            (false, false) => ("bare", "bare"),
            (true, false) => ("header", "header"),
            (false, true) => ("check", "check"),
            (true, true) => ("header and check", "header-and-check"),
        }
    }
}

fn limit(mechanism: Mechanism) -> u64 {
    if mechanism == Mechanism::PosixMq { QUEUE_BYTES / 2 } else { PACKET_BYTES }
}

fn record(mechanism: Mechanism, bytes: u64, writers: u64, extra: Extra) -> Case {
    let params = Params {
        chunk_bytes: Some(bytes),
        writers: Some(writers),
        operation: Some(extra.names().1.into()),
        ..moving(mechanism.name(), "one-way")
    };
    let kind = extra.names().0;
    let who = if writers == 1 { String::new() } else { format!("{writers} writers, ") };
    let name = format!("{}, {who}{kind}, {}", mechanism.name(), size(bytes));
    let make = move |site: &Site| records(site, mechanism, bytes as usize, writers, extra);
    let made = costly(case(name, params, Measure::TIME, make));
    // What the writers beside the first used is unknown when the reader reports.
    if writers > 1 { Case { measures: vec![COSTS[0], COSTS[4]], ..made } } else { made }
}

/// Makes a record of `bytes` bytes, header and data, and the sum of its data.
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

/// The reader is the other side. This side is a writer, and so are the children beyond the first.
fn records(
    site: &Site,
    mechanism: Mechanism,
    bytes: usize,
    writers: u64,
    extra: Extra,
) -> MadeWork {
    let (record, right) = made(bytes);
    // A port has its own header, which its reader checks.
    let own_header = matches!(mechanism, Mechanism::WeirPort(_));
    let head = if extra.header && !own_header { HEADER_BYTES } else { 0 };
    let sent = record[HEADER_BYTES - head..].to_vec();
    let channel = BenchChannel::new(mechanism, sent.len())?;
    let mut peer = PeerProcess::start(site, |control| {
        channel.only(ChannelSide::Receives);
        let (mut buffer, mut done) = (vec![0; sent.len()], 0);
        loop {
            let mut sound = true;
            done += channel.receive_each(&mut buffer, |seen| {
                let right = |data: &[u8]| data.len() == bytes && sum(data) == right;
                sound &= !extra.header || seen.get(..head) == sent.get(..head);
                sound &= !extra.check || right(seen.get(head..).unwrap_or_default());
            })?;
            if !sound {
                return Err(CaseError::failed("a record arrived with wrong bytes"));
            }
            control.report_with_usage(done)?;
        }
    })?;
    channel.only(ChannelSide::Sends);
    let crew = Crew::start(writers - 1, |_| {
        site.go_here()?;
        Ok(|| channel.send(&sent))
    })?;
    work(move |count| {
        let meter = Meter::start(&peer);
        let share = count.div_ceil(writers);
        peer.more(share * writers);
        crew.send(share)?;
        for _ in 0..share {
            channel.send(&sent)?;
        }
        crew.wait(&peer)?;
        let mut batch = meter.stop(&peer, share * writers, bytes as u64);
        channel.settled();
        if writers > 1 {
            batch.values = vec![batch.values[0], batch.values[4]];
        }
        Ok(batch)
    })
}
