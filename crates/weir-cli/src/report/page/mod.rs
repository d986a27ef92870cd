//! A run as one HTML page that contains its styles and drawings, and has no scripts and makes no
//! requests.
//!
//! - [`lanes`]: what each stage did over time, and how full the pipes were.
//! - [`groups`]: what was found in a script or inside of stages, a row over time for each.
//! - [`tables`]: the tables of the report.
//! - this file: the verdict, where and when it was, the functions.

mod groups;
mod lanes;
mod tables;

use super::tables::grids;
use super::words::{phase_names, phases, with_gain};
use super::{Report, fine, hot};
use lanes::Course;
use maud::{Markup, html};
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{self, Cell, Table, document, nothing, section};
use weir_command::units::words::of_cpus;
use weir_command::units::{percent, seconds, utc};
use weir_command::widths::cut;
use weir_doctor::facts::{HotStage, Run};
use weir_policy::text::{printable, printable_lines};

const STYLE: &str = include_str!("style.css");
/// Most functions of one stage.
const FUNCTIONS: usize = 15;

/// Where and when a run took place.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// When it began, in seconds since 1970.
    pub begun_unix_s: u64,
    /// The name of the host.
    pub host: String,
    /// The model of its CPUs.
    pub cpu: String,
    /// The name and the release of its kernel.
    pub kernel: String,
}

/// Writes the page.
pub fn html(report: &Report, place: &Place) -> String {
    let run = &report.run;
    let course = run.history.as_ref().map(|history| Course::new(history, run.wall_ns));
    // The processes of a script stand under what they belong to.
    let in_groups = run.groups.iter().any(|group| group.first_stage.is_some());
    let notes = fine::gaps(run, &report.found.verdict)
        .into_iter()
        .chain(hot::gaps(run))
        .chain(fine::print(run, &report.found.verdict));
    let notes: Vec<String> = notes.map(|note| printable(&note)).collect();
    let body = html! {
        (head(report, place))
        @if let Some(course) = course.filter(|_| !in_groups) { (courses(run, &course)) }
        @if !in_groups { (figures(report)) }
        (groups::sections(report))
        (section(
            "Where in the stages",
            "The functions in which each stage was when it was sampled on a CPU. Time that a stage waits \
             is not sampled.",
            functions(run),
        ))
        @if !notes.is_empty() {
            (section(
                "How the figures were obtained",
                "",
                html! { ul { @for note in &notes { li { (note) } } } },
            ))
        }
    };
    let title = format!("{}: {}", verb(report), printable(&cut(&report.command, 80)));
    document(&title, STYLE, &body)
}

/// What the stages did, and how full the pipes were.
fn courses(run: &Run, course: &Course) -> Markup {
    html! {
        (section(
            "What each stage did over time",
            "Each band is a stage, from left to right the time. Its height is divided among what the \
             stage was found doing: a full dark band is a stage that computes.",
            course.stages(&phase_names(run)),
        ))
        (section(
            "How full the pipes were",
            "The area is the mean fill, the line above it the largest. A pipe that stays full has a \
             slow reader; one that stays empty has a slow writer.",
            course.fills(&run.pipes),
        ))
    }
}

/// The tables of the report.
fn figures(report: &Report) -> Markup {
    let all: Vec<usize> = (0..report.run.stages.len()).collect();
    let [times, data, pipes] = grids(&report.run, &report.found.verdict.stages, &all);
    let stages = html! { (tables::table("stage", &times)) (tables::table("stage", &data)) };
    html! {
        (section("The stages", "", stages))
        (section("The pipes", "", tables::table("pipe", &pipes)))
    }
}

/// The verb that made the report.
pub fn verb(report: &Report) -> &'static str {
    if report.run.watched.is_some() { "weir watch" } else { "weir run" }
}

fn head(report: &Report, place: &Place) -> Markup {
    let run = &report.run;
    let mut lines = report.verdict.lines();
    let first = lines.next().unwrap_or_default();
    let advice: Vec<String> = report.advised().map(with_gain).collect();
    let phases = phases(run, &report.found.phases);
    let facts = [
        ("begun", format!("{} UTC", utc(place.begun_unix_s))),
        ("wall time", seconds(run.wall_ns)),
        ("exit status", report.status.to_string()),
        ("host", place.host.clone()),
        ("CPU", format!("{}, {}", of_cpus(run.cpus), place.cpu)),
        ("kernel", place.kernel.clone()),
        ("samples of states", run.ticks.to_string()),
        ("weir", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    // Processes that ran already end for those that started them.
    let own = run.watched.is_none();
    let facts = facts.into_iter().filter(|(name, _)| own || *name != "exit status");
    html! {
        header {
            h1 { (verb(report)) }
            // The lines of a script stay lines.
            pre.command { (printable_lines(&report.command)) }
            p.lead { (printable(first)) }
            @for line in lines { p { (printable(line)) } }
            @if let Some(phases) = phases { p { (printable(&phases)) } }
            @if !advice.is_empty() {
                p { "To try:" }
                (html::remarks(advice))
            }
            (html::facts(facts))
        }
    }
}

/// The functions of each stage, with a bar for the share.
fn functions(run: &Run) -> Markup {
    let Some(code) = &run.hot else { return nothing() };
    html! {
        @for one in code.stages.iter().filter(|one| one.samples > 0) {
            h3 { (printable(&hot::subject(run, one))) }
            p.soft {
                "n = " (one.samples) " samples, " (code.samples_per_s) " for each second of CPU time"
            }
            (functions_of(one))
            @let more = one.functions.len().saturating_sub(FUNCTIONS);
            @if more > 0 { p.soft { "and " (more) " more" } }
        }
    }
}

fn functions_of(one: &HotStage) -> Markup {
    let mut table = Table::new(&[
        Words("function"),
        Words("in"),
        Figures("samples"),
        Figures("share"),
        Words(""),
    ]);
    for function in one.functions.iter().take(FUNCTIONS) {
        let share = one.share(function);
        let width = format!("width:{:.1}%", share * 100.0);
        table.row([
            Cell::markup(html! { code { (printable(hot::name(function))) } }),
            Cell::text(&function.place),
            Cell::text(function.samples.to_string()),
            Cell::text(percent(Some(share))),
            Cell::markup(html! { i style=(width) {} }).with_class("bar"),
        ]);
    }
    table.finish()
}
