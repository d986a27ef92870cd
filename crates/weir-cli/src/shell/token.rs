//! Tokens of a shell text: operators and words.

/// The characters of a token that are shown in a message.
const MAX_SHOWN: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    Op(&'static str),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind,
    pub start: usize,
    pub text: &'a str,
    /// A word with no quoting and no expansion in it: only such a word can be reserved.
    pub plain: bool,
}

impl<'a> Token<'a> {
    pub fn end(self) -> usize {
        self.start + self.text.len()
    }

    /// The text of a word that may be reserved, or nothing.
    pub fn reserved(self) -> &'a str {
        if self.kind == TokenKind::Word && self.plain { self.text } else { "" }
    }

    /// The token as a message names it.
    pub fn shown(self) -> String {
        if self.text == "\n" {
            return "end of line".to_owned();
        }
        let short: String = self.text.chars().take(MAX_SHOWN).collect();
        if short.len() < self.text.len() { format!("'{short}...'") } else { format!("'{short}'") }
    }
}

pub(super) fn is_name_start(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic()
}

pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(is_name_start)
        && text.bytes().all(|b| is_name_start(b) || b.is_ascii_digit())
}
