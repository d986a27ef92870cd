//! The two directions of a TFTP transfer against each other, through a network that loses, doubles
//! and reorders (docs/contracts/tftp.md).

use proptest::prelude::*;
use std::collections::BTreeMap;
use weir_net::stalls::WaitedSide;
use weir_net::tftp::Patience;
use weir_net::tftp::netascii::{Decoder, Encoder};
use weir_net::tftp::packet::{self, Mode, TftpOptions, TftpPacket, TftpRequest};
use weir_net::tftp::receiver::FileReceiver;
use weir_net::tftp::sender::{FileSender, TransferTerms};
use weir_net::tftp::waits::WaitClock;

/// What the network does: shares in thousandths, and where its choices begin.
#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    lost: u64,
    doubled: u64,
    late: u64,
    seed: u64,
    /// Most datagrams that wait at the receiver at a time; 0: any.
    room: usize,
}

/// Datagrams under way, by the time when they arrive.
struct Network {
    weather: Weather,
    random: fastrand::Rng,
    to_receiver: BTreeMap<(u64, u64), Vec<u8>>,
    to_sender: BTreeMap<(u64, u64), Vec<u8>>,
    number: u64,
    sent: u64,
}

const TRIP_NS: u64 = 100_000;

impl Network {
    fn new(weather: Weather) -> Network {
        let random = fastrand::Rng::with_seed(weather.seed);
        let (to_receiver, to_sender) = (BTreeMap::new(), BTreeMap::new());
        Network { weather, random, to_receiver, to_sender, number: 0, sent: 0 }
    }

    fn put(&mut self, is_data: bool, now_ns: u64, packet: &[u8]) {
        self.sent += 1;
        let mut hit = |share: u64| self.random.u64(0..1000) < share;
        let Weather { lost, doubled, late, room, .. } = self.weather;
        let copies = if hit(lost) { 0 } else { 1 + u64::from(hit(doubled)) };
        let delays: Vec<bool> = (0..copies).map(|_| hit(late)).collect();
        let queue = if is_data { &mut self.to_receiver } else { &mut self.to_sender };
        for is_late in delays {
            if is_data && room > 0 && queue.len() >= room {
                continue;
            }
            self.number += 1;
            let at_ns = now_ns + TRIP_NS + if is_late { 5 * TRIP_NS } else { 0 };
            queue.insert((at_ns, self.number), packet.to_vec());
        }
    }
}

fn next(queue: &mut BTreeMap<(u64, u64), Vec<u8>>, now_ns: u64) -> Option<Vec<u8>> {
    let entry = queue.first_entry().filter(|entry| entry.key().0 <= now_ns)?;
    Some(entry.remove())
}

/// What a transfer came to.
struct Outcome {
    received: Vec<u8>,
    sender: FileSender,
    receiver: FileReceiver,
    time_ns: u64,
    sent: u64,
}

/// Moves a file, and wants both sides to finish. A pace limits how often the receiver takes one.
fn transfer(file: &[u8], terms: TransferTerms, weather: Weather, pace_ns: u64) -> Outcome {
    let mut network = Network::new(weather);
    let mut opening = Vec::new();
    packet::put_option_ack(
        &mut opening,
        &TftpOptions { window: Some(9), ..TftpOptions::default() },
    );
    let mut sender = FileSender::new(terms, Some(opening), 0);
    let mut receiver = FileReceiver::new(terms, None, 0);
    let (mut received, mut source) = (Vec::new(), file);
    let (mut now_ns, mut packet, mut free_ns) = (0, Vec::new(), 0);
    let mut steps = 0_u64;
    while !sender.is_done() {
        steps += 1;
        assert!(steps < 3_000_000, "it does not come to an end: {:?}", sender.flow.counts());
        assert!(sender.expire(now_ns), "the sender gave up: {:?}", sender.flow.counts());
        assert!(receiver.is_done() || receiver.expire(now_ns), "the receiver gave up");
        while sender.transmit(now_ns, &mut source, &mut packet).expect("a file in memory") {
            network.put(true, now_ns, &packet);
        }
        while receiver.transmit(now_ns, &mut packet) {
            network.put(false, now_ns, &packet);
        }
        while now_ns >= free_ns
            && let Some(bytes) = next(&mut network.to_receiver, now_ns)
        {
            match TftpPacket::check(&bytes).expect("a packet") {
                TftpPacket::Data { block, bytes } => {
                    let long = receiver.take(block, bytes, now_ns, &mut received);
                    assert!(!long.expect("a file in memory"));
                    free_ns = now_ns + pace_ns;
                }
                TftpPacket::OptionAck(_) => receiver.options_again(),
                other => panic!("{other:?}"),
            }
            // What is due goes out between two datagrams, as in a server.
            while receiver.transmit(now_ns, &mut packet) {
                network.put(false, now_ns, &packet);
            }
        }
        while let Some(bytes) = next(&mut network.to_sender, now_ns) {
            match TftpPacket::check(&bytes).expect("a packet") {
                TftpPacket::Ack { block } => sender.acknowledge(block, now_ns),
                other => panic!("{other:?}"),
            }
        }
        let arrivals = [network.to_receiver.keys().next(), network.to_sender.keys().next()];
        let arrival = arrivals.into_iter().flatten().map(|(at_ns, _)| (*at_ns).max(free_ns)).min();
        // A receiver that has everything waits for nothing.
        let receivers = if receiver.is_done() { u64::MAX } else { receiver.deadline_ns() };
        let timers = sender.deadline_ns().min(receivers);
        now_ns = arrival.map_or(timers, |at_ns| at_ns.min(timers)).max(now_ns + 1000);
    }
    Outcome { received, sender, receiver, time_ns: now_ns, sent: network.sent }
}

fn terms(mode: Mode, block_bytes: u16, window: u16) -> TransferTerms {
    // A network that loses half of everything needs patience.
    let patience = Patience { resend_ns: 1_000_000_000, give_up_ns: 3_600_000_000_000 };
    TransferTerms { mode, block_bytes, window, patience }
}

fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| random.u8(..)).collect()
}

/// Text with all that netascii treats apart, in any order.
fn awkward_text(count: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| *random.choice(b"\r\n\0ab").expect("one")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_file_arrives_whatever_the_network_does(
        size in 0_usize..60_000,
        block in prop_oneof![8_u16..64, Just(512), Just(1428)],
        window in prop_oneof![Just(1_u16), 2..20_u16, Just(64)],
        lost in 0..300_u64,
        doubled in 0..300_u64,
        late in 0..300_u64,
        seed in any::<u64>(),
        text in any::<bool>(),
    ) {
        let size = size.min(usize::from(block) * 300);
        let weather = Weather { lost, doubled, late, seed, room: 0 };
        let (mode, file) = match text {
            true => (Mode::Netascii, awkward_text(size, seed)),
            false => (Mode::Octet, bytes(size, seed)),
        };
        let done = transfer(&file, terms(mode, block, window), weather, 0);
        prop_assert!(done.received == file, "{} of {size} bytes", done.received.len());
        prop_assert!(done.receiver.is_done());
        prop_assert_eq!(done.sender.flow.counts().bytes, size as u64);
        prop_assert_eq!(done.receiver.flow.counts().bytes, size as u64);
    }

    #[test]
    fn any_bytes_are_a_packet_or_not_and_what_is_written_is_read(
        any in proptest::collection::vec(any::<u8>(), 0..600),
        name in "[^\0]{1,60}",
        block_bytes in proptest::option::of(8_u16..=65_464),
        timeout_s in proptest::option::of(1_u8..),
        size_bytes in proptest::option::of(any::<u64>()),
        window in proptest::option::of(1_u16..),
        writes in any::<bool>(),
    ) {
        let _ = TftpPacket::check(&any);
        let options = TftpOptions { block_bytes, timeout_s, size_bytes, window };
        let request = TftpRequest { writes, name: name.as_bytes(), mode: Mode::Netascii, options };
        let mut packet = Vec::new();
        if packet::put_request(&mut packet, &request) {
            prop_assert_eq!(TftpPacket::check(&packet), Some(TftpPacket::Request(request)));
        }
        packet::put_option_ack(&mut packet, &options);
        prop_assert_eq!(TftpPacket::check(&packet), Some(TftpPacket::OptionAck(options)));
    }

    #[test]
    fn netascii_comes_back_as_it_was_however_it_is_cut(
        seed in any::<u64>(),
        size in 0..500_usize,
        cut in 1..9_usize,
    ) {
        let text = awkward_text(size, seed);
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let (mut rest, mut out) = (text.as_slice(), Vec::new());
        loop {
            let mut block = Vec::new();
            let taken = encoder.encode(rest, &mut block, cut);
            rest = &rest[taken..];
            decoder.decode(&block, &mut out);
            if block.len() < cut {
                break;
            }
        }
        decoder.finish(&mut out);
        prop_assert_eq!(out, text);
    }
}

#[test]
fn block_numbers_continue_from_zero_after_the_last() {
    let file = bytes(8 * 70_000 + 3, 7);
    for (window, weather) in
        [(1, Weather::default()), (64, Weather { lost: 5, doubled: 20, late: 5, seed: 3, room: 0 })]
    {
        let done = transfer(&file, terms(Mode::Octet, 8, window), weather, 0);
        assert!(done.received == file, "window {window}: {} bytes", done.received.len());
    }
}

/// RFC 1123 4.2.3.1: where each acknowledgement was answered with a block, a doubled one doubled
/// every packet from there to the end.
#[test]
fn the_sorcerers_apprentice_is_not_called() {
    let file = bytes(512 * 400, 1);
    let doubled = Weather { doubled: 1000, seed: 1, ..Weather::default() };
    let done = transfer(&file, terms(Mode::Octet, 512, 1), doubled, 0);
    assert_eq!(done.received, file);
    let counts = done.sender.flow.counts();
    assert_eq!((counts.blocks, counts.blocks_again), (401, 0), "each block is sent once");
}

#[test]
fn a_receiver_with_less_room_than_a_window_gets_everything_without_stalls() {
    let file = bytes(1024 * 2000, 5);
    for room in [1, 3, 16] {
        // The receiver takes one datagram in 20 us, and has room for a part of a window of 64.
        let weather = Weather { room, seed: 9, ..Weather::default() };
        let done = transfer(&file, terms(Mode::Octet, 1024, 64), weather, 20_000);
        assert!(done.received == file, "room {room}");
        let counts = done.sender.flow.counts();
        // A stall is a wait for the longest timeout: there were none after the first window.
        assert!(done.time_ns < 30_000_000_000, "room {room}: {counts:?}, {} ns", done.time_ns);
        assert!(done.sent < 40_000, "room {room}: {counts:?}");
    }
}

#[test]
fn who_does_not_answer_is_given_up() {
    let quick = TransferTerms { patience: Patience::default(), ..terms(Mode::Octet, 512, 4) };
    let file = [7_u8; 5000];
    let mut source = file.as_slice();
    let (mut sender, mut receiver) =
        (FileSender::new(quick, None, 0), FileReceiver::new(quick, None, 0));
    let (mut now_ns, mut packet, mut blocks) = (0, Vec::new(), 0);
    while sender.expire(now_ns) {
        while sender.transmit(now_ns, &mut source, &mut packet).expect("read") {
            blocks += 1;
        }
        now_ns = sender.deadline_ns().max(now_ns + 1);
    }
    assert!(now_ns >= Patience::default().give_up_ns && blocks < 100, "{blocks} blocks");
    let (mut now_ns, mut acks) = (0, 0);
    while receiver.expire(now_ns) {
        while receiver.transmit(now_ns, &mut packet) {
            acks += 1;
        }
        now_ns = receiver.deadline_ns().max(now_ns + 1);
    }
    assert!(now_ns >= Patience::default().give_up_ns && acks < 30, "{acks} acknowledgements");
}

#[test]
fn a_file_that_changes_while_it_is_sent_is_not_sent_as_a_mixture() {
    let mut sender = FileSender::new(terms(Mode::Octet, 512, 2), None, 0);
    let (long, short) = ([1_u8; 5000], [1_u8; 700]);
    let mut packet = Vec::new();
    let mut source = long.as_slice();
    while sender.transmit(0, &mut source, &mut packet).expect("read") {}
    // Nothing is acknowledged: both are sent again after a pause, and the second is shorter now.
    assert!(sender.expire(1_000_000_000));
    let mut source = short.as_slice();
    assert!(sender.transmit(1_020_000_000, &mut source, &mut packet).expect("as before"));
    let changed = sender.transmit(1_040_000_000, &mut source, &mut packet);
    assert_eq!(changed.expect_err("it differs").to_string(), "the file has changed");
}

/// Servers that send what is left of a file which becomes shorter once had it pass for the whole.
#[test]
fn fewer_bytes_than_were_announced_are_not_the_file() {
    for (announced_bytes, is_whole) in [(0, true), (562, true), (563, false), (5_000, false)] {
        let mut receiver = FileReceiver::new(terms(Mode::Octet, 512, 1), None, 0);
        receiver.announce(announced_bytes);
        let mut file = Vec::new();
        receiver.take(1, &[1; 512], 0, &mut file).expect("a block");
        let last = receiver.take(2, &[1; 50], 0, &mut file);
        assert_eq!((last.is_ok(), receiver.is_done()), (is_whole, is_whole), "{announced_bytes}");
    }
}

#[test]
fn options_out_of_range_are_left_out_and_the_first_counts() {
    let request =
        b"\0\x01f\0OCTET\0BLKSIZE\x008\0blksize\x00512\0windowsize\x000\0timeout\x00256\0\
        tsize\x00+5\0multicast\0\0windowsize\x0070000\0timeout\x00255\0";
    let expected =
        TftpOptions { block_bytes: Some(8), timeout_s: Some(255), ..TftpOptions::default() };
    let Some(TftpPacket::Request(request)) = TftpPacket::check(request) else {
        panic!("a request")
    };
    assert_eq!(request.options, expected);
    for none in [&b"\0\x01f\0mail\0"[..], b"\0\x01\0octet\0", b"\0\x01f\0octet", b"\0\x07", b"\0"] {
        assert_eq!(TftpPacket::check(none), None, "{none:?}");
    }
}

#[test]
fn the_shares_of_a_wait_add_up_and_a_lost_packet_is_the_networks() {
    let mut clock = WaitClock::new(1000);
    clock.wait(1100);
    clock.answered(1150, true);
    // The shortest wait so far was 50: of the next one, 200 are the other side's.
    clock.wait(1200);
    clock.answered(1450, true);
    clock.wait(1500);
    clock.lost(2500);
    // Nothing is waited for: an answer adds nothing.
    clock.answered(2600, true);
    // Within a window the other side has its turn, and a pause of ours is the network's doing.
    clock.wait_for_more(2600);
    clock.answered(2607, true);
    clock.pause(2700);
    clock.resume(2800);
    let waits = clock.waits(3000);
    assert_eq!((waits.network_ns, waits.other_ns), (50 + 50 + 1000 + 100, 207));
    assert_eq!(
        (waits.total_ns, waits.ours_ns(), waits.longest()),
        (2000, 593, WaitedSide::Network)
    );
}

/// It once counted as this side's until it ended, and for good where nothing came any more.
#[test]
fn a_wait_that_continues_counts_for_the_side_that_is_waited_for() {
    let mut clock = WaitClock::new(0);
    clock.wait(100);
    clock.answered(150, true);
    clock.wait(200);
    let shares = |clock: &WaitClock, now_ns| {
        let waits = clock.waits(now_ns);
        (waits.ours_ns(), waits.network_ns, waits.other_ns)
    };
    assert_eq!(shares(&clock, 230), (150, 80, 0));
    assert_eq!(shares(&clock, 1200), (150, 100, 950));
    assert_eq!(shares(&clock, 1200), (150, 100, 950), "asking changes nothing");
    clock.answered(1200, true);
    assert_eq!(shares(&clock, 1300), (250, 100, 950));
    clock.pause(1300);
    assert_eq!(shares(&clock, 1400), (250, 200, 950), "a pause is the network's doing");
}

#[test]
fn a_stall_is_counted_once_and_by_its_cause() {
    const MS: u64 = 1_000_000;
    let mut clock = WaitClock::new(0);
    // This side reads its file for half a second.
    assert_eq!(clock.note_wait(199 * MS), None);
    assert_eq!(clock.note_wait(500 * MS), Some(WaitedSide::This));
    assert_eq!(clock.note_wait(600 * MS), None, "the same stall");
    clock.wait(600 * MS);
    clock.answered(601 * MS, true);
    // The other side does not answer before anything is sent again.
    clock.wait(601 * MS);
    assert_eq!(clock.note_wait(900 * MS), Some(WaitedSide::Other));
    clock.answered(950 * MS, true);
    // Packets are sent again, and one answer comes: something was lost.
    clock.wait(950 * MS);
    clock.lost(1000 * MS);
    clock.wait(1000 * MS);
    assert_eq!(clock.note_wait(1200 * MS), Some(WaitedSide::Network));
    clock.answered(1250 * MS, false);
    let waits = clock.waits(1250 * MS);
    let stalls = |waits: &weir_net::tftp::waits::Waits| {
        (waits.stalls.this_side_stalls, waits.stalls.network_stalls, waits.stalls.other_side_stalls)
    };
    assert_eq!((stalls(&waits), waits.stalls.all()), ((1, 1, 1), 3));
    // The same again, and then each copy is answered: nothing was lost.
    clock.wait(1250 * MS);
    clock.lost(1500 * MS);
    clock.wait(1500 * MS);
    assert_eq!(clock.note_wait(1500 * MS), Some(WaitedSide::Network));
    clock.answered(1501 * MS, false);
    let network_ns = clock.waits(1501 * MS).network_ns;
    clock.answered_again();
    clock.answered_again();
    let waits = clock.waits(1501 * MS);
    assert_eq!(stalls(&waits), (1, 1, 2));
    assert_eq!(waits.network_ns, network_ns - 250 * MS);
    assert_eq!(waits.ours_ns() + waits.network_ns + waits.other_ns, waits.total_ns);
}
