//! The shell's semantics, to the letter: what `bash -c TEXT` does, `weir run TEXT` does too.

use crate::common::{WEIR, have, pipeline, weir_run};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use weir_measure::sys::spawn::spawn;

/// Runs a text under bash and under weir in the same empty directory; output and status must be
/// the same. `set` is a shell option such as `-o pipefail`, `flags` its form for weir.
fn same(text: &str, set: &[&str], flags: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let run = |command: &mut Command| {
        let output = command.current_dir(directory.path()).stdin(Stdio::null()).output();
        let output = output.expect("it starts");
        // As a shell tells it.
        let status = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        (status, String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let bash = run(Command::new("bash").args(set).args(["-c", "--", text]));
    let weir = run(Command::new(WEIR).args(["run", "--quiet"]).args(flags).arg(text));
    assert_eq!(weir, bash, "{text}");
}

/// Texts that must behave under weir as they do under bash.
const TEXTS: &[&str] = &[
    "echo a b | tr a-z A-Z",
    "printf 'x\\ny\\n' | sort -r | cat -n",
    "false | true",
    "true | false",
    "! true | false",
    "! true",
    "exit 7 | exit 9",
    "sh -c 'kill -9 $$' | cat",
    "cat /dev/null | sh -c 'kill -9 $$'",
    "yes | head -1",
    "yes | head -2 | tail -1",
    "nosuchcommand | cat",
    "echo x | nosuchcommand",
    "echo x | /dev/null",
    "echo x | /etc/passwd",
    "echo x | /nosuch/path",
    "ls /nosuch 2>&1 | wc -l",
    "ls /nosuch |& wc -l",
    "{ echo out; echo err >&2; } |& sort",
    "echo x >/dev/null |& wc -c",
    "echo 'a | b' | cat",
    "echo \"a | b\" | cat",
    "echo a\\|b | cat",
    "(echo 1; echo 2) | (read x; cat)",
    "{ echo 1; echo 2; } | while read x; do echo \"<$x>\"; done",
    "for i in 1 2 3; do echo $i; done | sort -r",
    "echo $((1+2)) $(echo sub) `echo tick` | cat",
    "echo ${HOME:+home} ~ | cat | wc -w",
    "X=5 sh -c 'echo $X' | cat",
    "echo a > f | cat; cat f",
    "echo a | tee f | cat - f",
    "seq 3 | { read a; echo $a; cat; }",
    "seq 5 | grep -v 3 | paste -sd,",
    "cat <<'E' | tr a b\naaa\nE\n",
    "cat <<< hello | tr l L",
    "echo one; echo two | cat; echo three",
    "true && echo yes || echo no",
    "if true; then echo yes; fi | cat",
    "case x in a|b) echo ab;; x|y) echo xy;; esac | cat",
    "[[ a == b || a == a ]] && echo ok | cat",
    "echo {1..3} | cat",
    "printf '%s\\n' * | cat",
    "echo a # comment | b\n",
    "echo a | # comment\ncat",
    "echo a \\\n| cat",
    "exec echo replaced | cat",
    "f() { echo in f; }; f | cat",
    "seq 10 | (head -1 >/dev/null; exit 3)",
    "kill -TERM $BASHPID | cat; echo after",
    "echo $0 | cat",
    " -nosuch -x | cat",
    "true && false | true",
    "(exit 4 | true) | cat",
    "true | (exit 4 | true)",
    "echo $$ >/dev/null | cat",
    "! kill -TERM $$",
    "! exit 3",
    "! exec false",
    "! { exit 4; }",
    "! false 2>/dev/null",
    "! trap 'echo at the end' EXIT",
    "! echo x | exit 3",
    "kill -TERM $$",
    "kill -PIPE $BASHPID | cat",
    "trap 'echo at the end' EXIT | cat",
    "(trap 'echo at the end' EXIT; exit 3) | cat",
    "seq 3 | { trap 'echo t >&2; exit 6' TERM; kill -TERM $BASHPID; cat; }",
    "sleep 0.01 & wait $!; echo $? | cat",
    "{ false & wait $!; echo $?; } | cat",
    "exec 3>f; echo x >&3 | cat; cat f",
    "false | true | (exit 5) | true; echo ${PIPESTATUS[@]}",
    "trap '' PIPE; { seq 30000 2>/dev/null; echo $? >&2; } | head -1",
    "set -o pipefail; false | true || echo failed",
    "set -e; false | true; echo on",
];

#[test]
fn output_and_status_are_bash_s() {
    if !have(&["bash"]) {
        return;
    }
    for text in TEXTS {
        same(text, &[], &[]);
        same(text, &["-o", "pipefail"], &["--pipefail"]);
    }
}

/// Writes more than a shell's pipe holds by one call, to a reader that leaves once that pipe is full. Through a
/// larger pipe the call succeeded, and the status was another than the shell's.
#[test]
fn a_writer_whose_status_counts_gets_no_further_than_under_bash() {
    if !have(&["bash", "python3", "dd"]) {
        return;
    }
    const LEAVES: &str = "import array, fcntl, os, termios\n\
        held = array.array('i', [0])\n\
        while held[0] < 65536: fcntl.ioctl(0, termios.FIONREAD, held)\n";
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("leaves.py"), LEAVES).expect("written");
    let dd = "dd if=/dev/zero bs=169000 count=1 2>/dev/null";
    for (set, flags, text) in [
        (&["-o", "pipefail"][..], &["--pipefail"][..], format!("{dd} | python3 leaves.py")),
        (&["-o", "pipefail"], &["--pipefail"], format!("{dd} | (python3 leaves.py; true)")),
        (&[], &[], format!("set -o pipefail; {dd} | python3 leaves.py")),
        (&[], &[], format!("{dd} | python3 leaves.py; exit ${{PIPESTATUS[0]}}")),
        (&[], &[], format!("{{ {dd}; echo $? >status; }} | python3 leaves.py")),
        (&[], &[], format!("{dd} | (python3 leaves.py; head -c 1)")),
    ] {
        let run = |command: &mut Command| {
            let _ = std::fs::remove_file(directory.path().join("status"));
            let output = command.current_dir(directory.path()).output().expect("it starts");
            let noted = std::fs::read_to_string(directory.path().join("status"));
            (output.status.code(), noted.unwrap_or_default())
        };
        let bash = run(Command::new("bash").args(set).args(["-c", &text]));
        let weir = run(Command::new(WEIR).args(["run", "-q"]).args(flags).arg(&text));
        assert_eq!(weir, bash, "{text}");
    }
    // What nobody looks at goes through a larger pipe.
    let ran = pipeline("seq 9 | cat | sort | (head -1)");
    let sizes: Vec<_> = ran.json["pipes"]
        .as_array()
        .expect("pipes")
        .iter()
        .map(|pipe| &pipe["capacity_bytes"])
        .collect();
    assert_eq!(sizes, [262_144, 262_144, 65_536]);
}

/// Container runtimes older than clone3(2) refused it so, and weir could start nothing.
#[test]
fn stages_start_where_a_filter_refuses_clone3() {
    /// The same on all architectures.
    const CLONE3: i64 = 435;
    let filtered = || {
        let rules = [(CLONE3, Vec::new())].into_iter().collect();
        let arch = std::env::consts::ARCH.try_into().expect("an architecture");
        let refuse = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error() as u32);
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
        let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
        seccompiler::apply_filter(&program).expect("filtered");
        let mut weir = Command::new(WEIR);
        weir.args(["run", "-q", "seq 2000 | sort -rn | head -1"]).stdout(Stdio::piped());
        spawn(&mut weir).expect("started").wait_with_output().expect("it ends")
    };
    let output = std::thread::spawn(filtered).join().expect("weir ran");
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"2000\n"[..]));
}

#[test]
fn early_close_is_normal_and_quick() {
    let ran = pipeline("yes | head -1");
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "y\n"));
    assert_eq!(ran.json["stages"][0]["exit"]["signal"], 13);
    assert_eq!(ran.json["stages"][0]["closed_by_downstream"], true);
    assert!(ran.stderr().contains("reader left"), "{}", ran.stderr());
}

#[test]
fn a_failing_stage_is_shown_and_pipefail_passes_it_on() {
    let ran = weir_run(&["sh -c 'cat; exit 3' | cat"]);
    assert_eq!(ran.code(), 0);
    assert_eq!(ran.json["stages"][0]["exit"]["code"], 3);
    let ran = weir_run(&["--pipefail", "sh -c 'cat; exit 3' | cat"]);
    assert_eq!(ran.code(), 3);
    assert_eq!(ran.json["exit_status"], 3);
}

#[test]
fn redirections_are_bash_s() {
    if !have(&["bash"]) {
        return;
    }
    let texts = [
        "seq 3 | sort -r > f; cat f",
        "seq 3 | sort -r >f 2>&1",
        "cat < /nosuch",
        "echo x | cat > /nosuch/f",
        "nosuchcommand > f",
        "/etc/passwd > f",
        "/tmp > f",
        "echo x | X=5 sh -c 'echo $X; kill -9 $$' >&2",
        "sort -r <<< $'1\\n2' 2>/dev/null",
    ];
    texts.iter().for_each(|text| same(text, &[], &[]));
}

#[test]
fn a_stage_killed_is_shown_by_its_signal() {
    let ran = weir_run(&["echo x | sh -c 'kill -9 $$'"]);
    assert_eq!(ran.code(), 137);
    assert_eq!(ran.json["stages"][1]["exit"]["signal"], 9);
    assert!(ran.stderr().contains("SIGKILL"), "{}", ran.stderr());
}

#[test]
fn a_pipeline_of_one_and_of_twenty() {
    let one = pipeline("seq 3");
    assert_eq!((one.stages(), one.stdout().as_str()), (1, "1\n2\n3\n"));
    assert_eq!(one.json["pipes"].as_array().map(Vec::len), Some(0));
    let twenty = pipeline(&format!("seq 100000{}", " | cat".repeat(19)));
    assert_eq!((twenty.stages(), twenty.stdout().len()), (20, 588_895));
    for index in 2..=20 {
        assert_eq!(twenty.stage(index, "pipe_bytes_in") as u64, 588_895, "stage {index}");
    }
}

#[test]
fn empty_input_gives_empty_output() {
    let ran = pipeline("cat /dev/null | sort | uniq -c | wc -l");
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "0\n"));
    assert_eq!(ran.stage(1, "bytes_out") as u64, 0);
}

#[test]
fn two_gigabytes_go_through_whole() {
    let ran = pipeline("head -c 2147483648 /dev/zero | cat | wc -c");
    assert_eq!(ran.stdout(), "2147483648\n");
    assert_eq!(ran.stage(1, "bytes_out") as u64, 2_147_483_648);
    assert_eq!(ran.stage(2, "pipe_bytes_in") as u64, 2_147_483_648);
    assert_eq!(ran.stage(3, "pipe_bytes_in") as u64, 2_147_483_648);
}

#[test]
fn words_without_a_shell() {
    let ran =
        weir_run(&["--", "printf", "%s\\n", "a b", "$HOME", "*", "|", "sort", "|", "cat", "-n"]);
    assert_eq!(ran.code(), 0);
    assert_eq!(ran.stdout(), "     1\t$HOME\n     2\t*\n     3\ta b\n");
    assert_eq!(ran.stages(), 3);
}

#[test]
fn standard_input_and_output_are_the_pipeline_s() {
    let mut child = Command::new(WEIR)
        .args(["run", "--quiet", "tr a-z A-Z | rev"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir starts");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"abc\n").expect("written");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.stdout, b"CBA\n");
}

#[test]
fn another_shell_is_used_when_asked_for() {
    if !have(&["dash", "bash"]) {
        return;
    }
    let shells = |shell: &str| {
        let ran = weir_run(&["--shell", shell, "echo ${BASH_VERSION:-none} | cat"]);
        ran.stdout().trim().to_owned()
    };
    assert_eq!(shells("dash"), "none");
    assert_ne!(shells("bash"), "none");
}

/// fish takes `--` behind its `-c` for the text.
#[test]
fn a_shell_with_a_grammar_of_its_own_gets_the_text() {
    if !have(&["fish"]) {
        return;
    }
    let ran = weir_run(&["--shell", "fish", "for i in a b; echo $i; end | tr a-b c-d"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (0, "c\nd\n"), "{}", ran.stderr());
}

#[test]
fn stages_do_not_inherit_ignored_signals_or_descriptors() {
    let ran = pipeline("grep SigIgn /proc/self/status | cat");
    let mask = ran.stdout().trim().rsplit('\t').next().map(|hex| u64::from_str_radix(hex, 16));
    // glibc's posix_spawn leaves its two internal signals (32, 33) ignored in every child.
    assert_eq!(mask.expect("a mask").expect("hexadecimal") & !0x1_8000_0000, 0);
    // The count is the one under bash: what this test itself inherited, and no pipe of another
    // stage.
    same("ls /proc/self/fd | cat | cat", &[], &[]);
}

#[test]
fn real_tools_give_the_same_bytes() {
    if !have(&["zstd", "xz", "gzip", "tar", "awk", "python3", "sha256sum", "bash"]) {
        return;
    }
    let texts = [
        "seq 300000 | zstd -q -T2 | zstd -dc | xz -0 | xz -dc | gzip -1 | gzip -dc | sha256sum",
        "tar c -C / etc/passwd etc/group 2>/dev/null | tar x -O | sort | uniq -c | sha256sum",
        "seq 200000 | awk '{print $1%97, $1}' | sort -k1,1n -s | uniq -c -w3 | sha256sum",
        "seq 50000 | python3 -c 'import sys\nfor l in sys.stdin: print(int(l)**2)' | grep 7 | sha256sum",
        "seq 100000 | tee >(wc -l >/dev/null) | sha256sum",
        "paste <(seq 1000) <(seq 1000 | tac) | sha256sum",
    ];
    for text in texts {
        same(text, &[], &[]);
    }
}

#[test]
fn a_report_that_its_file_may_not_hold_costs_nobody_the_status() {
    let directory = tempfile::tempdir().expect("a directory");
    for option in ["-o report", "--json report"] {
        let script = format!("ulimit -f 0; \"$WEIR\" run {option} 'exit 3'");
        let mut command = Command::new("bash");
        command.args(["-c", &script]).env("WEIR", WEIR).current_dir(directory.path());
        let output = command.output();
        let output = output.expect("bash starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("cannot write the report to report: File too large"), "{said}");
    }
}
