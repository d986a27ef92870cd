//! The three tables: where the time went, what was used and moved, and the pipes.

use super::layout::{Column, Grid, Name};
use weir_command::units::{bytes, capacity, count, ending, percent, rate, seconds};
use weir_doctor::facts::{Evidence, Io, Pipe, Run, Stage};
use weir_doctor::load::StageFinding;

/// The order in which columns are left out when the terminal is too narrow. Statuses are the first, but
/// only if all stages succeeded.
const TIME_DROPS: [&str; 7] = [ENDS, "runq", "other", "out", "in", "MB/s", "cpu"];
const DATA_DROPS: [&str; 6] = ["calls", "sys", "user", "memory", "written", "read"];
const PIPE_DROPS: [&str; 5] = ["most", "passed", "size", "fill", "empty"];
/// The head of the statuses.
const ENDS: &str = "exit";

/// Returns the three tables, before they are fitted to a width.
pub fn grids(run: &Run, found: &[StageFinding], shown: &[usize]) -> [Grid; 3] {
    let shown_pipe = |pipe: &&Pipe| shown.contains(&pipe.from) && shown.contains(&pipe.to);
    let between: Vec<&Pipe> = run.pipes.iter().filter(shown_pipe).collect();
    [times(run, found, shown), data(run, shown), pipes(run, &between)]
}

/// Returns the tables as lines, in order. The first line of each is its head.
pub fn tables(
    run: &Run,
    found: &[StageFinding],
    shown: &[usize],
    width: usize,
) -> Vec<Vec<String>> {
    let [mut times, mut data, mut pipes] = grids(run, found, shown);
    let trouble = shown.iter().any(|position| !ended_well(&run.stages[*position]));
    let drops = if trouble { &TIME_DROPS[1..] } else { &TIME_DROPS[..] };
    times.fit(width, drops);
    data.fit(width, &DATA_DROPS);
    // A stage has the same name in both tables, cut at the same place.
    let names = times.name_columns(width).min(data.name_columns(width));
    let mut tables = vec![times.lines(names, width), data.lines(names, width)];
    if !pipes.names.is_empty() {
        pipes.fit(width, &PIPE_DROPS);
        tables.push(pipes.lines(pipes.name_columns(width), width));
    }
    tables
}

fn ended_well(stage: &Stage) -> bool {
    stage.closed_by_downstream() || matches!(ending(stage).as_str(), "0" | "?")
}

fn column(title: &'static str, cells: impl Iterator<Item = String>) -> Column {
    Column { title, words: false, cells: cells.collect() }
}

fn names(run: &Run, shown: &[usize]) -> Vec<Name> {
    // Names begin in the same column, also if some numbers have more digits.
    let digits = shown.iter().max().map_or(1, |last| (last + 1).to_string().len());
    let name = |position: &usize| {
        let stage = &run.stages[*position];
        let after = match stage.processes {
            _ if stage.inserted => String::from(" (put in)"),
            0 | 1 => String::new(),
            n => format!(" (x{n})"),
        };
        Name { before: format!("{:>digits$} ", position + 1), name: stage.label.clone(), after }
    };
    shown.iter().map(name).collect()
}

/// Returns the table of where each stage's wall time went.
fn times(run: &Run, found: &[StageFinding], shown: &[usize]) -> Grid {
    let stages = || shown.iter().map(|position| (*position, &run.stages[*position]));
    let time =
        |title, of: fn(&Stage) -> u64| column(title, stages().map(|(_, stage)| seconds(of(stage))));
    let busy = |position: usize, stage: &Stage| match stage.wall_ns {
        0 => String::from("-"),
        _ => percent(Some(found[position].busy)),
    };
    let mut columns = vec![
        time("wall", |stage| stage.wall_ns),
        column("busy", stages().map(|(position, stage)| busy(position, stage))),
        time("cpu", |stage| stage.times.cpu_ns),
        time("runq", |stage| stage.times.queue_ns),
        time("in", |stage| stage.times.input_ns),
        time("out", |stage| stage.times.output_ns),
        time("other", |stage| stage.times.other_ns()),
        column("MB/s", stages().map(|(position, _)| stage_rate(run, position))),
    ];
    // Only the parent of a process that weir found knows how it ended.
    if !run.script {
        let cells = stages().map(|(_, stage)| ending(stage)).collect();
        columns.push(Column { title: ENDS, words: true, cells });
    }
    Grid { title: "  time", names: names(run, shown), columns }
}

/// Returns the bytes that passed through a stage, divided by its wall time.
fn stage_rate(run: &Run, position: usize) -> String {
    let mark = known(run.passed(position).1);
    run.bytes_per_s(position).map_or_else(unknown, |per_s| marked(mark, rate(per_s)))
}

/// Returns the table of what each stage used and moved.
fn data(run: &Run, shown: &[usize]) -> Grid {
    let stages = || shown.iter().map(|position| &run.stages[*position]);
    let cpu = |title, of: fn(&Stage) -> u64| {
        let cell = move |stage: &Stage| marked(known(stage.cpu_evidence), seconds(of(stage)));
        column(title, stages().map(cell))
    };
    let moved = |title, of: fn(Io) -> u64| {
        let mark = |stage: &Stage| known(stage.bytes_evidence);
        let cell = move |stage: &Stage| {
            stage.io.map_or_else(unknown, |io| marked(mark(stage), bytes(of(io))))
        };
        column(title, stages().map(cell))
    };
    let calls = |stage: &Stage| {
        // Where some bytes were moved by other calls, these are not all.
        let mark = if stage.bytes_evidence == Evidence::Exact { "" } else { ">" };
        let calls = stage.io.filter(Io::has_calls);
        calls.map_or_else(unknown, |io| marked(mark, count(io.read_calls + io.write_calls)))
    };
    let columns = vec![
        cpu("user", |stage| stage.user_ns),
        cpu("sys", |stage| stage.system_ns),
        moved("read", |io| io.read_bytes),
        moved("written", |io| io.write_bytes),
        column("calls", stages().map(calls)),
        column("memory", stages().map(memory)),
    ];
    Grid { title: "  data", names: names(run, shown), columns }
}

/// Returns the peak memory. For a stage that ended before weir looked at it, only a bound is known.
fn memory(stage: &Stage) -> String {
    let mark = known(stage.max_rss_evidence);
    stage.max_rss_bytes.map_or_else(unknown, |peak| format!("{mark}{}", bytes(peak)))
}

fn unknown() -> String {
    String::from("?")
}

/// Returns the mark before a figure that is not exact.
pub fn known(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Exact | Evidence::Traced => "",
        Evidence::UpperBound => "<",
        Evidence::LowerBound => ">",
        Evidence::Sampled | Evidence::Estimated | Evidence::Unknown => "~",
    }
}

/// Puts the mark before a figure. An unknown figure gets none, and "less than 0" is shown as 0.
fn marked(mark: &str, figure: String) -> String {
    match (mark, figure.as_str()) {
        (_, "-") | ("<", "0 B") => figure,
        // "At least 0" says nothing.
        (">", "0 B" | "0.00") => unknown(),
        (_, "0.00") => String::from("<0.01"),
        _ => format!("{mark}{figure}"),
    }
}

/// Returns the table of the pipes between the stages.
fn pipes(run: &Run, pipes: &[&Pipe]) -> Grid {
    let cells =
        |title, of: &dyn Fn(&Pipe) -> String| column(title, pipes.iter().map(|pipe| of(pipe)));
    let most = |pipe: &Pipe| percent((pipe.capacity_bytes > 0).then_some(pipe.max_fill));
    let passed = |pipe: &Pipe| {
        let reader = &run.stages[pipe.to];
        let mark = known(reader.pipe_in_evidence);
        // What found processes moved is known to their last looks.
        let (wrote, read) = (run.stages[pipe.from].io, reader.io);
        let moved = [wrote.map(|io| io.write_bytes), read.map(|io| io.read_bytes)];
        let about = moved.into_iter().flatten().filter(|bytes| *bytes > 0).min();
        match (reader.pipe_in_bytes, about) {
            (Some(passed), _) => marked(mark, bytes(passed)),
            (None, Some(about)) => marked("~", bytes(about)),
            (None, None) => unknown(),
        }
    };
    let columns = vec![
        cells("passed", &passed),
        cells("size", &|pipe| capacity(pipe.capacity_bytes)),
        cells("fill", &|pipe| percent(pipe.mean_fill)),
        cells("most", &most),
        cells("full", &|pipe| percent(pipe.full_share)),
        cells("empty", &|pipe| percent(pipe.empty_share)),
    ];
    let name = |pipe: &&Pipe| Name {
        before: format!("{}->{}", pipe.from + 1, pipe.to + 1),
        ..Name::default()
    };
    Grid { title: "  pipe", names: pipes.iter().map(name).collect(), columns }
}
