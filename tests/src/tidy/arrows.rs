//! Which crate may depend on which (from `cargo metadata`), and which room of the library may
//! import which. ARCHITECTURE.md draws both, and ADR 0012 gives the reasons.

use super::TidyFault;
use super::circles::{Arrows, Texts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What each crate may depend on inside the workspace, product by product: the core knows none of the
/// other products. Whoever makes a new crate adds it here. Every crate may use `weir-measure` in its
/// tests, to start processes, and every command `weir-tests`.
const ARROWS: [(&str, &[&str]); 20] = [
    ("weir-policy", &[]),
    ("weir-doctor", &[]),
    ("weir-ring", &["weir-policy"]),
    ("weir-sys", &[]),
    ("weir-pipes", &["weir-policy", "weir-ring", "weir-sys"]),
    ("weir-mpx", &["weir-pipes", "weir-policy", "weir-ring", "weir-sys"]),
    ("weir-region", &["weir-pipes", "weir-policy", "weir-ring", "weir-sys"]),
    ("weir-c", &["weir-pipes"]),
    ("weir-measure", &["weir-doctor", "weir-policy", "weir-sys"]),
    ("weir-command", &["weir-pipes", "weir-doctor", "weir-measure", "weir-policy", "weir-sys"]),
    (
        "weir-cli",
        &[
            "weir-pipes",
            "weir-command",
            "weir-doctor",
            "weir-measure",
            "weir-mpx",
            "weir-policy",
            "weir-region",
            "weir-sys",
        ],
    ),
    ("weir-profile", &["weir-policy", "weir-sys"]),
    ("weir-net", &["weir-pipes", "weir-profile", "weir-sys"]),
    (
        "weir-net-cli",
        &["weir-pipes", "weir-command", "weir-measure", "weir-net", "weir-profile", "weir-sys"],
    ),
    ("weir-model", &["weir-net", "weir-policy"]),
    ("weir-model-cli", &["weir-charts", "weir-command", "weir-model"]),
    (
        "weir-bench",
        &[
            "weir-pipes",
            "weir-measure",
            "weir-mpx",
            "weir-net",
            "weir-policy",
            "weir-profile",
            "weir-region",
            "weir-sys",
        ],
    ),
    ("weir-charts", &["weir-command"]),
    (
        "weir-bench-cli",
        &[
            "weir-bench",
            "weir-charts",
            "weir-command",
            "weir-measure",
            "weir-model",
            "weir-policy",
            "weir-sys",
        ],
    ),
    ("weir-tests", &["weir-measure"]),
];
/// What tests of any crate may use.
const IN_TESTS: [&str; 2] = ["weir-measure", "weir-tests"];

/// The source of the library.
const LIBRARY: &str = "crates/weir/src/";
/// Its rooms from the bottom up: a room imports those before it, never those after it.
const ROOMS: [&str; 11] = [
    "error", "memory", "park", "connect", "flags", "pipe", "pool", "port", "inspect", "tokio",
    "parts",
];

/// Returns what `cargo metadata` reports about the members of the workspace at `root`.
///
/// If cargo cannot be run, or does not print JSON.
pub fn metadata(root: &Path) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// Returns the dependencies between members that the table does not allow, of every kind (build and
/// development too), and the members that it does not list.
pub fn arrows(root: &Path, metadata: &Value) -> Vec<TidyFault> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let members: Vec<&str> = packages.iter().filter_map(|member| member["name"].as_str()).collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let fault = |key: &str, text: String| {
            let file = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy();
            TidyFault::new(&file, line_of(manifest, key), "arrows", text)
        };
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            let text = format!("unknown crate `{name}`: add it to ARROWS in tests/src/tidy");
            faults.push(fault("name", text));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            let in_tests = kind == "dev" && IN_TESTS.contains(&target);
            if !members.contains(&target) || allowed.contains(&target) || in_tests {
                continue;
            }
            faults.push(fault(
                target,
                format!("{name} may not depend on {target} ({kind} dependency); see ARCHITECTURE"),
            ));
        }
    }
    faults
}

/// Returns the dependencies of members that no line of their source names: everybody who builds the
/// member would build them for nothing. Those of tests alone are left out, since a test may take in files
/// of other crates.
pub fn unused(root: &Path, metadata: &Value, texts: &Texts) -> Vec<TidyFault> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let mut faults = Vec::new();
    for package in list(&metadata["packages"]) {
        let manifest = of(&package, "manifest_path");
        let manifest = Path::new(&manifest);
        let place = manifest.strip_prefix(root).unwrap_or(manifest);
        let folder = place.parent().unwrap_or(Path::new(""));
        let source = |path: &str| {
            path.ends_with(".rs") && (Path::new(path).starts_with(folder.join("src")))
                || Path::new(path) == folder.join("build.rs")
        };
        for dependency in list(&package["dependencies"]) {
            let name = of(&dependency, "name");
            let called = library_name(metadata, &name);
            let called =
                dependency["rename"].as_str().map_or(called, |name| name.replace('-', "_"));
            let named = |text: &str| words(text).any(|word| word == called);
            if dependency["kind"] == "dev"
                || texts.iter().any(|(path, text)| source(path) && named(text))
            {
                continue;
            }
            let text = format!("no source of {} names {called}", of(&package, "name"));
            let line = line_of(manifest, &name);
            faults.push(TidyFault::new(&place.to_string_lossy(), line, "unused", text));
        }
    }
    faults
}

/// Returns the name by which source calls a crate.
fn library_name(metadata: &Value, package: &str) -> String {
    let members = metadata["packages"].as_array().into_iter().flatten();
    let member = members.into_iter().find(|member| member["name"] == package);
    let targets = member.and_then(|member| member["targets"].as_array()).into_iter().flatten();
    let library = targets.into_iter().find(|target| target["kind"][0] == "lib");
    let name = library.and_then(|target| target["name"].as_str()).unwrap_or(package);
    name.replace('-', "_")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// Returns the line of a manifest that begins with `key`, or the first line.
fn line_of(manifest: &Path, key: &str) -> usize {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let begins = |line: &str| {
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=', '\t']))
    };
    text.lines().position(begins).map_or(1, |index| index + 1)
}

/// Returns the imports from a room of the library into one above it, and the files that are in no
/// room.
pub fn rooms<'paths>(
    paths: impl IntoIterator<Item = &'paths str>,
    arrows: &Arrows,
) -> Vec<TidyFault> {
    let room_of = |path: &str| {
        let name =
            path.strip_prefix(LIBRARY)?.split('/').next()?.trim_end_matches(".rs").to_owned();
        (name != "lib").then(|| (ROOMS.iter().position(|room| *room == name), name))
    };
    let mut faults = Vec::new();
    let mut unknown = BTreeSet::new();
    for path in paths {
        if let Some((None, name)) = room_of(path)
            && unknown.insert(name.clone())
        {
            let text =
                format!("`{name}` is not a room of the library: see ROOMS in tests/src/tidy");
            faults.push(TidyFault::new(path, 1, "rooms", text));
        }
    }
    for ((from, to), (line, names)) in arrows {
        if let (Some((Some(low), below)), Some((Some(high), above))) = (room_of(from), room_of(to))
            && low < high
        {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let text = format!("{below} may not import {above} ({} of {to})", names.join(", "));
            faults.push(TidyFault::new(from, *line, "rooms", text));
        }
    }
    faults
}
