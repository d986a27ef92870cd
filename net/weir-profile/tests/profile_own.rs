//! A program that switches on and reports its own profile: how spans nest, end and unwind.

use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_profile::{ProfileReport, ProfileRow, Subroutine};

static OUTER: Subroutine = Subroutine::new("outer");
static INNER: Subroutine = Subroutine::new("inner");
static CALL: Subroutine = Subroutine::new("call");

/// Runs one test at a time: a process has one profile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn profiled(body: impl FnOnce()) -> ProfileReport {
    weir_profile::switch(true).expect("on");
    body();
    weir_profile::switch(false).expect("off");
    weir_profile::report().expect("it was on")
}

fn calls(report: &ProfileReport, name: &str) -> u64 {
    report.subroutine(name).map_or(0, |row| row.calls)
}

/// Returns the time on a CPU and off it.
fn elapsed_ns(row: &ProfileRow) -> u64 {
    row.cpu_ns() + row.wait_ns
}

/// Works for at least this time.
fn busy(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Long beside what a busy host takes away at a time.
const SHORT: Duration = Duration::from_millis(10);
const SHORT_NS: u64 = 10_000_000;
/// Two clocks may differ by this part of a time.
const SLACK_NS: u64 = SHORT_NS / 50;

#[test]
fn self_time_is_without_what_is_called() {
    let _alone = alone();
    let begun = Instant::now();
    let report = profiled(|| {
        OUTER.run(|| {
            busy(SHORT);
            INNER.run(|| busy(3 * SHORT));
            busy(SHORT);
        });
    });
    let all_ns = begun.elapsed().as_nanos() as u64;
    let rows = ["outer", "inner"].map(|name| report.subroutine(name).expect("called"));
    assert!(elapsed_ns(rows[0]) + SLACK_NS >= 2 * SHORT_NS, "{report}");
    assert!(elapsed_ns(rows[1]) + SLACK_NS >= 3 * SHORT_NS, "{report}");
    // Either would exceed this with the other's time.
    assert!(elapsed_ns(rows[0]) <= all_ns - 3 * SHORT_NS + SLACK_NS, "{report}");
    assert!(elapsed_ns(rows[1]) <= all_ns - 2 * SHORT_NS + SLACK_NS, "{report}");
    assert_eq!([rows[0].system_ns, rows[1].system_ns], [0, 0], "no system calls\n{report}");
}

#[test]
fn what_follows_directly_begins_where_the_last_one_ended() {
    let _alone = alone();
    static READ: Subroutine = Subroutine::new("read");
    let between = |looks: bool| {
        let report = profiled(|| {
            INNER.run(|| ());
            busy(SHORT);
            if looks {
                weir_profile::charge_now();
            }
            let _span = OUTER.enter_at_last();
            weir_profile::wait_at_last(&READ, || ());
        });
        let rows = ["inner", "outer"].map(|name| report.subroutine(name).expect("called"));
        assert_eq!(rows.map(|row| row.calls), [1, 1], "{report}");
        (elapsed_ns(rows[1]), rows[1].user_ns + rows[1].system_ns, report)
    };
    let (all_ns, _, report) = between(false);
    assert!(all_ns + SLACK_NS >= SHORT_NS, "what lay between is its own\n{report}");
    let (_, cpu_ns, report) = between(true);
    assert!(cpu_ns < SHORT_NS / 2, "what was looked at before is not\n{report}");
}

#[test]
fn a_span_may_end_where_the_last_one_within_it_ended() {
    let _alone = alone();
    let outer_ns = |within: bool| {
        let report = profiled(|| {
            INNER.run(|| ());
            let span = OUTER.enter();
            if within {
                INNER.run(|| ());
            }
            busy(SHORT);
            span.end_at_last();
        });
        let row = report.subroutine("outer").expect("called");
        assert_eq!((row.calls, calls(&report, "inner")), (1, 1 + u64::from(within)), "{report}");
        (elapsed_ns(row), report)
    };
    let (ns, report) = outer_ns(true);
    assert!(ns < SHORT_NS / 2, "the time since is not its own\n{report}");
    let (ns, report) = outer_ns(false);
    assert!(ns + SLACK_NS >= SHORT_NS, "nothing ended within it\n{report}");
}

#[test]
fn recursion_is_counted_and_its_time_once() {
    let _alone = alone();
    fn deeper(depth: u32) {
        let _span = OUTER.enter();
        if depth > 0 {
            deeper(depth - 1);
        }
    }
    let begun = Instant::now();
    let report = profiled(|| deeper(9));
    let all_ns = begun.elapsed().as_nanos() as u64;
    let row = report.subroutine("outer").expect("called");
    assert_eq!(row.calls, 10);
    assert!(row.user_ns <= all_ns, "{report}");
}

#[test]
fn a_span_that_runs_is_seen_meanwhile() {
    let _alone = alone();
    weir_profile::switch(true).expect("on");
    let outer = OUTER.enter();
    busy(SHORT);
    INNER.run(|| ());
    let report = weir_profile::report().expect("on");
    drop(outer);
    weir_profile::switch(false).expect("off");
    let row = report.subroutine("outer").expect("called");
    assert!(row.calls == 1 && elapsed_ns(row) + SLACK_NS >= SHORT_NS, "{report}");
}

#[test]
fn a_system_call_is_its_caller_s_and_has_a_row_of_its_own() {
    let _alone = alone();
    let report = profiled(|| {
        OUTER.run(|| weir_profile::system(&CALL, || busy(SHORT)));
        weir_profile::system(&CALL, || busy(SHORT));
    });
    let [outer, outside] = ["outer", "(outside)"].map(|name| report.subroutine(name));
    let (outer, outside) = (outer.expect("called"), outside.expect("called"));
    let call = report.call("call").expect("called");
    assert_eq!((call.calls, call.user_ns), (2, 0));
    assert!(outer.system_ns > 0 && elapsed_ns(outer) + SLACK_NS >= SHORT_NS, "{report}");
    assert!(call.system_ns.abs_diff(outer.system_ns + outside.system_ns) <= 2, "{report}");
    assert_eq!(outside.user_ns, 0, "what is outside of all spans is not explained");
    assert!(report.subroutine("call").is_none());
}

#[test]
fn waits_share_a_look_at_the_cpu_clock_and_their_sum_is_exact() {
    let _alone = alone();
    let (mut elapsed, mut used_ns) = (Duration::ZERO, 0);
    let report = profiled(|| {
        let before_ns = weir_sys::cpu::thread_ns();
        for _ in 0..40 {
            let begun = Instant::now();
            // sleep: a short wait, but a wait.
            weir_profile::wait(&CALL, || std::thread::sleep(Duration::from_nanos(1)));
            elapsed += begun.elapsed();
        }
        used_ns = weir_sys::cpu::thread_ns() - before_ns;
    });
    let (call, elapsed_all_ns) = (report.call("call").expect("called"), elapsed.as_nanos() as u64);
    assert_eq!(call.calls, 40);
    assert!(report.together > 0, "{report}");
    assert!(format!("{report}").contains("shared readings of the CPU clock"), "{report}");
    assert!(elapsed_ns(call) <= elapsed_all_ns, "{report}");
    assert!(call.wait_ns > 0 && call.system_ns <= used_ns + SLACK_NS, "of {used_ns} ns\n{report}");
}

/// Rounds in which a thread has many gaps.
const OFTEN: u64 = 50_000;

/// What takes some hundred nanoseconds.
fn a_little(round: u64) {
    let sum = (0..200).fold(round, |sum: u64, at| (sum ^ at).rotate_left(3));
    std::hint::black_box(sum);
}

#[test]
fn what_counts_often_is_timed_in_part_and_counted_whole() {
    let _alone = alone();
    let report =
        profiled(|| (0..OFTEN).for_each(|round| OUTER.run(|| INNER.run(|| a_little(round)))));
    assert_eq!((calls(&report, "outer"), calls(&report, "inner")), (OFTEN, OFTEN), "{report}");
    assert!(report.timed_ns > 0 && report.untimed_ns > report.timed_ns, "{report}");
    assert!(format!("{report}").contains("% of the CPU time was timed span by span"), "{report}");
    let [outer, inner] = ["outer", "inner"].map(|name| report.subroutine(name).expect("called"));
    assert!(inner.cpu_ns() > outer.cpu_ns(), "it has the work\n{report}");
    let cpu_ns = report.cpu.expect("known").total_ns;
    let rows = (cpu_ns / 2)..=(cpu_ns + cpu_ns / 10);
    assert!(rows.contains(&report.explained_ns()), "the gaps are in the rows\n{report}");
}

#[test]
fn what_counts_seldom_is_timed_throughout() {
    let _alone = alone();
    let report = profiled(|| (0..300).for_each(|_| OUTER.run(|| busy(SHORT / 100))));
    assert_eq!(calls(&report, "outer"), 300);
    assert!(report.untimed_ns == 0 && report.timed_ns > 0, "{report}");
}

#[test]
fn what_runs_long_in_a_gap_is_not_taken_for_what_ran_before() {
    let _alone = alone();
    let mut used_ns = 0;
    let report = profiled(|| {
        let before_ns = weir_sys::cpu::thread_ns();
        (0..OFTEN).for_each(|round| INNER.run(|| a_little(round)));
        used_ns = weir_sys::cpu::thread_ns() - before_ns;
        OUTER.run(|| busy(50 * SHORT));
    });
    let inner = report.subroutine("inner").expect("called");
    assert!(inner.cpu_ns() < used_ns + used_ns / 2 + SHORT_NS, "of {used_ns} ns\n{report}");
}

#[test]
fn what_a_sleeping_thread_used_in_its_gap_is_in_the_report() {
    let _alone = alone();
    let (tell, told) = channel();
    let (end, ended) = channel::<()>();
    let mut report = None;
    profiled(|| {
        let thread = std::thread::spawn(move || {
            let before_ns = weir_sys::cpu::thread_ns();
            // A stretch, and not yet a whole gap.
            for round in 0..150 {
                OUTER.run(|| INNER.run(|| (0..20).for_each(|part| a_little(round + part))));
            }
            tell.send(weir_sys::cpu::thread_ns() - before_ns).expect("heard");
            let _ = ended.recv();
        });
        let used_ns: u64 = told.recv().expect("told");
        report = weir_profile::report().map(|report| (report, used_ns));
        drop(end);
        thread.join().expect("it ends");
    });
    let (report, used_ns) = report.expect("it was on");
    let inner = report.subroutine("inner").expect("called");
    assert_eq!(inner.calls, 150);
    assert!(inner.cpu_ns() > used_ns / 2, "of {used_ns} ns\n{report}");
}

#[test]
fn what_is_in_a_gap_when_it_is_switched_off_gets_no_time_of_that() {
    let _alone = alone();
    let often = || (0..OFTEN).for_each(|round| INNER.run(|| a_little(round)));
    profiled(often);
    busy(50 * SHORT);
    let report = profiled(|| INNER.run(|| ()));
    assert_eq!(calls(&report, "inner"), 1);
    assert!(report.explained_ns() < 50 * SHORT_NS && report.untimed_ns == 0, "{report}");
}

#[test]
fn a_wait_is_told_apart_from_what_it_used() {
    let _alone = alone();
    let report = profiled(|| {
        OUTER.run(|| {
            // sleep: it waits, which is what is counted.
            weir_profile::wait(&CALL, || std::thread::sleep(10 * SHORT));
            weir_profile::wait(&CALL, || busy(10 * SHORT));
        });
    });
    let (outer, call) = (report.subroutine("outer"), report.call("call").expect("called"));
    assert!(call.wait_ns + 10 * SLACK_NS >= 9 * SHORT_NS, "{report}");
    assert!(call.system_ns > 0 && call.calls == 2, "{report}");
    let outer = outer.expect("called");
    assert_eq!(outer.system_ns, call.system_ns, "{report}");
    assert!(outer.wait_ns >= call.wait_ns, "{report}");
    assert!(call.system_ns <= report.cpu.expect("known").total_ns, "{report}");
    assert!(report.own_ns() > 0, "{report}");
}

#[test]
fn what_sleeps_without_saying_so_is_no_cpu_time_either() {
    let _alone = alone();
    // sleep: a time without a CPU, which is what is told apart.
    let report = profiled(|| OUTER.run(|| std::thread::sleep(10 * SHORT)));
    let outer = report.subroutine("outer").expect("called");
    assert!(outer.wait_ns + 10 * SLACK_NS >= 10 * SHORT_NS, "{report}");
    let cpu_ns = report.cpu.expect("known").total_ns;
    assert!(outer.user_ns <= cpu_ns && report.explained_ns() <= cpu_ns, "{report}");
}

#[test]
fn a_wait_inside_of_a_function_ends_with_its_guard() {
    let _alone = alone();
    let report = profiled(|| {
        INNER.run(|| ());
        let mut waiting = Some(weir_profile::begin_wait_at_last(&CALL));
        // sleep: the wait that the report has to name.
        std::thread::sleep(SHORT);
        let mut taking = None;
        // What a function does with each message that it shows.
        for _ in 0..2 {
            if waiting.take().is_some() {
                taking = Some(OUTER.enter_at_last());
            }
            INNER.run(|| busy(SHORT));
        }
        drop((waiting, taking));
    });
    let (call, outer) = (report.call("call").expect("called"), report.subroutine("outer"));
    assert_eq!((call.calls, outer.expect("called").calls, calls(&report, "inner")), (1, 1, 3));
    assert!(call.wait_ns + SLACK_NS >= SHORT_NS, "the sleep is its wait\n{report}");
    let inner = report.subroutine("inner").expect("called");
    // Others may have the CPU for most of it.
    assert!(elapsed_ns(inner) > SHORT_NS, "what follows is not\n{report}");
}

#[test]
fn spans_within_a_system_call_are_not_counted() {
    let _alone = alone();
    let report = profiled(|| {
        weir_profile::system(&CALL, || {
            INNER.run(|| weir_profile::wait(&CALL, || ()));
            weir_profile::system(&CALL, || ());
        });
        INNER.run(|| ());
    });
    assert_eq!((calls(&report, "inner"), report.call("call").expect("called").calls), (1, 1));
}

#[test]
fn one_name_as_a_subroutine_and_as_a_system_call_is_two_rows() {
    let _alone = alone();
    static BOTH: Subroutine = Subroutine::new("both");
    static SAME: Subroutine = Subroutine::new("both");
    let report = profiled(|| {
        BOTH.run(|| weir_profile::system(&BOTH, || ()));
        SAME.run(|| ());
    });
    assert_eq!((calls(&report, "both"), report.call("both").expect("called").calls), (2, 1));
}

#[test]
fn guards_that_end_in_the_wrong_order_or_never_leave_the_others_right() {
    let _alone = alone();
    let report = profiled(|| {
        let outer = OUTER.enter();
        let inner = INNER.enter();
        drop(outer);
        drop(inner);
        // No span is open now: this belongs to none.
        busy(SHORT);
        {
            let _outer = OUTER.enter();
            std::mem::forget(INNER.enter());
        }
        busy(SHORT);
        OUTER.run(|| ());
    });
    assert_eq!((calls(&report, "outer"), calls(&report, "inner")), (3, 2));
    assert!(report.explained_ns() < SHORT_NS, "{report}");
}

#[test]
fn what_unwinds_ends() {
    let _alone = alone();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    // Unwinding itself takes milliseconds the first time, while the unwinder reads its tables.
    let mut unwound = Duration::ZERO;
    let report = profiled(|| {
        let begun = Instant::now();
        let of_span = std::panic::catch_unwind(|| OUTER.run(|| panic!("as it should")));
        let of_call = std::panic::catch_unwind(|| {
            weir_profile::wait(&CALL, || -> () { panic!("as it should") })
        });
        unwound = begun.elapsed();
        assert!(of_span.is_err() && of_call.is_err());
        busy(SHORT);
        INNER.run(|| ());
    });
    std::panic::set_hook(quiet);
    assert_eq!((calls(&report, "outer"), calls(&report, "inner")), (1, 1), "it goes on counting");
    let outer = report.subroutine("outer").expect("called");
    assert!(u128::from(outer.user_ns) <= unwound.as_nanos(), "{unwound:?}\n{report}");
}

#[test]
fn off_nothing_is_counted() {
    let _alone = alone();
    let counted = profiled(|| OUTER.run(|| ()));
    assert!(!weir_profile::is_on());
    OUTER.run(|| weir_profile::system(&CALL, || ()));
    assert_eq!(weir_profile::report().expect("it was on"), counted);
    let report = profiled(|| ());
    assert_eq!((report.subroutines.len(), report.calls.len()), (0, 0), "{report}");
}

#[test]
fn a_span_open_while_it_is_off_gets_no_time_of_that() {
    let _alone = alone();
    weir_profile::switch(true).expect("on");
    let outer = OUTER.enter();
    weir_profile::switch(false).expect("off");
    busy(10 * SHORT);
    let report = profiled(|| INNER.run(|| ()));
    drop(outer);
    assert!(report.explained_ns() < 10 * SHORT_NS, "{report}");
}

#[test]
fn what_is_off_at_its_end_or_at_its_beginning_is_not_mistaken() {
    let _alone = alone();
    let before = OUTER.enter();
    weir_profile::switch(true).expect("on");
    let inner = INNER.enter();
    drop(before);
    weir_profile::switch(false).expect("off");
    drop(inner);
    let report = profiled(|| OUTER.run(|| INNER.run(|| ())));
    assert_eq!((calls(&report, "outer"), calls(&report, "inner")), (1, 1));
}

#[test]
fn each_thread_counts_by_itself_and_all_are_added_up() {
    let _alone = alone();
    let report = profiled(|| {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..1000).for_each(|_| OUTER.run(|| INNER.run(|| ()))));
            }
        });
    });
    assert_eq!((calls(&report, "outer"), calls(&report, "inner")), (8000, 8000));
    assert!(report.threads >= 1, "a table may be used again by a thread that comes later");
}

/// A guard was forgotten in a gap, which the end of the thread could not end. What its destructors
/// did then was counted beyond the table.
#[test]
fn what_a_thread_does_at_its_end_in_a_gap_is_not_counted() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            INNER.run(|| ());
        }
    }
    thread_local!(static LATE: Late = const { Late });
    let _alone = alone();
    let report = profiled(|| {
        let thread = std::thread::spawn(|| {
            // It is dropped after what was made later.
            LATE.with(|_| ());
            (0..OFTEN).for_each(|_| INNER.run(|| ()));
            std::mem::forget(weir_profile::begin_wait_at_last(&CALL));
        });
        thread.join().expect("it ends");
    });
    assert_eq!(calls(&report, "inner"), OFTEN, "{report}");
}

#[test]
fn a_report_is_divided_and_added_up() {
    let _alone = alone();
    let report = profiled(|| (0..10).for_each(|_| OUTER.run(|| ())));
    assert_eq!(report.clone().per(0, "packet"), report);
    let divided = report.clone().per(10, "packet");
    assert_eq!(divided.unit.as_ref().map(|unit| unit.count), Some(10));
    assert!(divided.to_string().contains("per packet us"), "{divided}");
    let sum = ProfileReport::sum(&[report.clone(), report.clone()]);
    assert_eq!(calls(&sum, "outer"), 20);
    let cpu_ns = |report: &ProfileReport| report.cpu.expect("known").total_ns;
    assert_eq!(cpu_ns(&sum), 2 * cpu_ns(&report));
}
