//! Simple commands as typed: their words, and the same command changed.
//!
//! Only what is surely one command is read: a program that stands as a plain word, its arguments
//! and redirections. Anything else (a list, a group, a substitution, a comment) is `None`, so that
//! no advice rewrites what it does not understand.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command<'a> {
    label: &'a str,
    /// Where the words from the program on stand.
    words: Vec<Range<usize>>,
}

impl<'a> Command<'a> {
    /// Reads a command; `None` if it may be more than one simple command.
    pub fn read(label: &'a str) -> Option<Command<'a>> {
        let mut words = spans(label)?;
        let assignments = words.iter().take_while(|span| is_assignment(&label[(*span).clone()]));
        words.drain(..assignments.count());
        let command = Command { label, words };
        let program = command.word(0)?;
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+-/".contains(&b);
        (program.bytes().all(plain) && !is_keyword(program)).then_some(command)
    }

    /// Returns the program's name without its directory.
    pub fn program(&self) -> &'a str {
        let program = self.word(0).unwrap_or_default();
        program.rsplit('/').next().unwrap_or(program)
    }

    /// Returns a word as typed: 0 is the program.
    pub fn word(&self, at: usize) -> Option<&'a str> {
        self.words.get(at).map(|span| &self.label[span.clone()])
    }

    /// Returns the words behind the program.
    pub fn arguments(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.words.iter().skip(1).map(|span| &self.label[span.clone()])
    }

    /// Returns the position of the first word that is this option: `-O`, also with its value in the
    /// same word (`-Ob`); `--output-type`, also with `=`.
    pub fn option(&self, names: &[&str]) -> Option<usize> {
        let is = |word: &str, name: &&str| match name.strip_prefix("--") {
            Some(_) => word
                .strip_prefix(*name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('=')),
            None => word.starts_with(*name) && !word.starts_with("--"),
        };
        (1..self.words.len())
            .find(|at| self.word(*at).is_some_and(|word| names.iter().any(|name| is(word, name))))
    }

    /// Whether a one-letter option is given, alone or in a group as in `-qL`.
    pub fn has_letter(&self, letter: char) -> bool {
        let group = |word: &str| word.starts_with('-') && !word.starts_with("--");
        self.arguments().any(|word| group(word) && word.contains(letter))
    }

    /// Whether a word redirects its input or output.
    pub fn redirects(&self, sign: char) -> bool {
        self.arguments().any(|word| unquoted(word).contains(sign))
    }

    /// Returns the command with words from `at` on, `count` of them, replaced by `text`.
    pub fn with(&self, at: usize, count: usize, text: &str) -> String {
        let start = self.words.get(at).map_or(self.label.len(), |span| span.start);
        let last = self.words.get((at + count).saturating_sub(1));
        let end = if count == 0 { start } else { last.map_or(self.label.len(), |span| span.end) };
        format!("{}{text}{}", &self.label[..start], &self.label[end..])
    }

    /// Returns the command with `text` as a word behind the one at `at`.
    pub fn behind(&self, at: usize, text: &str) -> String {
        let end = self.words.get(at).map_or(self.label.len(), |span| span.end);
        format!("{} {text}{}", &self.label[..end], &self.label[end..])
    }
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let first = name.bytes().next();
    first.is_some_and(|b| b == b'_' || b.is_ascii_alphabetic())
        && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 15] = [
        "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
        "function", "select", "time",
    ];
    KEYWORDS.contains(&word)
}

/// Returns the words of a text, by blanks outside of quotes; `None` where a sign of the shell
/// stands that makes it more than one command.
fn spans(label: &str) -> Option<Vec<Range<usize>>> {
    let (mut words, mut begun, mut quote, mut escaped) = (Vec::new(), None, None, false);
    let bytes = label.as_bytes();
    for (at, byte) in label.bytes().enumerate() {
        let outside = quote.is_none() && !escaped;
        let redirects = |n: usize| matches!(bytes.get(n), Some(b'<' | b'>'));
        let joined = byte == b'&' && (redirects(at + 1) || redirects(at.wrapping_sub(1)));
        if outside && matches!(byte, b';' | b'|' | b'&' | b'(' | b')' | b'\n' | b'#') && !joined {
            return None;
        }
        if byte == b'`' && quote != Some(b'\'') && !escaped {
            return None;
        }
        if outside && (byte == b' ' || byte == b'\t') {
            words.extend(begun.take().map(|from: usize| from..at));
            continue;
        }
        begun.get_or_insert(at);
        if escaped {
            escaped = false;
        } else if byte == b'\\' && quote != Some(b'\'') {
            escaped = true;
        } else if quote == Some(byte) {
            quote = None;
        } else if quote.is_none() && (byte == b'\'' || byte == b'"') {
            quote = Some(byte);
        }
    }
    words.extend(begun.map(|from| from..label.len()));
    let braces = |span: &Range<usize>| matches!(&label[span.clone()], "{" | "!");
    (quote.is_none() && !escaped && !words.iter().any(braces)).then_some(words)
}

/// Returns a word without its quoted parts.
fn unquoted(word: &str) -> String {
    let mut quote = None;
    let keeps = |c: &char| match (quote, *c) {
        (Some(open), c) if open == c => {
            quote = None;
            false
        }
        (Some(_), _) => false,
        (None, c @ ('\'' | '"')) => {
            quote = Some(c);
            false
        }
        _ => true,
    };
    word.chars().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_command_is_read_by_its_words() {
        let command = Command::read("LC_ALL=C /usr/bin/sort -k2 'a b'  -S1G 2>/dev/null").unwrap();
        assert_eq!(command.program(), "sort");
        assert_eq!(command.word(2), Some("'a b'"));
        assert_eq!(command.option(&["-S", "--buffer-size"]), Some(3));
        assert_eq!(command.option(&["-T"]), None);
        assert!(command.redirects('>') && !command.redirects('<'));
        assert_eq!(
            command.behind(0, "-u"),
            "LC_ALL=C /usr/bin/sort -u -k2 'a b'  -S1G 2>/dev/null"
        );
        assert_eq!(command.with(1, 1, "-n"), "LC_ALL=C /usr/bin/sort -n 'a b'  -S1G 2>/dev/null");
    }

    #[test]
    fn signs_within_quotes_are_arguments() {
        let command = Command::read("awk '{ print $1; } # x | y' f").unwrap();
        assert_eq!(command.word(1), Some("'{ print $1; } # x | y'"));
        assert!(!Command::read("grep '<' f").unwrap().redirects('<'));
        assert!(Command::read("grep x &>f").is_some() && Command::read("cat 2>&1 <f").is_some());
    }

    #[test]
    fn what_may_be_more_than_a_command_is_left_alone() {
        for label in [
            "",
            "a; b",
            "a && b",
            "(a)",
            "{ a; }",
            "cat <(b)",
            "echo `a`",
            "echo $(a)",
            "a & b",
            "while read x",
            "! a",
            "cat 'f",
            "a\\",
            "a # b",
            "$x y",
            "\"a b\" c",
            "a \"`b`\"",
        ] {
            assert_eq!(Command::read(label), None, "{label}");
        }
    }
}
