//! The promises of docs/contracts/mpx.md about waiting: calls that sleep, one wait, descriptors.

use crate::common;
use crate::exchange::{Exchange, LONG, drain, exchange, kinds, receive};
use crate::raw;
use crate::words::words_of;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir::{ErrorKind, Timeout, Wait, Waitable};
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

#[test]
fn a_ping_pong_loses_no_wake_up() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "ping");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..5_000_u32 {
                let ball = receive(&mut peer, 1).remove(0);
                assert_eq!(ball.bytes, number.to_le_bytes());
                peer.send(there, &ball.bytes).expect("sent");
            }
        });
        for number in 0..5_000_u32 {
            exchange.owner.send(here, &number.to_le_bytes()).expect("sent");
            assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, number.to_le_bytes());
        }
    });
}

/// A reader that has not slept for long takes over the writers' fences, and gives them back when it
/// goes to sleep. It does not miss a record that comes just then.
#[test]
fn a_reader_that_took_the_fences_over_is_woken() {
    const RECORDS: u64 = 20_000;
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, _) = exchange.open(&mut peer, "stream");
    let (got, turn) = (AtomicU64::new(0), Duration::from_micros(300));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while count < 20 * (RECORDS + 1) {
                let see = |record: weir_mpx::Record<'_>| count += record.bytes.len() as u64 / 8;
                peer.receive_each_timeout(&mut [0; 4096], LONG, see).expect("woken");
                got.store(count, Ordering::Release);
            }
        });
        let mut sent = 0;
        for round in 0..20 {
            let until = (round + 1) * (RECORDS + 1);
            while sent < until {
                if sent + 1 == until {
                    while got.load(Ordering::Acquire) < sent {
                        std::thread::yield_now();
                    }
                    // sleep: about as long as the reader looks before it sleeps.
                    std::thread::sleep(turn * round as u32 / 10);
                }
                match exchange.owner.send(here, &sent.to_le_bytes()).expect("sent") {
                    8 => sent += 1,
                    // The lane is full: the rest of a record would have to be sent first.
                    taken => {
                        assert_eq!(taken, 0);
                        let _ =
                            exchange.owner.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {});
                        std::thread::yield_now();
                    }
                }
            }
        }
    });
}

#[test]
fn a_sender_that_waits_for_room_is_woken_each_time() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "room");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = 3_000_000;
            while left > 0 {
                let taken = peer.send(there, &vec![7; left.min(50_000)]).expect("sent");
                left -= taken;
                let mut is_blocked = taken < 50_000 && left > 0;
                while is_blocked {
                    let mut see = |kind| is_blocked &= kind != RecordKind::Unblocked;
                    peer.receive_each_timeout(&mut [0; 64], LONG, |record| see(record.kind))
                        .expect("received");
                }
            }
        });
        let mut got = 0;
        while got < 3_000_000 {
            let mut buffer = vec![0; 70_000];
            exchange
                .owner
                .receive_each_timeout(&mut buffer, LONG, |record| got += record.bytes.len())
                .expect("received");
        }
        assert_eq!(got, 3_000_000);
    });
}

/// A sender that had been told that its channel was full heard of no room once the channel had been
/// connected and disconnected, and one that had not been told heard of some.
#[test]
fn who_was_told_that_a_channel_is_full_is_told_once_of_room() {
    let mut exchange = exchange();
    let (mut left, mut right) = (exchange.peer(), exchange.peer());
    let (one, _) = exchange.open(&mut left, "left");
    let (other, there) = exchange.open(&mut right, "right");
    let long = vec![7; 1 << 20];
    assert!(exchange.owner.send(one, &long).expect("sent") < long.len());
    assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Blocked]);
    exchange.owner.connect(one, other).expect("connected");
    drain(&mut left);
    assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Unblocked]);
    while right.send(there, &long).expect("sent") > 0 {
        assert!(drain(&mut exchange.owner).is_empty(), "what is moved is no news");
    }
    exchange.owner.disconnect(one).expect("there");
    drain(&mut left);
    let shown = kinds(&drain(&mut exchange.owner));
    assert!(shown.iter().all(|kind| *kind == RecordKind::Data), "{shown:?}");
}

/// What was moved had filled a channel. Once it was the user's again, a send that was not taken was followed
/// by no record: one that waited for room waited for ever.
#[test]
fn who_sends_on_what_moving_has_filled_is_told_of_room() {
    let mut exchange = exchange();
    let (mut left, mut right) = (exchange.peer(), exchange.peer());
    let (one, _) = exchange.open(&mut left, "left");
    let (other, there) = exchange.open(&mut right, "right");
    let long = vec![7; 1 << 20];
    exchange.owner.connect(one, other).expect("connected");
    while right.send(there, &long).expect("sent") > 0 {
        assert!(drain(&mut exchange.owner).is_empty(), "it is moved");
    }
    exchange.owner.disconnect(one).expect("there");
    let shown = kinds(&drain(&mut exchange.owner));
    assert!(shown.iter().all(|kind| *kind == RecordKind::Data), "{shown:?}");
    for _ in 0..2 {
        assert!(exchange.owner.send(one, &long).expect("sent") < long.len());
    }
    assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Blocked]);
    drain(&mut left);
    assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Unblocked]);
}

#[test]
fn many_peers_at_once_lose_nothing() {
    const PEERS: u32 = 8;
    const RECORDS: u32 = 2_000;
    let mut exchange = exchange();
    let name = exchange.name.clone();
    let threads: Vec<_> = (0..PEERS)
        .map(|_| {
            let name = name.clone();
            std::thread::spawn(move || {
                let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
                let channel = peer.open(b"many").expect("opened");
                for number in 0..RECORDS {
                    let bytes = number.to_le_bytes();
                    while peer.send(channel, &bytes).expect("sent") == 0 {
                        receive_any(&mut peer);
                    }
                }
                peer.close(channel).expect("closed");
            })
        })
        .collect();
    let mut next = std::collections::HashMap::new();
    let mut closed = 0;
    while closed < PEERS {
        let mut opens = Vec::new();
        let mut buffer = [0; 4096];
        exchange
            .owner
            .receive_each_timeout(&mut buffer, LONG, |record| match record.kind {
                RecordKind::Open => opens.push(record.channel),
                RecordKind::Data => {
                    let number = next.entry(record.channel).or_insert(0_u32);
                    assert_eq!(record.bytes, number.to_le_bytes());
                    *number += 1;
                }
                RecordKind::Close(weir::Ending::Closed) => closed += 1,
                other => panic!("{other:?}"),
            })
            .expect("received");
        opens.iter().for_each(|channel| exchange.owner.accept(*channel).expect("accepted"));
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(next.values().all(|count| *count == RECORDS) && next.len() == PEERS as usize);
}

fn receive_any(peer: &mut MpxPeer) {
    peer.receive_each_timeout(&mut [0; 64], LONG, |_| {}).expect("received");
}

fn wait_for(end: &mut impl Waitable) {
    let mut wait = Wait::new();
    wait.add_borrowed((), end).expect("few");
    wait.wait_timeout(&mut Vec::new(), LONG).expect("ready");
}

#[test]
fn it_can_be_waited_for_with_others() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "waited for");
    let time = Some(Duration::from_millis(20));
    let mut wait = Wait::new();
    wait.add_borrowed(0, &mut exchange.owner).expect("few");
    wait.add_borrowed(1, &mut peer).expect("few");
    let error = wait.wait_timeout(&mut Vec::new(), time).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(wait);
    for _ in 0..200 {
        std::thread::scope(|scope| {
            let owner = &mut exchange.owner;
            let waiting = scope.spawn(move || {
                wait_for(owner);
                assert_eq!(receive(owner, 1)[0].bytes, b"x");
            });
            peer.send(there, b"x").expect("sent");
            waiting.join().expect("no panic");
        });
        exchange.owner.send(here, b"y").expect("sent");
        wait_for(&mut peer);
        assert_eq!(receive(&mut peer, 1)[0].bytes, b"y");
    }
    drop(exchange.owner);
    wait_for(&mut peer);
}

/// Whether a descriptor becomes readable within this many milliseconds.
fn readable(descriptor: impl AsFd, milliseconds: i64) -> bool {
    let mut asked = [PollFd::new(&descriptor, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let time = if milliseconds >= 1000 { Timespec { tv_sec: 20, tv_nsec: 0 } } else { time };
    poll(&mut asked, Some(&time)).expect("polled") > 0
}

/// Whether nothing is to be done at an owner that is polled. Receives what there is.
fn is_quiet(owner: &mut Mpx) -> bool {
    drain(owner);
    !readable(owner.poll_descriptor().expect("one"), 0)
}

/// The words of the board that an owner and its peers share.
fn board_of(exchange: &Exchange) -> weir_sys::words::Words {
    let socket = std::fs::metadata(&exchange.name).expect("there");
    let of = (socket.dev(), socket.ino());
    let found = weir::stat::mpxes().into_iter().find(|one| one.is_owner && one.socket == of);
    let owner = found.expect("the owner");
    words_of(&common::open_memory(owner.inode, &owner.holders, true))
}

#[test]
fn both_sides_can_be_polled() {
    let mut exchange = exchange();
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 0), "not yet asked");
    drain(&mut exchange.owner);
    assert!(!readable(exchange.owner.poll_descriptor().expect("one"), 0));
    // Somebody connects.
    let mut peer = exchange.peer();
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000));
    drain(&mut exchange.owner);
    let there = peer.open(b"polled").expect("opened");
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000));
    let here = receive(&mut exchange.owner, 1)[0].channel;
    drain(&mut peer);
    assert!(readable(peer.poll_descriptor().expect("one"), 0), "not yet asked");
    drain(&mut peer);
    assert!(!readable(peer.poll_descriptor().expect("one"), 0));
    exchange.owner.accept(here).expect("accepted");
    assert!(readable(peer.poll_descriptor().expect("one"), 1000));
    assert_eq!(kinds(&drain(&mut peer)), [RecordKind::Accepted]);
    for _ in 0..100 {
        assert!(drain(&mut exchange.owner).is_empty() && drain(&mut peer).is_empty());
        assert!(!readable(exchange.owner.poll_descriptor().expect("one"), 0));
        peer.send(there, b"x").expect("sent");
        assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000));
        assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Data]);
        exchange.owner.send(here, b"y").expect("sent");
        assert!(readable(peer.poll_descriptor().expect("one"), 1000));
        assert_eq!(kinds(&drain(&mut peer)), [RecordKind::Data]);
    }
    drop(peer);
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000));
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Close(weir::Ending::Closed)]);
    assert!(drain(&mut exchange.owner).is_empty());
    assert!(!readable(exchange.owner.poll_descriptor().expect("one"), 0));
}

/// What came on a channel while the channel that it goes to was full is shown after a disconnect. No
/// call told the descriptor, and who polled waited for ever.
#[test]
fn a_polled_owner_is_readable_once_a_full_connection_is_ended() {
    let mut exchange = exchange();
    let (mut from, mut to) = (exchange.peer(), exchange.peer());
    let (first, there) = exchange.open(&mut from, "from");
    let (second, _) = exchange.open(&mut to, "to");
    exchange.owner.connect_one_way(first, second).expect("connected");
    let full = |from: &mut MpxPeer, owner: &mut Mpx| {
        let sent = from.send(there, &[7; 4096]).expect("sent");
        drain(owner);
        sent == 0
    };
    common::until("both channels are full", || full(&mut from, &mut exchange.owner));
    common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
    assert!(exchange.owner.disconnect(first).expect("there"));
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000), "data is to be shown");
    assert_eq!(kinds(&drain(&mut exchange.owner))[0], RecordKind::Data);
}

/// The peer rang, but its bit was not on the owner's board any more: its record lay there until the next.
#[test]
fn a_peer_whose_bit_another_takes_away_is_heard_by_who_polls() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "honest");
    let board = board_of(&exchange);
    for round in 0..20 {
        common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
        assert_eq!(peer.send(there, b"x").expect("sent"), 1);
        (2..512).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
        assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000), "it rang");
        assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Data], "round {round}");
    }
}

/// A peer's memory came after its owner had looked. Nobody told who polled.
#[test]
fn a_peer_that_hands_its_memory_over_after_a_look_is_heard_by_who_polls() {
    let mut exchange = exchange();
    // A peer that connects elsewhere; its memory is handed on.
    let elsewhere = exchange.name.with_extension("elsewhere");
    let listens = raw::listen(&elsewhere);
    let mut peer = MpxPeer::connect(&elsewhere, &MpxPeerOptions::new()).expect("connected");
    peer.open(b"late").expect("opened");
    let memory = raw::receive_file(raw::accept(&listens).as_fd()).expect("its memory");
    let connected = raw::dial(&exchange.name);
    common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
    raw::send(connected.as_fd(), b"weir-mpx", &[memory.as_fd()]);
    assert!(readable(exchange.owner.poll_descriptor().expect("one"), 1000), "its memory came");
    assert_eq!(kinds(&drain(&mut exchange.owner)), [RecordKind::Open]);
}

/// The owner could not hear their bells. It served them when it was called for others, or never.
#[test]
fn peers_that_cannot_be_polled_are_refused_and_no_call_fails() {
    let mut exchange = exchange();
    common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
    let mut peers = [exchange.peer(), exchange.peer(), exchange.peer()];
    std::thread::scope(|scope| {
        let owner = &mut exchange.owner;
        let receiving = scope.spawn(move || {
            common::add_nothing_to(owner.poll_descriptor().expect("one").as_raw_fd());
            let time = Duration::from_millis(200);
            owner.receive_each_timeout(&mut [0; 64], time, |_| {}).expect_err("nothing").kind()
        });
        assert_eq!(receiving.join().expect("no panic"), ErrorKind::TimedOut);
    });
    for peer in &mut peers {
        let error = peer.receive_each_timeout(&mut [0; 64], LONG, |_| {}).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Refused);
        let text = error.to_string();
        assert!(text.ends_with("its owner cannot poll one more peer"), "{text}");
    }
    assert_eq!(exchange.owner.peers(), 0);
}

/// A peer can clear the words by which others know that their owner is polled. A call that was made all
/// the same now and then looked at all links only after dozens of calls.
#[test]
fn a_polled_owner_hears_of_a_peer_whom_another_keeps_from_ringing() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "honest");
    let board = board_of(&exchange);
    let spoil = || (2..512).for_each(|at| board.word(at).store(0, Ordering::Relaxed));
    common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
    spoil();
    assert_eq!(peer.send(there, b"x").expect("sent"), 1);
    spoil();
    assert!(!readable(exchange.owner.poll_descriptor().expect("one"), 0), "nobody rang");
    let calls = (0..5).find(|_| {
        // sleep: as long as a look at all links is due, and not longer for an owner that works.
        std::thread::sleep(Duration::from_millis(120));
        kinds(&drain(&mut exchange.owner)) == [RecordKind::Data]
    });
    assert!(calls.is_some(), "it came within five calls");
}

/// A wait counted the words of an mpx when it came and again when it went. One to which another mpx
/// had been joined meanwhile took away more than it had brought.
#[test]
fn an_mpx_that_was_joined_to_in_a_wait_leaves_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let make = |name: String| Mpx::create(directory.path().join(name), &MpxOptions::new());
    let mut wait = Wait::new();
    let keys: Vec<_> = (0..4)
        .map(|number| wait.add(number, make(format!("{number}")).expect("made")).expect("added"))
        .collect();
    for (number, key) in keys.iter().enumerate() {
        for inner in 0..32 {
            let inner = make(format!("{number}-{inner}")).expect("made");
            wait[*key].join(inner, 5).expect("joined");
        }
    }
    // More words than futex_waitv(2) takes.
    let error = wait.wait_timeout(&mut Vec::new(), Duration::from_millis(20));
    assert_eq!(error.expect_err("nothing is there").kind(), ErrorKind::TimedOut);
    for key in keys {
        wait.remove(key).expect("it is given back");
    }
}

/// A call that had moved enough answered that there was nothing, and left the descriptor as it was. Who
/// asks for changes only was not told again, and what was left to move lay there for ever.
#[test]
fn who_asks_for_changes_only_hears_of_what_is_left_to_move() {
    const CHANNELS: u32 = 100;
    const BYTES: usize = 60_000;
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(CHANNELS).arena_bytes(8 << 20);
    let connect = || MpxPeer::connect(&exchange.name, &options).expect("connected");
    let [mut from, mut to] = [connect(), connect()];
    let channels: Vec<_> = (0..CHANNELS)
        .map(|_| {
            let (first, there) = exchange.open(&mut from, "from");
            let (second, _) = exchange.open(&mut to, "to");
            (first, second, there)
        })
        .collect();
    common::until("nothing is to be done", || is_quiet(&mut exchange.owner));
    let changes = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    let descriptor = exchange.owner.poll_descriptor().expect("one");
    epoll::add(&changes, descriptor, epoll::EventData::new_u64(0), flags).expect("added");
    for (first, second, there) in channels {
        assert_eq!(from.send(there, &[7; BYTES]).expect("sent"), BYTES);
        exchange.owner.connect_one_way(first, second).expect("connected");
    }
    let mut came = 0;
    while came < CHANNELS as usize * BYTES {
        assert!(readable(&changes, 1000), "there is more to move after {came}");
        let mut events = Vec::with_capacity(1);
        epoll::wait(&changes, rustix::buffer::spare_capacity(&mut events), None).expect("told");
        assert!(drain(&mut exchange.owner).is_empty(), "nothing is shown");
        came += drain(&mut to).iter().map(|record| record.bytes.len()).sum::<usize>();
    }
}

/// A call that does not wait took sixteen times as many frames that nobody is shown.
#[test]
fn a_call_takes_some_thousand_frames_of_closed_channels_at_most() {
    const CHANNELS: u32 = 40;
    const FRAMES: u32 = 8_000;
    let mut exchange = exchange();
    let options = MpxPeerOptions::new().channels(CHANNELS).arena_bytes(4 << 20);
    let mut peer = MpxPeer::connect(&exchange.name, &options).expect("connected");
    let channels: Vec<_> = (0..CHANNELS).map(|_| exchange.open(&mut peer, "closed soon")).collect();
    for (_, there) in &channels {
        assert_eq!(peer.send(*there, &[7; 60_000]).expect("sent"), 60_000);
    }
    drain(&mut exchange.owner);
    for (here, there) in channels {
        exchange.owner.close(here).expect("open");
        // The peer has not heard of it.
        (0..FRAMES).for_each(|_| assert_eq!(peer.send(there, b"x").expect("sent"), 1));
    }
    let mut calls = 0;
    while readable(exchange.owner.poll_descriptor().expect("one"), 0) {
        let got = exchange.owner.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {});
        assert_eq!(got.expect_err("nothing is shown").kind(), ErrorKind::WouldBlock);
        calls += 1;
        assert!(calls < 10_000, "it has an end");
    }
    assert!(calls >= CHANNELS * FRAMES / 17_000, "{calls} calls");
}
