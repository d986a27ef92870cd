//! `weir compare`: two runs of `weir bench`, or a saved one and now.
//!
//! The runs were not interleaved, so any difference may come from the time of day; the report says so.
//! Both runs are normalised to one speed of the reference loop, and each process gives one value.
//! Three rules keep an unchanged host from being called changed: intervals are widened by how far
//! hosts drift between runs, p values are corrected for the number of cases, and if the state of the
//! host differed, no case is called faster or slower. [`text`] formats the report.

mod text;

use crate::args::{CompareOptions, FailOn};
use crate::bench::{history, measure_again};
use serde::Serialize;
use std::f64::consts::SQRT_2;
use std::process::ExitCode;
use weir_bench::engine::estimate::{Scale, Typical, drift, drift_between, estimate, median};
use weir_bench::engine::params::{Placement, Unit};
use weir_bench::engine::record::{CaseRecord, HostState, Report, VerdictRecord};
use weir_command::fault::{Fault, print_message};
use weir_command::output::{Outlet, check_json_apart};
use weir_measure::pairs::{Unpaired, Verdict, holm, p_of_intervals};

const SCHEMA: &str = "weir.compare/1";
const UNPAIRED: &str = "unpaired: the two runs were not interleaved; a difference may come from the time of day, not from the host";
/// The share of comparisons of a host with itself in which some case is called different.
const ERROR_SHARE: f64 = 0.05;

/// The comparison of two runs: the document of the schema.
#[derive(Debug, Serialize)]
struct RunComparison {
    a: String,
    b: String,
    text: &'static str,
    band_share: f64,
    correction: &'static str,
    error_share: f64,
    state: States,
    host_differences: Vec<HostDifference>,
    cases: Vec<ComparedCase>,
    only_a: Vec<String>,
    only_b: Vec<String>,
}

/// What others did on the host during the two runs.
#[derive(Debug, Serialize)]
struct States {
    a: HostState,
    b: HostState,
    /// The difference of the states, if it is large enough to explain differences of figures.
    difference: Option<String>,
}

/// A property in which the hosts of the two runs differ.
#[derive(Debug, Serialize)]
struct HostDifference {
    what: &'static str,
    a: String,
    b: String,
}

/// One case in both runs.
#[derive(Debug, Serialize)]
struct ComparedCase {
    suite: String,
    case: String,
    placement: Placement,
    stratum: Option<String>,
    unit: Unit,
    a: f64,
    b: f64,
    ratio: f64,
    low: f64,
    high: f64,
    p: Option<f64>,
    p_corrected: Option<f64>,
    verdict: VerdictRecord,
}

pub fn compare(options: &CompareOptions) -> Result<ExitCode, Fault> {
    // A file that is compared would be empty where the comparison fails or is interrupted.
    for name in [Some(&options.a), options.b.as_ref()].into_iter().flatten() {
        if is_file(name) {
            check_json_apart(&options.json, name.as_ref())?;
        }
    }
    let a = load(&options.a)?;
    let b = options.b.as_deref().map(load).transpose()?;
    // Opened before anything is measured.
    let mut outlet = Outlet::open(&options.json)?;
    let b = match b {
        Some(b) => b,
        None => measure_again(&a)?,
    };
    let b_name = options.b.clone().unwrap_or_else(|| String::from("now"));
    let compared = compared(&a, &b, &options.a, &b_name, options.band)?;
    let text = || text::text(&compared, options.verbose);
    outlet.write_report(SCHEMA, || &compared, text)?;
    if let (Some(difference), Some(FailOn::Slower)) = (&compared.state.difference, options.fail_on)
    {
        print_message(&format!(
            "--fail-on slower cannot fail here: the host's state differed ({difference})"
        ));
    }
    let failed = |row: &ComparedCase| match options.fail_on {
        None => false,
        Some(FailOn::Slower) => row.is(Verdict::Slower),
        Some(FailOn::Changed) => !row.is(Verdict::Equivalent),
    };
    Ok(ExitCode::from(u8::from(compared.cases.iter().any(failed))))
}

/// Whether the word looks like a file rather than a saved run.
fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".json")
}

/// Loads a file or a saved run.
fn load(name: &str) -> Result<Report, Fault> {
    if is_file(name) {
        let text = std::fs::read_to_string(name)
            .map_err(|error| Fault::unreadable(Some(name.as_ref()), error))?;
        return history::parse(&text, name);
    }
    history::load(name)
}

fn compared(
    a: &Report,
    b: &Report,
    a_name: &str,
    b_name: &str,
    band: f64,
) -> Result<RunComparison, Fault> {
    let mut pairs = Vec::new();
    for one in &a.cases {
        let Some(other) = b.cases.iter().find(|other| other.key() == one.key()) else { continue };
        if one.unit != other.unit || one.quantity != other.quantity {
            return Err(Fault::failed(format!(
                "cannot compare {}: {} at {}: '{a_name}' has {} in {}, '{b_name}' {} in {}",
                one.suite,
                one.case,
                one.placement,
                one.quantity,
                one.unit,
                other.quantity,
                other.unit
            )));
        }
        pairs.push((one, other));
    }
    let only = |these: &Report, those: &Report| -> Vec<String> {
        let missing = |case: &&CaseRecord| those.cases.iter().all(|c| c.key() != case.key());
        these.cases.iter().filter(missing).map(full_name).collect()
    };
    if pairs.is_empty() {
        return Err(Fault::failed(format!(
            "cannot compare '{a_name}' with '{b_name}': they have no case in common"
        )));
    }
    let difference = a.host.state.differs(&b.host.state);
    let nominal_ns = common_step_ns(a, b);
    let judge = Judge { nominal_ns, band, state: difference.as_deref() };
    Ok(RunComparison {
        a: a_name.into(),
        b: b_name.into(),
        text: UNPAIRED,
        band_share: band,
        correction: "holm",
        error_share: ERROR_SHARE,
        host_differences: differences(a, b),
        only_a: only(a, b),
        only_b: only(b, a),
        cases: judge.rows(&pairs),
        state: States { a: a.host.state.clone(), b: b.host.state.clone(), difference },
    })
}

/// The speed of the reference loop to which both runs are normalised; 0, and so neither is, if they
/// have different loops.
fn common_step_ns(a: &Report, b: &Report) -> f64 {
    if a.reference.version == b.reference.version { a.reference.nominal_ns } else { 0.0 }
}

fn full_name(case: &CaseRecord) -> String {
    let stratum = case.stratum.as_ref().map_or(String::new(), |stratum| format!(", {stratum}"));
    format!("{}: {} ({}{stratum})", case.suite, case.case, case.placement)
}

fn differences(a: &Report, b: &Report) -> Vec<HostDifference> {
    let list = |report: &Report| -> Vec<(&'static str, String)> {
        let host = &report.host;
        let mitigations: Vec<String> =
            host.mitigations.iter().map(|(name, state)| format!("{name}: {state}")).collect();
        vec![
            ("kernel", host.kernel.clone()),
            ("cpu", host.cpu.clone()),
            ("cpus allowed", format!("{:?}", host.cpus_allowed)),
            ("memory", host.memory_bytes.to_string()),
            ("clock source", host.clocksource.clone()),
            ("governor", host.governor.clone()),
            ("virtualisation", host.virtualisation.clone()),
            ("mitigations", mitigations.join("; ")),
            ("huge pages", host.huge_pages.clone()),
            ("CPUs of placements", crate::bench::placements(host)),
            ("load", report.load.name().into()),
            ("directory", report.directory.clone().unwrap_or("unknown".into())),
            ("weir", report.weir_version.clone()),
            ("reference loop", report.reference.version.to_string()),
            ("interrupted", String::from(if report.interrupted { "yes" } else { "no" })),
        ]
    };
    let pairs = list(a).into_iter().zip(list(b));
    pairs
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| HostDifference { what, a, b })
        .collect()
}

/// One value for each process, normalised to the common speed of the reference loop.
fn values(case: &CaseRecord, typical: Typical, nominal_ns: f64) -> Vec<f64> {
    let beside = &case.beside;
    let mut processes: Vec<(u64, Vec<f64>)> = Vec::new();
    for (index, sample) in case.counted() {
        let reference = beside.reference_ns.get(index).copied().unwrap_or(0.0);
        let usable = case.normalised && reference > 0.0 && nominal_ns > 0.0;
        let slower = if usable { reference / nominal_ns } else { 1.0 };
        let value = if case.unit.is_time() { sample / slower } else { sample * slower };
        let process = beside.process.get(index).copied().unwrap_or(0);
        match processes.last_mut().filter(|(last, _)| *last == process) {
            Some((_, values)) => values.push(value),
            None => processes.push((process, vec![value])),
        }
    }
    processes.iter().map(|(_, values)| typical.value(values, case.unit)).collect()
}

/// The facts on which verdicts depend.
struct Judge<'a> {
    nominal_ns: f64,
    band: f64,
    state: Option<&'a str>,
}

/// The comparison of one case, before the p values are corrected. Unknown numbers are NaN.
struct Unjudged {
    a: f64,
    b: f64,
    /// b / a and its interval.
    ratio: f64,
    low: f64,
    high: f64,
    p: Option<f64>,
    equivalent: bool,
}

impl Unjudged {
    /// Compares two figures by their intervals: those of fewer than four processes have nothing
    /// else, and differences and shares may be 0 or below. The drift is in these intervals. A
    /// single process has none.
    fn of_intervals(a: &[f64], b: &[f64], placement: Placement) -> Unjudged {
        let interval = |values: &[f64]| {
            let found = estimate(values, Scale::Logarithmic, drift(placement));
            found.map_or([f64::NAN; 3], |found| [found.value, found.low, found.high])
        };
        let [one, other] = [a, b].map(interval);
        let several = a.len().min(b.len()) > 1;
        let p = several.then(|| p_of_intervals(one.into(), other.into())).flatten();
        // What is not above 0 has no logarithm: its ratio, or the interval of that, is not known.
        let log = |value: f64| if value > 0.0 { value.ln() } else { f64::NAN };
        let ([a, a_low, a_high], [b, b_low, b_high]) = (one.map(log), other.map(log));
        let (down, up) = ((a_high - a).hypot(b - b_low), (a - a_low).hypot(b_high - b));
        let known = |end: f64| if several { end.exp() } else { f64::NAN };
        Unjudged {
            a: one[0],
            b: other[0],
            ratio: (b - a).exp(),
            low: known(b - a - down),
            high: known(b - a + up),
            p,
            equivalent: false,
        }
    }

    /// Describes the ratio, as far as it is known.
    fn words(&self) -> String {
        let Unjudged { ratio, low, high, .. } = self;
        match (ratio.is_finite(), (low + high).is_finite()) {
            (true, true) => format!("{ratio:.3}x ({low:.3} to {high:.3}): "),
            (true, false) => format!("{ratio:.3}x: "),
            (false, _) => String::new(),
        }
    }
}

impl Judge<'_> {
    fn rows(&self, pairs: &[(&CaseRecord, &CaseRecord)]) -> Vec<ComparedCase> {
        let found: Vec<Unjudged> =
            pairs.iter().map(|(one, other)| self.compare_case(one, other)).collect();
        let corrected = holm(&found.iter().map(|found| found.p).collect::<Vec<_>>());
        let all = pairs.iter().zip(found).zip(corrected);
        all.map(|(((one, _), found), p)| self.row(one, found, p)).collect()
    }

    /// Compares a case. The interval is widened by how far hosts drift between runs, once for each run.
    fn compare_case(&self, one: &CaseRecord, other: &CaseRecord) -> Unjudged {
        // The same for both, even if only one of them shows that it is a difference.
        let is_difference = one.is_difference || other.is_difference;
        let typical = Typical::of(one.unit, one.is_by_ticks(), is_difference);
        let nominal_ns = if one.normalised == other.normalised { self.nominal_ns } else { 0.0 };
        let [a, b] = [one, other].map(|case| values(case, typical, nominal_ns));
        let Ok(found) = Unpaired::from_samples(&a, &b) else {
            return Unjudged::of_intervals(&a, &b, one.placement);
        };
        let found = found.widened(drift_between(one.placement, &a, &b) * SQRT_2);
        let equivalent = found.verdict(self.band) == Verdict::Equivalent;
        let Unpaired { ratio, low, high, p, .. } = found;
        Unjudged { a: median(&a), b: median(&b), ratio, low, high, p: Some(p), equivalent }
    }

    fn row(&self, one: &CaseRecord, found: Unjudged, p: Option<f64>) -> ComparedCase {
        let (verdict, why) = match p {
            _ if found.equivalent => (Verdict::Equivalent, String::new()),
            Some(corrected) if corrected <= ERROR_SHARE => {
                // What may be below 0 has no ratio.
                let more = if found.ratio.is_nan() { found.b > found.a } else { found.ratio > 1.0 };
                let verdict = if more { Verdict::Slower } else { Verdict::Faster };
                let verdict = verdict.turned(one.unit.more_is_better());
                match self.state {
                    None => (verdict, String::new()),
                    Some(state) => (
                        Verdict::Inconclusive,
                        format!(", {verdict} as measured, but the host's state differs: {state}"),
                    ),
                }
            }
            _ if found.p.is_some_and(|p| p <= ERROR_SHARE) => {
                (Verdict::Inconclusive, String::from(", not significant among so many cases"))
            }
            _ => (Verdict::Inconclusive, String::new()),
        };
        let text = format!("{}{verdict}{why}", found.words());
        let Unjudged { a, b, ratio, low, high, .. } = found;
        ComparedCase {
            suite: one.suite.clone(),
            case: one.case.clone(),
            placement: one.placement,
            stratum: one.stratum.clone(),
            unit: one.unit,
            a,
            b,
            ratio,
            low,
            high,
            p: found.p,
            p_corrected: p,
            verdict: VerdictRecord { kind: verdict.to_string(), text },
        }
    }
}

impl ComparedCase {
    fn is(&self, verdict: Verdict) -> bool {
        self.verdict.kind == verdict.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{compared, text};
    use crate::bench::page::tests::{case, report};
    use weir_bench::engine::record::Report;

    /// The figures of a file whose samples somebody had left out were "NaN ns".
    #[test]
    fn a_figure_without_samples_is_not_known() {
        let of = |case| Report { cases: vec![case], ..report() };
        let (whole, mut damaged) = (case("one", 100.0, None), case("one", 100.0, None));
        damaged.samples.clear();
        let (whole, damaged) = (of(whole), of(damaged));
        let found =
            compared(&whole, &damaged, "a", "b", 0.05).unwrap_or_else(|why| panic!("{why}"));
        let text = text::text(&found, true);
        assert!(!text.contains("NaN") && text.contains("inconclusive"), "{text}");
    }
}
