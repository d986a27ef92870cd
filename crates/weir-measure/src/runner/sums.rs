//! The CPU time of a stage, including what the kernel's sums lack.

use crate::attribution::Group;
use weir_doctor::facts::{Evidence, Stage};

/// Samples may exceed the kernel's sums by this, and by 1/64 of them.
const TOLERANCE_NS: u64 = 1_000_000;

/// Sets user and system time from the kernel's sums for a stage's first process.
///
/// These include its own use and that of all descendants that were waited for, up to the first
/// process. Nobody waits for a process substitution of bash, nor for processes that a stage leaves
/// behind. The last known use of these is added; the sum is then a lower bound. It also is one
/// where samples show more use than the kernel's sums, by whatever processes.
pub(super) fn add_unreaped(stage: &mut Stage, group: &Group, (user_ns, system_ns): (u64, u64)) {
    let sum_ns = user_ns + system_ns;
    let unreaped = &group.unreaped;
    let missing_ns = unreaped.cpu_ns.max(group.gone.cpu_ns.saturating_sub(sum_ns));
    let told = unreaped.processes > 0 || missing_ns > TOLERANCE_NS + sum_ns / 64;
    (stage.user_ns, stage.system_ns) = (user_ns, system_ns);
    stage.cpu_evidence = match told || group.perhaps_unreaped {
        true => Evidence::LowerBound,
        false => Evidence::Exact,
    };
    if told {
        // The division is known for processes seen at the end, and else assumed to be as elsewhere.
        let whole = |of_ns: u64, part: u64, all: u64| {
            (u128::from(of_ns) * u128::from(part) / u128::from(all.max(1))) as u64
        };
        let system_ns = match unreaped.cpu_ns {
            0 => whole(missing_ns, system_ns, sum_ns),
            all => whole(missing_ns, unreaped.system_ns.min(all), all),
        };
        stage.system_ns += system_ns;
        stage.user_ns += missing_ns - system_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::{Endpoints, Unreaped};
    use weir_sys::proc::Sched;

    const MS: u64 = 1_000_000;

    fn sums(seen_ms: u64, unreaped: Unreaped, kernel: (u64, u64)) -> Stage {
        let gone = Sched { cpu_ns: seen_ms * MS, ..Sched::default() };
        let group = Group { gone, unreaped, ..Group::new(1, Endpoints::default(), 0) };
        let mut stage = Stage::default();
        add_unreaped(&mut stage, &group, (kernel.0 * MS, kernel.1 * MS));
        stage
    }

    #[test]
    fn what_was_waited_for_is_exact_however_little_was_seen_of_it() {
        let stage = sums(300, Unreaped::default(), (400, 100));
        assert_eq!((stage.user_ns, stage.system_ns), (400 * MS, 100 * MS));
        assert_eq!(stage.cpu_evidence, Evidence::Exact);
        // The kernel's sums and the scheduler's clock differ a little.
        let ahead = sums(501, Unreaped::default(), (400, 100));
        assert_eq!(ahead.cpu_evidence, Evidence::Exact);
    }

    /// `cat <(gzip ...)`: bash becomes cat, which waits for no gzip.
    #[test]
    fn what_nobody_waited_for_counts_as_last_seen() {
        let gzip = Unreaped {
            processes: 1,
            cpu_ns: 2000 * MS,
            system_ns: 500 * MS,
            ..Unreaped::default()
        };
        let stage = sums(2003, gzip, (3, 0));
        assert_eq!((stage.user_ns, stage.system_ns), (1503 * MS, 500 * MS));
        assert_eq!(stage.cpu_evidence, Evidence::LowerBound);
        // It was waited for by nobody, but not seen in the end either.
        let stage = sums(2003, Unreaped::default(), (3, 0));
        assert_eq!(stage.user_ns + stage.system_ns, 2003 * MS);
        assert_eq!(stage.cpu_evidence, Evidence::LowerBound);
    }
}
