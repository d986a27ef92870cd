//! Channels whose senders continue while the receiver rests (docs/contracts/mpx.md, 19 to 21).

use crate::common;
use crate::common::{Random, hear_and_kill, patterned, say, start, until};
use crate::exchange::{Kept, LONG, kept};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir::stat::MpxAccount;
use weir::{Ending, ErrorKind, Pool, PoolOptions, Timeout, Wait};
use weir_mpx::{ChannelId, ElasticMpx, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

fn pool(memory_bytes: u64) -> Pool {
    let options = PoolOptions::new().memory_bytes(memory_bytes).frame_bytes(16 << 10);
    Pool::new(&options.cluster_bytes(64 << 10)).expect("a pool")
}

/// An elastic owner with its name.
struct Elastic {
    owner: ElasticMpx,
    name: PathBuf,
    _directory: tempfile::TempDir,
}

fn elastic(pool: &Pool) -> Elastic {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let owner =
        Mpx::create(&name, &MpxOptions::new()).expect("made").elastic(pool).expect("elastic");
    Elastic { owner, name, _directory: directory }
}

fn peer(name: &Path) -> MpxPeer {
    MpxPeer::connect(name, &MpxPeerOptions::new()).expect("connected")
}

impl Elastic {
    /// The owner's account, as others see it.
    fn account(&self) -> MpxAccount {
        let inode = std::fs::metadata(&self.name).expect("there").ino();
        let all = weir::stat::mpxes();
        let owner = all.iter().find(|mpx| mpx.is_owner && mpx.socket.1 == inode).expect("listed");
        assert_eq!(owner.account.pid, std::process::id());
        owner.account
    }

    fn some(&mut self, timeout: impl Into<Timeout>) -> Vec<Kept> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 70_000]);
        let received =
            self.owner.receive_each_timeout(&mut buffer, timeout, |record| all.push(kept(&record)));
        if let Err(error) = received {
            assert!(
                [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()),
                "{error}"
            );
        }
        all
    }

    /// Waits for the next record.
    fn next(&mut self) -> Vec<Kept> {
        let some = self.some(LONG);
        assert!(!some.is_empty(), "nothing came");
        some
    }

    /// Accepts the channel that a peer has opened, and lets it accumulate.
    fn accept(&mut self, most_bytes: u64) -> ChannelId {
        let opened = self.next().remove(0);
        assert_eq!(opened.kind, RecordKind::Open);
        self.owner.lock().expect("here").accept(opened.channel).expect("accepted");
        self.owner.accumulate(opened.channel, most_bytes).expect("accumulates");
        opened.channel
    }
}

/// Sends all of it, and waits for room as often as need be.
fn send_all(peer: &mut MpxPeer, channel: ChannelId, bytes: &[u8]) -> usize {
    let (mut sent, mut blocked) = (0, 0);
    while sent < bytes.len() {
        sent += peer.send(channel, &bytes[sent..]).expect("sent");
        if sent < bytes.len() {
            blocked += 1;
            wait_for_room(peer);
        }
    }
    blocked
}

fn wait_for_room(peer: &mut MpxPeer) {
    let mut is_free = false;
    while !is_free {
        peer.receive_each_timeout(&mut [0; 4096], LONG, |record| {
            is_free |= record.kind == RecordKind::Unblocked;
        })
        .expect("there is room soon");
    }
}

/// The record of a number; some are longer than a block of the pool.
fn body(number: u64) -> Vec<u8> {
    let count = match number % 97 {
        0 => 40_000,
        rest if rest % 7 == 0 => 9000,
        rest => (rest * 37 % 900) as usize,
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(patterned(count, number as usize));
    bytes
}

/// Sends records of numbers, each with a mark after it.
fn send_numbers(peer: &mut MpxPeer, channel: ChannelId, numbers: std::ops::Range<u64>) {
    for number in numbers {
        send_all(peer, channel, &body(number));
        while !peer.end(channel).expect("sent") {
            wait_for_room(peer);
        }
    }
}

/// What came on one channel: whole records up to each mark.
#[derive(Default)]
struct Came {
    next: u64,
    bytes: Vec<u8>,
    ending: Option<Ending>,
}

impl Came {
    fn all(&mut self, records: Vec<Kept>) {
        for record in records {
            match record.kind {
                RecordKind::Data => self.bytes.extend(record.bytes),
                RecordKind::End => {
                    assert!(self.bytes == body(self.next), "record {}", self.next);
                    self.bytes.clear();
                    self.next += 1;
                }
                RecordKind::Close(ending) => self.ending = Some(ending),
                kind => panic!("{kind:?}"),
            }
        }
    }
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    let ["count", name] = role.split(' ').collect::<Vec<_>>()[..] else {
        panic!("no role: {role}")
    };
    let mut peer = peer(Path::new(name));
    let channel = peer.open(b"count").expect("opened");
    // Says each record that was taken whole.
    for number in 0_u64.. {
        send_numbers(&mut peer, channel, number..number + 1);
        say(&input, &number.to_le_bytes());
    }
}

/// Everything is sent, and the sender gone, before anything is received. Most of it went to the file.
#[test]
fn a_sender_continues_while_the_receiver_rests() {
    let pool = pool(256 << 10);
    let mut elastic = elastic(&pool);
    let mut peer = peer(&elastic.name);
    let there = peer.open(b"rests").expect("opened");
    let here = elastic.accept(1 << 30);
    send_numbers(&mut peer, there, 0..1000);
    assert!(peer.signal(there, 7).expect("sent") || peer.channels() == 1);
    peer.close(there).expect("closed");
    drop(peer);
    assert!(elastic.owner.backlog_bytes() > 1 << 20, "{}", elastic.owner.backlog_bytes());
    let account = pool.account();
    assert!(account.spilled_bytes > 0 && account.most_memory_bytes <= 256 << 10, "{account:?}");
    let (mut came, mut signals) = (Came::default(), 0);
    while came.ending.is_none() {
        let (numbers, others): (Vec<_>, Vec<_>) = elastic
            .next()
            .into_iter()
            .inspect(|record| assert_eq!(record.channel, here))
            .partition(|record| matches!(record.kind, RecordKind::Signal(_)));
        signals += numbers.len();
        came.all(others);
    }
    assert_eq!((came.next, came.ending), (1000, Some(Ending::Closed)));
    assert!(signals <= 1);
    assert_eq!(elastic.owner.backlog_bytes(), 0);
    // A frame on its way to the file is free a moment later.
    until("an empty backlog holds no frame", || pool.account().memory_bytes == 0);
}

#[test]
fn nothing_is_moved_while_the_receiver_keeps_up_or_did_not_ask() {
    let pool = pool(1 << 20);
    let mut elastic = elastic(&pool);
    let mut peer = peer(&elastic.name);
    let there = peer.open(b"quick").expect("opened");
    elastic.accept(1 << 20);
    for number in 0..1000 {
        let bytes = patterned(2000, number);
        assert_eq!(peer.send(there, &bytes).expect("sent"), 2000);
        assert!(elastic.next()[0].bytes == bytes);
    }
    assert_eq!(pool.account().put_bytes, 0);
    // A channel that does not ask for it stops its sender as before.
    let there = peer.open(b"plain").expect("opened");
    let opened = elastic.next().remove(0).channel;
    elastic.owner.lock().expect("here").accept(opened).expect("accepted");
    let sent = peer.send(there, &[1; 300_000]).expect("sent");
    let begun = Instant::now();
    // Longer than the thread rests between two looks.
    while begun.elapsed() < Duration::from_millis(300) {
        assert_eq!(peer.send(there, &[1; 70_000]).expect("full"), 0, "after {sent}");
        let _ = peer.receive_each_timeout(&mut [0; 4096], Duration::from_millis(50), |_| {});
    }
    assert_eq!(pool.account().put_bytes, 0);
}

/// The limit of a channel holds, and that of the pool; then the sender waits, and continues later.
#[test]
fn the_budget_holds_and_then_the_sender_waits() {
    for (most_bytes, of_pool) in [(200_000_u64, false), (1 << 40, true)] {
        let options = PoolOptions::new().memory_bytes(512 << 10).frame_bytes(16 << 10);
        let options = options.cluster_bytes(64 << 10);
        let options = if of_pool { options.no_spill() } else { options };
        let pool = Pool::new(&options).expect("a pool");
        let mut elastic = elastic(&pool);
        let mut peer = peer(&elastic.name);
        let there = peer.open(b"budget").expect("opened");
        elastic.accept(most_bytes);
        let bytes = patterned(3_000_000, 1);
        let (begun, mut sent, mut since) = (Instant::now(), 0, Instant::now());
        let is_little = || elastic.owner.backlog_bytes() < 180_000 && begun.elapsed() < LONG;
        while since.elapsed() < Duration::from_millis(500) || is_little() {
            let taken = peer.send(there, &bytes[sent..]).expect("sent");
            sent += taken;
            if taken > 0 {
                since = Instant::now();
            }
            let _ = peer.receive_each_timeout(&mut [0; 4096], Duration::from_millis(20), |_| {});
        }
        let backlog = elastic.owner.backlog_bytes();
        let most = if of_pool { 512 << 10 } else { most_bytes + (64 << 10) + 64 };
        assert!(backlog >= 180_000 && backlog <= most, "{backlog} of {most}");
        assert!(sent as u64 >= backlog - 4096 && sent < bytes.len(), "{sent}");
        assert!(pool.account().most_memory_bytes <= 512 << 10);
        let sending = std::thread::spawn(move || send_all(&mut peer, there, &bytes[sent..]));
        let mut got = Vec::<u8>::new();
        while got.len() < 3_000_000 {
            let records = elastic.next();
            assert!(records.iter().all(|record| record.kind != RecordKind::Open));
            records.iter().for_each(|record| got.extend(&record.bytes));
        }
        assert!(got == patterned(3_000_000, 1));
        sending.join().expect("no panic");
        assert!(pool.account().most_memory_bytes <= 512 << 10);
    }
}

#[test]
fn what_a_killed_sender_sent_is_received() {
    let mut random = Random(11);
    for round in 0..6 {
        let pool = pool(256 << 10);
        let mut elastic = elastic(&pool);
        let (mut child, socket) = start(&format!("count {}", elastic.name.display()));
        elastic.accept(1 << 30);
        let said = hear_and_kill(&mut child, &socket, 1 + random.below(300));
        let mut came = Came::default();
        while came.ending.is_none() {
            let records = elastic.next();
            came.all(records);
        }
        assert_eq!(came.ending, Some(Ending::Died));
        assert!(came.next > said, "round {round}: {said} was sent, {} came", came.next);
    }
}

/// Peers that accumulate at an owner that rests at random; it can be waited for with others.
#[test]
fn nothing_is_lost_or_out_of_order_and_it_can_be_waited_for() {
    let pool = pool(512 << 10);
    let mut elastic = elastic(&pool);
    let mut channels = std::collections::HashMap::new();
    let mut peers = Vec::new();
    for _ in 0..4 {
        let mut peer = peer(&elastic.name);
        let there = peer.open(b"many").expect("opened");
        channels.insert(elastic.accept(1 << 30), Came::default());
        peers.push((peer, there));
    }
    let send = |(mut peer, there): (MpxPeer, _)| send_numbers(&mut peer, there, 0..800);
    let sending: Vec<_> =
        peers.into_iter().map(|one| std::thread::spawn(move || send(one))).collect();
    let mut random = Random(5);
    while channels.values().any(|came| came.ending.is_none()) {
        let mut wait = Wait::new();
        wait.add_borrowed((), &mut elastic.owner).expect("few");
        wait.wait_timeout(&mut Vec::new(), LONG).expect("ready");
        drop(wait);
        for _ in 0..1 + random.below(4) {
            for record in elastic.some(Timeout::Now) {
                channels.get_mut(&record.channel).expect("known").all(vec![record]);
            }
        }
        if random.below(8) == 0 {
            // sleep: the receiver rests, so that lanes get full.
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    sending.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(channels.values().all(|came| came.next == 800));
    assert!(pool.account().put_bytes > 0, "something accumulated");
}

/// A backlog goes to a connected channel and to a program as the lane does, and a peer may have one.
#[test]
fn a_backlog_is_moved_on_to_channels_and_descriptors() {
    let pool = pool(256 << 10);
    let mut elastic = elastic(&pool);
    let (mut left, mut right) = (peer(&elastic.name), peer(&elastic.name));
    let at_left = left.open(b"left").expect("opened");
    let here = elastic.accept(1 << 30);
    let at_right = right.open(b"right").expect("opened");
    let other = elastic.accept(1 << 30);
    elastic.owner.lock().expect("here").connect(here, other).expect("connected");
    let bytes = patterned(1_000_000, 3);
    // The right side does not read, and the owner does nothing: the pool takes it all.
    send_all(&mut left, at_left, &bytes);
    assert!(elastic.owner.backlog_bytes() > 500_000);
    let mut accepted = 0;
    let see = |record: weir_mpx::Record<'_>| {
        accepted += u32::from(record.kind == RecordKind::Accepted);
    };
    right.receive_each(&mut [0; 64], see).expect("received");
    assert_eq!(accepted, 1);
    // A pool of its own: one that is full of the first backlog has no room for the second.
    let own = self::pool(256 << 10);
    let mut right = right.elastic(&own).expect("elastic");
    right.accumulate(at_right, 1 << 30).expect("accumulates");
    let begun = Instant::now();
    while elastic.owner.backlog_bytes() > 0 {
        assert!(elastic.some(Duration::from_millis(5)).is_empty());
        assert!(begun.elapsed() < LONG, "the peer's pool takes it");
    }
    let (mut got, mut buffer) = (Vec::new(), vec![0; 70_000]);
    while got.len() < bytes.len() {
        elastic.some(Timeout::Now);
        let _ = right.receive_each_timeout(&mut buffer, Duration::from_millis(5), |record| {
            got.extend_from_slice(record.bytes);
        });
        assert!(begun.elapsed() < LONG, "{} bytes", got.len());
    }
    assert!(got == bytes);
    elastic.owner.lock().expect("here").disconnect(here).expect("there");
    // Through a program.
    send_all(&mut left, at_left, &bytes);
    let (reading, writing) = rustix::pipe::pipe().expect("a pipe");
    elastic.owner.lock().expect("here").join_output(here, writing).expect("joined");
    let reader = std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 70_000]);
        while let Ok(count @ 1..) = rustix::io::read(&reading, &mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        all
    });
    left.close(at_left).expect("closed");
    let ended = elastic.next().remove(0);
    assert_eq!(ended.kind, RecordKind::Close(Ending::Closed));
    assert!(reader.join().expect("no panic") == bytes);
}

/// A record of a backlog that is in two blocks of the pool was counted twice where it was moved on.
#[test]
fn records_that_are_moved_on_are_counted_once() {
    let pool = pool(4 << 20);
    let mut elastic = elastic(&pool);
    let (mut left, mut right) = (peer(&elastic.name), peer(&elastic.name));
    let at_left = left.open(b"left").expect("opened");
    let here = elastic.accept(2 << 20);
    right.open(b"right").expect("opened");
    let other = elastic.accept(0);
    let mut records = 0;
    for through_a_program in [true, false] {
        // Each is taken whole.
        (0..100).for_each(|number| _ = send_all(&mut left, at_left, &patterned(9000, number)));
        records += 100;
        assert!(elastic.owner.backlog_bytes() > 500_000, "most of it");
        if through_a_program {
            let output = std::fs::File::options().write(true).open("/dev/null").expect("there");
            let mut owner = elastic.owner.lock().expect("here");
            owner.join_output(here, output.into()).expect("joined");
        } else {
            elastic.owner.lock().expect("here").connect(here, other).expect("connected");
        }
        until("all is moved on", || {
            assert!(elastic.some(Timeout::Now).is_empty());
            let _ = right.receive_each_timeout(&mut [0; 70_000], Timeout::Now, |_| {});
            elastic.account().bytes_in == records * 9000
        });
        assert_eq!(elastic.account().records_in, records);
        elastic.owner.lock().expect("here").release(here).expect("there");
    }
}

/// The account shows what went to the pool; a channel that ends takes its backlog with it.
#[test]
fn the_account_counts_backlogs() {
    let pool = pool(256 << 10);
    let mut elastic = elastic(&pool);
    let mut peer = peer(&elastic.name);
    let there = peer.open(b"counts").expect("opened");
    let here = elastic.accept(1 << 30);
    send_all(&mut peer, there, &patterned(2_000_000, 3));
    // The thread counts after each turn, and the last of it is on its way.
    until("all but what is in the lane is counted", || {
        let counted = elastic.account();
        counted.delayed_bytes > 1_800_000 && counted.spilled_bytes > 0
    });
    elastic.owner.lock().expect("here").close(here).expect("closed");
    assert_eq!(elastic.owner.backlog_bytes(), 0);
    until("its frames are free", || pool.account().memory_bytes == 0);
    let error = elastic.owner.accumulate(here, 1).expect_err("ended");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
