//! The report as Markdown: `--md` of `weir run` and `weir watch`, and `WEIR_REPORT` of `weir sh`.

use crate::common::{WEIR, bound, weir_run};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("Markdown")
}

/// What stands outside of code: spans and blocks are taken out, as a reader of Markdown takes them, and so is
/// what stands behind a backslash.
fn outside_of_code(text: &str) -> String {
    let (mut outside, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(['`', '\\']) {
        outside += &rest[..at];
        let from = &rest[at..];
        if from.starts_with('\\') {
            rest = &from[2..];
            continue;
        }
        let ticks = from.len() - from.trim_start_matches('`').len();
        let (fence, inside) = (&from[..ticks], &from[ticks..]);
        let is_end =
            |end: &usize| !inside[end + ticks..].starts_with('`') && !inside[..*end].ends_with('`');
        let mut ends = inside.match_indices(fence).map(|(end, _)| end);
        rest = &inside[ends.find(is_end).expect("a code that ends") + ticks..];
    }
    outside + rest
}

#[test]
fn names_of_others_are_neither_markup_nor_mentions() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("report.md");
    let name = "|x| `y` ``` <img src=x> @someone #1 $a$ **b** \u{1b}[2J\u{202e} http://e.vil";
    let text = format!("sh -c 'sleep 0.3; exit 3' '{name}\nz' | cat");
    let ran = weir_run(&["--verbose", "--md", file.to_str().expect("UTF-8"), &text]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let md = read(&file);
    assert!(!md.contains(['\u{1b}', '\u{202e}']), "{md}");
    let outside = outside_of_code(&md);
    for markup in ["<img", "@someone", "#1", "$a", "**b", "http://", "|x|", "```"] {
        assert!(!outside.contains(markup), "{markup} in {outside}");
    }
    // Every row of a table has as many cells as its rule.
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut of_rule = 0;
    for (line, next) in md.lines().zip(md.lines().skip(1)).filter(|(line, _)| line.starts_with('|'))
    {
        of_rule = if next.starts_with("| :--") { cells(next) } else { of_rule };
        assert_eq!(cells(line), of_rule, "{line}");
    }
    assert!(md.starts_with("### weir run: ") && md.contains("<summary>more</summary>"), "{md}");
}

#[test]
fn the_file_of_a_step_is_appended_to_and_any_other_replaced() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("step_summary_1");
    let run = |has_summary: bool| -> Output {
        std::fs::write(&file, "# Mine\n").expect("written");
        let mut command = Command::new(WEIR);
        command.args(["run", "-q", "--md"]).arg(&file).args(["--", "sleep", "0.05"]);
        command.env_remove("GITHUB_STEP_SUMMARY").stdin(Stdio::null());
        if has_summary {
            command.env("GITHUB_STEP_SUMMARY", &file);
        }
        command.output().expect("it runs")
    };
    assert!(run(false).status.success() && read(&file).starts_with("### weir run: "));
    assert!(run(true).status.success() && read(&file).starts_with("# Mine\n### weir run: "));
}

#[test]
fn weir_sh_appends_markdown_to_a_file_of_that_name_or_of_the_step() {
    let place = tempfile::tempdir().expect("a directory");
    let summary = place.path().join("step_summary_1");
    // In the variables of a workflow no shell puts in what a name stands for.
    for name in ["report.md", summary.to_str().expect("UTF-8"), "$GITHUB_STEP_SUMMARY"] {
        let mut command = Command::new(WEIR);
        command.args(["sh", "-ec", "sleep 0.1; (exit 3)"]).current_dir(place.path());
        command.env("WEIR_REPORT", name).env("GITHUB_STEP_SUMMARY", &summary);
        command.env_remove("WEIR_SH").env_remove("GITHUB_ACTIONS").stdin(Stdio::null());
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [one, two] = [read(&place.path().join("report.md")), read(&summary)];
    assert_eq!(one.matches("### weir sh: ").count(), 1, "{one}");
    assert_eq!(two.matches("### weir sh: ").count(), 2, "{two}");
    assert!(one.contains("bash -ec sleep 0.1; (exit 3)\n"), "{one}");
}

#[test]
fn weir_watch_prints_markdown_in_place_of_its_text() {
    // What shares its pipes would be watched too.
    let mut sleeper = Command::new("sleep");
    sleeper.arg("60").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut sleeper = sleeper.spawn().expect("it starts");
    bound(&sleeper);
    let mut command = Command::new(WEIR);
    command.args(["watch", &sleeper.id().to_string(), "--for", "500ms", "--md", "-"]);
    let output = command.output().expect("it runs");
    sleeper.kill().expect("killed");
    sleeper.wait().expect("ended");
    let text = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        err.is_empty() && text.starts_with("### weir watch: ") && text.contains("`sleep 60`"),
        "{text} {err}"
    );
}
