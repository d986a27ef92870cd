//! Allen's test of the driver, through weir's switch: clock, send a packet to itself, clock, receive
//! it, clock; alone, and beside three copies of the same test. Also a timestamp request to its own host, which the daemon answers, and an echo each
//! 10 ms. Each runs in both divisions: the headers filled and checked by stations, or by the switch.

use super::asker::Asker;
use super::network::Subnet;
use super::weir::Weir;
use super::{COLUMNS, LOST_AFTER, PAYLOAD_BYTES, Took};
use crate::engine::latency::open_loop;
use crate::tools::background::{Background, endless};
use crate::tools::latencies;
use crate::tools::prelude::*;
use std::time::Instant;
use weir_net::division::Division;
use weir_net::message::Want;
use weir_net::outgoing::Outgoing;
use weir_net::station::{Station, StationMessage};
use weir_net::wire::icmp::{Message, TIMESTAMP_BYTES, Timestamp};
use weir_net::wire::ipv4::{Datagram, protocol};

/// The protocol of each copy of the test: those for experiments (RFC 3692), and two that nobody has
/// (IANA, protocol numbers).
const EXPERIMENT: [u8; 4] = [253, 254, 251, 252];
/// The identifier of the timestamp requests.
const ID: u16 = 0xa11e;
/// A packet each 10 ms.
const RATE_PER_S: u64 = 100;
const OPEN_REQUESTS: u64 = 40;
/// A switch and a daemon have to start.
const WEIGHT: f64 = 8.0;

pub fn groups() -> Vec<Group> {
    vec![
        pair("driver test", |division| {
            let name = format!("driver test, weir, division {division}");
            turnaround_case(name, division, 1, move |site| packets(site, division, 1))
        }),
        copies(Division::Later),
        copies(Division::Allen),
        pair("timestamp to itself", |division| {
            let name = format!("timestamp to itself, weir, division {division}");
            turnaround_case(name, division, 1, move |site| timestamps(site, division))
        }),
        pair("echo each 10 ms", each_10_ms),
    ]
}

/// Compares four copies of the test at once with one.
fn copies(division: Division) -> Group {
    let cases = [1, 4].map(|copies| {
        let name = match copies {
            1 => format!("driver test, weir, division {division} (1 or 4 copies)"),
            _ => format!("driver test, weir, division {division}, {copies} copies at once"),
        };
        turnaround_case(name, division, copies, move |site| packets(site, division, copies))
    });
    let name = format!("driver test, four copies, {division}");
    on_one_cpu(compared(name, Sides::Two, cases.into()))
}

fn pair(name: &str, case: impl Fn(Division) -> Case) -> Group {
    let cases = [Division::Later, Division::Allen].map(case);
    on_one_cpu(compared(name.to_owned(), Sides::Two, cases.into()))
}

fn on_one_cpu(group: Group) -> Group {
    Group { standard: vec![Placement::SameCpu], processes: 12, twin: false, ..group }
}

fn params(division: Division, direction: &str, copies: u64) -> Params {
    Params {
        chunk_bytes: Some(PAYLOAD_BYTES as u64),
        device: Some("tun".into()),
        parties: Some(copies),
        operation: Some(format!("division-{division}")),
        logging: Some("off".into()),
        ..moving("weir-switch", direction)
    }
}

fn turnaround_case(
    name: String,
    division: Division,
    copies: u64,
    make: impl Fn(&Site) -> MadeWork + Send + Sync + 'static,
) -> Case {
    let made = case(name, params(division, "self", copies), Measure::TIME, make);
    Case {
        measures: COLUMNS.to_vec(),
        normalise: Normalise::OnOneCpu,
        standard: false,
        weight: WEIGHT,
        ..made
    }
}

fn start(site: &Site, division: Division) -> Result<(Weir, Subnet), CaseError> {
    let subnet = Subnet::new()?;
    let weir = Weir::start_with(site, subnet, &["--icmpd", "--division", division.as_str()])?;
    Ok((weir, subnet))
}

fn failed(error: impl std::fmt::Display) -> CaseError {
    CaseError::failed(error.to_string())
}

/// Receives until `see` has found what is awaited in the payload of a datagram.
fn receive(
    station: &mut Station,
    mut see: impl FnMut(&[u8]) -> Result<bool, CaseError>,
) -> Result<(), CaseError> {
    let mut found = Ok(false);
    let begun = Instant::now();
    while !matches!(found, Ok(true)) {
        let got = station.receive_for(LOST_AFTER, |_, arrival| {
            let StationMessage::Packet { bytes, .. } = arrival else { return };
            let datagram = Datagram::check(bytes).map_err(|_| "a packet with a wrong header");
            let seen = datagram.map_err(CaseError::failed).and_then(|it| see(it.payload()));
            if !matches!((&found, &seen), (Ok(true), _) | (_, Ok(false))) {
                found = seen;
            }
        });
        got.map_err(failed)?;
        if found.is_err() || begun.elapsed() > LOST_AFTER {
            return found.and(Err(CaseError::failed("a packet was lost")));
        }
    }
    Ok(())
}

/// A station that sends numbered packets to itself.
struct PacketStation {
    station: Station,
    protocol: u8,
    number: u64,
    packet: [u8; PAYLOAD_BYTES],
}

impl PacketStation {
    fn new(weir: &Weir, protocol: u8) -> Result<PacketStation, CaseError> {
        let station = weir.attach(&[Want { protocol, port: None }])?;
        Ok(PacketStation { station, protocol, number: 0, packet: [0; PAYLOAD_BYTES] })
    }

    fn send(&mut self) -> Result<(), CaseError> {
        self.number += 1;
        self.packet[..8].copy_from_slice(&self.number.to_le_bytes());
        let to = Outgoing::new(self.station.attached().address, self.protocol);
        self.station.send(&to, &self.packet).map_err(failed)
    }

    fn receive(&mut self) -> Result<(), CaseError> {
        let PacketStation { station, packet, .. } = self;
        receive(station, |payload| match payload == packet {
            true => Ok(true),
            false => Err(CaseError::failed("received another packet than was sent")),
        })
    }
}

/// Only a process of one thread forks, and a station starts one. So each copy attaches its own when it
/// begins, which is after all cases of the group are made.
fn packets(site: &Site, division: Division, copies: u64) -> MadeWork {
    let (weir, _) = start(site, division)?;
    let mut children = Vec::new();
    for protocol in &EXPERIMENT[1..copies as usize] {
        let mut other = None;
        let trip = || {
            let other = match &mut other {
                Some(other) => other,
                None => other.insert(PacketStation::new(&weir, *protocol)?),
            };
            other.send().and_then(|()| other.receive())
        };
        children.push(endless(|| site.go_here(), trip)?);
    }
    let mut line = None;
    let others = Background::new(children)?;
    // The switch lives as long as the work.
    work(move |count| {
        let line = match &mut line {
            Some(line) => line,
            None => line.insert(PacketStation::new(&weir, EXPERIMENT[0])?),
        };
        let _running = others.run()?;
        let took = Took::of(line, count, PacketStation::send, PacketStation::receive)?;
        Ok(took.batch(count))
    })
}

/// A station that asks its own host for the time.
struct TimestampStation {
    station: Station,
    sequence: u16,
}

impl TimestampStation {
    fn send(&mut self) -> Result<(), CaseError> {
        self.sequence = self.sequence.wrapping_add(1);
        let (id, sequence) = (ID, self.sequence);
        let (receive_ms, transmit_ms) = (0, 0);
        let originate_ms = weir_net::switch::ms_since_midnight();
        let asked = Timestamp { id, sequence, originate_ms, receive_ms, transmit_ms };
        let mut message = [0; TIMESTAMP_BYTES];
        let room = Message::Timestamp(asked).emit(&mut message);
        room.ok_or_else(|| CaseError::failed("a timestamp request did not fit"))?;
        let to = Outgoing::new(self.station.attached().address, protocol::ICMP);
        self.station.send(&to, &message).map_err(failed)
    }

    fn receive(&mut self) -> Result<(), CaseError> {
        let TimestampStation { station, sequence } = self;
        receive(station, |payload| match Message::check(payload) {
            Ok(Message::TimestampReply(times)) if times.id == ID => Ok(times.sequence == *sequence),
            _ => Err(CaseError::failed("received something other than a timestamp reply")),
        })
    }
}

fn timestamps(site: &Site, division: Division) -> MadeWork {
    let (weir, _) = start(site, division)?;
    let station = weir.attach(&[Want { protocol: protocol::ICMP, port: Some(ID) }])?;
    let mut line = TimestampStation { station, sequence: 0 };
    work(move |count| {
        let _weir = &weir;
        let took = Took::of(&mut line, count, TimestampStation::send, TimestampStation::receive)?;
        Ok(took.batch(count))
    })
}

/// An echo request each 10 ms, whatever became of those before. Latencies count from the intended
/// starts.
fn each_10_ms(division: Division) -> Case {
    let params = Params { rate_per_s: Some(RATE_PER_S), ..params(division, "two-way", 1) };
    let name = format!("echo each 10 ms, weir, division {division}");
    let made = case(name, params, Measure::TIME, move |site| {
        let (weir, subnet) = start(site, division)?;
        let mut asker = Asker::new(subnet.there(), 1)?;
        work(move |count| {
            let _weir = &weir;
            let seen = open_loop(RATE_PER_S, count, false, || asker.turnarounds(1).map(drop))?;
            let values = vec![seen.p50_ns, seen.p99_ns];
            Ok(Batch { elapsed_ns: seen.elapsed_ns, values })
        })
    });
    Case { size: BatchSize::Count(OPEN_REQUESTS), weight: WEIGHT, ..latencies(made) }
}
