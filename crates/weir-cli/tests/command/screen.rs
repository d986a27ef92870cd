//! The first screen of `weir run`: it fits the terminal, failures stand out, and a person who waits
//! sees that something happens.

use crate::common::{WEIR, have, weir_run, write_program};
use std::path::Path;
use std::process::{Command, Stdio};

/// What a terminal of this many columns shows of a script of sh, in which WEIR is the command.
fn on_terminal(columns: usize, directory: &Path, script: &str) -> String {
    let script = script.replace("WEIR", WEIR);
    std::fs::write(directory.join("inner"), format!("stty cols {columns} rows 24\n{script}\n"))
        .expect("written");
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qec", "sh inner", "shown"]).current_dir(directory);
    command.env("TERM", "xterm").env("XDG_STATE_HOME", directory).env("COLUMNS", "33");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("timeout starts").success(), "{script}");
    std::fs::read_to_string(directory.join("shown")).expect("UTF-8")
}

/// The text without the sequences that move the cursor or set colours.
fn plain(shown: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for c in shown.chars() {
        match c {
            '\u{1b}' => inside = true,
            c if inside => inside = !c.is_ascii_alphabetic(),
            '\r' => {}
            c => plain.push(c),
        }
    }
    plain
}

/// The lines of the report that a terminal of this many columns shows. `None`, and says so, where no
/// terminal can be had.
fn report(columns: usize, script: &str) -> Option<Vec<String>> {
    if !have(&["script", "stty"]) {
        return None;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let shown = plain(&on_terminal(columns, directory.path(), script));
    let start = shown.find("weir: ").expect("a report");
    let lines = shown[start..].lines().take_while(|line| !line.contains("Script done"));
    Some(lines.map(String::from).collect())
}

#[test]
fn the_report_is_as_wide_as_the_terminal() {
    let text = "head -c 3000000 /dev/zero | tr '\\0' 'abcdefghijklmnopqrstuvwxyz' | cat | wc -c";
    for columns in [40, 80, 120] {
        let script = format!("WEIR run \"{text}\" > /dev/null");
        let Some(report) = report(columns, &script) else { return };
        for line in &report {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        // The report has four stages in three tables, at any width.
        let rows = report.iter().filter(|line| line.starts_with("4 wc")).count();
        assert_eq!(rows, 2, "{report:#?}");
        let names = report.iter().any(|line| line.starts_with("2 tr") && line.contains("wxyz"));
        assert_eq!(names, columns == 120, "a wide terminal shows more: {report:#?}");
    }
}

/// A watch on a terminal was as wide as one in a file, and its sentences were lines without an end.
#[test]
fn the_report_of_a_watch_is_as_wide_as_the_terminal() {
    let script = "sleep 60 < /dev/null & WEIR watch $! --for 300ms; kill $!";
    let Some(report) = report(40, script) else { return };
    assert!(report.iter().any(|line| line.starts_with("1 sleep 60")), "{report:#?}");
    assert!(report.iter().all(|line| line.chars().count() <= 40), "{report:#?}");
}

#[test]
fn in_a_file_columns_says_how_wide_and_sentences_stay_whole() {
    let run = |columns: Option<&str>| {
        let mut command = Command::new(WEIR);
        command.args(["run", "sh -c 'exit 3' one two three four five six seven eight | cat"]);
        command.env_remove("COLUMNS").stdin(Stdio::null());
        columns.map(|columns| command.env("COLUMNS", columns));
        String::from_utf8_lossy(&command.output().expect("weir starts").stderr).into_owned()
    };
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert!(widest(&run(Some("50"))) <= Some(50));
    let free = run(None);
    let (sentences, tables): (Vec<&str>, Vec<&str>) =
        free.lines().partition(|line| line.contains("failed"));
    assert!(widest(&tables.join("\n")) <= Some(100), "{free}");
    assert!(sentences.len() == 1 && sentences[0].ends_with("incomplete input"), "{free}");
    assert_eq!(run(Some("nonsense")).lines().count(), free.lines().count());
}

#[test]
fn the_verdict_opens_the_report_and_brief_leaves_out_the_tables() {
    let text = "perl -e 'for(1..3){print 1;select(undef,undef,undef,.1)}' | cat > /dev/null";
    let ran = weir_run(&[text]);
    let said = ran.stderr();
    assert!(
        said.lines().nth(1).is_some_and(|line| line.starts_with("held up by 1 perl")),
        "{said}"
    );
    assert!(
        said.contains("  time ") && said.contains("1->2") && !said.contains("exact:"),
        "{said}"
    );
    let brief = weir_run(&["--brief", text]).stderr();
    assert!(brief.contains("held up by 1 perl") && !brief.contains("  time "), "{brief}");
    let verbose = weir_run(&["--verbose", text]).stderr();
    assert!(verbose.contains("\nexact: wall") && verbose.contains("other is sleep"), "{verbose}");
    assert_eq!(weir_run(&["--brief", "--verbose", "true"]).code(), 2);
}

#[test]
fn one_stage_has_one_name() {
    // The report once showed the program that ran in place of what was typed: bash for while, gzip
    // for zcat.
    let ran = weir_run(&["seq 2000 | while read x; do echo $x; done | cat > /dev/null"]);
    let said = ran.stderr();
    let rows = said.lines().filter(|line| line.starts_with("2 ")).collect::<Vec<_>>();
    assert!(rows.len() >= 2 && rows.iter().all(|row| row.starts_with("2 while read")), "{said}");
}

#[test]
fn a_stage_that_was_killed_stands_out() {
    let killed = weir_run(&["sh -c 'echo x; kill -9 $$' | cat"]);
    let said = killed.stderr();
    let line = "was killed by SIGKILL: the stages after it had incomplete input";
    assert!(said.lines().nth(1).is_some_and(|said| said.contains(line)), "{said}");
    let missing = weir_run(&["true | (nosuchcommand) | cat"]).stderr();
    assert!(missing.contains("failed with status 127: a command in it was not found"), "{missing}");
    let failed = weir_run(&["true | sh -c 'exit 3'"]).stderr();
    assert!(failed.contains("2 sh -c 'exit 3' failed with status 3"), "{failed}");
    let script = weir_run(&["true; sh -c 'exit 3'"]).stderr();
    assert!(script.contains("true; sh -c 'exit 3' failed with status 3"), "{script}");
}

#[test]
fn what_is_no_failure_does_not_cry_wolf() {
    let grep = weir_run(&["echo a | grep b"]).stderr();
    assert!(grep.contains("2 grep b ended with status 1: nothing matched"), "{grep}");
    let early = weir_run(&["yes | head -1"]).stderr();
    assert!(early.contains("reader left"), "{early}");
    for said in [grep, early] {
        assert!(!said.contains("failed") && !said.contains("killed"), "{said}");
    }
}

/// A memory control group with a limit, removed at the end.
struct Limited(std::path::PathBuf);

impl Limited {
    fn new(bytes: u64) -> Option<Limited> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = |controller: &str| {
            groups.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                rest.split_once(':').filter(|(name, _)| *name == controller).map(|(_, path)| path)
            })
        };
        let (base, limit, swap) = match path("memory") {
            Some(path) => (
                format!("/sys/fs/cgroup/memory{path}"),
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
            ),
            None => (format!("/sys/fs/cgroup{}", path("")?), "memory.max", "memory.swap.max"),
        };
        let group = Path::new(&base).join(format!("weir-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok()?;
        let made = Limited(group);
        std::fs::write(made.0.join(limit), bytes.to_string()).ok()?;
        let swap_bytes = if limit == "memory.max" { 0 } else { bytes };
        // Without swap there is no such limit.
        let _ = std::fs::write(made.0.join(swap), swap_bytes.to_string());
        Some(made)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn the_kernel_s_kill_for_want_of_memory_is_named() {
    let Some(group) = Limited::new(160 << 20) else {
        eprintln!("SKIPPED: no privilege to make a memory control group");
        return;
    };
    // tail keeps the bytes that it may have to print. At the limit it is much larger than weir,
    // whose file is large in a build with debug information: once the kernel chose weir.
    let text = "head -c 400M /dev/zero | tail -c 350M | wc -c";
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec timeout 60 {WEIR} run '{text}'",
        group.0.display()
    );
    let output = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).output();
    let said = String::from_utf8_lossy(&output.expect("sh").stderr).into_owned();
    assert!(said.contains("2 tail -c 350M was killed by SIGKILL (out of memory: "), "{said}");
}

#[test]
fn a_person_who_waits_sees_the_bottleneck_and_the_time_left() {
    if !have(&["script", "stty"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("input.dat"), vec![b'x'; 4 << 20]).expect("written");
    // The file takes three seconds. The last stage prints elsewhere, inside the quotes.
    let slow = "open F,shift;while(sysread(F,$b,65536)){print $b;select(undef,undef,undef,.05)}";
    std::fs::write(directory.path().join("slow.pl"), slow).expect("written");
    let inner = "exec perl slow.pl input.dat | exec cat > out";
    std::fs::write(directory.path().join("text"), inner).expect("written");
    let shown = on_terminal(100, directory.path(), "WEIR run \"$(cat text)\"");
    let lines: Vec<&str> =
        shown.split("\r\u{1b}[K").filter(|part| part.starts_with("weir 00:")).collect();
    assert!(!lines.is_empty(), "{shown}");
    // The last line may be of the moment in which the first stage has ended and the other has not.
    let named = |line: &&&str| line.contains("1 exec perl slow.pl") && line.contains("% busy");
    assert!(lines.iter().filter(named).count() * 2 > lines.len(), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("% of input.dat, 00:0")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("/s")), "{lines:#?}");
    // The progress line is wiped before the report, and is not shown if the last stage prints to
    // the terminal.
    assert!(shown.contains("\r\u{1b}[Kweir: "), "{shown}");
    let shown = on_terminal(100, directory.path(), "WEIR run 'perl slow.pl | tail -c 1'");
    assert!(!shown.contains("weir 00:"), "{shown}");
}

/// "70 % of sorthTwsho, 00:00 left" was a run of sort's own, and "96 % of a.gz, 00:00 left" the first of three
/// files.
#[test]
fn the_line_has_the_files_that_were_named_and_all_of_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let lines = "a line of some length that is sorted\n".repeat(60_000);
    for name in ["a", "b"] {
        std::fs::write(directory.path().join(name), &lines).expect("written");
    }
    // Two seconds and a half.
    let slow =
        "for(@ARGV){open F,$_;while(sysread(F,$b,65536)){print $b;select(undef,undef,undef,.035)}}";
    std::fs::write(directory.path().join("slow.pl"), slow).expect("written");
    let shown = |text: &str| {
        let mut command = Command::new(WEIR);
        command.args(["run", "--quiet", "--live=line", text]).current_dir(directory.path());
        let output = command.stdin(Stdio::null()).output().expect("weir starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = shown("perl slow.pl a b | grep -c line");
    assert!(said.contains("% of 2 files, 00:0") && said.contains(" left"), "{said:?}");
    let said = shown("perl slow.pl a b | sort -S 1M -T . | perl slow.pl /dev/stdin > /dev/null");
    assert!(said.contains("% of 2 files") && !said.contains(" left"), "{said:?}");
    assert!(!said.contains("% of sort"), "{said:?}");
    std::fs::write(directory.path().join("both"), lines.repeat(2)).expect("written");
    let said = shown("perl slow.pl /dev/stdin < both | cat > /dev/null");
    assert!(said.contains("% of both, 00:0"), "{said:?}");
}

/// `--live` has a row for each stage, which goes before the report comes, and is nothing in a file.
#[test]
fn the_bars_have_a_row_for_each_stage_and_leave_nothing() {
    if !have(&["script", "stty"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("big.bin"), vec![b'x'; 8 << 20]).expect("written");
    // The reader takes three seconds: the pipe is full, and the writer waits for it.
    let slow = "while(sysread(STDIN,$b,65536)){select(undef,undef,undef,.025)}";
    std::fs::write(directory.path().join("slow.pl"), slow).expect("written");
    let script = "WEIR run --live 'cat big.bin | perl slow.pl'";
    let shown = on_terminal(100, directory.path(), script);
    let rows = shown.matches("pipe [=").count();
    assert!(rows > 0, "{shown:?}");
    assert!(shown.contains("% of big.bin") && shown.contains("# on CPU"), "{shown:?}");
    let (bars, report) = shown.rsplit_once("\r\x1b[J").expect("wiped");
    assert!(bars.contains("[>>>>") && !report.contains("# on CPU"), "{report:?}");
    assert!(plain(report).contains("held up by 2 perl slow.pl"), "{report}");
    let output = Command::new(WEIR)
        .args(["run", "--live", "cat big.bin | tail -c 1 >/dev/null"])
        .current_dir(directory.path())
        .output()
        .expect("weir starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("# on CPU"), "{said}");
}

#[test]
fn a_loop_that_starts_hundreds_of_commands_keeps_a_short_report() {
    let text = "for i in $(seq 200); do basename /a/$i; done > /dev/null; sleep 0.2";
    let said = weir_run(&[text]).stderr();
    assert!(said.lines().count() < 40, "{said}");
    assert!(!said.contains("()"), "{said}");
    let bare = |line: &&str| line.split_whitespace().filter(|word| *word == "-").count() >= 6;
    assert!(said.lines().filter(bare).count() <= 1, "{said}");
}

#[test]
fn a_script_and_a_build_are_looked_into() {
    // The report once said only "held up by 1 bash report.sh".
    let directory = tempfile::tempdir().expect("a directory");
    let slow = "perl -e 'select(undef,undef,undef,.3)'";
    let path = |name: &str| directory.path().join(name).display().to_string();
    let slower = slow.replace(".3", ".5");
    write_program(path("report.sh"), format!("#!/bin/sh\n{slower} | cat\n{slow}\nexit 4\n"));
    let sh = path("report.sh");
    let text = format!("sh {sh}");
    let redirected = format!("sh {sh} > {}", path("out"));
    for args in [&["sh", &sh][..], &[&sh], &[&text], &[&redirected]] {
        let ran = weir_run(args);
        assert_eq!(ran.code(), 4, "{args:?}: {}", ran.stderr());
        assert_eq!(ran.json["mode"], "script", "{args:?}");
        let perl = ran.running("perl");
        assert_eq!(ran.culprit(), perl as u64, "{args:?}: {}", ran.stderr());
        assert!(ran.stderr().contains("failed with status 4"), "{}", ran.stderr());
    }
    if have(&["make"]) {
        std::fs::write(path("Makefile"), format!("all:\n\t@{}; true\n", slow.replace('$', "$$")))
            .expect("written");
        let ran = weir_run(&["make", "-f", &path("Makefile")]);
        assert!(ran.running("perl") > 0, "{}", ran.stderr());
        // The shell that make starts for the line does nothing but wait.
        assert!(!ran.stderr().contains("sh -c"), "{}", ran.stderr());
    }
    assert_eq!(weir_run(&["sh -c 'echo x' | cat"]).json["mode"], "pipeline");
    // A process that lives too briefly to be seen has run all the same.
    let brief = weir_run(&["sh", "-c", "exit 0"]).stderr();
    assert!(!brief.contains("nothing ran") && !brief.contains("nothing to run"), "{brief}");
}

#[test]
fn what_could_not_be_started_is_not_compared() {
    let ran = weir_run(&["--compare", "--runs", "6", "nosuchcommand | cat"]);
    assert!(ran.stderr().contains("nothing was compared: not all stages"), "{}", ran.stderr());
    assert!(ran.json["compare"].is_null());
    // The reader's count is what loading its program read.
    assert_eq!(ran.stage(2, "pipe_bytes_in") as u64, 0);
}

/// A command without a pipe was called slower than itself "with pipes of 256 KiB".
#[test]
fn what_would_be_the_same_run_again_is_not_compared() {
    for args in [&["true"][..], &["--pipe-size", "64K", "seq 9 | cat"], &["true && false"]] {
        let ran = weir_run(&[&["--compare", "--runs", "6"], args].concat());
        assert!(ran.stderr().contains("nothing was compared: weir has no"), "{}", ran.stderr());
        assert!(ran.json["compare"].is_null());
    }
}

/// A shell in an editor showed each step of the line of progress behind the other.
#[test]
fn a_terminal_on_which_nothing_can_be_drawn_anew_shows_no_progress() {
    if !have(&["script", "stty"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let script = "export TERM=dumb; WEIR run 'sleep 1.5 | cat' > out; \
                  WEIR run --live 'sleep 1.5 | cat' > out";
    let shown = on_terminal(100, directory.path(), script);
    assert_eq!(shown.matches("weir: ").count(), 2, "{shown:?}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}
