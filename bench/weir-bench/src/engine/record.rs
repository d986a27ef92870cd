//! The result of a run of `weir bench`: the document of schema `weir.bench/1`.
//!
//! The unit of a figure is beside it. Times of one step are nanoseconds (`_ns`), all other
//! times seconds (`_s`), and figures are as timed unless the name says otherwise. Readers may
//! ignore fields they do not know.

use super::params::{Load, Params, Placement, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_measure::host_cpu::HostUse;

/// The schema written.
pub const SCHEMA: &str = "weir.bench/1";
/// Widest meaningful interval of a rare state, as a fraction of the estimate.
const RARE_WIDTH: f64 = 1.0;
/// Widest meaningful interval of any figure: half of it is the figure itself.
const VAGUE_WIDTH: f64 = 2.0;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of weir that measured.
    pub weir_version: String,
    /// When the run began, in seconds since 1970 (UTC).
    pub started_unix_s: u64,
    /// How long it took.
    pub duration_s: f64,
    /// Its time budget.
    pub budget_s: f64,
    /// Whether it was the default set.
    pub standard: bool,
    /// The suites asked for, or cases of them ("joy-ipc/futex"), as they were typed.
    pub suites_asked: Vec<String>,
    /// The regular expression that selected cases by name.
    pub filter: Option<String>,
    /// The placements that were asked for, if any.
    pub placements_asked: Vec<Placement>,
    /// Whether it was interrupted; it then holds what was measured until then.
    pub interrupted: bool,
    /// The directory in which files were measured.
    pub directory: Option<String>,
    /// The seed of all orders.
    pub seed: u64,
    /// The competing load of the run.
    pub load: Load,
    /// Where it ran.
    pub host: Host,
    /// The activity of the host just before.
    pub rates: Rates,
    /// The loop that normalises the figures.
    pub reference: Reference,
    /// The results of pairing the same thing with itself.
    pub self_test: SelfTest,
    /// The figures.
    pub cases: Vec<CaseRecord>,
    /// Comparisons with the baseline of the group, in pairs of one process.
    pub comparisons: Vec<ComparisonRecord>,
    /// What was left out and why, a line each.
    pub notes: Vec<Note>,
    /// A sentence for each surprising figure.
    pub remarks: Vec<String>,
}

/// The host's fingerprint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// `uname -s -r -v -m`.
    pub kernel: String,
    /// The CPU's model name, family and model.
    pub cpu: String,
    /// CPUs online.
    pub cpus_online: u64,
    /// CPUs this process may use.
    pub cpus_allowed: Vec<u64>,
    /// Physical memory.
    pub memory_bytes: u64,
    /// Sizes of the caches of the first allowed CPU, such as "L1d 48 KiB".
    pub caches: Vec<String>,
    /// The kernel's clock source.
    pub clocksource: String,
    /// Frequency of the time-stamp counter against the monotonic clock; 0 without one.
    pub tsc_hz: u64,
    /// Governor of the first CPU; "none" where the guest cannot choose.
    pub governor: String,
    /// "none", or the hypervisor's name where it is known.
    pub virtualisation: String,
    /// Vulnerabilities, each with the kernel's statement of its mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// Transparent huge pages, with the kernel's brackets around its choice.
    pub huge_pages: String,
    /// The CPUs of each placement used, such as "other-cpu": [0, 1].
    pub placements: BTreeMap<Placement, Vec<u64>>,
    /// The state of the host beside the run.
    pub state: HostState,
}

/// The state of the host beside a run: the use of its CPUs by others. `load` is the run's own load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Before the first cell started, while nothing was measured.
    pub before: Option<HostUse>,
    /// While cells ran.
    pub during: Option<HostUse>,
    /// Whether others used, or the hypervisor took, so much that the figures are those of a busy
    /// host; `None` where that is unknown.
    pub busy: Option<bool>,
    /// The state as a sentence.
    pub text: String,
}

/// The activity of the host in the second before the run, from /proc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Context switches a second.
    pub switches_per_s: f64,
    /// Page faults a second.
    pub faults_per_s: f64,
    /// Read and write calls a second, of the accessible processes.
    pub calls_per_s: f64,
    /// Processes and threads started a second.
    pub forks_per_s: f64,
    /// Packets received a second by all network devices, including the loopback device.
    pub packets_per_s: f64,
}

/// The reference loop: a chain of dependent multiplications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The version of the loop ([`super::reference::VERSION`]).
    pub version: u64,
    /// Step time to which figures are normalised, as if every step had taken this. It is the median
    /// of the first run on this host that recorded it, so that later runs use the same; else this
    /// run's own.
    pub nominal_ns: f64,
    /// Whether that comes from an earlier run.
    pub from_first_run: bool,
    /// Median over all batches.
    pub median_ns: f64,
    /// Tenth percentile.
    pub fast_ns: f64,
    /// Ninetieth percentile.
    pub slow_ns: f64,
    /// Batches beside which the loop was more than a tenth slower than nominal.
    pub slow_batches: u64,
    /// All batches.
    pub batches: u64,
}

/// The results of pairing the same thing with itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// One entry a group of cases.
    pub entries: Vec<SelfTestEntry>,
    /// Median resolution of the entries; `None` without entries.
    pub resolves_share: Option<f64>,
    /// Entries whose interval contains 1; about 19 of 20 valid ones do.
    pub same_entries: u64,
    /// The result as a sentence.
    pub sentence: String,
}

/// A case against its twin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SelfTestEntry {
    /// The suite.
    pub suite: String,
    /// The case that was run twice.
    pub case: String,
    /// The placement.
    pub placement: Placement,
    /// Estimate of twin / case.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Processes, each of which gave one ratio.
    pub pairs: u64,
    /// Half the width of the interval.
    pub resolves_share: f64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// The suite.
    pub suite: String,
    /// The case, unique in suite, placement and stratum.
    pub case: String,
    /// The parameters with which it was measured.
    pub params: Params,
    /// The placement.
    pub placement: Placement,
    /// The quantity: "time", "throughput", "user", "p99", ...
    pub quantity: String,
    /// Unit of `estimate`, `low`, `high`, `as_timed` and `samples`.
    pub unit: Unit,
    /// The figure, normalised by the reference loop where `normalised` says so.
    pub estimate: f64,
    /// Lower end of the 95 % interval of this run, widened by the hosts' drift between runs (see
    /// `estimate::drift`) so that the intervals of two runs overlap.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether the reference loop was used.
    pub normalised: bool,
    /// The estimate before normalising.
    pub as_timed: f64,
    /// Number of batches it comes from: samples of another stratum are not counted.
    pub batches: u64,
    /// Fresh processes the batches come from.
    pub processes: u64,
    /// Spread of the processes' own values: the largest over the smallest, less 1; `None` where one is
    /// not above 0.
    pub between_processes_share: Option<f64>,
    /// For figures across CPUs, the median round trip of a cache line beside the batches.
    pub line_rtt_ns: Option<f64>,
    /// "near" or "far" where that round trip had two states.
    pub stratum: Option<String>,
    /// Whether the difference is too small to be told from 0: read the figure as "below `high`".
    pub below_resolution: bool,
    /// Whether it is a difference of cases.
    pub is_difference: bool,
    /// The competing load of the measurement; else none.
    pub load: Load,
    /// The part of one CPU that this costs at the host's present rate.
    pub perspective: Option<String>,
    /// Labels of the figure, such as "bimodal".
    pub labels: Vec<String>,
    /// Every batch, as timed, in the order of measuring.
    pub samples: Vec<f64>,
    /// Observations beside each sample.
    pub beside: Beside,
}

/// Columns beside the samples of a case, one entry a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Number of the fresh process, from 0.
    pub process: Vec<u64>,
    /// When it ended, since the start of the run.
    pub at_s: Vec<f64>,
    /// Time of a step of the reference loop.
    pub reference_ns: Vec<f64>,
    /// The CPU the measuring side was on.
    pub cpu: Vec<u64>,
    /// Involuntary context switches of the measuring side.
    pub involuntary: Vec<u64>,
    /// Faults of the sample: "" or "slow", "moved", "preempted", joined by "+".
    pub label: Vec<String>,
}

/// A case against the baseline of its group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRecord {
    /// The suite.
    pub suite: String,
    /// The baseline.
    pub a: String,
    /// The case.
    pub b: String,
    /// The placement of both.
    pub placement: Placement,
    /// Unit of both.
    pub unit: Unit,
    /// Estimate of b / a.
    pub ratio: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// p value of "both the same".
    pub p: f64,
    /// Processes, each of which gave one ratio.
    pub pairs: u64,
    /// The largest difference that counts as none, as a fraction.
    pub band_share: f64,
    /// The verdict on b.
    pub verdict: VerdictRecord,
}

/// The verdict on the second of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// "faster", "slower", "equivalent" or "inconclusive".
    pub kind: String,
    /// The verdict as a sentence.
    pub text: String,
}

/// Something left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// The suite.
    pub suite: String,
    /// What was left out, and why.
    pub text: String,
}

/// Why a text is not a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// It is no JSON, or not of this shape.
    #[error("not a report of weir bench: {0}")]
    Shape(String),
    /// It has another schema, or another version of it.
    #[error("its schema is '{0}', but '{SCHEMA}' is expected")]
    Foreign(String),
}

impl Report {
    /// Parses a report.
    ///
    /// # Errors
    /// Not JSON, another schema, or not of its shape.
    pub fn from_json(text: &str) -> Result<Report, ReportError> {
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        let shape = |error: serde_json::Error| ReportError::Shape(error.to_string());
        let head: Head = serde_json::from_str(text).map_err(shape)?;
        match head.schema {
            Some(schema) if schema != SCHEMA => Err(ReportError::Foreign(schema)),
            Some(_) => serde_json::from_str(text).map_err(shape),
            None => Err(ReportError::Shape("it has no schema".into())),
        }
    }
}

impl CaseRecord {
    /// Returns its key in a report, by which two runs are compared.
    pub fn key(&self) -> (String, String, Placement, Option<String>) {
        (self.suite.clone(), self.case.clone(), self.placement, self.stratum.clone())
    }

    /// Whether this is the rarer of two states of the cache line (see `stratum`), seen too seldom
    /// for a figure: its interval extends by half of the estimate or more to each side.
    pub fn is_too_rare(&self, all: &[CaseRecord]) -> bool {
        let commoner = |other: &CaseRecord| {
            other.case == self.case
                && other.suite == self.suite
                && other.placement == self.placement
                && other.stratum != self.stratum
                && other.batches > self.batches
        };
        self.stratum.is_some() && self.relative_width() > RARE_WIDTH && all.iter().any(commoner)
    }

    /// Whether the interval extends further to each side than the figure is large: that is no
    /// figure to show. Differences that may be 0 and counted ticks have such intervals and are
    /// valid; a figure from one process has no interval at all.
    pub fn is_too_vague(&self) -> bool {
        let may_be_zero = self.below_resolution || self.is_by_ticks();
        !may_be_zero && self.relative_width() > VAGUE_WIDTH
    }

    /// Whether the kernel counts it in clock ticks.
    pub fn is_by_ticks(&self) -> bool {
        matches!(&*self.quantity, "user" | "system" | "system of the second")
    }

    /// Returns the samples that count, with their places: those of the figure's own stratum.
    pub fn counted(&self) -> impl Iterator<Item = (usize, f64)> {
        let own = |at: &usize| {
            let label = self.beside.label.get(*at).map_or("", String::as_str);
            !label.split('+').any(|word| matches!(word, "near" | "far"))
        };
        self.samples.iter().copied().enumerate().filter(move |(at, _)| own(at))
    }

    /// Returns the width of the interval as a fraction of the estimate.
    pub fn relative_width(&self) -> f64 {
        (self.high - self.low) / self.estimate.abs()
    }
}
