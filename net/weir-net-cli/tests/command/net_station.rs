//! `weir net` with stations of other programs: one for a UDP port, and one that sends nonsense
//! (docs/contracts/net.md). Also what runs beside a switch.

use crate::common::net::{Answers, Bed, HOST, KERNEL, Process};
use crate::common::{WEIR, until};
use rustix::process::Signal;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
use weir_net::ErrorKind;
use weir_net::drop_reason::DropReason;
use weir_net::message::{self, AttachRequest, Checksum, Want, from_station};
use weir_net::outgoing::Outgoing;
use weir_net::station::{Station, StationMessage};
use weir_net::wire::ipv4::{Datagram, Header, protocol};
use weir_net::wire::udp;

fn directory(bed: &Bed) -> PathBuf {
    bed.directory.path().join("weir/net/weir0")
}

fn attach(bed: &Bed, wants: &[Want]) -> weir_net::Result<Station> {
    Station::attach(&directory(bed).join("switch"), &directory(bed), wants)
}

/// Sends back what comes for a port until it is stopped. Returns how many datagrams came.
fn echo(mut station: Station, port: u16, over: &AtomicBool) -> usize {
    let own = station.attached().address;
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        let seen = station.receive_for(Duration::from_millis(20), |sender, arrival| {
            let StationMessage::Packet { bytes, checksum } = arrival else { return };
            let datagram = Datagram::check(bytes).expect("the switch checked it");
            assert!(!datagram.is_fragment(), "a station gets whole datagrams");
            let peer = datagram.header().source;
            let mut payload = datagram.payload().to_vec();
            if checksum == Checksum::LeftOut {
                payload[6..8].fill(0);
            }
            let asked = udp::UdpDatagram::check(peer, own, &payload).expect("a user datagram");
            assert_eq!(asked.destination_port(), port);
            let mut reply = vec![0; udp::HEADER_BYTES + asked.payload().len()];
            let from = SocketAddrV4::new(own, port);
            let to = SocketAddrV4::new(peer, asked.source_port());
            udp::emit(from, to, asked.payload(), &mut reply).expect("made");
            sender.send(&Outgoing::new(peer, protocol::UDP), &reply);
            count += 1;
        });
        seen.expect("the switch is there");
    }
    count
}

#[test]
fn datagrams_go_to_who_has_their_port() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Daemon, "", "");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let want = |port| Want { protocol: protocol::UDP, port: Some(port) };
        let seven = attach(&bed, &[want(7)]).expect("attached");
        let refused = attach(&bed, &[want(7)]).expect_err("port 7 is taken");
        assert_eq!(refused.kind(), ErrorKind::Refused);
        let text = refused.to_string();
        assert!(text.contains("has port 7 of protocol 17"), "{text}");
        let nine = attach(&bed, &[want(9), want(10)]).expect("attached");
        let seven = scope.spawn(|| echo(seven, 7, &over));
        let nine = scope.spawn(|| echo(nine, 9, &over));
        // The datagrams have no fragments, just fit one packet, or have many fragments.
        let outcome = bed.script("udp.py 7 0 1 100 1472 1473 9000 65507");
        assert_eq!(outcome["right"], json!([0, 1, 100, 1472, 1473, 9000, 65507]));
        assert_eq!(bed.script("udp.py 9 33")["right"], json!([33]));
        bed.ok(&format!("ping -n -c 1 {HOST}"));
        over.store(true, Ordering::Relaxed);
        assert_eq!((seven.join().expect("no panic"), nine.join().expect("no panic")), (7, 1));
    });
    // Both stations are gone, and their ports are free.
    until("stations leave", || bed.stat()["stations"].as_array().map(Vec::len) == Some(1));
    attach(&bed, &[Want { protocol: protocol::UDP, port: Some(7) }]).expect("attached");
    host.end();
}

#[test]
fn nonsense_of_a_station_is_counted_and_harms_nobody() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Daemon, "", "");
    let switch = directory(&bed).join("switch");
    let mut writer = PortWriter::connect(&switch, &PortWriterOptions::new()).expect("opened");
    let mut send = Vec::new();
    let to = Outgoing::new(Ipv4Addr::new(10, 9, 0, 1), protocol::ICMP);
    message::put_send(&mut send, &to, b"not attached");
    let mut attach_nowhere = message::front(from_station::ATTACH).to_vec();
    attach_nowhere.extend_from_slice(b"\0no path");
    let redirect =
        message::put_redirect(HOST.parse().expect("an address"), to.destination, to.destination);
    let nonsense = [
        (&b""[..], "bad-message"),
        (b"short", "bad-message"),
        (&[255; 400], "bad-message"),
        (&[0; 16], "bad-message"),
        (&attach_nowhere, "bad-message"),
        (&redirect, "bad-message"),
        (&send, "not-its-protocol"),
    ];
    for (bytes, reason) in nonsense {
        let before = bed.drops(reason);
        writer.send(bytes).expect("sent");
        until("it is counted", || bed.drops(reason) == before + 1);
    }
    // This station names a port of its own that does not exist.
    let before = bed.drops("station-gone");
    let path = directory(&bed).join("nobody");
    writer.send(&AttachRequest { wants: Vec::new(), path }.put()).expect("sent");
    until("it is counted", || bed.drops("station-gone") == before + 1);
    // This station is attached, and sends what it may not send, to addresses it may not use.
    let mut station =
        attach(&bed, &[Want { protocol: protocol::UDP, port: Some(7) }]).expect("attached");
    let all: Ipv4Addr = "10.9.0.255".parse().expect("an address");
    let wrong = [
        (Outgoing::new(to.destination, protocol::TCP), "not-its-protocol"),
        (Outgoing::new(all, protocol::UDP), "destination"),
        (Outgoing::new(Ipv4Addr::LOCALHOST, protocol::UDP), "destination"),
        (Outgoing { options: &[7, 200, 4, 0], ..Outgoing::new(to.destination, 17) }, "bad-options"),
    ];
    for (out, reason) in &wrong {
        let before = bed.drops(reason);
        station.send(out, b"payload").expect("sent");
        until("it is counted", || bed.drops(reason) == before + 1);
    }
    let before = bed.drops("too-big");
    let whole = Outgoing { dont_fragment: true, ..Outgoing::new(to.destination, protocol::UDP) };
    station.send(&whole, &[0; 1481]).expect("sent");
    until("it is counted", || bed.drops("too-big") == before + 1);
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    host.end_after_nonsense();
}

/// What did not fit one message was never answered.
#[test]
fn the_counters_are_told_however_much_there_is() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let port = |number| Want { protocol: protocol::UDP, port: Some(number) };
    let stations: Vec<Station> = (1..=40)
        .map(|first| {
            let wants: Vec<Want> = (0..64).map(|next| port(first * 64 + next)).collect();
            attach(&bed, &wants).expect("attached")
        })
        .collect();
    let stat = bed.stat();
    let told = stat["stations"].as_array().expect("stations");
    assert_eq!(told.len(), stations.len());
    assert!(told.iter().all(|station| station["wants"].as_array().expect("wants").len() == 64));
    drop(stations);
    switch.end();
}

/// Filled headers as a hostile station writes them, and the reasons for which they are dropped.
#[test]
fn filled_headers_of_a_station_claim_only_what_it_has() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Allen, "", "");
    let own: Ipv4Addr = HOST.parse().expect("an address");
    let peer: Ipv4Addr = KERNEL.parse().expect("an address");
    let header = Header {
        tos: 0,
        total_bytes: 28,
        id: 1,
        dont_fragment: false,
        more_fragments: false,
        offset_bytes: 0,
        ttl: 64,
        protocol: protocol::UDP,
        source: own,
        destination: peer,
    };
    let filled = |header: Header| {
        let mut bytes = [0; 20];
        header.emit(&[], &mut bytes).expect("a header");
        bytes
    };
    // The station is attached by the writer that sends what follows.
    let path = directory(&bed).join("hostile");
    let options = PortOptions::new().most_message_bytes(message::MOST_MESSAGE_BYTES as u64);
    let _port = Port::create(&path, &options).expect("a port");
    let switch = directory(&bed).join("switch");
    let mut writer = PortWriter::connect(&switch, &PortWriterOptions::new()).expect("opened");
    let wants = vec![Want { protocol: protocol::UDP, port: Some(7) }];
    writer.send(&AttachRequest { wants, path }.put()).expect("sent");
    until("it is attached", || bed.stat()["stations"].as_array().map(Vec::len) == Some(2));
    let mut front = message::front(from_station::FILLED);
    front[1] = protocol::UDP;
    let longer = Header { total_bytes: 29, ..header };
    let fragment = Header { more_fragments: true, ..header };
    let forged = Header { source: Ipv4Addr::new(10, 9, 0, 77), ..header };
    let other = Header { protocol: protocol::TCP, ..header };
    let mut version = filled(header);
    version[0] = 0x65;
    let mut options = filled(header);
    options[0] = 0x4f;
    let wrong = [
        (&filled(longer)[..], "bad-message"),
        (&filled(fragment), "bad-message"),
        (&version, "bad-message"),
        (&options, "bad-message"),
        (&[], "bad-message"),
        (&filled(forged), "source"),
        (&filled(other), "not-its-protocol"),
    ];
    let sent_before = bed.stat()["datagrams_sent"].clone();
    for (bytes, reason) in wrong {
        let before = bed.drops(reason);
        writer.send(&[&front, bytes, &[0; 8]].concat()).expect("sent");
        until("it is counted", || bed.drops(reason) == before + 1);
    }
    // It may not report drops of protocols that it does not receive, nor reasons of others.
    for (number, protocol) in [(0, 17), (DropReason::StationFull.number(), 17), (80, 6)] {
        let before = bed.drops("bad-message");
        let quoted = filled(Header { protocol, ..header });
        let dropped = message::front(from_station::DROPPED);
        writer.send(&[&dropped[..], &[number, 0, 0], &quoted].concat()).expect("sent");
        until("it is counted", || bed.drops("bad-message") == before + 1);
    }
    assert_eq!(bed.stat()["datagrams_sent"], sent_before, "nothing of it went out");
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    host.end_after_nonsense();
    // In the other division no station fills headers.
    let host = bed.host(Answers::Daemon, "", "");
    let mut writer = PortWriter::connect(&switch, &PortWriterOptions::new()).expect("opened");
    writer.send(&[&front[..], &filled(header), &[0; 8]].concat()).expect("sent");
    until("it is counted", || bed.drops("not-its-protocol") == 1);
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    host.end();
}

#[test]
fn a_command_runs_beside_a_switch_in_a_namespace_of_its_own() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let name = format!("weir-test-{}", std::process::id());
    let up = format!("up --addr {HOST}/24 --peer {KERNEL} --netns {name} --icmpd --");
    let output = bed.run_net(&format!("{up} ping -n -c 1 {HOST}"));
    assert!(output.status.success(), "{}", crate::common::net::both(&output));
    assert!(crate::common::net::both(&output).contains("1 received, 0% packet loss"));
    let output = bed.run_net(&format!("{up} false"));
    assert_eq!(output.status.code(), Some(1), "the command's status");
    let output = bed.run_net(&format!("{up} no-such-command"));
    assert!(crate::common::net::both(&output).contains("cannot start 'no-such-command'"));
    assert_eq!(output.status.code(), Some(127), "as a shell has it");
    assert_eq!(bed.run_net(&format!("{up} /etc/passwd")).status.code(), Some(126));
    assert!(!PathBuf::from("/run/netns").join(&name).exists(), "the namespace is gone");
    // How to enter it can be typed as it is said.
    let odd = format!("{name} it");
    let mut command = bed.command(crate::common::WEIR);
    command.args(["net", "up", "--addr", &format!("{HOST}/24"), "--peer", KERNEL]);
    let output = command.args(["--netns", &odd, "--", "true"]).output().expect("weir starts");
    let said = crate::common::net::both(&output);
    assert!(said.contains(&format!("enter it with: ip netns exec '{odd}' COMMAND")), "{said}");
}

/// It was told again every 5 ms while it cleaned up, and died of that.
#[test]
fn a_command_is_told_once_that_the_switch_ends() {
    let Some(bed) = Bed::new(&[]) else { return };
    let script = "
from signal import SIG_BLOCK, SIGTERM, pthread_sigmask, sigtimedwait, sigwait
pthread_sigmask(SIG_BLOCK, {SIGTERM})
print('begun', flush=True)
sigwait({SIGTERM})
told = 1
while told < 3 and sigtimedwait({SIGTERM}, 0.5):
    told += 1
raise SystemExit(told)
";
    std::fs::write(bed.directory.path().join("told.py"), script).expect("written");
    let mut switch = bed.switch("--inline -- python3 told.py");
    switch.said("begun");
    switch.kill(Signal::TERM);
    assert_eq!(switch.ended().code(), Some(1));
}

/// It waited for ever for a daemon that ignores TERM, since it was started so.
#[test]
fn a_switch_that_was_started_to_ignore_term_ends_its_daemon_all_the_same() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut command = bed.command("sh");
    let up = format!("up --addr {HOST}/24 --peer {KERNEL} --icmpd -- true");
    command.args(["-c", &format!("trap '' TERM; exec {WEIR} net {up}")]);
    let mut switch = Process::start(command);
    assert_eq!(switch.ended().code(), Some(0), "{}", switch.printed());
}
