//! `weir run --otlp`: a run as spans, and the trace that it continues.

use crate::common::{WEIR, weir_run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Runs with a trace in the environment; without one where `endpoint` is none.
fn run(options: &[&str], text: &str, endpoint: &str) -> Output {
    let mut command = Command::new(WEIR);
    command.args(["run", "--live=never"]).args(options).arg(text).stdin(Stdio::null());
    command.env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-01")).env("TRACESTATE", "a=1");
    command.env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").env_remove("OTEL_SERVICE_NAME");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).output().expect("it runs")
}

fn spans(text: &str) -> Vec<Value> {
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    let request: Value = serde_json::from_str(text).expect("JSON");
    let resource = &request["resourceSpans"][0];
    let attributes = attributes(&resource["resource"]);
    assert_eq!(attributes["service.name"], "weir");
    assert!(attributes.contains_key("host.name") && attributes.contains_key("process.pid"));
    resource["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let all = of["attributes"].as_array().expect("attributes").iter();
    let value = |one: &Value| one["value"].as_object().expect("a value").values().next().cloned();
    let key = |one: &Value| one["key"].as_str().expect("a key").to_owned();
    all.map(|one| (key(one), value(one).expect("one"))).collect()
}

fn read(path: &Path) -> Vec<Value> {
    spans(&std::fs::read_to_string(path).expect("spans"))
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().and_then(|time| time.parse().ok()).expect("a time")
}

#[test]
fn each_stage_is_a_span_below_that_of_the_run_and_gets_its_name() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("spans.json");
    let text =
        "sh -c 'sleep 0.2; echo $TRACEPARENT' | cat | sh -c 'cat; echo $TRACEPARENT; exit 3'";
    let ran = run(&["--otlp", file.to_str().expect("UTF-8")], text, "");
    assert_eq!(ran.status.code(), Some(3));
    let spans = read(&file);
    let whole = &spans[0];
    let is_stage = |span: &&Value| attributes(span).contains_key("weir.stage");
    let stages: Vec<&Value> = spans.iter().filter(is_stage).collect();
    assert_eq!((&whole["traceId"], &whole["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
    assert_eq!((&whole["name"], &whole["traceState"]), (&"weir run".into(), &"a=1".into()));
    assert_eq!((&whole["status"]["code"], stages.len()), (&2.into(), 3));
    for stage in &stages {
        assert_eq!((&stage["traceId"], &stage["parentSpanId"]), (&TRACE.into(), &whole["spanId"]));
        assert!(stage["spanId"].as_str().is_some_and(|id| id.len() == 16), "{stage}");
        assert!(time(stage, "startTimeUnixNano") >= time(whole, "startTimeUnixNano"));
        assert!(
            time(stage, "endTimeUnixNano") <= time(whole, "endTimeUnixNano"),
            "{stage} {whole}"
        );
    }
    let of_stage =
        |at: usize| format!("00-{TRACE}-{}-01", stages[at]["spanId"].as_str().expect("an id"));
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(printed, format!("{}\n{}\n", of_stage(0), of_stage(2)));
    // The middle one waited for the first.
    let links = stages[1]["links"].as_array().expect("links");
    let waited = links.iter().find(|link| link["spanId"] == stages[0]["spanId"]).expect("a link");
    assert_eq!(attributes(waited)["weir.wait"], "blocked_in");
    assert!(attributes(stages[1])["weir.blocked_in_s"].as_f64() > Some(0.1), "{}", stages[1]);
    assert_eq!(attributes(stages[2])["process.exit.code"], "3");
}

#[test]
fn a_script_has_a_span_for_each_group_and_below_it_for_its_processes() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("spans.json");
    let ran = run(&["--otlp", file.to_str().expect("UTF-8")], "sleep 0.3 | cat; sleep 0.2", "");
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let spans = read(&file);
    let with =
        |name: &str| spans.iter().filter(|span| span["name"] == name).cloned().collect::<Vec<_>>();
    let cat = with("cat").pop().expect("a process");
    let group = spans.iter().find(|span| span["spanId"] == cat["parentSpanId"]).expect("its group");
    assert_eq!(attributes(group)["process.command_line"], "sleep 0.3 | cat", "{group}");
    assert_eq!(group["parentSpanId"], spans[0]["spanId"]);
    let writer =
        spans.iter().find(|span| span["spanId"] == cat["links"][0]["spanId"]).expect("a link");
    assert_eq!(attributes(writer)["process.command_line"], "sleep 0.3", "{cat}");
}

/// Processes are seen to a column of the course: some began 13 ms before their group.
#[test]
fn no_span_is_longer_than_the_one_above_it() {
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("spans.json");
    let script = "for i in 1 2 3 4 5; do seq 50000 | sort -r | tail -1; done; sleep 0.2";
    let ran = run(&["--otlp", file.to_str().expect("UTF-8")], script, "");
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let spans = read(&file);
    for span in &spans {
        let above = spans.iter().find(|above| above["spanId"] == span["parentSpanId"]);
        let Some(above) = above else { continue };
        let [from, to] = ["startTimeUnixNano", "endTimeUnixNano"];
        assert!(time(span, from) >= time(above, from), "{span} begins before {above}");
        assert!(time(span, to) <= time(above, to), "{span} ends after {above}");
    }
}

#[test]
fn nothing_is_handed_on_or_sent_without_the_option() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let ran = run(&["-q"], "echo $TRACEPARENT", &endpoint);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), format!("00-{TRACE}-{PARENT}-01\n"));
    assert!(listener.accept().is_err(), "nobody came");
}

#[test]
fn spans_are_posted_where_that_is_asked_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}/", listener.local_addr().expect("an address"));
    let collector = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("weir");
        let mut reader = BufReader::new(peer.try_clone().expect("a copy"));
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            let line = line.trim_end().to_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(bytes) = line.strip_prefix("content-length: ") {
                length = bytes.parse().expect("a number");
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("answered");
        (head, String::from_utf8(body).expect("UTF-8"))
    });
    let ran = run(&["-q", "--otlp", "send"], "echo x | cat", &endpoint);
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    let (head, body) = collector.join().expect("a request");
    assert_eq!(head[0], "post /v1/traces http/1.1");
    assert!(head.contains(&String::from("content-type: application/json")), "{head:?}");
    assert_eq!(spans(&body).len(), 3);
}

#[test]
fn what_cannot_be_sent_or_written_changes_no_status() {
    for (endpoint, why) in [
        ("http://127.0.0.1:1", "cannot send the spans to 'http://127.0.0.1:1/v1/traces'"),
        ("https://127.0.0.1:1", "weir speaks HTTP without TLS; name a collector of this host"),
        ("nonsense", "cannot send the spans to 'nonsense/v1/traces'"),
    ] {
        let ran = run(&["-q", "--otlp", "send"], "echo x; exit 4", endpoint);
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(4), &b"x\n"[..]), "{err}");
        assert!(err.contains(why) && err.lines().count() == 1, "{err}");
    }
    let ran = weir_run(&["--otlp", "/nosuch/spans.json", "echo x"]);
    assert_eq!((ran.code(), ran.stdout().as_str()), (2, ""), "{}", ran.stderr());
}
