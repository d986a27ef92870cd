//! The pool's decisions one by one: which blocks are delayed, cancelled, written and read back, and
//! when.

use std::collections::VecDeque;
use weir_policy::pool::{Action, BlockCounts, PoolEvent, PoolPolicy, PoolSettings, READY_NS, Rule};

/// Frames of the pools here: clusters have four blocks, writing begins with eight frames left, and
/// blocks are chosen with twelve left.
const FRAMES: u32 = 400;
const START: u32 = 8;
const CHOOSE: u32 = 12;
const CLUSTER: u64 = 4;

/// A pool, and what it asks for.
struct Table {
    pool: PoolPolicy,
    now_ns: u64,
    granted: Vec<u32>,
    shown: VecDeque<(u32, bool)>,
    ready: Vec<u32>,
    failed: Vec<u32>,
    begun: VecDeque<u32>,
}

impl Table {
    fn new(rule: Rule, streams: u32) -> Table {
        let (frames, slots) = (FRAMES, 5000);
        Table::with(PoolSettings { frames, slots, cluster: 4, transfers: 32, rule }, streams)
    }

    fn with(settings: PoolSettings, streams: u32) -> Table {
        let mut pool = PoolPolicy::new(settings).expect("memory");
        (0..streams).for_each(|_| _ = pool.open(0));
        let (granted, ready, failed) = (Vec::new(), Vec::new(), Vec::new());
        let (shown, begun) = (VecDeque::new(), VecDeque::new());
        Table { pool, now_ns: 0, granted, shown, ready, failed, begun }
    }

    fn on(&mut self, event: PoolEvent) {
        self.pool.on(self.now_ns, event);
        while let Some(action) = self.pool.action() {
            match action {
                Action::Grant { stream, .. } => {
                    self.granted.push(stream);
                    self.on(PoolEvent::Seal(stream));
                }
                Action::Show { stream, in_file, .. } => self.shown.push_back((stream, in_file)),
                Action::Ready(stream) => self.ready.push(stream),
                Action::Fail { stream, .. } => self.failed.push(stream),
                Action::Begin(transfer) => self.begun.push_back(transfer),
                Action::Trouble(_) => {}
            }
        }
    }

    /// Appends blocks to a stream.
    fn write(&mut self, stream: u32, blocks: u32) {
        (0..blocks).for_each(|_| self.on(PoolEvent::Append(stream)));
    }

    /// Looks at the first block. Returns whether it is in the file too, if it was in memory.
    fn peek(&mut self, stream: u32) -> Option<bool> {
        self.on(PoolEvent::Want(stream));
        let (of, in_file) = self.shown.pop_front()?;
        assert_eq!(of, stream);
        Some(in_file)
    }

    fn read(&mut self, stream: u32, blocks: u32) {
        for _ in 0..blocks {
            while self.peek(stream).is_none() {
                self.end(None);
            }
            self.on(PoolEvent::Consumed(stream));
        }
    }

    /// Ends the transfer that was begun first.
    fn end(&mut self, fault: Option<i32>) {
        let transfer = self.begun.pop_front().expect("something is under way");
        self.on(PoolEvent::Done { transfer, fault });
    }

    fn settle(&mut self) {
        while !self.begun.is_empty() {
            self.end(None);
        }
    }

    fn counts(&self) -> BlockCounts {
        self.pool.counts()
    }
}

#[test]
fn nothing_is_written_while_memory_suffices() {
    let mut table = Table::new(Rule::default(), 3);
    let rounds = if cfg!(miri) { 1 } else { 100 };
    for _ in 0..rounds {
        for stream in 0..3 {
            table.write(stream, (FRAMES - CHOOSE) / 3);
        }
        for stream in 0..3 {
            table.read(stream, (FRAMES - CHOOSE) / 3);
        }
    }
    assert_eq!((table.counts().delayed, table.counts().spilled), (0, 0));
}

#[test]
fn blocks_are_delayed_first_and_written_when_still_more_is_needed() {
    let mut table = Table::new(Rule::default(), 1);
    table.write(0, FRAMES - CHOOSE);
    assert_eq!(table.counts().delayed, 0);
    table.write(0, 1);
    assert_eq!((table.counts().delayed, table.begun.len()), (CLUSTER, 0), "a run, not written yet");
    table.write(0, CHOOSE - START - 1);
    assert_eq!(table.begun.len(), 0);
    table.write(0, 1);
    assert_eq!(table.begun.len(), 1, "now it is");
    assert_eq!(table.pool.transfer(table.begun[0]).frames().len() as u64, CLUSTER);
}

#[test]
fn a_reader_that_comes_to_a_delayed_block_cancels_its_run() {
    let mut table = Table::new(Rule::OldestFirst, 1);
    table.write(0, FRAMES - CHOOSE + 1);
    assert_eq!((table.counts().delayed, table.counts().cancelled), (CLUSTER, 0));
    assert_eq!(table.peek(0), Some(false));
    assert_eq!(table.counts().cancelled, CLUSTER, "all of the run");
}

#[test]
fn memory_that_comes_free_cancels_writes() {
    let mut table = Table::new(Rule::default(), 2);
    table.write(0, 100);
    table.write(1, FRAMES - CHOOSE - 99);
    assert_eq!(table.counts().delayed, CLUSTER);
    // Another stream is read, none of whose blocks were chosen.
    table.read(0, 20);
    assert_eq!((table.counts().cancelled, table.counts().spilled), (CLUSTER, 0));
}

#[test]
fn what_is_being_written_is_read_from_memory() {
    let mut table = Table::new(Rule::OldestFirst, 1);
    table.write(0, FRAMES - START + 1);
    assert!(!table.begun.is_empty());
    let used = table.pool.frames_used().0;
    assert_eq!(table.peek(0), Some(false), "it is there");
    table.on(PoolEvent::Consumed(0));
    assert_eq!(table.pool.frames_used().0, used, "its frame stays the disk's");
    table.end(None);
    assert_eq!(table.pool.frames_used().0, used - 1);
    assert_eq!(table.counts().read_back, 0);
}

/// A block whose reader continued before its write had ended was counted as delayed, and as neither
/// spilled nor cancelled.
#[test]
fn the_counts_of_a_stream_add_up() {
    let mut table = Table::new(Rule::OldestFirst, 1);
    table.write(0, FRAMES - START + 1);
    let begun = table.begun.len();
    table.read(0, FRAMES - START + 1);
    table.settle();
    let of = table.pool.stream_counts(0);
    assert!(begun > 0 && of.spilled >= CLUSTER, "{of:?}");
    assert_eq!((of.delayed, of), (of.cancelled + of.spilled, table.counts()));
    // A stream that gets the number of another counts nothing of that one's.
    table.write(0, FRAMES - START + 1);
    table.read(0, 1);
    table.on(PoolEvent::Close(0));
    assert!(!table.begun.is_empty());
    assert_eq!(table.pool.open(0), 0);
    table.settle();
    assert_eq!(table.pool.stream_counts(0), BlockCounts::default());
}

/// Returns the stream that gives way, where each differs from the others in one respect.
fn victim(rule: Rule) -> u32 {
    let mut table = Table::new(rule, 3);
    // The first stream is the oldest, the second has the slowest reader, the third the most blocks.
    table.write(0, 60);
    table.write(1, 128);
    table.write(2, 160);
    for _ in 0..16 {
        table.now_ns += 1_000_000;
        table.read(2, 1);
        table.now_ns += 100_000;
        table.read(0, 1);
    }
    for _ in 0..4 {
        table.now_ns += 4_000_000;
        table.read(1, 1);
    }
    let free = FRAMES - table.pool.frames_used().0;
    // A stream that is neither oldest nor slow nor long takes the rest.
    let fast = table.pool.open(table.now_ns);
    table.write(fast, free - CHOOSE + 1);
    table.write(fast, CHOOSE);
    table.settle();
    let spilled = |stream: &u32| table.pool.stream_counts(*stream).spilled;
    let all: Vec<_> = (0..4).map(|stream| spilled(&stream)).collect();
    assert_eq!(all.iter().filter(|blocks| **blocks > 0).count(), 1, "{rule:?}: {all:?}");
    (0..4).find(|stream| spilled(stream) > 0).expect("one")
}

#[test]
fn each_rule_chooses_as_it_says() {
    assert_eq!(victim(Rule::OldestFirst), 0);
    assert_eq!(victim(Rule::LongestDrain), 1);
    assert_eq!(victim(Rule::LongestBacklog), 2);
    assert_eq!(victim(Rule::Bbn), 0);
    let mut through = Table::new(Rule::WriteThrough, 1);
    through.write(0, 10);
    through.settle();
    assert_eq!(through.counts().spilled, 10, "each as soon as it is full");
}

#[test]
fn bbns_rule_writes_one_block_at_a_time_when_no_frame_is_left() {
    let mut table = Table::new(Rule::Bbn, 1);
    table.write(0, FRAMES - 2);
    assert_eq!(table.counts().delayed, 0);
    table.write(0, 2);
    assert!(!table.begun.is_empty());
    let one = |transfer: &u32| table.pool.transfer(*transfer).frames().len() == 1;
    assert!(table.begun.iter().all(one));
}

#[test]
fn two_clusters_are_read_ahead() {
    let mut table = Table::new(Rule::default(), 2);
    for _ in 0..4 * FRAMES {
        table.write(0, 1);
        table.settle();
    }
    for read in 0..4 * FRAMES / 8 {
        // The disk has done what it was asked before: two whole clusters are there.
        table.settle();
        for block in 0..2 * CLUSTER {
            assert!(table.peek(0).is_some(), "block {block} after {} was not read ahead", 8 * read);
            table.on(PoolEvent::Consumed(0));
        }
    }
    table.settle();
    let counts = table.counts();
    assert!(counts.read_back > 0 && counts.read_back <= counts.spilled, "{counts:?}");
}

#[test]
fn a_writer_that_asks_again_and_again_is_in_no_greater_need() {
    let delayed = |asks: u32| {
        let mut table = Table::new(Rule::default(), 1);
        table.write(0, FRAMES - CLUSTER as u32);
        // No transfer has ended: only the frames that readers need are left.
        let granted = table.granted.len();
        table.write(0, asks);
        assert_eq!(table.granted.len(), granted, "it waits");
        table.settle();
        table.counts().delayed
    };
    assert_eq!(delayed(1), delayed(20));
}

#[test]
fn a_pool_in_trouble_waits_for_need_and_not_for_time() {
    let mut table = Table::new(Rule::default(), 2);
    table.write(0, 100);
    table.write(1, FRAMES - START - 99);
    assert!(table.pool.deadline_ns().is_none());
    table.end(Some(28));
    assert_eq!(table.pool.trouble(), Some(28));
    let due_ns = table.pool.deadline_ns().expect("it is tried again");
    assert!(due_ns > table.now_ns);
    // Frames come free: there is no need to write, and time does not change that.
    table.read(0, 4);
    table.now_ns = due_ns;
    table.on(PoolEvent::Tick);
    assert_eq!((table.begun.len(), table.pool.deadline_ns()), (0, None));
    // With as many blocks again, it is tried.
    table.write(0, 4);
    assert_eq!(table.begun.len(), 1);
    table.end(None);
    assert_eq!(table.pool.trouble(), None);
}

/// Two readers polled a pool whose file was full. One of them had asked for a block, which was read
/// back into the last free frame, and did not come: the other waited for ever.
#[test]
fn a_reader_that_does_not_come_holds_up_nobody() {
    let settings =
        PoolSettings { frames: 4, slots: 6, cluster: 1, transfers: 1, rule: Rule::OldestFirst };
    let mut table = Table::with(settings, 3);
    table.write(2, 1);
    for _ in 0..10 {
        table.write(0, 1);
        table.write(1, 1);
        table.settle();
    }
    assert_eq!((table.peek(0), table.peek(1)), (None, None), "both are in the file");
    table.end(None);
    assert_eq!((table.ready.pop(), table.begun.len()), (Some(0), 0), "there is no other frame");
    // The other gets it only when the first has had its time.
    let due_ns = table.pool.deadline_ns().expect("the frame is given to the other");
    assert_eq!(due_ns, table.now_ns + READY_NS);
    table.now_ns = due_ns - 1;
    table.on(PoolEvent::Tick);
    assert_eq!((table.begun.len(), table.pool.deadline_ns()), (0, Some(due_ns)));
    table.now_ns = due_ns;
    table.on(PoolEvent::Tick);
    table.end(None);
    assert_eq!((table.ready.pop(), table.peek(1)), (Some(1), Some(true)));
    table.on(PoolEvent::Consumed(1));
    // The first comes back, and is served as well.
    table.read(0, 1);
}

/// A pool whose readers rested after they had read a little kept all frames for them: nothing was left
/// to be written, so nothing freed a frame, and all writers waited for ever while the file was nearly
/// empty.
#[test]
fn readers_that_rest_hold_up_no_writer() {
    let settings =
        PoolSettings { frames: 16, slots: 1000, cluster: 4, transfers: 32, rule: Rule::default() };
    let rested = || {
        let mut table = Table::with(settings, 2);
        for _ in 0..120 {
            table.write(0, 1);
            table.settle();
        }
        table.read(0, 40);
        table.settle();
        table
    };
    let mut table = rested();
    table.granted.clear();
    for _ in 0..40 {
        table.write(1, 1);
        table.settle();
    }
    assert_eq!(table.granted, [1; 40], "the writer goes on");
    // The reader comes back, and is served.
    table.read(0, 80);
    table.read(1, 40);
    // So does a region that begins.
    let mut table = rested();
    let mut lent = 0;
    table.pool.lend(table.now_ns, 4, |_| lent += 1);
    assert_eq!(lent, 4);
    table.read(0, 80);
}

#[test]
fn a_stream_without_a_reader_keeps_its_last_block_only() {
    let mut table = Table::new(Rule::default(), 1);
    for _ in 0..2 * FRAMES {
        table.write(0, 1);
        table.settle();
    }
    table.on(PoolEvent::Abandon(0));
    table.settle();
    assert_eq!(table.pool.backlog(0), 1);
    assert!(table.pool.frames_used().0 + table.pool.slots_used().0 <= 2);
    table.on(PoolEvent::Close(0));
    assert_eq!((table.pool.frames_used().0, table.pool.slots_used().0), (0, 0));
}
