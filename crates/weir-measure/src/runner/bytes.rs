//! The bytes that each stage read and wrote, and those that crossed the pipes between them.
//!
//! These are two different figures. The bytes that a stage's processes read and wrote are the
//! kernel's own count (`rchar`, `wchar`) and complete, unless some of them used uncounted calls.
//! Nobody counts the bytes that cross a pipe: the counts of its two sides bound them.

use crate::attribution::PipeTotals;
use weir_doctor::facts::{Evidence, Io, Stage};

/// Counts of the two sides of a pipe agree if they differ by no more than this plus 1/64 of the
/// larger: the reader's include the loading of its program, the writer's its messages.
const LOADING_BYTES: u64 = 1 << 18;

/// Returns the quality of a stage's bytes; `last` tells whether they were read after its end.
pub(super) fn evidence(stage: &Stage, last: bool) -> Evidence {
    match stage.io {
        None => Evidence::Unknown,
        Some(_) if stage.uncounted || !last => Evidence::LowerBound,
        // weir's own buffer uses splice whenever it can.
        Some(_) if stage.relay => Evidence::LowerBound,
        // Descendants that nobody waited for are missing here, as in the CPU time.
        Some(_) if stage.cpu_evidence == Evidence::LowerBound => Evidence::LowerBound,
        Some(_) => Evidence::Exact,
    }
}

/// Uses the fill of the pipe behind the stage `left` as evidence: if more came into it than its
/// writer counted, or more left it than its reader counted, that side moves bytes by uncounted
/// calls, although it was never seen in one.
pub(super) fn check_pipe(stages: &mut [Stage], left: usize, totals: &PipeTotals) {
    let mut check = |position: usize, counted: fn(Io) -> u64, moved: u64| {
        let Some(stage) = stages.get_mut(position) else { return };
        if stage.io.is_some_and(|io| counted(io) < moved) {
            stage.uncounted = true;
            stage.bytes_evidence = Evidence::LowerBound;
        }
    };
    check(left, |io| io.write_bytes, totals.filled_bytes);
    check(left + 1, |io| io.read_bytes, totals.drained_bytes);
}

/// Computes the bytes that crossed each pipe.
///
/// Each side counted what it moved, including other data (files, messages, its own loading), so
/// neither can have moved more through the pipe than it counted, and the smaller count is the
/// tighter bound. The count of a side that was seen in uncounted calls is no evidence. If the
/// counts differ by much, one side may have used such calls unseen: then the bound is only an
/// estimate.
pub(super) fn cross_pipes(stages: &mut [Stage]) {
    let crossed: Vec<(Option<u64>, Evidence)> =
        stages.windows(2).map(|pair| crossed(&pair[0], &pair[1])).collect();
    for (position, stage) in stages.iter_mut().enumerate() {
        let before = position.checked_sub(1).and_then(|left| crossed.get(left));
        let behind = crossed.get(position);
        stage.pipe_in_bytes = before.and_then(|(bytes, _)| *bytes);
        stage.pipe_out_bytes = behind.and_then(|(bytes, _)| *bytes);
        let sides = before.into_iter().chain(behind).map(|(_, evidence)| *evidence);
        stage.pipe_evidence = sides.reduce(weaker).unwrap_or_default();
    }
}

fn crossed(writer: &Stage, reader: &Stage) -> (Option<u64>, Evidence) {
    if writer.failure.is_some() {
        // A stage that was never started wrote nothing.
        return (Some(0), Evidence::Exact);
    }
    let counted = |stage: &Stage, bytes: fn(Io) -> u64| {
        let complete = stage.bytes_evidence == Evidence::Exact;
        stage.io.filter(|_| complete).map(bytes)
    };
    let agree =
        |written: u64, read: u64| written.abs_diff(read) <= LOADING_BYTES + written.max(read) / 64;
    let written = counted(writer, |io| io.write_bytes);
    let read = counted(reader, |io| io.read_bytes);
    match (written, read) {
        (Some(written), Some(read)) => {
            let evidence =
                if agree(written, read) { Evidence::UpperBound } else { Evidence::Estimated };
            (Some(written.min(read)), evidence)
        }
        (None, Some(read)) => {
            // The uncounted calls may have been reads alone (of a socket). The observed part of its
            // writes then says more than the reader's count, which includes its program's loading.
            let seen = writer.io.map(|io| io.write_bytes).filter(|seen| *seen > 0);
            let seen = seen.filter(|seen| agree(*seen, read));
            (Some(seen.map_or(read, |seen| seen.min(read))), Evidence::Estimated)
        }
        (Some(one), None) => (Some(one), Evidence::Estimated),
        (None, None) => (None, Evidence::Unknown),
    }
}

fn weaker(one: Evidence, other: Evidence) -> Evidence {
    let order = [Evidence::Unknown, Evidence::Estimated, Evidence::UpperBound, Evidence::Exact];
    order.into_iter().find(|evidence| [one, other].contains(evidence)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(read_bytes: u64, write_bytes: u64) -> Stage {
        let io = Some(Io { read_bytes, write_bytes, read_calls: 1, write_calls: 1 });
        Stage { io, bytes_evidence: Evidence::Exact, ..Stage::default() }
    }

    #[test]
    fn what_crossed_a_pipe_is_bounded_by_both_sides() {
        let mut stages = [stage(0, 6_000_000), stage(6_005_000, 40_000_000), stage(62_000_000, 9)];
        cross_pipes(&mut stages);
        assert_eq!(stages[0].pipe_in_bytes, None);
        assert_eq!(stages[0].pipe_out_bytes, Some(6_000_000));
        assert_eq!(stages[0].pipe_evidence, Evidence::UpperBound);
        assert_eq!(stages[1].pipe_in_bytes, Some(6_000_000));
        assert_eq!(stages[1].pipe_out_bytes, Some(40_000_000));
        // The counts of the second pipe differ by half: that is no bound any more.
        assert_eq!(stages[1].pipe_evidence, Evidence::Estimated);
        assert_eq!(stages[2].pipe_out_bytes, None);
    }

    #[test]
    fn nothing_crosses_a_pipe_whose_writer_was_never_started() {
        // The reader's count is the loading of its program.
        let mut stages = [Stage::default(), stage(7_000, 0)];
        stages[0].failure = Some(String::from("command not found"));
        cross_pipes(&mut stages);
        assert_eq!((stages[1].pipe_in_bytes, stages[1].pipe_evidence), (Some(0), Evidence::Exact));
    }

    #[test]
    fn a_side_that_did_not_count_all_tells_nothing() {
        let mut stages = [stage(0, 70), stage(5_000_000, 0)];
        stages[0].bytes_evidence = Evidence::LowerBound;
        cross_pipes(&mut stages);
        assert_eq!(stages[1].pipe_in_bytes, Some(5_000_000));
        stages[1].bytes_evidence = Evidence::Unknown;
        cross_pipes(&mut stages);
        assert_eq!((stages[1].pipe_in_bytes, stages[1].pipe_evidence), (None, Evidence::Unknown));
    }

    #[test]
    fn what_a_writer_that_reads_a_socket_was_seen_to_write_is_not_the_readers_loading() {
        let mut stages = [stage(1_500_000, 11), stage(7_000, 11)];
        stages[0].bytes_evidence = Evidence::LowerBound;
        cross_pipes(&mut stages);
        assert_eq!(
            (stages[1].pipe_in_bytes, stages[1].pipe_evidence),
            (Some(11), Evidence::Estimated)
        );
    }

    /// A program that uses `splice` is not always found in that call.
    #[test]
    fn a_pipe_is_witness_to_what_its_sides_did_not_count() {
        let mut stages = [stage(9, 5_000_000), stage(7_000, 7_000), stage(5_000_000, 9)];
        let totals = |filled_bytes, drained_bytes| {
            let mut totals = PipeTotals::default();
            (totals.filled_bytes, totals.drained_bytes) = (filled_bytes, drained_bytes);
            totals
        };
        check_pipe(&mut stages, 0, &totals(900_000, 6_900));
        assert!(stages.iter().all(|stage| !stage.uncounted));
        check_pipe(&mut stages, 0, &totals(900_000, 800_000));
        check_pipe(&mut stages, 1, &totals(700_000, 800_000));
        let uncounted: Vec<bool> = stages.iter().map(|stage| stage.uncounted).collect();
        assert_eq!(uncounted, [false, true, false]);
        assert_eq!(stages[1].bytes_evidence, Evidence::LowerBound);
        cross_pipes(&mut stages);
        assert_eq!(stages[1].pipe_in_bytes, Some(5_000_000));
        assert_eq!(stages[1].pipe_out_bytes, Some(5_000_000));
    }

    #[test]
    fn bytes_are_exact_only_when_all_were_counted() {
        let mut stage = stage(1, 2);
        stage.cpu_evidence = Evidence::Exact;
        assert_eq!(evidence(&stage, true), Evidence::Exact);
        assert_eq!(evidence(&stage, false), Evidence::LowerBound);
        stage.relay = true;
        assert_eq!(evidence(&stage, true), Evidence::LowerBound);
        (stage.relay, stage.uncounted) = (false, true);
        assert_eq!(evidence(&stage, true), Evidence::LowerBound);
        stage.io = None;
        assert_eq!(evidence(&stage, true), Evidence::Unknown);
    }
}
