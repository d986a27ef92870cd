//! Requests for connections of TCP: how they are answered and kept until they are completed, and
//! what belongs to none (docs/contracts/tcp.md). All of it without a device and without a clock.

use crate::any_segments::{ACK, Client, FIN, Game, RST, SYN, Sent};
use std::net::SocketAddrV4;
use weir_net::tcp::Stack;

/// Options of a request: segments of 1460 bytes, windows shifted by 7 bits.
const OPTIONS: &[u8] = &[2, 4, 5, 180, 1, 3, 3, 7];

/// Sends an acknowledgement of the first client with data, `ahead` of what is expected of it.
fn acknowledge(game: &mut Game, ahead: u32, data_bytes: usize) {
    let Client { expected, sent_end: acknowledgement, .. } = game.clients[0];
    let (sequence, window, flags) = (expected.wrapping_add(ahead), u16::MAX, ACK);
    let options = &[];
    game.segment(0, Sent { flags, sequence, acknowledgement, window, options, data_bytes });
    game.poll();
}

/// Each request once took a socket with its buffers, up to 1 GiB of them.
#[test]
fn a_flood_of_requests_takes_no_socket_and_keeps_nobody_out() {
    const FLOOD: usize = 20_000;
    let mut game = Game::new(false, FLOOD + 1);
    let request = |client| {
        let sequence = client as u32 * 7_000;
        Sent { flags: SYN, sequence, window: 1000, options: OPTIONS, ..Sent::default() }
    };
    let mut most = 0;
    for client in 1..=FLOOD {
        if client == FLOOD - 5_000 {
            game.segment(0, request(0));
        }
        game.segment(client, request(client));
        if client % 256 == 0 {
            game.poll();
        }
        most = most.max(game.stack.kept().0);
    }
    let (sockets, known) = game.stack.kept();
    assert_eq!((sockets, most), (0, 0), "sockets, each with 512 KiB");
    assert!(known <= 4096, "{known} requests are kept");
    // One that means it came when there was no room, and answers late. What it sent first was lost.
    acknowledge(&mut game, 10, 10);
    assert_eq!((game.open(), game.clients[0].resets), (0, 0));
    acknowledge(&mut game, 0, 20);
    assert_eq!((game.open(), game.read(0, 100)), (1, 20));
    assert_eq!(game.write(0, 500), 500);
    game.poll();
    let first = game.clients[0].first.expect("open");
    assert_eq!(game.clients[0].sent_end.wrapping_sub(first), 500);
    acknowledge(&mut game, 0, 0);
    // What acknowledges a number that was never sent takes no socket, nor does the last one again.
    for client in [1, FLOOD] {
        let sequence = game.clients[client].expected;
        game.segment(client, Sent { flags: ACK, sequence, acknowledgement: 5, ..Sent::default() });
    }
    acknowledge(&mut game, 0, 0);
    assert_eq!((game.clients[1].resets, game.clients[FLOOD].resets), (1, 0));
    assert_eq!((game.stack.kept().0, game.connections()), (1, 1));
    for _ in 0..70 {
        game.wait(1_000);
        acknowledge(&mut game, 0, 0);
    }
    assert_eq!(game.stack.kept(), (1, 1), "nothing is left of the flood");
    assert_eq!(game.stack.counts().half_open_dropped, known as u64);
    // What comes late is no longer believed.
    let Client { expected: sequence, sent_end, .. } = game.clients[FLOOD];
    let late = Sent { flags: ACK, sequence, acknowledgement: sent_end, ..Sent::default() };
    game.segment(FLOOD, late);
    assert_eq!((game.clients[FLOOD].resets, game.connections()), (1, 1));
}

#[test]
fn an_answer_that_is_lost_is_sent_again_as_it_was() {
    let mut game = Game::new(false, 2);
    // Data that come with a request come again after it.
    let request = Sent {
        flags: SYN,
        sequence: 77,
        window: 1000,
        options: OPTIONS,
        data_bytes: 10,
        ..Sent::default()
    };
    for client in 0..2 {
        game.segment(client, Sent { ..request });
    }
    let answered = game.clients[0];
    assert_eq!((answered.segments, answered.flags, answered.expected), (1, SYN | ACK, 78));
    assert_ne!(answered.first, game.clients[1].first, "numbers that nobody foresees");
    game.segment(0, Sent { ..request });
    assert_eq!((game.clients[0].segments, game.stack.counts().disbelieved), (1, 0));
    for (ms, segments) in [(900, 1), (200, 2), (1_000, 2), (200, 3), (3_000, 4)] {
        game.wait(ms);
        let again = game.clients[0];
        assert_eq!((again.segments, again.first), (segments, answered.first), "{ms} ms later");
    }
    acknowledge(&mut game, 0, 10);
    assert_eq!((game.open(), game.read(0, 100), game.connections()), (1, 10, 1));
    game.wait(6_000);
    assert_eq!(game.stack.counts().half_open_dropped, 1, "the other was given up");
    acknowledge(&mut game, 0, 10);
    assert_eq!(game.read(0, 100), 10);
}

/// Those that nobody can have were asked for a minute (RFC 1122, 4.2.3.10).
#[test]
fn only_an_address_that_a_host_can_have_is_connected_to() {
    let mut game = Game::new(false, 0);
    let mut connects = |host: &str| {
        let to = SocketAddrV4::new(host.parse().expect("an address"), 7);
        game.stack.connect(50_000, to, 0).is_some()
    };
    for host in ["10.9.0.255", "10.9.0.0", "255.255.255.255", "224.0.0.1", "127.0.0.1", "0.0.0.0"] {
        assert!(!connects(host), "{host}");
    }
    assert!(!connects("10.9.0.2"), "this host itself");
    assert!(connects("10.9.0.1"));
}

#[test]
fn what_belongs_to_no_connection_is_reset_if_it_acknowledges_something() {
    let mut game = Game::new(false, 1);
    for (flags, answers) in [(0, 0), (FIN, 0), (RST, 0), (RST | ACK, 0), (ACK, 1), (ACK | FIN, 2)] {
        game.segment(0, Sent { flags, sequence: 7, acknowledgement: 9, ..Sent::default() });
        game.poll();
        let known = game.clients[0];
        assert_eq!((known.segments, known.resets), (answers, answers), "flags {flags}");
    }
    assert_eq!(game.stack.kept(), (0, 0));
}

/// Whoever knew the ports could make our side take the windows of a client for smaller ones.
#[test]
fn a_forged_answer_changes_nothing_of_a_request() {
    let mut game = Game::new(false, 1);
    let request =
        Sent { flags: SYN, sequence: 77, window: 1000, options: OPTIONS, ..Sent::default() };
    game.segment(0, request);
    let forged = Sent { flags: SYN | ACK, sequence: 5, acknowledgement: 6, ..Sent::default() };
    game.segment(0, forged);
    let Client { expected: sequence, sent_end: acknowledgement, .. } = game.clients[0];
    let ack = Sent { flags: ACK, sequence, acknowledgement, window: 9, ..Sent::default() };
    game.segment(0, ack);
    game.poll();
    let mut windows = Vec::new();
    game.stack.each_connection(&mut |it| windows.push(it.other_window_bytes));
    assert_eq!(windows, [9 << 7]);
}

/// It once ended the wait for the end of the connection before.
#[test]
fn a_request_that_makes_no_sense_makes_no_way() {
    let mut game = Game::new(false, 1);
    game.handshake(0, 77, OPTIONS);
    game.end(0, 0);
    game.poll();
    acknowledge(&mut game, 0, 0);
    let Client { expected: sequence, sent_end: acknowledgement, .. } = game.clients[0];
    // No poll: the connection waits out its end.
    game.end(0, 3);
    let last = Sent { flags: ACK | FIN, sequence, acknowledgement, window: 9, ..Sent::default() };
    game.segment(0, last);
    assert_eq!(game.stack.kept(), (1, 1));
    for (flags, options) in [(SYN | FIN, &[][..]), (SYN | RST, &[]), (SYN, &[200, 98, 20, 242])] {
        let sequence = sequence.wrapping_add(64_000);
        game.segment(0, Sent { flags, sequence, options, ..Sent::default() });
        assert_eq!(game.stack.kept(), (1, 1), "flags {flags}");
    }
}
