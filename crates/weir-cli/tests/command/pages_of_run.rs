//! `weir run --html` and `--chrome-trace`: files that show the course of a run.

use crate::common::{bound, have, pipeline, weir_run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// A writer that sleeps, a reader that waits for it.
const SLEEPS: &str = "sh -c 'for i in 1 2 3; do sleep 0.2; echo $i; done' | cat > /dev/null";

fn page(place: &Path, text: &str) -> String {
    let file = place.join("page.html");
    let ran = weir_run(&["--html", &file.display().to_string(), text]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    std::fs::read_to_string(file).expect("a page")
}

#[test]
fn the_page_is_whole_and_asks_for_nothing_else() {
    let place = tempfile::tempdir().expect("a directory");
    let page = page(place.path(), SLEEPS);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for not in ["http:", "https:", "<script", "<link", "<img", "@import", "url("] {
        assert!(!outside.contains(not), "{not}");
    }
    for part in
        ["What each stage did over time", "How full the pipes were", "The stages", "held up"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    for style in ["prefers-color-scheme: dark", "@media print"] {
        assert!(page.contains(style), "{style}");
    }
    // Each stage's band says in words what its colours say.
    assert!(page.contains("2 cat") && page.contains("% waits for input"), "{page}");
}

#[test]
fn a_command_of_markup_is_text_on_the_page() {
    let place = tempfile::tempdir().expect("a directory");
    let page = page(place.path(), "echo '<script>alert(1)</script>\u{1b}[2J&amp;' | cat | wc -c");
    assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
}

#[test]
fn a_browser_shows_the_page() {
    if !have(&["chromium"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    page(place.path(), SLEEPS);
    let (profile, shot) = (place.path().join("profile"), place.path().join("shot.png"));
    let mut command = Command::new("timeout");
    command.args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!("--screenshot={}", shot.display())).arg("--dump-dom");
    command.arg(format!("file://{}", place.path().join("page.html").display()));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().expect("chromium");
    let dom = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && dom.is_empty() {
        return eprintln!("SKIPPED: chromium does not start here");
    }
    // The parser of the browser found the drawing's bands where they belong.
    let lanes = dom.split("<h2>What each stage did over time").nth(1).expect("the section");
    let lanes = lanes.split("</section>").next().expect("its end");
    assert!(lanes.contains("<svg") && lanes.matches("<path fill=").count() >= 2, "{lanes}");
    assert!(dom.contains("</main>"), "{dom}");
}

/// The page of a script had a band for each process, in no order, and nothing of lines or of the columns of the
/// text.
#[test]
fn the_page_of_a_script_has_its_lines_the_largest_first() {
    let place = tempfile::tempdir().expect("a directory");
    let script = place.path().join("steps.sh");
    let lines = "for i in 1 2; do sleep 0.1 | cat; done\nsleep 0.6\nsleep 0.05 | cat | cat\n";
    std::fs::write(&script, lines).expect("written");
    let file = place.path().join("page.html");
    let ran =
        weir_run(&["--html", &file.display().to_string(), "bash", &script.display().to_string()]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let page = std::fs::read_to_string(file).expect("a page");
    let rows: Vec<&str> = page.split("<details class=\"group\"").skip(1).collect();
    let is_at = |line: u32| {
        let at = |row: &&str| row.contains(&format!("line {line} of steps.sh"));
        rows.iter().position(at).unwrap_or_else(|| panic!("line {line}: {page}"))
    };
    assert!(is_at(2) < is_at(1) && is_at(1) < is_at(3), "{page}");
    for line in [1, 2, 3] {
        let row = rows[is_at(line)];
        let summary = row.split("</summary>").next().expect("a summary");
        assert!(summary.contains("<svg class=\"band\"") && summary.contains("<path"), "{summary}");
        // Below it are the columns of the text, and what its processes did.
        for part in ["MB/s", "user", "memory"] {
            assert!(row.contains(part), "{part}: {row}");
        }
        assert_eq!(row.contains("class=\"lane\""), line != 2, "one process is the row: {row}");
    }
    let first = rows[is_at(1)];
    assert!(first.contains("2 times") && first.contains("<th>pipe</th>"), "{first}");
    assert!(!page.contains("What each stage did over time") && !page.contains(">exit<"), "{page}");
}

#[test]
fn the_page_says_when_and_where_the_run_was() {
    let place = tempfile::tempdir().expect("a directory");
    let page = page(place.path(), "true | true");
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let version = env!("CARGO_PKG_VERSION");
    for (what, value) in [("host", name.as_str()), ("kernel", "Linux "), ("weir", version)] {
        assert!(page.contains(&format!("<dt>{what}</dt><dd>{value}")), "{what}: {page}");
    }
    assert!(page.contains(" UTC</dd>") && page.contains("<dt>CPU</dt><dd>"), "{page}");
}

/// The slices of each track, in order.
fn slices(trace: &Value) -> BTreeMap<u64, Vec<(f64, f64, String)>> {
    let mut slices: BTreeMap<u64, Vec<(f64, f64, String)>> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().expect("events") {
        assert!(event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        let number = |name: &str| event[name].as_f64().expect("a number");
        let name = event["name"].as_str().expect("a name").to_owned();
        match event["ph"].as_str() {
            Some("X") => {
                let thread = event["tid"].as_u64().expect("a track");
                slices.entry(thread).or_default().push((number("ts"), number("dur"), name));
            }
            Some("C") => assert!(event["args"]["bytes"].as_f64() >= Some(0.0), "{event}"),
            kind => assert_eq!(kind, Some("M"), "{event}"),
        }
    }
    slices
}

#[test]
fn the_trace_has_a_track_for_each_stage_whose_slices_follow_one_another() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("trace.json");
    let text = "sh -c 'sleep 0.6; head -c 3000000 /dev/zero' | (sleep 1; cat) | wc -c";
    let ran = weir_run(&["--chrome-trace", &file.display().to_string(), text]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let trace: Value =
        serde_json::from_slice(&std::fs::read(file).expect("a trace")).expect("JSON");
    let slices = slices(&trace);
    for stage in 1..=3_u64 {
        let track = &slices[&stage];
        let in_order = |pair: &[(f64, f64, String)]| pair[0].0 + pair[0].1 <= pair[1].0 + 1e-6;
        assert!(track.windows(2).all(in_order), "{track:?}");
        let sum_us: f64 = track.iter().map(|(_, length, _)| length).sum();
        let wall_us = ran.stage(stage as usize, "wall_s") * 1e6;
        assert!(
            sum_us > 0.7 * wall_us && sum_us < 1.3 * wall_us,
            "{sum_us} of {wall_us}: {track:?}"
        );
    }
    let longest = |track: &[(f64, f64, String)]| {
        track.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("slices").2.clone()
    };
    assert_eq!(longest(&slices[&3]), "waits for input");
    let events = trace["traceEvents"].as_array().expect("events");
    let fills = events.iter().filter(|event| event["name"] == "bytes in pipe 1->2");
    let most = fills.filter_map(|event| event["args"]["bytes"].as_f64()).fold(0.0, f64::max);
    assert!(most > 60_000.0, "the pipe was full: {most}");
}

#[test]
fn a_script_has_a_track_for_each_process() {
    let place = tempfile::tempdir().expect("a directory");
    let (file, html) = (place.path().join("trace.json"), place.path().join("page.html"));
    let [trace, page] = [&file, &html].map(|file| file.display().to_string());
    let ran =
        weir_run(&["--chrome-trace", &trace, "--html", &page, "sleep 0.3; sleep 0.2 && true"]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let trace: Value =
        serde_json::from_slice(&std::fs::read(file).expect("a trace")).expect("JSON");
    let text = trace.to_string();
    assert!(text.contains("sleep 0.3") && text.contains("sleep 0.2"), "{text}");
    assert!(std::fs::read_to_string(html).expect("a page").contains("sleep 0.3"));
}

/// Processes that no sample met came between the others, and the tracks behind them had the names of
/// other processes.
#[test]
fn a_track_of_a_script_has_the_name_of_its_own_process() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("trace.json");
    let text = "for i in 1 2 3 4 5 6 7 8; do /bin/true; done; sleep 0.6; /bin/true; true";
    let ran = weir_run(&["--chrome-trace", &file.display().to_string(), text]);
    assert_eq!(ran.code(), 0, "{}", ran.stderr());
    let trace: Value =
        serde_json::from_slice(&std::fs::read(file).expect("a trace")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    // The number is that of its row in the report.
    let is_it = |event: &&Value| {
        event["args"]["name"].as_str().is_some_and(|name| name.ends_with(" sleep 0.6"))
    };
    let tracks: Vec<u64> =
        events.iter().filter(is_it).filter_map(|event| event["tid"].as_u64()).collect();
    let slices = slices(&trace);
    let asleep = |track: &u64| slices[track].iter().any(|(_, _, state)| state == "asleep");
    assert!(tracks.len() == 1 && tracks.iter().all(asleep), "{trace}");
}

#[test]
fn what_cannot_be_written_is_reported_and_leaves_the_status() {
    for option in ["--html", "--chrome-trace"] {
        let ran = weir_run(&[option, "/dev/full", "exit 3"]);
        let said = ran.stderr();
        assert_eq!(ran.code(), 3, "{said}");
        assert!(said.contains("to '/dev/full': No space left on device"), "{said}");
        // What can be known before is said before anything runs.
        let ran = weir_run(&[option, "/nosuch/place/file", "echo it runs; exit 4"]);
        let said = ran.stderr();
        assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""), "{said}");
        assert!(said.contains("to '/nosuch/place/file': No such file or directory"), "{said}");
    }
}

#[test]
fn a_full_disk_leaves_the_old_page() {
    let place = tempfile::tempdir().expect("a directory");
    let script = format!(
        "mount -t tmpfs -o size=8k none '{0}' && echo old > '{0}/page' && \
         '{1}' run --html '{0}/page' 'exit 5'; echo $?; cat '{0}/page'; ls -A '{0}'",
        place.path().display(),
        crate::common::WEIR
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "bash", "-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(child) = child else { return eprintln!("SKIPPED: no unshare") };
    bound(&child);
    let output = child.wait_with_output().expect("it ends");
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if error.contains("unshare") || error.contains("mount:") {
        return eprintln!("SKIPPED: {error}");
    }
    assert_eq!(said, "5\nold\npage\n", "{error}");
    assert!(error.contains("cannot write the page to"), "{error}");
}

#[test]
fn without_the_options_nothing_is_kept() {
    let ran = pipeline("true | true");
    assert_eq!(ran.json["profile"], Value::Null);
}
