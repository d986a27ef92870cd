//! Writers that write valid records of a port without the library. The order is the writer's choice.
//! No call of the reader takes longer than was promised, honest writers are served meanwhile, and
//! records that make a message come as one (docs/contracts/port.md, 12, 19).

use crate::common;
use crate::common::patterned;
use crate::words;
use crate::words::{FIRST, INLINE_BYTES, LAST, Words};
use proptest::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir::{
    Ending, ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions, Received, Timeout,
    Wait,
};

/// The longest time of a call of 50 ms: many times what is promised, for busy machines.
const BOUND: Duration = Duration::from_secs(3);
/// The most CPU time of one call, without its waiting.
const WORK: Duration = Duration::from_millis(100);
const TIME: Duration = Duration::from_millis(50);

/// A call of the reader, and a look at what it receives.
type Call = fn(&mut Port, &mut [u8], &mut dyn FnMut(Received)) -> weir::Result<usize>;

const CALLS: [(&str, Call); 8] = [
    ("receive_timeout", |port, buffer, see| {
        port.receive_timeout(buffer, TIME).map(|got| one(see, got))
    }),
    ("receive now", |port, buffer, see| {
        port.receive_timeout(buffer, Timeout::Now).map(|got| one(see, got))
    }),
    ("receive_each_timeout", |port, buffer, see| {
        port.receive_each_timeout(buffer, TIME, |received, _| see(received))
    }),
    ("receive each now", |port, buffer, see| {
        port.receive_each_timeout(buffer, Timeout::Now, |received, _| see(received))
    }),
    ("lend_each_timeout", |port, buffer, see| {
        port.lend_each_timeout(buffer, TIME, |received, _| see(received))
    }),
    ("is_ready", |port, buffer, see| match port.is_ready()? {
        true => port.lend_each_timeout(buffer, Timeout::Now, |got, _| see(got)),
        false => Ok(0),
    }),
    ("wait_timeout", |port, buffer, see| {
        let _ = port.wait_timeout(TIME);
        port.receive_each_timeout(buffer, Timeout::Now, |received, _| see(received))
    }),
    ("Wait", |port, buffer, see| {
        let mut wait = Wait::new();
        let _ = wait
            .add_borrowed((), &mut *port)
            .and_then(|_| wait.wait_timeout(&mut Vec::new(), TIME));
        drop(wait);
        port.receive_each_timeout(buffer, Timeout::Now, |received, _| see(received))
    }),
];

fn one(see: &mut dyn FnMut(Received), received: Received) -> usize {
    see(received);
    1
}

/// The records of a hostile writer: those at first, and those it repeats as fast as it can.
type Flood = (&'static str, fn(&mut Words), fn(&mut Words));

const FLOODS: [Flood; 5] = [
    ("pieces of no bytes", begin, |words| _ = words.flood(0, u64::MAX)),
    ("messages that begin and do not end", |_| {}, |words| _ = words.flood(FIRST, u64::MAX)),
    (
        "a message of a byte and no bytes",
        |_| {},
        |words| {
            words.put(FIRST, b"x");
            words.flood(0, 2000);
            words.put(LAST, b"");
        },
    ),
    ("pieces of a byte, and then again", begin, |words| {
        (0..200).for_each(|_| _ = words.put(0, b"y"));
        words.put(FIRST, b"x");
    }),
    ("messages of no bytes", |_| {}, |words| _ = words.flood(FIRST | LAST, u64::MAX)),
];

fn begin(words: &mut Words) {
    assert!(words.put(FIRST, b"x"));
}

fn is_nothing(error: &weir::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// An honest message comes, and each call until then returns in time.
fn honest_comes(name: &str, call: Call, port: &mut Port, honest: &mut PortWriter, text: &[u8]) {
    let mut buffer = vec![0; 1 << 16];
    honest.send(text).expect("sent");
    let (begun, mut came) = (Instant::now(), false);
    let sender = port.writers().expect("mine")[0].id;
    while !came {
        assert!(begun.elapsed() < 3 * BOUND, "{name}: an honest message is held up");
        let (call_begun, had) = (Instant::now(), common::cpu_time());
        let mut see = |received: Received| came |= received.writer == sender;
        match call(port, &mut buffer, &mut see) {
            Ok(_) => {}
            Err(error) => assert!(is_nothing(&error), "{name}: {error}"),
        }
        let (took, worked) = (call_begun.elapsed(), common::cpu_time() - had);
        assert!(took < BOUND, "{name}: one call took {took:?}");
        assert!(worked < TIME + WORK, "{name}: one call used {worked:?} of a CPU");
    }
}

#[test]
fn floods_of_sound_records_hold_up_no_call_and_no_honest_writer() {
    for (what, begin, flood) in FLOODS {
        for (name, call) in CALLS {
            let (_directory, path) = common::place();
            let mut port = Port::create(&path, &PortOptions::new()).expect("a port");
            let mut honest =
                PortWriter::connect(&path, &PortWriterOptions::new()).expect("a writer");
            let mut hostile = Words::enter(&path, &mut port, 4 << 20);
            let (is_on, stop) = (AtomicBool::new(false), AtomicBool::new(false));
            let begun = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    begin(&mut hostile);
                    // It ends by itself if a call never returns.
                    while !stop.load(Ordering::Relaxed) && begun.elapsed() < 2 * BOUND {
                        flood(&mut hostile);
                        is_on.store(true, Ordering::Relaxed);
                    }
                });
                common::until("it has begun", || is_on.load(Ordering::Relaxed));
                while begun.elapsed() < 4 * TIME {
                    let name = format!("{what}, {name}");
                    honest_comes(&name, call, &mut port, &mut honest, b"honest");
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
    }
}

/// One action of a test.
#[derive(Clone, Debug)]
enum Word {
    /// A record of this many bytes with these flags.
    Put(u32, usize),
    /// This many empty records.
    Flood(u32, u64),
    /// A record that is never committed; nothing comes after it.
    Half(u32, usize),
    /// A message on the socket.
    Say(&'static [u8]),
    /// The reader receives.
    Receive,
}

fn sequences() -> impl Strategy<Value = Vec<Word>> {
    let flags = prop_oneof![Just(0), Just(FIRST), Just(LAST), Just(FIRST | LAST)];
    let bytes = prop_oneof![Just(0), 0..80_usize, 0..=INLINE_BYTES];
    let said: [&[u8]; 4] = [b"b", b"m", b"weir-in 1 2 3", b"weir-no x"];
    let said = prop::sample::select(said.to_vec());
    let word = prop_oneof![
        12 => (flags.clone(), bytes.clone()).prop_map(|(flags, bytes)| Word::Put(flags, bytes)),
        // A valid message, so that not every sequence soon becomes invalid.
        6 => bytes.clone().prop_map(|bytes| Word::Put(FIRST, bytes)),
        6 => bytes.clone().prop_map(|bytes| Word::Put(LAST, bytes)),
        3 => (flags.clone(), 1..3000_u64).prop_map(|(flags, count)| Word::Flood(flags, count)),
        1 => (flags, bytes).prop_map(|(flags, bytes)| Word::Half(flags, bytes)),
        1 => said.prop_map(Word::Say),
        4 => Just(Word::Receive),
    ];
    prop::collection::vec(word, 1..60)
}

/// What the actions must give, by the contract and not by the code.
#[derive(Default)]
struct Model {
    unfinished: Option<Vec<u8>>,
    messages: Vec<Vec<u8>>,
    is_shut_out: bool,
}

const MOST_MESSAGE: usize = 5000;

impl Model {
    fn record(&mut self, flags: u32, bytes: &[u8]) {
        if self.is_shut_out {
            return;
        }
        let before = self.unfinished.take();
        let begun = if flags & FIRST != 0 { Some(Vec::new()) } else { before };
        let Some(mut message) = begun else { return self.is_shut_out = true };
        message.extend_from_slice(bytes);
        if message.len() > MOST_MESSAGE {
            self.is_shut_out = true;
        } else if flags & LAST != 0 {
            self.messages.push(message);
        } else {
            self.unfinished = Some(message);
        }
    }
}

/// What the reader has received from the hostile writer and from the honest one.
#[derive(Default)]
struct Seen {
    messages: Vec<Vec<u8>>,
    ended: Option<Ending>,
    honest: Vec<Vec<u8>>,
}

fn receive_all(port: &mut Port, buffer_bytes: usize, seen: &mut Seen) {
    let mut buffer = vec![0; buffer_bytes];
    loop {
        let begun = Instant::now();
        let got = port.receive_timeout(&mut buffer, Timeout::Now);
        assert!(begun.elapsed() < BOUND, "one call took {:?}", begun.elapsed());
        let received = match got {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::TooSmall => {
                buffer.resize(error.needed_bytes().unwrap_or_default(), 0);
                continue;
            }
            Err(error) => {
                assert!(is_nothing(&error), "{error}");
                return;
            }
        };
        match (received.writer.number(), received.event) {
            (1, Event::Message { bytes }) => seen.honest.push(buffer[..bytes].to_vec()),
            (2, Event::Message { bytes }) => {
                assert_eq!(seen.ended, None, "a message after the end");
                seen.messages.push(buffer[..bytes].to_vec());
            }
            (2, Event::Closed(ending)) => assert_eq!(seen.ended.replace(ending), None, "one end"),
            other => panic!("{other:?}"),
        }
    }
}

fn play(path: &Path, words: Vec<Word>, buffer_bytes: usize, closes: bool) {
    let options = PortOptions::new().most_message_bytes(MOST_MESSAGE as u64);
    let mut port = Port::create(path, &options).expect("a port");
    let mut honest = PortWriter::connect(path, &PortWriterOptions::new()).expect("a writer");
    common::until("it is let in", || port.writers().expect("mine").len() == 1);
    let mut hostile = Words::enter(path, &mut port, 8192);
    let (mut model, mut seen) = (Model::default(), Seen::default());
    let mut is_half = false;
    for (number, word) in words.into_iter().enumerate() {
        honest.send(&number.to_le_bytes()).expect("sent");
        match word {
            Word::Put(flags, count) if !is_half => {
                let bytes = patterned(count, number);
                if hostile.put(flags, &bytes) {
                    model.record(flags, &bytes);
                }
            }
            Word::Flood(flags, count) if !is_half => {
                (0..hostile.flood(flags, count)).for_each(|_| model.record(flags, &[]));
            }
            Word::Half(flags, count) if hostile.room() >= words::footprint(count) => {
                hostile.half(flags, &patterned(count, number));
                is_half = true;
            }
            Word::Say(text) => drop(common::say(&hostile.socket, text)),
            Word::Receive => receive_all(&mut port, buffer_bytes, &mut seen),
            Word::Put(..) | Word::Flood(..) | Word::Half(..) => {}
        }
        if number % 8 == 7 {
            receive_all(&mut port, buffer_bytes, &mut seen);
        }
    }
    if closes {
        hostile.say_closed();
    }
    drop(hostile);
    common::until("it has ended", || {
        receive_all(&mut port, buffer_bytes, &mut seen);
        seen.ended.is_some()
    });
    let numbers: Vec<_> =
        (0..seen.honest.len()).map(|number| number.to_le_bytes().to_vec()).collect();
    assert_eq!(seen.honest, numbers, "each honest message, in order");
    assert_eq!(seen.messages, model.messages, "what makes a message comes, and nothing else");
    let ending = if closes { Ending::Closed } else { Ending::Died };
    assert_eq!(seen.ended, Some(if model.is_shut_out { Ending::ShutOut } else { ending }));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_a_writer_says_comes_as_what_it_is(
        words in sequences(),
        buffer in prop_oneof![Just(64_usize), Just(8192)],
        closes in any::<bool>(),
    ) {
        let (_directory, path) = common::place();
        play(&path, words, buffer, closes);
    }
}
