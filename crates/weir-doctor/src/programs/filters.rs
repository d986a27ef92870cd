//! Programs that pass on some of the lines that they read, and what may as well come behind them.

use super::has_short;
use crate::command::Command;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a command that works on each line by itself does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EachLine {
    /// It passes on the same lines in another order (`sort`).
    Keeps,
    /// It changes them: what a filter looks for may come from it.
    Changes,
}

/// Whether a command passes on some of the lines that it reads, as they are, each by what it is: a plain
/// `grep` on its input.
pub fn is_line_filter(label: &str) -> bool {
    /// None of these counts, numbers or cuts lines, nor has to do with what is around one.
    const PLAIN: &str = "vEFPGiwxaef";
    const LONG: [&str; 6] = [
        "--invert-match",
        "--fixed-strings",
        "--extended-regexp",
        "--ignore-case",
        "--line-buffered",
        "--color=never",
    ];
    let Some(command) = Command::read(label) else { return false };
    let is_plain = |word: &str| match word.strip_prefix('-') {
        None => true,
        Some(_) if word.starts_with("--") => LONG.contains(&word),
        Some(letters) => letters.chars().all(|letter| PLAIN.contains(letter)),
    };
    let redirects = command.redirects('<') || command.redirects('>');
    matches!(command.program(), "grep" | "egrep" | "fgrep")
        && !redirects
        && command.arguments().all(is_plain)
}

/// Returns what a command does to each line, if it surely knows nothing of the others.
pub fn each_line(label: &str) -> Option<EachLine> {
    let command = Command::read(label)?;
    let words: Vec<&str> = command.arguments().collect();
    if command.redirects('>') || has_short(&words, 'z') {
        return None;
    }
    match command.program() {
        "sort" => {
            let other = ['u', 'm', 'c', 'C', 'o', 'R'].iter().any(|flag| has_short(&words, *flag));
            // Of long options only these leave each line as it is.
            let same = |word: &&str| {
                ["--reverse", "--numeric-sort", "--key", "--field-separator", "--parallel"]
                    .iter()
                    .any(|option| word.starts_with(option))
            };
            let mut long = words.iter().filter(|word| word.starts_with("--"));
            (!other && long.all(same)).then_some(EachLine::Keeps)
        }
        "cut" | "rev" => Some(EachLine::Changes),
        // A set that may have the end of a line in it makes other lines.
        "tr" => {
            let ends = |word: &&str| word.contains(['\\', '[', '\n']) || word.starts_with("-c");
            (!words.iter().any(ends) && !has_short(&words, 'C')).then_some(EachLine::Changes)
        }
        "sed" => {
            let script = words.iter().find(|word| !word.starts_with('-'))?;
            let script = script.trim_matches(['\'', '"']);
            let substitutes = script.starts_with('s') && !script.contains([';', '\n']);
            let plain = |word: &&str| matches!(*word, "-E" | "-r" | "-e" | "-u");
            let options = words.iter().filter(|word| word.starts_with('-'));
            (substitutes && !script.contains("\\n") && options.into_iter().all(plain))
                .then_some(EachLine::Changes)
        }
        "awk" | "gawk" | "mawk" | "nawk" => {
            let program = awk_program(&command)?;
            (!has_memory(program)).then_some(EachLine::Changes)
        }
        _ => None,
    }
}

/// Returns the same command behind a `grep` for what each line must have for it, of an awk that looks at
/// no others: `grep -F 'x ' | awk '/x / && $2 > 5 { n++ } END { print n }'`.
pub fn with_grep(label: &str) -> Option<String> {
    let command = Command::read(label)?;
    let sought = sought(awk_program(&command)?)?;
    (!command.redirects('<')).then(|| format!("grep -F '{sought}' | {label}"))
}

/// Returns the program of an awk that stands in single quotes, if its options say no more than how lines
/// are divided.
fn awk_program<'a>(command: &Command<'a>) -> Option<&'a str> {
    let is_awk = matches!(command.program(), "awk" | "gawk" | "mawk" | "nawk");
    let words = || command.arguments();
    let mut at = 0;
    while let Some(word) = words().nth(at).filter(|word| word.starts_with('-')) {
        at += match word {
            "-F" | "-v" => 2,
            _ if word.starts_with("-F") || word.starts_with("-v") => 1,
            _ => return None,
        };
    }
    let others = ["RS", "IGNORECASE"].iter().any(|name| words().any(|word| word.contains(name)));
    let program = words().nth(at)?.strip_prefix('\'')?.strip_suffix('\'')?;
    (is_awk && !others && !program.contains('\'')).then_some(program)
}

/// Whether what an awk does with a line may depend on other lines: it counts, it keeps something, or it
/// works at the end.
fn has_memory(program: &str) -> bool {
    const WORDS: [&str; 10] =
        ["NR", "END", "getline", "++", "--", "rand", "next", "exit", "function", "systime"];
    if WORDS.iter().any(|word| program.contains(word)) {
        return true;
    }
    // Only fields of the line itself may be set, and how output is written.
    let bytes = program.as_bytes();
    let sets = |at: &usize| {
        let before = at.checked_sub(1).map_or(b' ', |at| bytes[at]);
        let after = bytes.get(at + 1).copied().unwrap_or(b' ');
        bytes[*at] == b'=' && after != b'=' && !b"=!<>".contains(&before)
    };
    let of_line = |at: usize| {
        let target = program[..at].trim_end();
        let begins = target.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &target[begins.map_or(0, |at| at + 1)..];
        begins.is_some_and(|at| bytes[at] == b'$') || matches!(name, "OFS" | "FS")
    };
    (0..bytes.len()).filter(sets).any(|at| !of_line(at))
}

/// Returns the text that each line has on which an awk works: its only rule begins with `/text/`, with
/// nothing in it that is a sign of a pattern.
fn sought(program: &str) -> Option<&str> {
    let program = after_begin(program.trim())?;
    let (text, rest) = program.strip_prefix('/')?.split_once('/')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-:,=@%\"<>".contains(c);
    if text.is_empty() || !text.chars().all(plain) {
        return None;
    }
    let (pattern, body) = rest.split_once('{').unwrap_or((rest, "}"));
    let pattern = pattern.trim();
    let is_and = pattern.is_empty() || pattern.starts_with("&&");
    let (_, end) = block(body)?;
    let end = end.trim_start();
    // At the end the last line that was read may be looked at, and how many there were.
    let at_end = end.is_empty() || end.starts_with("END") && !end.contains(['$', '/']);
    let ends = end.is_empty() || {
        let (head, last) = end.split_once('{')?;
        head.trim() == "END" && block(last)?.1.trim().is_empty()
    };
    let counts = ["NR", "NF", "getline", "#"].iter().any(|sign| program.contains(sign));
    let several = pattern.contains([',', '?', ';', '\n', '/']) || pattern.contains("||");
    (is_and && !several && at_end && ends && !counts).then_some(text)
}

/// Returns a program without the block that awk begins with.
fn after_begin(program: &str) -> Option<&str> {
    match program.strip_prefix("BEGIN") {
        None => Some(program),
        Some(rest) => Some(block(rest.trim_start().strip_prefix('{')?)?.1.trim_start()),
    }
}

/// Divides a text behind a brace at the brace that closes it. A brace or a quote in a pattern would be
/// taken for another: then there is none.
fn block(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '/' => return None,
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_grep_passes_on_lines_as_they_are() {
        for label in ["grep x", "LC_ALL=C grep -vE 'a|b'", "fgrep -f words", "grep -e x -e y"] {
            assert!(is_line_filter(label), "{label}");
        }
        for label in
            ["grep -c x", "grep -A3 x", "grep -on x", "grep x < f", "awk /x/", "grep -m1 x"]
        {
            assert!(!is_line_filter(label), "{label}");
        }
    }

    #[test]
    fn what_works_on_each_line_by_itself_may_come_behind_a_filter() {
        for label in ["sort -k2,2n", "LC_ALL=C sort -r"] {
            assert_eq!(each_line(label), Some(EachLine::Keeps), "{label}");
        }
        for label in [
            "cut -d' ' -f2",
            "tr a-z A-Z",
            "sed -E 's/a(b)/\\1/'",
            "awk '{ print $2 }'",
            "gawk -F'.*x-' '$2 == 5 { $1 = \"\"; print }'",
            "awk 'BEGIN { OFS = \",\" } { print $1, toupper($2) }'",
        ] {
            assert_eq!(each_line(label), Some(EachLine::Changes), "{label}");
        }
        for label in [
            "sort -u",
            "sort -o f",
            "tr -cs a-z '\\n'",
            "tr ' ' '\\n'",
            "sed -n '/a/,/b/p'",
            "sed 's/a/b/;N'",
            "awk '!seen[$0]++'",
            "awk '{ print $1 - last; last = $1 }'",
            "awk '{ s += $1 } END { print s }'",
            "awk -f x.awk",
            "uniq -c",
            "python3 x.py",
        ] {
            assert_eq!(each_line(label), None, "{label}");
        }
    }

    #[test]
    fn what_an_awk_looks_for_in_each_line_is_known_where_it_has_one_rule() {
        for (label, text) in [
            ("gawk -F'.*agent-' '/host7 / && $2 > 5 { n++ } END { print n + 0 }'", "host7 "),
            ("awk '/GET/ { print $1; if ($2 ~ \"}\") print }'", "GET"),
            ("awk 'BEGIN { x = 1 } /a-b/'", "a-b"),
        ] {
            assert_eq!(with_grep(label), Some(format!("grep -F '{text}' | {label}")));
        }
        for label in [
            "awk '/a.b/ { n++ }'",
            "awk '/a/ { n++ } /b/ { m++ }'",
            "awk '/a/, /b/ { print }'",
            "awk '/a/ || $2 { print }'",
            "awk '/a/ { n++ } END { print NR, n }'",
            "awk '/a/ { n++ } END { print $0 }'",
            "awk '/a/ { gsub(/}/, \"{\") } /b/ { gsub(/{/, \"}\") }'",
            "awk '!/a/ { print }'",
            "awk -v RS=x '/a/ { print }'",
            "awk '{ n++ }'",
            "awk '/a/ { n++ }' < f",
        ] {
            assert_eq!(with_grep(label), None, "{label}");
        }
    }
}
