//! The report as Markdown, which GitHub and GitLab render: what held the run up, what failed, the advice, and
//! a table with a bar in each row.
//!
//! Names that others chose stand in code spans, where nothing is markup and nobody is mentioned; sentences are
//! escaped. The bars are characters, so that they need no image and can be read in the source too.

use super::layout::{Column, Grid, Name};
use super::style::Detail;
use super::text::{headline, notes, nothing_ran, remarks};
use super::words::{self, with_gain};
use super::{Report, fine, groups, hot, rows, tables};
use weir_command::units::seconds;
use weir_command::widths::cut;
use weir_doctor::facts::{FoundGroup, Run, Stage};
use weir_policy::text::{printable, printable_lines};

/// The length of a bar.
const BAR: usize = 24;
/// The longest name in a table.
const NAME_COLUMNS: usize = 60;
/// Most lines of a command, and how long one may be.
const COMMAND_LINES: usize = 12;
const COMMAND_COLUMNS: usize = 200;
/// The width of tables that stand as they are.
const COLUMNS: usize = 100;
/// A blank that nothing takes away.
const BLANK: char = '\u{a0}';
/// The marks of a bar: a full block, a shade, a middle dot.
const ON_CPU: char = '\u{2588}';
const WAITS_FOR_CPU: char = '\u{2592}';
const ELSE: char = '\u{b7}';

/// Writes the report. A heading stands above each, so that several can follow one another.
pub fn markdown(report: &Report, verb: &str, detail: Detail) -> String {
    let run = &report.run;
    let headline = headline(report);
    let what = headline.strip_prefix("weir: ").unwrap_or(&headline);
    let mut text = format!("### {verb}: {}\n\n{}\n", escaped(what), command(&report.command));
    if nothing_ran(run) {
        return text;
    }
    text += &list(remarks(report).into_iter().map(|(grave, text)| match grave {
        true => format!("**{}**", escaped(&text)),
        false => escaped(&text),
    }));
    let (first, more) = report.verdict.split_once('\n').unwrap_or((&report.verdict, ""));
    text += &format!("\n**{}**\n", escaped(first));
    let phases = words::phases(run, &report.found.phases);
    let advice = report.advised().map(|advised| format!("try: {}", with_gain(advised)));
    let more = more.lines().map(String::from).chain(phases).chain(advice);
    text += &list(more.map(|sentence| escaped(&sentence)));
    if detail != Detail::Brief {
        text += &body(report, detail == Detail::Verbose);
    }
    text
}

/// Writes what failed, and nothing else; nothing where nothing did.
pub fn markdown_failures(report: &Report, verb: &str) -> String {
    let failed = super::text::failed_remarks(report);
    match failed.is_empty() {
        true => String::new(),
        false => {
            let list = list(failed.iter().map(|text| format!("**{}**", escaped(text))));
            format!("### {verb}\n\n{}\n{list}", command(&report.command))
        }
    }
}

/// The tables and the notes.
fn body(report: &Report, all: bool) -> String {
    let run = &report.run;
    let verdict = &report.found.verdict;
    let rows = rows::choose(run, verdict, all);
    let [mut times, mut data, pipes] = tables::grids(run, &verdict.stages, &rows.shown);
    // The bars show these.
    let is_in_bar = |column: &mut Column| matches!(column.title, "runq" | "in" | "out" | "other");
    let shown_in_bar: Vec<Column> = times.columns.extract_if(.., is_in_bar).collect();
    data.columns.splice(0..0, shown_in_bar);
    let bars = rows.shown.iter().map(|at| stage_bar(run, &run.stages[*at])).collect();
    let folded = rows.folded.map(|folded| escaped(&folded));
    let stages = format!("{}{}{KEY}", table(&times, "stage", Some(("", bars))), list(folded));
    let shown = groups::shown(run, all);
    let (mut text, mut details) = (stages, String::new());
    if !shown.is_empty() {
        details = text;
        let bars = shown.iter().map(|at| group_bar(run, &run.groups[*at])).collect();
        let when = format!("0s to {}", seconds(run.wall_ns));
        text = table(&group_grid(run, &shown), "group", Some((&when, bars)));
        text += &list(groups::others(run, all).as_deref().map(escaped));
    }
    details += &table(&data, "stage", None);
    details += &table(&pipes, "pipe", None);
    for hot in hot::tables(run, verdict, all, COLUMNS) {
        details += &format!("\n{}\n\n{}", escaped(&hot.heading), fenced(&hot.table.join("\n")));
        details += &list(hot.notes.iter().map(|note| escaped(note)));
    }
    let print = if all { fine::print(run, verdict) } else { Vec::new() };
    details += &list(notes(report).iter().chain(&print).map(|note| escaped(note)));
    text + &format!("\n<details><summary>more</summary>\n{details}\n</details>\n")
}

/// The groups, without what the bars and the numbers show.
fn group_grid(run: &Run, shown: &[usize]) -> Grid {
    let mut grid = groups::grid(run, shown);
    let has_several = shown.iter().any(|at| run.groups[*at].instances > 1);
    grid.columns.retain(|column| match column.title {
        "rows" | "from" => false,
        "times" | "median" | "shortest" | "longest" => has_several,
        _ => true,
    });
    grid
}

/// What the characters of a bar mean.
const KEY: &str = "\n<sub>`\u{2588}` on a CPU, `\u{2592}` waits for a CPU, `<` for its input, `>` for its output, `\u{b7}` for \
                   something else; a whole bar is the time of the run</sub>\n";

/// A bar of a stage: its times by state as parts of the run's.
fn stage_bar(run: &Run, stage: &Stage) -> String {
    let times = &stage.times;
    let parts = [
        (times.cpu_ns, ON_CPU),
        (times.queue_ns, WAITS_FOR_CPU),
        (times.input_ns, '<'),
        (times.output_ns, '>'),
        (times.other_ns(), ELSE),
    ];
    let (mut bar, mut sum_ns) = (String::new(), 0);
    for (ns, mark) in parts {
        sum_ns += ns;
        let end = place(sum_ns, run.wall_ns).round() as usize;
        bar.extend(std::iter::repeat_n(mark, end.saturating_sub(bar.chars().count())));
    }
    bar.extend(std::iter::repeat_n(BLANK, BAR - bar.chars().count()));
    bar
}

/// A bar of a group: when it ran. However briefly that was, it has a mark.
fn group_bar(run: &Run, group: &FoundGroup) -> String {
    let mut bar = [BLANK; BAR];
    for span in &group.spans {
        let [start, end] = [span.start_ns, span.end_ns].map(|ns| place(ns, run.wall_ns));
        let first = (start as usize).min(BAR - 1);
        let last = (end.round() as usize).clamp(first + 1, BAR);
        bar[first..last].fill(ON_CPU);
    }
    bar.into_iter().collect()
}

/// Where a time lies in a bar.
fn place(ns: u64, wall_ns: u64) -> f64 {
    (ns as f64 / wall_ns.max(1) as f64).min(1.0) * BAR as f64
}

/// A table; nothing for one without rows. The bars, with their heading, stand behind the names.
fn table(grid: &Grid, first: &str, bars: Option<(&str, Vec<String>)>) -> String {
    if grid.names.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let bar = |of: &dyn Fn(&str, &[String]) -> String| {
        bars.as_ref().map(|(title, bars)| of(title, bars)).into_iter()
    };
    let titles = grid.columns.iter().map(|column| column.title.to_owned());
    let rules = grid.columns.iter().map(|column| if column.words { ":--" } else { "--:" });
    let mut text = String::from("\n");
    let title = bar(&|title, _| title.to_owned());
    text += &line(std::iter::once(first.to_owned()).chain(title).chain(titles).collect());
    let rules = bar(&|_, _| String::from(":--")).chain(rules.map(String::from));
    text += &line(std::iter::once(String::from(":--")).chain(rules).collect());
    for (row, name) in grid.names.iter().enumerate() {
        let bar = bar(&|_, bars| code(&bars[row]));
        let figures = grid.columns.iter().map(|column| escaped(&column.cells[row]));
        text += &line(std::iter::once(named(name)).chain(bar).chain(figures).collect());
    }
    text
}

fn named(Name { before, name, after }: &Name) -> String {
    let before = escaped(before.trim_start());
    if name.is_empty() {
        return before;
    }
    format!("{before}{}{}", code(&cut(name, NAME_COLUMNS)), escaped(after))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: String = items.into_iter().map(|item| format!("- {item}\n")).collect();
    if items.is_empty() { items } else { format!("\n{items}") }
}

/// The command as typed: its first lines.
fn command(command: &str) -> String {
    let mut lines: Vec<String> = command
        .lines()
        .take(COMMAND_LINES)
        .map(|line| cut(&printable_lines(line), COMMAND_COLUMNS))
        .collect();
    if command.lines().count() > COMMAND_LINES {
        lines.push(String::from("..."));
    }
    if lines.is_empty() { lines.join("") } else { fenced(&lines.join("\n")) }
}

/// A block in which nothing is markup.
fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    format!("{fence}\n{text}\n{fence}\n")
}

/// A span in which nothing is markup, also in a table.
fn code(text: &str) -> String {
    let text = printable(text).replace('|', "\\|");
    let fence = "`".repeat(longest_run(&text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// The length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// A sentence as text on one line: no markup, no HTML, no formula, and nobody mentioned.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (at, c) in printable(text).chars().enumerate() {
        match c {
            // GitHub mentions also behind a backslash, but not where a character stands between.
            '@' | '#' => {
                escaped.extend(['\\', c]);
                escaped += "&#8203;";
            }
            // Two of them are a formula at GitHub, also behind backslashes.
            '$' => escaped += "<span>$</span>",
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '!' | '^' => {
                escaped.extend(['\\', c]);
            }
            '-' | '+' | '=' if at == 0 && text.len() > 1 => escaped.extend(['\\', c]),
            // No link to an address of others.
            '/' if escaped.ends_with(':') => escaped += "\\/",
            '.' if escaped.ends_with(['w', 'W']) => escaped += "\\.",
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("`x` ``"), "``` `x` `` ```");
        assert_eq!(code("a\n\u{1b}[2J@me <b>"), "`a??[2J@me <b>`");
        assert_eq!(fenced("a\n```\nb"), "````\na\n```\nb\n````\n");
        let hostile = "@me #1 <b> |x| *y* $1 http://e.vil www.e.vil [a](b)\n- c";
        let text = "\\@&#8203;me \\#&#8203;1 \\<b\\> \\|x\\| \\*y\\* <span>$</span>1 \
                    http:\\//e.vil www\\.e.vil \\[a\\](b)?- c";
        assert_eq!(escaped(hostile), text);
        assert_eq!(escaped("- a - b"), "\\- a - b");
    }

    #[test]
    fn a_bar_has_the_parts_of_the_run() {
        let run = Run { wall_ns: 24_000, ..Run::default() };
        let mut stage = Stage::default();
        (stage.times.cpu_ns, stage.times.input_ns) = (12_000, 6_000);
        let bar = stage_bar(&run, &stage);
        assert_eq!(
            (bar.trim_end().to_owned(), bar.chars().count()),
            ("\u{2588}".repeat(12) + "<<<<<<", BAR)
        );
        assert_eq!(stage_bar(&Run::default(), &Stage::default()).trim(), "");
        let span = |start_ns, end_ns| weir_doctor::graph::WallSpan { start_ns, end_ns };
        let group =
            FoundGroup { spans: vec![span(0, 10), span(12_000, 24_000)], ..FoundGroup::default() };
        let bar = group_bar(&run, &group);
        assert_eq!(bar.chars().filter(|c| *c == ON_CPU).count(), 13, "{bar}");
        assert!(bar.starts_with(ON_CPU) && bar.ends_with(&"\u{2588}".repeat(12)), "{bar}");
    }
}
