//! Tables of texts with the cut, the arguments or the fault expected of each. Their treatment
//! by bash is checked in tests/bash.rs, random texts in tests/random.rs, and
//! long ones in tests/limits.rs.

mod bash;
mod limits;
mod random;

use super::builtins::{SHELL_VARIABLES, SHELL_WORDS};
use super::*;
use std::process::{Command, Stdio};

/// The plan of a text under bash, which is asked as a run asks it.
pub(super) fn plan_of(text: &str) -> Result<Plan, PlanError> {
    match plan(text, &|_| false) {
        Ok(Plan::Pipeline(cut)) if !cut.doubts.iter().all(|doubt| bash_takes(doubt)) => {
            Ok(Plan::Whole)
        }
        Err(PlanError::Syntax(_)) if bash_takes(text) => Ok(Plan::Whole),
        plan => plan,
    }
}

/// bash 5.2 exits with 0 after some errors in `[[`, but never without a message.
pub(super) fn bash_takes(text: &str) -> bool {
    let mut command = Command::new("bash");
    let output = command.args(["-n", "-c", "--", text]).stdin(Stdio::null()).output();
    let output = output.expect("bash runs");
    output.status.success() && output.stderr.is_empty()
}

pub(super) fn stages_of(text: &str) -> Vec<StageText> {
    match plan_of(text) {
        Ok(Plan::Pipeline(pipeline)) => pipeline.stages,
        other => panic!("{text:?} is not cut but {other:?}"),
    }
}

fn argv_of(text: &str) -> Option<Vec<String>> {
    stages_of(text).swap_remove(0).direct.map(|direct| direct.argv)
}

/// Texts, and the stages they are cut into.
const CUT: &[(&str, &[&str])] = &[
    ("sort", &["sort"]),
    ("  sort -k2  ", &["sort -k2"]),
    ("a | b", &["a", "b"]),
    ("a|b|c", &["a", "b", "c"]),
    ("a\t|\tb", &["a", "b"]),
    ("a |& b", &["a", "b"]),
    ("a | b;", &["a", "b"]),
    ("a | b\n", &["a", "b"]),
    ("\n\na | b", &["a", "b"]),
    ("# why\na | b", &["a", "b"]),
    ("a |\n  b", &["a", "b"]),
    ("a |\n\n# note | x\n b", &["a", "b"]),
    ("a | # note | x\n b", &["a", "b"]),
    ("a |# note\nb", &["a", "b"]),
    ("a | b # c | d", &["a", "b"]),
    ("a | b#c", &["a", "b#c"]),
    ("a \\\n| b", &["a", "b"]),
    ("a | \\\n  b", &["a", "b"]),
    ("a \\\n  -x | b", &["a \\\n  -x", "b"]),
    ("grep 'a|b' | c", &["grep 'a|b'", "c"]),
    ("grep \"a|b\" | c", &["grep \"a|b\"", "c"]),
    ("grep $'a\\'|b' | c", &["grep $'a\\'|b'", "c"]),
    ("grep \"a\\\"|b\" | c", &["grep \"a\\\"|b\"", "c"]),
    ("grep a\\|b | c", &["grep a\\|b", "c"]),
    ("grep a\\ | c", &["grep a\\ ", "c"]),
    ("grep '#' | c", &["grep '#'", "c"]),
    ("a $(b | c) | d", &["a $(b | c)", "d"]),
    ("a \"$(b | c \"x|y\")\" | d", &["a \"$(b | c \"x|y\")\"", "d"]),
    ("a `b | c` | d", &["a `b | c`", "d"]),
    ("a $((1 | 2)) | d", &["a $((1 | 2))", "d"]),
    ("a $((1 << 2)) | d", &["a $((1 << 2))", "d"]),
    ("a ${x:-a|b} | d", &["a ${x:-a|b}", "d"]),
    ("a ${x#\\}|} | d", &["a ${x#\\}|}", "d"]),
    ("a ${#x} $# | d", &["a ${#x} $#", "d"]),
    ("diff <(a | b) <(c | d) | e", &["diff <(a | b) <(c | d)", "e"]),
    ("tee >(a | b) | c", &["tee >(a | b)", "c"]),
    ("a > >(b | c) | d", &["a > >(b | c)", "d"]),
    ("a 99999999999999999999>(b) | c", &["a 99999999999999999999>(b)", "c"]),
    ("(a | b) | c", &["(a | b)", "c"]),
    ("(a)|(b)", &["(a)", "(b)"]),
    ("{ a | b; } | c", &["{ a | b; }", "c"]),
    ("{ a; b; } 2>/dev/null | c", &["{ a; b; } 2>/dev/null", "c"]),
    ("(a; b) >&2 | c", &["(a; b) >&2", "c"]),
    ("[[ a || b ]] | c", &["[[ a || b ]]", "c"]),
    ("[[ a =~ (x|y) ]] | c", &["[[ a =~ (x|y) ]]", "c"]),
    ("(( 1 | 2 )) | c", &["(( 1 | 2 ))", "c"]),
    ("x=(1 2) | c", &["x=(1 2)", "c"]),
    ("a >| f | b", &["a >| f", "b"]),
    ("a 2>&1 | b", &["a 2>&1", "b"]),
    ("a &>f | b", &["a &>f", "b"]),
    ("<f a | b >g", &["<f a", "b >g"]),
    ("a <<< 'x | y' | b", &["a <<< 'x | y'", "b"]),
    ("a[1]=2 b | ls c[[:digit:]] | ls d[1", &["a[1]=2 b", "ls c[[:digit:]]", "ls d[1"]),
    ("x=1 a | y=2 b", &["x=1 a", "y=2 b"]),
    ("caf\u{e9} '\u{2603}|' | \u{1f980} x", &["caf\u{e9} '\u{2603}|'", "\u{1f980} x"]),
    ("for f in *; do a | b; done | c", &["for f in *; do a | b; done", "c"]),
    ("for ((i=0; i<3; i++)); do a; done | c", &["for ((i=0; i<3; i++)); do a; done", "c"]),
    (
        "a | while read -r x; do b \"$x\" | c; done",
        &["a", "while read -r x; do b \"$x\" | c; done"],
    ),
    ("if a | b; then c; else d; fi | e", &["if a | b; then c; else d; fi", "e"]),
    ("case x in a|b) c | d;; *) e;; esac | f", &["case x in a|b) c | d;; *) e;; esac", "f"]),
    ("case x in (a|b) c;; esac | f", &["case x in (a|b) c;; esac", "f"]),
    ("a $(case x in (a) b;; esac) | f", &["a $(case x in (a) b;; esac)", "f"]),
    ("a $(case x in a) b;; esac) | f", &["a $(case x in a) b;; esac)", "f"]),
    ("until a; do b; done | c", &["until a; do b; done", "c"]),
    ("{ f() { a | b; }; f; } | c", &["{ f() { a | b; }; f; }", "c"]),
    ("perl -ne 'print $_ if $$' | c", &["perl -ne 'print $_ if $$'", "c"]),
    ("sed '$!d' | sed -n '$p'", &["sed '$!d'", "sed -n '$p'"]),
    ("echo for | cat if", &["echo for", "cat if"]),
    ("echo } | cat", &["echo }", "cat"]),
    ("echo $$", &["echo $$"]),
];

#[test]
fn stages_are_cut_where_a_person_would() {
    for (text, expected) in CUT {
        let sources: Vec<String> = stages_of(text).into_iter().map(|stage| stage.source).collect();
        assert_eq!(sources, *expected, "{text:?}");
    }
}

/// Texts that are run whole.
const WHOLE: &[&str] = &[
    "a && b",
    "a || b",
    "a | b && c",
    "a; b",
    "a &",
    "a | b &",
    "a & b",
    "a\nb",
    "f() { a | b; }",
    "f() { a; } | b",
    "function f { a; }",
    "cat <<E\nx | y\nE",
    "cat <<E | b\nx\nE",
    "cat <<-'E' | b\n\tx\n\tE\n",
    "a $(cat <<E\nx\nE\n) | b",
    "a `cat <<E\nx\nE\n` | b",
    "time a | b",
    "time -p a | b",
    "! time a | b",
    "time",
    "!",
    "a | time b",
    "coproc a | b",
    "coproc a",
    "for f in *; do a | b; done",
    "{ a | b; }",
    "( a | b )",
    "(a)",
    "((1|2))",
    "[[ a ]]",
    "[[ ]] | a",
    "while a; do b | c; done",
    "case x in a|b) c;; esac",
    "if a; then b | c; fi",
    "echo $$ | a",
    "echo \"${PPID}\" | a",
    "echo $((PPID)) | a",
    "echo $BASHPID | a",
    "echo $! | a",
    "a | echo $?",
    "echo \"$-\" | a",
    "a | echo $_",
    "a | echo ${_} ",
    "a | echo ${_%x}",
    "a | echo `echo $$`",
    "a | echo ${PIPESTATUS[0]}",
    "eval 'echo $$' | a",
    "echo $LINENO | a",
    "a | |\\\n| b",
    "a $[1|2] | b",
    "((a); (b)) | c",
    "echo \"${x:-'}'}\" | a",
    "{ a; } 99999999999999999999>b | c",
    "a 99999999999999999999>b | c",
    // To bash this is one word, with a subscript.
    "a[1 | 2]=3 | c",
    "x=1 a['|']=3 | c",
    "declare a[1 | 2]=3 | c",
    "a=([1 | 2]=3) | c",
    "a[[ | b",
    "2>f a[ | b",
    "a\\\nb[ | c",
    "<((a)) | b",
    // bash refuses them, and says so itself.
    "a | [[ b c ]]",
    "> f &>> x=1 | b",
    "x=1 a=(b) c | d e=(f)",
    "echo a\\",
];

#[test]
fn anything_else_is_left_whole() {
    for text in WHOLE {
        assert_eq!(plan_of(text), Ok(Plan::Whole), "{text:?}");
    }
}

#[test]
fn the_shell_is_asked_only_where_a_reading_leaves_doubt() {
    let table: &[(&str, &[&str])] = &[
        ("LC_ALL=C sort -k2 'a|b' \"$x\" <f 2>&1 | uniq $y ${z} | wc # $(a)", &[]),
        ("a '$(b)' \\`c | [ d ] |& find . ! -name $'e' <<< f", &[]),
        ("! a | b", &["! a | b"]),
        ("a | (b; c) |& d; ", &["a | (b; c) |& d; ", "(b; c) 2>&1"]),
        ("a $(b) | c", &["a $(b) | c", "a $(b)"]),
        ("a | [[ b ]]", &["a | [[ b ]]", "[[ b ]]"]),
        ("a[1]=2 b | c", &["a[1]=2 b | c", "a[1]=2 b"]),
        ("x=(1) | x=(1)", &["x=(1) | x=(1)", "x=(1)"]),
        ("a `b`", &["a `b`"]),
        ("a \"${b#c}\"", &["a \"${b#c}\""]),
        ("a $((1))", &["a $((1))"]),
        ("a >(b)", &["a >(b)"]),
    ];
    for (text, doubts) in table {
        let Ok(Plan::Pipeline(cut)) = plan(text, &|_| false) else {
            panic!("{text:?} is not cut");
        };
        assert_eq!(cut.doubts, *doubts, "{text:?}");
    }
}

#[test]
fn a_bang_is_not_part_of_the_first_stage() {
    for (text, negated) in [("! a | b", true), ("! ! a | b", false), ("!\ta|b", true)] {
        let Ok(Plan::Pipeline(pipeline)) = plan_of(text) else {
            panic!("{text:?} is not cut");
        };
        assert_eq!(pipeline.negated, negated);
        assert_eq!(pipeline.stages[0].source, "a");
    }
}

#[test]
fn standard_error_goes_along_where_it_was_asked_for() {
    let table = [
        ("a |& b", "a 2>&1"),
        ("a 2 |& b", "a 2 2>&1"),
        ("a \\\n |& b", "a 2>&1"),
        ("a\\ |& b", "a\\  2>&1"),
        ("(a # x\n) |& b", "(a # x\n) 2>&1"),
        ("{ a; } >f |& b", "{ a; } >f 2>&1"),
        ("a |& # x\n b", "a 2>&1"),
        ("a | b", "a"),
    ];
    for (text, expected) in table {
        let stages = stages_of(text);
        assert_eq!(stages[0].shell_text, expected, "{text:?}");
        assert_eq!(stages[1].shell_text, "b");
        assert!(stages[0].direct.is_none() || text == "a | b", "{text:?}");
    }
}

#[test]
fn literal_words_need_no_shell() {
    let table: &[(&str, &[&str])] = &[
        ("sort -k2,3 -t:", &["sort", "-k2,3", "-t:"]),
        ("grep -E 'a|b*' f.txt", &["grep", "-E", "a|b*", "f.txt"]),
        ("tr \"a-z \" 'A-Z'\\ x", &["tr", "a-z ", "A-Z x"]),
        (r#"awk "{print \$1, \"x\", \\ \n}""#, &["awk", r#"{print $1, "x", \ \n}"#]),
        ("xargs -I {} cp {} x{}y", &["xargs", "-I", "{}", "cp", "{}", "x{}y"]),
        ("find . ! -name a", &["find", ".", "!", "-name", "a"]),
        ("grep ''", &["grep", ""]),
        ("grep 'a\nb'", &["grep", "a\nb"]),
        ("grep a\\\nb \\\n c", &["grep", "ab", "c"]),
        ("dd if=/dev/zero bs=1k", &["dd", "if=/dev/zero", "bs=1k"]),
        ("'so'rt a#b a~ \u{e9}\u{2603}", &["sort", "a#b", "a~", "\u{e9}\u{2603}"]),
        ("\\sort", &["sort"]),
        ("./run \"it's\" # said", &["./run", "it's"]),
        ("git show HEAD^ HEAD@ %x a+b", &["git", "show", "HEAD^", "HEAD@", "%x", "a+b"]),
        ("a \u{e9}\\\u{2603}", &["a", "\u{e9}\u{2603}"]),
    ];
    for (text, expected) in table {
        assert_eq!(argv_of(text).expect(text), *expected);
    }
}

#[test]
fn what_a_shell_would_change_needs_one() {
    let table = [
        "echo a",
        "printf x",
        "test -f x",
        "[ -f x ]",
        "true",
        "kill 1",
        ". f",
        ": x",
        "pwd",
        "''",
        "\"\" a",
        "a $x",
        "a \"$x\"",
        "a `b`",
        "a *",
        "a x?",
        "a [a-z]",
        "a ~",
        "a ~/b",
        "a x=~/b",
        "a x:~/b",
        "a {b,c}",
        "a {1..3}",
        "a {},{}",
        "a >f",
        "a 2>&1",
        "a <f",
        "a <<<b",
        "x=1",
        "x=1 y=2",
        "PATH=/b a",
        "IFS=: a",
        "BASH_ENV=f a",
        "POSIXLY_CORRECT=1 a",
        "a+=b c",
        "a[1]=b c",
        "a=(b) c",
        "x=~/y a",
        "x=$y a",
        "a $'b'",
        "a $\"b\"",
        "%1",
        "a <(b)",
        "\\if",
        "LC_ALL=xx_YY.UTF-8 sort",
        "PPID=3 a",
        "_=3 a",
        "'echo' x",
        "a =b",
        "a '\u{1}'",
        "a \u{a0}x",
    ];
    for text in table {
        assert_eq!(argv_of(text), None, "{text:?}");
    }
    let exported = |name: &str| name == "sort";
    let Ok(Plan::Pipeline(pipeline)) = plan("sort | uniq", &exported) else {
        panic!("not cut");
    };
    assert_eq!(pipeline.stages[0].direct, None);
    assert!(pipeline.stages[1].direct.is_some());
}

#[test]
fn assignments_before_a_command_become_its_environment() {
    let text = "LC_ALL=C x= y='a b' LD_PRELOAD=l.so sort z=1";
    let direct = stages_of(text).swap_remove(0).direct.expect("direct");
    let env: Vec<(&str, &str)> =
        direct.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("LC_ALL", "C"), ("x", ""), ("y", "a b"), ("LD_PRELOAD", "l.so")]);
    assert_eq!(direct.argv, ["sort", "z=1"]);
    let command = stages_of("\"x\"=1 y=2").swap_remove(0).direct.expect("direct");
    assert_eq!(command.argv, ["x=1", "y=2"]);
}

#[test]
fn nothing_is_empty() {
    for text in ["", " ", "\n\t\n", "# a | b", "\\\n", "  # x\n\n# y"] {
        assert_eq!(plan_of(text), Err(PlanError::Empty), "{text:?}");
    }
}

#[test]
fn a_fault_is_named_and_pointed_at() {
    let table = [
        ("sort | | uniq", 8, "nothing between '|' and '|'"),
        ("| sort", 1, "nothing before '|'"),
        ("  |& sort", 3, "nothing before '|&'"),
        ("sort |", 6, "nothing after '|'"),
        ("sort | # uniq", 6, "nothing after '|'"),
        ("grep 'abc | wc", 6, "unterminated single quote"),
        ("grep \"abc | wc", 6, "unterminated double quote"),
        ("grep $'abc | wc", 6, "unterminated $' quote"),
        ("caf\u{e9} \u{2603} 'x | wc", 8, "unterminated single quote"),
        ("(cat | wc", 1, "'(' is never closed"),
        ("{ cat | wc; ", 1, "'{' is never closed"),
        ("cat ) | wc", 5, "unexpected ')'"),
        ("cat | wc )", 10, "unexpected ')'"),
        ("if true | cat", 1, "'if' without 'then'"),
        ("a | if b; then c", 5, "'if' without 'fi'"),
        ("while a; do b | c", 1, "'while' without 'done'"),
        ("for x in a b", 1, "'for' without 'do'"),
        ("case x in a) b | c", 1, "'case' without 'esac'"),
        ("case x | c", 8, "unexpected '|'"),
        ("[[ a | b", 1, "'[[' is never closed"),
        ("cat | done", 7, "unexpected 'done'"),
        ("cat | ! b", 7, "unexpected '!'"),
        ("a && | b", 6, "nothing between '&&' and '|'"),
        ("a &&", 3, "nothing after '&&'"),
        ("a ; ; b", 5, "nothing before ';'"),
        ("echo `date | cat", 6, "unterminated backquote"),
        ("echo $(date | cat", 6, "'$(' is never closed"),
        ("echo \"$(date | cat\"", 19, "unterminated double quote"),
        ("echo ${x | cat", 6, "'${' is never closed"),
        ("echo $((1 + 2 | cat", 6, "'$((' is never closed"),
        ("diff <(a | b", 6, "'<(' is never closed"),
        ("a > | b", 5, "nothing between '>' and '|'"),
        ("a >", 3, "nothing after '>'"),
        ("a > 2>&1 | b", 5, "nothing between '>' and '2'"),
        ("a | in", 5, "unexpected 'in'"),
        ("(a) b | c", 5, "unexpected 'b'"),
        ("() | c", 2, "unexpected ')'"),
        ("a b(c) | d", 4, "unexpected '('"),
        ("ls @(a|b) | c", 5, "unexpected '('"),
    ];
    for (text, column, message) in table {
        let Err(PlanError::Syntax(error)) = plan_of(text) else {
            panic!("{text:?} is taken: {:?}", plan_of(text));
        };
        assert_eq!((error.column, error.message.as_str()), (column, message), "{text:?}");
        assert_eq!((error.line, error.source_line.as_str()), (1, text));
    }
}

#[test]
fn a_fault_is_shown_with_its_line_and_a_caret() {
    let error = plan_of("a |\n\tgrep '\u{e9}' | 'x\n| b").expect_err("a fault");
    let expected = "unterminated single quote\n  \tgrep '\u{e9}' | 'x\n  \t           ^";
    assert_eq!(error.to_string(), expected);
    let PlanError::Syntax(error) = error else { panic!("not a fault") };
    assert_eq!((error.line, error.column), (2, 13));
}

#[test]
fn the_lists_are_sorted() {
    assert!(
        [SHELL_WORDS, SHELL_VARIABLES].iter().all(|words| words.split_whitespace().is_sorted())
    );
}
