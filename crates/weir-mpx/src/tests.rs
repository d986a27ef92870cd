//! Tests of what cannot be seen from outside.

mod channels;

use super::*;

#[test]
fn an_id_is_a_number_and_back() {
    let id = ChannelId { index: 7, generation: 9 };
    assert_eq!(ChannelId::from_u64(id.to_u64()), id);
    assert_eq!(id.to_string(), "7.9");
}

/// The number of a channel never names another: an entry whose numbers are used up is not used again.
#[test]
fn an_entry_whose_numbers_are_used_up_is_not_used_again() {
    use super::channels::ChannelState;
    use super::home::ParticipantHome;
    use super::link_end::NONE;
    use super::table::ChannelTable;
    let (_file, page) = weir::parts::SharedPage::create().expect("made");
    let mut table = ChannelTable::new(ParticipantHome::Owner(std::sync::Arc::new(page)));
    let first = table.enter(NONE, NONE, ChannelState::Joined);
    table.leave(first);
    assert_eq!(table.enter(NONE, NONE, ChannelState::Joined), first, "it is used again");
    table.channels[first].generation = u32::MAX;
    let last = table.channels.id(first);
    table.leave(first);
    let next = table.enter(NONE, NONE, ChannelState::Joined);
    assert!(next != first && table.channels.find("find", last).is_err(), "{last} names no channel");
}

/// An owner and a peer with a channel, in one thread.
fn met(name: &std::path::Path) -> (Mpx, MpxPeer, ChannelId) {
    let mut owner = Mpx::create(name, &MpxOptions::new()).expect("made");
    let mut peer = MpxPeer::connect(name, &MpxPeerOptions::new()).expect("connected");
    let channel = peer.open(b"").expect("opened");
    let (mut buffer, mut asking) = ([0; 4096], None);
    owner.receive_each(&mut buffer, |record| asking = Some(record.channel)).expect("received");
    owner.accept(asking.expect("an open")).expect("accepted");
    peer.receive_each(&mut buffer, |_| {}).expect("received");
    // The lane gets room for many records.
    assert_eq!(peer.send(channel, &[0; 3000]).expect("sent"), 3000);
    owner.receive_each(&mut buffer, |_| {}).expect("received");
    (owner, peer, channel)
}

/// A sender that shares the reader's CPU does not run while the reader waits for it.
#[test]
fn nobody_is_let_ahead_on_one_cpu() {
    let directory = tempfile::tempdir().expect("a directory");
    let here = rustix::thread::sched_getcpu();
    let mut one = rustix::thread::CpuSet::new();
    one.set(here);
    rustix::thread::sched_setaffinity(None, &one).expect("this thread stays here");
    let (mut owner, mut peer, channel) = met(&directory.path().join("mpx"));
    let mut buffer = [0; 4096];
    let mut stream = |owner: &mut Mpx, peer: &mut MpxPeer| {
        for _ in 0..200 {
            (0..50).for_each(|_| assert_eq!(peer.send(channel, b"record").expect("sent"), 6));
            owner.receive_each(&mut buffer, |_| {}).expect("received");
        }
    };
    let given = |owner: &Mpx| owner.inner.idle.given();
    stream(&mut owner, &mut peer);
    assert!(given(&owner) > 0, "nobody knew where the other ran");
    // Both look in vain, and say where they run.
    let time = std::time::Duration::from_millis(1);
    assert!(peer.receive_each_timeout(&mut [0; 64], time, |_| {}).is_err());
    assert!(owner.receive_each_timeout(&mut [0; 64], time, |_| {}).is_err());
    let before = given(&owner);
    stream(&mut owner, &mut peer);
    assert_eq!(given(&owner), before);
}

/// A peer that only sent never said where it ran. So on one CPU the owner spun for its whole budget
/// before each sleep, and a round trip took 13 us in place of 3.
#[test]
fn who_wakes_another_says_where_it_runs() {
    use weir_ring::primitive::Ordering;
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("mpx");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("made");
    let receiving = std::thread::spawn(move || {
        let (mut buffer, mut ended) = ([0; 4096], false);
        while !ended {
            let mut asking = None;
            let each = |record: Record<'_>| match record.kind {
                RecordKind::Open => asking = Some(record.channel),
                RecordKind::Close(_) => ended = true,
                _ => {}
            };
            owner.receive_each(&mut buffer, each).expect("received");
            asking.map(|channel| owner.accept(channel)).transpose().expect("accepted");
        }
    });
    let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    let channel = peer.open(b"").expect("opened");
    let cpu = |peer: &MpxPeer| peer.inner.table.home.sleep().cpu.load(Ordering::Relaxed);
    let wakes = |peer: &MpxPeer| {
        peer.inner.table.home.account().waiting.wakes_given.load(Ordering::Relaxed)
    };
    let most = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while wakes(&peer) == 0 {
        assert!(std::time::Instant::now() < most, "the owner never slept");
        peer.send(channel, b"x").expect("sent");
        std::thread::yield_now();
    }
    assert_ne!(cpu(&peer), 0, "it gave a wake-up");
    drop(peer);
    receiving.join().expect("the owner saw all");
}
