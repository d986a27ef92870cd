//! The batches of a block by case, normalised, divided into strata.

use super::super::case::Measure;
use super::super::cell::CellBatch;
use super::super::drive::Collected;
use super::super::estimate::median;
use super::super::params::Unit;
use super::super::plan::Block;

/// A cache line counts as far if its round trip is twice the run's shortest ...
const FAR: f64 = 2.0;
/// ... or takes this long: cores that share a cache are below.
const NEAR_NS_MAX: f64 = 200.0;
/// A second stratum is a figure of its own from this many processes on.
const PROCESSES_MIN: usize = 6;

/// A batch with its place in the block.
#[derive(Clone, Debug)]
pub struct PlacedBatch {
    /// Number of its process.
    pub process: u64,
    /// The cell's row; `at_ms` counts from the start of the run.
    pub row: CellBatch,
}

/// All batches of a block.
#[derive(Debug)]
pub struct Series {
    /// By index of the case in the block; the last is the twin. Those of a case are in the order of
    /// their processes, and of the rounds of each.
    cases: Vec<Vec<PlacedBatch>>,
    nominal_ns: f64,
    far_ns: f64,
    cpus: Vec<u64>,
}

/// Batches of one figure.
#[derive(Clone, Debug)]
pub struct Batches {
    /// In the order of measuring.
    pub list: Vec<SeriesValue>,
    /// "near" or "far", if the cache line was measured.
    pub stratum: Option<&'static str>,
    /// Whether the values are differences, which may be 0 or below.
    pub is_difference: bool,
}

#[derive(Clone, Debug)]
pub struct SeriesValue {
    pub timed: f64,
    pub normalised: f64,
    pub placed: PlacedBatch,
    /// Whether it ended on a wrong CPU.
    pub moved: bool,
    /// Its stratum, if that is not the one of the figure: it is then shown but not counted.
    pub other_stratum: Option<&'static str>,
}

/// Returns the round trip from which a line is far, of all rows of one placement: blocks that see
/// one state only are then named as those that see both.
pub fn far_ns<'a>(rows: impl Iterator<Item = &'a CellBatch>) -> f64 {
    let least = rows.filter_map(|row| row.line_rtt_ns).fold(f64::INFINITY, f64::min);
    (least * FAR).min(NEAR_NS_MAX)
}

impl Series {
    /// Sorts the output of a block's cells. Lines are far from `far_ns` on.
    pub fn new(cells: &[&Collected], block: &Block, nominal_ns: f64, far_ns: f64) -> Series {
        let mut cases = vec![Vec::new(); block.cases.len() + 1];
        for cell in cells {
            for row in &cell.rows {
                if let Some(case) = cases.get_mut(row.case) {
                    let row = CellBatch { at_ms: cell.began_ms + row.at_ms, ..row.clone() };
                    case.push(PlacedBatch { process: cell.process, row });
                }
            }
        }
        Series { cases, nominal_ns, far_ns, cpus: block.cpus.clone() }
    }

    /// Whether a case has no batches.
    pub fn is_empty(&self, place: usize) -> bool {
        self.cases[place].is_empty()
    }

    /// Returns the batch of a case in the same round as another one. A long run has hundreds of
    /// thousands of batches, so it is not searched for from the beginning.
    fn beside(&self, place: usize, other: &PlacedBatch) -> Option<&PlacedBatch> {
        let list = self.cases.get(place)?;
        let round = |placed: &PlacedBatch| (placed.process, placed.row.round);
        let at = list.partition_point(|placed| round(placed) < round(other));
        list.get(at).filter(|placed| round(placed) == round(other))
    }

    /// Returns the index of the twin of the first case.
    pub fn twin(&self) -> usize {
        self.cases.len() - 1
    }

    fn stratum(&self, row: &CellBatch) -> Option<&'static str> {
        row.line_rtt_ns.map(|rtt| if rtt < self.far_ns { "near" } else { "far" })
    }

    fn normalise(&self, value: f64, unit: Unit, reference_ns: f64) -> f64 {
        let slower = reference_ns / self.nominal_ns;
        match unit {
            _ if !slower.is_finite() || slower <= 0.0 => value,
            Unit::Ns => value / slower,
            Unit::MegabytesPerSecond | Unit::PerSecond => value * slower,
            Unit::Percent | Unit::Megabytes => value,
        }
    }

    fn entry(
        &self,
        placed: &PlacedBatch,
        timed: f64,
        measure: Measure,
        scaled: bool,
    ) -> SeriesValue {
        let row = &placed.row;
        let normalised =
            if scaled { self.normalise(timed, measure.unit, row.reference_ns) } else { timed };
        let moved = self.cpus.first().is_some_and(|cpu| *cpu != row.cpu);
        SeriesValue { timed, normalised, placed: placed.clone(), moved, other_stratum: None }
    }

    /// Returns the batches of one measure of a case, divided into strata.
    pub fn strata(
        &self,
        place: usize,
        measure_index: usize,
        measure: Measure,
        scaled: bool,
    ) -> Vec<Batches> {
        let value = |placed: &PlacedBatch| {
            let timed = *placed.row.values.get(measure_index)?;
            Some(self.entry(placed, timed, measure, scaled))
        };
        self.divided(self.cases[place].iter().filter_map(value).collect(), false)
    }

    /// Divides values: a list for each stratum with enough processes; the largest also holds values of
    /// no stratum.
    fn divided(&self, values: Vec<SeriesValue>, is_difference: bool) -> Vec<Batches> {
        let own = |entry: &SeriesValue| self.stratum(&entry.placed.row);
        let processes = |stratum| {
            let of = values.iter().filter(|entry| own(entry) == Some(stratum));
            let mut list: Vec<u64> = of.map(|entry| entry.placed.process).collect();
            list.dedup();
            list.len()
        };
        let (near, far) = (processes("near"), processes("far"));
        let main = match (near, far) {
            (0, 0) => None,
            (near, far) if near >= far => Some("near"),
            _ => Some("far"),
        };
        let other = if main == Some("near") { "far" } else { "near" };
        let split = near.min(far) >= PROCESSES_MIN;
        let of = |stratum: Option<&'static str>| {
            let here = values.iter().filter(|entry| !split || own(entry).or(main) == stratum);
            let list = here.map(|entry| {
                let other_stratum = own(entry).filter(|own| Some(*own) != stratum);
                SeriesValue { other_stratum, ..entry.clone() }
            });
            Batches { list: list.collect(), stratum, is_difference }
        };
        let mut lists = vec![of(main)];
        lists.extend(split.then(|| of(Some(other))));
        lists.retain(|batches| !batches.list.is_empty());
        lists
    }

    /// Returns differences within rounds, divided into strata: the sum of the cases at some indices
    /// less that at others.
    pub fn difference(
        &self,
        (plus, minus): (&[usize], &[usize]),
        divide_by: f64,
        scaled: bool,
    ) -> Vec<Batches> {
        let first = plus.first().copied().unwrap_or(0);
        let measure = Measure::TIME;
        let value = |place: usize, like: &PlacedBatch| {
            let found = self.beside(place, like)?;
            Some(self.entry(found, *found.row.values.first()?, measure, scaled))
        };
        let mut list = Vec::new();
        for placed in &self.cases[first] {
            let sum = |places: &[usize]| -> Option<(f64, f64)> {
                places.iter().try_fold((0.0, 0.0), |(timed, normalised), place| {
                    let entry = value(*place, placed)?;
                    Some((timed + entry.timed, normalised + entry.normalised))
                })
            };
            let (Some(plus), Some(minus)) = (sum(plus), sum(minus)) else { continue };
            let mut entry = self.entry(placed, 0.0, measure, scaled);
            entry.timed = (plus.0 - minus.0) / divide_by;
            entry.normalised = (plus.1 - minus.1) / divide_by;
            list.push(entry);
        }
        self.divided(list, true)
    }

    /// Returns one ratio b / a for each process: the median over its rounds, logarithmic.
    pub fn ratios(&self, a: usize, b: usize) -> Vec<f64> {
        let mut processes: Vec<(u64, Vec<f64>)> = Vec::new();
        for one in &self.cases[a] {
            let Some(other) = self.beside(b, one) else { continue };
            let (Some(a), Some(b)) = (one.row.values.first(), other.row.values.first()) else {
                continue;
            };
            if !(*a > 0.0 && *b > 0.0) {
                continue;
            }
            let log = b.ln() - a.ln();
            match processes.last_mut().filter(|(process, _)| *process == one.process) {
                Some((_, logs)) => logs.push(log),
                None => processes.push((one.process, vec![log])),
            }
        }
        processes.iter().map(|(_, logs)| median(logs).exp()).collect()
    }
}

impl Batches {
    /// Returns one value for each process, from its batches that count.
    pub fn by_process(
        &self,
        middle: impl Fn(&[f64]) -> f64,
        value: impl Fn(&SeriesValue) -> f64,
    ) -> Vec<f64> {
        let counted: Vec<&SeriesValue> =
            self.list.iter().filter(|entry| entry.other_stratum.is_none()).collect();
        let processes = counted.chunk_by(|a, b| a.placed.process == b.placed.process);
        processes
            .map(|entries| middle(&entries.iter().map(|entry| value(entry)).collect::<Vec<_>>()))
            .collect()
    }

    /// Returns all values as timed.
    pub fn timed(&self) -> Vec<f64> {
        self.list.iter().map(|entry| entry.timed).collect()
    }

    /// Returns the values that count, normalised.
    pub fn normalised(&self) -> Vec<f64> {
        let counted = self.list.iter().filter(|entry| entry.other_stratum.is_none());
        counted.map(|entry| entry.normalised).collect()
    }

    /// Returns the median round trip of a cache line beside those that count.
    pub fn line_rtt_ns(&self) -> Option<f64> {
        let counted = self.list.iter().filter(|entry| entry.other_stratum.is_none());
        let lines: Vec<f64> = counted.filter_map(|entry| entry.placed.row.line_rtt_ns).collect();
        (!lines.is_empty()).then(|| median(&lines))
    }
}
