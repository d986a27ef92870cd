//! A run as one HTML page that contains its styles and drawings, and has no scripts and makes no
//! requests.
//!
//! - [`lanes`]: what each stage did over time, and how full the pipes were.
//! - this file: the verdict, the tables, the functions.

mod lanes;

use super::words::{mark_word, phase_names, with_gain};
use super::{Report, fine, hot};
use std::fmt::Write as _;
use weir_command::html::Column::{Figures, Words};
use weir_command::html::{Cell, Table, document, escape, section, shown};
use weir_command::units::words::cpus;
use weir_command::units::{bytes, capacity, ending, percent, seconds};
use weir_command::widths::cut;
use weir_doctor::facts::Run;
use weir_policy::text::printable;

const STYLE: &str = include_str!("style.css");
/// Most functions of one stage.
const FUNCTIONS: usize = 15;

/// Writes the page.
pub fn html(report: &Report) -> String {
    let run = &report.run;
    let mut body = head(report);
    if let Some(history) = &run.history {
        body += &section(
            "What each stage did over time",
            "Each band is a stage, from left to right the time. Its height is divided among what the \
             stage was found doing: a full dark band is a stage that computes.",
            lanes::stages(history, &phase_names(run), run.wall_ns),
        );
        body += &section(
            "How full the pipes were",
            "The area is the mean fill, the line above it the largest. A pipe that stays full has a \
             slow reader; one that stays empty has a slow writer.",
            lanes::fills(history, &run.pipes, run.wall_ns),
        );
    }
    body += &section("The stages", "", stages(run));
    body += &section("The pipes", "", pipes(run));
    body += &section(
        "Where in the stages",
        "The functions in which each stage was when it was sampled on a CPU. Time that a stage waits \
         is not sampled.",
        functions(run),
    );
    let notes = fine::gaps(run).into_iter().chain(hot::gaps(run)).chain(fine::print(run));
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

fn head(report: &Report) -> String {
    let run = &report.run;
    let mut lines = report.verdict.text.lines();
    let first = lines.next().unwrap_or_default();
    let more: String = lines.map(|line| format!("<p>{}</p>\n", shown(line))).collect();
    let advice = report.advice.iter();
    let advice: String = advice
        .map(|said| format!("<li>{}</li>\n", shown(&with_gain(said))))
        .collect();
    let advice = match advice.is_empty() {
        true => advice,
        false => format!("<p>To try:</p>\n<ul class=\"remarks\">\n{advice}</ul>\n"),
    };
    let facts = [
        ("wall time", seconds(run.wall_ns)),
        ("CPUs", cpus(run.cpus)),
        ("exit status", report.status.to_string()),
        ("samples of states", run.ticks.to_string()),
    ];
    // Processes that ran already end for those that started them.
    let own = run.watched.is_none();
    let facts: String = facts
        .iter()
        .filter(|(name, _)| own || *name != "exit status")
        .map(|(name, value)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escape(value)))
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

fn stages(run: &Run) -> String {
    let row = |(at, stage): (usize, &weir_doctor::facts::Stage)| {
        let times = &stage.times;
        let busy = (stage.wall_ns > 0).then(|| times.busy_ns() as f64 / stage.wall_ns as f64);
        let moved = run.passed(at);
        let mark = mark_word(moved.1);
        [
            (at + 1).to_string(),
            stage.label.clone(),
            seconds(stage.wall_ns),
            percent(busy),
            seconds(times.cpu_ns),
            seconds(times.queue_ns),
            seconds(times.input_ns),
            seconds(times.output_ns),
            seconds(times.other_ns()),
            moved.0.map_or_else(|| String::from("?"), |n| format!("{mark}{}", bytes(n))),
            ending(stage),
        ]
    };
    if run.stages.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Figures(""),
        Words("stage"),
        Figures("wall"),
        Figures("busy"),
        Figures("on a CPU"),
        Figures("waits for a CPU"),
        Figures("for input"),
        Figures("for output"),
        Figures("other"),
        Figures("bytes"),
        Words("exit"),
    ]);
    run.stages.iter().enumerate().for_each(|stage| table.row(row(stage).map(Cell::text)));
    table.finish()
}

fn pipes(run: &Run) -> String {
    let row = |pipe: &weir_doctor::facts::Pipe| {
        [
            format!("{} to {}", pipe.from + 1, pipe.to + 1),
            capacity(pipe.capacity_bytes),
            percent(pipe.mean_fill),
            percent((pipe.capacity_bytes > 0).then_some(pipe.max_fill)),
            percent(pipe.full_share),
            percent(pipe.empty_share),
        ]
    };
    if run.pipes.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        Words("pipe"),
        Figures("size"),
        Figures("mean fill"),
        Figures("largest fill"),
        Figures("time full"),
        Figures("time empty"),
    ]);
    run.pipes.iter().for_each(|pipe| table.row(row(pipe).map(Cell::text)));
    table.finish()
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
