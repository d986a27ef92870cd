//! One row of a script: the stage made of the processes that ran one command.

use crate::attribution::{Files, Group, Peers, Places, shared};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_doctor::facts::{Copies, Dry, Evidence, FileRead, Io, Stage};
use weir_doctor::partition::{Samples, Sums};
use weir_doctor::programs::{is_relay, reads_to_end};

/// Returns the time in which at least one of the groups was alive.
fn alive_ns(groups: &[&Group]) -> u64 {
    let mut spans: Vec<(u64, u64)> = groups.iter().map(|g| (g.first_ns, g.last_ns)).collect();
    spans.sort();
    let (mut total, mut end) = (0, 0);
    for (first, last) in spans {
        total += last.max(end) - first.max(end).min(last.max(end));
        end = end.max(last);
    }
    total
}

/// Returns the time in which several tasks were alive: of one group, or of several groups at once.
fn several_ns(groups: &[&Group], wall_ns: u64) -> u64 {
    let lives_ns = groups.iter().map(|group| group.last_ns.saturating_sub(group.first_ns));
    let at_once_ns = lives_ns.sum::<u64>().saturating_sub(wall_ns);
    (groups.iter().map(|group| group.several_ns).sum::<u64>() + at_once_ns).min(wall_ns)
}

/// Returns the samples of all. Copies of a process, such as the workers of a pool, count together with it:
/// the time in which it waits for them is theirs. What is traced is known of each by itself.
fn samples(groups: &[&Group], is_traced: bool) -> Samples {
    let mut sum = Samples::default();
    for group in groups {
        let with = |of: i32| groups.iter().any(|it| it.root.pid == of && it.family.is_some());
        if !is_traced && group.copy_of.is_some_and(with) {
            continue;
        }
        let has_copy = || groups.iter().any(|it| it.copy_of == Some(group.root.pid));
        let family = group.family.as_ref().filter(|_| !is_traced && has_copy());
        sum.merge(family.unwrap_or(&group.samples));
    }
    sum
}

fn copies(groups: &[&Group]) -> Copies {
    let all = groups.iter().filter(|group| group.copy_of.is_some());
    all.map(|group| group.gone.cpu_ns).fold(Copies::default(), |sum, cpu_ns| Copies {
        processes: sum.processes + 1,
        cpu_ns: sum.cpu_ns + cpu_ns,
        most_cpu_ns: sum.most_cpu_ns.max(cpu_ns),
    })
}

/// Returns the files that processes of a command read to the end. The last look at each may have been
/// some time before: one that does not leave early, and was seen to have read half, read it all.
fn files_read(label: &str, groups: &[&Group]) -> Vec<FileRead> {
    let mut files: BTreeMap<&PathBuf, FileRead> = BTreeMap::new();
    for group in groups.iter().filter(|_| reads_to_end(label)) {
        let Some((bytes, path)) = &group.reads else { continue };
        let got = group.root.io.map_or(0, |io| io.read_bytes).max(group.position_bytes);
        if got.saturating_mul(2) >= *bytes {
            let file = files.entry(path).or_default();
            file.path = path.to_string_lossy().into_owned();
            file.bytes += bytes;
            file.times += 1;
        }
    }
    files.into_values().collect()
}

/// Makes the stage; each process was looked at within `tick_ns` before its end. `None`: what each
/// did is traced and exact.
pub(super) fn stage(label: &str, groups: &[&Group], tick_ns: Option<u64>) -> Stage {
    let samples = samples(groups, tick_ns.is_none());
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
    // What was hidden or never looked at, and threads that nobody saw, may have used more.
    let is_whole = |group: &&Group| !group.hidden && !group.several() && group.samples.count() > 0;
    if groups.len() > 1 && groups.iter().all(is_whole) {
        // Since the last look at each it may have used so much more.
        let most_ns = tick_ns.map(|tick_ns| cpu_ns + tick_ns * groups.len() as u64);
        times = times.within(&Sums { cpu_ns: most_ns, queue_ns });
    }
    let dry = groups.iter().fold(Dry::default(), |sum, group| sum.plus(group.dry.seen));
    times = dry.settle(times, &samples);
    // Every child that was found is a group of its own.
    times.stage_child_ns = times.child_ns;
    let (files, flushes) = Files::within(groups.iter().map(|group| &group.files), &times);
    let system_ns = groups
        .iter()
        .map(|group| group.gone.cpu_ns / 1000 * group.root.system_permille)
        .sum::<u64>();
    let io = groups.iter().filter_map(|group| group.root.io).reduce(Io::plus);
    let peaks = groups.iter().map(|group| group.peak_rss_bytes);
    let max_rss_bytes = peaks.max().filter(|bytes| *bytes > 0);
    // The accounts of tasks lack what they used last: all of it, for brief ones.
    let unsampled = groups.iter().any(|group| group.samples.count() == 0);
    let quotas = groups.iter().filter_map(|group| group.confined.0.as_ref());
    let limits = groups.iter().filter_map(|group| group.confined.1.as_ref());
    Stage {
        label: label.to_owned(),
        program: groups[0].root.program.clone(),
        processes: groups.len() as u64,
        wall_ns,
        times,
        single_task,
        several_ns: several_ns(groups, wall_ns),
        most_tasks: groups.iter().map(|group| group.most_tasks).max().unwrap_or(1),
        user_ns: cpu_ns.saturating_sub(system_ns),
        system_ns,
        copies: copies(groups),
        queue_sum_ns: queue_ns,
        samples: samples.count(),
        cpu_evidence: if unsampled { Evidence::LowerBound } else { Evidence::Sampled },
        io,
        bytes_evidence: if io.is_some() { Evidence::LowerBound } else { Evidence::Unknown },
        uncounted: groups.iter().any(|group| group.uncounted),
        max_rss_bytes,
        max_rss_evidence: max_rss_bytes.map_or(Evidence::Unknown, |_| Evidence::Sampled),
        hidden: groups.iter().any(|group| group.hidden),
        locale: groups[0].root.locale.clone(),
        unbuffered: groups[0].root.unbuffered,
        relay: is_relay(label),
        err_ns: groups.iter().map(|group| group.waits_for_err.1).sum::<u64>().min(wall_ns),
        times_asleep: groups.iter().map(|group| group.times_asleep).sum(),
        peer: Peers::longest(groups.iter().map(|group| &group.peers)),
        files,
        flushes,
        lines: Places::of(groups.iter().map(|group| &group.places)),
        data_readers: groups.iter().filter(|group| group.reads.is_some()).count() as u64,
        files_read: files_read(label, groups),
        shared_file: shared(groups.iter().map(|group| &group.reads)),
        quota: quotas.max_by_key(|held| held.quota.throttled_ns).cloned(),
        memory_limit: limits.max_by_key(|limit| limit.times_reached).cloned(),
        major_faults: Some(groups.iter().map(|group| group.major_faults).sum()),
        ..Stage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Endpoints;
    use weir_doctor::state::TaskState;

    /// Three md5sum behind gzip were on a CPU for 0.21 s by samples, and used 41 ms: a tick often
    /// finds what it has just woken.
    #[test]
    fn processes_were_not_on_a_cpu_for_longer_than_they_used_one() {
        const MS: u64 = 1_000_000;
        let of = |hidden| {
            let md5sum = |first_ms: u64| {
                let mut group = group(first_ms * MS, (first_ms + 2000) * MS);
                group.samples.add(TaskState::Running, 70 * MS, 1000);
                group.samples.add(TaskState::BlockedIn, 1930 * MS, 0);
                (group.gone.cpu_ns, group.hidden) = (14 * MS, hidden);
                group
            };
            let all = [md5sum(0), md5sum(2000), md5sum(4000)];
            stage("md5sum", &all.iter().collect::<Vec<_>>(), Some(16 * MS)).times
        };
        let times = of(false);
        assert_eq!((times.cpu_ns / MS, times.input_ns / MS), (90, 5910));
        assert_eq!(of(true).cpu_ns / MS, 210, "what is hidden may have used more");
    }

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
