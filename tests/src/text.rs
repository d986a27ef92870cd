//! Rules that need no parser: lengths, ASCII, words.

use std::path::Path;

/// Longest file, in lines.
pub const FILE_LINES: usize = 500;
/// Longest line, in characters; one that holds a long string or address may be longer.
pub const LINE_CHARS: usize = 100;

/// Marks of work not done.
const UNDONE: [&str; 5] = ["todo!(", "unimplemented!(", "FIXME", "XXX", "#[ignore"];

/// Complaints about a file of any kind that the project writes.
pub fn complaints(path: &Path, text: &str) -> Vec<String> {
    let name = path.display();
    let mut found = Vec::new();
    let source = is_source(path);
    let rust = path.extension().is_some_and(|ext| ext == "rs");
    if rust && text.lines().count() > FILE_LINES {
        found.push(format!("{name}: {} lines, at most {FILE_LINES}", text.lines().count()));
    }
    if rust && !text.starts_with("//!") {
        found.push(format!("{name}:1: a file opens with `//!` and what it holds"));
    }
    // This file names the words it looks for.
    let names_the_words = path.ends_with("tests/src/text.rs");
    for (number, line) in text.lines().enumerate() {
        let at = format!("{name}:{}", number + 1);
        if source && !line.is_ascii() && !line.contains('\u{2501}') {
            found.push(format!("{at}: not ASCII"));
        }
        let long_string = line.contains('"') || line.contains("http");
        if rust && line.chars().count() > LINE_CHARS && !long_string {
            found.push(format!("{at}: longer than {LINE_CHARS} characters"));
        }
        if names_the_words {
            continue;
        }
        if rust && let Some(word) = UNDONE.iter().find(|word| line.contains(**word)) {
            found.push(format!("{at}: {word} stands for work not done"));
        }
        if let Some(place) = machine_path(line) {
            found.push(format!("{at}: {place} is a path of some machine"));
        }
        if rust && line.contains("sleep(Duration") && !sleeps_with_reason(text, number) {
            found.push(format!("{at}: a sleep without `// sleep:` and its reason above it"));
        }
    }
    found
}

fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    matches!(extension, "rs" | "toml" | "sh") || matches!(name, "justfile" | "run" | "first-run")
}

fn machine_path(line: &str) -> Option<&'static str> {
    let homes = ["/root/", "/home/runner", "/work/", "/Users/"];
    homes.into_iter().find(|home| line.contains(home))
}

fn sleeps_with_reason(text: &str, number: usize) -> bool {
    let above = text.lines().take(number + 1).collect::<Vec<_>>();
    above.iter().rev().take(3).any(|line| line.contains("// sleep:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Vec<String> {
        complaints(Path::new(name), text)
    }

    #[test]
    fn a_good_file_has_no_complaint() {
        assert_eq!(of("a.rs", "//! Holds a.\nfn a() {}\n"), Vec::<String>::new());
        assert_eq!(of("notes.md", "caf\u{e9}\n"), Vec::<String>::new());
    }

    #[test]
    fn each_rule_has_something_it_finds() {
        assert!(of("a.rs", "fn a() {}\n")[0].contains("a.rs:1: a file opens with"));
        assert!(of("a.rs", "//! A.\n// caf\u{e9}\n")[0].contains("a.rs:2: not ASCII"));
        assert!(of("a.rs", &format!("//! A.\n{}", "x\n".repeat(500)))[0].contains("501 lines"));
        assert!(of("a.rs", &format!("//! A.\n// {}\n", "x".repeat(99)))[0].contains("longer"));
        assert!(of("a.rs", "//! A.\nfn a() { todo!() }\n")[0].contains("todo!("));
        assert!(of("a.md", "see /root/x\n")[0].contains("path of some machine"));
        assert!(of("a.rs", "//! A.\nsleep(Duration::ZERO);\n")[0].contains("without `// sleep:`"));
    }
}
