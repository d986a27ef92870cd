//! Scripts written down by hand, and the lines of what was executed.

use super::lines::{Piece, ScriptCommand, ScriptPipeline, line_of, only_of};
use super::tests::{classed, looped, process, reads, writes};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// `*` stands for what only the shell knew, and `{}` for a loop or a function.
fn simple(text: &str) -> ScriptCommand {
    if text == "{}" {
        return ScriptCommand::Compound;
    }
    let mut pieces = Vec::new();
    for (at, part) in text.split('*').enumerate() {
        if at > 0 {
            pieces.push(Piece::Any);
        }
        if !part.is_empty() {
            pieces.push(Piece::Text(part.to_string()));
        }
    }
    ScriptCommand::Simple(pieces)
}

fn line(line: usize, commands: &[&str]) -> ScriptPipeline {
    ScriptPipeline { line, commands: commands.iter().map(|text| simple(text)).collect() }
}

#[test]
fn a_line_is_told_only_where_one_alone_fits() {
    let script = [
        line(2, &["cut -f1 *", "sort"]),
        line(5, &["cut -f2 *", "sort"]),
        line(7, &["sort"]),
        line(9, &["./clean.sh *", "wc -l"]),
    ];
    assert_eq!(line_of(&script, &["cut -f2 a b", "sort"], false), Some(1));
    assert_eq!(line_of(&script, &["cut -f2 a b"], false), Some(1));
    assert_eq!(line_of(&script, &["sort"], false), Some(2), "the complete one before a part");
    assert_eq!(line_of(&script, &["/bin/sh ./clean.sh a", "wc -l"], false), Some(3));
    assert_eq!(line_of(&script, &["/usr/bin/sort"], false), Some(2));
    assert_eq!(line_of(&script, &["uniq"], false), None);
    let twice = [line(2, &["sort *"]), line(3, &["sort *"])];
    assert_eq!(line_of(&twice, &["sort a"], false), None);
    // Another command on the same file is none that runs the file.
    let same = [line(2, &["head -c 9 data.txt", "tail"]), line(3, &["sort data.txt"])];
    assert_eq!(line_of(&same, &["sort data.txt"], false), Some(1));
    let runs = [line(2, &["nice x.sh"]), line(3, &["bash x.sh"])];
    assert_eq!(line_of(&runs, &["bash x.sh"], false), None);
    let odd = [line(1, &["* a"])];
    assert_eq!(line_of(&odd, &["sort a"], false), None, "a command that nobody knows");
    // The lines tell apart what otherwise looks like one loop.
    let seen = looped();
    let apart =
        classed(&seen, &[line(1, &["cut -f1 f7*", "sort"]), line(2, &["cut -f1 *2*", "sort"])]);
    assert!(apart.len() > 1, "{apart:?}");
}

#[test]
fn an_expansion_fits_anything_but_what_stands_around_it_stays() {
    let fits =
        |pattern: &str, text: &str| line_of(&[line(1, &[pattern])], &[text], false).is_some();
    assert!(fits("cut -d, -f1 *.csv", "cut -d, -f1 /tmp/a b.csv"));
    assert!(!fits("cut -d, -f1 *.csv", "cut -d, -f1 a.txt"));
    assert!(fits("gzip * a * b", "gzip -9 a x b"));
    assert!(!fits("gzip *", "bzip2 x"));
    assert!(fits("sort *", "sort "));
}

/// `if false; then gzip -c in.csv | wc -c; fi`, and what runs instead: the line that never ran was
/// named.
#[test]
fn a_line_is_not_told_where_another_construct_may_have_run_it() {
    let found = |others: &[&[&str]], executed: &[&str]| {
        let mut script =
            Vec::from([line(2, &["gzip -c in.csv", "wc -c"]), line(3, &["sleep 0.4"])]);
        script.extend(others.iter().map(|commands| line(4, commands)));
        line_of(&script, executed, false)
    };
    let pipeline = ["gzip -c in.csv", "wc -c"];
    assert_eq!(found(&[], &pipeline), Some(0));
    for other in ["*", "* -c in.csv", "nice -n 5 gzip -c in.csv", "env A=1 gzip -c *", "nice *"] {
        assert_eq!(found(&[&[other, "wc -c"]], &pipeline), None, "{other}");
    }
    // A function or a loop in a pipeline, where its commands stand elsewhere.
    assert_eq!(found(&[&["gzip -c in.csv"], &["{}", "wc -c"]], &pipeline), None);
    assert_eq!(found(&[&["{}", "wc -c"]], &pipeline), Some(0), "gzip stands in one line only");
    for other in ["*", "setsid sleep 0.4", "* sleep 0.4", "exec $ sleep 0.4", "env *"] {
        assert_eq!(found(&[&[other]], &["sleep 0.4"]), None, "{other}");
    }
    for other in ["gzip *", "* -c", "bash *", "nice gzip *", "echo *", "sleep 0.5"] {
        assert_eq!(found(&[&[other]], &["sleep 0.4"]), Some(1), "{other}");
    }
    assert_eq!(found(&[&["timeout 5 sleep 0.4"]], &["timeout 5 sleep 0.4"]), Some(2));
}

/// `echo x | gzip -c` shows gzip alone, since the shell echoes: a line with gzip alone was named.
#[test]
fn what_the_shell_does_itself_is_not_missing_from_a_pipeline() {
    let piped = ScriptPipeline {
        line: 4,
        commands: Vec::from([ScriptCommand::Builtin, simple("gzip -c")]),
    };
    assert_eq!(line_of(core::slice::from_ref(&piped), &["gzip -c"], false), Some(0));
    assert_eq!(line_of(&[line(2, &["gzip -c"]), piped], &["gzip -c"], false), None);
    // Nor is it known to be alone where a pipe leads to what was not seen.
    let script = [line(2, &["gzip -c"]), line(3, &["gzip -c", "wc -c"])];
    assert_eq!(line_of(&script, &["gzip -c"], false), Some(0));
    assert_eq!(line_of(&script, &["gzip -c"], true), None);
}

#[test]
fn a_text_that_was_not_read_is_a_rival_where_it_names_the_program() {
    let found = |other: ScriptCommand| {
        let other = ScriptPipeline { line: 1, commands: Vec::from([other]) };
        line_of(&[line(2, &["gzip -c *", "wc -c"]), other], &["gzip -c a", "wc -c"], false)
    };
    assert_eq!(found(ScriptCommand::Unread(String::from("x=`gzip -c a | wc -c`"))), None);
    assert_eq!(found(ScriptCommand::Unread(String::from("trap 'rm -f x' EXIT"))), Some(0));
    assert_eq!(found(ScriptCommand::Hidden), None);
    assert_eq!(found(ScriptCommand::Compound), Some(0));
}

/// `echo x | tr a b` and `sed s/x/y/ | tr a b` in a loop: many a `tr` of the one was counted with the other.
#[test]
fn what_may_stand_on_two_lines_is_counted_with_neither() {
    let mut seen = Vec::from([process(None, "bash x", (0, 1000))]);
    for n in 0..20_u64 {
        let ms = (n * 40, n * 40 + 8);
        let pipe = 2 * n as usize;
        seen.push(reads(pipe, process(Some(0), "tr a b", ms)));
        seen.push(writes(pipe + 1, process(Some(0), "sed s/x/y/", ms)));
        seen.push(reads(pipe + 1, process(Some(0), "tr a b", ms)));
    }
    let of = |commands: &[&str]| {
        let mut classes = classed(&seen, &[line(2, commands), line(3, &["sed s/x/y/", "tr a b"])]);
        classes.retain(|class| class.rows.len() == 2);
        classes[0].rows[1].len()
    };
    assert_eq!(of(&["tr a b"]), 20);
    assert_eq!(of(&["sort"]), 40, "no other line has it");
}

/// `grep -q x f` that failed within a millisecond had no line and no words.
#[test]
fn the_only_command_of_a_program_is_known_by_its_name() {
    let script = [line(2, &["seq 9"]), line(3, &["grep -q x f"]), line(5, &["ls *", "wc -l"])];
    assert_eq!(only_of(&script, "grep"), Some((1, Some("grep -q x f"))));
    assert_eq!(only_of(&script, "ls"), Some((2, None)), "its words are not all known");
    assert_eq!(only_of(&script, "cat"), None);
    for other in ["nice grep y", "* y"] {
        let two = [script[1].clone(), line(7, &[other])];
        assert_eq!(only_of(&two, "grep"), None, "{other}");
    }
}
