//! The report as people read it: two tables, the verdict, advice, and how it is known.

use super::Report;
use super::units::{bytes, capacity, count, cut, ending, percent, seconds};
use anstyle::{AnsiColor, Style};
use comfy_table::{Cell, CellAlignment, Table};
use weir_measure::record::{Evidence, Pipe, Run, Stage};
use weir_policy::text::printable;
use weir_sys::proc::Io;

/// Longest label in the first table.
const LABEL: usize = 30;
/// Longest program name in the second.
const PROGRAM: usize = 12;

/// Writes the report.
pub fn text(report: &Report, colour: bool) -> String {
    let run = &report.run;
    let mut out = String::new();
    line(&mut out, &headline(run));
    line(&mut out, &times_table(run));
    line(&mut out, &data_table(run));
    for remark in remarks(run) {
        line(&mut out, &format!("  {}", printable(&remark)));
    }
    let strong = Style::new().bold();
    for sentence in report.verdict.text.lines() {
        line(&mut out, &styled(sentence, strong, colour));
    }
    let hint = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
    for advice in &report.advice {
        let gain = gain(advice.gain_limit);
        line(&mut out, &styled(&format!("try: {} ({gain})", advice.text), hint, colour));
    }
    for sentence in report.compared.iter().flat_map(|compared| &compared.sentences) {
        line(&mut out, &format!("compare: {}", printable(sentence)));
    }
    let faint = Style::new().dimmed();
    for sentence in evidence(run).lines() {
        line(&mut out, &styled(sentence, faint, colour));
    }
    out
}

fn line(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push_str(text);
        out.push('\n');
    }
}

fn styled(text: &str, style: Style, colour: bool) -> String {
    let text = printable(text);
    if colour { format!("{style}{text}{style:#}") } else { text }
}

fn gain(limit: f64) -> String {
    if limit >= 100.0 {
        String::from("at most 100x faster or more")
    } else {
        format!("at most {:.2}x faster", (limit * 100.0).floor() / 100.0)
    }
}

fn headline(run: &Run) -> String {
    let stages = match run.stages.len() {
        1 => String::from("1 stage"),
        n => format!("{n} stages"),
    };
    let cpus = if run.cpus == 1.0 { String::from("1 CPU") } else { format!("{} CPUs", run.cpus) };
    let mut text = format!("weir: {} for {stages} on {cpus}", seconds(run.wall_ns));
    if run.stopped_ns > 0 {
        text.push_str(&format!(", {} stopped not counted", seconds(run.stopped_ns)));
    }
    text
}

/// A table without lines whose first column is text and whose others are figures.
fn table(header: &[&str], text_columns: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.to_vec());
    for column in 0..header.len() {
        if let Some(column_at) = table.column_mut(column) {
            let left = text_columns.contains(&column);
            column_at.set_cell_alignment(if left {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            });
            column_at.set_padding((u16::from(column > 0), u16::from(column > 0)));
        }
    }
    table
}

fn render(table: &Table) -> String {
    crate::bench::trimmed(table)
}

fn named(position: usize, name: &str, width: usize) -> String {
    format!("{} {}", position + 1, cut(name, width))
}

fn label(stage: &Stage) -> String {
    match stage.processes {
        0 | 1 => stage.label.clone(),
        n => format!("{} (x{n})", cut(&stage.label, LABEL - 7)),
    }
}

/// Where each stage's wall time went.
fn times_table(run: &Run) -> String {
    let header = ["  time", "wall", "busy", "cpu", "runq", "in", "out", "other", "exit"];
    let mut table = table(&header, &[0, 8]);
    for (position, stage) in run.stages.iter().enumerate() {
        let times = &stage.times;
        let busy = (stage.wall_ns > 0).then(|| times.busy_ns() as f64 / stage.wall_ns as f64);
        let parts =
            [times.cpu_ns, times.queue_ns, times.input_ns, times.output_ns, times.other_ns()];
        let name = match stage.inserted {
            true => format!("{} {} (put in by --elastic)", position + 1, stage.label),
            false => named(position, &label(stage), LABEL),
        };
        let mut row = vec![name, seconds(stage.wall_ns)];
        row.push(busy.map_or_else(|| String::from("-"), |busy| percent(Some(busy))));
        row.extend(parts.into_iter().map(seconds));
        row.push(if run.discovered { String::from("-") } else { ending(stage) });
        table.add_row(row.into_iter().map(Cell::new));
    }
    render(&table)
}

/// What each stage used and moved, and the pipe to its reader.
fn data_table(run: &Run) -> String {
    let piped = !run.pipes.is_empty();
    let mut header = vec!["  data", "user", "sys", "read", "written", "calls", "memory"];
    if piped {
        header.extend(["pipe to", "size", "fill", "most", "full", "empty"]);
    }
    let mut table = table(&header, &[0]);
    for (position, stage) in run.stages.iter().enumerate() {
        let calls = stage.io.map(|io| io.read_calls + io.write_calls);
        let cpu = |ns: u64| format!("{}{}", known(stage.cpu_evidence), seconds(ns));
        let moved = |get: fn(Io) -> u64| {
            let mark = known(stage.bytes_evidence);
            stage.io.map_or_else(unknown, |io| format!("{mark}{}", bytes(get(io))))
        };
        let mut row = vec![
            named(position, program(stage), PROGRAM),
            cpu(stage.user_ns),
            cpu(stage.system_ns),
            moved(|io| io.read_bytes),
            moved(|io| io.write_bytes),
            calls.map_or_else(unknown, count),
            memory(stage),
        ];
        let mut pipes = run.pipes.iter().filter(|pipe| pipe.from == position);
        row.extend(pipes.next().map(pipe_cells).into_iter().flatten());
        table.add_row(row.into_iter().map(Cell::new));
        for pipe in pipes {
            let blank = std::iter::repeat_n(String::new(), 7);
            table.add_row(blank.chain(pipe_cells(pipe)).map(Cell::new));
        }
    }
    render(&table)
}

/// Peak memory; of a stage too short-lived to be looked at only a bound is known.
fn memory(stage: &Stage) -> String {
    let mark = mark(stage.max_rss_exact, stage.max_rss_bound);
    stage.max_rss_bytes.map_or_else(unknown, |peak| format!("{mark}{}", bytes(peak)))
}

fn unknown() -> String {
    String::from("?")
}

/// What stands before a figure that is not exact.
fn known(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Exact => "",
        Evidence::UpperBound => "<",
        Evidence::LowerBound => ">",
        Evidence::Sampled | Evidence::Estimated | Evidence::Unknown => "~",
    }
}

/// The same of a figure that is exact, a bound or sampled.
fn mark(exact: bool, bound: bool) -> &'static str {
    match (exact, bound) {
        (true, _) => "",
        (false, true) => "<",
        (false, false) => "~",
    }
}

fn program(stage: &Stage) -> &str {
    if stage.program.is_empty() { &stage.label } else { &stage.program }
}

fn pipe_cells(pipe: &Pipe) -> Vec<String> {
    let most =
        (pipe.capacity_bytes > 0).then(|| pipe.max_bytes as f64 / pipe.capacity_bytes as f64);
    vec![
        (pipe.to + 1).to_string(),
        capacity(pipe.capacity_bytes),
        percent(pipe.mean_fill),
        percent(most),
        percent(pipe.full_share),
        percent(pipe.empty_share),
    ]
}

/// What the tables cannot say.
fn remarks(run: &Run) -> Vec<String> {
    let mut remarks = Vec::new();
    for (position, stage) in run.stages.iter().enumerate() {
        let name = named(position, program(stage), PROGRAM);
        if let Some(parts) = other_parts(stage) {
            remarks.push(format!("{name}: other is {parts}"));
        }
        let cpu_ns = stage.user_ns + stage.system_ns;
        if !stage.single_task && stage.failure.is_none() && stage.processes <= 1 {
            let tasks = match stage.most_tasks {
                0 | 1 => String::from("started others, too short-lived to be seen"),
                n => format!("up to {n} tasks at once"),
            };
            remarks.push(format!(
                "{name}: {tasks}; user and sys add up to {}, cpu to other divide its wall time",
                seconds(cpu_ns)
            ));
        }
        if stage.uncounted {
            remarks.push(format!("{name}: moves bytes by splice, which the kernel does not count"));
        }
        if stage.hidden {
            remarks.push(format!("{name}: may not be looked into; why it waited is not known"));
        }
    }
    remarks.extend(run.notes.iter().map(|note| format!("note: {note}")));
    remarks
}

/// The parts of "other" that are worth a word.
fn other_parts(stage: &Stage) -> Option<String> {
    let times = &stage.times;
    if times.other_ns() * 20 < stage.wall_ns || times.other_ns() < 1_000_000 {
        return None;
    }
    let mut parts = [
        ("disk", times.disk_ns),
        ("file", times.file_ns),
        ("lock", times.lock_ns),
        ("child", times.child_ns),
        ("sleep", times.sleep_ns),
        ("network", times.network_ns),
        ("device", times.device_ns),
        ("stopped", times.stopped_ns),
        ("not known", times.unknown_ns),
    ];
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let least = times.other_ns() / 20;
    let kept = parts.iter().filter(|(_, ns)| *ns > least);
    Some(kept.map(|(what, ns)| format!("{what} {}", seconds(*ns))).collect::<Vec<_>>().join(", "))
}

/// How the figures are known.
fn evidence(run: &Run) -> String {
    let counts =
        run.stages.iter().filter(|stage| stage.failure.is_none()).map(|stage| stage.samples);
    let (least, most) = (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0));
    let n = if least == most { format!("n={most}") } else { format!("n={least} to {most}") };
    if most == 0 && run.notes.iter().any(|note| note.starts_with("/proc")) {
        return String::from("exact: wall, user, sys, exit; all else is not known");
    }
    if run.discovered {
        return format!("all figures sampled, {n} a stage");
    }
    let several = run.stages.iter().any(|stage| !stage.single_task && stage.failure.is_none());
    let (exact, parts) = if several {
        ("cpu and runq of stages of one task", "cpu and runq of the others, in, out, other")
    } else {
        ("cpu, runq", "in, out, other")
    };
    format!(
        "exact: wall, {exact}, user, sys, read, written, calls, exit, unless marked: < at most, > at least, ~ sampled\n\
         sampled ({n} a stage): {parts}; pipes"
    )
}
