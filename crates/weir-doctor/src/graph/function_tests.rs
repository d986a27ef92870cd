//! Functions of a shell within pipelines, written down by hand.

use super::tests::{classed, process, reads, writes};
use super::{SeenProcess, label};
use alloc::vec::Vec;
use alloc::{format, vec};

/// A function within a pipeline runs in a copy of the shell. So each time round a loop it seemed to
/// be started by somebody else, and each was a group of its own.
#[test]
fn what_a_loop_runs_by_a_function_is_one_pipeline() {
    let mut seen: Vec<SeenProcess> = vec![process(None, "bash x.sh", (0, 1000))];
    for n in 0..5 {
        let ms = (n as u64 * 50, n as u64 * 50 + 40);
        let shell = seen.len();
        seen.push(writes(n, process(Some(0), "bash x.sh", ms)));
        seen.push(writes(n, process(Some(shell), "seq 1 9", ms)));
        seen.push(reads(n, process(Some(0), &format!("awk -v i={n} x"), ms)));
    }
    let classes = classed(&seen, &[]);
    let loops = classes.iter().filter(|class| class.spans.len() == 5);
    let rows: Vec<_> = loops.flat_map(|class| &class.rows).collect();
    assert!(rows.iter().any(|row| seen[row[0]].program == "awk"), "{classes:?}");
    let awk = rows.iter().find(|row| seen[row[0]].program == "awk").expect("awk");
    assert_eq!(label(awk.iter().map(|at| seen[*at].command.as_str())), "awk -v ... x");
}
