//! The table of the groups found in a run: what ran when, how often, and for how long.

use super::layout::{Column, Grid, Name};
use super::tables::known;
use super::words;
use weir_command::units::{percent, seconds};
use weir_doctor::facts::{FoundGroup, Run};

/// The largest number of groups in the table. Those that took most of the time are kept.
const MOST: usize = 16;
/// A group with a smaller share of the run gets no row, unless it ran several times.
const LITTLE: f64 = 0.005;
/// The order in which columns are left out when the terminal is too narrow.
const DROPS: [&str; 8] = ["longest", "shortest", "median", "from", "cpu", "rows", "times", "wall"];

/// Returns the table of groups, in the order of their starts. A run of one group has none.
pub fn table(run: &Run, width: usize) -> Vec<String> {
    let shown = shown(run);
    if shown.is_empty() {
        return Vec::new();
    }
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
    let share = |group: &FoundGroup| {
        let whole_ns = group.inside.map_or(run.wall_ns, |stage| run.stages[stage].wall_ns);
        percent((whole_ns > 0).then(|| group.own_ns() as f64 / whole_ns as f64))
    };
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
    let mut grid = Grid { title: "  group", names, columns };
    grid.fit(width, &DROPS);
    grid.lines(grid.name_columns(width), width)
}

/// Returns the groups that get a row: those that have others beside them. A run or a stage that is one
/// group has rows already, unless the group ran several times.
fn shown(run: &Run) -> Vec<usize> {
    let is_one_of_several = |at: &usize| {
        let group = &run.groups[*at];
        let beside = run.groups.iter().filter(|other| other.inside == group.inside).count();
        let share = run.share(group.own_ns()) >= LITTLE || group.inside.is_some();
        (beside > 1 && share) || group.instances > 1
    };
    let mut shown: Vec<usize> = (0..run.groups.len()).filter(is_one_of_several).collect();
    shown.sort_by_key(|at| std::cmp::Reverse(run.groups[*at].own_ns()));
    shown.truncate(MOST);
    shown.sort();
    shown
}
