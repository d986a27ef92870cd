//! A file that several commands of a script read from its beginning to its end.

use crate::advice::rereads;
use crate::facts::Run;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// A file that was read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAgain {
    /// Its path.
    pub path: String,
    /// How often it was read, at least.
    pub times: u64,
    /// The bytes of all that.
    pub bytes: u64,
    /// The time of the commands that read it.
    pub time_ns: u64,
    /// Positions in [`Run::stages`] of these commands.
    pub rows: Vec<usize>,
}

/// Returns the file for which that took most of the run, if it was much. What one loop reads again and
/// again is told by the advice on it.
pub fn read_again(run: &Run) -> Option<ReadAgain> {
    /// Less of the run, and fewer bytes, are not worth a word.
    const MUCH: f64 = 0.25;
    const MANY_BYTES: u64 = 16 << 20;
    let mut files: BTreeMap<&str, ReadAgain> = BTreeMap::new();
    for group in &run.groups {
        let Some(first) = group.first_stage else { continue };
        for (at, row) in group.run.stages.iter().enumerate() {
            for file in &row.files_read {
                let all = files.entry(&file.path).or_default();
                all.path.clone_from(&file.path);
                all.times += file.times;
                all.bytes += file.bytes;
                // One pipeline may read it twice.
                if all.rows.last().is_none_or(|row| *row < first) {
                    all.time_ns += group.own_ns();
                }
                all.rows.push(first + at);
            }
        }
    }
    let in_loop = rereads(run)
        .and_then(|found| run.groups[found.group].run.stages[found.stage].shared_file.clone());
    let is_it = |file: &ReadAgain| {
        let is_much = run.share(file.time_ns) >= MUCH && file.bytes >= MANY_BYTES;
        file.rows.len() > 1 && is_much && in_loop.as_ref() != Some(&file.path)
    };
    files.into_values().filter(is_it).max_by_key(|file| file.time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{FileRead, FoundGroup, Stage};
    use crate::made::{self, MS};
    use alloc::vec;

    #[test]
    fn a_file_that_several_commands_read_is_named_with_its_bytes() {
        let group = |first: usize, path: &str, mb: u64| {
            let (path, bytes) = (String::from(path), mb << 20);
            let read = FileRead { path, bytes, times: 1 };
            let row = Stage { files_read: vec![read], ..made::stage("grep -c x big", [300]) };
            let run = Run { wall_ns: 300 * MS, ..made::run(vec![row]) };
            FoundGroup { run, first_stage: Some(first), ..FoundGroup::default() }
        };
        let of = |groups: Vec<FoundGroup>| read_again(&Run { groups, ..made::run(vec![]) });
        let found =
            of(vec![group(0, "/d/big", 100), group(1, "/d/b", 50), group(2, "/d/big", 100)]);
        let found = found.expect("a file");
        assert_eq!((found.path.as_str(), found.times, found.rows), ("/d/big", 2, vec![0, 2]));
        assert_eq!(found.bytes, 200 << 20);
        assert_eq!(of(vec![group(0, "/d/big", 100), group(1, "/d/b", 100)]), None, "a file each");
        assert_eq!(of(vec![group(0, "/d/big", 1), group(1, "/d/big", 1)]), None, "a small file");
    }
}
