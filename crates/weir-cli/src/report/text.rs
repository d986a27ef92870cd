//! The report for people: what held the run up, what failed, three tables, and last the advice. With
//! `--verbose` it also says how each figure is known (`fine`).

use super::style::{Detail, ReportStyle};
use super::words;
use super::{Report, fine, groups, hot, rows, tables};
use anstyle::{AnsiColor, Style};
use weir_command::units::words::of_cpus;
use weir_command::units::{seconds, signal_name};
use weir_command::widths::wrap;
use weir_doctor::ending::Ending;
use weir_doctor::ends::EndRemark;
use weir_doctor::facts::{FailedCommand, Run};
use weir_doctor::failures::Role;
use weir_policy::text::printable;

/// The verdict's first line is repeated before the advice if more lines than this lie between: the top may
/// have left the screen.
const LINES_BETWEEN: usize = 20;

/// Writes the report.
pub fn text(report: &Report, look: &ReportStyle) -> String {
    let mut page = Page::new(look);
    let run = &report.run;
    page.sentence(&headline(report), Style::new());
    if nothing_ran(run) {
        return page.finish();
    }
    for remark in remarks(report) {
        let (grave, text) = remark;
        // Yellow and cyan cannot be read on white.
        let colour = if grave { AnsiColor::Red } else { AnsiColor::Magenta };
        let style = Style::new().fg_color(Some(colour.into()));
        page.sentence(&text, if grave { style.bold() } else { style });
    }
    for (at, sentence) in report.verdict.lines().enumerate() {
        page.sentence(sentence, if at == 0 { Style::new().bold() } else { Style::new() });
    }
    if let Some(phases) = words::phases(run, &report.found.phases) {
        page.sentence(&phases, Style::new());
    }
    let before = page.lines.len();
    if look.detail != Detail::Brief {
        body(report, &mut page);
    } else if look.hot {
        hot_functions(report, &mut page);
        hot::gaps(run).iter().for_each(|gap| page.sentence(gap, Style::new()));
    }
    for sentence in report.compared.iter().flat_map(|compared| &compared.sentences) {
        page.sentence(&format!("compare: {sentence}"), Style::new());
    }
    if page.lines.len() > before + LINES_BETWEEN {
        let first = report.verdict.lines().next().unwrap_or_default();
        page.sentence(first, Style::new().bold());
    }
    let hint = Style::new().fg_color(Some(AnsiColor::Magenta.into()));
    for advised in report.advised() {
        page.sentence(&format!("try: {}", words::with_gain(advised)), hint);
    }
    page.finish()
}

/// Writes no more than which command ended a script, or failed last before it did, and what it left
/// running with its output open; nothing where that is not known.
pub fn failures(report: &Report, look: &ReportStyle) -> String {
    let mut page = Page::new(look);
    failed_remarks(report).iter().for_each(|text| page.sentence(text, Style::new()));
    page.finish()
}

/// Returns these sentences.
pub(super) fn failed_remarks(report: &Report) -> Vec<String> {
    let has_line = |failed: &FailedCommand| failed.role != Role::Other && failed.line.is_some();
    match report.run.failed.iter().any(has_line) {
        true => remarks(report).into_iter().map(|(_, text)| text).collect(),
        false => report.run.left_output.iter().map(words::left_output).collect(),
    }
}

/// Writes the tables, and remarks on what they cannot show.
fn body(report: &Report, page: &mut Page) {
    let run = &report.run;
    let all = page.look.detail == Detail::Verbose;
    page.table(&groups::table(run, all, page.look.columns));
    if let Some(others) = groups::others(run, all) {
        page.sentence(&others, Style::new());
    }
    let rows = rows::choose(run, &report.found.verdict, all);
    for (number, table) in
        tables::tables(run, &report.found.verdict.stages, &rows.shown, page.look.columns)
            .iter()
            .enumerate()
    {
        // A table without rows is left out.
        page.table(if table.len() > 1 { table } else { &[] });
        if let Some(folded) = rows.folded.as_ref().filter(|_| number == 0) {
            page.sentence(folded, Style::new());
        }
    }
    hot_functions(report, page);
    notes(report).iter().for_each(|sentence| page.sentence(sentence, Style::new()));
    if all {
        for sentence in fine::print(run, &report.found.verdict) {
            page.sentence(&sentence, Style::new().dimmed());
        }
    }
}

/// Returns the remarks behind the tables.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let run = &report.run;
    let failed = words::failed_others(&run.failed);
    let notes = words::unseen(run).into_iter().chain(failed);
    notes.chain(fine::gaps(run, &report.found.verdict)).chain(hot::gaps(run)).collect()
}

fn hot_functions(report: &Report, page: &mut Page) {
    let all = page.look.detail == Detail::Verbose;
    for hot in hot::tables(&report.run, &report.found.verdict, all, page.look.columns) {
        page.sentence(&hot.heading, Style::new());
        page.table(&hot.table);
        hot.notes.iter().for_each(|note| page.sentence(note, Style::new().dimmed()));
    }
}

/// The lines of a report, in the width and colours of its look.
pub(super) struct Page<'a> {
    look: &'a ReportStyle,
    lines: Vec<String>,
}

impl<'a> Page<'a> {
    pub(super) fn new(look: &'a ReportStyle) -> Page<'a> {
        Page { look, lines: Vec::new() }
    }

    fn line(&mut self, line: &str, style: Style) {
        let coloured = self.look.colour && style != Style::new();
        self.lines.push(if coloured { format!("{style}{line}{style:#}") } else { line.to_owned() });
    }

    /// Adds a table, whose first line is its head.
    pub(super) fn table(&mut self, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            self.line(line, if at == 0 { Style::new().dimmed() } else { Style::new() });
        }
    }

    /// Adds a sentence, on as many lines as it needs.
    pub(super) fn sentence(&mut self, sentence: &str, style: Style) {
        let sentence = printable(sentence);
        if !self.look.wraps {
            return self.line(&sentence, style);
        }
        for line in wrap(&sentence, self.look.columns) {
            self.line(&line, style);
        }
    }

    /// Returns the whole text.
    pub(super) fn finish(self) -> String {
        self.lines.into_iter().map(|line| line + "\n").collect()
    }
}

pub(super) fn headline(report: &Report) -> String {
    let run = &report.run;
    let what = if run.script { "command" } else { "stage" };
    // Several groups are in a table with their lines. A script's shell is none of its commands.
    let mut commands = run.groups.iter().filter(|group| !group.is_parent());
    let only = match (commands.next(), commands.next()) {
        (Some(group), None) if run.script => words::place(group).map(|place| (group, place)),
        _ => None,
    };
    let number = only.as_ref().map_or(run.stages.len(), |(group, _)| group.run.stages.len());
    let stages = match number {
        0 if nothing_ran(run) => {
            return String::from("weir: nothing to run: the text holds no command");
        }
        // Everything that it started ended before weir could see it.
        0 => String::from("a script"),
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let cpus = of_cpus(run.cpus);
    let wall = match seconds(run.wall_ns).as_str() {
        "-" => String::from("under 1ms"),
        wall => wall.to_owned(),
    };
    let line = only.map(|(_, place)| format!(" ({place})"));
    let mut text = format!("weir: {wall} for {stages}{} on {cpus}", line.unwrap_or_default());
    if run.stopped_ns > 0 {
        text.push_str(&format!(", not counting {} stopped", seconds(run.stopped_ns)));
    }
    text
}

/// Returns whether the text has nothing but blanks and comments.
pub(super) fn nothing_ran(run: &Run) -> bool {
    run.stages.is_empty() && !run.script
}

/// Returns the name of a script in a sentence: its text, if that is short.
fn script_name(command: &str) -> &str {
    const LONGEST: usize = 40;
    let short = command.len() <= LONGEST && !command.contains('\n');
    if short && !command.is_empty() { command } else { "the script" }
}

/// Returns sentences on how the stages, or the script, ended, each with whether that is a failure.
pub(super) fn remarks(report: &Report) -> Vec<(bool, String)> {
    let run = &report.run;
    let said = |end: &EndRemark| {
        let (label, ending, failure) = match end.stage.map(|at| &run.stages[at]) {
            Some(stage) => (stage.label.as_str(), stage.ending, stage.failure.clone()),
            None => (script_name(&report.command), run.ending, None),
        };
        let how = failure.unwrap_or_else(|| match ending {
            Some(Ending::Code(code)) => words::status(code),
            Some(Ending::Signal(number)) => signal_name(number),
            None => String::new(),
        });
        (end.remark.is_grave(), words::remark(end, label, &how))
    };
    let mut remarks = Vec::new();
    for remark in report.found.ends.iter().map(said) {
        // One signal interrupts many.
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks.extend(
        run.failed
            .iter()
            .find(|failed| failed.role != Role::Other)
            .map(|failed| (!failed.ending.is_broken_pipe(), words::failed_last(failed))),
    );
    let unknown =
        "which of its commands failed is not known: the kernel did not report how they ended";
    remarks.extend(report.found.failed_unknown.then(|| (false, String::from(unknown))));
    remarks.extend(run.left_output.iter().map(|left| (false, words::left_output(left))));
    remarks
}
