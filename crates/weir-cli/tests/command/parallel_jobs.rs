//! What `weir run` says of the shape of parallel work (docs/contracts/run.md).

use crate::common::{Ran, have, truth, weir_run};

/// A job that sleeps: its length does not depend on what else the host does.
fn xargs(list: &str) -> Ran {
    weir_run(&[&format!("printf '%s\\n' {list} | xargs -P2 -n1 sleep")])
}

fn kinds(ran: &Ran) -> Vec<&str> {
    let all = ran.json["advice"].as_array().expect("advice").iter();
    all.filter_map(|advice| advice["kind"].as_str()).collect()
}

#[test]
fn a_long_job_that_was_started_last_should_be_the_first() {
    truth(|| {
        let ran = xargs("0.3 0.3 0.3 0.3 1.2");
        let jobs = &ran.json["parallel_jobs"];
        assert_eq!(
            (&jobs["program"], &jobs["jobs"], &jobs["at_once"]),
            (&"xargs".into(), &5.into(), &2.into())
        );
        assert_eq!(jobs["longest"], "sleep 1.2", "{jobs}");
        assert!(jobs["longest_first_s"].as_f64() < jobs["span_s"].as_f64(), "{jobs}");
        assert!(kinds(&ran).contains(&"longest-first"), "{}", ran.stderr());
        assert!(ran.stderr().contains("sleep 1.2 ran alone for"), "{}", ran.stderr());
        let ran = xargs("1.2 0.3 0.3 0.3 0.3");
        assert_eq!(ran.json["parallel_jobs"]["longest_first_s"], serde_json::Value::Null);
        assert!(!kinds(&ran).contains(&"longest-first"), "{}", ran.stderr());
    });
}

/// It said "more jobs would gain little: there were one job at a time for only 100 % of the time".
#[test]
fn a_make_without_its_jobserver_runs_one_job_at_a_time() {
    if !have(&["make"]) {
        return;
    }
    truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("Makefile");
        let of = |make: &str| {
            let text = format!(
                "all:\n\t@{make} -s -f {} sub\nsub: s1 s2 s3 s4\ns%:\n\t@sleep 0.2\n",
                file.display()
            );
            std::fs::write(&file, text).expect("written");
            weir_run(&["make", "-s", "-j2", "-f", &file.display().to_string()])
        };
        let (lost, shared) = (of("make"), of("$(MAKE)"));
        let said = "one job at a time although -j2: the make below it got no jobserver";
        assert!(lost.stderr().contains(said), "{}", lost.stderr());
        assert!(!shared.stderr().contains("one job at a time"), "{}", shared.stderr());
    });
}
