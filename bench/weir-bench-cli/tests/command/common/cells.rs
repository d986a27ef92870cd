//! Cells of `weir bench`, started as the command does.

use super::WEIR_BENCH;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_bench::engine::case::{BatchSize, Case, Sides, Site, Suite};
use weir_bench::engine::cell::{CellBatch, CellLine, CellRequest};
use weir_bench::engine::params::{Load, Placement};
use weir_bench::engine::place::Topology;

/// The order for a cell that runs all cases of its group.
pub fn request(suite: &Suite, group: usize, directory: &Path, time_ns: u64) -> CellRequest {
    let group = &suite.groups[group];
    let placement = match group.sides {
        Sides::One => Placement::SameCpu,
        Sides::Two | Sides::Free => Placement::Free,
    };
    CellRequest {
        suite: suite.name.into(),
        group: group.name.clone(),
        cases: group.cases.iter().map(|case| case.name.clone()).collect(),
        twin: false,
        site: Site {
            placement,
            cpus: Topology::read().find(placement).expect("a placement"),
            load: Load::None,
            directory: directory.to_owned(),
        },
        seed: 1,
        time_ns,
        rounds: u64::MAX,
        counts: Vec::new(),
    }
}

/// Starts a cell as the command does.
pub fn start_cell(request: &CellRequest) -> Child {
    start_cell_to(request, Stdio::piped())
}

pub fn start_cell_to(request: &CellRequest, output: Stdio) -> Child {
    let mut command = Command::new(WEIR_BENCH);
    command.arg("bench-cell").stdin(Stdio::piped()).stdout(output);
    command.env("WEIR_BENCH_BACKLOG_BYTES", "32000000").env("WEIR_BENCH_SET_BYTES", "4194304");
    command.env("WEIR_BENCH_SWAP_MS", "200");
    let mut child = command.spawn().expect("weir starts");
    let text = serde_json::to_string(request).expect("JSON");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    child
}

/// The operations of a batch that would be long: so many that they take some milliseconds. The cell
/// does not find out then how many last long, which takes it seconds.
fn few(case: &Case) -> Option<u64> {
    match case.size {
        BatchSize::Time { ns } | BatchSize::WholeTime { ns } if ns > 20_000_000 => {
            Some((1_200_000_000 / ns).max(1))
        }
        _ => None,
    }
}

/// Runs one cell of a group with all its cases.
fn cell(suite: &Suite, group: usize, directory: &Path) -> (Vec<CellBatch>, Vec<String>) {
    let counts = suite.groups[group].cases.iter().map(few).collect();
    let request = request(suite, group, directory, 1_000_000);
    let child = start_cell(&CellRequest { counts, ..request });
    let group = &suite.groups[group];
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{} {}", suite.name, group.name);
    let (mut rows, mut troubles) = (Vec::new(), Vec::new());
    for line in output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line).expect("a line of JSON") {
            CellLine::Batch(row) => rows.push(row),
            CellLine::Count(..) => {}
            CellLine::Trouble(_, trouble) => {
                assert!(trouble.left_out, "{} {}: {trouble}", suite.name, group.name);
                troubles.push(trouble.text);
            }
        }
    }
    (rows, troubles)
}

/// Runs the cases of some groups of a suite once. Each must give a figure for each of its measures,
/// or say what the host lacks, and leave no file.
pub fn does_something(suite: &Suite, groups: impl IntoIterator<Item = usize>) {
    let directory = tempfile::tempdir().expect("a directory");
    for group in groups {
        let (rows, troubles) = cell(suite, group, directory.path());
        let cases = &suite.groups[group].cases;
        for (index, case) in cases.iter().enumerate() {
            let Some(row) = rows.iter().find(|row| row.case == index) else { continue };
            let name = format!("{}: {}", suite.name, case.name);
            assert_eq!(row.values.len(), case.measures.len(), "{name}");
            assert!(row.values.iter().all(|value| value.is_finite()), "{name}: {row:?}");
        }
        let seen = (0..cases.len()).filter(|case| rows.iter().any(|row| row.case == *case));
        let missing = cases.len() - seen.count();
        assert!(missing <= troubles.len(), "{}: {missing} say nothing", suite.name);
        for trouble in troubles {
            eprintln!("LEFT OUT: {}: {trouble}", suite.name);
        }
    }
    let left: Vec<_> = std::fs::read_dir(&directory).expect("listed").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
