//! Random texts: none may panic, and bash must read those made of pieces of shell as they are cut.
//! bash runs nothing: it reads with `-n`, or defines a function and prints it back in its own layout.

use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{bash_takes, plan_of};
use crate::shell::{Pipeline, Plan, PlanError, StageText};

const PIECES: [&str; 74] = [
    "a",
    "b",
    "cat",
    "x=1",
    "-n",
    "2",
    " ",
    " ",
    " ",
    " ",
    " | ",
    " | ",
    " | ",
    "|",
    " |& ",
    "||",
    "&&",
    ";",
    "; ",
    "\n",
    "&",
    "'",
    "\"",
    "'a|b'",
    "\"a|b\"",
    "\\",
    "\\\n",
    "\\|",
    "$(",
    ")",
    "(",
    "`",
    "$((",
    "))",
    "((",
    "<(",
    ">(",
    "{ ",
    "; }",
    "}",
    "${x",
    "${x:-",
    "$x",
    "$'",
    " > f",
    " 2>&1",
    ">|f",
    " <<< x",
    "&>f",
    " # c",
    "#",
    "! ",
    "time ",
    "if ",
    "; then ",
    "; fi",
    "else ",
    "while ",
    "; do ",
    "; done",
    "for i in ",
    "case x in ",
    "a) ",
    ";; ",
    "esac",
    "[[ ",
    " ]]",
    "=(",
    "f() ",
    "function g ",
    "\u{e9}",
    "\t",
    "a[",
    "]",
];

/// Texts in which nothing nests: bash is asked about few of them before they are cut.
fn plain_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "a|cat|x=1|x\\+=|-n|2|0123456789|\\$x|\\$1|\\$\\{x\\}|\u{e9}|[\\[\\]{}=~$!\\\\]|#( c)?",
        4 => "  ?|\t|\n",
        3 => " \\| |\\|| \\|& ",
        2 => "'a\\|b'|\"a\\|\\$x\"|\\$'a\\\\'\\|b'|\\$\"\\|\"|\\\\\\||\\\\\n|'|\"",
        2 => "[<>]|>>|>\\||<>|[<>]&|&>>?|<<<| > f| 2>&1",
        // Behind another word they have no meaning of their own.
        1 => " (!|time|if|then|in|do|case|\\[\\[|\\]\\]|\\{|\\}|coproc|declare|eval) ",
    ];
    prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14)
        .prop_map(|pieces| pieces.concat())
}

/// A text made to be right more often than not: stages, joined.
fn likely_text() -> impl Strategy<Value = String> {
    let stage = prop_oneof![
        3 => "(x=1 |2>&1 |< f )?(cat|sort)( -n| \\$x| 'a')?( ?(2>&1|> ?f|>> f|< f|<<< x|&> f))+",
        4 => "(a|cat -n|x=1 b)( 'x\\|y'| \"\\$\\(a \\| b\\)\"| \\\\\\\\\\|| \\$x| `a\\|b`){0,2}",
        1 => "\\( ?a ?(\\| ?b)? ?\\)",
        1 => "\\{ a( \\| b)?(;|\n) \\}( >f)?",
        1 => "(while|until) a \\| b; do c(;|\n)done",
        1 => "if a; then b \\| c; (else d; )?fi( 2>&1)?",
        1 => "for i in a b; do c \\| d; done",
        1 => "case x in \\(?a\\|b\\) c \\| d;; esac",
        1 => "\\[\\[ a (\\|\\|) b \\]\\]",
        1 => "\\(\\( 1 \\| 2 \\)\\)",
        1 => "a <\\(b \\| c\\)( >f)?",
    ];
    let join = prop_oneof![
        6 => " ?\\| ?",
        1 => " \\|& ",
        2 => " \\|( # c \\| d)?\n ?",
        1 => " \\\\\n\\| ",
        1 => Just("\u{e9} | ".to_owned()),
    ];
    let rest = prop::collection::vec((join, stage.clone()), 0..4);
    ("(! )?", stage, rest, "( ?# e| ?;|\n)?").prop_map(|(bang, first, rest, end)| {
        let rest: String = rest.into_iter().map(|(join, stage)| join + &stage).collect();
        bang + &first + &rest + &end
    })
}

/// How bash prints each of these texts back, as the body of a function.
fn printed(texts: &[&str]) -> Vec<String> {
    let mut script = String::from("PATH=/nonexistent\n");
    for text in texts {
        script.push_str(&format!("f() {{\n{text}\n}}\ndeclare -f f; echo ----\n"));
    }
    let mut command = Command::new("bash");
    command.args(["-c", &script]).stdin(Stdio::null());
    let output = String::from_utf8(command.output().expect("bash runs").stdout).expect("UTF-8");
    output
        .split_terminator("----\n")
        .map(|function| {
            let body = function.trim_start_matches("f () \n{ \n    ");
            body.strip_suffix("\n}\n").unwrap_or(body).to_owned()
        })
        .collect()
}

/// Checks a plan against bash. The text is known to be right, so the function it is put in
/// cannot be closed early and nothing runs.
fn check_cut(text: &str, pipeline: &Pipeline) -> Result<(), TestCaseError> {
    prop_assert!(bash_takes(text), "bash refuses {:?}", text);
    for stage in &pipeline.stages {
        prop_assert!(bash_takes(&stage.shell_text), "bash refuses the stage {:?}", stage);
    }
    let mut texts = vec![text];
    texts.extend(pipeline.stages.iter().map(|StageText { shell_text, .. }| shell_text.as_str()));
    let replaced = pipeline.stages.iter().filter_map(|stage| stage.replaced.as_ref());
    for replaced in replaced {
        let [plain, with] = [&replaced.shell_text.replacen("exec ", "", 1), &replaced.shell_text];
        let [plain, with] = printed(&[plain, with]).try_into().unwrap_or_default();
        // bash reads the same command, with one word before its name.
        prop_assert_eq!(with.replacen("exec ", "", 1), plain, "{:?}", replaced);
        prop_assert!(with.contains(&format!("exec {}", replaced.program)), "{}", with);
    }
    let bodies = printed(&texts);
    let inverted = if pipeline.negated { "! " } else { "" };
    prop_assert_eq!(&bodies[0], &format!("{inverted}{}", bodies[1..].join(" | ")), "{:?}", text);
    Ok(())
}

fn check(text: &str) -> Result<bool, TestCaseError> {
    match plan_of(text) {
        Ok(Plan::Pipeline(pipeline)) => {
            check_cut(text, &pipeline)?;
            return Ok(true);
        }
        Err(PlanError::Syntax(error)) => {
            prop_assert!(error.column <= error.source_line.chars().count() + 1);
        }
        Ok(Plan::Whole) | Err(PlanError::Empty) => {}
    }
    Ok(false)
}

/// The same cases each time, so that no change elsewhere fails for a corner of bash found by
/// chance. `PROPTEST_CASES=50000 cargo test --release -p weir-cli random` goes looking for more.
pub(super) fn config(cases: u32) -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
        config.rng_seed = RngSeed::Fixed(1976);
    }
    config
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn no_text_panics(text in "\\PC*|[ -~\n\t]*|[|&;<>(){}$`'\"\\\\#! \n\u{e9}a0\\[\\]=]*") {
        let _ = plan_of(&text);
    }

    #[test]
    fn pieces_of_shell_are_judged_as_bash_judges_them(text in text()) {
        check(&text)?;
    }

    #[test]
    fn plain_texts_are_cut_as_bash_cuts_them(text in plain_text()) {
        check(&text)?;
    }

    #[test]
    fn pipelines_are_cut_as_bash_cuts_them(text in likely_text()) {
        check(&text)?;
    }
}
