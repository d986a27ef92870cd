//! The report on several pipelines that were compared: for people and, as schema
//! `weir.run.compare/1`, for programs.

use super::compared::difference;
use super::layout::{Column, Grid, Name};
use super::style::{Detail, ReportStyle};
use super::text::Page;
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use weir_command::units::words::of_cpus;
use weir_command::units::{percent, seconds, signal_name};
use weir_command::widths::cut;
use weir_measure::pairs::{Comparison, Resolution, Verdict, quantile};
use weir_policy::text::printable;

/// The result of all rounds.
#[derive(Clone, Debug)]
pub struct Several {
    /// The number of CPUs that the pipelines could use.
    pub cpus: f64,
    /// The number of rounds that were run.
    pub rounds: usize,
    /// Whether every run wrote the same bytes.
    pub same_output: bool,
    /// Whether every run ended with the same status.
    pub same_status: bool,
    /// Wall times of the second run of the first pipeline in each round.
    pub twin_s: Vec<f64>,
    /// The comparison of the first pipeline with itself, which shows what this host resolves.
    pub resolves: Resolution,
    /// The pipelines, in the order in which they were given.
    pub pipelines: Vec<ComparedPipeline>,
    /// The answer to `--fail-if-slower`, if that was asked.
    pub gate: Option<Gate>,
}

/// Whether some pipeline is slower than the first by more than a share of its time.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// The share.
    pub share: f64,
    /// The answer; `None` where the rounds do not tell.
    pub is_slower: Option<bool>,
}

impl Gate {
    /// Judges by the intervals. `by_itself` is how many times as long as itself the first took.
    pub fn new(share: f64, pipelines: &[ComparedPipeline], by_itself: f64) -> Gate {
        let most = 1.0 + share;
        let is_slower = |pipeline: &ComparedPipeline| {
            let found = pipeline.against_first.filter(|against| against.verdict.is_some())?.found;
            let is_slower = found.low > most * by_itself;
            (is_slower || found.high * by_itself <= most).then_some(is_slower)
        };
        let answers: Vec<Option<bool>> = pipelines.iter().skip(1).map(is_slower).collect();
        let is_slower = match answers.contains(&Some(true)) {
            true => Some(true),
            false => (!answers.contains(&None)).then_some(false),
        };
        Gate { share, is_slower }
    }
}

/// A pipeline of the comparison.
#[derive(Clone, Debug)]
pub struct ComparedPipeline {
    /// The pipeline as typed.
    pub command: String,
    /// Its exit status, if it was always the same.
    pub exit_status: Option<i32>,
    /// Wall times, one a round.
    pub wall_s: Vec<f64>,
    /// Whether it always wrote the same bytes as the first.
    pub same_output: bool,
    /// The number of bytes that its first run wrote.
    pub bytes_out: u64,
    /// The comparison with the first.
    pub against_first: Option<Against>,
}

/// The comparison of a pipeline with the first.
#[derive(Clone, Copy, Debug)]
pub struct Against {
    found: Comparison,
    verdict: Option<Verdict>,
}

impl Against {
    /// A verdict, unless the two ended with different statuses.
    pub fn new(found: Comparison, verdict: Option<Verdict>) -> Against {
        Against { found, verdict }
    }

    fn word(&self) -> String {
        self.verdict.map_or_else(|| String::from("not judged"), |verdict| verdict.to_string())
    }
}

/// The least length of a name of a pipeline in the last line, and that of its other words.
const NAME: usize = 16;
const WORDS: usize = 48;
/// The order in which columns are left out when the terminal is too narrow.
const DROPS: [&str; 4] = ["most", "least", "95 % interval", ""];

/// Writes the report for people: the table, what the comparison rests on, and last the answer.
pub fn text(several: &Several, look: &ReportStyle) -> String {
    let mut page = Page::new(look);
    let cpus = of_cpus(several.cpus);
    let (n, rounds) = (several.pipelines.len(), several.rounds);
    let head = format!("weir: {n} pipelines, {rounds} rounds in random order, on {cpus}");
    page.sentence(&head, Style::new());
    if look.detail != Detail::Brief {
        let mut grid = grid(several);
        grid.fit(look.columns, &DROPS);
        page.table(&grid.lines(grid.name_columns(look.columns), look.columns));
        page.sentence(&format!("1 against itself: {}", several.resolves), Style::new());
    }
    let warning = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    for (position, pipeline) in several.pipelines.iter().enumerate() {
        for sentence in doubts(several, position, pipeline) {
            page.sentence(&sentence, warning);
        }
    }
    if several.same_output {
        page.sentence("output: the same bytes in all runs", Style::new());
    }
    if let Some(answer) = answer(several, look.columns) {
        page.sentence(&answer, Style::new().bold());
    }
    if let Some(gate) = &several.gate {
        let percent = percent(Some(gate.share));
        page.sentence(
            &match gate.is_slower {
                Some(true) => format!("slower than 1 by more than {percent}"),
                Some(false) => format!("not slower than 1 by more than {percent}"),
                None => format!("cannot tell whether it is slower than 1 by more than {percent}"),
            },
            Style::new().bold(),
        );
    }
    page.finish()
}

/// Returns the last line: the fastest, and by how much. `None` where nothing was judged.
fn answer(several: &Several, columns: usize) -> Option<String> {
    let judged = |(at, pipeline): (usize, &ComparedPipeline)| {
        let against = pipeline.against_first?;
        Some((at, against.found, against.verdict?))
    };
    let judged: Vec<_> = several.pipelines.iter().enumerate().filter_map(judged).collect();
    let least = |verdict: Verdict| {
        let of = judged.iter().filter(|(_, _, found)| *found == verdict);
        of.min_by(|(_, one, _), (_, other, _)| one.ratio.total_cmp(&other.ratio))
    };
    // The first is the fastest only if no other may be.
    let order = [Verdict::Faster, Verdict::Inconclusive, Verdict::Equivalent, Verdict::Slower];
    let (at, found, verdict) = order.into_iter().find_map(least)?;
    let names = [0, *at].map(|at| printable(&several.pipelines[at].command));
    let room = columns.saturating_sub(WORDS);
    let [first, other] = [0, 1].map(|at| {
        // What one name leaves free is the other's.
        let rest = room.saturating_sub(names[1 - at].width());
        format!("'{}'", cut(&names[at], rest.max(room / 2).max(NAME)))
    });
    Some(difference(found, *verdict, &first, &other))
}

/// Returns why a pipeline may do other work than the first.
fn doubts(several: &Several, position: usize, pipeline: &ComparedPipeline) -> Vec<String> {
    let number = position + 1;
    let mut doubts = Vec::new();
    let first = several.pipelines[0].exit_status;
    let status = |status: Option<i32>| match status {
        Some(status) if status > 128 && status < 160 => {
            format!("status {status} ({})", signal_name(status - 128))
        }
        Some(127) => String::from("status 127 (command not found)"),
        Some(status) => format!("status {status}"),
        None => String::from("different statuses"),
    };
    match pipeline.exit_status {
        Some(0) => {}
        None => doubts.push(format!("{number} ended with {}: not judged", status(None))),
        found if position > 0 && found != first => {
            let (found, first) = (status(found), status(first));
            doubts.push(format!("{number} ended with {found}, 1 with {first}: not judged"));
        }
        found => doubts.push(format!("{number} always ended with {}", status(found))),
    }
    if pipeline.exit_status == Some(0) && position > 0 && first != Some(0) {
        doubts.push(format!("{number} ended with status 0, 1 with {}: not judged", status(first)));
    }
    if !pipeline.same_output {
        doubts.push(match position {
            0 => String::from("output: 1 does not write the same bytes each time"),
            _ => {
                format!(
                    "output: {number} wrote different bytes than 1: it may not do the same work"
                )
            }
        });
    }
    doubts
}

fn grid(several: &Several) -> Grid {
    let of = |title, words, cell: &dyn Fn(&ComparedPipeline) -> String| Column {
        title,
        words,
        cells: several.pipelines.iter().map(cell).collect(),
    };
    let time = |share: f64| {
        move |pipeline: &ComparedPipeline| seconds((quantile(&pipeline.wall_s, share) * 1e9) as u64)
    };
    let against = |cell: fn(&Against) -> String| {
        move |pipeline: &ComparedPipeline| {
            pipeline.against_first.as_ref().map_or_else(String::new, cell)
        }
    };
    // Without a verdict no ratio is shown: readers would take it for a verdict.
    let judged = |cell: fn(&Against) -> String| {
        move |pipeline: &ComparedPipeline| {
            let judged = pipeline.against_first.as_ref().filter(|a| a.verdict.is_some());
            judged.map_or_else(String::new, cell)
        }
    };
    let ratio = judged(|a| format!("{:.1$}x", a.found.ratio, a.found.digits()));
    let interval = judged(|a| {
        let digits = a.found.digits();
        format!("{:.digits$} to {:.digits$}", a.found.low, a.found.high)
    });
    let names = several.pipelines.iter().enumerate().map(|(position, pipeline)| Name {
        before: format!("{} ", position + 1),
        name: pipeline.command.clone(),
        after: String::new(),
    });
    Grid {
        title: "  pipeline",
        names: names.collect(),
        columns: vec![
            of("median", false, &time(0.5)),
            of("least", false, &time(0.0)),
            of("most", false, &time(1.0)),
            of("against 1", false, &ratio),
            of("95 % interval", false, &interval),
            of("", true, &against(Against::word)),
        ],
    }
}

/// Writes the report for programs.
pub fn json(several: &Several) -> String {
    let pipelines = several.pipelines.iter().enumerate().map(|(position, pipeline)| {
        json!({
            "index": position + 1,
            "command": pipeline.command,
            "exit_status": pipeline.exit_status,
            "wall_s": pipeline.wall_s,
            "median_s": quantile(&pipeline.wall_s, 0.5),
            "bytes_out": pipeline.bytes_out,
            "same_output": pipeline.same_output,
            "against_first": pipeline.against_first.as_ref().map(against_json),
        })
    });
    let document = json!({
        "cpus": several.cpus,
        "rounds": several.rounds,
        "pipelines": pipelines.collect::<Vec<_>>(),
        "twin_s": several.twin_s,
        "resolves_share": several.resolves.fraction,
        "same_output": several.same_output,
        "same_status": several.same_status,
    });
    // Numbers and texts can always be serialised.
    weir_command::json::document("weir.run.compare/1", document).unwrap_or_default()
}

fn against_json(against: &Against) -> Value {
    let (found, word) = (&against.found, against.word());
    let text = format!(
        "{:.3} times the time of the first (95 %: {:.3} to {:.3}): {word}",
        found.ratio, found.low, found.high
    );
    json!({
        "ratio": against.found.ratio,
        "low": against.found.low,
        "high": against.found.high,
        "p": against.found.p,
        "verdict": { "kind": word, "text": text },
    })
}
