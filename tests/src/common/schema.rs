//! Checks documents of JSON against the schemas in `docs/schemas`.

use jsonschema::Validator;
use serde_json::Value;
use std::path::PathBuf;

/// Where the schemas are.
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
}

/// The file of a schema: that of `weir.stat/1` is `weir.stat.1.json`.
pub fn file(name: &str) -> PathBuf {
    directory().join(format!("{}.json", name.replace('/', ".")))
}

/// The schema of this name.
pub fn read(name: &str) -> Value {
    let path = file(name);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that this is a document of this schema, and begins as every document does.
pub fn check(name: &str, document: &Value) {
    let keys: Vec<&String> = document.as_object().expect("an object").keys().take(2).collect();
    assert_eq!(keys, ["schema", "weir_version"], "how a document begins");
    assert_eq!(document["schema"], name);
    assert_eq!(document["weir_version"], env!("CARGO_PKG_VERSION"));
    let faults: Vec<String> = validator(name)
        .iter_errors(document)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "not {name}:\n{}\n{document:#}", faults.join("\n"));
}

/// Asserts it of the only document in a text, and returns that document.
pub fn check_text(name: &str, text: &[u8]) -> Value {
    let document = serde_json::from_slice(text);
    let document =
        document.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)));
    check(name, &document);
    document
}

fn validator(name: &str) -> Validator {
    let schema = read(name);
    jsonschema::draft202012::new(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}
