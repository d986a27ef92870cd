//! `weir tune --live`: the pipes in use get their sizes too.

use crate::common::WEIR;
use std::process::Command;
use weir::{Options, pipe};

/// A shift used to be bytes for one size, and pipes in use were set one at a time.
#[test]
fn sizes_are_asked_of_the_pipes_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut pipes = [4096, 65_536, 1 << 20].map(|capacity| {
        let options = Options::new().capacity_bytes(capacity).segment_bytes(capacity);
        pipe(&options).expect("made")
    });
    let live = format!("--live={}", std::process::id());
    let output = Command::new(WEIR)
        .args(["tune", "--shift", "4", &live])
        .env("WEIR_TUNE", directory.path().join("tune"))
        .output()
        .expect("weir");
    let said = String::from_utf8_lossy(&output.stderr);
    // Other tests of this process have pipes too.
    assert!(output.status.success() && said.contains(" pipes in use were asked"), "{said}");
    for (writer, reader) in &mut pipes {
        let sizes = || {
            let memory = reader.memory_descriptor().expect("here").try_clone_to_owned();
            weir::stat::read(&memory.expect("copied")).expect("read")
        };
        let now = sizes();
        assert_eq!(now.segment_bytes, now.capacity_bytes >> 4);
        // The writer looks for wishes now and then.
        for _ in 0..10_000 {
            writer.write(b"x").expect("written");
            reader.read(&mut [0]).expect("read");
        }
        assert_eq!(writer.sizes().segment_bytes, now.segment_bytes);
    }
    let kept = std::fs::read_to_string(directory.path().join("tune")).expect("kept");
    assert!(kept.contains("segment_shift = 4"), "{kept}");
}

/// "0 of 0 pipes in use were asked for them", and the status was 0.
#[test]
fn pipes_of_a_process_that_is_not_there_are_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = directory.path().join("tune");
    let mut weir = Command::new(WEIR);
    weir.args(["tune", "--shift", "4", "--live=999999999"]).env("WEIR_TUNE", &kept);
    let output = weir.output().expect("weir");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("process 999999999: it does not exist"), "{said}");
    assert!(!kept.exists(), "nothing is set");
}

/// A path that is not whole was another directory for each process.
#[test]
fn what_is_kept_lies_in_one_place_for_all() {
    let weir = |state: &str, home: &str| {
        let mut weir = Command::new(WEIR);
        weir.args(["tune", "--json", "-"]).env_remove("WEIR_TUNE");
        let output = weir.env("XDG_STATE_HOME", state).env("HOME", home).output().expect("weir");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["file"].as_str().map(str::to_owned)
    };
    let file = |path: &str| Some(path.to_owned());
    assert_eq!(weir("/state", "/home/me"), file("/state/weir/tune.toml"));
    for state in ["", "state", "./state"] {
        assert_eq!(
            weir(state, "/home/me"),
            file("/home/me/.local/state/weir/tune.toml"),
            "{state}"
        );
        assert_eq!(weir(state, "me"), None, "{state}");
    }
    // "neither ... is set" was said of what was set, and as of wrong usage.
    for (verb, variable) in
        [(&["tune", "--size", "1M"][..], "WEIR_TUNE"), (&["history"], "WEIR_HISTORY")]
    {
        let mut weir = Command::new(WEIR);
        weir.args(verb).env_remove(variable).env("XDG_STATE_HOME", "state").env_remove("HOME");
        let output = weir.output().expect("weir");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let why = format!("{variable} is not set, nor XDG_STATE_HOME or HOME to a whole path\n");
        assert!(said.ends_with(&why), "{said}");
    }
}
