//! Channels of an elastic mpx whose backlog goes to the file again while it is read.

use crate::memory::tests::faulty::{Faults, Faulty};
use crate::{ChannelId, ElasticMpx, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use weir::parts::pool_over;
use weir::{BacklogReader, BacklogWriter, Pool, PoolOptions, Waitable};
use weir_sys::spill::{self, EngineChoice, SpillFile, TransferDirection};

const PATIENCE: Duration = Duration::from_secs(30);

const FRAME: usize = 64 << 10;
/// Backlogs of others in the pool, which want its memory.
const OTHERS: usize = 14;
const OTHERS_BYTES: usize = 40 * FRAME;

/// An elastic owner and a peer, with a channel between them, and others in the same pool.
struct Scene {
    pool: Pool,
    faults: Faults,
    owner: ElasticMpx,
    peer: MpxPeer,
    channel: ChannelId,
    others: Vec<(BacklogWriter, BacklogReader)>,
    _directory: tempfile::TempDir,
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

impl Scene {
    fn new() -> Scene {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("mpx");
        let frame = FRAME as u64;
        let sizes = PoolOptions::new().frame_bytes(frame).cluster_bytes(frame);
        let sizes = sizes.memory_bytes(16 * frame).limit_bytes(1 << 28);
        let file = SpillFile::open(directory.path(), true).expect("a file");
        let (engine, _) = spill::open(file, EngineChoice::Best).expect("an engine");
        let (engine, faults) = Faulty::new(engine).expect("faulty");
        let sizes = sizes.spill_directory(directory.path());
        let pool = pool_over(&sizes, Box::new(engine)).expect("a pool");
        let owner = Mpx::create(&name, &MpxOptions::new()).expect("made");
        let mut owner = owner.elastic(&pool).expect("elastic");
        let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
        let channel = peer.open(b"x").expect("opened");
        let mut opened = None;
        let received = owner.receive_each(&mut [0; 1024], |record| opened = Some(record.channel));
        received.expect("received");
        let opened = opened.expect("opened");
        owner.lock().expect("locked").accept(opened).expect("accepted");
        owner.accumulate(opened, 8 << 20).expect("accumulates");
        Scene { pool, faults, owner, peer, channel, others: Vec::new(), _directory: directory }
    }

    /// Lets the peer wait until there is room again.
    fn wait_for_room(&mut self) {
        let time = Duration::from_millis(20);
        let _ = self.peer.receive_each_timeout(&mut [0; 4096], time, |_| {});
    }

    /// Waits until no transfer is under way.
    fn rest(&self) {
        let begun = Instant::now();
        while self.faults.under_way() > 0 {
            assert!(begun.elapsed() < PATIENCE, "the disk rests");
            std::thread::yield_now();
        }
    }

    fn fill_the_pool(&mut self) {
        for _ in 0..OTHERS {
            let (mut writer, reader) = self.pool.backlog().expect("a backlog");
            let bytes = data(OTHERS_BYTES);
            assert_eq!(writer.write_timeout(&bytes, PATIENCE).expect("put"), OTHERS_BYTES);
            self.others.push((writer, reader));
        }
        self.rest();
    }

    /// Looks whether something is there, as a wait does, and then others use the pool's memory.
    fn is_looked_at_and_loses_its_memory(&mut self) {
        let _ = self.owner.source().is_ready(1);
        let mut buffer = vec![0; FRAME];
        for (_, reader) in &mut self.others {
            reader.read_timeout(&mut buffer, PATIENCE).expect("read");
        }
        self.rest();
    }
}

/// A head had been taken out of a block, and the block's memory went to others. The next call showed
/// the frame without its bytes: one number came as a thousand zeros.
#[test]
fn numbers_come_as_they_were_sent_though_their_memory_went_to_others() {
    const NUMBERS: u32 = 60_000;
    let mut scene = Scene::new();
    let mut sent = 0;
    while sent < NUMBERS {
        match scene.peer.signal(scene.channel, 1_000_000 + sent).expect("signalled") {
            true => sent += 1,
            false => scene.wait_for_room(),
        }
    }
    scene.fill_the_pool();
    let (mut next, begun) = (0, Instant::now());
    for round in 0.. {
        if next == NUMBERS {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{next} came");
        if (20..60).contains(&round) {
            scene.is_looked_at_and_loses_its_memory();
        }
        let time = Duration::from_millis(100);
        let _ = scene.owner.receive_each_timeout(&mut [0; 64], time, |record| {
            if let RecordKind::Signal(number) = record.kind {
                assert_eq!(number, 1_000_000 + next, "round {round}");
                next += 1;
            }
        });
    }
}

/// The same with bytes, also while nothing can be read back: thousands of empty records came.
#[test]
fn bytes_come_as_they_were_sent_though_their_memory_went_to_others() {
    const ALL: usize = 2 << 20;
    let mut scene = Scene::new();
    let all = data(ALL);
    let mut sent = 0;
    while sent < ALL {
        let part = &all[sent..(sent + 3000).min(ALL)];
        match scene.peer.send(scene.channel, part).expect("sent") {
            0 => scene.wait_for_room(),
            taken => sent += taken,
        }
    }
    scene.fill_the_pool();
    let (mut came, begun) = (0, Instant::now());
    for round in 0.. {
        if came == ALL {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{came} came");
        let fails = (20..40).contains(&round);
        if fails {
            scene.faults.fail_all(TransferDirection::FromDisk, None);
            scene.is_looked_at_and_loses_its_memory();
        }
        let fault = fails.then_some(Errno::IO);
        scene.faults.fail_all(TransferDirection::FromDisk, fault);
        let time = Duration::from_millis(100);
        let _ = scene.owner.receive_each_timeout(&mut [0; 64], time, |record| {
            if record.kind == RecordKind::Data {
                assert!(!record.bytes.is_empty(), "an empty record after {came}");
                assert!(record.bytes == &all[came..came + record.bytes.len()], "after {came}");
                came += record.bytes.len();
            }
        });
    }
}
