//! The competitors' programs as cases. Each group holds weir's own case of the same thing.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_bench::tools::program::find;
use weir_bench::tools::{case, compared, work};
use weir_bench::engine::case::{
    Batch, BatchSize, Case, CaseError, Group, Measure, Normalise, Sides, Site, Suite,
};
use weir_bench::engine::params::{Params, Placement};

/// lmbench can hang; no program here needs more time than this for one figure.
const LIMIT: Duration = Duration::from_secs(8);
/// Number of fresh processes: a competitor takes a second for a figure.
const PROCESSES: u64 = 8;

/// How a program is run, and how its figure is parsed.
#[derive(Clone, Copy)]
struct Competitor {
    name: &'static str,
    words: &'static [&'static str],
    read: fn(&str) -> Option<f64>,
}

/// Returns all suites of programs.
pub fn catalogue() -> Vec<Suite> {
    vec![
        suite("system call", ("joy-syscall", "getppid"), Measure::TIME, &CALLS),
        suite("switch", ("joy-switch", "switch by pipe"), Measure::TIME, &SWITCHES),
        suite("pipe", ("bbn-pipe", "pipe, stream of 64 KiB"), Measure::THROUGHPUT, &PIPES),
        suite("messages", ("joy-ipc", "one-way unix-stream 512 B"), Measure::RATE, &MESSAGES),
    ]
}

const CALLS: [Competitor; 2] = [
    Competitor {
        name: "perf bench syscall basic",
        words: &["perf", "bench", "-f", "simple", "syscall", "basic", "-l", "1000000"],
        // It prints seconds for a million calls of getppid.
        read: |text| Some(first_number(text)? * 1e9 / 1e6),
    },
    Competitor {
        name: "lmbench lat_syscall null",
        words: &["lat_syscall", "-N", "3", "null"],
        read: |text| Some(after(text, "Simple syscall:")? * 1e3),
    },
];

const SWITCHES: [Competitor; 3] = [
    Competitor {
        name: "perf bench sched pipe",
        words: &["perf", "bench", "-f", "simple", "sched", "pipe", "-l", "30000"],
        // It prints seconds for these round trips of two switches each.
        read: |text| Some(first_number(text)? * 1e9 / 30_000.0 / 2.0),
    },
    Competitor {
        name: "lmbench lat_ctx -s 0 2",
        words: &["lat_ctx", "-N", "3", "-s", "0", "2"],
        read: |text| {
            let line = text.lines().find(|line| line.starts_with("2 "))?;
            Some(line.split(' ').nth(1)?.parse::<f64>().ok()? * 1e3)
        },
    },
    Competitor {
        name: "stress-ng --switch",
        words: &["stress-ng", "--switch", "1", "--switch-ops", "100000", "--metrics-brief"],
        read: |text| {
            let line = text.lines().find(|line| line.contains(" switch "))?;
            let rest = line.split(" switch ").nth(1)?;
            let numbers: Vec<f64> =
                rest.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            // It prints bogo operations and real time; an operation is a switch.
            Some(numbers.get(1)? * 1e9 / numbers.first()?)
        },
    },
];

const PIPES: [Competitor; 1] = [Competitor {
    name: "lmbench bw_pipe -m 64k",
    words: &["bw_pipe", "-N", "3", "-m", "65536", "-M", "8m"],
    read: |text| after(text, "Pipe bandwidth:"),
}];

const MESSAGES: [Competitor; 1] = [Competitor {
    name: "hackbench, 1 group, 2 pairs, 100 B",
    words: &["hackbench", "-g", "1", "-f", "2", "-l", "5000", "-s", "100"],
    // It prints seconds for 2 senders x 2 receivers x 5000 messages.
    read: |text| Some(20_000.0 / after(text, "Time:")?),
}];

/// Makes a suite of one group: weir's own case and the programs.
fn suite(
    name: &'static str,
    (of, own): (&str, &str),
    measure: Measure,
    programs: &[Competitor],
) -> Suite {
    let mut cases: Vec<Case> = own_case(of, own).into_iter().collect();
    cases.extend(programs.iter().map(|program| peer(*program, measure)));
    let made = Group {
        processes: PROCESSES,
        standard: vec![Placement::SameCpu, Placement::Free],
        ..compared(name, Sides::Two, cases)
    };
    Suite {
        name,
        about: "weir compared with other tools",
        source: "lmbench, perf bench, hackbench, stress-ng",
        groups: vec![made],
    }
}

/// Finds a case of weir's own suites.
pub fn own_case(suite: &str, name: &str) -> Option<Case> {
    let suite = weir_bench::catalogue().into_iter().find(|known| known.name == suite)?;
    let cases = suite.groups.into_iter().flat_map(|group| group.cases);
    let found = cases.into_iter().find(|case| case.name == name)?;
    Some(Case { name: format!("weir: {name}"), normalise: Normalise::Never, ..found })
}

fn peer(program: Competitor, measure: Measure) -> Case {
    let made = case(program.name, Params::default(), measure, move |site: &Site| {
        find(program.words[0])?;
        let site = site.clone();
        work(move |_| {
            site.go_here()?;
            let begun = Instant::now();
            let text = output(program.words)?;
            let figure = (program.read)(&text)
                .ok_or_else(|| CaseError::failed(format!("{} printed no figure", program.name)))?;
            Ok(Batch { elapsed_ns: begun.elapsed().as_nanos() as f64, values: vec![figure] })
        })
    });
    Case { size: BatchSize::Count(1), normalise: Normalise::Never, weight: 60.0, ..made }
}

/// Runs a program and returns both of its outputs. Kills it when it takes too long.
fn output(words: &[&str]) -> Result<String, CaseError> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).env("ENOUGH", "10000");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > LIMIT {
            return give_up(&mut child, words[0]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    let both = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&both).into_owned();
    match output.status.success() {
        true => Ok(text),
        // A number in a complaint is not a figure.
        false => Err(CaseError::failed(format!("{}: {}: {text}", words[0], output.status))),
    }
}

fn give_up(child: &mut Child, name: &str) -> Result<String, CaseError> {
    let _ = child.kill();
    let _ = child.wait();
    Err(CaseError::failed(format!("{name} was killed after {} s", LIMIT.as_secs())))
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().find_map(|word| word.parse().ok())
}

/// Returns the number that follows these words.
fn after(text: &str, words: &str) -> Option<f64> {
    let (_, rest) = text.split_once(words)?;
    first_number(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first number in what a failed program had printed was taken for its figure.
    #[test]
    fn what_a_failed_program_prints_is_no_figure() {
        let of = |script: &str| output(&["sh", "-c", script]);
        assert_eq!(of("echo 2.5").as_deref().ok().and_then(first_number), Some(2.5));
        assert!(of("echo 13 is a wrong event >&2; exit 129").is_err());
    }
}
