//! Making the report from the output of the cells.

mod paired;
mod series;

use super::case::{Activity, Derived, Group, Measure, Perspective, Suite};
use super::drive::Collected;
use super::estimate::{Scale, Typical, drift, estimate, is_bimodal, median, quantile};
use super::params::{Params, Unit};
use super::plan::{Block, Plan};
use super::record::{Beside, CaseRecord, Host, Note, Rates, Reference, Report, SCHEMA, SelfTest};
use super::reference;
use series::{Batches, Series};
use std::collections::BTreeMap;
use std::time::Duration;

/// A batch is labelled slow when the reference loop beside it exceeded nominal by this much.
const SLOW: f64 = 1.1;
/// A nominal step that differs by more than this comes from another machine.
const STALE: f64 = 1.5;
/// In verdicts, differences of cases below this count as none.
pub const BAND: f64 = 0.05;

/// The facts about a run beside its batches.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The version of weir.
    pub weir_version: String,
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// How long it took.
    pub duration: Duration,
    /// The host.
    pub host: Host,
    /// The activity of the host just before.
    pub rates: Rates,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The step time of the reference loop on this host, from an earlier run.
    pub nominal_ns: Option<f64>,
}

/// Makes the report of a run.
pub fn report(suites: &[Suite], plan: &Plan, collected: &[Collected], about: RunFacts) -> Report {
    let reference = reference(collected, about.nominal_ns);
    let mut report = Report {
        schema: SCHEMA.into(),
        weir_version: about.weir_version,
        started_unix_s: about.started_unix_s,
        duration_s: about.duration.as_secs_f64(),
        budget_s: plan.budget.as_secs_f64(),
        standard: plan.wish.picks.is_standard(),
        suites_asked: plan.wish.picks.suites.iter().map(|pick| pick.text().into()).collect(),
        filter: plan.wish.picks.filter.as_ref().map(|filter| filter.as_str().into()),
        placements_asked: plan.wish.placements.clone(),
        interrupted: about.interrupted,
        directory: Some(plan.wish.directory.to_string_lossy().into_owned()),
        seed: plan.wish.seed,
        load: plan.wish.load,
        host: about.host,
        rates: about.rates,
        reference,
        self_test: SelfTest::default(),
        cases: Vec::new(),
        comparisons: Vec::new(),
        notes: plan.notes.clone(),
        remarks: Vec::new(),
    };
    report.host.placements = placements(&plan.blocks);
    let mut lacking = Vec::new();
    for (index, block) in plan.blocks.iter().enumerate() {
        let at = |block: &Block| block.placement;
        let alike = collected.iter().filter(|cell| at(&plan.blocks[cell.block]) == at(block));
        let far_ns = series::far_ns(alike.flat_map(|cell| &cell.rows));
        let cells: Vec<&Collected> = collected.iter().filter(|cell| cell.block == index).collect();
        Assembler::new(suites, block, &cells, far_ns, &mut report, &mut lacking).all();
    }
    report.notes.extend(lacking.into_iter().map(Note::from));
    let has_twin = |block: &Block| suites[block.suite].groups[block.group].twin;
    paired::conclude(&mut report.self_test, plan.blocks.iter().any(has_twin));
    report.remarks = super::remarks::remarks(&report);
    report
}

fn placements(blocks: &[Block]) -> BTreeMap<super::params::Placement, Vec<u64>> {
    BTreeMap::from_iter(blocks.iter().map(|block| (block.placement, block.cpus.clone())))
}

/// Returns the nominal step: that of the host's first run, if it is known and still about right.
fn reference(collected: &[Collected], known_ns: Option<f64>) -> Reference {
    let steps: Vec<f64> =
        collected.iter().flat_map(|cell| &cell.rows).map(|row| row.reference_ns).collect();
    if steps.is_empty() {
        return Reference::default();
    }
    let median_ns = median(&steps);
    let right = |known: &f64| (median_ns / STALE..=median_ns * STALE).contains(known);
    let kept = known_ns.filter(right);
    let nominal_ns = kept.unwrap_or(median_ns);
    Reference {
        version: reference::VERSION,
        nominal_ns,
        from_first_run: kept.is_some(),
        median_ns,
        fast_ns: quantile(&steps, 0.1),
        slow_ns: quantile(&steps, 0.9),
        slow_batches: steps.iter().filter(|step| **step > nominal_ns * SLOW).count() as u64,
        batches: steps.len() as u64,
    }
}

/// Makes the records of one block.
struct Assembler<'a> {
    suite: &'a Suite,
    group: &'a Group,
    block: &'a Block,
    series: Series,
    report: &'a mut Report,
}

impl<'a> Assembler<'a> {
    fn new(
        suites: &'a [Suite],
        block: &'a Block,
        cells: &[&Collected],
        far_ns: f64,
        report: &'a mut Report,
        lacking: &mut Vec<CaseFailure>,
    ) -> Assembler<'a> {
        let suite = &suites[block.suite];
        let group = &suite.groups[block.group];
        let series = Series::new(cells, block, report.reference.nominal_ns, far_ns);
        gather(lacking, suite, group, block, cells, &series);
        Assembler { suite, group, block, series, report }
    }

    fn all(mut self) {
        for place in 0..self.block.cases.len() {
            let case = &self.group.cases[self.block.cases[place]];
            let floor = case.resolution.map(|index| {
                let found = self.series.strata(place, index, case.measures[index], false);
                found.first().map_or(0.0, |batches| median(&batches.timed()))
            });
            for (index, measure) in case.measures.iter().enumerate() {
                let floor = floor.filter(|_| case.resolution != Some(index));
                let scaled =
                    case.normalise.holds(self.block.placement) && measure.unit.follows_the_cpu();
                for batches in self.series.strata(place, index, *measure, scaled) {
                    let name = full_name(&case.name, measure, case.measures.len());
                    let params = case.params.clone();
                    let seen = CaseFigure {
                        name,
                        params,
                        measure: *measure,
                        perspective: case.perspective,
                        floor,
                        is_rest: case.resolution.is_some(),
                    };
                    self.record(seen, &batches, scaled);
                }
            }
        }
        for derived in &self.group.derived {
            self.derived(derived);
        }
        paired::compare(self.suite, self.group, self.block, &self.series, self.report);
    }

    fn derived(&mut self, derived: &Derived) {
        let place = |name: &String| {
            self.block.cases.iter().position(|case| self.group.cases[*case].name == *name)
        };
        let plus: Option<Vec<usize>> = derived.plus.iter().map(place).collect();
        let minus: Option<Vec<usize>> = derived.minus.iter().map(place).collect();
        let (Some(plus), Some(minus)) = (plus, minus) else { return };
        // As its cases are: where one of them is not normalised, the difference is not.
        let case = |place: &usize| &self.group.cases[self.block.cases[*place]];
        let mut cases = plus.iter().chain(&minus).map(case);
        let scaled = cases.all(|case| case.normalise.holds(self.block.placement));
        for batches in self.series.difference((&plus, &minus), derived.divide_by, scaled) {
            let seen = CaseFigure {
                name: derived.name.clone(),
                params: derived.params.clone(),
                measure: derived.measure,
                perspective: derived.perspective,
                floor: None,
                is_rest: true,
            };
            self.record(seen, &batches, scaled);
        }
    }

    fn record(&mut self, seen: CaseFigure, batches: &Batches, scaled: bool) {
        let by_ticks = seen.measure.by_ticks;
        let unit = seen.measure.unit;
        let typical = Typical::of(unit, by_ticks, seen.is_rest);
        let of_process = |batches_of: &[f64]| typical.value(batches_of, unit);
        let values = batches.by_process(of_process, |entry| entry.normalised);
        let may_be_zero = batches.is_difference
            || by_ticks
            || seen.floor.is_some()
            || seen.measure.unit == Unit::Percent;
        let scale = if may_be_zero { Scale::Linear } else { Scale::Logarithmic };
        let drift = drift(self.block.placement);
        let Some(found) = estimate(&values, scale, drift) else { return };
        let as_timed = estimate(&batches.by_process(of_process, |entry| entry.timed), scale, drift);
        let below = seen.floor.is_some_and(|floor| found.value < floor);
        let mut labels = Vec::new();
        if !may_be_zero && is_bimodal(&batches.normalised()) {
            labels.push(String::from("bimodal"));
        }
        if values.len() < super::plan::PASSES_MIN as usize {
            labels.push(String::from("few processes"));
        }
        let samples: Vec<f64> = batches.timed().into_iter().map(significant).collect();
        let placement = self.block.placement;
        let here = seen.perspective.filter(|_| seen.measure.is_cpu_time(placement));
        let perspective = perspective(here, &seen.measure, found.value, &self.report.rates);
        self.report.cases.push(CaseRecord {
            suite: self.suite.name.into(),
            case: seen.name,
            params: seen.params,
            placement: self.block.placement,
            quantity: seen.measure.quantity.into(),
            unit: seen.measure.unit,
            estimate: found.value,
            low: found.low,
            high: if below { found.high.max(seen.floor.unwrap_or(0.0)) } else { found.high },
            normalised: scaled,
            as_timed: as_timed.map_or(found.value, |timed| timed.value),
            batches: batches.normalised().len() as u64,
            processes: values.len() as u64,
            between_processes_share: found.between_percent.map(|percent| percent / 100.0),
            line_rtt_ns: batches.line_rtt_ns(),
            stratum: batches.stratum.map(String::from),
            below_resolution: below || batches.is_difference && found.low <= 0.0,
            is_difference: batches.is_difference,
            load: self.report.load,
            perspective,
            labels,
            samples,
            beside: beside(batches, self.report.reference.nominal_ns),
        });
    }
}

/// Rounds to six significant digits: more would be no measurement, and much of the report's size.
fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

struct CaseFigure {
    name: String,
    params: Params,
    measure: Measure,
    perspective: Option<Perspective>,
    floor: Option<f64>,
    /// Whether it is what was timed less something else.
    is_rest: bool,
}

/// Names the figures of a case with several measures by their quantity.
fn full_name(case: &str, measure: &Measure, measures: usize) -> String {
    if measures == 1 { case.into() } else { format!("{case}, {}", measure.quantity) }
}

fn perspective(
    perspective: Option<Perspective>,
    measure: &Measure,
    value: f64,
    rates: &Rates,
) -> Option<String> {
    let perspective = perspective?;
    let ns = match measure.unit {
        Unit::Ns => value,
        Unit::PerSecond => 1e9 / value,
        Unit::MegabytesPerSecond | Unit::Percent | Unit::Megabytes => return None,
    };
    let (rate, what) = match perspective.of {
        Activity::Switches => (rates.switches_per_s, "switches/s"),
        Activity::Calls => (rates.calls_per_s, "read and write calls/s"),
        Activity::Faults => (rates.faults_per_s, "faults/s"),
        Activity::Packets => (rates.packets_per_s, "packets/s"),
    };
    let percent = rate * ns / perspective.per_operation / 1e7;
    let usable = percent.is_finite() && percent >= 0.0;
    usable.then(|| format!("{} of a CPU at {rate:.0} {what}", share(percent)))
}

fn share(percent: f64) -> String {
    match percent {
        p if p < 0.001 => String::from("< 0.001 %"),
        p if p < 0.1 => format!("{p:.3} %"),
        p if p < 10.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

fn beside(batches: &Batches, nominal_ns: f64) -> Beside {
    let mut beside = Beside::default();
    for batch in &batches.list {
        let row = &batch.placed.row;
        beside.process.push(batch.placed.process);
        beside.at_s.push(row.at_ms as f64 / 1e3);
        beside.reference_ns.push(significant(row.reference_ns));
        beside.cpu.push(row.cpu);
        beside.involuntary.push(row.involuntary);
        let mut labels = Vec::new();
        if row.reference_ns > nominal_ns * SLOW {
            labels.push("slow");
        }
        if batch.moved {
            labels.push("moved");
        }
        if row.involuntary > 0 {
            labels.push("preempted");
        }
        if let Some(stratum) = batch.other_stratum {
            labels.push(stratum);
        }
        beside.label.push(labels.join("+"));
    }
    beside
}

/// A failure, and the cases that it affects.
struct CaseFailure {
    suite: String,
    text: String,
    cases: Vec<String>,
}

/// Adds the failures of a block, and cases without batches.
fn gather(
    lacking: &mut Vec<CaseFailure>,
    suite: &Suite,
    group: &Group,
    block: &Block,
    cells: &[&Collected],
    series: &Series,
) {
    let name = |index: usize| {
        let case = block.cases.get(index).or(block.cases.first());
        let name = case.map_or("", |case| group.cases[*case].name.as_str());
        format!("{name} at {}", block.placement)
    };
    let whole = format!("{} at {}", group.name, block.placement);
    let mut add = |text: String, case: String| {
        let same = |known: &&mut CaseFailure| known.suite == suite.name && known.text == text;
        match lacking.iter_mut().find(same) {
            Some(known) if known.cases.contains(&case) => {}
            Some(known) => known.cases.push(case),
            None => lacking.push(CaseFailure { suite: suite.name.into(), text, cases: vec![case] }),
        }
    };
    let mut excused = vec![false; block.cases.len() + 1];
    for (case, trouble) in cells.iter().flat_map(|cell| &cell.troubles) {
        add(trouble.text.clone(), case.map_or_else(|| whole.clone(), name));
        if let Some(excused) = case.and_then(|case| excused.get_mut(case)) {
            *excused = true;
        }
    }
    let killed = cells.iter().filter(|cell| cell.killed).count();
    for (place, excused) in excused.iter().enumerate().take(block.cases.len()) {
        if series.is_empty(place) && !excused {
            let why = if killed > 0 { "it ran out of time" } else { "its process produced none" };
            add(format!("no figure ({why})"), name(place));
        }
    }
    if killed > 0 {
        let all = cells.len();
        add(format!("{killed} of {all} processes ran out of time and were ended"), whole);
    }
}

impl From<CaseFailure> for Note {
    /// Formats one line, however many cases it affects.
    fn from(lacking: CaseFailure) -> Note {
        let CaseFailure { suite, text, cases } = lacking;
        let text = match cases.as_slice() {
            [one] => format!("{one}: {text}"),
            [first, ..] => format!("{first} and {} more: {text}", cases.len() - 1),
            [] => text,
        };
        Note { suite, text }
    }
}
