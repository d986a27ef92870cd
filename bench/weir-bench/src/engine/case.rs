//! The catalogue of measurements: suites of groups of cases. A case is a recipe; a fresh process
//! finds it by name in the same catalogue and carries it out.

use super::params::{Load, Params, Placement, Unit};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An experiment, named after the report it comes from.
pub struct Suite {
    /// Its name, such as "joy-ipc".
    pub name: &'static str,
    /// A line about what it measures.
    pub about: &'static str,
    /// The report it comes from.
    pub source: &'static str,
    /// Cases that belong together.
    pub groups: Vec<Group>,
}

/// Cases that run in one process, round after round in random order, so that each round pairs them
/// all.
pub struct Group {
    /// Its name, unique in the suite.
    pub name: String,
    /// Its cases.
    pub cases: Vec<Case>,
    /// Figures that are differences of cases.
    pub derived: Vec<Derived>,
    /// The case the others are compared with.
    pub baseline: Option<String>,
    /// How many sides it has, which its placement depends on.
    pub sides: Sides,
    /// Placements of the default set; others run only on request.
    pub standard: Vec<Placement>,
    /// Fewest fresh processes of a run.
    pub processes: u64,
    /// Whether the first case runs twice, as a test of the measurement itself.
    pub twin: bool,
}

/// The number of sides of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// One process: it stays on one CPU, or runs free.
    One,
    /// Two or more, which can be placed.
    Two,
    /// Processes that place themselves, such as programs of a pipeline.
    Free,
}

impl Sides {
    /// Whether such a group can have this placement.
    pub fn allow(self, placement: Placement) -> bool {
        match self {
            Sides::One => matches!(placement, Placement::SameCpu | Placement::Free),
            Sides::Two => true,
            Sides::Free => placement == Placement::Free,
        }
    }
}

/// One thing to measure.
pub struct Case {
    /// Its name, unique in the suite.
    pub name: String,
    /// The parameters with which it is measured.
    pub params: Params,
    /// The values that a batch gives, in this order.
    pub measures: Vec<Measure>,
    /// The size of a batch.
    pub size: BatchSize,
    /// The placements in which it depends on the CPU's speed, and is normalised by the reference
    /// loop.
    pub normalise: Normalise,
    /// The rate of the host that its cost is scaled to.
    pub perspective: Option<Perspective>,
    /// Whether it belongs to the default set.
    pub standard: bool,
    /// The measure that limits the resolution of the others: those below it are shown so.
    pub resolution: Option<usize>,
    /// Its weight in sharing the time, 1 for most.
    pub weight: f64,
    /// The recipe that sets it up.
    pub make: Recipe,
}

/// The placements in which figures depend on the CPU's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalise {
    /// None: the case waits for a disk.
    Never,
    /// Those with both sides on one CPU; across CPUs the wake-up dominates.
    OnOneCpu,
    /// All.
    Always,
}

impl Normalise {
    /// Whether figures of this placement are normalised.
    pub fn holds(self, placement: Placement) -> bool {
        match self {
            Normalise::Never => false,
            Normalise::OnOneCpu => placement == Placement::SameCpu,
            Normalise::Always => true,
        }
    }
}

/// The work of a case, or why it is impossible here.
pub type MadeWork = Result<Box<dyn Work>, CaseError>;

/// Sets up a case.
pub type Recipe = Box<dyn Fn(&Site) -> MadeWork + Send + Sync>;

/// A quantity with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its name, such as "time", "throughput", "user".
    pub quantity: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether the kernel counts it in clock ticks, so that a batch holds few of them and only the
    /// mean of many batches is meaningful.
    pub by_ticks: bool,
}

impl Measure {
    /// Time of one operation.
    pub const TIME: Measure = Measure::new("time", Unit::Ns);
    /// Bytes moved in a second.
    pub const THROUGHPUT: Measure = Measure::new("throughput", Unit::MegabytesPerSecond);
    /// Operations in a second.
    pub const RATE: Measure = Measure::new("rate", Unit::PerSecond);

    /// Creates a quantity that every batch shows.
    pub const fn new(quantity: &'static str, unit: Unit) -> Measure {
        Measure { quantity, unit, by_ticks: false }
    }

    /// Whether it is CPU time, or its inverse. On one CPU the sides take turns, so the CPU is never
    /// idle. Across CPUs a time is mostly that of waking a CPU.
    pub fn is_cpu_time(&self, placement: Placement) -> bool {
        let on_one = placement == Placement::SameCpu && matches!(self.quantity, "time" | "rate");
        on_one || self.quantity == Measure::CPU
    }

    /// The name of CPU time, wherever the sides are.
    pub const CPU: &'static str = "CPU";

    /// Creates a quantity that is counted in clock ticks.
    pub const fn by_ticks(quantity: &'static str, unit: Unit) -> Measure {
        Measure { quantity, unit, by_ticks: true }
    }
}

/// The number of operations in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// As many as take about this long, or a quarter of it where the budget is small.
    Time {
        /// How long.
        ns: u64,
    },
    /// As many as take about this long, whatever the budget: a shorter batch would measure something
    /// else.
    WholeTime {
        /// How long.
        ns: u64,
    },
    /// This many: the experiment demands it, or one operation is long already.
    Count(u64),
}

/// The cost of a figure at the host's present rate: the rate, and how many such events one
/// operation of the case contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perspective {
    /// The rate.
    pub of: Activity,
    /// How many such events one operation contains.
    pub per_operation: f64,
}

/// An event that the host counts per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Context switches.
    Switches,
    /// Read and write calls.
    Calls,
    /// Page faults.
    Faults,
    /// Packets that network devices receive.
    Packets,
}

/// A figure that is a difference: the sum of some cases less that of others, divided.
pub struct Derived {
    /// Its name, unique in the suite.
    pub name: String,
    /// Its parameters.
    pub params: Params,
    /// Cases that are added.
    pub plus: Vec<String>,
    /// Cases that are subtracted.
    pub minus: Vec<String>,
    /// The divisor of the difference.
    pub divide_by: f64,
    /// Its quantity and unit: those of the cases unless the division changes them.
    pub measure: Measure,
    /// Whether it belongs to the default set.
    pub standard: bool,
    /// The rate of the host that its cost is scaled to.
    pub perspective: Option<Perspective>,
}

/// A case that has been set up.
pub trait Work {
    /// Does `count` operations.
    ///
    /// # Errors
    /// The reason; the case is then given up.
    fn batch(&mut self, count: u64) -> Result<Batch, CaseError>;
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The time that counts.
    pub elapsed_ns: f64,
    /// One value for each measure of the case, in its unit.
    pub values: Vec<f64>,
}

impl Batch {
    /// Time of one operation.
    pub fn time(elapsed_ns: f64, count: u64) -> Batch {
        Batch { elapsed_ns, values: vec![elapsed_ns / count as f64] }
    }

    /// Operations a second.
    pub fn rate(elapsed_ns: f64, count: u64) -> Batch {
        Batch { elapsed_ns, values: vec![count as f64 / elapsed_ns * 1e9] }
    }

    /// Bytes moved in a second.
    pub fn throughput(elapsed_ns: f64, bytes: u64) -> Batch {
        Batch { elapsed_ns, values: vec![megabytes_per_s(bytes, elapsed_ns)] }
    }
}

/// Returns megabytes of 10^6 bytes per second.
pub fn megabytes_per_s(bytes: u64, elapsed_ns: f64) -> f64 {
    bytes as f64 / elapsed_ns * 1e3
}

/// The site of a case: the surroundings that a recipe may know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// The placement.
    pub placement: Placement,
    /// The CPUs of the two sides; empty when the kernel decides.
    pub cpus: Vec<u64>,
    /// The competing load.
    pub load: Load,
    /// A directory for files.
    pub directory: PathBuf,
}

impl Site {
    /// Puts this process on the CPU of the measuring side.
    ///
    /// # Errors
    /// The CPU is not allowed.
    pub fn go_here(&self) -> Result<(), CaseError> {
        self.go(0)
    }

    /// Puts this process on the CPU of the other side.
    ///
    /// # Errors
    /// The CPU is not allowed.
    pub fn go_there(&self) -> Result<(), CaseError> {
        self.go(1)
    }

    fn go(&self, side: usize) -> Result<(), CaseError> {
        match self.cpus.get(side) {
            None => Ok(()),
            Some(cpu) => super::place::pin(*cpu as usize)
                .map_err(|error| CaseError::failed(format!("cannot run on CPU {cpu}: {error}"))),
        }
    }
}

/// Why a case gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct CaseError {
    /// Whether a privilege or a feature is missing, rather than something failed.
    pub left_out: bool,
    /// What failed and why.
    pub text: String,
}

impl CaseError {
    /// Makes the error that the host lacks a privilege or a feature.
    pub fn left_out(text: impl Into<String>) -> CaseError {
        CaseError { left_out: true, text: text.into() }
    }

    /// Makes the error that something failed.
    pub fn failed(text: impl Into<String>) -> CaseError {
        CaseError { left_out: false, text: text.into() }
    }
}

impl From<std::io::Error> for CaseError {
    fn from(error: std::io::Error) -> CaseError {
        CaseError::failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for CaseError {
    fn from(error: rustix::io::Errno) -> CaseError {
        CaseError::failed(std::io::Error::from(error).to_string())
    }
}
