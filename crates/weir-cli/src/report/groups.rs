//! The table of the groups found in a run: what ran when, how often, and for how long.

use super::layout::{Column, Grid, Name};
use super::tables::known;
use super::words;
use weir_command::units::{percent, seconds};
use weir_doctor::facts::{FoundGroup, Run};

/// The largest number of groups in the table. Those that took most of the time are kept.
const MOST: usize = 16;
/// A group with a smaller share of the run, or of its stage, gets no row.
const LITTLE: f64 = 0.01;
/// This share for a group inside of a stage: the text names none of its children.
const LITTLE_INSIDE: f64 = 0.05;
/// The order in which columns are left out when the terminal is too narrow.
const DROPS: [&str; 8] = ["longest", "shortest", "median", "from", "cpu", "rows", "times", "wall"];

/// Returns the table of groups, in the order of their starts. A run of one group has none. With `all`
/// those too that took little of the time.
pub fn table(run: &Run, all: bool, width: usize) -> Vec<String> {
    let shown = shown(run, all);
    if shown.is_empty() {
        return Vec::new();
    }
    let mut grid = grid(run, &shown);
    grid.fit(width, &DROPS);
    grid.lines(grid.name_columns(width), width)
}

/// Returns the table of these groups, before it is fitted to a width.
pub fn grid(run: &Run, shown: &[usize]) -> Grid {
    let groups = || shown.iter().map(|at| &run.groups[*at]);
    let column = |title, of: &dyn Fn(&FoundGroup) -> String| Column {
        title,
        words: false,
        cells: groups().map(of).collect(),
    };
    let several = |group: &FoundGroup, ns: u64| match group.instances {
        0 | 1 => String::new(),
        // Weir sees the longer ones.
        _ if !group.has_spread() => String::from("?"),
        _ => seconds(ns),
    };
    let share = |group: &FoundGroup| percent(Some(run.group_share(group)));
    let rows = |group: &FoundGroup| {
        let last = group.run.stages.len();
        match group.first_stage {
            Some(first) if last > 1 => format!("{}-{}", first + 1, first + last),
            Some(first) => format!("{}", first + 1),
            None => format!("in {}", group.inside.unwrap_or(0) + 1),
        }
    };
    let mark = |group: &FoundGroup| match group.instances {
        0 | 1 => "",
        _ => known(group.instances_evidence),
    };
    let cpu = |group: &FoundGroup| {
        let (cpu_ns, evidence) = group.cpu();
        match seconds(cpu_ns).as_str() {
            "-" => String::from("-"),
            cpu => format!("{}{cpu}", known(evidence)),
        }
    };
    let columns = vec![
        column("rows", &rows),
        column("from", &|group| seconds(group.start_ns)),
        column("wall", &|group| seconds(group.run.wall_ns)),
        column("share", &share),
        column("cpu", &cpu),
        column("times", &|group| format!("{}{}", mark(group), group.instances)),
        column("median", &|group| several(group, group.spread.median_ns)),
        column("shortest", &|group| several(group, group.spread.min_ns)),
        column("longest", &|group| several(group, group.spread.max_ns)),
    ];
    let digits = shown.iter().max().map_or(1, |last| (last + 1).to_string().len());
    let name = |at: &usize| Name {
        before: format!("{:>digits$} ", at + 1),
        name: words::name(&run.groups[*at]),
        after: String::new(),
    };
    let names = shown.iter().map(name).collect();
    Grid { title: "  group", names, columns }
}

/// Returns the sentence on the groups that got no row.
pub fn others(run: &Run, all: bool) -> Option<String> {
    let shown = shown(run, all);
    let left: Vec<&FoundGroup> = (0..run.groups.len())
        .filter(|at| is_beside_others(run, *at) && !shown.contains(at))
        .map(|at| &run.groups[at])
        .collect();
    if shown.is_empty() || left.is_empty() {
        return None;
    }
    let mut programs: Vec<(&str, u64)> = Vec::new();
    for group in &left {
        let name = group.run.stages.first().map_or("", |stage| stage.program.as_str());
        let name = if name.is_empty() { "unnamed" } else { name };
        match programs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += group.instances.max(1),
            None => programs.push((name, group.instances.max(1))),
        }
    }
    let most = left.iter().map(|group| run.group_share(group)).fold(0.0, f64::max);
    let (what, each) = match left.len() {
        1 => (String::from("1 more group"), ""),
        n => (format!("{n} more groups"), "each "),
    };
    let share = match most < LITTLE {
        true => String::from("below 1 %"),
        false => format!("up to {}", percent(Some(most))),
    };
    Some(format!("and {what}, {each}{share} of the time: {}", words::programs(programs)))
}

/// Whether a group has others beside it, or ran several times: a run or a stage that is one group has
/// rows already.
fn is_beside_others(run: &Run, at: usize) -> bool {
    let group = &run.groups[at];
    let beside = run.groups.iter().filter(|other| other.inside == group.inside).count();
    beside > 1 || group.instances > 1
}

/// Returns the groups that get a row.
pub fn shown(run: &Run, all: bool) -> Vec<usize> {
    let share = |at: usize| run.group_share(&run.groups[at]);
    let little = |at: usize| if run.groups[at].inside.is_some() { LITTLE_INSIDE } else { LITTLE };
    let counts = |at: &usize| is_beside_others(run, *at) && (all || share(*at) >= little(*at));
    let mut shown: Vec<usize> = (0..run.groups.len()).filter(counts).collect();
    if !all {
        let inside = |at: &usize| run.groups[*at].inside;
        let of: Vec<usize> = shown.iter().filter_map(inside).collect();
        let rows = |stage: usize| of.iter().filter(|other| **other == stage).count();
        // The row of the stage says as much.
        shown.retain(|at| {
            let once = run.groups[*at].instances <= 1;
            !inside(at).is_some_and(|stage| once && rows(stage) == 1)
        });
    }
    shown.sort_by(|one, other| share(*other).total_cmp(&share(*one)));
    if !all {
        shown.truncate(MOST);
    }
    shown.sort_by_key(|group| *group);
    shown
}
