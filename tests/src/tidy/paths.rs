//! No path of somebody's machine in any tracked text.

use super::Fault;

/// Directories that name the machine somebody worked on.
const MACHINE: [&str; 2] = ["/builds/", "/root/"];
/// Directories whose next name is a person's.
const HOMES: [&str; 2] = ["/home/", "/Users/"];
/// Whose home may be named: nobody's, as examples do.
const EXAMPLE_NAMES: [&str; 4] = ["alice", "me", "user", "you"];

/// Where such a path is meant: beginning of the file's path, the path in the text ("" for all of
/// them), and the reason.
const ALLOWED: [(&str, &str, &str); 1] = [("tests/src/tidy/", "", "the rule and its samples")];

/// Paths below a home, below root's home or below a build machine's work directory.
pub fn machine_paths(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for found in found_in(line) {
            let allowed = ALLOWED.iter().any(|(file, needle, _)| {
                path.starts_with(file) && (needle.is_empty() || found == *needle)
            });
            if !allowed {
                let text = format!("`{found}` is a path of one machine: use a relative one");
                faults.push(Fault::new(path, index + 1, "machine-path", text));
            }
        }
    }
    faults
}

/// The beginnings of such paths in a line.
fn found_in(line: &str) -> Vec<String> {
    let mut found: Vec<String> = MACHINE
        .iter()
        .filter(|needle| absolute(line, needle).next().is_some())
        .map(|needle| (*needle).to_owned())
        .collect();
    for home in HOMES {
        for rest in absolute(line, home) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
            let name = &rest[..end.unwrap_or(rest.len())];
            let below = rest[name.len()..].starts_with('/');
            if below && !name.is_empty() && !EXAMPLE_NAMES.contains(&name) {
                found.push(format!("{home}{name}/"));
            }
        }
    }
    found
}

/// What follows each `needle` that begins a path, rather than being the middle of one.
fn absolute<'line>(line: &'line str, needle: &str) -> impl Iterator<Item = &'line str> {
    line.match_indices(needle).filter_map(move |(index, needle)| {
        let before = line[..index].chars().next_back();
        let inside = before.is_some_and(|c| c.is_alphanumeric() || "_-.~})".contains(c));
        (!inside).then(|| &line[index + needle.len()..])
    })
}
