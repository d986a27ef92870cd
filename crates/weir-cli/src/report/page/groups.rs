//! The pipelines and commands that were found in a script, a build or a stage: a row over time for each, the
//! largest first, that opens to show its own stages.

use super::lanes::Course;
use super::tables::table;
use crate::report::tables::{grids, known};
use crate::report::{Report, words};
use maud::{Markup, html};
use weir_command::html::{folded, nothing, section};
use weir_command::units::words::count;
use weir_command::units::{percent, seconds};
use weir_doctor::facts::{FoundGroup, Lane};
use weir_policy::text::printable;

/// A group with a smaller share of the time stands with the other little ones.
const LITTLE: f64 = 0.005;
/// Most groups that have a row.
const MOST: usize = 40;

/// The sections of the groups; nothing where there are none.
pub fn sections(report: &Report) -> Markup {
    let run = &report.run;
    let of = |is_inside: bool| {
        (0..run.groups.len()).filter(move |at| run.groups[*at].inside.is_some() == is_inside)
    };
    let script = section(
        "What ran when",
        "A row is a pipeline or a command, the largest first. From left to right goes the time; the colour \
         shows what its busiest process did. A row opens to show its stages.",
        rows(report, of(false).collect(), true),
    );
    let inside = section(
        "What ran inside of the stages",
        "A row is a pipeline or a command that a stage started, the largest first; from left to right goes \
         the time.",
        rows(report, of(true).collect(), false),
    );
    html! { (script) (inside) }
}

fn rows(report: &Report, mut groups: Vec<usize>, is_script: bool) -> Markup {
    let run = &report.run;
    if groups.is_empty() {
        return nothing();
    }
    groups.sort_by_key(|at| std::cmp::Reverse(run.groups[*at].own_ns()));
    let course = run.history.as_ref().map(|history| Course::new(history, run.wall_ns));
    let course = course.as_ref();
    let is_large = |at: &usize| run.group_share(&run.groups[*at]) >= LITTLE;
    let large = groups.iter().filter(|at| is_large(at)).count().clamp(1, MOST).min(groups.len());
    let little = &groups[large..];
    let little_ones = html! { @for at in little { (row(report, *at, course, false)) } };
    let without = |course: &Course| {
        let lanes = course.lanes().filter(|lane| lane.stage.is_none());
        html! { @for lane in lanes { (course.lane(lane)) } }
    };
    let others = course.filter(|_| is_script).map_or_else(nothing, without);
    html! {
        @if let Some(course) = course {
            @if is_script { (course.key()) }
            (course.axis())
        }
        @for (place, at) in groups[..large].iter().enumerate() {
            (row(report, *at, course, place == 0))
        }
        (folded(&format!("{} more, which took little of the time", little.len()), little_ones))
        (folded("Shells that waited for these, and processes without a row", others))
    }
}

fn row(report: &Report, at: usize, course: Option<&Course>, is_open: bool) -> Markup {
    let run = &report.run;
    let group = &run.groups[at];
    let (part, name) = (percent(Some(run.group_share(group))), words::name(group));
    let when = facts(group).join(", ");
    let title = format!("{part} of the time: {} {name}: {when}", at + 1);
    let band = |course: &Course| course.group(&title, &group.spans, &lanes_of(course, group));
    html! {
        details.group open[is_open] {
            summary {
                b { (part) } " "
                span { (at + 1) " " (printable(&name)) } " "
                span.soft { (printable(&when)) }
                (course.map_or_else(nothing, band))
            }
            (inside(report, at, course))
        }
    }
}

/// What is below the row: what held the group up, its stages and its pipes.
fn inside(report: &Report, at: usize, course: Option<&Course>) -> Markup {
    let (run, group) = (&report.run, &report.run.groups[at]);
    // Those of a script have the numbers that they have in the report.
    let (of, verdict, first) = match group.first_stage {
        Some(first) => (run, &report.found.verdict, first),
        None => (&group.run, &report.found.groups[at].verdict, 0),
    };
    let stages: Vec<usize> = (first..first + group.run.stages.len()).collect();
    let [times, data, pipes] = grids(of, &verdict.stages, &stages);
    let lanes = course.map_or_else(Vec::new, |course| lanes_of(course, group));
    html! {
        @if let Some(why) = words::why(group, &report.found.groups[at]) { p { (printable(&why)) } }
        (table("stage", &times))
        (table("stage", &data))
        (table("pipe", &pipes))
        // One alone is the row above.
        @if let Some(course) = course.filter(|_| lanes.len() > 1) {
            @for lane in &lanes { (course.lane(lane)) }
        }
    }
}

fn lanes_of<'a>(course: &Course<'a>, group: &FoundGroup) -> Vec<&'a Lane> {
    let Some(first) = group.first_stage else { return Vec::new() };
    let rows = first..first + group.run.stages.len();
    let mut lanes: Vec<&Lane> = course
        .lanes()
        .filter(|lane| lane.stage.is_some_and(|stage| rows.contains(&stage)))
        .collect();
    lanes.sort_by_key(|lane| (lane.stage, lane.first));
    lanes
}

/// When it ran and how often, and what it used.
fn facts(group: &FoundGroup) -> Vec<String> {
    let (cpu_ns, evidence) = group.cpu();
    let start = Some(seconds(group.start_ns)).filter(|start| start != "-");
    let mut facts = vec![
        format!("from {}", start.as_deref().unwrap_or("0s")),
        format!("wall {}", seconds(group.run.wall_ns)),
        format!("CPU {}{}", known(evidence), seconds(cpu_ns)),
    ];
    if group.instances > 1 {
        let times = format!("{}{} times", known(group.instances_evidence), count(group.instances));
        let spread = &group.spread;
        facts.push(match group.has_spread() {
            true => format!(
                "{times}: median {}, {} to {}",
                seconds(spread.median_ns),
                seconds(spread.min_ns),
                seconds(spread.max_ns)
            ),
            false => times,
        });
    }
    facts
}
