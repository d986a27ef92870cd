//! The page is whole, needs nothing else, and bears odd figures.

use super::html;
use weir_measure::bench::params::{Params, Placement, Unit};
use weir_measure::bench::record::{
    Beside, CaseRecord, ComparisonRecord, Note, Report, SelfTestEntry,
};

const EMPTY: &str = r#"{"schema":"weir.bench/1","weir":"0","started_unix_s":0,"duration_s":1.0,
    "seed":1,"load":"none","host":{},"rates":{},"reference":{},"self_test":{},"cases":[],
    "comparisons":[],"notes":[],"remarks":[]}"#;

fn report() -> Report {
    Report::from_json(EMPTY).expect("a report")
}

fn case(name: &str, estimate: f64, chunk: Option<u64>) -> CaseRecord {
    let samples: Vec<f64> = (0..40).map(|at| estimate * (1.0 + f64::from(at) / 1e3)).collect();
    CaseRecord {
        suite: "suite".into(),
        case: name.into(),
        params: Params {
            chunk_bytes: chunk,
            mechanism: Some("kernel-pipe".into()),
            ..Params::default()
        },
        placement: Placement::OtherCpu,
        quantity: "throughput".into(),
        unit: if chunk.is_some() { Unit::MegabytesPerSecond } else { Unit::Ns },
        estimate,
        low: estimate * 0.95,
        high: estimate * 1.05,
        normalised: true,
        as_timed: estimate,
        n: 40,
        processes: 10,
        between_processes_percent: 1.0,
        line_rtt_ns: Some(55.0),
        stratum: Some("near".into()),
        below_resolution: false,
        load: Default::default(),
        perspective: None,
        labels: vec!["bimodal".into()],
        samples,
        beside: Beside {
            process: (0..40).map(|at| at / 4).collect(),
            at_ms: (0..40).map(|at| at * 100).collect(),
            reference_ns: vec![1.25; 40],
            ..Beside::default()
        },
    }
}

fn full() -> Report {
    let mut report = report();
    for (chunk, estimate) in [(64, 200.0), (4096, 5_000.0), (65_536, 1_200.0)] {
        report.cases.push(case(&format!("stream of {chunk}"), estimate, Some(chunk)));
    }
    report.cases.push(case("a <b> & \"c\"", 35_000.0, None));
    let mut odd = case("odd", f64::NAN, None);
    odd.samples.clear();
    report.cases.push(odd);
    report.cases.push(case("below", -3.0, None));
    report.cases.push(case("nothing", 0.0, Some(5)));
    report.comparisons.push(ComparisonRecord {
        suite: "suite".into(),
        a: "base".into(),
        b: "other <one>".into(),
        placement: Placement::OtherCpu,
        unit: Unit::Ns,
        ratio: 1.3,
        low: 1.2,
        high: 1.4,
        p: 0.01,
        pairs: 10,
        band: 0.05,
        verdict: "slower".into(),
    });
    report.self_test.entries.push(SelfTestEntry {
        suite: "suite".into(),
        case: "twin".into(),
        placement: Placement::SameCpu,
        ratio: 1.0,
        low: 0.99,
        high: 1.01,
        pairs: 10,
        resolves_percent: 1.0,
    });
    report.notes.push(Note { suite: "suite".into(), text: "no <swap>".into() });
    report
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let page = html(&full()).expect("a page");
    for part in ["stream of 4096", "other &lt;one&gt;", "twin", "no &lt;swap&gt;", "bimodal"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !page.contains("a <b>"));
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http:") && !links.contains("https:") && !links.contains("<script"));
    for tag in ["section", "table", "svg", "details", "figure", "div"] {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        assert_eq!(page.matches(&open).count(), page.matches(&close).count(), "{tag}");
    }
}

#[test]
fn a_report_of_nothing_is_a_page_too() {
    let page = html(&report()).expect("a page");
    assert!(page.contains("<h1>weir bench</h1>") && !page.contains("<svg"));
}
