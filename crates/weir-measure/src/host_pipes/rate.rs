//! How many bytes passed a pipe between two looks.
//!
//! The kernel counts no bytes of a pipe. It counts what each process reads and writes in all
//! (`/proc/PID/io`), except what `splice(2)` and its kin move. So the count of a process is that of
//! the pipe only if nothing else can have moved bytes in that direction. The count of a process also
//! contains those of its children, once it has waited for them.

use super::{HostPipe, Open, Target};
use crate::program::may_move_uncounted;
use std::collections::{BTreeMap, BTreeSet};
use weir_sys::Pid;
use weir_sys::proc::{Io, ProcContents, Stat, program_file};

/// Most programs that are remembered.
const MOST_PROGRAMS: usize = 4096;

/// A rate, and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// How well that is known.
    pub quality: RateQuality,
}

/// How well a rate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateQuality {
    /// Processes that move bytes nowhere else in this direction counted it.
    Counted,
    /// So much at most: the processes may have moved some of it elsewhere.
    AtMost,
    /// So much at least: the processes may have moved more by calls that the kernel does not count.
    AtLeast,
}

/// What a process has read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Page faults of the children that it has waited for: they change with every such child.
    pub(super) child_faults: u64,
}

impl Counts {
    /// Reads the counts of a process; `None` where they are hidden.
    pub fn of(pid: Pid) -> Option<Counts> {
        let io = Io::of(pid)?;
        let child_faults = Stat::of(pid)?.waited_faults;
        Some(Counts { read_bytes: io.read_bytes, written_bytes: io.write_bytes, child_faults })
    }
}

/// What is known of programs: whether they can move bytes uncounted.
#[derive(Debug, Default)]
pub struct Programs(BTreeMap<(u64, u64, i64), bool>);

impl Programs {
    fn may_move_uncounted(&mut self, pid: Pid) -> bool {
        let Some(key) = program_file(pid) else { return true };
        if self.0.len() > MOST_PROGRAMS {
            self.0.clear();
        }
        *self.0.entry(key).or_insert_with(|| may_move_uncounted(pid, false).unwrap_or(true))
    }
}

/// The counts of two looks.
#[derive(Clone, Copy)]
pub struct Between<'a> {
    pub(super) before: &'a BTreeMap<Pid, Counts>,
    pub(super) now: &'a BTreeMap<Pid, Counts>,
    pub(super) open: &'a BTreeMap<Pid, Open>,
    pub(super) elapsed_s: f64,
}

/// What one side of a pipe counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndRate {
    bytes: u64,
    /// Whether the processes that moved bytes have nothing else in this direction.
    sole: bool,
    /// Whether the kernel counts all that the processes can move.
    all: bool,
}

impl Between<'_> {
    /// Returns the rate of a pipe; `None` where nothing is known of it.
    pub fn rate(&self, pipe: &HostPipe, programs: &mut Programs) -> Option<Rate> {
        let sides = [false, true].map(|writes| self.side(pipe, writes, programs));
        let (bytes, quality) = decide(sides)?;
        let bytes_per_s = bytes as f64 / self.elapsed_s.max(1e-3);
        Some(Rate { bytes_per_s, quality })
    }

    /// Returns what one side counted; `None` where a holder's count is hidden or new.
    fn side(&self, pipe: &HostPipe, writes: bool, programs: &mut Programs) -> Option<EndRate> {
        let target = Target::Pipe(pipe.identity.device, pipe.identity.inode);
        let holders = if writes { &pipe.writers } else { &pipe.readers };
        if holders.is_empty() {
            return None;
        }
        let mut side = EndRate { bytes: 0, sole: true, all: true };
        for holder in holders {
            let (then, now) = (self.before.get(&holder.pid)?, self.now.get(&holder.pid)?);
            let moved = |counts: &Counts| {
                if writes { counts.written_bytes } else { counts.read_bytes }
            };
            // An id that was given to another process begins anew.
            let bytes = moved(now).checked_sub(moved(then))?;
            side.bytes = side.bytes.saturating_add(bytes);
            let open = self.open.get(&holder.pid);
            let ends: Option<&BTreeSet<Target>> =
                open.map(|open| if writes { &open.writes } else { &open.reads });
            let no_other = ends.is_some_and(|ends| ends.iter().all(|it| *it == target));
            let own = now.child_faults == then.child_faults;
            side.sole &= bytes == 0 || (no_other && own);
            side.all = side.all && !programs.may_move_uncounted(holder.pid);
        }
        Some(side)
    }
}

/// Decides what the counts of the reading and of the writing side say about the pipe.
fn decide(sides: [Option<EndRate>; 2]) -> Option<(u64, RateQuality)> {
    let known = || sides.iter().flatten();
    if let Some(exact) = known().find(|side| side.sole && side.all) {
        return Some((exact.bytes, RateQuality::Counted));
    }
    if let Some(most) = known().filter(|side| side.all).map(|side| side.bytes).min() {
        return Some((most, RateQuality::AtMost));
    }
    let least = known().filter(|side| side.sole).map(|side| side.bytes).max()?;
    Some((least, RateQuality::AtLeast))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_that_of_the_pipe_only_without_another_way() {
        let side = |bytes, sole, all| Some(EndRate { bytes, sole, all });
        use RateQuality::{AtLeast, AtMost, Counted};
        assert_eq!(decide([side(5, true, true), side(9, false, true)]), Some((5, Counted)));
        assert_eq!(decide([side(5, false, true), side(9, true, true)]), Some((9, Counted)));
        assert_eq!(decide([side(5, false, true), side(9, false, true)]), Some((5, AtMost)));
        assert_eq!(decide([side(5, false, true), side(9, true, false)]), Some((5, AtMost)));
        assert_eq!(decide([side(5, true, false), side(9, true, false)]), Some((9, AtLeast)));
        assert_eq!(decide([side(5, false, false), None]), None);
        assert_eq!(decide([None, None]), None);
    }
}
