//! TCP against other sides that break its rules: what they forge, repeat, leave out or never read
//! (docs/contracts/tcp.md). All of it without a device and without a clock.

use crate::any_segments::{ACK, FIN, Game, RST, SYN, Sent, play};
use proptest::prelude::*;
use weir_net::stalls::WaitedSide;
use weir_net::tcp::Stack;
use weir_net::tcp::smol::BUFFER_BYTES;

/// Options of a request: segments of 1460 bytes, windows shifted by 7 bits.
const OPTIONS: &[u8] = &[2, 4, 5, 180, 1, 3, 3, 7];

fn opened(clients: usize) -> Game {
    let mut game = Game::new(false, clients);
    for client in 0..clients {
        game.handshake(client, 1_000_000 * client as u32, OPTIONS);
    }
    assert_eq!(game.open(), clients);
    game
}

/// Sends a segment of the first client, its numbers as far off as said.
fn forge(game: &mut Game, flags: u8, ahead: u32, acknowledges_ahead: u32, data_bytes: usize) {
    let known = game.clients[0];
    let sequence = known.expected.wrapping_add(ahead);
    let acknowledgement = known.sent_end.wrapping_add(acknowledges_ahead);
    let window = u16::MAX;
    let options = &[];
    game.segment(0, Sent { flags, sequence, acknowledgement, window, options, data_bytes });
    game.poll();
}

proptest! {
    #[test]
    fn whatever_comes_bytes_keep_their_places(
        bytes in prop::collection::vec(any::<u8>(), 0..3000)
    ) {
        play(&bytes);
    }
}

#[test]
fn only_a_reset_with_the_next_number_ends_a_connection() {
    let mut game = opened(2);
    // With its first acknowledgement our side says how long its window is.
    forge(&mut game, ACK, 0, 0, 1);
    assert_eq!(game.read(0, 9), 1);
    for (ahead, answers) in [(1, true), (70_000, true), (u32::MAX, false), (1 << 31, false)] {
        game.wait(2_000);
        let before = game.clients[0];
        forge(&mut game, RST, ahead, 0, 0);
        let after = game.clients[0];
        assert_eq!(after.segments - before.segments, usize::from(answers), "{ahead} ahead");
        if answers {
            // Whoever means it learns the number that is believed.
            assert_eq!((after.flags, after.expected), (ACK, before.expected));
        }
    }
    assert_eq!((game.open(), game.stack.counts().disbelieved), (2, 4));
    forge(&mut game, RST, 0, 0, 0);
    assert_eq!(game.open(), 1, "the one that was reset, and no other");
}

#[test]
fn a_reset_right_behind_its_data_is_believed() {
    let mut game = opened(1);
    let known = game.clients[0];
    let (flags, window, acknowledgement) = (ACK, u16::MAX, known.sent_end);
    let data = Sent {
        flags,
        sequence: known.expected,
        acknowledgement,
        window,
        data_bytes: 100,
        ..Sent::default()
    };
    game.segment(0, data);
    // The data are not acknowledged yet.
    let sequence = known.expected.wrapping_add(100);
    game.segment(0, Sent { flags: RST, sequence, ..Sent::default() });
    game.poll();
    assert_eq!((game.open(), game.stack.counts().disbelieved), (1, 0), "100 bytes wait to be read");
    assert_eq!(game.read(0, 1000), 100);
    assert_eq!(game.open(), 0);
}

#[test]
fn what_is_unread_outlives_a_reset_and_not_an_abort() {
    let mut game = opened(2);
    for client in 0..2 {
        let known = game.clients[client];
        let (sequence, acknowledgement) = (known.expected, known.sent_end);
        let (flags, window, data_bytes) = (ACK, u16::MAX, 1000);
        let data = Sent { flags, sequence, acknowledgement, window, data_bytes, ..Sent::default() };
        game.segment(client, data);
        game.poll();
    }
    forge(&mut game, RST, 0, 0, 0);
    assert_eq!((game.open(), game.over()), (2, 1));
    assert_eq!(game.read(0, 400), 400);
    for connection in 0..2 {
        game.end(connection, 2);
    }
    assert_eq!((game.open(), game.over()), (0, 2));
    assert_eq!((game.read(0, 1000), game.read(1, 1000)), (0, 0));
    game.poll();
    assert_eq!((game.clients[0].resets, game.clients[1].resets), (0, 1));
}

#[test]
fn a_flood_of_forged_resets_and_requests_costs_one_answer_a_second() {
    let mut game = opened(1);
    let before = game.clients[0].segments;
    for at in 1..1000 {
        forge(&mut game, if at % 2 == 0 { RST } else { SYN }, at * 60, 0, 0);
        game.wait(3);
    }
    assert_eq!(game.open(), 1);
    let answers = game.clients[0].segments - before;
    assert!((2..=4).contains(&answers), "{answers} answers in three seconds");
    assert_eq!(game.stack.counts().disbelieved, 999);
}

#[test]
fn a_request_in_a_connection_is_answered_and_ends_nothing() {
    let mut game = opened(1);
    for (at, flags) in [SYN, SYN | ACK, SYN | FIN].into_iter().enumerate() {
        game.wait(2_000);
        let before = game.clients[0];
        forge(&mut game, flags, [0, 5, 1 << 31][at], 0, 0);
        let after = game.clients[0];
        assert_eq!((after.segments - before.segments, after.flags), (1, ACK), "{at}");
        assert_eq!((after.first, after.expected), (before.first, before.expected));
    }
    forge(&mut game, ACK, 0, 0, 10);
    assert_eq!(game.read(0, 100), 10, "it goes on");
}

/// A duplicate once made a second connection of the same ends, of which one reset the other.
#[test]
fn a_request_that_comes_twice_makes_one_connection() {
    let mut game = opened(1);
    // Leaves a socket that listens before that of the connection: a request finds it first.
    forge(&mut game, RST, 0, 0, 0);
    game.end(0, 3);
    let sequence = 77;
    let request = Sent { flags: SYN, sequence, window: 1000, options: OPTIONS, ..Sent::default() };
    for ms in [0, 0, 5] {
        game.segment(0, request);
        game.wait(ms);
    }
    let known = game.clients[0];
    forge(&mut game, ACK, 0, 0, 0);
    game.segment(0, request);
    game.poll();
    assert_eq!(game.clients[0].first, known.first, "one number of our first byte");
    assert_eq!((game.open(), game.connections(), game.clients[0].resets), (1, 2, 0));
    forge(&mut game, ACK, 0, 0, 10);
    assert_eq!(game.read(1, 100), 10);
}

#[test]
fn what_is_beyond_the_end_is_not_read() {
    let mut game = opened(1);
    forge(&mut game, ACK | FIN, 0, 0, 10);
    // The number of its FIN is that of no byte.
    forge(&mut game, ACK, u32::MAX - 4, 0, 100);
    forge(&mut game, ACK, 0, 0, 100);
    assert_eq!((game.read(0, 1000), game.read(0, 1000)), (10, 0));
}

/// Its FIN and its acknowledgement were noted, and those that came after it judged by them.
#[test]
fn a_segment_with_broken_options_says_nothing() {
    let mut game = opened(1);
    let known = game.clients[0];
    let (sequence, acknowledgement) = (known.expected, known.sent_end);
    let (flags, window, data_bytes) = (ACK | FIN, u16::MAX, 10);
    // An option beyond the header.
    let options = &[200, 98, 20, 242];
    game.segment(0, Sent { flags, sequence, acknowledgement, window, options, data_bytes });
    game.poll();
    assert_eq!((game.read(0, 100), game.stack.counts().bad_segments), (0, 1));
    forge(&mut game, ACK, 0, 0, 20);
    assert_eq!(game.read(0, 100), 20, "more than the broken one said that there is");
}

#[test]
fn a_client_that_began_anew_gets_a_new_connection() {
    let mut game = opened(1);
    let next = game.clients[0].expected;
    // It has forgotten everything, and asks from the same port.
    game.segment(0, Sent { flags: SYN, sequence: 5, window: u16::MAX, ..Sent::default() });
    game.poll();
    assert_eq!((game.clients[0].flags, game.clients[0].expected), (ACK, next));
    // It does not know of that (RFC 9293, 3.5.1), and asks again.
    forge(&mut game, RST, 0, 0, 0);
    assert_eq!(game.open(), 0);
    game.handshake(0, 5, OPTIONS);
    assert_eq!(game.open(), 1);
}

#[test]
fn a_port_is_used_again_while_its_last_connection_waits_out_its_end() {
    let mut game = opened(1);
    game.end(0, 0);
    game.poll();
    assert_eq!(game.clients[0].flags & FIN, FIN);
    forge(&mut game, ACK | FIN, 0, 0, 0);
    game.end(0, 3);
    let next = game.clients[0].expected;
    // An old request, late: the end is still waited out.
    game.segment(0, Sent { flags: SYN, sequence: next.wrapping_sub(9), ..Sent::default() });
    game.poll();
    assert_ne!(game.clients[0].flags & SYN, SYN);
    game.handshake(0, next.wrapping_add(64_000), OPTIONS);
    assert_eq!(game.open(), 1);
}

#[test]
fn blind_data_and_acknowledgements_do_nothing() {
    let mut game = opened(1);
    assert_eq!(game.write(0, 5_000), 5_000);
    game.poll();
    for (ahead, acknowledges_ahead) in
        [(0, 1 << 30), (0, 5_001), (1 << 30, 0), (u32::MAX - 100_000, 0), (0, 1 << 31)]
    {
        forge(&mut game, ACK, ahead, acknowledges_ahead, 1_000);
        assert_eq!(game.read(0, 10_000), 0, "{ahead} ahead, acknowledges {acknowledges_ahead}");
    }
    // Nothing was taken for acknowledged: after a while all of it is sent again.
    let before = game.stack.counts();
    game.wait(2_000);
    let counts = game.stack.counts();
    assert!(counts.segments_again > before.segments_again, "{counts:?} {before:?}");
    forge(&mut game, ACK, 0, 0, 1_000);
    assert_eq!(game.read(0, 10_000), 1_000);
}

#[test]
fn one_that_never_reads_holds_up_no_other() {
    let mut game = opened(3);
    // The first has its window full at once, the second takes all, the third sends.
    game.write(0, 1_000);
    game.poll();
    let known = game.clients[0];
    let (sequence, acknowledgement) = (known.expected, known.sent_end);
    game.segment(0, Sent { flags: ACK, sequence, acknowledgement, ..Sent::default() });
    let mut came = 0;
    for _ in 0..200 {
        game.write(0, 1 << 20);
        game.write(1, 1 << 20);
        game.poll();
        let known = game.clients[1];
        let ack = Sent {
            flags: ACK,
            sequence: known.expected,
            acknowledgement: known.sent_end,
            window: u16::MAX,
            ..Sent::default()
        };
        game.segment(1, ack);
        let known = game.clients[2];
        let (sequence, acknowledgement) = (known.expected, known.sent_end);
        game.segment(2, Sent { sequence, acknowledgement, data_bytes: 1460, ..ack });
        came += game.read(2, 1 << 20);
        game.wait(5);
    }
    let first = game.clients[1].first.expect("open");
    let sent_bytes = game.clients[1].sent_end.wrapping_sub(first);
    assert!(sent_bytes > 2_000_000, "{sent_bytes} bytes to the one that reads");
    assert_eq!(came, 200 * 1460);
    let counts = game.stack.counts();
    assert!(
        counts.waits.stalls.other_side_stalls >= 1 && counts.waits.other_side_ns > 500_000_000,
        "{counts:?}"
    );
    let mut sides = Vec::new();
    game.stack.each_connection(&mut |it| sides.push((it.remote.port(), it.waits_for)));
    assert_eq!(sides[0], (5000, Some(WaitedSide::Other)), "{sides:?}");
    assert_eq!(sides[2].1, None, "{sides:?}");
}

#[test]
fn what_nobody_here_reads_is_this_sides_stall_and_bounded() {
    let mut game = opened(1);
    let mut sent = 0;
    while game.clients[0].window > 0 && sent < 2 * BUFFER_BYTES {
        forge(&mut game, ACK, 0, 0, 1460);
        sent += 1460;
    }
    assert!(sent <= BUFFER_BYTES + 1460, "{sent} bytes were taken");
    for _ in 0..10 {
        game.wait(100);
        // More than fits, and a probe: neither is taken.
        forge(&mut game, ACK, 0, 0, 1);
    }
    let waits = game.stack.counts().waits;
    assert_eq!((waits.stalls.this_side_stalls, waits.network_ns, waits.other_side_ns), (1, 0, 0));
    assert!(waits.this_side_ns >= 900_000_000, "{waits:?}");
    assert!(game.read(0, 1 << 20) > BUFFER_BYTES - 1460, "as much as fits");
}

#[test]
fn requests_that_end_at_once_leave_nothing_behind() {
    let mut game = Game::new(false, 1);
    for at in 0..3_000_u32 {
        let sequence = at * 100_000;
        match at % 4 {
            // Asked, and reset; asked, and left; opened, and reset; opened, and closed by both.
            0 | 1 => {
                let flags = SYN;
                game.segment(0, Sent { flags, sequence, window: 1000, ..Sent::default() });
                game.poll();
                let sequence = game.clients[0].expected;
                game.segment(0, Sent { flags: RST, sequence, ..Sent::default() });
                game.poll();
            }
            2 => {
                game.handshake(0, sequence, OPTIONS);
                forge(&mut game, RST, 0, 0, 0);
            }
            _ => {
                game.handshake(0, sequence, OPTIONS);
                forge(&mut game, ACK | FIN, 0, 0, 0);
                let connection = game.connections() - 1;
                game.end(connection, 0);
                game.poll();
                forge(&mut game, ACK, 0, 0, 0);
            }
        }
        for connection in 0..game.connections() {
            game.end(connection, 3);
        }
        game.poll();
    }
    assert_eq!(game.open(), 0);
    game.wait(20_000);
    assert_eq!(game.stack.kept(), (0, 0));
}

/// A time limit of smoltcp's once ended such connections after a minute.
#[test]
fn a_connection_with_nothing_to_do_stays() {
    let mut game = opened(2);
    // The second has sent its last, and waits for ours.
    let known = game.clients[1];
    let (sequence, acknowledgement) = (known.expected, known.sent_end);
    let last = Sent { flags: ACK | FIN, sequence, acknowledgement, ..Sent::default() };
    game.segment(1, last);
    for _ in 0..400 {
        game.wait(1_000);
    }
    assert_eq!((game.open(), game.clients[0].resets, game.clients[1].resets), (2, 0, 0));
    assert_eq!((game.write(0, 500), game.write(1, 500)), (500, 500));
    game.poll();
    forge(&mut game, ACK, 0, 0, 100);
    assert_eq!(game.read(0, 1_000), 100);
    // Now there is something to acknowledge, and nobody does.
    let first = game.clients[0].first.expect("open");
    assert_eq!(game.clients[0].sent_end.wrapping_sub(first), 500);
    for second in 0..62 {
        forge(&mut game, ACK, 0, 0, 0);
        assert!(second > 58 || game.open() == 2, "after {second} s");
        game.wait(1_000);
    }
    assert_eq!((game.open(), game.clients[1].resets), (1, 1), "the silent one is given up");
}

/// Such clients kept their sockets, of which there is a number, for as long as they liked.
#[test]
fn a_client_that_answers_and_takes_nothing_of_what_is_left_is_given_up() {
    let mut game = opened(2);
    for client in 0..2 {
        assert_eq!(game.write(client, 200_000), 200_000);
        game.end(client, 0);
        game.end(client, 3);
    }
    let known = game.clients[0];
    let (sequence, acknowledgement) = (known.expected, known.sent_end);
    let sent = Sent { flags: ACK | FIN, sequence, acknowledgement, ..Sent::default() };
    // Both have sent their last. The second takes a byte now and then.
    for client in 0..2 {
        game.segment(client, Sent { sequence: game.clients[client].expected, ..sent });
    }
    for second in 0..130_u32 {
        for client in 0..2 {
            if game.clients[client].resets > 0 {
                continue;
            }
            let first = game.clients[client].first.expect("open");
            let sequence = game.clients[client].expected;
            let taken = if client == 1 { second / 50 } else { 0 };
            let acknowledgement = first.wrapping_add(taken);
            let window = u16::from(client == 1 && second % 50 == 49);
            let answer = Sent { flags: ACK, sequence, acknowledgement, window, ..Sent::default() };
            game.segment(client, answer);
        }
        game.wait(1_000);
    }
    assert!(game.over() == 1 && game.clients[0].resets > 0, "it answered all the time");
    assert_eq!(game.clients[1].resets, 0, "it took bytes");
}
