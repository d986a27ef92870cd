//! `joy-ipc`: 4- and 512-byte packets to self, one way and two ways, as in Joy's table.
//!
//! A rate counts packets; two ways it counts those of both directions. Packets are numbered and
//! checked where they arrive. The closed loop, in which the next packet follows the answer, is
//! compared with an open one at a stated rate, whose latencies count from the intended start.

mod lanes;
mod loan;
mod mpx;
mod trips;

use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::own::{ChannelSide, PipeSettings};
use crate::tools::pattern::Pattern;
use crate::tools::peer::PeerProcess;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;
use crate::tools::{RATE_PER_S, latencies, open_round_trips};
use std::time::Instant;
use weir::Waiting;

const MECHANISMS: [Mechanism; 8] = [
    Mechanism::Pipe(0),
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::PosixMq,
    Mechanism::WeirPipe(PipeSettings::DEFAULT),
    Mechanism::WeirRecord(PipeSettings::DEFAULT),
    Mechanism::WeirPort(Waiting::Adaptive),
    Mechanism::WeirMpx,
];
/// Joy's two sizes, and two by which rings are compared: the most that fits a cache line with its
/// header, and a whole line.
const BYTES: [usize; 4] = [4, 48, 64, 512];

pub fn suite() -> Suite {
    Suite {
        name: "joy-ipc",
        about: "Small messages between two processes, one way and round trip, by every mechanism.",
        source: "W. Joy, March 1980: pipes compared with VMS mailboxes",
        groups: vec![
            direction("self", Sides::One, to_self),
            direction("one-way", Sides::Two, one_way),
            two_ways(),
            loan::loans(),
            mpx::channels(),
            paced(),
        ],
    }
}

type MakeWork = fn(&Site, Mechanism, usize) -> MadeWork;

fn direction(direction: &'static str, sides: Sides, make: MakeWork) -> Group {
    let mut cases = Vec::new();
    for mechanism in MECHANISMS {
        for bytes in BYTES {
            let switches = match direction {
                "two-way" => Some(Perspective { of: Activity::Switches, per_operation: 1.0 }),
                _ => None,
            };
            let made = move |site: &Site| make(site, mechanism, bytes);
            let name = format!("{direction} {} {bytes} B", mechanism.name());
            cases.push(Case {
                standard: standard(direction, mechanism, bytes),
                normalise: Normalise::OnOneCpu,
                perspective: switches,
                ..case(name, params(mechanism, direction, bytes), Measure::RATE, made)
            });
        }
    }
    compared(direction, sides, cases)
}

/// Measures round trips, and what they take without a library.
fn two_ways() -> Group {
    let mut group = direction("two-way", Sides::Two, two_way);
    group.cases.extend(trips::bare_cases());
    group
}

fn standard(direction: &str, mechanism: Mechanism, bytes: usize) -> bool {
    match mechanism {
        Mechanism::Pipe(_) => bytes == 4 || (bytes == 512 && direction != "self"),
        Mechanism::UnixSeqpacket => bytes == 4,
        Mechanism::WeirRecord(_) => direction != "self" && (bytes == 4 || bytes == 512),
        _ => false,
    }
}

fn params(mechanism: Mechanism, direction: &str, bytes: usize) -> Params {
    Params { chunk_bytes: Some(bytes as u64), ..moving(mechanism.name(), direction) }
}

fn to_self(_: &Site, mechanism: Mechanism, bytes: usize) -> MadeWork {
    let channel = BenchChannel::new(mechanism, bytes)?;
    let (mut sent, mut expected) = (Pattern::new(bytes), Pattern::new(bytes));
    let mut buffer = vec![0; bytes];
    work(move |count| {
        let elapsed = timed(count, || {
            channel.send_next(&mut sent)?;
            channel.receive_next(&mut expected, &mut buffer)
        })?;
        channel.settled();
        Ok(Batch::rate(elapsed, count))
    })
}

fn one_way(site: &Site, mechanism: Mechanism, bytes: usize) -> MadeWork {
    let mut stream = OneWay::start(site, mechanism, bytes)?;
    work(move |count| Ok(Batch::rate(stream.send(count)?, count)))
}

/// Two channels and a peer that answers each packet with the next one of its own.
struct EchoPair {
    there: BenchChannel,
    back: BenchChannel,
    sent: Pattern,
    expected: Pattern,
    buffer: Vec<u8>,
    peer: PeerProcess,
}

impl EchoPair {
    fn start(site: &Site, mechanism: Mechanism, bytes: usize) -> Result<EchoPair, CaseError> {
        let (there, back) =
            (BenchChannel::new(mechanism, bytes)?, BenchChannel::new(mechanism, bytes)?);
        let peer = PeerProcess::start(site, |control| {
            there.only(ChannelSide::Receives);
            back.only(ChannelSide::Sends);
            let (mut expected, mut sent) = (Pattern::new(bytes), Pattern::new(bytes));
            let mut buffer = vec![0; bytes];
            control.serve(|| {
                there.receive_next(&mut expected, &mut buffer)?;
                back.send_next(&mut sent)
            })
        })?;
        there.only(ChannelSide::Sends);
        back.only(ChannelSide::Receives);
        let (sent, expected) = (Pattern::new(bytes), Pattern::new(bytes));
        Ok(EchoPair { there, back, sent, expected, buffer: vec![0; bytes], peer })
    }

    fn trip(&mut self) -> Result<(), CaseError> {
        self.there.send_next(&mut self.sent)?;
        self.back.receive_next(&mut self.expected, &mut self.buffer)
    }

    fn settled(&self) {
        self.there.settled();
        self.back.settled();
    }
}

fn two_way(site: &Site, mechanism: Mechanism, bytes: usize) -> MadeWork {
    match (mechanism, bytes) {
        (Mechanism::WeirRecord(PipeSettings::DEFAULT), 4) => return trips::weir::<4>(site),
        (Mechanism::WeirRecord(PipeSettings::DEFAULT), 48) => return trips::weir::<48>(site),
        (Mechanism::WeirRecord(PipeSettings::DEFAULT), 64) => return trips::weir::<64>(site),
        (Mechanism::WeirRecord(PipeSettings::DEFAULT), 512) => return trips::weir::<512>(site),
        _ => {}
    }
    let mut echo = EchoPair::start(site, mechanism, bytes)?;
    work(move |count| {
        let EchoPair { there, back, sent, expected, buffer, peer } = &mut echo;
        let elapsed = peer.trips(count, || {
            there.send_next(sent)?;
            back.receive_next(expected, buffer)
        })?;
        echo.settled();
        Ok(Batch::rate(elapsed, 2 * count))
    })
}

/// Measures round trips at a stated rate, in an open loop and, by the same mechanism, in a closed
/// one.
fn paced() -> Group {
    let mut cases = Vec::new();
    for mechanism in [Mechanism::Pipe(0), Mechanism::UnixSeqpacket] {
        let name = mechanism.name();
        let open = Params { rate_per_s: Some(RATE_PER_S), ..params(mechanism, "two-way", 4) };
        let open_name = format!("open loop, {RATE_PER_S}/s, {name} 4 B");
        let made = move |site: &Site| open_trips(site, mechanism);
        cases.push(latencies(case(open_name, open, Measure::TIME, made)));
        let closed = params(mechanism, "two-way", 4);
        let made = move |site: &Site| closed_trips(site, mechanism);
        let closed_name = format!("closed loop, {name} 4 B");
        cases.push(latencies(case(closed_name, closed, Measure::TIME, made)));
    }
    Group { twin: false, ..group("paced", Sides::Two, cases) }
}

fn open_trips(site: &Site, mechanism: Mechanism) -> MadeWork {
    let EchoPair { there, back, mut sent, mut expected, mut buffer, peer } =
        EchoPair::start(site, mechanism, 4)?;
    open_round_trips(site, peer, move || {
        there.send_next(&mut sent)?;
        back.receive_next(&mut expected, &mut buffer)
    })
}

fn closed_trips(site: &Site, mechanism: Mechanism) -> MadeWork {
    use crate::engine::latency::Latencies;
    let mut echo = EchoPair::start(site, mechanism, 4)?;
    work(move |count| {
        echo.peer.more(count);
        let mut latencies = Latencies::default();
        let elapsed = timed(count, || {
            let sent = Instant::now();
            echo.trip()?;
            latencies.add(sent.elapsed());
            Ok(())
        })?;
        echo.peer.wait()?;
        let values = [0.5, 0.99].map(|share| latencies.quantile_ns(share));
        Ok(Batch { elapsed_ns: elapsed, values: values.to_vec() })
    })
}
