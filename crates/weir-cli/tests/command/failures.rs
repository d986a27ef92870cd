//! Which command of a script failed, and on which line (docs/contracts/run.md).

use crate::common::{Ran, have, weir_run};

/// Runs a script under bash with these options, and returns the report; `None` where the kernel does not
/// tell how its commands ended.
fn run(options: &[&str], text: &str) -> Option<Ran> {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("x.sh");
    std::fs::write(&script, text).expect("written");
    let script = script.display().to_string();
    let words: Vec<&str> =
        ["bash"].into_iter().chain(options.iter().copied()).chain([script.as_str()]).collect();
    let ran = weir_run(&words);
    if ran.json["failed"].is_null() {
        eprintln!("SKIPPED: the kernel does not tell how processes end");
        return None;
    }
    Some(ran)
}

fn roles(ran: &Ran) -> Vec<(Option<u64>, &str)> {
    let failed = ran.json["failed"].as_array().expect("known");
    failed.iter().map(|one| (one["line"].as_u64(), one["role"].as_str().unwrap_or(""))).collect()
}

/// "failed with status 1" was all that was said.
#[test]
fn what_set_e_ended_a_script_at_is_named_with_its_line() {
    let text = "seq 9 > /dev/null\ngrep -q nosuch /etc/passwd\necho never\n";
    let text = format!("set -e\n{text}");
    let Some(ran) = run(&[], &text) else { return };
    assert_eq!(ran.code(), 1);
    assert_eq!(roles(&ran), [(Some(3), "ended the script")], "{}", ran.json["failed"]);
    let sentence = "line 3 of x.sh: grep -q nosuch /etc/passwd ended with status 1 (nothing matched); \
                    set -e ended the script there";
    assert!(ran.stderr().contains(sentence), "{}", ran.stderr());
    // The option may be before the script, as CI systems put it.
    let Some(ran) = run(&["-e"], &text[7..]) else { return };
    assert_eq!(roles(&ran), [(Some(2), "ended the script")]);
    let Some(ran) = run(&[], &text[7..]) else { return };
    assert_eq!((ran.code(), roles(&ran).len()), (0, 0), "an answer that nobody heeded");
}

#[test]
fn a_writer_that_sigpipe_ended_is_told_of_where_pipefail_made_it_the_status() {
    let reads = "perl -e 'sleep 1; <>; exit'";
    let text = format!("set -eo pipefail\nyes | {reads}\necho never\n");
    let Some(ran) = run(&[], &text) else { return };
    assert_eq!(ran.code(), 141);
    assert_eq!(roles(&ran), [(Some(2), "ended the script")]);
    let sentence = "status 141: line 2 of x.sh: yes was ended by SIGPIPE: \
                    perl -e sleep 1; <>; exit had what it wanted";
    assert!(ran.stderr().contains(sentence), "{}", ran.stderr());
    let Some(ran) = run(&[], &format!("yes | {reads}\necho on\n")) else { return };
    assert!(roles(&ran).is_empty() && !ran.stderr().contains("SIGPIPE"), "{}", ran.stderr());
}

#[test]
fn what_is_asked_in_a_condition_is_no_failure() {
    let text = "if ! ls /nosuch 2>&1; then :; fi\nls /nosuch2 || true\ngrep -q x /dev/null\n\
                which nosuchprogram\nperl -e 'sleep 1; exit 2'\ntrue\n/bin/true\n";
    let Some(ran) = run(&[], text) else { return };
    assert_eq!(roles(&ran), [(Some(5), "other")], "{}", ran.json["failed"]);
    assert!(
        ran.stderr().contains("note: line 5 of x.sh: perl -e sleep 1; exit 2 ended with status 2")
    );
}

#[test]
fn what_a_trap_does_at_the_end_hides_no_failure() {
    let text = "set -e\ntrap 'rm -f /nosuch' EXIT\nls /nosuch\n";
    let Some(ran) = run(&[], text) else { return };
    assert_eq!(roles(&ran).first().map(|(_, role)| *role), Some("ended the script"));
    let text = "perl -e 'sleep 1; exit 2' || exit 3\n";
    let Some(ran) = run(&[], text) else { return };
    assert_eq!((ran.code(), roles(&ran)), (3, vec![(Some(1), "last")]));
}

#[test]
fn a_build_s_failing_recipe_is_named() {
    if !have(&["make"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("Makefile");
    std::fs::write(&file, "all: x\nx:\n\tls /nosuch\n").expect("written");
    let ran = weir_run(&["make", "-f", &file.display().to_string()]);
    if ran.json["failed"].is_null() {
        return;
    }
    assert_eq!(ran.code(), 2);
    // It may be too brief to be looked at.
    let named = ["ls /nosuch", "(ls)"]
        .map(|command| format!("its last command: {command} ended with status 2"));
    assert!(named.iter().any(|said| ran.stderr().contains(said)), "{}", ran.stderr());
}

/// A script that asks for the first line failed with 141, and nothing said that this is harmless.
#[test]
fn a_writer_that_was_cut_off_under_pipefail_is_no_failure() {
    let ran = weir_run(&["--pipefail", "yes | head -1"]);
    assert_eq!(ran.code(), 141);
    let sentence = "status 141: 1 yes was ended by SIGPIPE: the stage after it had what it wanted, which is \
                    harmless, and pipefail made it the status";
    assert!(ran.stderr().contains(sentence), "{}", ran.stderr());
    let ran = weir_run(&["yes | head -1"]);
    assert_eq!(ran.code(), 0);
    assert!(!ran.stderr().contains("141"), "{}", ran.stderr());
}
