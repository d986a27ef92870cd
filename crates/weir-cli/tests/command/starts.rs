//! What `weir run` says of programs that are started again and again (docs/contracts/run.md).

use crate::common::{Ran, have, python, truth, weir_run};
use serde_json::Value;

/// The group whose name begins like this.
fn group<'a>(ran: &'a Ran, name: &str) -> &'a Value {
    let mut groups = ran.json["groups"].as_array().expect("groups").iter();
    let found = groups.find(|group| group["name"].as_str().is_some_and(|n| n.starts_with(name)));
    found.unwrap_or_else(|| panic!("no group {name}: {}", ran.stderr()))
}

/// The advice to do it in one process.
fn one_process(ran: &Ran) -> Option<&str> {
    let mut all = ran.json["advice"].as_array().expect("advice").iter();
    all.find(|advice| advice["kind"] == "one-process").and_then(|advice| advice["text"].as_str())
}

/// 25 times the same imports were "on CPU 73 %", and what to do was not said.
#[test]
fn what_python_loads_again_and_again_is_told_from_its_work() {
    truth(|| {
        let python = python();
        let loops = |code: &str| format!("for i in $(seq 14); do {python} -c '{code}'; done; true");
        let ran = weir_run(&[&loops("import asyncio, decimal, http.client, xml.dom.minidom")]);
        let starts = &group(&ran, "python3")["starts"];
        let (each, loading) = (starts["each_s"].as_f64(), starts["loading_s"].as_f64());
        assert!(loading > Some(0.0) && loading <= each, "{starts}");
        let said = one_process(&ran).unwrap_or_default();
        assert!(said.starts_with("one python for all"), "{}", ran.stderr());
        // What works gets no such advice, whatever it loads.
        let works = weir_run(&[&loops("for i in range(9000000): pass")]);
        assert_eq!(one_process(&works), None, "{}", works.stderr());
    });
}

#[test]
fn one_git_for_a_list_is_advised_where_each_file_gets_its_own() {
    if !have(&["git"]) {
        return;
    }
    truth(|| {
        let text = "for i in $(seq 150); do git hash-object /etc/passwd; done >/dev/null; true";
        let ran = weir_run(&[text]);
        let said = one_process(&ran).unwrap_or_default();
        assert!(said.contains("--stdin-paths") && said.contains("git was"), "{}", ran.stderr());
        assert_eq!(ran.advices("fewer-processes"), 0, "{}", ran.stderr());
    });
}
