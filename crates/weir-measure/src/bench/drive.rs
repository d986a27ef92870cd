//! Carries out a plan: starts the cells in random order, collects what they say, and ends those
//! that take too long.

use super::case::{Site, Suite, Trouble};
use super::cell::{Line, Request, Row};
use super::plan::{Block, Plan};
use crate::pairs::PairOrder;
use crate::random::Random;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A cell is given this much more than its time before it is killed...
const GRACE: Duration = Duration::from_secs(2);
/// ... and its time once more for every so many.
const PATIENCE: u32 = 2;
/// How often a wait looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Who watches a run.
pub trait Observer {
    /// A cell begins: how many are done, of how many, and what it is.
    fn cell(&mut self, done: u64, total: u64, what: &str);
    /// Whether to stop now.
    fn stop(&mut self) -> bool;
}

/// What one cell gave.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Index of the block.
    pub block: usize,
    /// Which of its processes, from 0.
    pub process: u64,
    /// When it began, since the start of the run.
    pub began_ms: u64,
    /// Its batches.
    pub rows: Vec<Row>,
    /// Operations of a batch, by case.
    pub counts: Vec<(usize, u64)>,
    /// What it gave up.
    pub troubles: Vec<(Option<usize>, Trouble)>,
    /// Whether it was killed because its time was over.
    pub killed: bool,
}

/// Why a run has no end.
#[derive(Debug)]
pub enum DriveError {
    /// The observer asked to stop.
    Stopped,
    /// A cell could not be started.
    Start(std::io::Error),
}

/// Carries out `plan`. `launch` makes the command of a cell.
///
/// # Errors
/// See [`DriveError`].
pub fn run(
    suites: &[Suite],
    plan: &Plan,
    launch: &dyn Fn() -> Command,
    observer: &mut dyn Observer,
) -> Result<Vec<Collected>, DriveError> {
    let begun = Instant::now();
    let mut order = PairOrder::new(plan.wish.seed);
    let mut seeds = Random::new(plan.wish.seed ^ 0x5eed);
    let most = plan.blocks.iter().map(|block| block.processes).max().unwrap_or(0);
    let mut collected = Vec::new();
    let mut counts: Vec<Vec<Option<u64>>> = vec![Vec::new(); plan.blocks.len()];
    // Each pass takes one cell of every block, so that all blocks see all of the run's time.
    for process in 0..most {
        let wanted = |index: &usize| process < plan.blocks[*index].processes;
        let mut pass: Vec<usize> = (0..plan.blocks.len()).filter(wanted).collect();
        order.shuffle(&mut pass);
        for index in pass {
            let block = &plan.blocks[index];
            let group = &suites[block.suite].groups[block.group];
            let what = format!("{} {} {}", suites[block.suite].name, group.name, block.placement);
            observer.cell(collected.len() as u64, plan.cells(), &what);
            let mut request = request(suites, plan, block, seeds.next_u64());
            request.counts = counts[index].iter().map(|c| vary(*c, &mut seeds)).collect();
            let began_ms = begun.elapsed().as_millis() as u64;
            let mut cell = run_cell(&request, launch, observer)?;
            cell.block = index;
            cell.process = process;
            cell.began_ms = began_ms;
            learn(&mut counts[index], &cell.counts);
            if group.twin && counts[index].len() > block.cases.len() {
                // The twin is to be the same in everything.
                counts[index][block.cases.len()] = counts[index][0];
            }
            collected.push(cell);
        }
    }
    observer.cell(plan.cells(), plan.cells(), "");
    Ok(collected)
}

/// Keeps what the first cell of a block found out.
fn learn(known: &mut Vec<Option<u64>>, found: &[(usize, u64)]) {
    for (case, count) in found {
        if known.len() <= *case {
            known.resize(case + 1, None);
        }
        known[*case].get_or_insert(*count);
    }
}

/// A sixth more or less, by chance: how a batch's length falls against the size of a pipe or of a
/// cache would otherwise be the same in all processes of a run, and another in the next run.
fn vary(count: Option<u64>, random: &mut Random) -> Option<u64> {
    count
        .map(|count| (count as f64 * (5.0 / 6.0 + random.below(1_000) as f64 / 3_000.0)) as u64)
        .map(|count| count.max(1))
}

fn request(suites: &[Suite], plan: &Plan, block: &Block, seed: u64) -> Request {
    let suite = &suites[block.suite];
    let group = &suite.groups[block.group];
    Request {
        suite: suite.name.into(),
        group: group.name.clone(),
        cases: block.cases.iter().map(|case| group.cases[*case].name.clone()).collect(),
        twin: group.twin,
        site: Site {
            placement: block.placement,
            cpus: block.cpus.clone(),
            load: plan.wish.load,
            directory: plan.wish.directory.clone(),
        },
        seed,
        time_ns: u64::try_from(block.cell.as_nanos()).unwrap_or(u64::MAX),
        counts: Vec::new(),
    }
}

/// Runs one cell in a process group of its own, which is killed at the end whatever is left of it.
fn run_cell(
    request: &Request,
    launch: &dyn Fn() -> Command,
    observer: &mut dyn Observer,
) -> Result<Collected, DriveError> {
    let mut command = launch();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(DriveError::Start)?;
    let text = serde_json::to_string(request).unwrap_or_default();
    if let Some(mut stdin) = child.stdin.take() {
        // A cell that died has no reader; what it said before tells why.
        let _ = stdin.write_all(text.as_bytes());
    }
    let limit = Duration::from_nanos(request.time_ns).saturating_mul(PATIENCE) + GRACE;
    let (said, end) = listen(&mut child, Instant::now() + limit, observer);
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait();
    let mut cell = understand(&said);
    match end {
        End::Stopped => return Err(DriveError::Stopped),
        End::TimeOver => cell.killed = true,
        End::Silent => {
            let well = status.is_ok_and(|status| status.success());
            if !well && cell.troubles.is_empty() {
                cell.troubles.push((None, Trouble::failed("its process died")));
            }
        }
    }
    Ok(cell)
}

enum End {
    Silent,
    TimeOver,
    Stopped,
}

/// Reads until the cell closes its output, its time is over or the observer asks to stop.
fn listen(child: &mut Child, deadline: Instant, observer: &mut dyn Observer) -> (Vec<u8>, End) {
    let mut said = Vec::new();
    let Some(mut stdout) = child.stdout.take() else { return (said, End::Silent) };
    let mut buffer = vec![0; 1 << 16];
    loop {
        if observer.stop() {
            return (said, End::Stopped);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (said, End::TimeOver);
        }
        let wait = left.min(LOOK);
        let wait =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        if !matches!(rustix::event::poll(&mut fds, Some(&wait)), Ok(ready) if ready > 0) {
            continue;
        }
        match stdout.read(&mut buffer) {
            Ok(0) => return (said, End::Silent),
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return (said, End::Silent),
        }
    }
}

/// What a cell said; a line cut short by its death is no line.
fn understand(said: &[u8]) -> Collected {
    let mut cell = Collected {
        block: 0,
        process: 0,
        began_ms: 0,
        rows: Vec::new(),
        counts: Vec::new(),
        troubles: Vec::new(),
        killed: false,
    };
    for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Line::Batch(row)) => cell.rows.push(row),
            Ok(Line::Count(case, count)) => cell.counts.push((case, count)),
            Ok(Line::Trouble(case, trouble)) => cell.troubles.push((case, trouble)),
            Err(_) => {}
        }
    }
    cell
}
