//! Tables as a hostile process may write them, and the results of two snapshots.

use super::layout::{
    CALLS, CLOCK_AT, CLOCK_COUNTER, GAP_CPU_NS, GAP_MOST_NS, HZ_AT, KIND_CALL, KIND_SPAN, KINDS_AT,
    MAGIC, MAGIC_AT, NAME_WORDS, NAMES_AT, OUTSIDE, OWNERS_AT, PID_AT, PROCESS_AT, ROWS,
    STARTED_AT, SYSTEM, TABLE_WORDS, TABLES_AT, UNTIMED, USER, VERSION, VERSION_AT, WAIT, WORDS,
};
use super::report::ProfileReport;
use super::share::share;
use super::snapshot::{TableSnapshot, middle};
use proptest::prelude::*;

/// A sound table of a process with nothing in it, at a gigahertz.
fn empty() -> Vec<u64> {
    let mut words = vec![0; WORDS];
    words[MAGIC_AT] = MAGIC;
    words[VERSION_AT] = VERSION;
    words[PID_AT] = 4711;
    words[STARTED_AT] = 12;
    words[HZ_AT] = 1_000_000_000;
    words[CLOCK_AT] = CLOCK_COUNTER;
    name(&mut words, PROCESS_AT, b"switch");
    words
}

fn name(words: &mut [u64], at: usize, text: &[u8]) {
    let mut bytes = [0; 8 * NAME_WORDS];
    bytes[..text.len()].copy_from_slice(text);
    for (word, eight) in words[at..].iter_mut().zip(bytes.chunks(8)) {
        *word = u64::from_ne_bytes(eight.try_into().expect("eight"));
    }
}

fn row(words: &mut [u64], row: usize, kind: u64, text: &[u8]) {
    words[KINDS_AT + row] = kind;
    name(words, NAMES_AT + row * NAME_WORDS, text);
}

fn cell(words: &mut [u64], thread: usize, row: usize, column: usize) -> &mut u64 {
    &mut words[TABLES_AT + thread * TABLE_WORDS + column * ROWS + row]
}

/// Stores values in cells, each given by its thread, row and column.
fn store(words: &mut [u64], cells: &[(usize, usize, usize, u64)]) {
    for (thread, number, column, value) in cells {
        *cell(words, *thread, *number, *column) = *value;
    }
}

/// Returns the error for a table with this change.
fn refused(change: impl FnOnce(&mut Vec<u64>)) -> &'static str {
    let mut words = empty();
    change(&mut words);
    TableSnapshot::parse(&words).expect_err("refused")
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    assert!(TableSnapshot::parse(&empty()).is_ok());
    for (says, change) in [
        ("too short", (|words| words.truncate(WORDS - 1)) as fn(&mut Vec<u64>)),
        ("not a profile", |words| words[MAGIC_AT] = 0),
        ("another version", |words| words[VERSION_AT] = 2),
        ("process id", |words| words[PID_AT] = 0),
        ("process id", |words| words[PID_AT] = 1 << 31),
        ("possible rate", |words| words[HZ_AT] = 0),
        ("possible rate", |words| words[HZ_AT] = u64::MAX),
        ("known clock", |words| words[CLOCK_AT] = 3),
        ("no name", |words| words[PROCESS_AT] = 0),
        ("of no known kind", |words| words[KINDS_AT + 127] = 3),
        ("row has no name", |words| words[KINDS_AT + 5] = KIND_SPAN),
        ("not UTF-8", |words| row(words, 5, KIND_SPAN, b"\xff\xfe")),
        ("not printable", |words| row(words, 5, KIND_SPAN, b"\x1b[2J")),
        ("after its end", |words| row(words, 5, KIND_SPAN, b"a\0b")),
    ] {
        let said = refused(change);
        assert!(said.contains(says), "{said:?}, not {says:?}");
    }
}

#[test]
fn the_difference_of_two_looks_is_added_up_over_threads_and_names() {
    let mut words = empty();
    row(&mut words, 3, KIND_SPAN, b"verify");
    row(&mut words, 4, KIND_CALL, b"read");
    *cell(&mut words, 0, 3, CALLS) = 5;
    let before = TableSnapshot::parse(&words).expect("sound");
    // A new row with the name of another: two threads began to use it at once.
    row(&mut words, 5, KIND_SPAN, b"verify");
    row(&mut words, 6, KIND_SPAN, b"never called");
    let cells = [
        (0, 3, CALLS, 7),
        (1, 3, CALLS, u64::MAX),
        (31, 5, CALLS, 1),
        (0, 3, USER, 3000),
        (1, 5, USER, 500),
        (1, 3, SYSTEM, 70),
        (1, 4, WAIT, 9),
        (2, OUTSIDE, USER, 99),
    ];
    store(&mut words, &cells);
    let after = TableSnapshot::parse(&words).expect("sound");
    let found = after.since(&before).expect("in order");
    let [verify] = &found.subroutines[..] else { panic!("{found:?}") };
    assert_eq!((verify.name.as_str(), verify.calls), ("verify", u64::MAX), "as many as fit");
    assert_eq!((verify.user_ns, verify.system_ns, verify.wait_ns), (3500, 70, 0));
    assert_eq!((found.calls.len(), found.calls[0].wait_ns, found.threads), (1, 9, 4));
    assert_eq!(before.since(&after), Err("a count went backwards"));
    row(&mut words, 4, KIND_CALL, b"write");
    let renamed = TableSnapshot::parse(&words).expect("sound");
    assert_eq!(renamed.since(&after), Err("a row has changed its name"));
    assert_eq!(after.since(&after), Ok(super::row::RowDifference::default()));
}

#[test]
fn gaps_are_divided_as_the_times_of_their_thread_were() {
    let mut words = empty();
    row(&mut words, OUTSIDE, KIND_SPAN, b"(outside)");
    row(&mut words, UNTIMED, KIND_SPAN, b"(not timed)");
    row(&mut words, 3, KIND_SPAN, b"verify");
    row(&mut words, 4, KIND_CALL, b"read");
    let before = TableSnapshot::parse(&words).expect("sound");
    let cells = [
        (0, 3, CALLS, 11),
        (0, 3, USER, 200),
        (0, 3, SYSTEM, 100),
        (0, 3, WAIT, 40),
        (0, 4, SYSTEM, 100),
        (0, 4, WAIT, 40),
        (0, OUTSIDE, USER, 100),
        // Twice what was timed, and more waiting than twice what was timed.
        (0, UNTIMED, USER, 800),
        (0, UNTIMED, WAIT, 1000),
        // A thread without a gap.
        (1, 3, USER, 7),
    ];
    store(&mut words, &cells);
    let after = TableSnapshot::parse(&words).expect("sound");
    let found = after.since(&before).expect("in order");
    let [apart, verify] = &found.subroutines[..] else { panic!("{found:?}") };
    assert_eq!((verify.calls, verify.user_ns, verify.system_ns), (11, 607, 300));
    assert_eq!((verify.wait_ns, apart.wait_ns), (120, 920), "80 are like what was timed");
    assert_eq!((apart.name.as_str(), apart.calls, apart.cpu_ns()), ("(not timed)", 0, 0));
    assert_eq!((found.calls[0].system_ns, found.calls[0].wait_ns), (300, 120));
    assert_eq!((found.timed_ns, found.untimed_ns), (407, 800));
    // Where nothing was timed, nothing tells whose time it was.
    for number in [3, OUTSIDE] {
        store(&mut words, &[(0, number, USER, 0), (0, number, SYSTEM, 0)]);
    }
    let after = TableSnapshot::parse(&words).expect("sound");
    let found = after.since(&before).expect("in order");
    assert_eq!((found.timed_ns, found.untimed_ns), (7, 0), "nothing is divided");
    let report = ProfileReport::new("switch", 4711, found);
    assert_eq!(report.explained_ns(), 7, "{report}");
}

/// A thread counted much, fell asleep in a gap, and its calls were there without their time.
#[test]
fn a_gap_that_is_not_over_has_the_cpu_time_of_its_thread() {
    let mut words = empty();
    words[OWNERS_AT + 1] = 4712;
    row(&mut words, UNTIMED, KIND_SPAN, b"(not timed)");
    row(&mut words, 3, KIND_SPAN, b"verify");
    let before = TableSnapshot::parse(&words).expect("sound");
    let cells = [(1, 3, USER, 100), (1, UNTIMED, GAP_CPU_NS, 5000), (1, UNTIMED, GAP_MOST_NS, 400)];
    store(&mut words, &cells);
    let untimed_ns = |cpu_ns: Option<u64>| {
        let mut after = TableSnapshot::parse(&words).expect("sound");
        after.close_gaps(|owner| cpu_ns.filter(|_| owner == 4712));
        let found = after.since(&before).expect("in order");
        (found.untimed_ns, found.subroutines[0].user_ns, found.subroutines.len())
    };
    assert_eq!(untimed_ns(Some(5300)), (300, 400, 1));
    assert_eq!(untimed_ns(Some(9000)), (400, 500, 1), "what is beyond is something else");
    assert_eq!(untimed_ns(Some(4000)), (0, 100, 1), "the kernel's count may lag");
    assert_eq!(untimed_ns(None), (0, 100, 1), "the thread has just ended");
}

#[test]
fn a_word_that_was_half_stored_is_left_out() {
    let looks: [[u64; 6]; 3] = [[1, 255, 9, 0, 7, 7], [1, 511, 9, 5, 7, 8], [1, 256, 0, 5, 9, 9]];
    assert_eq!(middle([&looks[0], &looks[1], &looks[2]]), [1, 256, 9, 5, 7, 8]);
}

/// Which word is written, and with what: mostly words in use, and mostly plausible values.
fn patch() -> impl Strategy<Value = (usize, u64)> {
    let place = prop_oneof![0..32_usize, KINDS_AT..TABLES_AT, TABLES_AT..TABLES_AT + 64, 0..WORDS];
    let value = prop_oneof![0..4_u64, any::<u64>(), Just(u64::from_ne_bytes(*b"ip.check"))];
    (place, value)
}

#[test]
fn a_share_is_equal_and_no_more_than_each_has() {
    assert_eq!(share(&mut [], 5), u64::MAX);
    assert_eq!(share(&mut [30, 2, 10], 24), 12, "2, 10 and 12");
    assert_eq!(share(&mut [30, 2, 10], 0), 0);
    assert_eq!(share(&mut [30, 2, 10], 42), u64::MAX, "all of each");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a process writes, also between two looks: the result is an error, or a report that can
    /// be printed, divided and added up.
    #[test]
    fn any_words_are_a_report_or_an_error(
        first in proptest::collection::vec(patch(), 0..24),
        second in proptest::collection::vec(patch(), 0..24),
    ) {
        let mut words = empty();
        first.iter().for_each(|(at, value)| words[*at] = *value);
        let before = TableSnapshot::parse(&words);
        second.iter().for_each(|(at, value)| words[*at] = *value);
        let after = TableSnapshot::parse(&words);
        if let (Ok(before), Ok(after)) = (before, after) {
            let found = [after.since(&before), after.since(&after.nothing())];
            for found in found.into_iter().flatten() {
                let report = ProfileReport::new(&after.process, after.pid, found).per(3, "packet");
                let sum = ProfileReport::sum(&[report.clone(), report.clone()]);
                prop_assert!(sum.explained_ns() >= report.explained_ns());
                let escapes = format!("{report}{sum}").contains('\x1b');
                prop_assert!(!escapes);
            }
        }
    }

    #[test]
    fn any_bytes_are_refused(words in proptest::collection::vec(any::<u64>(), 0..64)) {
        let mut all = words.clone();
        prop_assert!(TableSnapshot::parse(&all).is_err());
        all.resize(WORDS, words.first().copied().unwrap_or(1));
        prop_assert!(TableSnapshot::parse(&all).is_err());
    }
}
