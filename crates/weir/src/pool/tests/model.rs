//! Whatever is done with a pool, each of its streams is a plain queue.

use super::*;
use proptest::prelude::*;
use rustix::io::Errno;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    /// Puts this many bytes into a stream, as far as there is room.
    Put(usize, usize),
    /// Takes up to this many bytes.
    Take(usize, usize),
    /// Peeks, and consumes this many bytes.
    Look(usize, usize),
    /// Drops the writer, the reader or both, and opens another stream.
    Drop(usize, u8),
    /// Makes transfers of this direction fail from now on, or succeed again.
    Fail(TransferDirection, bool),
    /// Holds transfers, or releases them.
    Hold(TransferDirection, bool),
    /// Makes the transfer after this many fail.
    FailOne(TransferDirection, u64),
    /// Lets the disk do its work.
    Rest,
}

/// A stream, and what it should hold.
struct Stream {
    ends: (Option<BacklogWriter>, Option<BacklogReader>),
    queue: VecDeque<u8>,
    next: usize,
}

struct Model {
    made: Made,
    streams: Vec<Stream>,
    holds: [bool; 2],
}

/// Errors that the pool may give.
fn expected(error: &Error) -> bool {
    let kinds = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
    kinds.contains(&error.kind()) || cause(error) == Some(Errno::IO.raw_os_error())
}

impl Model {
    fn new(options: PoolOptions, streams: usize) -> Model {
        let made = make(options);
        let streams = (0..streams).map(|_| Stream::open(&made.pool)).collect();
        Model { made, streams, holds: [false; 2] }
    }

    fn step(&mut self, step: &Step) {
        let count = self.streams.len();
        match *step {
            Step::Put(stream, bytes) => self.streams[stream % count].put(bytes),
            Step::Take(stream, bytes) => self.streams[stream % count].take(bytes),
            Step::Look(stream, bytes) => self.streams[stream % count].peek(bytes),
            Step::Drop(stream, which) => self.streams[stream % count].go(which, &self.made.pool),
            Step::Fail(direction, fails) => {
                self.made.faults.fail_all(direction, fails.then_some(Errno::IO));
            }
            Step::FailOne(direction, after) => {
                self.made.faults.fail_after(after, direction, Errno::IO);
            }
            Step::Hold(direction, holds) => {
                self.holds[direction as usize] = holds;
                self.made.faults.hold(direction, holds);
            }
            Step::Rest if self.holds == [false; 2] => rest(&self.made.pool),
            Step::Rest => {}
        }
        let account = self.made.pool.account();
        let settings = self.made.pool.core().lock().policy.settings();
        assert!(account.most_memory_bytes <= u64::from(settings.frames) * PAGE as u64);
        assert!(account.most_file_bytes <= u64::from(settings.slots) * PAGE as u64);
        assert!(account.delayed_bytes >= account.cancelled_bytes + account.spilled_bytes);
    }

    /// Takes everything, with a disk that works.
    fn drain(&mut self) {
        for direction in [TransferDirection::ToDisk, TransferDirection::FromDisk] {
            self.made.faults.fail_all(direction, None);
            self.made.faults.hold(direction, false);
        }
        for stream in &mut self.streams {
            stream.ends.0 = None;
            let deadline = Instant::now() + PATIENCE;
            while stream.ends.1.is_some() && !stream.queue.is_empty() {
                stream.take_for(100_000, Duration::from_secs(5));
                assert!(Instant::now() < deadline, "{} bytes are left", stream.queue.len());
            }
            if let Some(mut reader) = stream.ends.1.take() {
                assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
            }
        }
        all_is_given_back(&self.made.pool);
    }
}

impl Stream {
    fn open(pool: &Pool) -> Stream {
        let (writer, reader) = pool.backlog().expect("backlog");
        Stream { ends: (Some(writer), Some(reader)), queue: VecDeque::new(), next: 0 }
    }

    fn put(&mut self, bytes: usize) {
        let (Some(writer), reader) = (&mut self.ends.0, &self.ends.1) else { return };
        let data = data(self.next, bytes);
        let put = match writer.try_write(&data) {
            Ok(n) => n,
            Err(error) if reader.is_none() => {
                assert_eq!(error.kind(), ErrorKind::Closed);
                return;
            }
            Err(error) => {
                assert!(expected(&error), "{error}");
                error.written_bytes().unwrap_or_default()
            }
        };
        self.next += put;
        self.queue.extend(&data[..put]);
    }

    fn took(&mut self, came: &[u8]) {
        assert!(came.len() <= self.queue.len(), "more than was put");
        assert!(self.queue.drain(..came.len()).eq(came.iter().copied()), "other bytes");
    }

    fn take(&mut self, bytes: usize) {
        self.take_for(bytes, Duration::ZERO);
    }

    fn take_for(&mut self, bytes: usize, time: Duration) {
        let Some(reader) = &mut self.ends.1 else { return };
        let mut buffer = vec![0; bytes];
        match reader.read_timeout(&mut buffer, time) {
            Ok(0) => assert!(self.ends.0.is_none() && self.queue.is_empty(), "no end"),
            Ok(n) => self.took(&buffer[..n]),
            Err(error) => assert!(expected(&error), "{error}"),
        }
    }

    fn peek(&mut self, bytes: usize) {
        let Some(reader) = &mut self.ends.1 else { return };
        match reader.peek() {
            Ok(there) => {
                let came = there[..bytes.min(there.len())].to_vec();
                assert!(there.iter().eq(self.queue.iter().take(there.len())), "other bytes");
                reader.consume(came.len());
                self.took(&came);
            }
            Err(error) => assert!(expected(&error), "{error}"),
        }
        if let Some(reader) = &self.ends.1 {
            assert_eq!(reader.backlog_bytes(), self.queue.len() as u64);
        }
    }

    fn go(&mut self, which: u8, pool: &Pool) {
        match which {
            0 => self.ends.0 = None,
            1 => self.ends.1 = None,
            _ => *self = Stream::open(pool),
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let direction =
        || prop::sample::select(vec![TransferDirection::ToDisk, TransferDirection::FromDisk]);
    let bytes = || prop_oneof![0_usize..20, 0_usize..3 * PAGE, 0_usize..30 * PAGE];
    let step = prop_oneof![
        12 => (any::<usize>(), bytes()).prop_map(|(stream, n)| Step::Put(stream, n)),
        8 => (any::<usize>(), 1_usize..8 * PAGE).prop_map(|(stream, n)| Step::Take(stream, n)),
        4 => (any::<usize>(), 0_usize..2 * PAGE).prop_map(|(stream, n)| Step::Look(stream, n)),
        1 => (any::<usize>(), 0_u8..4).prop_map(|(stream, which)| Step::Drop(stream, which)),
        1 => (direction(), prop::bool::weighted(0.4)).prop_map(|(d, fails)| Step::Fail(d, fails)),
        1 => (direction(), prop::bool::weighted(0.4)).prop_map(|(d, holds)| Step::Hold(d, holds)),
        1 => (direction(), 0_u64..4).prop_map(|(d, after)| Step::FailOne(d, after)),
        4 => Just(Step::Rest),
    ];
    prop::collection::vec(step, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn streams_are_queues(
        frames in prop_oneof![4_usize..=8, 4_usize..=64],
        slots in prop_oneof![0_usize..16, 0_usize..400],
        streams in 1_usize..=4,
        steps in steps(),
    ) {
        let mut model = Model::new(options(frames, slots), streams);
        for step in &steps {
            model.step(step);
        }
        model.drain();
    }
}
