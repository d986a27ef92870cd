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
use std::fmt::Write as _;
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{Cell, Table, document, escape, section, shown};
use weir_command::units::words::of_cpus;
use weir_command::units::{percent, seconds, utc};
use weir_command::widths::cut;
use weir_doctor::facts::Run;
use weir_policy::text::printable;

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
    let mut body = head(report, place);
    let course = run.history.as_ref().map(|history| Course::new(history, run.wall_ns));
    // The processes of a script stand under what they belong to.
    let in_groups = run.groups.iter().any(|group| group.first_stage.is_some());
    if let Some(course) = course.filter(|_| !in_groups) {
        body += &section(
            "What each stage did over time",
            "Each band is a stage, from left to right the time. Its height is divided among what the \
             stage was found doing: a full dark band is a stage that computes.",
            course.stages(&phase_names(run)),
        );
        body += &section(
            "How full the pipes were",
            "The area is the mean fill, the line above it the largest. A pipe that stays full has a \
             slow reader; one that stays empty has a slow writer.",
            course.fills(&run.pipes),
        );
    }
    if !in_groups {
        let all: Vec<usize> = (0..run.stages.len()).collect();
        let [times, data, pipes] = grids(run, &report.found.verdict.stages, &all);
        let tables = tables::table("stage", &times) + &tables::table("stage", &data);
        body += &section("The stages", "", tables);
        body += &section("The pipes", "", tables::table("pipe", &pipes));
    }
    body += &groups::sections(report);
    body += &section(
        "Where in the stages",
        "The functions in which each stage was when it was sampled on a CPU. Time that a stage waits \
         is not sampled.",
        functions(run),
    );
    let notes = fine::gaps(run, &report.found.verdict)
        .into_iter()
        .chain(hot::gaps(run))
        .chain(fine::print(run, &report.found.verdict));
    let notes: String = notes.map(|note| format!("<li>{}</li>\n", shown(&note))).collect();
    if !notes.is_empty() {
        body += &section("How the figures were obtained", "", format!("<ul>\n{notes}</ul>\n"));
    }
    let title = format!("{}: {}", verb(report), printable(&cut(&report.command, 80)));
    document(&title, STYLE, &body)
}

/// The verb that made the report.
pub fn verb(report: &Report) -> &'static str {
    if report.run.watched.is_some() { "weir watch" } else { "weir run" }
}

fn head(report: &Report, place: &Place) -> String {
    let run = &report.run;
    let mut lines = report.verdict.lines();
    let first = lines.next().unwrap_or_default();
    let more: String = lines.map(|line| format!("<p>{}</p>\n", shown(line))).collect();
    let item = |advised| format!("<li>{}</li>\n", shown(&with_gain(advised)));
    let advice: String = report.advised().map(item).collect();
    let advice = match advice.is_empty() {
        true => advice,
        false => format!("<p>To try:</p>\n<ul class=\"remarks\">\n{advice}</ul>\n"),
    };
    let phases = phases(run, &report.found.phases);
    let more = more + &phases.map_or_else(String::new, |text| format!("<p>{}</p>\n", shown(&text)));
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
    let facts: String = facts
        .iter()
        .filter(|(name, _)| own || *name != "exit status")
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", shown(value)))
        .collect();
    format!(
        "<header>\n<h1>{}</h1>\n<pre class=\"command\">{}</pre>\n<p class=\"lead\">{}</p>\n{more}\
         {advice}<dl class=\"facts\">\n{facts}</dl>\n</header>\n",
        verb(report),
        // The lines of a script stay lines.
        escape(&weir_policy::text::printable_lines(&report.command)),
        shown(first)
    )
}

/// The functions of each stage, with a bar for the share.
fn functions(run: &Run) -> String {
    let Some(code) = &run.hot else { return String::new() };
    let mut text = String::new();
    for one in code.stages.iter().filter(|one| one.samples > 0) {
        let _ = writeln!(
            text,
            "<h3>{}</h3>\n<p class=\"soft\">n = {} samples, {} for each second of CPU time</p>",
            shown(&hot::subject(run, one)),
            one.samples,
            code.samples_per_s
        );
        let mut table = Table::new(&[
            Words("function"),
            Words("in"),
            Figures("samples"),
            Figures("share"),
            Words(""),
        ]);
        for function in one.functions.iter().take(FUNCTIONS) {
            let share = one.share(function);
            let bar = format!("<i style=\"width:{:.1}%\"></i>", share * 100.0);
            table.row([
                Cell::html(format!("<code>{}</code>", shown(hot::name(function)))),
                Cell::text(&function.place),
                Cell::text(function.samples.to_string()),
                Cell::text(percent(Some(share))),
                Cell::html(bar).with_class("bar"),
            ]);
        }
        text += &table.finish();
        let more = one.functions.len().saturating_sub(FUNCTIONS);
        if more > 0 {
            let _ = writeln!(text, "<p class=\"soft\">and {more} more</p>");
        }
    }
    text
}
