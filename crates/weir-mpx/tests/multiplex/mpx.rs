//! The promises of docs/contracts/mpx.md: records, flow, memory.

use crate::common;
use crate::common::{patterned, until};
use crate::exchange::{Kept, LONG, Receives, drain, exchange, exchange_with, kinds, receive};
use weir::{Ending, ErrorKind, Timeout};
use weir_mpx::{
    Answer, ChannelId, LABEL_BYTES, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind, Taken,
};

#[test]
fn records_come_many_per_call() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let channels: Vec<_> = (0..10).map(|_| exchange.open(&mut peer, "many")).collect();
    for (_, there) in &channels {
        assert_eq!(peer.send(*there, b"one").expect("sent"), 3);
        assert!(peer.end(*there).expect("sent"));
        assert!(peer.signal(*there, 0xdead_beef).expect("sent"));
    }
    let mut all = Vec::new();
    let count = exchange.owner.all_for(LONG, &mut |record| all.push(record)).expect("received");
    assert_eq!((count, all.len()), (30, 30), "one call");
    for (here, _) in &channels {
        let of: Vec<_> = all.iter().filter(|record| record.channel == *here).cloned().collect();
        assert_eq!(
            kinds(&of),
            [RecordKind::Data, RecordKind::End, RecordKind::Signal(0xdead_beef)]
        );
    }
    let mut answers: Vec<_> = channels
        .iter()
        .flat_map(|(here, _)| [Answer::Send(*here, b"two"), Answer::End(*here)])
        .collect();
    answers.push(Answer::Accept(channels[0].0));
    let taken = exchange.owner.answer(&answers).expect("answered");
    assert_eq!(taken[..20], [Taken::Whole; 20]);
    assert_eq!(taken[20], Taken::Not(ErrorKind::Invalid), "accepted already");
    let all = receive(&mut peer, 20);
    assert_eq!(all.iter().filter(|record| record.bytes == b"two").count(), 10);
    assert_eq!(exchange.owner.channels(), 10);
    assert_eq!((exchange.owner.peers(), peer.channels()), (1, 10));
    let identity = exchange.owner.identity(channels[0].0).expect("known");
    assert_eq!(identity.pid as u32, std::process::id());
}

#[test]
fn data_keeps_its_order_and_its_marks() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "order");
    assert_eq!(peer.send(there, b"").expect("nothing"), 0);
    assert!(drain(&mut exchange.owner).is_empty(), "nothing sent is nothing");
    let sizes = [1, 3, 100, 116, 120, 124, 4000, 4088, 4096, 10_000, 65_528, 200_000, 5];
    for (number, size) in sizes.into_iter().enumerate() {
        let bytes = patterned(size, number);
        let (mut offset, mut got, mut pieces) = (0, Vec::<u8>::new(), 0);
        while got.len() < size {
            if offset < size {
                offset += peer.send(there, &bytes[offset..]).expect("sent");
            }
            for record in drain(&mut exchange.owner) {
                assert_eq!((record.kind, record.channel), (RecordKind::Data, here));
                got.extend(&record.bytes);
                pieces += 1;
                assert_eq!(record.more, got.len() < size, "{size}: at {}", got.len());
            }
            drain(&mut peer);
        }
        assert!(got == bytes, "{size}");
        assert!(pieces == 1 || size > 65_000, "{size} in {pieces}");
    }
    assert!(peer.end(there).expect("sent"));
    peer.send(there, b"goes on").expect("sent");
    assert_eq!(kinds(&receive(&mut exchange.owner, 2)), [RecordKind::End, RecordKind::Data]);
    // Through a buffer that is too small, it comes in several records.
    peer.send(there, &patterned(1000, 1)).expect("sent");
    let mut got: Vec<u8> = Vec::new();
    while got.len() < 1000 {
        exchange
            .owner
            .receive_each(&mut [0; 300], |record| {
                got.extend(record.bytes);
                assert_eq!(record.more, got.len() < 1000);
            })
            .expect("received");
    }
    assert!(got == patterned(1000, 1));
    let error = exchange.owner.receive_each(&mut [0; 63], |_| {}).expect_err("too small");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn an_open_is_accepted_or_refused() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (one, two) = (peer.open(b"one").expect("opened"), peer.open(b"two").expect("opened"));
    for channel in [one, two] {
        assert_eq!(peer.send(channel, b"early").expect("sent"), 5);
    }
    let opens = receive(&mut exchange.owner, 2);
    assert_eq!((&opens[0].bytes[..], &opens[1].bytes[..]), (&b"one"[..], &b"two"[..]));
    assert!(drain(&mut exchange.owner).is_empty(), "nothing before it is accepted");
    let error = exchange.owner.send(opens[0].channel, b"x").expect_err("not accepted");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    exchange.owner.accept(opens[0].channel).expect("accepted");
    exchange.owner.refuse(opens[1].channel, "not today").expect("refused");
    assert_eq!(
        exchange.owner.accept(opens[1].channel).expect_err("gone").kind(),
        ErrorKind::Invalid
    );
    let early = receive(&mut exchange.owner, 1);
    assert_eq!((early[0].channel, &early[0].bytes[..]), (opens[0].channel, &b"early"[..]));
    let answers = receive(&mut peer, 2);
    assert_eq!((answers[0].kind, answers[0].channel), (RecordKind::Accepted, one));
    assert_eq!((answers[1].kind, answers[1].channel), (RecordKind::Refused, two));
    assert_eq!(answers[1].bytes, b"not today");
    assert_eq!(peer.send(two, b"x").expect_err("refused").kind(), ErrorKind::Invalid);
    let long = vec![b'l'; LABEL_BYTES];
    peer.open(&long).expect("opened");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, long);
    let error = peer.open(&[b'l'; LABEL_BYTES + 1]).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn each_channel_closes_once() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "by the peer");
    peer.send(there, b"last words").expect("sent");
    peer.close(there).expect("closed");
    assert_eq!(peer.close(there).expect_err("gone").kind(), ErrorKind::Invalid);
    let records = receive(&mut exchange.owner, 2);
    assert_eq!(kinds(&records), [RecordKind::Data, RecordKind::Close(Ending::Closed)]);
    assert_eq!(exchange.owner.send(here, b"x").expect_err("gone").kind(), ErrorKind::Invalid);
    let (here, there) = exchange.open(&mut peer, "by the owner");
    exchange.owner.send(here, b"last words").expect("sent");
    exchange.owner.close(here).expect("closed");
    let records = receive(&mut peer, 2);
    assert_eq!(kinds(&records), [RecordKind::Data, RecordKind::Close(Ending::Closed)]);
    assert_eq!(records[1].channel, there);
    // Numbers of channels are used again; ids are not.
    let mut seen = std::collections::HashSet::new();
    for _ in 0..500 {
        let (here, there) = exchange.open(&mut peer, "again");
        assert!(seen.insert((here, there)));
        peer.close(there).expect("closed");
        assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Close(Ending::Closed)]);
        assert!(drain(&mut peer).is_empty());
    }
    let (_, _) = exchange.open(&mut peer, "dropped");
    drop(peer);
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Close(Ending::Closed)]);
    assert!(drain(&mut exchange.owner).is_empty());
    assert_eq!((exchange.owner.peers(), exchange.owner.channels()), (0, 0));
}

#[test]
fn what_a_peer_sent_and_left_is_received() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let channel = peer.open(b"short").expect("opened");
    peer.send(channel, b"visit").expect("sent");
    drop(peer);
    let opened = receive(&mut exchange.owner, 1).remove(0);
    exchange.owner.accept(opened.channel).expect("accepted");
    let records = receive(&mut exchange.owner, 2);
    assert_eq!(records[0].bytes, b"visit");
    assert_eq!(records[1].kind, RecordKind::Close(Ending::Closed));
    assert_eq!(exchange.owner.peers(), 0);
}

#[test]
fn a_peer_sees_its_owner_go() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (here, there) = exchange.open(&mut peer, "left");
    exchange.owner.send(here, b"last words").expect("sent");
    let name = exchange.name.clone();
    drop(exchange.owner);
    let records = receive(&mut peer, 2);
    assert_eq!(kinds(&records), [RecordKind::Data, RecordKind::Close(Ending::Closed)]);
    assert_eq!(peer.send(there, b"x").expect_err("gone").kind(), ErrorKind::Invalid);
    let error = peer.receive_each(&mut [0; 64], |_| {}).expect_err("over");
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_eq!(peer.open(b"x").expect_err("over").kind(), ErrorKind::Closed);
    let error = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::NoReader);
}

#[test]
fn a_full_channel_says_so_and_says_when_not() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (_, there) = exchange.open(&mut peer, "full");
    let bytes = patterned(300_000, 3);
    let mut taken = peer.send(there, &bytes).expect("sent");
    assert!(taken > 0 && taken < bytes.len(), "{taken}");
    assert_eq!(peer.send(there, &bytes[taken..]).expect("full"), 0);
    assert!(!peer.end(there).expect("full") && !peer.signal(there, 1).expect("full"));
    assert_eq!(kinds(&drain(&mut peer)), [RecordKind::Blocked]);
    let mut got: Vec<u8> = Vec::new();
    while got.len() < bytes.len() {
        for record in drain(&mut exchange.owner) {
            got.extend(&record.bytes);
            assert_eq!(record.more, got.len() < bytes.len());
        }
        if taken < bytes.len() {
            assert_eq!(kinds(&receive(&mut peer, 1)), [RecordKind::Unblocked]);
            taken += peer.send(there, &bytes[taken..]).expect("sent");
            let wanted: &[RecordKind] =
                if taken < bytes.len() { &[RecordKind::Blocked] } else { &[] };
            assert_eq!(kinds(&drain(&mut peer)), wanted);
        }
    }
    assert!(got == bytes);
}

/// The caller has what came, for which somebody may wait, before it looks for more.
#[test]
fn a_call_ends_once_all_that_it_found_is_delivered() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let (first, there) = exchange.open(&mut peer, "first");
    let (second, other) = exchange.open(&mut peer, "second");
    for _ in 0..100 {
        assert_eq!(peer.send(there, b"found").expect("sent"), 5);
        let mut found = Vec::new();
        let mut see = |record: Kept| {
            // This comes while the call is under way, and is for the next one.
            assert_eq!(peer.send(other, b"later").expect("sent"), 5);
            found.push(record.channel);
        };
        exchange.owner.all_for(LONG, &mut see).expect("received");
        assert_eq!(found, [first]);
        let later = receive(&mut exchange.owner, 1).remove(0);
        assert_eq!((later.channel, &later.bytes[..]), (second, &b"later"[..]));
    }
}

#[test]
fn a_full_channel_holds_up_no_other() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    // There are more channels than blocks, so some have the smallest lane.
    let channels: Vec<_> = (0..40).map(|_| exchange.open(&mut peer, "full")).collect();
    for (here, there) in &channels[1..] {
        peer.send(*there, &[7; 100_000]).expect("sent");
        exchange.owner.send(*here, &[7; 100_000]).expect("sent");
    }
    let (here, there) = channels[0];
    drain(&mut peer);
    for number in 0..1000_u32 {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.resize(4 + number as usize % 100, 1);
        assert_eq!(peer.send(there, &bytes).expect("sent"), bytes.len());
        let found = until_comes(&mut exchange.owner, here);
        assert_eq!(found, bytes);
        assert_eq!(exchange.owner.send(here, &bytes).expect("sent"), bytes.len());
        assert_eq!(until_comes(&mut peer, there), bytes);
    }
}

/// Receives the next data of a channel, and drops the records of others.
fn until_comes(end: &mut impl Receives, channel: ChannelId) -> Vec<u8> {
    let mut found = None;
    while found.is_none() {
        end.all_for(LONG, &mut |record| {
            if record.channel == channel && record.kind == RecordKind::Data {
                found = Some(record.bytes);
            }
        })
        .expect("received");
    }
    found.expect("found")
}

#[test]
fn the_urgent_come_first() {
    let mut exchange = exchange();
    let mut peer = exchange.peer();
    let channels: Vec<_> = (0..20).map(|_| exchange.open(&mut peer, "ranked")).collect();
    for (place, (here, _)) in channels.iter().enumerate() {
        exchange.owner.set_priority(*here, (63 - place * 3) as u8).expect("set");
    }
    let refused = exchange.owner.set_priority(channels[0].0, 64).expect_err("out of range");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    channels.iter().for_each(|(_, there)| {
        peer.send(*there, b"x").expect("sent");
    });
    let order: Vec<_> = receive(&mut exchange.owner, 20).iter().map(|at| at.channel).collect();
    let wanted: Vec<_> = channels.iter().rev().map(|(here, _)| *here).collect();
    assert_eq!(order, wanted);
    // Channels of one priority take turns: none comes twice before all have had a turn.
    channels.iter().for_each(|(here, _)| exchange.owner.set_priority(*here, 9).expect("set"));
    for (_, there) in &channels[..4] {
        assert!(peer.send(*there, &[1; 20_000]).expect("sent") > 0);
    }
    let order: Vec<_> = drain(&mut exchange.owner).iter().map(|at| at.channel).collect();
    let mut first: Vec<_> = order[..4].to_vec();
    first.sort();
    first.dedup();
    assert_eq!(first.len(), 4, "{order:?}");
}

#[test]
fn connected_channels_move_by_themselves() {
    let mut exchange = exchange();
    let (mut left, mut right) = (exchange.peer(), exchange.peer());
    let (one, at_left) = exchange.open(&mut left, "left");
    let (other, at_right) = exchange.open(&mut right, "right");
    exchange.owner.connect(one, other).expect("connected");
    assert_eq!(exchange.owner.connect(one, other).expect_err("is").kind(), ErrorKind::Invalid);
    let bytes = patterned(400_000, 1);
    let (mut sent, mut got) = (0, Vec::<u8>::new());
    while got.len() < bytes.len() {
        if sent < bytes.len() {
            sent += left.send(at_left, &bytes[sent..]).expect("sent");
        }
        assert!(drain(&mut exchange.owner).is_empty(), "the owner sees nothing of it");
        for record in drain(&mut right) {
            assert_eq!(record.channel, at_right);
            got.extend(&record.bytes);
            assert_eq!(record.more, got.len() < bytes.len());
        }
        drain(&mut left);
    }
    assert!(got == bytes);
    right.send(at_right, b"back").expect("sent");
    right.end(at_right).expect("sent");
    right.signal(at_right, 5).expect("sent");
    assert!(drain(&mut exchange.owner).is_empty());
    let back = receive(&mut left, 3);
    assert_eq!(kinds(&back), [RecordKind::Data, RecordKind::End, RecordKind::Signal(5)]);
    assert!(exchange.owner.disconnect(other).expect("there"));
    assert!(!exchange.owner.disconnect(other).expect("there"), "no more");
    left.send(at_left, b"to the owner").expect("sent");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, b"to the owner");
    exchange.owner.connect(one, other).expect("connected");
    left.send(at_left, b"last").expect("sent");
    drop(left);
    let ended = receive(&mut exchange.owner, 1).remove(0);
    assert_eq!((ended.channel, ended.kind), (one, RecordKind::Close(Ending::Closed)));
    assert_eq!(receive(&mut right, 1)[0].bytes, b"last");
    right.send(at_right, b"alone").expect("sent");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, b"alone");
}

#[test]
fn channels_can_be_connected_one_way() {
    let mut exchange = exchange();
    let (mut left, mut right) = (exchange.peer(), exchange.peer());
    let (from, at_left) = exchange.open(&mut left, "left");
    let (to, at_right) = exchange.open(&mut right, "right");
    exchange.owner.connect_one_way(from, to).expect("connected");
    for again in [exchange.owner.connect_one_way(to, from), exchange.owner.connect(from, to)] {
        assert_eq!(again.expect_err("is connected").kind(), ErrorKind::Invalid);
    }
    // More than a lane holds goes from left to right, and the owner sees nothing of it.
    let bytes = patterned(400_000, 1);
    let (mut sent, mut got) = (0, Vec::<u8>::new());
    while got.len() < bytes.len() {
        if sent < bytes.len() {
            sent += left.send(at_left, &bytes[sent..]).expect("sent");
        }
        assert!(drain(&mut exchange.owner).is_empty());
        for record in drain(&mut right) {
            assert_eq!(record.channel, at_right);
            got.extend(&record.bytes);
        }
        drain(&mut left);
    }
    assert!(got == bytes);
    // What comes from the right is the owner's, and the owner answers the left.
    right.send(at_right, b"to the owner").expect("sent");
    right.end(at_right).expect("sent");
    let shown = receive(&mut exchange.owner, 2);
    assert_eq!(kinds(&shown), [RecordKind::Data, RecordKind::End]);
    assert_eq!((shown[0].channel, &shown[0].bytes[..]), (to, &b"to the owner"[..]));
    exchange.owner.send(from, b"from the owner").expect("sent");
    assert_eq!(receive(&mut left, 1)[0].bytes, b"from the owner");
    assert!(exchange.owner.disconnect(to).expect("there"));
    left.send(at_left, b"again").expect("sent");
    assert_eq!(receive(&mut exchange.owner, 1)[0].bytes, b"again");
}

#[test]
fn the_way_back_of_one_way_is_the_owners() {
    let mut exchange = exchange();
    let (mut left, mut right) = (exchange.peer(), exchange.peer());
    let (from, _) = exchange.open(&mut left, "left");
    let (to, at_right) = exchange.open(&mut right, "right");
    exchange.owner.connect_one_way(from, to).expect("connected");
    let bytes = patterned(1000, 1);
    // A send of the owner that finds no room on the way back is its own news.
    let mut taken = 0;
    while exchange.owner.send(from, &bytes).expect("sent") == 1000 {
        taken += 1000;
        assert!(taken < 10_000_000, "a lane is full some time");
    }
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Blocked]);
    let mut came = 0;
    while came < taken {
        came += drain(&mut left).iter().map(|record| record.bytes.len()).sum::<usize>();
    }
    assert_eq!(kinds(&receive(&mut exchange.owner, 1)), [RecordKind::Unblocked]);
    assert!(exchange.owner.disconnect(to).expect("there"));
    exchange.owner.connect_one_way(to, from).expect("the other way");
    right.send(at_right, b"back").expect("sent");
    assert!(drain(&mut exchange.owner).is_empty());
    assert!(drain(&mut left).iter().any(|record| record.bytes == b"back"));
    drop(right);
    let ended = receive(&mut exchange.owner, 1).remove(0);
    assert_eq!((ended.channel, ended.kind), (to, RecordKind::Close(Ending::Closed)));
    assert!(!exchange.owner.disconnect(from).expect("there"), "the end of one ended it");
}

#[test]
fn an_mpx_is_a_channel_of_another() {
    let (mut outer, inner) = (exchange(), exchange());
    let mut peer = inner.peer();
    let mut plain = outer.peer();
    let (here, there) = outer.open(&mut plain, "plain");
    let joined = outer.owner.join(inner.owner, 3).expect("joined");
    let channel = peer.open(b"inner").expect("opened");
    let opened = receive(&mut outer.owner, 1).remove(0);
    assert_eq!((opened.kind, &opened.path[..]), (RecordKind::Open, &[joined][..]));
    let inner_mpx = outer.owner.joined(joined).expect("there");
    inner_mpx.accept(opened.channel).expect("accepted");
    inner_mpx.send(opened.channel, b"down").expect("sent");
    assert_eq!(kinds(&receive(&mut peer, 2)), [RecordKind::Accepted, RecordKind::Data]);
    // While it sleeps on both, either wakes it.
    std::thread::scope(|scope| {
        let owner = &mut outer.owner;
        let waiting = scope.spawn(move || receive(owner, 1));
        peer.send(channel, b"up").expect("sent");
        let up = waiting.join().expect("no panic").remove(0);
        assert_eq!((&up.bytes[..], &up.path[..]), (&b"up"[..], &[joined][..]));
    });
    plain.send(there, b"plain").expect("sent");
    let record = receive(&mut outer.owner, 1).remove(0);
    assert_eq!((record.channel, record.path.len()), (here, 0));
    outer.owner.close(joined).expect("closed");
    assert_eq!(kinds(&receive(&mut peer, 1)), [RecordKind::Close(Ending::Closed)]);
    assert_eq!(outer.owner.joined(joined).expect_err("gone").kind(), ErrorKind::Invalid);
}

#[test]
fn too_many_are_refused() {
    let mut exchange =
        exchange_with(&MpxOptions::new().most_peers(2).most_channels(8).most_arena_bytes(65_536));
    let ask =
        |options: MpxPeerOptions| MpxPeer::connect(&exchange.name, &options).expect("connected");
    let small = || MpxPeerOptions::new().channels(8).arena_bytes(65_536);
    let (mut one, _two) = (ask(small()), ask(small()));
    let mut third = ask(small());
    let mut greedy = ask(small().channels(9));
    assert_eq!(
        exchange
            .owner
            .receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {})
            .expect_err("none")
            .kind(),
        ErrorKind::WouldBlock
    );
    until("all have come", || {
        drain(&mut exchange.owner);
        refusal(&mut third).is_some() && refusal(&mut greedy).is_some()
    });
    assert!(refusal(&mut third).expect("no").contains("it has 2 peers"), "by name");
    for _ in 0..8 {
        one.open(b"x").expect("opened");
    }
    let error = one.open(b"x").expect_err("eight");
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("this peer has 8 channels already"), "{error}");
    for options in [small().channels(0), small().channels(16_385), small().arena_bytes(5)] {
        let error = MpxPeer::connect(&exchange.name, &options).expect_err("cannot be");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let error = Mpx::create(&exchange.name, &MpxOptions::new()).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::Taken);
    let error = Mpx::create(&exchange.name, &MpxOptions::new().most_peers(0)).expect_err("none");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

fn refusal(peer: &mut MpxPeer) -> Option<String> {
    let error = peer.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {}).err()?;
    (error.kind() == ErrorKind::Refused).then(|| error.to_string())
}

/// The error named both, and neither what was asked for.
#[test]
fn an_option_of_an_mpx_that_is_out_of_range_is_named() {
    let (_directory, name) = common::place();
    let options = MpxOptions::new();
    for (wrong, text) in [
        (options.clone().mode(0o1777), "the mode of an mpx: 0o1777 is out of range: 0o0 to 0o777"),
        (options.clone().most_peers(0), "the most peers of an mpx: 0 is out of range: 1 to 4096"),
        (options.most_peers(5000), "the most peers of an mpx: 5000 is out of range: 1 to 4096"),
    ] {
        let error = Mpx::create(&name, &wrong).expect_err("out of range");
        let told = (error.kind(), error.to_string());
        assert_eq!(told, (ErrorKind::Invalid, format!("cannot set {text}")));
    }
}

/// It was listed and shown as a port.
#[test]
fn the_name_of_an_mpx_is_no_port() {
    let (directory, name) = common::place();
    let _mpx = Mpx::create(&name, &MpxOptions::new()).expect("an mpx");
    let listed = weir::PortName::list(Some(directory.path())).expect("names");
    assert_eq!(listed.len(), 0, "{listed:?}");
    let error = weir::stat::port(&name).expect_err("no port");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
