//! More subroutines and threads than there is room for. One test, because it uses up all room of its
//! process.

use std::sync::Barrier;
use weir_profile::Subroutine;

/// The number of subroutines that are counted.
const SUBROUTINES: usize = 125;
const THREADS: usize = 32;

#[test]
fn what_there_is_no_room_for_is_not_counted_and_is_reported() {
    let names: Vec<&str> =
        (0..SUBROUTINES + 4).map(|n| format!("sub {n:3}").leak() as &str).collect();
    let all: Vec<&'static Subroutine> =
        names.iter().map(|name| &*Box::leak(Box::new(Subroutine::new(name)))).collect();
    weir_profile::switch(true).expect("on");
    for _ in 0..2 {
        all.iter().for_each(|subroutine| subroutine.run(|| ()));
    }
    let report = weir_profile::report().expect("on");
    let counted: Vec<_> =
        report.subroutines.iter().filter(|row| row.name.starts_with("sub ")).collect();
    assert_eq!(counted.len(), SUBROUTINES);
    assert!(counted.iter().all(|row| row.calls == 2), "{report}");
    assert_eq!(report.notes, ["subroutines not counted: 4, there were more than 125"]);
    // This thread has a table, and so have 31 of these while all of them live.
    let (more, barrier) = (3, Barrier::new(THREADS - 1 + 3));
    std::thread::scope(|scope| {
        for _ in 0..THREADS - 1 + more {
            scope.spawn(|| {
                all[0].run(|| ());
                barrier.wait();
            });
        }
    });
    let report = weir_profile::report().expect("on");
    let calls = report.subroutine(names[0]).expect("called").calls;
    assert_eq!((calls, report.threads), (2 + THREADS as u64 - 1, THREADS));
    let of_threads = "threads not counted: 3, there were more than 32 at once";
    assert_eq!(report.notes.first().map(String::as_str), Some(of_threads));
    // They have ended: others can take their tables, and their counts stay.
    for turn in 0..100_u64 {
        let first = all[0];
        std::thread::spawn(|| first.run(|| ())).join().expect("it ends");
        let report = weir_profile::report().expect("on");
        assert_eq!(report.subroutine(names[0]).expect("called").calls, calls + turn + 1);
    }
    assert_eq!(
        weir_profile::report().expect("on").notes.first().map(String::as_str),
        Some(of_threads)
    );
    assert!(report.to_string().contains(of_threads));
}
