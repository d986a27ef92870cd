//! Advice on what one pass could do.

use super::*;
use crate::facts::{FoundGroup, Spread};

/// A loop that started grep so often, inside of the first stage.
fn loops(instances: u64, each_ms: u64) -> Run {
    let mut run = run(vec![stage("while read", [20, 0]), stage("tail -1", [5, 0, 990])]);
    let grep = Stage {
        shared_file: Some("/d/orders.csv".to_string()),
        ..stage("grep -c x ...", [950, 0])
    };
    run.groups = vec![FoundGroup {
        run: Run { wall_ns: 960 * MS, ..made::run(vec![grep]) },
        inside: Some(0),
        instances,
        spread: Spread { sum_ns: instances * each_ms * MS, ..Spread::default() },
        ..FoundGroup::default()
    }];
    run
}

/// 292 greps of one file took 6.4 s, and one awk 0.18 s: nothing was advised.
#[test]
fn a_file_that_a_loop_reads_again_and_again_is_read_once() {
    let of = |run: &Run| advice(run).into_iter().find(|found| found.kind == AdviceKind::OnePass);
    let found = of(&loops(292, 60)).expect("advice");
    assert_eq!(found.stage, Some(0));
    assert!(matches!(found.gain, Gain::About(factor) if factor > 10.0), "{:?}", found.gain);
    // Of ten rounds one pass takes some.
    let gain = of(&loops(10, 95)).expect("advice").gain.factor();
    assert!((2.0..4.0).contains(&gain), "{gain}");
    assert_eq!(of(&loops(4, 240)), None, "no loop");
    let mut other = loops(292, 60);
    other.groups[0].run.stages[0].shared_file = None;
    assert_eq!(of(&other), None, "a file each");
    let mut brief = loops(900, 1);
    brief.groups[0].run.stages[0].processes = 900;
    assert_eq!(of(&brief), None, "starting them takes the time");
    // `while ...; do cat day.log; done | gzip`: each cat waited for gzip, and one pass was advised.
    let mut waits = loops(6, 160);
    let times = &mut waits.groups[0].run.stages[0].times;
    (times.cpu_ns, times.output_ns) = (30 * MS, 920 * MS);
    assert_eq!(of(&waits), None, "another one holds it up");
    let mut python = loops(292, 60);
    python.groups[0].run.stages[0].program = "python3".to_string();
    assert_eq!(of(&python), None, "what it does with the file is not known");
}

/// `fold -w1 | sort | uniq -c` took 1.0 s, and a table in awk 0.2 s. With 100,000 different lines in a
/// million the table took longer.
#[test]
fn few_different_lines_are_counted_in_a_table() {
    let counted = |times_ms: [u64; 3], sort: &str, uniq: &str, out_bytes: u64| {
        let mut run = run(vec![
            stage("fold -w1", [200, 0]),
            stage(sort, times_ms),
            stage(uniq, [150, 0, 850]),
        ]);
        run.pipes = (0..2).map(|from| Pipe { from, to: from + 1, ..Pipe::default() }).collect();
        run.stages[1].pipe_in_bytes = Some(8 << 20);
        writes(&mut run.stages[2], 2, out_bytes);
        run.stages[2].bytes_evidence = Evidence::Exact;
        advice(&run).into_iter().find(|found| found.kind == AdviceKind::CountInTable)
    };
    let found = counted([900, 0, 100], "sort", "uniq -c", 100).expect("advice");
    assert_eq!(found.stage, Some(1));
    assert!(matches!(found.gain, Gain::About(factor) if (1.5..4.0).contains(&factor)));
    assert!(counted([900, 0, 100], "LC_ALL=C sort -S1G", "uniq --count", 100).is_some());
    assert!(counted([130, 850, 0], "sort", "uniq -c", 100).is_some(), "beside others");
    for (sort, uniq, out_bytes) in
        [("sort", "uniq -c", 2 << 20), ("sort -k2", "uniq -c", 100), ("sort", "uniq -d", 100)]
    {
        assert_eq!(
            counted([900, 0, 100], sort, uniq, out_bytes),
            None,
            "{sort} | {uniq}, {out_bytes}"
        );
    }
}

/// `gawk | grep` took 3.9 s of CPU time for one line in forty, and nothing was said.
#[test]
fn what_passes_few_lines_comes_before_what_works_on_each() {
    let of = |slow: &str, filter: &str, passed: u64| {
        let mut run = run(vec![
            stage("cat big", [40, 0, 0, 960]),
            stage(slow, [960, 0]),
            stage(filter, [30, 0, 970]),
        ]);
        run.pipes = (0..2).map(|from| Pipe { from, to: from + 1, ..Pipe::default() }).collect();
        for (at, bytes) in [(1, 100 << 20), (2, 80 << 20)] {
            run.stages[at].pipe_in_bytes = Some(bytes);
            run.stages[at].bytes_evidence = Evidence::Exact;
        }
        writes(&mut run.stages[1], 9, 80 << 20);
        writes(&mut run.stages[2], 9, passed);
        let found = advice(&run).into_iter().find(|found| found.kind == AdviceKind::FilterFirst);
        let changes = found.as_ref().and_then(|found| rewrite(&run, found, &|_| false));
        (found.map(|found| found.gain.factor()), changes)
    };
    let (gain, changes) = of("awk '{ print $2, $1 }'", "grep x", 2 << 20);
    assert!(gain.is_some_and(|gain| gain > 10.0), "{gain:?}");
    assert_eq!(changes, None, "what it looks for may be made there");
    let (_, changes) = of("sort -k2", "grep x", 2 << 20);
    let text = |text: &str| Some(String::from(text));
    assert_eq!(changes, Some(vec![(1, text("grep x")), (2, text("sort -k2"))]));
    for (slow, filter, passed) in [
        ("awk '{ print $2, $1 }'", "grep x", 40 << 20),
        ("awk '{ print $2, $1 }'", "grep -c x", 8),
        ("awk '{ print n++ }'", "grep x", 2 << 20),
        ("python3 x.py", "grep x", 2 << 20),
    ] {
        assert_eq!(of(slow, filter, passed).0, None, "{slow} | {filter}");
    }
}
