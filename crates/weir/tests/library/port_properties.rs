//! A port beside a simple model, with one queue for each writer, under random calls.

use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use weir::{Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Timeout};

/// The most writers.
const WRITERS: usize = 4;
/// The longest message the port takes.
const MOST: usize = 12_000;

#[derive(Clone, Debug)]
enum Call {
    Open(usize),
    Close(usize),
    Send(usize, usize),
    Receive,
    Suspend(usize),
    Resume(usize),
    Share(usize, u32),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let writer = || 0..WRITERS;
    let bytes = prop_oneof![4 => 0..70_usize, 2 => 900..1100_usize, 1 => 0..MOST];
    let call = prop_oneof![
        3 => writer().prop_map(Call::Open),
        1 => writer().prop_map(Call::Close),
        20 => (writer(), bytes).prop_map(|(writer, bytes)| Call::Send(writer, bytes)),
        20 => Just(Call::Receive),
        1 => writer().prop_map(Call::Suspend),
        2 => writer().prop_map(Call::Resume),
        1 => (writer(), 1..5_u32).prop_map(|(writer, share)| Call::Share(writer, share)),
    ];
    prop::collection::vec(call, 0..150)
}

/// The model of one writer.
#[derive(Default)]
struct Naive {
    queue: VecDeque<Vec<u8>>,
    closed: bool,
    suspended: bool,
}

struct Both {
    port: Port,
    writers: HashMap<usize, (PortWriter, weir::WriterId)>,
    naive: HashMap<weir::WriterId, Naive>,
    sent: u8,
}

impl Both {
    fn on(&mut self, call: &Call, name: &std::path::Path) {
        match *call {
            Call::Open(writer) if !self.writers.contains_key(&writer) => {
                let options = PortWriterOptions::new().capacity_bytes(16 << 10);
                let opened = PortWriter::connect(name, &options).expect("a writer");
                let stats = self.port.writers().expect("mine");
                let id = stats.iter().map(|stat| stat.id).max_by_key(|id| id.number());
                let id = id.expect("it is let in");
                self.naive.insert(id, Naive::default());
                self.writers.insert(writer, (opened, id));
            }
            Call::Close(writer) => {
                if let Some((_, id)) = self.writers.remove(&writer) {
                    self.naive.get_mut(&id).expect("open").closed = true;
                }
            }
            Call::Send(writer, bytes) => self.send(writer, bytes),
            Call::Receive => {
                self.receive();
            }
            Call::Suspend(writer) => {
                if let Some((_, id)) = self.writers.get(&writer) {
                    self.port.suspend(*id).expect("open");
                    self.naive.get_mut(id).expect("open").suspended = true;
                }
            }
            Call::Resume(writer) => {
                if let Some((_, id)) = self.writers.get(&writer) {
                    self.port.resume(*id).expect("open");
                    self.naive.get_mut(id).expect("open").suspended = false;
                }
            }
            Call::Share(writer, share) => {
                if let Some((_, id)) = self.writers.get(&writer) {
                    self.port.set_share(*id, share).expect("open");
                }
            }
            Call::Open(_) => {}
        }
    }

    fn send(&mut self, writer: usize, bytes: usize) {
        let Some((writer, id)) = self.writers.get_mut(&writer) else { return };
        self.sent = self.sent.wrapping_add(1);
        let message = vec![self.sent; bytes];
        match writer.try_send(&message) {
            Ok(()) => self.naive.get_mut(id).expect("open").queue.push_back(message),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }

    /// Receives once: whether something came. It must be the next item of one of the queues.
    fn receive(&mut self) -> bool {
        let mut buffer = vec![0; MOST];
        let has = |naive: &Naive| !naive.suspended && (!naive.queue.is_empty() || naive.closed);
        match self.port.receive_timeout(&mut buffer, Timeout::Now) {
            Ok(received) => {
                let naive = self.naive.get_mut(&received.writer).expect("known");
                assert!(!naive.suspended, "it was suspended");
                match received.event {
                    Event::Message { bytes } => {
                        assert_eq!(naive.queue.pop_front().as_deref(), Some(&buffer[..bytes]));
                    }
                    Event::Closed(ending) => {
                        assert!(naive.closed && naive.queue.is_empty(), "too early");
                        assert_eq!(ending, Ending::Closed);
                        self.naive.remove(&received.writer);
                    }
                    other => panic!("no pieces were asked for: {other:?}"),
                }
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                assert!(!self.naive.values().any(has), "there is something");
                false
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_port_is_a_queue_a_writer(calls in calls()) {
        let directory = tempfile::tempdir().expect("a directory");
        let name = directory.path().join("port");
        let options = PortOptions::new().most_message_bytes(MOST as u64);
        let port = Port::create(&name, &options).expect("a port");
        let mut both =
            Both { port, writers: HashMap::new(), naive: HashMap::new(), sent: 0 };
        for call in &calls {
            both.on(call, &name);
        }
        for writer in 0..WRITERS {
            both.on(&Call::Resume(writer), &name);
            both.on(&Call::Close(writer), &name);
        }
        // A writer that was closed while it was suspended stays so.
        let suspended: Vec<_> = both.naive.keys().copied().collect();
        for id in suspended {
            both.port.resume(id).expect("there");
            both.naive.get_mut(&id).expect("there").suspended = false;
        }
        while both.receive() {}
        prop_assert!(both.naive.is_empty(), "nothing is kept back");
    }
}
