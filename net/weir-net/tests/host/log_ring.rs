//! The ring of a log against a list that keeps everything: sizes, laps and reads at random.

use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_net::log::{Direction, Dump, EventBody, EventReason, FailureEvent, Kinds, Log, LogReader};

/// A step of a run.
#[derive(Clone, Debug)]
enum Act {
    /// This many events of one unit.
    Small(usize),
    /// A dump of this many bytes.
    Dump(usize),
    /// Reads at most this many events.
    Read(usize),
    /// A new reader, from the oldest on.
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (1_usize..4).prop_map(Act::Small),
        1 => (1_usize..700).prop_map(Act::Small),
        4 => (0_usize..800).prop_map(Act::Dump),
        2 => (1_usize..40).prop_map(Act::Read),
        1 => Just(Act::Read(usize::MAX)),
        1 => Just(Act::Reopen),
    ]
}

/// Everything that was ever written, with its place, and where the reader is.
#[derive(Default)]
struct Naive {
    units: u64,
    written: Vec<(u64, u64, EventBody)>,
    head: u64,
    position: u64,
    /// What the reader has in its own memory.
    private: u64,
    overwritten: u64,
    /// Up to here lies the rest of a record that was overwritten before the reader was opened.
    rest_until: u64,
}

impl Naive {
    fn write(&mut self, what: EventBody) {
        let units = match &what {
            EventBody::Dump(dump) => 1 + dump.bytes.len().saturating_sub(8).div_ceil(24) as u64,
            _ => 1,
        };
        self.written.push((self.head, units, what));
        self.head += units;
        // A list of all events would do, but it is searched at each read.
        let gone = self.position.min(self.head.saturating_sub(self.units));
        if self.written.len() > 1500 {
            self.written.retain(|(at, ..)| *at >= gone);
        }
    }

    fn reopen(&mut self) {
        self.position = self.head.saturating_sub(self.units);
        (self.private, self.overwritten) = (0, 0);
        // The rest of a record that began earlier does not count as lost by this reader.
        let whole = self.written.iter().map(|(at, ..)| *at).find(|at| *at >= self.position);
        self.rest_until = whole.unwrap_or(self.head);
    }

    /// The next event.
    fn read(&mut self) -> Option<EventBody> {
        let record = |from: u64, until: u64| {
            move |(at, units, _): &&(u64, u64, EventBody)| *at >= from && *at + *units <= until
        };
        if self.written.iter().find(record(self.position, self.private)).is_none() {
            let oldest = self.head.saturating_sub(self.units);
            if oldest > self.position {
                self.overwritten += oldest - self.position;
                self.position = oldest;
                self.rest_until = 0;
            }
            self.private = self.head;
        }
        let found = self.written.iter().find(record(self.position, self.private));
        let Some((at, units, what)) = found else {
            // The rest of a record whose beginning is gone.
            self.step_over(self.head);
            return None;
        };
        let (at, units, what) = (*at, *units, what.clone());
        self.step_over(at);
        self.position = at + units;
        Some(what)
    }

    fn step_over(&mut self, to: u64) {
        let from = self.position.max(self.rest_until.min(to));
        self.overwritten += to - from;
        self.position = to;
    }
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(
        acts in prop::collection::vec(act(), 1..100), ring in 0_u32..3,
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let log = Log::create(&path, 4096 << ring).expect("made");
        log.set_mask(Kinds::ALL);
        let mut reader = LogReader::open(&path).expect("opened");
        let mut naive = Naive { units: 128 << ring, ..Naive::default() };
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Small(count) => {
                    for at in 0..count {
                        let (source, target) = (Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
                        let value = (number << 16 | at) as u32;
                        let reason = EventReason::CHECKSUM;
                        let failure = FailureEvent { reason, protocol: 3, source, target, value };
                        log.error(&failure);
                        naive.write(EventBody::Failure(failure));
                    }
                }
                Act::Dump(length) => {
                    let bytes: Vec<u8> = (number..number + length).map(|at| at as u8).collect();
                    log.dump_out(&bytes);
                    // A dump takes a quarter of the ring at most.
                    let most = 8 + 24 * ((32 << ring) - 1);
                    let kept = bytes[..length.min(most)].to_vec();
                    let (direction, length_bytes) = (Direction::Out, length as u32);
                    naive.write(EventBody::Dump(Dump { direction, length_bytes, bytes: kept }));
                }
                Act::Read(most) => {
                    for _ in 0..most {
                        let got = reader.next().expect("read").map(|event| event.what);
                        let expected = naive.read();
                        prop_assert_eq!(&got, &expected);
                        if got.is_none() {
                            prop_assert!(reader.is_at_end());
                            break;
                        }
                    }
                }
                Act::Reopen => {
                    reader = LogReader::open(&path).expect("opened");
                    naive.reopen();
                }
            }
            let counts = reader.counts().expect("counts");
            prop_assert_eq!(counts.unfinished, 0);
            prop_assert_eq!(counts.overwritten_units, naive.overwritten);
        }
    }
}
