//! One row of a script: the stage made of the processes that ran one command.

use crate::attribution::{Files, Group, Peers};
use weir_doctor::facts::{Evidence, Io, Stage};
use weir_doctor::partition::Samples;
use weir_doctor::programs::is_relay;

/// Returns the time in which at least one of the groups was alive.
fn alive_ns(groups: &[&Group]) -> u64 {
    let mut spans: Vec<(u64, u64)> = groups.iter().map(|g| (g.first_ns, g.last_ns)).collect();
    weir_policy::sort::by_key(&mut spans, |span| *span);
    let (mut total, mut end) = (0, 0);
    for (first, last) in spans {
        total += last.max(end) - first.max(end).min(last.max(end));
        end = end.max(last);
    }
    total
}

pub(super) fn stage(label: &str, groups: &[&Group]) -> Stage {
    let mut samples = Samples::default();
    groups.iter().for_each(|group| samples.merge(&group.samples));
    let wall_ns = alive_ns(groups);
    let (cpu_ns, queue_ns) = groups
        .iter()
        .fold((0, 0), |(cpu, queue), group| (cpu + group.gone.cpu_ns, queue + group.gone.queue_ns));
    let single_task = groups.len() == 1 && !groups[0].several();
    let mut times = if single_task {
        samples.divide_blocked(wall_ns, cpu_ns, queue_ns)
    } else {
        samples.divide_wall(wall_ns)
    };
    // Every child that was found is a group of its own.
    times.stage_child_ns = times.child_ns;
    let system_ns =
        groups.iter().map(|group| group.gone.cpu_ns / 1000 * group.system_permille).sum::<u64>();
    let io = groups.iter().filter_map(|group| group.io).reduce(Io::plus);
    // The accounts of tasks lack what they used last: all of it, for brief ones.
    let unsampled = groups.iter().any(|group| group.samples.count() == 0);
    Stage {
        label: label.to_owned(),
        program: groups[0].program.clone(),
        processes: groups.len() as u64,
        wall_ns,
        times,
        single_task,
        most_tasks: groups.iter().map(|group| group.most_tasks).max().unwrap_or(1),
        user_ns: cpu_ns.saturating_sub(system_ns),
        system_ns,
        queue_sum_ns: queue_ns,
        samples: samples.count(),
        cpu_evidence: if unsampled { Evidence::LowerBound } else { Evidence::Sampled },
        io,
        bytes_evidence: if io.is_some() { Evidence::LowerBound } else { Evidence::Unknown },
        uncounted: groups.iter().any(|group| group.uncounted),
        max_rss_bytes: groups.iter().map(|group| group.peak_rss_bytes).max().filter(|b| *b > 0),
        max_rss_evidence: Evidence::Sampled,
        hidden: groups.iter().any(|group| group.hidden),
        locale: groups[0].locale.clone(),
        relay: is_relay(label),
        times_asleep: groups.iter().map(|group| group.times_asleep).sum(),
        peer: Peers::longest(groups.iter().map(|group| &group.peers)),
        files: Files::of(groups.iter().map(|group| &group.files)),
        ..Stage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Endpoints;

    fn group(first_ns: u64, last_ns: u64) -> Group {
        Group { last_ns, ..Group::new(1, Endpoints::default(), first_ns) }
    }

    #[test]
    fn times_alive_are_a_union_not_a_sum() {
        let (a, b, c) = (group(10, 30), group(20, 40), group(100, 110));
        assert_eq!(alive_ns(&[&a, &b, &c]), 40);
        assert_eq!(alive_ns(&[&b, &a]), 30);
        assert_eq!(alive_ns(&[]), 0);
    }
}
