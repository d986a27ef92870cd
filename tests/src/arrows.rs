//! Which crate may depend on which: `policy, sys <- weir <- measure, net, bridge, ffi <- cli` and
//! `policy <- model <- cli`.

use serde_json::Value;

/// Crates of the workspace, and those of them each may depend on.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("weir-policy", &[]),
    ("weir-sys", &[]),
    ("weir", &["weir-policy", "weir-sys"]),
    ("weir-measure", &["weir", "weir-policy", "weir-sys"]),
    ("weir-net", &["weir", "weir-measure", "weir-policy", "weir-sys"]),
    ("weir-bridge", &["weir", "weir-policy", "weir-sys"]),
    ("weir-ffi", &["weir", "weir-policy", "weir-sys"]),
    // The model obeys the same policy as the library and never depends on it.
    ("weir-model", &["weir-policy"]),
    ("weir-cli", &["*"]),
    ("weir-tests", &["*"]),
];

/// Complaints about the output of `cargo metadata --no-deps`.
pub fn complaints(metadata: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or("").to_owned();
    let members: Vec<String> = list(&metadata["packages"]).iter().map(name).collect();
    let mut found = Vec::new();
    for package in list(&metadata["packages"]) {
        let from = name(&package);
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == from) else {
            found.push(format!("{from}: unknown crate; give it a place in tests/src/arrows.rs"));
            continue;
        };
        for to in list(&package["dependencies"]).iter().map(name) {
            let inside = members.contains(&to);
            if inside && !allowed.contains(&"*") && !allowed.contains(&to.as_str()) {
                found.push(format!("{from} must not depend on {to}: arrows point one way"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_arrow_against_the_grain_is_found() {
        let package = |name: &str, to: &str| json!({"name": name, "dependencies": [{"name": to}]});
        let good =
            json!({"packages": [package("weir-sys", "libc"), package("weir-cli", "weir-sys")]});
        assert_eq!(complaints(&good), Vec::<String>::new());
        let bad =
            json!({"packages": [package("weir-sys", "weir-cli"), package("weir-cli", "libc")]});
        assert_eq!(complaints(&bad).len(), 1);
        let unknown = json!({"packages": [package("weir-new", "libc")]});
        assert!(complaints(&unknown)[0].contains("unknown crate"));
    }
}
