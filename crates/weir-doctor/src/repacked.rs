//! Files that one command of a script packs, and a later one unpacks again.

use crate::facts::{FoundGroup, Run, Stage};
use crate::programs::{packed, packs, unpacks, unpacks_its_input};
use alloc::string::String;
use alloc::vec::Vec;

/// A copy takes this part of the time that packing takes, at most (a twentieth).
const COPY: u64 = 20;

/// A file that was packed and unpacked in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repacked {
    /// Its path.
    pub path: String,
    /// Whether it was gone at the end of the run.
    pub is_gone: bool,
    /// Position in [`Run::stages`] of what packed it.
    pub packer: usize,
    /// Position of what unpacked it.
    pub unpacker: usize,
    /// The time that the run could be shorter without both, about.
    pub saved_ns: u64,
}

/// Returns the files that a command of a script packed and a later one unpacked, that which took longest
/// first.
pub fn repacked(run: &Run) -> Vec<Repacked> {
    let all = || {
        run.groups.iter().filter_map(|group| Some((group, group.first_stage?))).flat_map(
            |(group, first)| {
                let stages = group.run.stages.iter().enumerate();
                stages.map(move |(at, stage)| (group, first + at, at, stage))
            },
        )
    };
    let mut found: Vec<Repacked> = Vec::new();
    for (group, packer, at, stage) in all().filter(|(.., stage)| packs(&stage.label)) {
        let written = stage.output.iter().map(|output| (output.path.clone(), output.is_gone));
        // Whether one that it named itself is still there, nobody has looked.
        let named = packed(&stage.label).into_iter().map(|path| (path, false));
        for (path, is_gone) in written.chain(named) {
            let reads = |reader: &&(&FoundGroup, usize, usize, &Stage)| {
                reader.0.start_ns >= group.end_ns.saturating_sub(SLACK_NS)
                    && unpacks(&reader.3.label).any(|file| is_same(&path, file))
            };
            let Some((below, unpacker, row, _)) = all().find(|reader| reads(&reader)) else {
                continue;
            };
            // tar names the file, and a gzip -d below it unpacks that.
            let lower = below.run.stages.iter().position(|stage| unpacks_its_input(&stage.label));
            let (unpacker, row) =
                lower.map_or((unpacker, row), |lower| (unpacker - row + lower, lower));
            let saved_ns = saved_ns(group, at) + saved_ns(below, row);
            found.push(Repacked { path, is_gone, packer, unpacker, saved_ns });
            break;
        }
    }
    found.sort_by_key(|file| core::cmp::Reverse(file.saved_ns));
    found
}

/// Starts and ends are good to some ticks.
const SLACK_NS: u64 = 20_000_000;

/// Whether two paths may be of one file, wherever they were typed: one is the end of the other.
fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| path.trim_start_matches("./"));
    let (long, short) = if one.len() < other.len() { (other, one) } else { (one, other) };
    let before = long.strip_suffix(short).filter(|_| !short.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Returns the time that a group would take less if this row only copied: until the next row of its
/// pipeline holds it up.
fn saved_ns(group: &FoundGroup, row: usize) -> u64 {
    let busy_ns = |stage: &Stage| stage.times.busy_ns();
    let mine_ns = busy_ns(&group.run.stages[row]);
    let others = group.run.stages.iter().enumerate().filter(|(at, _)| *at != row);
    let next_ns = others.map(|(_, stage)| busy_ns(stage)).max().unwrap_or(0);
    mine_ns.saturating_sub(next_ns.max(mine_ns / COPY)).min(group.run.wall_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::OutputFile;
    use crate::made::{self, MS};
    use alloc::vec;

    /// `gzip -c big.txt > t.gz; zcat t.gz | wc -l`.
    fn run(reader: &str) -> Run {
        let path = String::from("/tmp/d/t.gz");
        let gzip = made::stage("gzip -c big.txt", [5000]);
        let gzip = Stage { output: Some(OutputFile { path, is_gone: true }), ..gzip };
        let rows = vec![made::stage(reader, [900]), made::stage("wc -l", [100, 0, 800])];
        let group = |stages: Vec<Stage>, first: usize, start: u64, end: u64| FoundGroup {
            run: Run { wall_ns: (end - start) * MS, stages, ..Run::default() },
            first_stage: Some(first),
            start_ns: start * MS,
            end_ns: end * MS,
            ..FoundGroup::default()
        };
        let groups =
            vec![group(vec![gzip.clone()], 0, 0, 5000), group(rows.clone(), 1, 5001, 5901)];
        let stages = [vec![gzip], rows].concat();
        Run { wall_ns: 6000 * MS, script: true, groups, stages, ..Run::default() }
    }

    #[test]
    fn a_file_that_is_packed_and_unpacked_again_is_found_by_its_name() {
        for reader in ["gzip -cd t.gz", "zcat ./t.gz", "gunzip -c /tmp/d/t.gz", "zcat -- d/t.gz"] {
            let found = repacked(&run(reader));
            assert_eq!(found.len(), 1, "{reader}");
            assert_eq!((found[0].packer, found[0].unpacker, found[0].is_gone), (0, 1, true));
            assert_eq!(found[0].saved_ns / MS, 4750 + 800);
        }
    }

    /// `zstd -q big.txt -o t.zst; zstd -dc t.zst | wc -l`, and the like, packed for nothing without a word.
    #[test]
    fn what_a_packer_named_itself_is_found_too() {
        for (packer, reader) in [
            ("zstd -q big.txt -o d/t.zst", "zstd -dc d/t.zst"),
            ("gzip big.txt", "zcat big.txt.gz"),
            ("xz -k -9 d/a", "unxz ./d/a.xz"),
            ("bzip2 -- a b", "bzcat b.bz2"),
        ] {
            let mut run = run(reader);
            for stage in [&mut run.groups[0].run.stages[0], &mut run.stages[0]] {
                (stage.label, stage.output) = (String::from(packer), None);
            }
            let found = repacked(&run);
            assert_eq!(found.len(), 1, "{packer}");
            assert_eq!((found[0].packer, found[0].unpacker, found[0].is_gone), (0, 1, false));
            run.groups[0].run.stages[0].label = String::from("gzip -c big.txt");
            assert_eq!(repacked(&run), [], "nobody knows where to");
        }
    }

    /// `tar czf t.tgz d; tar tzf t.tgz | wc -l` was not recognised: of both, a gzip below tar has the file.
    #[test]
    fn an_archive_that_is_packed_and_listed_or_extracted_is_found_too() {
        for reader in [
            "tar tzf t.gz",
            "tar -xzf t.gz -C d",
            "tar xCf d ./t.gz",
            "tar --list --file=t.gz",
            "tar -x -f /tmp/d/t.gz",
            "bsdtar -xft.gz",
        ] {
            let mut run = run(reader);
            let below = &mut run.groups[1].run.stages;
            below[0].times.cpu_ns = 40 * MS;
            below.insert(0, made::stage("gzip -d", [900]));
            let found = repacked(&run);
            assert_eq!(found.len(), 1, "{reader}");
            assert_eq!((found[0].unpacker, found[0].saved_ns / MS), (1, 4750 + 800), "{reader}");
        }
        for reader in ["tar czf t.gz d", "tar xf other.gz", "tar xf -", "tar x t.gz", "tar"] {
            assert_eq!(repacked(&run(reader)), [], "{reader}");
        }
    }

    #[test]
    fn what_is_not_surely_unpacked_again_is_left_alone() {
        for reader in ["zcat other.gz", "zcat x.t.gz", "md5sum t.gz", "gzip -c t.gz", "zcat"] {
            assert_eq!(repacked(&run(reader)), [], "{reader}");
        }
        let mut before = run("zcat t.gz");
        (before.groups[1].start_ns, before.groups[0].end_ns) = (0, 5000 * MS);
        assert_eq!(repacked(&before), [], "it was not there yet");
    }
}
