//! Carries out a plan: starts the cells in random order, collects their output, and ends those that
//! take too long.

use super::case::{CaseError, Site, Suite};
use super::cell::{CellBatch, CellLine, CellRequest};
use super::pace::Pace;
use super::plan::{Block, Plan};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_measure::pairs::PairOrder;
use weir_measure::sys::spawn::spawn;
use weir_policy::random::Random;

/// Added to the time limit after which a cell is killed.
const GRACE: Duration = Duration::from_secs(2);
/// Multiple of the longest expected time of a cell in that limit.
const PATIENCE: u32 = 2;
/// How often a wait checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// An observer of a run.
pub trait RunObserver {
    /// Reports that a cell begins: which one, and how long the run is expected to continue.
    fn cell(&mut self, what: &str, left: Duration);
    /// Reports that not even the fewest processes fit what was announced: the whole run will take this
    /// long.
    fn overrun(&mut self, whole: Duration);
    /// Whether to stop now.
    fn stop(&mut self) -> bool;
}

/// The output of one cell.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    /// Index of the block.
    pub block: usize,
    /// Number of its process in the block, from 0.
    pub process: u64,
    /// When it began, since the start of the run.
    pub began_ms: u64,
    /// Its batches.
    pub rows: Vec<CellBatch>,
    /// Operations of a batch, by case.
    pub counts: Vec<(usize, u64)>,
    /// The failures that it reported.
    pub troubles: Vec<(Option<usize>, CaseError)>,
    /// Whether it was killed because its time was over.
    pub killed: bool,
}

impl Collected {
    /// Returns how long it would have taken with one round: all that it `took` but the time of its
    /// later rounds.
    fn least(&self, took: Duration) -> Duration {
        let first = self.rows.iter().filter(|row| row.round == 0).map(|row| row.at_ms).max();
        let last = self.rows.iter().map(|row| row.at_ms).max();
        let later_ms = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
        took.saturating_sub(Duration::from_millis(later_ms))
    }

    fn unstarted(error: &std::io::Error) -> Collected {
        let trouble = CaseError::failed(format!("its process could not be started: {error}"));
        Collected { troubles: vec![(None, trouble)], ..Collected::default() }
    }
}

/// The output of a run.
#[derive(Debug, Default)]
pub struct Driven {
    /// The output of its cells.
    pub collected: Vec<Collected>,
    /// Whether the observer asked to stop before all was done.
    pub interrupted: bool,
    /// Most fresh processes of a block, fewer than planned if the budget required it.
    pub passes: u64,
    /// The least time of a cell of each block, if it was measured.
    pub floors: Vec<Option<Duration>>,
}

/// Carries out `plan`, whose budget began at `begun`. `launch` makes the command of a cell.
pub fn run(
    suites: &[Suite],
    plan: &Plan,
    begun: Instant,
    launch: &dyn Fn() -> Command,
    observer: &mut dyn RunObserver,
) -> std::io::Result<Driven> {
    let mut order = PairOrder::new(plan.wish.seed);
    let mut seeds = Random::new(plan.wish.seed ^ 0x5eed);
    let mut pace = Pace::new(plan);
    let mut driven = Driven::default();
    let mut counts: Vec<Vec<Option<u64>>> = vec![Vec::new(); plan.blocks.len()];
    let started = Instant::now();
    // Each pass takes one cell of every block, so all blocks are spread over the whole run.
    while pace.continues(driven.passes, begun.elapsed()) {
        let process = driven.passes;
        // The second pass has shown the time of cells that have nothing to calibrate.
        if let Some(whole) = pace.overrun(begun.elapsed()).filter(|_| process == 2) {
            observer.overrun(whole);
        }
        let wanted = |index: &usize| process < plan.blocks[*index].processes;
        let mut pass: Vec<usize> = (0..plan.blocks.len()).filter(wanted).collect();
        order.shuffle(&mut pass);
        for index in pass {
            let block = &plan.blocks[index];
            let group = &suites[block.suite].groups[block.group];
            let what = format!("{} {} {}", suites[block.suite].name, group.name, block.placement);
            observer.cell(&what, pace.left());
            let mut request = request(suites, plan, block, seeds.next_u64());
            request.time_ns = u64::try_from(pace.time(index).as_nanos()).unwrap_or(u64::MAX);
            request.counts = counts[index].iter().map(|c| vary(*c, &mut seeds)).collect();
            let cell_begun = Instant::now();
            let began_ms = cell_begun.duration_since(started).as_millis() as u64;
            let ran = match run_cell(&request, pace.patience(index), launch, observer) {
                // After others were started, one that cannot be loses only itself.
                Err(error) if !driven.collected.is_empty() => Err(error),
                ran => Ok(ran?),
            };
            match ran.as_ref().ok().filter(|(cell, _)| !cell.killed) {
                Some((cell, _)) => pace.learn(index, cell.least(cell_begun.elapsed())),
                None => pace.gave_up(index),
            }
            let (mut cell, stopped) =
                ran.unwrap_or_else(|error| (Collected::unstarted(&error), false));
            cell.block = index;
            cell.process = process;
            cell.began_ms = began_ms;
            learn(&mut counts[index], &cell.counts);
            if group.twin && counts[index].len() > block.cases.len() {
                // The twin must equal the first case in everything.
                counts[index][block.cases.len()] = counts[index][0];
            }
            driven.collected.push(cell);
            if stopped {
                driven.interrupted = true;
                return Ok(driven);
            }
        }
        driven.passes += 1;
        driven.floors = (0..plan.blocks.len()).map(|index| pace.floor(index)).collect();
    }
    Ok(driven)
}

/// Keeps the calibration from the first cell of a block.
fn learn(known: &mut Vec<Option<u64>>, found: &[(usize, u64)]) {
    for (case, count) in found {
        if known.len() <= *case {
            known.resize(case + 1, None);
        }
        known[*case].get_or_insert(*count);
    }
}

/// Varies the count by up to a sixth, at random. Otherwise all processes of a run would have the
/// same ratio of a batch's length to the size of a pipe or of a cache, and the next run another.
fn vary(count: Option<u64>, random: &mut Random) -> Option<u64> {
    count
        .map(|count| count as f64 * (5.0 / 6.0 + random.below(1_000) as f64 / 3_000.0))
        .map(|count| (count.round() as u64).max(1))
}

fn request(suites: &[Suite], plan: &Plan, block: &Block, seed: u64) -> CellRequest {
    let suite = &suites[block.suite];
    let group = &suite.groups[block.group];
    CellRequest {
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
        time_ns: 0,
        rounds: plan.rounds,
        counts: Vec::new(),
    }
}

/// Runs one cell in a process group of its own, all of which is killed at the end. Returns whether
/// the observer asked to stop.
fn run_cell(
    request: &CellRequest,
    patience: Duration,
    launch: &dyn Fn() -> Command,
    observer: &mut dyn RunObserver,
) -> std::io::Result<(Collected, bool)> {
    let mut command = launch();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let mut child = spawn(&mut command)?;
    let text = serde_json::to_string(request).unwrap_or_default();
    if let Some(mut stdin) = child.stdin.take() {
        // A cell that died does not read its request; its earlier output tells why.
        let _ = stdin.write_all(text.as_bytes());
    }
    let limit = patience.saturating_mul(PATIENCE) + GRACE;
    let (said, end) = listen(&mut child, Instant::now() + limit, observer);
    let group = Pid::from_raw(child.id() as i32);
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait();
    if let Some(group) = group {
        reap_orphans(group);
    }
    let mut cell = understand(&said);
    match end {
        CellEnd::Stopped => return Ok((cell, true)),
        CellEnd::TimeOver => cell.killed = true,
        CellEnd::Silent => {
            let well = status.is_ok_and(|status| status.success());
            if !well {
                cell.troubles.push((None, CaseError::failed("its process died")));
            }
        }
    }
    Ok((cell, false))
}

/// Reaps the processes that a cell left behind. They come to this process where it is a subreaper,
/// as the command is: their CPU time then counts as its own, and not as the host's.
fn reap_orphans(group: Pid) {
    while matches!(waitpgid(group, WaitOptions::empty()), Ok(Some(_))) {}
}

enum CellEnd {
    Silent,
    TimeOver,
    Stopped,
}

/// Reads until the cell closes its output, its time is over or the observer asks to stop.
fn listen(
    child: &mut Child,
    deadline: Instant,
    observer: &mut dyn RunObserver,
) -> (Vec<u8>, CellEnd) {
    let mut said = Vec::new();
    let Some(mut stdout) = child.stdout.take() else { return (said, CellEnd::Silent) };
    let mut buffer = vec![0; 1 << 16];
    loop {
        if observer.stop() {
            return (said, CellEnd::Stopped);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (said, CellEnd::TimeOver);
        }
        let wait = Timespec::try_from(left.min(LOOK)).unwrap_or_default();
        let mut fds = [PollFd::new(&stdout, PollFlags::IN)];
        if !matches!(rustix::event::poll(&mut fds, Some(&wait)), Ok(ready) if ready > 0) {
            continue;
        }
        match stdout.read(&mut buffer) {
            Ok(0) => return (said, CellEnd::Silent),
            Ok(n) => said.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return (said, CellEnd::Silent),
        }
    }
}

/// Parses a cell's output; a line cut short by its death is ignored.
fn understand(said: &[u8]) -> Collected {
    let mut cell = Collected::default();
    for line in String::from_utf8_lossy(said).lines() {
        match serde_json::from_str(line) {
            Ok(CellLine::Batch(row)) => cell.rows.push(row),
            Ok(CellLine::Count(case, count)) => cell.counts.push((case, count)),
            Ok(CellLine::Trouble(case, trouble)) => cell.troubles.push((case, trouble)),
            Err(_) => {}
        }
    }
    cell
}
