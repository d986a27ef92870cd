//! The page is complete, needs no other file, and copes with odd figures.

use super::html;
use weir_bench::engine::params::{Params, Placement, Unit};
use weir_bench::engine::record::{
    Beside, CaseRecord, ComparisonRecord, Note, Report, SCHEMA, SelfTestEntry, VerdictRecord,
};
use weir_charts::{OTHERS, SERIES};

pub(crate) fn report() -> Report {
    Report { schema: SCHEMA.into(), duration_s: 1.0, seed: 1, ..Report::default() }
}

pub(crate) fn case(name: &str, estimate: f64, chunk: Option<u64>) -> CaseRecord {
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
        batches: 40,
        processes: 10,
        between_processes_share: Some(0.01),
        line_rtt_ns: Some(55.0),
        stratum: Some("near".into()),
        below_resolution: false,
        is_difference: false,
        load: Default::default(),
        perspective: None,
        labels: vec!["bimodal".into()],
        samples,
        beside: Beside {
            process: (0..40).map(|at| at / 4).collect(),
            at_s: (0..40).map(|at| f64::from(at) / 10.0).collect(),
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
        band_share: 0.05,
        verdict: VerdictRecord { kind: "slower".into(), text: "slower".into() },
    });
    report.self_test.entries.push(SelfTestEntry {
        suite: "suite".into(),
        case: "twin".into(),
        placement: Placement::SameCpu,
        ratio: 1.0,
        low: 0.99,
        high: 1.01,
        pairs: 10,
        resolves_share: 0.01,
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

/// It begins with what it says, names the host's state, and every dot tells its figures.
#[test]
fn the_page_says_what_it_is_about() {
    let mut report = full();
    let page = html(&report).expect("a page");
    let lead = "8 figures from 1 suite. Compared with the baseline of its group, of 1 case 0 are faster \
                and 1 slower.";
    let lead = lead.replace("8 figures", &format!("{} figures", report.cases.len()));
    assert!(page.contains(&lead), "{}", page.lines().take(90).collect::<Vec<_>>().join("\n"));
    assert!(page.contains("On two CPUs; a CPU with nothing to do goes idle"), "no glossary");
    assert!(page.contains("<title>other &lt;one&gt;: 1.300x (1.200 to 1.400)</title></circle>"));
    assert!(page.contains("<title>kernel-pipe, 4K B a write: 5 GB/s</title></circle>"));
    assert!(!page.contains("The host was busy"));
    report.host.state.busy = Some(true);
    report.host.state.text = "others used 1.1 of 2 CPUs while it ran".into();
    report.interrupted = true;
    let page = html(&report).expect("a page");
    assert!(page.contains("The host was busy: others used 1.1 of 2 CPUs while it ran."));
    assert!(page.contains("The run was interrupted"));
}

/// Pipes that differ by their segments alone were one curve, which went up and down.
#[test]
fn each_curve_is_of_one_mechanism_and_what_is_not_drawn_is_counted() {
    let mut report = full();
    report.cases.clear();
    for segment in 1..=9 {
        for chunk in [64, 4096, 65_536] {
            let mut one = case("stream", 200.0, Some(chunk));
            one.params.segment_bytes = Some(segment << 10);
            report.cases.push(one);
        }
    }
    let page = html(&report).expect("a page");
    assert!(page.contains("<title>kernel-pipe, segment 8K, 4K B a write: 200 MB/s</title>"));
    assert!(page.contains("suite at other-cpu (the first 8 of 9 curves)"));
}

/// A smaller message is no faster way, and a pipe to oneself no faster switch.
#[test]
fn only_cases_that_answer_one_question_stand_beside_each_other() {
    let mut report = full();
    report.cases.push(case("base", 10.0, Some(4)));
    report.cases.push(case("large", 20.0, Some(512)));
    let base = report.comparisons[0].clone();
    report.comparisons.push(ComparisonRecord { b: "large".into(), ..base });
    let page = html(&report).expect("a page");
    assert!(page.contains("<title>other &lt;one&gt;: ") && !page.contains("<title>large: "));
}

/// Seven processes that once each met a far line are a note, not a row of +-100 %.
#[test]
fn what_was_seen_too_seldom_is_a_note() {
    let mut report = full();
    let common = case("twice", 100.0, None);
    let rare = CaseRecord {
        stratum: Some("far".into()),
        batches: 7,
        processes: 7,
        low: 10.0,
        high: 310.0,
        ..common.clone()
    };
    report.cases.extend([common, rare]);
    let text = crate::bench::text(&report);
    assert_eq!(text.matches("  twice ").count(), 1, "{text}");
    assert!(text.contains("1 figure from a state of the cache line (such as far)"), "{text}");
    let page = html(&report).expect("a page");
    assert_eq!(page.matches("<td>twice</td>").count(), 1);
}

/// "+-1134 %" of two processes stood in the table as if it were an estimate, and one process had an
/// interval of 8 %.
#[test]
fn what_is_too_vague_is_a_note_and_one_process_has_no_interval() {
    let mut report = full();
    let vague = CaseRecord { low: 10.0, high: 2_300.0, processes: 2, ..case("vague", 100.0, None) };
    let zero = CaseRecord { below_resolution: true, ..case("nearly nothing", -3.0, None) };
    let single = CaseRecord { processes: 1, ..case("single", 100.0, None) };
    report.cases.extend([vague, zero, single]);
    let text = crate::bench::text(&report);
    let note = "1 figure with intervals of more than 100 % to each side";
    assert!(text.contains(note), "{text}");
    let lines = |name: &str| text.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
    assert_eq!(lines("vague").len(), 1, "only the note: {text}");
    assert_eq!(lines("nearly nothing").len(), 1, "{text}");
    assert!(lines("single")[0].split_whitespace().any(|word| word == "-"), "{text}");
    let page = html(&report).expect("a page");
    assert!(page.contains(note) && !page.contains("<td>vague</td>"));
}

#[test]
fn phases_of_then_and_now_have_no_colour_in_common() {
    let shared = OTHERS.iter().filter(|colour| SERIES.contains(colour));
    assert_eq!(shared.count(), 0);
}

#[test]
fn the_figures_come_before_what_they_rest_on() {
    let page = html(&full()).expect("drawn");
    let at = |title: &str| page.find(&format!("<h2>{title}")).expect("a section");
    assert!(at("All figures") < at("Compared in pairs"));
    assert!(at("Compared in pairs") < at("A/A: ") && at("Throughput by chunk") < at("A/A: "));
    assert!(at("A/A: ") < at("The run over time"));
}

#[test]
fn a_report_of_nothing_is_a_page_too() {
    let page = html(&report()).expect("a page");
    assert!(page.contains("<h1>weir bench</h1>") && !page.contains("<svg"));
}

/// Blocks of 1428 bytes were "1K".
#[test]
fn a_size_is_shortened_where_nothing_is_lost() {
    let shown = [64.0, 1428.0, 4096.0, 65_464.0, 1_048_576.0].map(weir_charts::bytes);
    assert_eq!(shown, ["64", "1428", "4K", "65464", "1M"]);
}
