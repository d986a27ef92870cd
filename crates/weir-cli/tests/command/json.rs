//! The grammar of JSON that all verbs share: `docs/contracts/json.md`.

use crate::common::port::{Place, refused, said};
use crate::common::{WEIR, schema, weir_run};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

/// The pages of contracts.
fn contracts() -> PathBuf {
    schema::directory().join("../contracts")
}

fn page(name: &str) -> String {
    let path = contracts().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each schema with the page that has its table, as json.md lists them.
fn listed() -> Vec<(String, String)> {
    let rows = page("json.md");
    let of_row = |row: &str| {
        let mut cells = row.strip_prefix("| `weir.")?.split('|');
        let name = format!("weir.{}", cells.next()?.trim().trim_end_matches('`'));
        let link = cells.nth(1)?.split_once('(')?.1;
        Some((name, link.split(')').next()?.to_owned()))
    };
    rows.lines().filter_map(of_row).collect()
}

/// Every object within a schema that lists its names.
fn objects(schema: &Value, found: &mut Vec<Value>) {
    match schema {
        Value::Object(all) => {
            if all.get("type") == Some(&json!("object")) && all.contains_key("properties") {
                found.push(schema.clone());
            }
            all.values().for_each(|value| objects(value, found));
        }
        Value::Array(all) => all.iter().for_each(|value| objects(value, found)),
        _ => {}
    }
}

fn names(object: &Value) -> BTreeSet<String> {
    let names = object["properties"].as_object().into_iter().flat_map(|names| names.keys());
    names.cloned().collect()
}

/// The texts in backticks, without the marks of a list.
fn quoted(text: &str) -> BTreeSet<String> {
    let parts = text.split('`').skip(1).step_by(2);
    parts.map(|name| name.trim_end_matches("[]").to_owned()).collect()
}

#[test]
fn every_schema_is_listed_and_every_listed_one_is_there() {
    let files = std::fs::read_dir(schema::directory()).expect("a directory");
    let files: BTreeSet<_> = files.map(|entry| entry.expect("a file").path()).collect();
    let listed: BTreeSet<_> = listed().iter().map(|(name, _)| schema::file(name)).collect();
    assert_eq!(files, listed);
}

#[test]
fn every_schema_is_sound() {
    for (name, _) in listed() {
        let schema = schema::read(&name);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
        jsonschema::draft202012::meta::validate(&schema)
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(schema["properties"]["schema"], json!({"const": name}));
        let mut all = Vec::new();
        objects(&schema, &mut all);
        for object in all {
            assert_eq!(object["additionalProperties"], false, "{name}: {object:#}");
            let is_snake = |name: &String| {
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            };
            assert!(names(&object).iter().all(is_snake), "{name}: {object:#}");
            let required = object["required"].as_array().expect("a list").iter();
            let required: BTreeSet<_> =
                required.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
            // The names of a log's events depend on their kind, as the schema says.
            let may_lack = name == "weir.net.log/1";
            assert!(may_lack || required == names(&object), "{name}: {object:#}");
        }
    }
}

#[test]
fn every_schema_has_its_table() {
    for (name, file) in listed() {
        let page = page(&file);
        let heading = format!("JSON, schema `{name}`");
        let section = page
            .split("\n#")
            .find(|section| section.lines().next().is_some_and(|line| line.ends_with(&heading)));
        let section = section.unwrap_or_else(|| panic!("{file} has no section '{heading}'"));
        let rows: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 2, "{file} has no table of {name}");
        let mut all = Vec::new();
        objects(&schema::read(&name), &mut all);
        let mut known: BTreeSet<_> = all.iter().flat_map(names).collect();
        // json.md lists the names that all documents have.
        known.remove("schema");
        known.remove("weir_version");
        let said = rows.iter().flat_map(|row| quoted(row)).collect();
        let unsaid: Vec<_> = known.difference(&said).collect();
        assert!(unsaid.is_empty(), "{file} does not say what these of {name} are: {unsaid:?}");
        let first = |row: &&str| row.trim_start_matches('|').split('|').next().map(quoted);
        let said: BTreeSet<_> = rows.iter().filter_map(first).flatten().collect();
        let unknown: Vec<_> = said
            .iter()
            .filter(|name| !known.contains(*name) && *name != "schema" && *name != "weir_version")
            .collect();
        assert!(unknown.is_empty(), "{file} speaks of what {name} has not: {unknown:?}");
    }
}

#[test]
fn a_document_that_is_not_of_its_schema_is_found_out() {
    let version = env!("CARGO_PKG_VERSION");
    let good = json!({
        "schema": "weir.stat/1", "weir_version": version,
        "pipes": [], "mpx": [], "flags": [], "regions": [], "running": [],
    });
    schema::check("weir.stat/1", &good);
    let spoilt: [fn(&mut Value); 5] = [
        |value| value["more"] = json!(1),
        |value| value["pipes"] = json!([{}]),
        |value| value["weir_version"] = json!("0.0.0-other"),
        |value| value["schema"] = json!("weir.stat/9"),
        |value| drop(value.as_object_mut().map(|all| all.shift_remove("pipes"))),
    ];
    for spoil in spoilt {
        let mut value = good.clone();
        spoil(&mut value);
        let found = std::panic::catch_unwind(|| schema::check("weir.stat/1", &value));
        assert!(found.is_err(), "{value}");
    }
}

/// Runs `weir run ARGS` and returns its report, checked against its schema.
fn report(args: &[&str]) -> Value {
    let ran = weir_run(args);
    assert_eq!(ran.json["schema"], "weir.run/1", "no report: {}", ran.stderr());
    schema::check("weir.run/1", &ran.json);
    ran.json
}

#[test]
fn reports_of_all_kinds_of_runs_are_of_their_schema() {
    let pipeline = report(&["seq 100000 | sort -R | tail -n 1"]);
    assert_eq!((&pipeline["mode"], &pipeline["compare"]), (&"pipeline".into(), &Value::Null));
    let script = report(&["for i in 1 2 3; do seq $i | wc -l; done; basename a"]);
    assert_eq!(script["mode"], "script");
    let failed = report(&["/nonexistent/program | wc -c"]);
    assert!(failed["stages"][0]["failure"].is_string(), "{failed:#}");
    let killed = report(&["bash -c 'kill -9 $$' | cat"]);
    assert_eq!(killed["stages"][0]["exit"], json!({"signal": 9}));
    let status = report(&["seq 10 | bash -c 'cat > /dev/null; exit 3'"]);
    assert_eq!(status["stages"][1]["exit"], json!({"code": 3}));
    let early = report(&["yes | head -n 1"]);
    assert_eq!(early["stages"][0]["closed_by_downstream"], true);
    let slow = report(&["bash -c 'for i in 1 2 3; do echo; sleep 0.1; done' | cat"]);
    assert_eq!(slow["verdict"]["stage"], 1);
    let elastic = report(&["--elastic=1", "seq 1000 | sort -n | tail -n 1"]);
    assert_eq!(elastic["stages"][1]["inserted"], true);
}

#[test]
fn a_report_with_a_comparison_is_of_its_schema() {
    let compared = report(&["--compare", "--runs", "6", "seq 20000 | sort -R | tail -n 1"]);
    assert_eq!(compared["compare"]["rounds"], 6, "{compared:#}");
}

fn weir(place: &Place, args: &str) -> Output {
    let mut command = place.command(WEIR);
    command.args(args.split_whitespace()).env("WEIR_TUNE", place.directory.path().join("tune"));
    command.output().expect("weir starts")
}

/// The verbs that need nothing, with their schemas.
const VERBS: [(&str, &str); 4] = [
    ("stat", "weir.stat/1"),
    ("tune", "weir.tune/1"),
    ("port list .", "weir.port.list/1"),
    ("net log --cost ./log", "weir.net.log.cost/1"),
];

#[test]
fn every_verb_takes_the_same_option() {
    let place = Place::new();
    for verb in [
        "run",
        "stat",
        "tune",
        "buffer",
        "port read",
        "port list",
        "port stat",
        "net stat",
        "net ping",
        "net log",
        "net profile",
        "net relay",
        "bench",
        "compare",
        "history list",
        "history show",
        "watch",
        "why",
        "top",
        "model",
        "net tftp list",
    ] {
        let help = weir(&place, &format!("{verb} --help"));
        let text = String::from_utf8_lossy(&help.stdout).into_owned();
        assert!(text.contains("--json <FILE>"), "{verb}: {text}");
        assert!(text.contains("schema weir."), "{verb} --json names no schema: {text}");
        refused(
            &weir(&place, &format!("{verb} --json")),
            2,
            "a value is required for '--json <FILE>'",
        );
    }
    for (verb, name) in VERBS {
        let output = weir(&place, &format!("{verb} --json -"));
        assert!(output.status.success(), "{verb}: {}", said(&output));
        schema::check_text(name, &output.stdout);
    }
}

#[test]
fn a_file_gets_json_and_standard_output_the_text() {
    let place = Place::new();
    let _pipe = weir::pipe(&weir::Options::new()).expect("made");
    let path = place.directory.path().join("report.json");
    for (verb, name) in VERBS {
        let output = weir(&place, &format!("{verb} --json report.json"));
        assert!(output.status.success(), "{verb}: {}", said(&output));
        let text = if verb.starts_with("port list") { &output.stderr } else { &output.stdout };
        assert!(!text.is_empty() && text[0] != b'{', "{verb}: {}", text.escape_ascii());
        schema::check_text(name, &std::fs::read(&path).expect("written"));
    }
}

/// `--json /dev/fd/3 3>>log` emptied the log, and `-o /dev/stdout` wrote over what the pipeline had
/// printed to a file.
#[test]
fn the_name_of_a_descriptor_does_not_empty_its_file() {
    let place = Place::new();
    let path = place.directory.path().join("log");
    for (options, before) in [
        ("stat --json /dev/fd/3 3>>log", "before\n"),
        ("stat --json /dev/stdout >>log", "before\n"),
        ("run -q --json /dev/fd/3 true 3>>log", "before\n"),
        ("run -q --html /dev/fd/3 true 3>>log", "before\n"),
        ("run -o /dev/stdout 'seq 9' >log", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        ("run -o /dev/stderr true 2>>log", "before\n"),
        ("run --chrome-trace /dev/stderr true 2>>log", "before\n"),
        // Containers refuse pidfd_getfd, and so does a limit of files: only the report was left.
        ("run -o /dev/stdout 'seq 9'; exec >log; ulimit -S -n 4", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
    ] {
        std::fs::write(&path, "before\n").expect("written");
        let mut command = place.command("sh");
        let (options, limit) = options.split_once(';').unwrap_or((options, ":"));
        let text = format!("{limit}; '{WEIR}' {options}");
        let output = command.args(["-c", &text]).output().expect("sh");
        assert!(output.status.success(), "{options}: {}", said(&output));
        let log = std::fs::read_to_string(&path).expect("read");
        assert!(log.starts_with(before) && log.len() > before.len(), "{options}: {log}");
    }
}

/// The page took the place of the JSON, and both were said to be written.
#[test]
fn a_file_that_two_options_name_is_refused() {
    let place = Place::new();
    let text = place.directory.path().join("there");
    std::fs::write(&text, "kept").expect("written");
    for (args, both) in [
        ("run --json x --html x true", "--json and --html name the same file"),
        ("run --json x --html ./x true", "--json and --html name the same file"),
        ("run -o there --chrome-trace there true", "--output and --chrome-trace name the same"),
        ("watch 1 --for 1ms --html x --chrome-trace x", "--html and --chrome-trace name the same"),
        (
            "bench joy-syscall/getppid -b 0.5s -q --json x --html x",
            "--json and --html name the same",
        ),
        ("model joy-swap --json x --html x", "--json and --html name the same"),
        ("history show run --json x --html x", "--json and --html name the same"),
    ] {
        refused(&weir(&place, args), 2, &format!("weir: {both}"));
    }
    assert_eq!(std::fs::read(&text).expect("read"), b"kept");
    assert!(!place.directory.path().join("x").exists());
    for args in ["run -o /dev/null --json /dev/null true", "run -q --json - --html x true"] {
        assert!(weir(&place, args).status.success(), "{args}");
    }
}

/// The JSON went nowhere, and the status was 0.
#[test]
fn json_for_a_standard_output_that_is_closed_is_an_error() {
    let place = Place::new();
    let closed = |args: &str| {
        place.bash(&format!("WEIR_TUNE=$PWD/tune XDG_STATE_HOME=$PWD $WEIR {args} --json - >&-"))
    };
    let why = "weir: cannot write to standard output: it is closed\n";
    // The last one measured all its cases first.
    let others = ["history", "why 1", "top", "bench --list", "bench joy-syscall/getppid -b 0.5s"];
    for verb in VERBS.into_iter().map(|(verb, _)| verb).chain(others) {
        let output = closed(verb);
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(1), why), "{verb}");
    }
    // So did text.
    let text = place.bash("WEIR_TUNE=$PWD/tune $WEIR tune >&-");
    assert_eq!((text.status.code(), said(&text).as_str()), (Some(1), why));
    // The run comes first, and its status.
    let run = place.bash("$WEIR run --quiet --json - 'exit 3' >&-");
    assert_eq!((run.status.code(), said(&run).as_str()), (Some(3), why));
}

#[test]
fn a_reader_of_the_json_that_has_left_is_no_error() {
    let place = Place::new();
    for (verb, _) in VERBS {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = place.command(WEIR);
        command.args(verb.split_whitespace()).args(["--json", "-"]).stdout(writer);
        let output = command
            .env("WEIR_TUNE", place.directory.path().join("tune"))
            .output()
            .expect("weir starts");
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""), "{verb}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let place = Place::new();
    for (verb, _) in VERBS {
        let missing = weir(&place, &format!("{verb} --json missing/file"));
        refused(&missing, 1, "weir: cannot write 'missing/file': No such file");
        let full = weir(&place, &format!("{verb} --json /dev/full"));
        refused(&full, 1, "weir: cannot write '/dev/full': No space left on device");
    }
    let read = weir(&place, "port read x --json missing/file");
    refused(&read, 1, "weir: cannot write 'missing/file': No such file");
}
