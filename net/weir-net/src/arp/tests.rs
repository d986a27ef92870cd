//! The table of neighbours against honest and hostile wires.

use super::*;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OWN_AT: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const OTHER_AT: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const EVIL_AT: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x66]);

fn table() -> ArpTable {
    ArpTable::new(Net::new(OWN, 24), OWN_AT)
}

fn message(operation: Operation, sender: Ipv4Addr, sender_at: MacAddress) -> [u8; 28] {
    let (target_at, target) = (OWN_AT, OWN);
    ArpMessage { operation, sender_at, sender, target_at, target }.emit()
}

/// Routes a packet of this many bytes; returns what became of it and the questions.
fn route(table: &mut ArpTable, to: Ipv4Addr, bytes: usize, now_ns: u64) -> (Route, Vec<ArpSent>) {
    let mut sent = Vec::new();
    let route = table.route(to, now_ns, || vec![7; bytes], &mut |it| sent.push(it));
    (route, sent)
}

fn learn(table: &mut ArpTable, now_ns: u64) -> ArpOutcome {
    table.take(&message(Operation::Reply, OTHER, OTHER_AT), now_ns)
}

#[test]
fn a_packet_waits_for_the_answer_and_the_next_does_not() {
    let mut table = table();
    let (first, asked) = route(&mut table, OTHER, 40, 5);
    assert_eq!(first, Route::Waits { dropped: 0 });
    assert_eq!((asked.len(), asked[0].to), (1, MacAddress::BROADCAST));
    let question = asked[0].message;
    assert_eq!((question.sender, question.target), (OWN, OTHER));
    // One question a second, however many packets there are.
    assert_eq!(route(&mut table, OTHER, 41, 6), (first, Vec::new()));
    let outcome = learn(&mut table, 7);
    assert_eq!(outcome.packets, [vec![7; 40], vec![7; 41]]);
    assert_eq!(outcome.answer, None, "it told, and did not ask");
    assert_eq!(route(&mut table, OTHER, 9, 8), (Route::At(OTHER_AT), Vec::new()));
    assert_eq!(learn(&mut table, 9).packets, Vec::<Vec<u8>>::new());
}

#[test]
fn only_our_address_is_told_and_who_asks_is_known() {
    let mut table = table();
    let asked = table.take(&message(Operation::Request, OTHER, OTHER_AT), 1);
    let answer = asked.answer.expect("ours");
    assert_eq!(
        (answer.to, answer.message.sender_at, answer.message.sender),
        (OTHER_AT, OWN_AT, OWN)
    );
    assert_eq!(answer.message.operation, Operation::Reply);
    assert_eq!(route(&mut table, OTHER, 9, 2).0, Route::At(OTHER_AT), "without a question");
    let about = |sender, target| ArpMessage {
        operation: Operation::Request,
        sender_at: EVIL_AT,
        sender,
        target_at: MacAddress::NONE,
        target,
    };
    let somebody = Ipv4Addr::new(10, 9, 0, 77);
    assert_eq!(table.take(&about(somebody, OTHER).emit(), 3), ArpOutcome::default());
    // Another net's host, a broadcast address, and ourselves ask in vain; a probe does not.
    for sender in [[192, 0, 2, 1].into(), [10, 9, 0, 255].into(), OWN] {
        assert_eq!(table.take(&about(sender, OWN).emit(), 3), ArpOutcome::default(), "{sender}");
    }
    assert!(table.take(&about(Ipv4Addr::UNSPECIFIED, OWN).emit(), 3).answer.is_some());
    let counts = table.counts();
    assert_eq!((counts.answered, counts.conflicts, counts.disbelieved), (2, 1, 2));
    assert_eq!(table.known(3).len(), 1, "nobody else was learnt");
}

#[test]
fn what_nobody_asked_for_changes_nothing() {
    let mut table = table();
    route(&mut table, OTHER, 9, 0);
    learn(&mut table, 0);
    for operation in [Operation::Reply, Operation::Request] {
        table.take(&message(operation, OTHER, EVIL_AT), 1);
        assert_eq!(route(&mut table, OTHER, 9, 2).0, Route::At(OTHER_AT), "{operation:?}");
    }
    let stranger = Ipv4Addr::new(10, 9, 0, 9);
    table.take(&message(Operation::Reply, stranger, EVIL_AT), 3);
    assert!(matches!(route(&mut table, stranger, 9, 4).0, Route::Waits { .. }));
    assert_eq!(table.counts().disbelieved, 2, "both replies");
}

#[test]
fn what_is_known_is_asked_for_again_and_forgotten_without_an_answer() {
    let mut table = table();
    route(&mut table, OTHER, 9, 0);
    learn(&mut table, 0);
    let (to, asked) = route(&mut table, OTHER, 9, FRESH_NS);
    assert_eq!((to, asked.len()), (Route::At(OTHER_AT), 1), "used meanwhile");
    assert_eq!(asked[0].to, OTHER_AT, "nobody else is disturbed");
    assert_eq!(route(&mut table, OTHER, 9, FRESH_NS + 1).1, []);
    learn(&mut table, FRESH_NS + 2);
    assert_eq!(route(&mut table, OTHER, 9, KNOWN_NS + 1), (Route::At(OTHER_AT), Vec::new()));
    // It has moved: the old place does not answer, and all are asked.
    let late = FRESH_NS + 2 + KNOWN_NS;
    let (route, asked) = route(&mut table, OTHER, 9, late);
    assert_eq!((route, asked.len()), (Route::Waits { dropped: 0 }, 1));
    table.take(&message(Operation::Reply, OTHER, EVIL_AT), late + 1);
    assert_eq!(table.known(late + 1)[0].at, Some(EVIL_AT));
    assert_eq!(table.tick(late + 1 + KNOWN_NS, &mut |_| panic!("nobody waits")), 0);
    assert_eq!(table.known(0), []);
}

#[test]
fn who_does_not_answer_is_asked_three_times_and_its_packets_are_dropped() {
    let mut table = table();
    route(&mut table, OTHER, 9, 0);
    route(&mut table, OTHER, 9, 1);
    let (mut asked, mut dropped) = (1, 0);
    for second in 0..10 {
        dropped += table.tick(second * QUESTION_NS, &mut |_| asked += 1);
    }
    assert_eq!((asked, dropped, table.waiting_bytes), (MOST_QUESTIONS, 2, 0));
    assert_eq!(table.known(0), []);
}

#[test]
fn what_waits_is_bounded_in_packets_and_bytes() {
    let mut table = table();
    let mut dropped = 0;
    let mut held = |table: &mut ArpTable, to, bytes| match route(table, to, bytes, 1).0 {
        Route::Waits { dropped: here } => dropped += here,
        Route::At(_) => panic!("nobody has answered"),
    };
    for _ in 0..MOST_WAITING + 3 {
        held(&mut table, OTHER, 100);
    }
    assert_eq!(table.waiting_bytes, MOST_WAITING * 100);
    for host in 3..20 {
        for _ in 0..MOST_WAITING {
            held(&mut table, Ipv4Addr::new(10, 9, 0, host), 65_000);
        }
    }
    assert!(table.waiting_bytes <= MOST_WAITING_BYTES);
    let known = table.known(1);
    let waiting: usize = known.iter().map(|it| it.waiting).sum();
    assert_eq!(waiting + dropped, MOST_WAITING + 3 + 17 * MOST_WAITING, "each is one or the other");
    let mut rest = table.tick(QUESTION_NS + 1, &mut |_| {});
    for second in 2..5 {
        rest += table.tick(second * QUESTION_NS + 1, &mut |_| {});
    }
    assert_eq!((rest, table.waiting_bytes), (waiting, 0));
}

#[test]
fn a_crowd_that_asks_takes_no_place_of_those_in_use() {
    let mut table = ArpTable::new(Net::new(OWN, 8), OWN_AT);
    route(&mut table, OTHER, 9, 1);
    learn(&mut table, 1);
    for host in 0..10_000_u32 {
        let sender = Ipv4Addr::from(u32::from(OWN) + 256 + host);
        table.take(&message(Operation::Request, sender, EVIL_AT), 2);
    }
    assert_eq!(table.known(2).len(), MOST_NEIGHBOURS);
    assert_eq!(route(&mut table, OTHER, 9, 3).0, Route::At(OTHER_AT));
    // Where all places are in use, the one not used for longest gives way to a packet.
    for host in 0..MOST_NEIGHBOURS as u32 {
        route(&mut table, Ipv4Addr::from(u32::from(OWN) + 1_000_000 + host), 9, 4);
    }
    assert_eq!(table.known(4).len(), MOST_NEIGHBOURS);
    assert!(table.known(4).iter().all(|it| it.address != OTHER));
}

proptest::proptest! {
    /// Any bytes, before and after a question: nothing panics, and at most one answer comes.
    #[test]
    fn any_bytes_are_taken(
        messages in proptest::collection::vec(
            proptest::collection::vec(proptest::num::u8::ANY, 0..64), 0..40),
        sound in proptest::collection::vec((0_u8..3, 0_u8..4, 0_u8..4), 0..40),
    ) {
        let mut table = table();
        let mut waiting = 0;
        let sound = sound.into_iter().map(|(operation, host, mac)| {
            let mut bytes = message(Operation::Request, [10, 9, 0, host].into(), OTHER_AT);
            (bytes[7], bytes[13]) = (operation, mac);
            bytes.to_vec()
        });
        for (now_ns, bytes) in messages.into_iter().chain(sound).enumerate() {
            if let Route::Waits { dropped } = route(&mut table, OTHER, 8, now_ns as u64).0 {
                waiting += 1 - dropped;
            }
            let outcome = table.take(&bytes, now_ns as u64);
            waiting -= outcome.packets.len();
            proptest::prop_assert!(outcome.answer.is_none_or(|it| it.message.sender == OWN));
            let known: usize = table.known(0).iter().map(|it| it.waiting).sum();
            proptest::prop_assert_eq!(known, waiting);
        }
    }
}
