//! Stages that need no shell: a simple command of literal words, with the quotes taken off as
//! the shell takes them off (POSIX.1-2024 XCU 2.2), ready to be executed.
//!
//! Whatever is not known to stand for itself in every shell is left to the shell. That costs one
//! `exec` and nothing else.

use super::Direct;
use super::builtins::{is_plain_variable, is_shell_word};

/// The stage as an environment and arguments, if it means the same without a shell.
pub(super) fn direct(source: &str, is_exported_function: &dyn Fn(&str) -> bool) -> Option<Direct> {
    let mut reader = WordReader { rest: source };
    let mut direct = Direct { env: Vec::new(), argv: Vec::new() };
    while let Some(word) = reader.word()? {
        match word.name_length {
            Some(length) if direct.argv.is_empty() => {
                let (name, value) = (&word.value[..length], &word.value[length + 1..]);
                if !is_plain_variable(name, value) {
                    return None;
                }
                direct.env.push((name.to_owned(), value.to_owned()));
            }
            _ => direct.argv.push(word.value),
        }
    }
    // `%1` is a job to a shell, and an empty name is an error that it words its own way.
    let command = direct.argv.first()?;
    let refused = command.is_empty() || command.starts_with('%') || is_shell_word(command);
    (!refused && !is_exported_function(command)).then_some(direct)
}

struct Word {
    value: String,
    /// For `name=value` with nothing quoted up to the `=`: the length of the name.
    name_length: Option<usize>,
}

struct WordReader<'a> {
    rest: &'a str,
}

/// The part of a word that has been read.
#[derive(Default)]
struct WordState {
    value: String,
    started: bool,
    name_length: Option<usize>,
    /// Something was quoted, or is not part of a name.
    beyond_name: bool,
    brace: bool,
    comma: bool,
}

impl WordReader<'_> {
    /// Reads the next word; `Some(None)` at the end, `None` if the word needs a shell.
    fn word(&mut self) -> Option<Option<Word>> {
        let mut state = WordState::default();
        while let Some(c) = self.take() {
            match c {
                ' ' | '\t' if !state.started => {}
                ' ' | '\t' => break,
                '\\' if self.rest.starts_with('\n') => {
                    self.take();
                }
                '\\' => state.quoted_char(self.take()?)?,
                '\'' => {
                    let length = self.rest.find('\'')?;
                    for quoted in self.rest[..length].chars() {
                        state.quoted_char(quoted)?;
                    }
                    state.quoted();
                    self.rest = &self.rest[length + 1..];
                }
                '"' => self.double_quote(&mut state)?,
                _ => state.unquoted_char(c, self.rest.chars().next())?,
            }
        }
        // Braces with nothing to choose from stay as they are, as in `xargs -I {}`.
        if state.brace && state.comma {
            return None;
        }
        let WordState { value, name_length, started, .. } = state;
        Some(started.then_some(Word { value, name_length }))
    }

    fn double_quote(&mut self, state: &mut WordState) -> Option<()> {
        state.quoted();
        loop {
            match self.take()? {
                '"' => return Some(()),
                '$' | '`' => return None,
                // Elsewhere in double quotes the backslash stays.
                '\\' => match self.take()? {
                    '\n' => {}
                    c @ ('$' | '`' | '"' | '\\') => state.quoted_char(c)?,
                    c => {
                        state.quoted_char('\\')?;
                        state.quoted_char(c)?;
                    }
                },
                c => state.quoted_char(c)?,
            }
        }
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }
}

impl WordState {
    fn quoted(&mut self) {
        self.started = true;
        self.beyond_name = true;
    }

    /// Control characters are refused even in quotes: shells use some of them inside.
    fn quoted_char(&mut self, c: char) -> Option<()> {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            return None;
        }
        self.quoted();
        self.value.push(c);
        Some(())
    }

    fn unquoted_char(&mut self, c: char, next: Option<char>) -> Option<()> {
        match c {
            'a'..='z' | 'A'..='Z' | '_' => {}
            '0'..='9' => self.beyond_name |= self.value.is_empty(),
            '=' => {
                // zsh expands a leading `=`.
                if !self.started {
                    return None;
                }
                if !self.beyond_name {
                    self.name_length = Some(self.value.len());
                }
                self.beyond_name = true;
            }
            // `name+=value` appends.
            '+' if next == Some('=') && !self.beyond_name => return None,
            '#' if !self.started => return None,
            '~' if !self.started || self.value.is_empty() => return None,
            '~' if self.value.ends_with([':', '=']) => return None,
            '{' if next == Some('}') => self.brace = true,
            '}' if self.value.ends_with('{') && self.brace => {}
            '{' | '}' => return None,
            '.' | ',' => self.comma |= c == ',' || next == Some('.'),
            '-' | '/' | ':' | '@' | '%' | '+' | '^' | '!' | '#' | ']' | '~' => {}
            c if !c.is_ascii() && !c.is_control() && !c.is_whitespace() => {}
            _ => return None,
        }
        self.beyond_name |= !matches!(c, 'a'..='z' | 'A'..='Z' | '_' | '0'..='9');
        self.started = true;
        self.value.push(c);
        Some(())
    }
}
