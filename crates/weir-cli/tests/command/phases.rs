//! Phases of real pipelines whose course is known by construction: stages that compute for a given CPU
//! time before or after they pass data on.

use crate::common::{Ran, WEIR, have, pipeline, schema, truth};
use serde_json::Value;
use std::process::Command;

/// A stage that computes for `own_s` seconds before it writes, reads what comes, and then computes
/// for `then_s` seconds.
fn computes(own_s: f64, then_s: f64) -> String {
    let for_s = |s: f64| format!("$t=(times)[0]+{s}; while((times)[0]<$t){{$x++for 1..1000}}");
    format!(
        "perl -e '{}; print qq(x\\n); close STDOUT; while(<STDIN>){{}} {}'",
        for_s(own_s),
        for_s(then_s)
    )
}

fn phases(ran: &Ran) -> Vec<Value> {
    let phases = ran.json["phases"].as_array().expect("phases").clone();
    let mut end = 0.0;
    for phase in &phases {
        assert_eq!(phase["start_s"].as_f64(), Some(end), "without gaps: {phases:?}");
        end = phase["end_s"].as_f64().expect("an end");
    }
    let wall = ran.json["wall_s"].as_f64().expect("a time");
    assert!(phases.is_empty() || (end - wall).abs() < 1e-6, "{phases:?}");
    phases
}

fn holders(ran: &Ran) -> Vec<Value> {
    phases(ran).iter().map(|phase| phase["stages"].clone()).collect()
}

#[test]
fn stages_that_work_one_after_the_other_are_named_by_time_and_in_turn() {
    if !have(&["perl"]) {
        return;
    }
    truth(|| {
        let text = format!("{} | {}", computes(0.5, 0.0), computes(0.0, 0.9));
        let ran = pipeline(&text);
        let said = ran.stderr();
        assert_eq!(holders(&ran), [serde_json::json!([1]), serde_json::json!([2])], "{said}");
        assert_eq!(ran.culprit(), 2, "{said}");
        assert!(said.contains("held up by 2 perl"), "{said}");
        assert!(
            said.contains("phases: 0-") && said.contains("s held up by 1 perl alone; "),
            "{said}"
        );
        let boundary = phases(&ran)[0]["end_s"].as_f64().expect("an end");
        // Perl's own start comes on top, and so does the CPU time that others took.
        assert!((0.45..=1.2).contains(&boundary), "{said}");
    });
}

#[test]
fn equal_stages_one_after_the_other_are_no_tie() {
    if !have(&["perl"]) {
        return;
    }
    truth(|| {
        let text = format!("{} | {}", computes(0.6, 0.0), computes(0.0, 0.6));
        let ran = pipeline(&text);
        assert_ne!(ran.culprit(), 0, "{}", ran.stderr());
        assert!(!ran.stderr().contains("no single bottleneck"), "{}", ran.stderr());
        assert!(ran.stderr().contains("% of the time, and by "), "{}", ran.stderr());
    });
}

#[test]
fn a_run_without_a_change_has_one_phase_and_no_line_for_it() {
    truth(|| {
        let ran = pipeline("yes | head -c 300000000 | gzip -1 | wc -c");
        assert_eq!(holders(&ran), [serde_json::json!([3])], "{}", ran.stderr());
        assert!(!ran.stderr().contains("phases:"), "{}", ran.stderr());
    });
}

#[test]
fn a_time_in_which_no_stage_was_busy_is_a_phase_of_nobody() {
    truth(|| {
        let report = tempfile::NamedTempFile::new().expect("a file");
        let file = report.path().display();
        // sleep: for this long the source of the pipeline gives nothing.
        let source = "(sleep 0.8; head -c 60000000 /dev/zero | tr '\\0' a)";
        let script = format!("{source} | {WEIR} run --json {file} 'cat | gzip -9 | wc -c'");
        let output = Command::new("sh").args(["-c", &script]).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stderr);
        let text = std::fs::read_to_string(report.path()).expect("written");
        let ran = Ran { json: serde_json::from_str(&text).expect("JSON"), output: output.clone() };
        schema::check("weir.run/1", &ran.json);
        let who = holders(&ran);
        assert_eq!(who.first(), Some(&serde_json::json!([])), "{said}");
        assert!(who.contains(&serde_json::json!([2])), "{said}");
        assert!(said.contains("s no stage was busy; "), "{said}");
    });
}

#[test]
fn a_script_and_an_empty_text_have_none() {
    assert_eq!(phases(&pipeline("true; sleep 0.1")), [] as [Value; 0]);
    assert_eq!(phases(&pipeline("# nothing")), [] as [Value; 0]);
}
