//! A place in a shell text that moves on over what can be read without the grammar: blanks,
//! operators, names, escaped characters, and quotes in which nothing is expanded.

use super::fault::ScanStop;
use super::token::{Token, TokenKind, is_name_start};

/// Longest first, so that the first that fits is the right one.
const OPERATORS: [&str; 24] = [
    ";;&", "&>>", "<<<", "<<-", ";;", ";&", "&&", "&>", "||", "|&", "<<", ">>", "<&", ">&", "<>",
    ">|", "\n", ";", "&", "|", "(", ")", "<", ">",
];

pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub pos: usize,
}

impl<'a> Cursor<'a> {
    pub fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    pub fn byte_after(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos + 1).copied()
    }

    pub fn looking_at(&self, what: &str) -> bool {
        self.text.as_bytes()[self.pos..].starts_with(what.as_bytes())
    }

    /// What was read since `start`.
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.pos]
    }

    /// What is not yet read.
    pub fn rest(&self) -> &'a str {
        &self.text[self.pos..]
    }

    /// Skips this byte if it is the next.
    pub fn take(&mut self, byte: u8) -> bool {
        let is_next = self.byte() == Some(byte);
        self.pos += usize::from(is_next);
        is_next
    }

    /// Skips blanks, continued lines and a comment. A comment starts only where a token would.
    pub fn blanks(&mut self) {
        loop {
            match self.byte() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.looking_at("\\\n") => self.pos += 2,
                Some(b'#') => self.pos += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    /// Reads an operator, if one is here.
    pub fn operator(&mut self) -> Result<Option<Token<'a>>, ScanStop> {
        let (start, rest) = (self.pos, self.rest());
        let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) else {
            return Ok(None);
        };
        // The body of a here-document lies outside the command it belongs to: nothing to cut.
        if matches!(*op, "<<" | "<<-") {
            return Err(ScanStop::Whole);
        }
        let (text, rest) = rest.split_at(op.len());
        let after = rest.trim_start_matches("\\\n");
        // `|`, backslash, newline, `|` is the operator `||`. Leave this rare text whole.
        if after.len() < rest.len() && after.starts_with(['|', '&', ';', '<', '>', '(']) {
            return Err(ScanStop::Whole);
        }
        self.pos += op.len();
        Ok(Some(Token { kind: TokenKind::Op(op), start, text, plain: false }))
    }

    /// Reads the letters, digits and underscores of a name.
    pub fn name(&mut self) -> &'a str {
        let start = self.pos;
        while self.byte().is_some_and(|b| is_name_start(b) || b.is_ascii_digit()) {
            self.pos += 1;
        }
        self.since(start)
    }

    /// Skips a backslash and the character after it, if there is one.
    pub fn backslash(&mut self) {
        self.pos += 1;
        self.pos += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    /// Skips a backslash and the character after it. One at the very end of the text is a literal
    /// backslash to bash and an error to others.
    pub fn escaped(&mut self) -> Result<(), ScanStop> {
        if self.byte_after().is_none() {
            return Err(ScanStop::Whole);
        }
        self.backslash();
        Ok(())
    }

    pub fn single_quote(&mut self) -> Result<(), ScanStop> {
        match self.text[self.pos + 1..].find('\'') {
            Some(length) => self.pos += length + 2,
            None => return Err(ScanStop::fault(self.pos, "unterminated single quote")),
        }
        Ok(())
    }

    /// Skips the quote of `$'...'`, which begins at `at`.
    pub fn ansi_quote(&mut self, at: usize) -> Result<(), ScanStop> {
        self.pos += 1;
        loop {
            match self.byte() {
                None => return Err(ScanStop::fault(at, "unterminated $' quote")),
                Some(b'\'') => break,
                Some(b'\\') => self.escaped()?,
                Some(_) => self.pos += 1,
            }
        }
        self.pos += 1;
        Ok(())
    }
}
