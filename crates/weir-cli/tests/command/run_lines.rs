//! Lines of a script that never ran are not named, and a number of instances that rests on a
//! program's name is not called exact. What bash takes from its environment holds
//! (docs/contracts/run.md).

use crate::common::{WEIR, alone, bound, have, pipeline, weir_run, write_program};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The lines that are told of what a script ran, by the names of the groups.
fn lines(directory: &Path, text: &str) -> Vec<(String, Option<u64>)> {
    std::fs::write(directory.join("in.csv"), "a,b\n".repeat(100_000)).expect("written");
    std::fs::write(directory.join("lib.sh"), "gzip -c in.csv | wc -c\n").expect("written");
    std::fs::write(directory.join("g.sh"), text).expect("written");
    let ran = weir_run(&[&format!("cd {}; bash g.sh; true", directory.display())]);
    let groups = ran.json["groups"].as_array().unwrap_or_else(|| panic!("{}", ran.stderr()));
    let of = |group: &Value| {
        // The library's own line is not a line of the script.
        let line = group["line"].as_u64().filter(|_| group["script"] == "g.sh");
        (group["name"].as_str().unwrap_or_default().to_owned(), line)
    };
    groups.iter().map(of).collect()
}

/// A dead line was the only one that fitted what an array, a variable, a sourced file, a trap or a
/// wrapper ran.
#[test]
fn a_line_that_never_ran_is_not_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let pipeline = "if false; then gzip -c in.csv | wc -c; fi\n";
    let single = "false && gzip -c in.csv > /dev/null\n";
    for (dead, live) in [
        (pipeline, "cmd=(gzip -c in.csv)\n\"${cmd[@]}\" | wc -c"),
        (pipeline, "G='gzip -c in.csv'; $G | wc -c"),
        (pipeline, ". ./lib.sh"),
        (pipeline, "x='gzip -c in.csv | wc -c'; eval \"$x\""),
        (pipeline, "trap 'gzip -c in.csv | wc -c' EXIT"),
        (pipeline, "n=`gzip -c in.csv | wc -c`"),
        (pipeline, "f() { gzip -c in.csv; }; f | wc -c"),
        (pipeline, "gzip -c in.csv << E | wc -c\nx\nE"),
        (pipeline, "bash lib.sh"),
        (single, "g=gzip; $g -c in.csv > /dev/null"),
        (single, "shopt -s expand_aliases\nalias h='gzip -c'\nh in.csv > /dev/null"),
        (single, "nice gzip -c in.csv > /dev/null"),
        (single, "env A=1 gzip -c in.csv > /dev/null"),
        (single, "sh -c 'gzip -c in.csv > /dev/null; :'"),
        (single, "timeout 60 gzip -c in.csv > /dev/null"),
        (single, "echo in.csv | xargs gzip -c > /dev/null"),
    ] {
        let found = lines(directory.path(), &format!("#!/bin/bash\n{dead}{live}\n"));
        assert!(found.iter().all(|(_, line)| *line != Some(2)), "{live}: {found:?}");
    }
}

/// What usual scripts have besides takes the line of nothing that it does not run.
#[test]
fn traps_functions_and_here_documents_hide_no_other_line() {
    crate::common::truth(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let text = "#!/bin/bash
tmp=$(mktemp); trap 'rm -f \"$tmp\"' EXIT
log() { echo \"$(date): $1\" >&2; }
usage() { cat << EOF
usage: `basename $0` FILE
EOF
}
log begin
perl -e 'while ((times)[0] < .4) { print \"x\\n\" x 100 }' in.csv | wc -c
";
        let found = lines(directory.path(), text);
        let line = found.iter().find(|(name, _)| name.contains("| wc -c"));
        assert!(matches!(line, Some((_, Some(9)))), "{found:?}");
    });
}

/// `flock 9` ended before its words could be read. It was counted as a second `flock lk true`, and
/// the number was called exact.
#[test]
fn instances_by_a_program_s_name_alone_are_not_exact() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let ran = pipeline(&format!(
        "cd {}; exec 9>lk; flock 9; flock lk true 9>&- & exec 9>&-; wait",
        directory.path().display()
    ));
    for group in ran.json["groups"].as_array().expect("groups") {
        let exact = group["name"] == "flock lk true" && group["instances_evidence"] == "exact";
        assert!(!exact || group["instances"] == 1, "{}", ran.stderr());
    }
}

/// Runs a text by `weir run -q` and by bash, with a variable: both do the same.
fn as_bash(name: &str, value: &str, text: &str) {
    as_shell("bash", &[(name, Some(value))], text);
}

/// Runs a text by `weir run -q` and by this shell, with these variables: both do the same.
fn as_shell(shell: &str, variables: &[(&str, Option<&str>)], text: &str) {
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).arg(text).stdin(Stdio::null());
        for (name, value) in variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        bound(&child);
        let output = child.wait_with_output().expect("ends");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let named = ["run", "-q", "--shell", shell];
    let args = if shell == "bash" { &named[..2] } else { &named[..] };
    assert_eq!(run(WEIR, args), run(shell, &["-c"]), "{variables:?} {text}");
}

/// dash reads some of these as an error, others as two commands. They were cut as bash reads them, and
/// a part was run.
#[test]
fn a_text_means_what_its_shell_makes_of_it() {
    if !have(&["dash"]) {
        return;
    }
    for text in [
        "echo a |& cat",
        "cat <(echo b) | wc -l",
        "cat <<< b | wc -l",
        "echo a &> /dev/null | cat -n",
        "echo a &>> /dev/null | cat -n",
        "[[ a = a && b = b ]] | echo c",
        "echo a | tr a b",
    ] {
        as_shell("dash", &[], text);
    }
}

/// zsh sends the output of `echo a > f | cat` to the file and into the pipe, and reads both in
/// `| cat < f`. The stages were cut as bash reads them: what was to come through the pipe was lost.
#[test]
fn a_redirection_beside_a_pipe_is_what_zsh_makes_of_it() {
    if !have(&["zsh"]) {
        return;
    }
    for text in [
        "echo a > /dev/null | cat",
        "echo a | cat < /dev/null",
        "echo a >&1 | cat",
        "echo a | cat 2>&1 > /dev/null | wc -c",
        "echo $ZSH_SUBSHELL | cat",
        "echo a | tr a b",
    ] {
        as_shell("zsh", &[], text);
    }
}

/// What zsh reads before each text did not hold between stages.
#[test]
fn options_from_the_file_that_zsh_reads_hold() {
    if !have(&["zsh"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join(".zshenv"), "setopt pipefail\n").expect("written");
    let path = directory.path().to_str();
    as_shell("zsh", &[("ZDOTDIR", path)], "false | true");
    as_shell("zsh", &[("ZDOTDIR", None), ("HOME", path)], "false | true");
}

/// A program was not found, or another one, where a shell has a rule of its own for looking.
#[test]
fn programs_are_looked_for_as_a_shell_does() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("bin/uname");
    std::fs::create_dir(directory.path().join("bin")).expect("made");
    write_program(&program, "#!/bin/sh\necho mine\n");
    let home = ("HOME", directory.path().to_str());
    as_shell("bash", &[("PATH", Some("~/bin:/usr/bin:/bin")), home], "uname | cat");
    as_shell("bash", &[("PATH", Some("~/bin:/usr/bin:/bin")), home], "uname > /dev/null | cat");
    // It is beside the places that the C library knows.
    as_shell("bash", &[("PATH", None)], "ldconfig --version | head -c 8");
    as_shell("bash", &[("PATH", None)], "[[ a == a ]] && echo ${BASH_VERSION:+bash}");
}

/// Options that bash takes from the environment did not hold between stages.
#[test]
fn options_from_the_environment_hold() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("env");
    std::fs::write(&file, "set -o pipefail\n").expect("written");
    as_bash("SHELLOPTS", "pipefail", "false | true");
    as_bash("SHELLOPTS", "noexec", "echo a | cat");
    as_bash("BASH_ENV", &file.display().to_string(), "false | true");
    as_bash("BASH_ENV", "", "false | true");
}

/// A program that needs no shell was given a wrong `PWD`, and `..` failed as a file that cannot be
/// run.
#[test]
fn a_command_without_a_shell_has_the_directory_and_the_status_of_one() {
    as_bash("PWD", "/wrong", "printenv PWD");
    as_bash("PWD", "relative", "printenv PWD");
    as_bash("PWD", "/wrong", "printenv PWD | cat");
    as_bash("X", "1", "..");
}

/// A page that was asked for was not there, and nothing said why.
#[test]
fn a_page_of_nothing_is_reported_to_be_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("page.html");
    let ran = weir_run(&["--html", &file.display().to_string(), " # nothing"]);
    assert_eq!((ran.code(), file.exists()), (0, false));
    assert!(ran.stderr().contains("no page was written to"), "{}", ran.stderr());
}
