//! Waits written down by hand.

use super::*;
use crate::partition::Times;
use alloc::boxed::Box;
use alloc::string::String;

const MS: u64 = 1_000_000;

fn process(program: &str, times: Times) -> OutsideProcess {
    OutsideProcess {
        program: String::from(program),
        pid: 812,
        times,
        samples: 90,
        ..OutsideProcess::default()
    }
}

/// What limited a run of a second.
fn limit(peer: &Peer) -> Option<Limit> {
    super::limit(&crate::made::run(Vec::new()), peer, peer.waited_ns)
}

/// Its name in JSON.
fn word(tcp: TcpWaits) -> Option<&'static str> {
    limit(&with_tcp(tcp)).map(<&str>::from)
}

fn with_process(process: OutsideProcess) -> Peer {
    Peer { process: Some(Box::new(process)), waited_ns: 1000 * MS, ..Peer::default() }
}

fn with_tcp(tcp: TcpWaits) -> Peer {
    Peer { kind: PeerKind::Remote, tcp: Some(tcp), waited_ns: 1000 * MS, ..Peer::default() }
}

#[test]
fn a_process_of_this_host_is_judged_by_what_it_does() {
    let computes = Times { cpu_ns: 930 * MS, network_ns: 40 * MS, ..Times::default() };
    let peer = with_process(process("postgres", computes));
    let Some(Limit::Process { program, parts, .. }) = limit(&peer) else { panic!("{peer:?}") };
    assert_eq!(program, "postgres");
    assert_eq!(parts, [(BusyPart::Cpu, 0.93)], "what took 4 % is not worth a word");
    // Hardly seen: nothing is said of it.
    let peer = with_process(OutsideProcess { samples: 3, ..process("postgres", computes) });
    assert_eq!(limit(&peer), None);
}

/// 10,000 rows, a statement each: the server was "on CPU 60 %", and nobody slow.
#[test]
fn many_short_questions_are_round_trips() {
    let of = |times: Times, round_trips: u64| {
        let asked = OutsideProcess { round_trips, ..process("postgres", times) };
        match limit(&with_process(asked)) {
            Some(Limit::Process { trips, .. }) => trips,
            other => panic!("{other:?}"),
        }
    };
    let works = Times { cpu_ns: 600 * MS, queue_ns: 200 * MS, ..Times::default() };
    assert_eq!(of(works, 10_000), Some((10_000, 100_000)));
    assert_eq!(of(works, 300), None, "each takes 3 ms: that is work");
    assert_eq!(of(works, 0), None);
    let reads = Times { cpu_ns: 300 * MS, disk_ns: 600 * MS, ..Times::default() };
    assert_eq!(of(reads, 10_000), None, "it waits for its disk");
    let waits = Times { cpu_ns: 300 * MS, network_ns: 600 * MS, ..Times::default() };
    assert_eq!(of(waits, 10_000), Some((10_000, 100_000)), "it waits for the next question");
}

/// 100,000 short waits of 2 s were met by samples of 3 s: "on CPU 59 %" of which nobody waited 16 %.
#[test]
fn no_process_has_more_time_than_the_stage_waited() {
    let computes = Times { cpu_ns: 900 * MS, ..Times::default() };
    let asked = OutsideProcess { round_trips: 10_000, ..process("postgres", computes) };
    let found = super::limit(&crate::made::run(Vec::new()), &with_process(asked), 500 * MS);
    let Some(Limit::Process { parts, trips, .. }) = found else { panic!("{found:?}") };
    assert_eq!((parts, trips), (alloc::vec![(BusyPart::Cpu, 0.45)], Some((10_000, 50_000))));
}

#[test]
fn a_chain_of_processes_is_followed_to_the_one_that_works() {
    let waits = Times { network_ns: 990 * MS, ..Times::default() };
    let sleeps = Times { sleep_ns: 900 * MS, ..Times::default() };
    let behind = with_process(process("postgres", sleeps));
    let before = OutsideProcess { peer: Some(Box::new(behind)), ..process("pgbouncer", waits) };
    let peer = with_process(before.clone());
    let Some(Limit::Process { program, .. }) = limit(&peer) else { panic!("{peer:?}") };
    assert_eq!(program, "postgres");
    // What is not known behind it does not hide it.
    let peer = with_process(OutsideProcess { peer: Some(Box::default()), ..before });
    let Some(Limit::Process { program, parts, .. }) = limit(&peer) else { panic!("{peer:?}") };
    assert_eq!(program, "pgbouncer");
    assert_eq!(parts, [(BusyPart::Socket(Some(Box::default())), 0.99)]);
}

/// A writer that waited a second, with these shares of the busy time in percent.
fn writer(busy: u64, far: u64, own: u64, resent: u64) -> TcpWaits {
    let last = TcpSample {
        busy_ns: busy * 10 * MS,
        far_window_ns: far * 10 * MS,
        own_buffer_ns: own * 10 * MS,
        sent_segments: 1000,
        resent_segments: resent,
        ..TcpSample::default()
    };
    TcpWaits { write_ns: 1000 * MS, last, ..TcpWaits::default() }
}

/// A server was "held up by a connection to 127.0.0.1:8000 or the network to it".
#[test]
fn a_socket_that_clients_connect_to_limits_nobody() {
    let peer = Peer { kind: PeerKind::Listening, ..with_tcp(writer(100, 0, 0, 0)) };
    assert_eq!(limit(&peer), None);
}

/// Of a request for a connection that nobody answered it was said that "100 % of the segments were
/// sent again (round trip under 1 ms)".
#[test]
fn what_is_not_connected_yet_loses_no_segments() {
    let asks = with_tcp(writer(100, 5, 5, 60));
    assert!(limit(&asks).is_some(), "of a connection");
    assert_eq!(limit(&Peer { kind: PeerKind::Unknown, ..asks }), None);
}

#[test]
fn a_writer_s_kernel_divides_the_time() {
    assert_eq!(word(writer(100, 0, 0, 0)), Some("network"));
    assert_eq!(word(writer(100, 5, 5, 9)), Some("network"));
    assert_eq!(word(writer(100, 5, 5, 60)), Some("loss"));
    assert_eq!(word(writer(100, 80, 5, 60)), Some("far-window"));
    assert_eq!(word(writer(100, 20, 70, 0)), Some("own-buffer"));
    assert_eq!(word(writer(10, 0, 0, 0)), None, "it was hardly busy");
    let peer = with_tcp(writer(100, 0, 0, 60));
    assert_eq!(limit(&peer), Some(Limit::Loss(Some(0.06))));
}

#[test]
fn the_figures_before_the_first_look_do_not_count() {
    let mut tcp = writer(100, 80, 0, 100);
    tcp.first = TcpSample { busy_ns: 100 * MS, far_window_ns: 795 * MS, ..TcpSample::default() };
    (tcp.first.sent_segments, tcp.first.resent_segments) = (500, 100);
    assert_eq!(word(tcp), Some("network"));
}

/// A reader's waits of 10 ms each; each step changes the connection as it says.
fn reader(steps: usize, step: impl Fn(usize, &mut TcpSample)) -> Option<&'static str> {
    let mut look = TcpSample { rtt_ns: 50 * MS, min_rtt_ns: 50 * MS, ..TcpSample::default() };
    (look.own_window_bytes, look.receiver_rtt_ns) = (65_536, 50 * MS);
    let mut tcp = TcpWaits::new(look);
    for at in 0..steps {
        step(at, &mut look);
        tcp.add(look, false, 10 * MS);
    }
    let parts = tcp.unanswered_ns + tcp.gap_ns + tcp.own_window_ns + tcp.queued_ns;
    assert_eq!(parts + tcp.flowing_ns + tcp.silent_ns, tcp.read_ns);
    word(tcp)
}

#[test]
fn silence_with_nothing_missing_is_the_other_end_s() {
    let silent = |_: usize, look: &mut TcpSample| look.silent_ns += 10 * MS;
    assert_eq!(reader(100, silent), Some("far-end"));
    // A silence of two round trips is not one yet.
    assert_eq!(reader(9, silent), Some("network-or-far-end"));
}

#[test]
fn a_question_on_its_way_is_the_network_s() {
    assert_eq!(reader(100, |_, look| look.unacked = 1), Some("network"));
    let lost = |_: usize, look: &mut TcpSample| {
        (look.unacked, look.sent_segments) = (1, look.sent_segments + 10);
        look.resent_segments += 1;
    };
    assert_eq!(reader(100, lost), Some("loss"));
}

#[test]
fn data_out_of_order_show_a_loss_until_the_gap_is_filled() {
    let lossy = |at: usize, look: &mut TcpSample| match at % 10 {
        0 => look.out_of_order += 5,
        1..8 => look.silent_ns += 10 * MS,
        _ => (look.received_bytes, look.silent_ns) = (look.received_bytes + 9_000, 0),
    };
    assert_eq!(reader(100, lossy), Some("loss"));
}

#[test]
fn a_window_each_round_trip_is_the_own_buffer_s() {
    let window = |_: usize, look: &mut TcpSample| look.received_bytes += 65_536 / 5;
    assert_eq!(reader(100, window), Some("own-buffer"));
    let slower = |_: usize, look: &mut TcpSample| look.received_bytes += 65_536 / 20;
    assert_eq!(reader(100, slower), Some("network-or-far-end"));
    let near = |_: usize, look: &mut TcpSample| {
        (look.min_rtt_ns, look.receiver_rtt_ns) = (MS / 10, MS / 5);
        look.received_bytes += 6_553_600;
    };
    assert_eq!(reader(100, near), Some("network-or-far-end"));
}

#[test]
fn data_that_stood_in_a_queue_are_the_network_s() {
    let queued = |_: usize, look: &mut TcpSample| {
        (look.min_rtt_ns, look.receiver_rtt_ns) = (MS, 90 * MS);
        look.received_bytes += 3_000;
    };
    assert_eq!(reader(100, queued), Some("network"));
    // The estimate of a sender that makes pauses is not a queue.
    let pauses = |at: usize, look: &mut TcpSample| {
        (look.min_rtt_ns, look.receiver_rtt_ns) = (MS, 60 * MS);
        let came = at.is_multiple_of(3);
        look.received_bytes += if came { 3_000 } else { 0 };
        look.silent_ns = if came { 9 * MS } else { 19 * MS };
    };
    assert_eq!(reader(100, pauses), Some("network-or-far-end"));
}

#[test]
fn nothing_is_reported_where_no_cause_has_half_of_the_time() {
    let mixed = |at: usize, look: &mut TcpSample| match at % 3 {
        0 => (look.unacked, look.silent_ns) = (1, 0),
        1 => (look.unacked, look.silent_ns) = (0, 500 * MS),
        _ => (look.received_bytes, look.silent_ns) = (look.received_bytes + 100, 0),
    };
    assert_eq!(reader(99, mixed), None);
    assert_eq!(limit(&with_tcp(TcpWaits::default())), None);
    assert_eq!(limit(&Peer::default()), None);
}

/// A server whose handler slept was said to wait for a connection, although somebody had connected.
#[test]
fn a_server_that_waits_for_clients_has_not_answered_this_one() {
    let clients = Peer { kind: PeerKind::Listening, waited_ns: 900 * MS, ..Peer::default() };
    let times = Times { network_ns: 900 * MS, ..Times::default() };
    let process =
        OutsideProcess { peer: Some(Box::new(clients)), ..process("redis-server", times) };
    let Some(Limit::Process { parts, .. }) = limit(&with_process(process)) else { panic!() };
    assert_eq!(parts, [(BusyPart::Socket(None), 0.9)]);
}
