//! A cell: one fresh process that runs the cases of a group round after round, in random order.
//!
//! The command starts itself with a [`CellRequest`] on standard input and gets a [`CellLine`] of JSON for
//! each batch. So a cell that is killed when its time is over has already reported its batches.

use super::calibrate::calibrate;
use super::case::{BatchSize, CaseError, Group, Site, Suite, Work};
use super::{line, load, reference};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::time::{Duration, Instant};
use weir_measure::pairs::PairOrder;
use weir_measure::sys::fork::Child;
use weir_measure::sys::usage::Usage;

/// Batches of a case in a cell, if the time allows.
const ROUNDS: u64 = 6;
/// Shortest batch: a shorter one would measure the clock.
const BATCH_NS_MIN: u64 = 200_000;
/// A batch that must be short for the time of its cell has this part of its length at least.
const BATCH_PART_MIN: u64 = 4;

/// The task of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellRequest {
    /// The suite.
    pub suite: String,
    /// Its group.
    pub group: String,
    /// The names of its cases to run.
    pub cases: Vec<String>,
    /// Whether the first of them runs twice.
    pub twin: bool,
    /// The placement, with CPUs, load and directory.
    pub site: Site,
    /// Seed of the orders.
    pub seed: u64,
    /// Its time, including the setting up.
    pub time_ns: u64,
    /// Its rounds, at most.
    pub rounds: u64,
    /// Operations per batch for cases that an earlier cell has calibrated.
    pub counts: Vec<Option<u64>>,
}

/// One line of a cell's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CellLine {
    /// A batch.
    Batch(CellBatch),
    /// A case that failed; `None` for the whole cell.
    Trouble(Option<usize>, CaseError),
    /// The number of operations per batch of a case.
    Count(usize, u64),
}

/// One batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellBatch {
    /// Index into the cases of the request; their number is the index of the twin.
    pub case: usize,
    /// The round.
    pub round: u64,
    /// When it ended, since the cell began.
    pub at_ms: u64,
    /// One value for each measure.
    pub values: Vec<f64>,
    /// Time of a step of the reference loop, mean of before and after.
    pub reference_ns: f64,
    /// The CPU it ended on.
    pub cpu: u64,
    /// Involuntary switches during it.
    pub involuntary: u64,
    /// Round trip of a cache line, mean of before and after the round.
    pub line_rtt_ns: Option<f64>,
}

struct ReadyCase {
    index: usize,
    work: Box<dyn Work>,
    count: u64,
}

/// Runs the cell whose request comes on standard input, and ends when the process that asked for it
/// does.
///
/// # Errors
/// What comes is not a request for one of these suites; see also [`run`].
pub fn answer(suites: &[Suite]) -> Result<(), CaseError> {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let text = std::io::read_to_string(std::io::stdin())?;
    let request: CellRequest =
        serde_json::from_str(&text).map_err(|error| CaseError::failed(error.to_string()))?;
    let suite = suites.iter().find(|suite| suite.name == request.suite);
    let group = suite.and_then(|suite| suite.groups.iter().find(|g| g.name == request.group));
    let group = group.ok_or_else(|| {
        CaseError::failed(format!("there is no group '{}' in {}", request.group, request.suite))
    })?;
    run(group, &request, &mut std::io::stdout().lock())
}

/// Runs a cell to its end.
///
/// # Errors
/// It cannot be placed or loaded, or nobody reads its output.
pub fn run(group: &Group, request: &CellRequest, out: &mut impl Write) -> Result<(), CaseError> {
    let begun = Instant::now();
    // Before this process goes to its CPU: a load that it starts has the CPUs that it has.
    let load = load::start(&request.site)?;
    request.site.go_here()?;
    let mut order = PairOrder::new(request.seed);
    let mut ready = set_up(group, request, &mut order, out)?;
    let end = begun + Duration::from_nanos(request.time_ns);
    let mut round = 0;
    while !ready.is_empty() {
        let place = RoundPlace { site: &request.site, load: &load, begun };
        let rows = run_round(&mut ready, &mut order, &place, round, out)?;
        if place.has_lost_its_load() {
            let trouble = CaseError::failed("what ran beside it has ended");
            write_line(out, &CellLine::Trouble(None, trouble))?;
            break;
        }
        for row in rows {
            write_line(out, &CellLine::Batch(row))?;
        }
        round += 1;
        // Stops unless another round of the mean length fits.
        let spent = begun.elapsed();
        if round >= request.rounds
            || Instant::now() + spent / u32::try_from(round + 1).unwrap_or(u32::MAX) > end
        {
            break;
        }
    }
    Ok(())
}

/// Sets up all works and calibrates their batches.
fn set_up(
    group: &Group,
    request: &CellRequest,
    order: &mut PairOrder,
    out: &mut impl Write,
) -> Result<Vec<ReadyCase>, CaseError> {
    let twin = request.twin.then(|| request.cases.first()).flatten();
    let mut names: Vec<(usize, &String)> = request.cases.iter().chain(twin).enumerate().collect();
    // The work that is made first may get the better memory.
    order.shuffle(&mut names);
    let batch_ns = request.time_ns / (ROUNDS * names.len().max(1) as u64) * 3 / 4;
    // All are made before any runs: making a work forks, which a process with threads must not do,
    // and a running work may start some.
    let mut made = Vec::new();
    for (index, name) in names {
        let case = group.cases.iter().find(|case| case.name == *name);
        let found = case.ok_or_else(|| CaseError::failed(format!("there is no case '{name}'")));
        match found.and_then(|case| Ok((index, case, (case.make)(&request.site)?))) {
            Ok(work) => made.push(work),
            Err(trouble) => write_line(out, &CellLine::Trouble(Some(index), trouble))?,
        }
    }
    let mut ready = Vec::new();
    for (index, case, mut work) in made {
        let known = request.counts.get(index).copied().flatten();
        let counted = match (case.size, known) {
            (BatchSize::Count(count), _) => Ok(count),
            (_, Some(count)) => warm(work.as_mut(), count),
            (BatchSize::WholeTime { ns }, None) => calibrate(work.as_mut(), ns as f64),
            (BatchSize::Time { ns }, None) => {
                let least_ns = (ns / BATCH_PART_MIN).max(BATCH_NS_MIN);
                calibrate(work.as_mut(), ns.min(batch_ns).max(least_ns) as f64)
            }
        };
        match counted {
            Ok(count) => {
                write_line(out, &CellLine::Count(index, count))?;
                ready.push(ReadyCase { index, work, count });
            }
            Err(trouble) => write_line(out, &CellLine::Trouble(Some(index), trouble))?,
        }
    }
    Ok(ready)
}

/// Runs a part of a batch to warm up caches and pages.
fn warm(work: &mut dyn Work, count: u64) -> Result<u64, CaseError> {
    work.batch(count.div_ceil(4))?;
    Ok(count)
}

/// Where and since when rounds run, and what runs beside them.
struct RoundPlace<'a> {
    site: &'a Site,
    load: &'a [Child],
    begun: Instant,
}

impl RoundPlace<'_> {
    fn has_lost_its_load(&self) -> bool {
        self.load.iter().any(Child::has_ended)
    }
}

/// Runs every case once, in random order; a case that fails is dropped. It ends early when the load
/// has ended: a batch counts only if the load was there to its end.
fn run_round(
    ready: &mut Vec<ReadyCase>,
    order: &mut PairOrder,
    place: &RoundPlace<'_>,
    round: u64,
    out: &mut impl Write,
) -> Result<Vec<CellBatch>, CaseError> {
    order.shuffle(ready.as_mut_slice());
    let before = line_rtt_ns(place.site);
    let mut rows = Vec::with_capacity(ready.len());
    let mut failed = Vec::new();
    for work in ready.iter_mut() {
        let ran = run_batch(work, round, place.begun);
        if place.has_lost_its_load() {
            break;
        }
        match ran {
            // Rows wait for the second measurement of the cache line, if there is one.
            Ok(row) if before.is_none() => write_line(out, &CellLine::Batch(row))?,
            Ok(row) => rows.push(row),
            Err(trouble) => failed.push((work.index, trouble)),
        }
    }
    if let (Some(before), Some(after)) = (before, line_rtt_ns(place.site)) {
        for row in &mut rows {
            row.line_rtt_ns = Some(f64::midpoint(before, after));
        }
    }
    for (index, trouble) in failed {
        ready.retain(|work| work.index != index);
        write_line(out, &CellLine::Trouble(Some(index), trouble))?;
    }
    Ok(rows)
}

fn run_batch(ready: &mut ReadyCase, round: u64, begun: Instant) -> Result<CellBatch, CaseError> {
    let before = reference::step_ns();
    let switches = Usage::of_self().involuntary_switches;
    let batch = ready.work.batch(ready.count)?;
    let involuntary = Usage::of_self().involuntary_switches - switches;
    let cpu = rustix::thread::sched_getcpu() as u64;
    let after = reference::step_ns();
    Ok(CellBatch {
        case: ready.index,
        round,
        at_ms: begun.elapsed().as_millis() as u64,
        values: batch.values,
        reference_ns: f64::midpoint(before, after),
        cpu,
        involuntary,
        line_rtt_ns: None,
    })
}

fn line_rtt_ns(site: &Site) -> Option<f64> {
    if !site.placement.is_across() {
        return None;
    }
    line::round_trip_ns(*site.cpus.first()? as usize, *site.cpus.get(1)? as usize)
}

fn write_line(out: &mut impl Write, line: &CellLine) -> Result<(), CaseError> {
    let mut text =
        serde_json::to_string(line).map_err(|error| CaseError::failed(error.to_string()))?;
    text.push('\n');
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
