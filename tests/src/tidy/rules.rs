//! Rules about single files: what a line, a file, the root of a crate and a test may hold.
//!
//! What clippy can check is in `Cargo.toml` under `workspace.lints`, not here: comments at
//! `unsafe`, lengths of functions, macros for missing code.

use super::TidyFault;
use super::source::SourceFile;

/// Longest line of Rust, in characters.
pub const LINE_CHARS: usize = 100;
/// The folders of the products, which hold their crates.
const PRODUCTS: [&str; 4] = ["crates", "bench", "net", "reports"];
/// Words that mark unfinished work, written in halves so that this file does not hold them.
const LEFTOVERS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];
/// Crates whose roots have `#![no_std]`, which keeps clock and system out of them.
const NO_STD: [&str; 2] = ["weir-policy", "weir-doctor"];
/// The modules, beside the crates that [`may_be_unsafe`] names, that may hold `unsafe`.
const UNSAFE_MODULES: [&str; 2] = ["memory", "sys"];
/// Calls that let time pass instead of waiting for an event.
const SLEEPS: [&str; 3] = ["sleep", "nanosleep", "clock_nanosleep"];
/// Prefixes of paths on somebody's machine; after the last two comes the name of a person.
const MACHINE: [&str; 4] = ["/builds/", "/root/", "/home/", "/Users/"];
/// The only code of the core that makes paths of processes in `/proc`, and how such a path begins.
const PROC_ROOM: &str = "crates/weir-sys/src/proc/";
const PROC_PATH: &str = concat!("\"/pr", "oc/{");
/// Names that may follow: those of examples.
const EXAMPLE_NAMES: [&str; 5] = ["", "alice", "me", "user", "you"];

/// Whether the rules for code apply to this file: Rust, TOML, shell, the justfile, CI, and whatever
/// begins with `#!/`.
pub fn is_code(path: &str, text: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".rs", ".toml", ".sh"].iter().any(|end| name.ends_with(end))
        || name == "justfile"
        || path.starts_with(".ci/")
        || text.starts_with("#!/")
}

/// Returns what is wrong with the lines of a text; some rules apply only to code.
pub fn lines(path: &str, text: &str) -> Vec<TidyFault> {
    let mut faults = Vec::new();
    let code = is_code(path, text);
    for (index, line) in text.lines().enumerate() {
        let mut fault = |rule, text| faults.push(TidyFault::new(path, index + 1, rule, text));
        if let Some(found) = machine_path(line).filter(|_| !path.starts_with("tests/src/tidy/")) {
            fault(
                "machine-path",
                format!("`{found}` is a path of one machine: use a relative one"),
            );
        }
        if let Some(found) = line.chars().find(|c| code && !c.is_ascii()) {
            let escape = found.escape_unicode();
            fault("ascii", format!("{found:?} is not ASCII: write it out or as {escape}"));
        }
        let of_core = path.starts_with("crates/") && path.contains("/src/");
        if of_core && !path.starts_with(PROC_ROOM) && line.contains(PROC_PATH) {
            fault("proc", String::from("weir_sys::proc reads /proc: call it, or add to it"));
        }
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if let Some(word) = words.find(|word| code && LEFTOVERS.contains(word)) {
            fault("leftover", format!("`{word}`: finish it, or say in words what is not done"));
        }
    }
    faults
}

/// Returns the path of somebody's machine that a line holds: below a home, root's home or a build
/// machine's work directory.
fn machine_path(line: &str) -> Option<String> {
    MACHINE.iter().enumerate().find_map(|(place, begin)| {
        line.match_indices(begin).find_map(|(index, _)| {
            let before = line[..index].chars().next_back();
            // The middle of a longer path.
            if before.is_some_and(|c| c.is_alphanumeric() || "_-.~})".contains(c)) {
                return None;
            }
            let rest = &line[index + begin.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"_-.".contains(c));
            let name = &rest[..end.unwrap_or(rest.len())];
            if place < 2 {
                return Some((*begin).to_owned());
            }
            let below = rest[name.len()..].starts_with('/') && !EXAMPLE_NAMES.contains(&name);
            below.then(|| format!("{begin}{name}/"))
        })
    })
}

/// The `//!` line that a Rust file opens with.
pub fn file(path: &str, text: &str) -> Vec<TidyFault> {
    let mut faults = Vec::new();
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_none_or(|rest| rest.trim().is_empty()) {
        let text = "a file opens with a `//!` line that says what it holds";
        faults.push(TidyFault::new(path, 1, "opening", text));
    }
    faults
}

/// The C boundary: a crate in whose functions any pointer may come from C.
const C_BOUNDARY: (&str, &str) = ("bindings/c/", "weir-c");

/// Whether a crate may hold `unsafe` anywhere.
fn may_be_unsafe(name: &str) -> bool {
    name.ends_with("-sys") || name == C_BOUNDARY.1
}

/// Whether a file inside a crate belongs to a module that may hold `unsafe`. Tests fork.
fn is_unsafe_module(file: &str) -> bool {
    let mut parts = file.trim_end_matches(".rs").split('/');
    match parts.next() {
        Some("src") => parts.next().is_some_and(|module| UNSAFE_MODULES.contains(&module)),
        first => first == Some("tests"),
    }
}

/// Returns the crate that a file belongs to and the path inside it: a crate is in a product's
/// folder, or is the C boundary.
pub fn crate_of(path: &str) -> Option<(&str, &str)> {
    if let Some(file) = path.strip_prefix(C_BOUNDARY.0) {
        return Some((C_BOUNDARY.1, file));
    }
    let rest = PRODUCTS.iter().find_map(|product| path.strip_prefix(product)?.strip_prefix('/'))?;
    rest.split_once('/').filter(|(name, _)| *name == "weir" || name.starts_with("weir-"))
}

/// Checks that the roots of the crates have the attributes that make the compiler enforce rules.
pub fn headers(path: &str, text: &str) -> Vec<TidyFault> {
    let Some((name, file)) = crate_of(path) else { return Vec::new() };
    let Some(file) = file.strip_prefix("src/") else { return Vec::new() };
    let root = matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/");
    let safe = name != "weir" && !may_be_unsafe(name);
    // A crate with such a module allows `unsafe` there and denies it elsewhere.
    let denied = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"];
    let demands = [(safe, &denied[..]), (NO_STD.contains(&name), &["#![no_std]"])];
    let missing = demands.iter().filter(|(demanded, headers)| {
        root && *demanded && !text.lines().any(|line| headers.contains(&line))
    });
    missing
        .map(|(_, headers)| {
            let text = format!("the root of {name} must say `{}`", headers[0]);
            TidyFault::new(path, 1, "header", text)
        })
        .collect()
}

/// Checks the length of lines ([`LINE_CHARS`]; longer ones with a string or an address are allowed,
/// because rustfmt cannot break them, and documentation, which the parser gives as strings), the
/// places of `unsafe`, ignored tests, sleeps in tests without a reason, and `std` in the crates that
/// do without.
pub fn tokens(source: &SourceFile, text: &str) -> Vec<TidyFault> {
    let lines: Vec<&str> = text.lines().collect();
    let path = source.path.as_str();
    let of_crate = crate_of(path).map(|(name, _)| name);
    // A binding is a crate of its own workspace.
    let binding = path.strip_prefix("bindings/").and_then(|rest| rest.split_once('/'));
    let unsafe_here = crate_of(path)
        .or(binding)
        .is_some_and(|(name, file)| may_be_unsafe(name) || is_unsafe_module(file));
    let pure = of_crate.is_some_and(|name| NO_STD.contains(&name));
    let mut faults = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let length = line.chars().count();
        let excused = line.contains("://") || source.strings.contains(&(index + 1));
        if length > LINE_CHARS && !excused {
            let text = format!("{length} characters, more than {LINE_CHARS}");
            faults.push(TidyFault::new(path, index + 1, "line-length", text));
        }
    }
    for (index, token) in source.tokens.iter().enumerate() {
        let mut fault =
            |rule, text: &str| faults.push(TidyFault::new(path, token.line, rule, text));
        if token.word && token.text == "unsafe" && !unsafe_here {
            let text = "`unsafe` outside the modules `sys` and `memory` and the C boundary";
            fault("unsafe-place", text);
        }
        if source.reads(index, &["#", "["]) {
            let inside = &source.tokens[index + 2..source.close_of(index + 1)];
            let ignored = inside.iter().any(|token| token.text == "ignore");
            let attribute = inside.first().map_or("", |token| token.text.as_str());
            if ignored && ["ignore", "cfg_attr"].contains(&attribute) {
                fault(
                    "ignore",
                    "an ignored test: make it run, or let it skip itself and print why",
                );
            }
        }
        // A call, not a method of something else and not a definition.
        let before = index.checked_sub(1).map_or("", |before| source.tokens[before].text.as_str());
        let called = source.reads(index + 1, &["("]) && ![".", "fn"].contains(&before);
        if token.test && called && SLEEPS.contains(&token.text.as_str()) {
            let above = lines[..token.line - 1].iter().rev();
            let notes = above.take_while(|line| line.trim_start().starts_with("//"));
            let mut notes = notes.chain([&lines[token.line - 1]]);
            if !notes.any(|line| line.split_once("// sleep: ").is_some()) {
                fault(
                    "sleep",
                    "a test waits for what happens, not for time to pass; \
                     if time is the point, say so: `// sleep: <reason>`",
                );
            }
        }
        if pure && !token.test && source.reads(index, &["extern", "crate", "std"]) {
            fault("pure", "`std` in a crate of decisions: pass facts and the time in");
        }
    }
    faults
}
