//! Stages that move bytes by `splice`, which the kernel does not count, and stages that resize
//! their pipes, as the present coreutils do.

use crate::common::{Ran, alone, have, pipeline, python, weir_run};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const SIZE: u64 = 64 << 20;
/// Copies standard input to standard output by splice, 64 KiB a call, with pauses.
const COPY: &str = "import os, time\nwhile os.splice(0, 1, 1 << 16): time.sleep(0.0002)";

fn file_of(directory: &Path) -> PathBuf {
    let path = directory.join("numbers");
    std::fs::write(&path, vec![b'x'; SIZE as usize]).expect("written");
    path
}

/// A stage that runs this Python text from a file.
fn script(directory: &Path, name: &str, text: &str) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).expect("written");
    format!("{} {}", python(), path.display())
}

/// Whether python can splice.
fn have_splice() -> bool {
    let mut test = std::process::Command::new(python());
    let ended = test.args(["-c", "import os; os.splice"]).stderr(Stdio::null()).status();
    let has = ended.is_ok_and(|status| status.success());
    if !has {
        eprintln!("SKIPPED: this python has no os.splice");
    }
    has
}

/// No figure of a stage may be called exact unless it is what the stage really read or wrote.
fn is_true(ran: &Ran, index: usize, read: u64, written: u64) {
    let (seen_in, seen_out) = (ran.stage(index, "bytes_in"), ran.stage(index, "bytes_out"));
    match ran.json["stages"][index - 1]["evidence"]["bytes"].as_str() {
        Some("exact") => {
            assert!(seen_in as u64 >= read, "stage {index} read {seen_in}: {}", ran.json);
            assert_eq!(seen_out as u64, written, "stage {index}: {}", ran.json);
        }
        Some("lower bound") => {
            assert!(seen_out as u64 <= written, "stage {index} wrote {seen_out}: {}", ran.json);
        }
        Some("estimated") => {
            let (least, most) = (written as f64 * 0.98, written as f64 * 1.02 + 1e6);
            assert!((least..=most).contains(&seen_out), "stage {index}: {}", ran.json);
        }
        other => panic!("stage {index}: {other:?}"),
    }
}

#[test]
fn what_a_splicer_moves_comes_from_its_neighbours() {
    if !have_splice() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let (input, copy) = (file_of(directory.path()), script(directory.path(), "copy.py", COPY));
    // cksum counts what it reads. It begins late, so the pipe is full and weir sees the call.
    let ran = pipeline(&format!("{copy} < {} | {{ sleep .5; cksum; }}", input.display()));
    assert_eq!(ran.json["stages"][0]["evidence"]["bytes"], "estimated", "{}", ran.json);
    is_true(&ran, 1, SIZE, SIZE);
    is_true(&ran, 2, SIZE, ran.stdout().len() as u64);
    assert!(ran.stage(1, "bytes_in") >= 0.5 * SIZE as f64, "{}", ran.json);
    assert_ne!(ran.json["stages"][0]["evidence"]["pipe_bytes"], "exact");
    assert!((ran.stage(1, "pipe_bytes_out") - SIZE as f64).abs() < 1e6, "{}", ran.json);
    assert!(ran.stage(1, "bytes_per_s") > 1e6, "{}", ran.json);
}

#[test]
fn two_splicers_beside_each_other_have_bounds() {
    if !have_splice() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let (input, copy) = (file_of(directory.path()), script(directory.path(), "copy.py", COPY));
    let ran = pipeline(&format!("{copy} < {} | {copy} | {copy} > /dev/null", input.display()));
    for (index, stage) in ran.json["stages"].as_array().expect("stages").iter().enumerate() {
        assert_ne!(stage["evidence"]["bytes"], "exact", "stage {}: {}", index + 1, ran.json);
        assert_ne!(stage["evidence"]["pipe_bytes"], "exact", "stage {}: {}", index + 1, ran.json);
    }
    let crossed = ran.json["stages"][0]["pipe_bytes_out"].as_u64();
    assert!(crossed.is_none_or(|crossed| crossed <= SIZE + (1 << 20)), "{}", ran.json);
}

#[test]
fn a_count_of_all_stays_exact_beside_programs_that_may_splice() {
    let _alone = alone();
    let counts = format!("{} -c 'import sys; print(len(sys.stdin.read()))'", python());
    let ran = pipeline(&format!("seq 100000 | {counts} | cksum"));
    let evidence = |at: usize| ran.json["stages"][at]["evidence"]["bytes"].as_str();
    assert_eq!(
        (evidence(0), evidence(1), evidence(2)),
        (Some("exact"), Some("exact"), Some("exact"))
    );
}

#[test]
fn a_stage_that_enlarges_its_pipe_is_named() {
    if !have_splice() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let input = file_of(directory.path());
    let text = format!("import fcntl\nfcntl.fcntl(1, 1031, 1 << 20)\n{COPY}");
    let copy = script(directory.path(), "resize.py", &text);
    let text = format!("{copy} < {} | cksum", input.display());
    let ran = weir_run(&["--pipe-size", "64K", &text]);
    let pipe = &ran.json["pipes"][0];
    assert_eq!((&pipe["given_bytes"], &pipe["resized_bytes"]), (&65_536.into(), &(1 << 20).into()));
    assert_eq!((&pipe["capacity_bytes"], &pipe["resized_by"]), (&(1 << 20).into(), &1.into()));
    let report = ran.stderr();
    assert!(report.contains("enlarged pipe 1->2 to 1 MiB: the 64 KiB of --pipe-size"), "{report}");
    // A pipe that weir itself enlarges does not count as resized by a stage.
    let ran = weir_run(&["--pipe-size", "auto", "seq 3000000 | sort | tail -1"]);
    assert!(ran.json["pipes"][0]["resized_bytes"].is_null(), "{}", ran.json);
}

/// The coreutils written in Rust, if they are installed: `cargo install coreutils`.
fn uutils() -> Option<String> {
    let named = std::env::var("WEIR_TEST_UUTILS").ok();
    let found = named.or_else(|| have(&["coreutils"]).then(|| String::from("coreutils")));
    if found.is_none() {
        eprintln!("SKIPPED: no uutils (WEIR_TEST_UUTILS=PATH/coreutils)");
    }
    found
}

#[test]
fn the_coreutils_of_today_are_told_truly() {
    let Some(uu) = uutils() else { return };
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let input = file_of(directory.path());
    let input = input.display();
    let pipelines = [
        (format!("{uu} cat {input} | {uu} wc -c"), 2),
        (format!("{uu} cat {input} | cksum"), 2),
        (format!("cat {input} | {uu} cat | cksum"), 3),
        (format!("{uu} head -c {SIZE} {input} | {uu} cat | {uu} wc -c"), 3),
        (format!("{uu} yes x | {uu} head -c {SIZE} | cksum"), 3),
        (format!("cat {input} | {uu} tee /dev/null | cksum"), 3),
    ];
    for (text, count) in pipelines {
        let ran = pipeline(&text);
        let last = ran.stdout().len() as u64;
        for index in 1..=count {
            // The test does not know how much `yes` and `tee` write in all.
            let all = text.contains(" yes ") && index == 1 || text.contains(" tee ") && index == 2;
            if !all {
                is_true(&ran, index, SIZE, if index == count { last } else { SIZE });
            }
        }
        for pipe in ran.json["pipes"].as_array().expect("pipes") {
            let kept = pipe["resized_bytes"].is_null();
            assert_eq!(kept, pipe["capacity_bytes"] == pipe["given_bytes"], "{text}: {pipe}");
        }
    }
}

/// Perl splices its input to its output, which takes it two milliseconds or so.
const QUICK: &str = "perl -e \"syscall(275, 0, 0, 1, 0, 1 << 20, 0) for 1..64\"";

/// A shell that becomes a program in its last moments, or that starts one which is soon gone: no
/// sample meets it, and the shell itself cannot splice. The count of nothing was once called exact.
#[test]
fn a_program_that_comes_late_and_is_soon_gone_is_known() {
    if !have(&["perl"]) || cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let input = directory.path().join("zeros");
    std::fs::write(&input, vec![0; 4 << 20]).expect("written");
    for stage in [format!("sh -c 'sleep .2; exec {QUICK}'"), format!("{{ sleep .2; {QUICK}; }}")] {
        let ran = pipeline(&format!("{stage} < {} | wc -c", input.display()));
        if ran.json["started"]["evidence"] != "exact" {
            eprintln!("SKIPPED: the kernel tells no process events");
            return;
        }
        let moved: u64 = ran.stdout().trim().parse().expect("a number");
        assert!(moved > 1 << 20, "{moved}: {}", ran.stderr());
        is_true(&ran, 1, moved, moved);
        assert_ne!(ran.json["stages"][0]["evidence"]["bytes"], "exact", "{}", ran.json);
        // What it read is not known, so that it has no estimate.
        let read = ran.stage(1, "bytes_in");
        let is_bound = ran.json["stages"][0]["evidence"]["bytes"] == "lower bound";
        assert!(is_bound || read + 1e6 > moved as f64, "{}", ran.json);
    }
}
