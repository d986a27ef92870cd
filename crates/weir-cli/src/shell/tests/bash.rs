//! Cut texts give the same bytes and the same status as bash gives for the whole text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use proptest::prelude::*;

use super::random::config;
use super::{plan_of, stages_of};
use crate::shell::{Direct, Pipeline, Plan, StageText, builtins, words};

/// Harmless texts, and the number of stages each must be cut into.
const TEXTS: &[(&str, usize)] = &[
    ("printf 'b\\na\\nb\\n' | sort | uniq -c", 3),
    ("seq 10 | tr '\\n' ' ' | sed 's/ $//'", 3),
    ("printf '%s\\n' 'a|b' \"c|d\" e\\|f | cat", 2),
    ("seq 3 | awk '{ print $1 * 2, \"|\" }'", 2),
    ("seq 3 | awk \"{ print \\$1, \\\"x\\\" }\"", 2),
    ("seq 5 | sed -n '$p;1p' | cat -n", 3),
    ("printf 'a b\\n' | while read -r x y; do echo \"$y $x\" | tr a-z A-Z; done", 2),
    ("for i in 1 2 3; do echo $i | cat; done | tac", 2),
    ("{ echo a; echo b | tr b c; } | cat -A", 2),
    ("(echo a; echo b >&2) |& sort", 2),
    ("{ echo out; echo err >&2; } 2>&1 | sort", 2),
    ("{ echo out; echo err >&2; } 2>/dev/null | cat", 2),
    ("cat /nonexistent/x |& sed 's/.*: //'", 2),
    ("echo one 2 |& cat", 2),
    ("echo a\\ |& cat -A", 2),
    ("case x in x|y) echo yes | tr y Y;; esac | cat", 2),
    ("[[ a == b || c == c ]] | cat", 2),
    ("if echo a | grep -q a; then echo t; else echo f; fi | cat", 2),
    ("echo $(echo a | tr a b) `echo c | tr c d` | cat", 2),
    ("echo \"$(printf '%s' 'x | y')\" | tr x z", 2),
    ("cat <(seq 3 | tac) <(echo '|') | nl", 2),
    ("seq 3 | tee >(cat >/dev/null) | wc -l", 3),
    ("echo $((6 | 1)) $((1 << 3)) | cat", 2),
    ("echo ${x:-a|b} ${#x} | cat", 2),
    ("cat <<< 'x | y' | rev", 2),
    ("LC_ALL=C x='a b' env | sed -n 's/^x=//p'", 2),
    ("x=1 y=2 awk 'BEGIN { print ENVIRON[\"x\"] ENVIRON[\"y\"] }' | cat", 2),
    ("x=5 | echo \"[$x]\"", 2),
    ("seq 100000 | head -n 2", 2),
    ("! seq 3 | grep -q 9", 2),
    ("! true | true", 2),
    ("seq 3 | grep -q 9", 2),
    ("seq 3 | exit 7", 2),
    ("exit 9 | cat", 2),
    ("seq 4 |\n # a | b\n tac | # c\n cat # d | e", 3),
    ("seq 4 \\\n | tac \\\n   -s '\n' | cat", 3),
    ("printf '\\303\\251 \u{2603}|\\n' | tr -d '|' | cat -A", 3),
    ("seq 3 >f.txt | cat; ", 2),
    ("seq 3 >|f.txt | cat", 2),
    ("<f0.txt sort -r | cat", 2),
    ("seq 3 &>/dev/null | wc -c", 2),
    ("! { seq 3 | grep 2; } | grep -q 2", 2),
    ("echo {a,b}{1..3} ~ | tr ' ' '\\n' | head -n 3", 3),
    ("echo *.txt | cat", 2),
    ("printf %s\\\\n a#b '#c' | cat # | tr a b", 2),
    ("nonexistent-command-of-weir 2>/dev/null", 1),
    ("seq 3 | sh -c 'read a; echo $$ >/dev/null; echo $a'", 2),
    ("f0=1 seq 2 | tr -d '\\n'\t|\tcat", 3),
    ("seq 3 2>/dev/null | LC_ALL=C sort -r 2>&1 >f.txt", 2),
    ("seq 3 | <f0.txt x=1 sort -r >&2", 2),
    ("x=7 sh -c 'echo $x' >f.txt", 1),
    ("cat /nonexistent 2>&1 | wc -l", 2),
    ("seq 3 | cat >/nonexistent/file", 2),
    ("cat </nonexistent", 1),
    ("echo a | (cat; exit 3)", 2),
    ("yes '|' | sed 3q | kill -l 15", 3),
];

/// A directory of its own for a test, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("weir-shell-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a scratch directory");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bash(text: &str) -> Command {
    let mut command = Command::new("bash");
    command.arg("-c").arg(text).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn stage_command(stage: &StageText) -> Command {
    let Some(Direct { env, argv }) = &stage.direct else {
        let replaced = stage.replaced.as_ref().map(|replaced| &replaced.shell_text);
        return bash(replaced.unwrap_or(&stage.shell_text));
    };
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn code(status: ExitStatus, negated: bool) -> i32 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    if negated { i32::from(code == 0) } else { code }
}

/// Runs the stages of a plan joined by pipes.
fn run_stages(pipeline: &Pipeline, scratch: &Scratch) -> (Vec<u8>, i32) {
    let mut children = Vec::new();
    let mut input = Stdio::null();
    for stage in &pipeline.stages {
        let mut command = stage_command(stage);
        command.current_dir(&scratch.0).stdin(input).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a stage starts");
        input = Stdio::null();
        if children.len() + 1 < pipeline.stages.len() {
            input = child.stdout.take().expect("a pipe").into();
        }
        children.push(child);
    }
    let last = children.pop().expect("a stage").wait_with_output().expect("the last stage ends");
    for mut child in children {
        child.wait().expect("a stage ends");
    }
    (last.stdout, code(last.status, pipeline.negated))
}

#[test]
fn stages_run_apart_do_what_the_text_does() {
    let scratch = Scratch::new("run");
    std::fs::write(scratch.0.join("f0.txt"), "a\nc\nb\n").expect("an input file");
    let mut direct = 0;
    for (text, count) in TEXTS {
        let Ok(Plan::Pipeline(pipeline)) = plan_of(text) else {
            panic!("{text:?} is not cut: {:?}", plan_of(text));
        };
        assert_eq!(pipeline.stages.len(), *count, "{text:?}");
        direct += pipeline.stages.iter().filter(|stage| stage.direct.is_some()).count();
        let whole = bash(text).current_dir(&scratch.0).output().expect("bash runs");
        let apart = run_stages(&pipeline, &scratch);
        assert_eq!(apart, (whole.stdout, code(whole.status, false)), "{text:?}");
    }
    assert!(direct > 40, "only {direct} stages were started with no shell");
}

/// The arguments bash makes of words.
fn bash_words(words: &str, scratch: &Scratch) -> Vec<Vec<u8>> {
    let mut command = bash(&format!("printf '%s\\0' {words}"));
    let output = command.current_dir(&scratch.0).output().expect("bash runs");
    let mut arguments: Vec<Vec<u8>> =
        output.stdout.split(|b| *b == 0).map(<[u8]>::to_vec).collect();
    arguments.pop();
    arguments
}

#[test]
fn literal_arguments_are_those_bash_makes() {
    let scratch = Scratch::new("arguments");
    for (text, _) in TEXTS {
        for stage in stages_of(text) {
            let Some(direct) = stage.direct.filter(|direct| direct.env.is_empty()) else {
                continue;
            };
            let argv: Vec<Vec<u8>> = direct.argv.iter().map(|a| a.clone().into_bytes()).collect();
            assert_eq!(argv, bash_words(&stage.source, &scratch), "{:?}", stage.source);
        }
    }
}

/// Words of the characters that quote, and of those that expand.
fn word() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-c0-9]",
        2 => "[-_./:=@%+^!#~,{}\\]]",
        1 => Just("{}".to_owned()),
        1 => "[$`*?&;|<>()]",
        3 => "'[a \\n\\t\"$`\\\\*~{},]{0,4}'",
        3 => "\"([a '*~{},!\\n]|\\\\[$`\"\\\\\\na ])?([a '*~{},!]|\\\\[$`\"\\\\\\na]){0,3}\"",
        2 => "\\\\[a '\"$`\\\\*?~{},#\\n\u{e9}]",
        1 => "[\u{e9}\u{2603}\u{a0}]",
    ];
    prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn literal_words_are_read_as_bash_reads_them(candidates in prop::collection::vec(word(), 120)) {
        let scratch = Scratch::new("words");
        let literal: Vec<&String> = candidates
            .iter()
            .filter(|word| words::direct(&format!("x {word}"), &|_| false).is_some())
            .collect();
        let source = literal.iter().map(|w| w.as_str()).collect::<Vec<_>>().join(" ");
        let direct = words::direct(&format!("x {source}"), &|_| false).expect("each of them is");
        let argv: Vec<Vec<u8>> = direct.argv[1..].iter().map(|a| a.clone().into_bytes()).collect();
        prop_assert_eq!(argv, bash_words(&source, &scratch), "{}", source);
    }

    #[test]
    fn literal_values_are_read_as_bash_reads_them(candidates in prop::collection::vec(word(), 40)) {
        let scratch = Scratch::new("values");
        let mut script = String::new();
        let mut expected = Vec::new();
        for value in candidates {
            let source = format!("x={value} sort");
            let Some(direct) = words::direct(&source, &|_| false) else {
                continue;
            };
            // Unquoted blanks in the value would have split it into other words.
            if direct.argv.len() == 1 && direct.env.len() == 1 {
                script.push_str(&format!("unset x; x={value} eval 'printf \"%s\\0\" \"$x\"'\n"));
                expected.extend_from_slice(direct.env[0].1.as_bytes());
                expected.push(0);
            }
        }
        let output = bash(&script).current_dir(&scratch.0).output().expect("bash runs");
        prop_assert_eq!(OsStr::from_bytes(&output.stdout), OsStr::from_bytes(&expected));
    }
}

#[test]
fn every_builtin_and_keyword_of_bash_is_known() {
    let output = bash("compgen -b; compgen -k").output().expect("bash runs");
    let words = String::from_utf8(output.stdout).expect("names");
    let missing: Vec<&str> = words.lines().filter(|word| !builtins::is_shell_word(word)).collect();
    assert_eq!(missing, Vec::<&str>::new());
    assert!(words.lines().count() > 50);
}
