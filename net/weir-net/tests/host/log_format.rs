//! Events as text, JSON and capture files. tcpdump and tshark read the capture files.

use insta::assert_snapshot;
use std::net::Ipv4Addr;
use std::process::Command;
use weir_net::drop_reason::DropReason;
use weir_net::log::format::{Zone, json, pcap, pcap_header, text};
use weir_net::log::{
    Asker, Direction, Dropped, Dump, EventBody, EventReason, FailureEvent, FlowChange, FlowEvent,
    LogEvent, Packet, RequestEvent, StationChange, StationEvent, Transaction, Transport,
};
use weir_net::stalls::WaitedSide;

const THERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const HERE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
/// 2026-11-21 10:15:03.123456789 UTC.
const TIME_NS: u64 = 1_795_256_103_123_456_789;

/// An echo request as it is on the wire, with correct checksums.
const ECHO: [u8; 32] = [
    0x45, 0, 0, 32, 0x12, 0x34, 0x40, 0, 64, 1, 0x14, 0x95, 10, 9, 0, 1, 10, 9, 0, 2, //
    8, 0, 0x17, 0x20, 0, 7, 0, 1, b'w', b'e', b'i', b'r',
];

fn packet(protocol: u8, transport: Transport) -> Packet {
    Packet { source: THERE, target: HERE, protocol, transport, length_bytes: 84 }
}

fn transaction(direction: Direction, protocol: u8, transport: Transport) -> EventBody {
    EventBody::Transaction(Transaction { direction, packet: packet(protocol, transport) })
}

fn icmp(kind: u8, code: u8) -> Transport {
    Transport::Icmp { kind, code, id: 7, sequence: 1 }
}

/// Events of all kinds, with what is unusual about each.
fn events() -> Vec<LogEvent> {
    let ports = Transport::Ports { source: 5353, target: 69, id: 9 };
    let dump = |direction, length_bytes, bytes: &[u8]| {
        EventBody::Dump(Dump { direction, length_bytes, bytes: bytes.to_vec() })
    };
    let failure = |reason, protocol, source, value| {
        EventBody::Failure(FailureEvent { reason, protocol, source, target: source, value })
    };
    let station = |change, protocol, port| {
        EventBody::Station(StationEvent { change, pid: 4711, protocol, port })
    };
    let flow = |change| {
        let (protocol, port, remote_port) = (17, 69, 5353);
        EventBody::Flow(FlowEvent { change, protocol, port, remote: THERE, remote_port })
    };
    let dropped = |reason, protocol, above| {
        EventBody::Dropped(Dropped { reason, packet: packet(protocol, above) })
    };
    let request = |asker, protocol, message: &[u8]| {
        EventBody::Request(RequestEvent::new(asker, HERE, protocol, message))
    };
    let whats = vec![
        transaction(Direction::In, 1, icmp(8, 0)),
        transaction(Direction::Out, 1, icmp(0, 0)),
        transaction(Direction::Out, 1, icmp(3, 3)),
        transaction(Direction::In, 1, icmp(200, 1)),
        transaction(Direction::In, 17, ports),
        transaction(Direction::In, 6, ports),
        transaction(Direction::In, 17, Transport::None { id: 9 }),
        transaction(Direction::In, 89, Transport::None { id: 9 }),
        dropped(DropReason::NoPort.into(), 17, ports),
        dropped(EventReason::new(99), 3, Transport::None { id: 0 }),
        failure(EventReason::CHECKSUM, 1, THERE, 0),
        failure(DropReason::Device.into(), 0, Ipv4Addr::UNSPECIFIED, 28),
        dump(Direction::In, 32, &ECHO),
        dump(Direction::Out, 1500, &[&ECHO[..], &[0; 64]].concat()),
        dump(Direction::Out, 2, &[0x1b, 0x5b]),
        dump(Direction::Out, 0, &[]),
        station(StationChange::Attached, 17, 69),
        station(StationChange::Detached, 1, 0),
        station(StationChange::Died, 3, 0),
        station(StationChange::Refused, 200, 1),
        flow(FlowChange::Began { block_bytes: 1428, window: 32 }),
        flow(FlowChange::Ended { bytes: u64::MAX }),
        flow(FlowChange::Failed { bytes: 0 }),
        flow(FlowChange::Again { from: 70_000 }),
        flow(FlowChange::Stalled { waits_for: WaitedSide::This }),
        flow(FlowChange::Stalled { waits_for: WaitedSide::Network }),
        transaction(Direction::In, 3, Transport::Ggp { kind: 12, sequence: 5, id: 9 }),
        transaction(Direction::Out, 3, Transport::Ggp { kind: 77, sequence: 5, id: 9 }),
        request(Asker::Local { pid: 4711 }, 1, &ECHO[20..]),
        request(Asker::Local { pid: u32::MAX }, 3, &[8, 0, 0, 0, 0, 7, 0, 1]),
        request(Asker::Foreign { source: THERE }, 1, &ECHO[20..]),
        request(Asker::Foreign { source: THERE }, 3, &[12, 0, 0, 5, 1, 0]),
        request(Asker::Foreign { source: THERE }, 3, &[8]),
    ];
    let event = |(number, what)| LogEvent { time_ns: TIME_NS + number * 1_000_001, what };
    (0_u64..).zip(whats).map(event).collect()
}

#[test]
fn lines_for_people() {
    let (mut out, mut zone) = (String::new(), Zone::utc());
    for event in events() {
        text(&mut out, &event, &mut zone);
    }
    assert_snapshot!(out);
    assert_eq!(out.lines().count(), events().len(), "a line each");
}

#[test]
fn lines_of_json() {
    let mut out = String::new();
    for event in events() {
        json(&mut out, &event);
    }
    assert_snapshot!(out);
    for line in out.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(value["schema"], "weir.net.log/1");
        assert!(value["time_ns"].as_u64().is_some_and(|time_ns| time_ns >= TIME_NS), "exact");
    }
}

#[test]
fn times_that_cannot_be_are_no_panic() {
    for time_ns in [0, 1, u64::MAX / 2, u64::MAX] {
        let event = LogEvent { time_ns, ..events().remove(0) };
        let mut out = String::new();
        text(&mut out, &event, &mut Zone::local());
        json(&mut out, &event);
        assert_eq!(out.lines().count(), 2);
    }
}

/// The dumps of [`events`] as a capture file.
fn captured() -> Vec<u8> {
    let mut out = pcap_header().to_vec();
    let put = events().iter().filter(|event| pcap(&mut out, event)).count();
    assert_eq!(put, 4, "dumps only");
    out
}

#[test]
fn a_capture_file_is_laid_out_as_it_should_be() {
    let out = captured();
    let word = |at: usize| out[at..at + 4].try_into().map(u32::from_ne_bytes).expect("4 bytes");
    let header: Vec<u32> = (0..6).map(|index| word(index * 4)).collect();
    assert_eq!((header[0], header[4], header[5]), (0xa1b2_3c4d, 65_535, 101));
    let first: Vec<u32> = (0..4).map(|index| word(24 + index * 4)).collect();
    assert_eq!(first, [1_795_256_103, 123_456_789 + 12 * 1_000_001, 32, 32]);
    assert_eq!(out[40..72], ECHO);
    assert_eq!((word(72 + 8), word(72 + 12)), (96, 1500), "kept and sent");
}

/// What a program prints for the capture file; `None` if the program is not installed.
fn read_by(program: &str, args: &[&str]) -> Option<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dumps.pcap");
    std::fs::write(&path, captured()).expect("written");
    let mut command = Command::new(program);
    command.arg("-r").arg(&path).args(args).env("TZ", "UTC").env("HOME", directory.path());
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: {program} is not installed");
            None
        }
        output => {
            let output = output.expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{program}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

#[test]
fn tcpdump_reads_it() {
    let Some(out) = read_by("tcpdump", &["-n", "--nano"]) else { return };
    let first = out.lines().next().unwrap_or_default();
    let expected = "10:15:03.135456801 IP 10.9.0.1 > 10.9.0.2: ICMP echo request, id 7, seq 1";
    assert!(first.starts_with(expected), "{out}");
    assert!(!first.contains("wrong") && !first.contains("bad"), "{out}");
}

#[test]
fn tshark_reads_it() {
    let fields = ["frame.time_epoch", "frame.len", "ip.dst", "icmp.seq", "icmp.checksum.status"];
    let mut args = vec!["-T", "fields", "-E", "separator=;"];
    fields.iter().for_each(|field| args.extend(["-e", field]));
    let Some(out) = read_by("tshark", &args) else { return };
    let first = out.lines().next().unwrap_or_default();
    let (time, rest) = first.split_once(';').expect("fields");
    assert!(time.starts_with("1795256103.135456801"), "{out}");
    assert_eq!(rest, "32;10.9.0.2;1;1", "{out}");
    assert_eq!(out.lines().count(), 4, "{out}");
}

/// `date` is asked, since only the system knows the machine's time zone.
#[test]
fn local_time_is_that_of_date() {
    for unix_s in [0, 1_795_248_901, 1_782_000_000, 4_102_444_800] {
        let date = std::process::Command::new("date")
            .args([format!("-d@{unix_s}"), "+%Y-%m-%d %H:%M:%S".into()])
            .output();
        let Ok(date) = date else {
            println!("SKIPPED: date is not installed");
            return;
        };
        let shown = Zone::local().second(unix_s * 1_000_000_000);
        assert_eq!(shown, String::from_utf8_lossy(&date.stdout).trim_end());
    }
}
