//! How fast counts grow while a run continues.

use std::collections::VecDeque;
use weir_measure::attribution::{Group, Sampler};
use weir_sys::proc::{Io, ProcContents};

/// The time over which rates are averaged.
const RATE_NS: u64 = 3_000_000_000;

/// Returns how many bytes have passed through a stage. `None`: it has several processes.
pub fn moved_bytes(group: &Group, sampler: &Sampler) -> Option<u64> {
    let io = counted(group)?;
    let is = |end| sampler.pipes.iter().any(|pipe| Some(pipe.identity) == end);
    Some(match (is(group.root.ends.input), is(group.root.ends.output)) {
        (true, _) => io.read_bytes,
        // What it moved by splice, only its reader counts.
        (false, true) if group.may_splice == Some(true) => {
            let groups = sampler.population.groups.iter();
            let mut readers =
                groups.filter(|other| other.root.ends.input == group.root.ends.output);
            let reader = readers.next().and_then(counted);
            io.write_bytes.max(reader.map_or(0, |reader| reader.read_bytes))
        }
        (false, true) => io.write_bytes,
        _ => io.read_bytes.max(io.write_bytes),
    })
}

/// Returns what the kernel counted for a stage of one process.
fn counted(group: &Group) -> Option<Io> {
    Io::of(group.root.pid).filter(|_| !group.several())
}

/// The rate of a count that grows, over the last few seconds.
#[derive(Debug, Default)]
pub struct Progress {
    of: u64,
    seen: VecDeque<(u64, u64)>,
}

impl Progress {
    /// Returns the rate of what `of` counts. `None`: it has not been watched for long enough.
    pub fn per_s(&mut self, now_ns: u64, of: u64, count: u64) -> Option<u64> {
        /// A rate over less time would be chance.
        const LEAST_NS: u64 = 400_000_000;
        let shrunk = self.seen.back().is_some_and(|(_, last)| *last > count);
        if std::mem::replace(&mut self.of, of) != of || shrunk {
            self.seen.clear();
        }
        self.seen.push_back((now_ns, count));
        while self.seen.len() > 2 && now_ns.saturating_sub(self.seen[1].0) >= RATE_NS {
            self.seen.pop_front();
        }
        let (then_ns, before) = *self.seen.front()?;
        let time_ns = now_ns.saturating_sub(then_ns);
        let per_s = u128::from(count - before) * 1_000_000_000 / u128::from(time_ns.max(1));
        (time_ns >= LEAST_NS).then(|| u64::try_from(per_s).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut progress = Progress::default();
        let second = 1_000_000_000;
        assert_eq!(progress.per_s(0, 1, 0), None);
        assert_eq!(progress.per_s(second, 1, 500), Some(500));
        assert_eq!(progress.per_s(10 * second, 1, 500), Some(0));
        assert_eq!(progress.per_s(11 * second, 2, 900), None, "of something else");
        assert_eq!(progress.per_s(12 * second, 2, 100), None, "begun anew");
    }
}
