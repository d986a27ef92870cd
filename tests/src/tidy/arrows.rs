//! Which crate may depend on which, over the output of `cargo metadata`.
//!
//! `policy, sys <- weir <- net, bench, bridge, ffi <- cli`;
//! `doctor, sys <- measure <- net, bench, cli`; `policy <- model <- cli`. The
//! model never sees the library: both obey the policy, which is what makes them comparable.

use super::Fault;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What a crate may depend on inside the workspace.
enum May {
    /// These and no other.
    Only(&'static [&'static str]),
    /// Anything.
    All,
}

/// The table of arrows. A new crate is added here, by the one who makes it.
const ARROWS: [(&str, May); 17] = [
    ("weir-policy", May::Only(&[])),
    ("weir-doctor", May::Only(&[])),
    ("weir-sys", May::Only(&[])),
    ("weir-ring", May::Only(&["weir-policy"])),
    ("weir-measure-sys", May::Only(&["weir-sys"])),
    ("weir-bench-sys", May::Only(&["weir-measure-sys", "weir-sys"])),
    ("weir-cli-sys", May::Only(&["weir-measure-sys"])),
    // The tests of weir start a second process by weir-measure-sys.
    ("weir", May::Only(&["weir-measure-sys", "weir-policy", "weir-ring", "weir-sys"])),
    ("weir-measure", May::Only(&["weir-doctor", "weir-measure-sys", "weir-sys"])),
    ("weir-profile", May::Only(&["weir-doctor", "weir-measure-sys", "weir-sys"])),
    ("weir-net", May::Only(&["weir", "weir-measure-sys", "weir-profile", "weir-sys"])),
    (
        "weir-bench",
        May::Only(&[
            "weir",
            "weir-bench-sys",
            "weir-measure",
            "weir-measure-sys",
            "weir-net",
            "weir-profile",
            "weir-sys",
        ]),
    ),
    ("weir-bridge", May::Only(&["weir", "weir-policy", "weir-sys"])),
    ("weir-ffi", May::Only(&["weir", "weir-policy", "weir-sys"])),
    ("weir-model", May::Only(&["weir-policy"])),
    ("weir-cli", May::All),
    ("weir-tests", May::All),
];

/// What `cargo metadata` says of the members of the workspace at `root`.
///
/// # Panics
/// When cargo cannot be run, or what it prints is not JSON.
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

/// Dependencies between members that the table does not allow, of whatever kind (build and
/// development too), and members it does not know.
pub fn arrows(root: &Path, metadata: &Value) -> Vec<Fault> {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let members: Vec<&str> = packages.iter().filter_map(|member| member["name"].as_str()).collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let fault = |key: &str, text: String| {
            let file = manifest.strip_prefix(root).unwrap_or(manifest).to_string_lossy();
            Fault::new(&file, line_of(manifest, key), "arrows", text)
        };
        let Some((_, may)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            let text = format!("unknown crate `{name}`: add it to ARROWS in tests/src/tidy");
            faults.push(fault("name", text));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = dependency["name"].as_str().unwrap_or_default();
            if !members.contains(&target) || allows(may, target) {
                continue;
            }
            let kind = dependency["kind"].as_str().unwrap_or("normal");
            faults.push(fault(
                target,
                format!("{name} may not depend on {target} ({kind} dependency); see ARCHITECTURE"),
            ));
        }
    }
    faults
}

fn allows(may: &May, target: &str) -> bool {
    match may {
        May::Only(list) => list.contains(&target),
        May::All => true,
    }
}

/// The line of a manifest that begins with `key`, else the first.
fn line_of(manifest: &Path, key: &str) -> usize {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let begins = |line: &str| {
        line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=', '\t']))
    };
    text.lines().position(begins).map_or(1, |index| index + 1)
}
