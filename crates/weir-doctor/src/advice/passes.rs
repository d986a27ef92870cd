//! Advice on work that one pass over the data could do: a file read again and again, and lines that
//! are sorted only to be counted.

use super::{Advice, AdviceKind, Gain, estimate};
use crate::facts::{Evidence, FoundGroup, Run, Stage};
use crate::limits;
use crate::programs;
use crate::repacked::repacked;

/// Reading a file again for a smaller share of the run is not worth a change.
const MUCH: f64 = 0.25;
/// Fewer reads of a file than this are not a loop.
const OFTEN: u64 = 5;
/// One pass for all takes as long as this many of the old ones: it looks for more in each line. 200
/// times `grep` took 6.2 s, and one `awk` with a table of the words 0.15 s.
const ONE_PASS: f64 = 3.0;
/// What stays of a loop in any case.
const REST: f64 = 0.05;
/// The most bytes of counts for which a table is faster than sorting (docs/design/advice.md).
const FEW_BYTES: u64 = 32 << 10;
/// Fewer bytes than this are sorted in no time.
const MANY_BYTES: u64 = 1 << 20;
/// The part of a sort's time that counting with a table takes.
const TABLE: f64 = 0.4;

/// Commands in a loop that read one file again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rereads {
    /// Position of the group in [`Run::groups`].
    pub group: usize,
    /// Position of the stage in the group.
    pub stage: usize,
    /// The factor that the run could gain by one pass, about.
    pub gain: f64,
}

/// Returns the loop with most to gain, of those whose commands read one file again and again.
pub fn rereads(run: &Run) -> Option<Rereads> {
    let of = |(at, group): (usize, &FoundGroup)| {
        let reads =
            |stage: &Stage| programs::reads_again(&stage.program) && stage.shared_file.is_some();
        let stage = group.run.stages.iter().position(reads)?;
        // What waits for room in a pipe takes as long whatever it reads.
        let work_ns = group.run.stages[stage].times.busy_ns().min(group.own_ns());
        let share = run.share(work_ns).min(1.0 - REST);
        if group.instances < OFTEN || share < MUCH || group.is_starting() {
            return None;
        }
        let saved = (1.0 - ONE_PASS / group.instances as f64).max(0.0);
        Some(Rereads { group: at, stage, gain: estimate(share * saved) })
    };
    let all = run.groups.iter().enumerate().filter_map(of);
    all.max_by(|one, other| one.gain.total_cmp(&other.gain))
}

/// Advises one pass over a file that a loop reads for each of its rounds.
pub(crate) fn one_pass(run: &Run) -> Option<Advice> {
    let found = rereads(run)?;
    let group = &run.groups[found.group];
    let stage = group.first_stage.map(|first| first + found.stage).or(group.inside)?;
    let gain = Gain::About(found.gain);
    Some(Advice { kind: AdviceKind::OnePass, stage: Some(stage), pipe: None, gain })
}

/// Advises not to pack what a later command of a script unpacks again.
pub(crate) fn no_packing(run: &Run) -> Option<Advice> {
    /// What packing takes below this share of the run is not worth a change.
    const WORTH: f64 = 0.15;
    let found = repacked(run);
    let share = run.share(found.iter().map(|file| file.saved_ns).sum()).min(1.0 - REST);
    let (kind, gain) = (AdviceKind::NoPacking, Gain::About(estimate(share)));
    let stage = Some(found.first()?.packer);
    (share >= WORTH).then_some(Advice { kind, stage, pipe: None, gain })
}

/// Advises to count lines in a table where they are sorted only to be counted, and few of them differ.
pub(super) fn count_in_table(run: &Run, position: usize) -> Option<Advice> {
    let (sort, uniq) = (run.stages.get(position)?, run.stages.get(position + 1)?);
    let joined = run.pipes.iter().any(|pipe| pipe.from == position && pipe.to == position + 1);
    if !joined || !programs::sorts_lines(&sort.label) || !programs::counts_lines(&uniq.label) {
        return None;
    }
    let sorted_bytes = sort.pipe_in_bytes.max(sort.io.map(|io| io.read_bytes))?;
    let counts_bytes = uniq.io?.write_bytes;
    // What it wrote at its end may not have been seen.
    let known = uniq.bytes_evidence == Evidence::Exact || counts_bytes > 0;
    if !known || counts_bytes > FEW_BYTES || sorted_bytes < MANY_BYTES {
        return None;
    }
    // What needs less of a CPU waits less for one.
    let saved = run.share(sort.times.cpu_ns + sort.times.queue_ns) * (1.0 - TABLE);
    let bound = limits::without_stage(run, position).unwrap_or(f64::INFINITY);
    let gain = Gain::About(estimate(saved).min(bound));
    Some(Advice { kind: AdviceKind::CountInTable, stage: Some(position), pipe: None, gain })
}
