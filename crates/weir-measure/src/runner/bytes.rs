//! The bytes that each stage read and wrote, and those that crossed the pipes between them.
//!
//! These are two different figures. The bytes that a stage's processes read and wrote are the
//! kernel's own count (`rchar`, `wchar`) and complete, unless some of them used uncounted calls.
//! Nobody counts the bytes that cross a pipe: the counts of its two sides bound them.
//!
//! `splice` and similar calls move bytes that nobody counts. A stage is known to use them when it
//! was found in such a call, when the fill of a pipe changed by more than it counted, or when its
//! program can make them and its neighbour counted far more. Its own count is then a lower bound,
//! and the neighbour's count or the position in a file that it reads are an estimate.

use crate::attribution::PipeTotals;
use weir_doctor::facts::{Evidence, Io, Pipe, Stage};

/// Counts of the two sides of a pipe agree if they differ by no more than this plus 1/64 of the
/// larger: the reader's include the loading of its program, the writer's its messages.
const LOADING_BYTES: u64 = 1 << 18;

/// A neighbour that counted this many times as much is evidence of uncounted calls.
const FAR_MORE: u64 = 4;
/// A stage with fewer samples may not have been found in a call that it made.
const FEW_SAMPLES: u64 = 64;
/// A program with an interpreter reads this much at most before it begins its work.
const STARTING_BYTES: u64 = 4 << 20;

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

/// Finds what crossed the pipes, and corrects the counts of the stages by it. Each pass needs what
/// those before it have found:
///
/// 1. [`check_pipe`]: the fill of a pipe shows who moved more than it counted; no such count is a
///    bound from then on.
/// 2. [`crossed`]: the counts that are left bound what crossed each pipe.
/// 3. [`doubt`]: far apart, two counts show who may have moved bytes unseen, which takes away its
///    own count and the bound that rests on it.
/// 4. [`set_crossed`]: the stages get the bounds that are left.
/// 5. [`estimate`]: only now the pipes can tell what a stage moved that did not count it.
/// 6. [`name_resizers`] uses nothing of these.
pub(super) fn settle(
    stages: &mut [Stage],
    pipes: &mut [Pipe],
    totals: &[&PipeTotals],
    hints: &[Hint],
) {
    for (left, totals) in totals.iter().enumerate() {
        check_pipe(stages, left, totals);
    }
    let moved: Vec<u64> = totals.iter().map(|totals| totals.moved()).collect();
    let mut crossed = crossed(stages, &moved);
    doubt(stages, hints, &mut crossed);
    set_crossed(stages, &crossed);
    estimate(stages, hints);
    name_resizers(pipes, hints);
}

/// Uses the fill of the pipe behind the stage `left` as evidence: if more came into it than its
/// writer counted, or more left it than its reader counted, that side moves bytes by uncounted
/// calls, although it was never seen in one.
fn check_pipe(stages: &mut [Stage], left: usize, totals: &PipeTotals) {
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

/// The bytes that crossed a pipe, and how they are known.
type Crossed = (Option<u64>, Evidence);

/// Computes the bytes that crossed each pipe.
///
/// Each side counted what it moved, including other data (files, messages, its own loading), so
/// neither can have moved more through the pipe than it counted, and the smaller count is the
/// tighter bound. The count of a side that was seen in uncounted calls is not evidence, and that of
/// the other side is the bound. If the counts differ by much, one side may have used such calls
/// unseen: then the bound is only an estimate, unless its program cannot ([`doubt`]). Where neither
/// side counted, the changes in fill of the pipe (`moved`) are a lower bound.
fn crossed(stages: &[Stage], moved: &[u64]) -> Vec<Crossed> {
    let moved = moved.iter().copied().chain(std::iter::repeat(0));
    stages.windows(2).zip(moved).map(|(pair, moved)| between(&pair[0], &pair[1], moved)).collect()
}

/// Gives each stage the bytes of its pipes.
fn set_crossed(stages: &mut [Stage], crossed: &[Crossed]) {
    for (position, stage) in stages.iter_mut().enumerate() {
        let before = position.checked_sub(1).and_then(|left| crossed.get(left));
        let behind = crossed.get(position);
        (stage.pipe_in_bytes, stage.pipe_in_evidence) = before.copied().unwrap_or_default();
        (stage.pipe_out_bytes, stage.pipe_out_evidence) = behind.copied().unwrap_or_default();
    }
}

/// What else is known of a stage's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hint {
    /// Whether its program can make uncounted calls; `None` where that is not known.
    pub may_splice: Option<bool>,
    /// How far it came in the files that it reads.
    pub position_bytes: u64,
}

/// Doubts the count of a stage whose program can make uncounted calls, where its neighbour counted
/// far more, where it came further in its file than it counted, or where it and its neighbours
/// were hardly looked at. What crossed its pipes is then at most what the other side counted. The
/// smaller of two counts that differ is a bound where its side can make no such calls.
fn doubt(stages: &mut [Stage], hints: &[Hint], crossed: &mut [Crossed]) {
    let doubted: Vec<bool> = (0..stages.len()).map(|at| is_doubted(stages, hints, at)).collect();
    for (at, _) in doubted.iter().enumerate().filter(|(_, doubted)| **doubted) {
        stages[at].bytes_evidence = Evidence::LowerBound;
    }
    for (left, crossed) in crossed.iter_mut().enumerate().take(stages.len().saturating_sub(1)) {
        let counted =
            |at: usize| stages[at].io.filter(|_| stages[at].bytes_evidence == Evidence::Exact);
        let (written, read) = (counted(left), counted(left + 1));
        if !doubted[left..left + 2].contains(&true) {
            if let (Some(written), Some(read)) = (written, read) {
                let less = if written.write_bytes < read.read_bytes { left } else { left + 1 };
                let may = hints.get(less).and_then(|hint| hint.may_splice);
                // What lived too briefly to be looked at cannot have moved much.
                let may = may.unwrap_or(stages[less].samples >= FEW_SAMPLES);
                crossed.1 = if may { crossed.1 } else { Evidence::UpperBound };
            }
            continue;
        }
        let most = written.map(|io| io.write_bytes).or(read.map(|io| io.read_bytes));
        let evidence = most.map_or(Evidence::Unknown, |_| Evidence::UpperBound);
        *crossed = (most, evidence);
    }
}

fn is_doubted(stages: &[Stage], hints: &[Hint], at: usize) -> bool {
    let stage = &stages[at];
    let (Some(io), Evidence::Exact) = (stage.io, stage.bytes_evidence) else { return false };
    let hint = |at: usize| hints.get(at).copied().unwrap_or_default();
    // What lived too briefly to be looked at cannot have moved much.
    if hint(at).may_splice != Some(true) {
        return false;
    }
    let of = |at: Option<usize>| at.and_then(|at| stages.get(at)?.io).unwrap_or_default();
    let (written, read) = (of(at.checked_sub(1)).write_bytes, of(Some(at + 1)).read_bytes);
    let read_less = FAR_MORE * (io.read_bytes + LOADING_BYTES) < written;
    let wrote_less = FAR_MORE * (io.write_bytes + LOADING_BYTES) < read;
    let came_further = io.read_bytes < hint(at).position_bytes;
    read_less || wrote_less || came_further || is_unseen(stages, hints, at)
}

/// Whether a stage that can make uncounted calls counted little, was hardly looked at, and has no
/// neighbour that must have counted what passed between them.
fn is_unseen(stages: &[Stage], hints: &[Hint], at: usize) -> bool {
    let unseen = |at: usize| {
        let io = stages[at].io.unwrap_or_default();
        let little = io.read_bytes < STARTING_BYTES && io.write_bytes < LOADING_BYTES;
        let may = hints.get(at).is_some_and(|hint| hint.may_splice == Some(true));
        // One that was found in such a call counted nothing that tells.
        stages[at].uncounted || may && little && stages[at].samples < FEW_SAMPLES
    };
    let near = at.saturating_sub(1)..(at + 2).min(stages.len());
    near.into_iter().all(unseen)
}

/// Puts estimates in place of the counts of stages that moved more than they counted: what crossed
/// the pipes beside them, and the position in the file that they read. Where what such a stage
/// read or wrote is not known at all, its counts stay lower bounds.
fn estimate(stages: &mut [Stage], hints: &[Hint]) {
    let last = stages.len().saturating_sub(1);
    for (at, stage) in stages.iter_mut().enumerate().filter(|(_, stage)| stage.uncounted) {
        let hint = hints.get(at).copied().unwrap_or_default();
        let Some(io) = stage.io.filter(|_| stage.bytes_evidence == Evidence::LowerBound) else {
            continue;
        };
        let known = |bytes: Option<u64>, evidence| match evidence {
            Evidence::Unknown | Evidence::LowerBound => None,
            _ => bytes,
        };
        let into = known(stage.pipe_in_bytes, stage.pipe_in_evidence);
        let out = known(stage.pipe_out_bytes, stage.pipe_out_evidence);
        let can_tell = out.is_some() || at == last && io.write_bytes > 0;
        let read_bytes = io.read_bytes.max(hint.position_bytes).max(into.unwrap_or(0));
        let write_bytes = io.write_bytes.max(out.unwrap_or(0));
        // What the first one wrote does not tell what it read: that may have been a file that was
        // not watched, or its own memory.
        // The position was seen before the end: what it read, it read to write it.
        let seen = hint.position_bytes.saturating_mul(FAR_MORE) >= write_bytes;
        let from_file = at == 0 && hint.position_bytes > 0 && seen;
        let read_bytes = if from_file { read_bytes.max(write_bytes) } else { read_bytes };
        let covered = from_file || read_bytes + LOADING_BYTES >= write_bytes;
        if can_tell && (into.is_some() || at == 0 && covered) {
            stage.io = Some(Io { read_bytes, write_bytes, ..io });
            stage.bytes_evidence = Evidence::Estimated;
        }
    }
}

/// Names the stage that resized a pipe, if only one of the two has a program of the kind that does.
fn name_resizers(pipes: &mut [Pipe], hints: &[Hint]) {
    for pipe in pipes.iter_mut().filter(|pipe| pipe.resized_bytes.is_some()) {
        let may = |at: &usize| hints.get(*at).is_some_and(|hint| hint.may_splice != Some(false));
        let mut sides = [pipe.from, pipe.to].into_iter().filter(may);
        pipe.resized_by = sides.next().filter(|_| sides.next().is_none());
    }
}

fn between(writer: &Stage, reader: &Stage, moved: u64) -> Crossed {
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
        // What the writer was seen to write may have gone elsewhere, and more may have been moved.
        (None, Some(one)) | (Some(one), None) => (Some(one), Evidence::UpperBound),
        (None, None) if moved > 0 => (Some(moved), Evidence::LowerBound),
        (None, None) => (None, Evidence::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cross_pipes(stages: &mut [Stage], moved: &[u64]) {
        let crossed = crossed(stages, moved);
        set_crossed(stages, &crossed);
    }

    fn stage(read_bytes: u64, write_bytes: u64) -> Stage {
        let io = Some(Io { read_bytes, write_bytes, read_calls: 1, write_calls: 1 });
        Stage { io, bytes_evidence: Evidence::Exact, ..Stage::default() }
    }

    #[test]
    fn what_crossed_a_pipe_is_bounded_by_both_sides() {
        let mut stages = [stage(0, 6_000_000), stage(6_005_000, 40_000_000), stage(62_000_000, 9)];
        cross_pipes(&mut stages, &[]);
        assert_eq!(stages[0].pipe_in_bytes, None);
        assert_eq!(stages[0].pipe_out_bytes, Some(6_000_000));
        assert_eq!(stages[0].pipe_evidence(), Evidence::UpperBound);
        assert_eq!(stages[1].pipe_in_bytes, Some(6_000_000));
        assert_eq!(stages[1].pipe_out_bytes, Some(40_000_000));
        // The counts of the second pipe differ by half: that is not a bound any more.
        assert_eq!(stages[1].pipe_evidence(), Evidence::Estimated);
        assert_eq!(stages[1].pipe_in_evidence, Evidence::UpperBound);
        assert_eq!(stages[2].pipe_out_bytes, None);
    }

    #[test]
    fn nothing_crosses_a_pipe_whose_writer_was_never_started() {
        // The reader's count is the loading of its program.
        let mut stages = [Stage::default(), stage(7_000, 0)];
        stages[0].failure = Some(String::from("command not found"));
        cross_pipes(&mut stages, &[]);
        assert_eq!(
            (stages[1].pipe_in_bytes, stages[1].pipe_in_evidence),
            (Some(0), Evidence::Exact)
        );
    }

    /// `weir buffer` on a loaded host wrote most of its bytes, and spliced the last megabyte.
    #[test]
    fn what_a_writer_did_not_count_is_told_by_the_reader() {
        for counted in [398_951_432, 400_000_000] {
            let mut stages = [stage(0, counted), stage(400_003_000, 0)];
            stages[0].bytes_evidence = Evidence::LowerBound;
            cross_pipes(&mut stages, &[]);
            assert_eq!(stages[1].pipe_in_bytes, Some(400_003_000));
        }
    }

    #[test]
    fn a_side_that_did_not_count_all_tells_nothing() {
        let mut stages = [stage(0, 70), stage(5_000_000, 0)];
        stages[0].bytes_evidence = Evidence::LowerBound;
        cross_pipes(&mut stages, &[]);
        assert_eq!(stages[1].pipe_in_bytes, Some(5_000_000));
        stages[1].bytes_evidence = Evidence::Unknown;
        cross_pipes(&mut stages, &[]);
        assert_eq!(
            (stages[1].pipe_in_bytes, stages[1].pipe_in_evidence),
            (None, Evidence::Unknown)
        );
    }

    /// What the scripts before a program wrote among themselves was said to have passed, about 1.7 kB
    /// in place of 2 bytes: a process that was left running made its counts lower bounds.
    #[test]
    fn what_a_writer_was_seen_to_write_is_no_estimate_of_what_it_passed_on() {
        let mut stages = [stage(363_000, 1_700), stage(7_000, 2)];
        stages[0].bytes_evidence = Evidence::LowerBound;
        cross_pipes(&mut stages, &[]);
        assert_eq!(
            (stages[1].pipe_in_bytes, stages[1].pipe_in_evidence),
            (Some(7_000), Evidence::UpperBound)
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
        cross_pipes(&mut stages, &[]);
        assert_eq!(stages[1].pipe_in_bytes, Some(5_000_000));
        assert_eq!(stages[1].pipe_out_bytes, Some(5_000_000));
    }

    /// `sort -o file | wc` and `splicer >file | wc`: what `wc` read was its own loading, and the report
    /// said that about 7 kB had passed.
    #[test]
    fn the_loading_of_a_reader_to_which_nothing_came_is_a_bound_and_no_estimate() {
        let of = |writer: Evidence, wrote_bytes, may_splice| {
            let mut stages = [stage(41_000_000, wrote_bytes), stage(7_000, 2)];
            (stages[0].bytes_evidence, stages[1].samples) = (writer, 100);
            let mut crossed = crossed(&stages, &[]);
            let hints =
                [false, may_splice].map(|may| Hint { may_splice: Some(may), ..Hint::default() });
            doubt(&mut stages, &hints, &mut crossed);
            crossed[0]
        };
        let most = (Some(7_000), Evidence::UpperBound);
        assert_eq!(of(Evidence::Exact, 41_000_000, false), most);
        assert_eq!(of(Evidence::LowerBound, 0, false), most);
        assert_eq!(of(Evidence::LowerBound, 41_000_000, false), most);
        // One that may have read the rest by other calls.
        assert_eq!(of(Evidence::Exact, 700_000, true), (Some(7_000), Evidence::Estimated));
    }

    #[test]
    fn a_pipe_between_two_that_count_nothing_is_bounded_by_its_fill() {
        let mut stages = [stage(9, 0), stage(7_000, 8), stage(9_000, 0)];
        (stages[0].bytes_evidence, stages[1].bytes_evidence) =
            (Evidence::LowerBound, Evidence::LowerBound);
        cross_pipes(&mut stages, &[600_000, 0]);
        assert_eq!(stages[0].pipe_out_bytes, Some(600_000));
        assert_eq!(stages[0].pipe_evidence(), Evidence::LowerBound);
        assert_eq!(stages[1].pipe_evidence(), Evidence::LowerBound);
        assert_eq!(stages[2].pipe_evidence(), Evidence::UpperBound);
    }

    #[test]
    fn a_count_far_below_the_neighbour_s_is_exact_only_where_the_program_must_count() {
        let hint = |may_splice, position_bytes| Hint { may_splice, position_bytes };
        let of = |hints: [Hint; 2], mut stages: [Stage; 2]| {
            stages.iter_mut().for_each(|stage| stage.samples = 100);
            doubt(&mut stages, &hints, &mut []);
            stages.map(|stage| stage.bytes_evidence)
        };
        let (counts, may) = (hint(Some(false), 0), hint(Some(true), 0));
        let (exact, bound) = (Evidence::Exact, Evidence::LowerBound);
        // A writer of names before a reader of files, and one that moves all without counting.
        let unlike = || [stage(0, 21), stage(62_000_000, 0)];
        assert_eq!(of([counts, may], unlike()), [exact, exact]);
        assert_eq!(of([may, counts], unlike()), [bound, exact]);
        assert_eq!(of([hint(None, 0), counts], unlike()), [exact, exact]);
        // A reader that leaves early, `tee`, and a reader that does not count.
        let early = || [stage(0, 200_000), stage(7_000, 0)];
        assert_eq!(of([may, may], early()), [exact, exact]);
        assert_eq!(of([may, may], [stage(0, 20_000_000), stage(10_000_000, 0)]), [exact, exact]);
        assert_eq!(of([counts, may], [stage(0, 20_000_000), stage(7_000, 0)]), [exact, bound]);
        // A position beyond what was counted.
        assert_eq!(
            of([hint(Some(true), 90_000), may], [stage(7_000, 9), stage(7_000, 0)]),
            [bound, exact]
        );
    }

    #[test]
    fn two_programs_that_may_splice_and_were_hardly_seen_have_no_exact_count() {
        let hint = |may_splice| Hint { may_splice: Some(may_splice), position_bytes: 0 };
        let of = |hints: [Hint; 2], mut stages: [Stage; 2]| {
            let mut crossed = crossed(&stages, &[]);
            doubt(&mut stages, &hints, &mut crossed);
            set_crossed(&mut stages, &crossed);
            let [writer, reader] = stages;
            (
                writer.bytes_evidence,
                reader.bytes_evidence,
                writer.pipe_out_bytes,
                reader.pipe_in_evidence,
            )
        };
        let (exact, bound) = (Evidence::Exact, Evidence::LowerBound);
        let (unknown, most) = (Evidence::Unknown, Evidence::UpperBound);
        let small = || [stage(9, 9), stage(9, 9)];
        assert_eq!(of([hint(true), hint(true)], small()), (bound, bound, None, unknown));
        assert_eq!(of([hint(true), hint(false)], small()), (exact, exact, Some(9), most));
        let unlike = [stage(9, 9), stage(70_000_000, 9)];
        assert_eq!(of([hint(true), hint(false)], unlike), (bound, exact, Some(70_000_000), most));
    }

    #[test]
    fn what_was_not_counted_is_estimated_from_the_neighbours_and_the_position() {
        let mut stages = [stage(9, 0), stage(5_000_000, 9)];
        stages[0].uncounted = true;
        stages[0].bytes_evidence = Evidence::LowerBound;
        cross_pipes(&mut stages, &[]);
        estimate(&mut stages, &[Hint { may_splice: Some(true), position_bytes: 4_900_000 }; 2]);
        let io = stages[0].io.expect("known");
        assert_eq!((io.read_bytes, io.write_bytes), (5_000_000, 5_000_000));
        assert_eq!(stages[0].bytes_evidence, Evidence::Estimated);
        assert_eq!(
            (stages[1].io, stages[1].bytes_evidence),
            (stage(5_000_000, 9).io, Evidence::Exact)
        );
    }

    /// `pv file | wc` read 41 MB, and 28 MB of them at the last look: these were the estimate.
    #[test]
    fn a_position_that_was_seen_long_before_the_end_is_no_estimate() {
        let of = |position_bytes| {
            let mut stages = [stage(7_000, 0), stage(41_000_000, 9)];
            stages[0].uncounted = true;
            stages[0].bytes_evidence = Evidence::LowerBound;
            cross_pipes(&mut stages, &[]);
            estimate(&mut stages, &[Hint { may_splice: Some(true), position_bytes }; 2]);
            (stages[0].io.map(|io| io.read_bytes), stages[0].bytes_evidence)
        };
        assert_eq!(of(28_000_000), (Some(41_000_000), Evidence::Estimated));
        // As well a file of settings beside what came from elsewhere.
        assert_eq!(of(1_000_000), (Some(7_000), Evidence::LowerBound));
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
