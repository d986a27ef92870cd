//! Rules about lines of text: lengths, ASCII, the opening comment, words that must not stay.

use super::Fault;
use super::source::{Kind, Source};

/// Longest Rust file, in lines.
pub const FILE_LINES: usize = 500;
/// Longest line of Rust, in characters.
pub const LINE_CHARS: usize = 100;
/// A string or an address from this length on excuses its line, if the rest of the line fits.
pub const LONG_PIECE_CHARS: usize = 40;

/// Words that mark work left over. Written in halves so that this file does not hold them.
const LEFTOVERS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX")];

/// Whether the rules for code hold for this file: Rust, TOML, shell, the justfile, CI, and
/// whatever begins with `#!/`.
pub fn is_code(path: &str, text: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".rs", ".toml", ".sh"].iter().any(|end| name.ends_with(end))
        || name == "justfile"
        || path.starts_with(".ci/")
        || text.starts_with("#!/")
}

/// ASCII only.
pub fn ascii(path: &str, text: &str) -> Vec<Fault> {
    let not_ascii = |(index, line): (usize, &str)| {
        let found = line.chars().find(|c| !c.is_ascii())?;
        let text = format!("{found:?} is not ASCII: write it out or as \\u{{{:x}}}", found as u32);
        Some(Fault::new(path, index + 1, "ascii", text))
    };
    text.lines().enumerate().filter_map(not_ascii).collect()
}

/// No word that marks work left over.
pub fn leftovers(path: &str, text: &str) -> Vec<Fault> {
    let left_over = |(index, line): (usize, &str)| {
        let word = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .find(|word| LEFTOVERS.contains(word))?;
        let text = format!("`{word}`: finish it, or say in words what is not done");
        Some(Fault::new(path, index + 1, "leftover", text))
    };
    text.lines().enumerate().filter_map(left_over).collect()
}

/// At most [`FILE_LINES`] lines.
pub fn file_length(path: &str, text: &str) -> Vec<Fault> {
    let count = text.lines().count();
    if count <= FILE_LINES {
        return Vec::new();
    }
    let text = format!("{count} lines, more than {FILE_LINES}: split the file by what it holds");
    vec![Fault::new(path, FILE_LINES + 1, "file-length", text)]
}

/// The first line is a `//!` comment that says what the file holds.
pub fn opening(path: &str, text: &str) -> Vec<Fault> {
    let first = text.lines().next().unwrap_or_default();
    if first.strip_prefix("//!").is_some_and(|rest| !rest.trim().is_empty()) {
        return Vec::new();
    }
    let text = "a file opens with a `//!` line that says what it holds";
    vec![Fault::new(path, 1, "opening", text)]
}

/// At most [`LINE_CHARS`] characters a line, but for a long string or address.
pub fn long_lines(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let length = line.chars().count();
        let piece = longest_piece(source, index + 1);
        let excused = piece >= LONG_PIECE_CHARS && length - piece <= LINE_CHARS;
        if length > LINE_CHARS && !excused {
            let text = format!("{length} characters, more than {LINE_CHARS}");
            faults.push(Fault::new(&source.path, index + 1, "line-length", text));
        }
    }
    faults
}

/// Length of the longest string literal, or of the longest address, on a line.
fn longest_piece(source: &Source, number: usize) -> usize {
    let line = source.line(number);
    let addresses = line
        .split_whitespace()
        .filter(|word| word.contains("://"))
        .map(|word| word.chars().count());
    let strings = source
        .tokens
        .iter()
        .filter(|token| token.kind == Kind::Literal && token.text.ends_with(['"', '#']))
        .filter(|token| (token.start.line..=token.end.line).contains(&number))
        .map(|token| {
            let whole = line.chars().count();
            let start = if token.start.line == number { token.start.column } else { 0 };
            let end = if token.end.line == number { token.end.column } else { whole };
            end - start
        });
    addresses.chain(strings).max().unwrap_or(0)
}
