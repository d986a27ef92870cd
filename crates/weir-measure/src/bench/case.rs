//! What there is to measure: suites of groups of cases. A case is a recipe; it is carried out in a
//! fresh process, which finds it by name in the same catalogue.

use super::params::{Load, Params, Placement, Unit};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An experiment, named after the report it comes from.
pub struct Suite {
    /// Its name, such as "joy-ipc".
    pub name: &'static str,
    /// What it measures, in a line.
    pub about: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Cases that belong together.
    pub groups: Vec<Group>,
}

/// Cases that are run in one process, round after round in random order, so that each round pairs
/// them all.
pub struct Group {
    /// Its name, unique in the suite.
    pub name: String,
    /// Its cases.
    pub cases: Vec<Case>,
    /// Figures that are differences of cases.
    pub derived: Vec<Derived>,
    /// The case the others are compared with.
    pub baseline: Option<String>,
    /// Whether there are two sides, which placement is about.
    pub sides: Sides,
    /// Placements of the default set; others are there to be asked for.
    pub standard: Vec<Placement>,
    /// Fresh processes of a run, at the least.
    pub processes: u64,
    /// Whether the first case is run twice, as a test of the measuring itself.
    pub twin: bool,
}

/// How many sides a group has.
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
    /// Whether such a group can be placed so.
    pub fn allow(self, placement: Placement) -> bool {
        match self {
            Sides::One => matches!(placement, Placement::SameCpu | Placement::Free),
            Sides::Two => true,
            Sides::Free => placement == Placement::Free,
        }
    }
}

/// One thing to be measured.
pub struct Case {
    /// Its name, unique in the suite.
    pub name: String,
    /// What it is measured with.
    pub params: Params,
    /// What a batch gives, in this order.
    pub measures: Vec<Measure>,
    /// How large a batch is.
    pub size: BatchSize,
    /// Where it depends on how fast the CPU is, and is normalised by the reference loop.
    pub normalise: Normalise,
    /// What part of the machine it is at the host's present rate.
    pub perspective: Option<Perspective>,
    /// Whether it belongs to the default set.
    pub standard: bool,
    /// Which of the measures says what the others cannot resolve: those below it are shown so.
    pub resolution: Option<usize>,
    /// Its share of the time, 1 for most.
    pub weight: f64,
    /// How to set it up.
    pub make: Recipe,
}

/// Where figures depend on how fast the CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalise {
    /// Nowhere: a disk is waited for.
    Never,
    /// With both sides on one CPU; across, waking it is waited for.
    OnOneCpu,
    /// At any placement.
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

/// How to set up a case: returns the work, or why it cannot be done here.
pub type Recipe = Box<dyn Fn(&Site) -> Result<Box<dyn Work>, Trouble> + Send + Sync>;

/// A quantity with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Such as "time", "throughput", "user".
    pub quantity: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether the kernel counts it by the ticks of its clock, so that a batch holds few of them
    /// and only the mean of many says something.
    pub by_ticks: bool,
}

impl Measure {
    /// Time of one operation.
    pub const TIME: Measure = Measure::new("time", Unit::Ns);
    /// Bytes moved in a second.
    pub const THROUGHPUT: Measure = Measure::new("throughput", Unit::MegabytesPerSecond);
    /// Operations in a second.
    pub const RATE: Measure = Measure::new("rate", Unit::PerSecond);

    /// A quantity that every batch shows.
    pub const fn new(quantity: &'static str, unit: Unit) -> Measure {
        Measure { quantity, unit, by_ticks: false }
    }

    /// Whether it is time of a CPU, or becomes that when it is turned over: on one CPU the sides
    /// take turns, so that it is never idle. Across CPUs a time is mostly that of waking one.
    pub fn is_cpu_time(&self, placement: Placement) -> bool {
        let on_one = placement == Placement::SameCpu && matches!(self.quantity, "time" | "rate");
        on_one || self.quantity == Measure::CPU
    }

    /// The name of CPU time, wherever the sides are.
    pub const CPU: &'static str = "CPU";

    /// A quantity that is counted by ticks.
    pub const fn by_ticks(quantity: &'static str, unit: Unit) -> Measure {
        Measure { quantity, unit, by_ticks: true }
    }
}

/// How many operations make a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSize {
    /// As many as take about this long.
    Time {
        /// How long.
        ns: u64,
    },
    /// This many: the experiment says so, or one is long already.
    Count(u64),
}

/// What a figure costs the host at its present rate: the rate, and how many of these one operation
/// of the case contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perspective {
    /// The rate.
    pub of: Activity,
    /// How many of them one operation contains.
    pub per_operation: f64,
}

/// What the host does so many times a second.
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
    /// Cases that are taken away.
    pub minus: Vec<String>,
    /// What the difference is divided by.
    pub divide_by: f64,
    /// Its quantity and unit, those of the cases unless divided into another.
    pub measure: Measure,
    /// Whether it belongs to the default set.
    pub standard: bool,
    /// What part of the machine it is at the host's present rate.
    pub perspective: Option<Perspective>,
}

/// A case that has been set up.
pub trait Work {
    /// Does `count` operations.
    ///
    /// # Errors
    /// What went wrong; the case is given up.
    fn batch(&mut self, count: u64) -> Result<Batch, Trouble>;
}

/// What a batch gave.
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

/// Megabytes of 10^6 bytes a second.
pub fn megabytes_per_s(bytes: u64, elapsed_ns: f64) -> f64 {
    bytes as f64 / elapsed_ns * 1e3
}

/// Where a case runs: what a recipe may know.
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
    /// Puts this process where the measuring side belongs.
    ///
    /// # Errors
    /// The CPU is not allowed.
    pub fn go_here(&self) -> Result<(), Trouble> {
        self.go(0)
    }

    /// Puts this process where the other side belongs.
    ///
    /// # Errors
    /// The CPU is not allowed.
    pub fn go_there(&self) -> Result<(), Trouble> {
        self.go(1)
    }

    fn go(&self, side: usize) -> Result<(), Trouble> {
        match self.cpus.get(side) {
            None => Ok(()),
            Some(cpu) => super::place::pin(*cpu as usize)
                .map_err(|error| Trouble::failed(format!("cannot run on CPU {cpu}: {error}"))),
        }
    }
}

/// Why a case gives no figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    /// Whether it is a want of privilege or of a feature rather than a fault.
    pub left_out: bool,
    /// What and why.
    pub text: String,
}

impl Trouble {
    /// The host lacks what it takes.
    pub fn left_out(text: impl Into<String>) -> Trouble {
        Trouble { left_out: true, text: text.into() }
    }

    /// Something failed.
    pub fn failed(text: impl Into<String>) -> Trouble {
        Trouble { left_out: false, text: text.into() }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for Trouble {
    fn from(error: rustix::io::Errno) -> Trouble {
        Trouble::failed(std::io::Error::from(error).to_string())
    }
}
