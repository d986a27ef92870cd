//! The scanner: a shell text as operators and words, with their places in bytes.
//!
//! A word is skipped over, never taken apart: all that matters is where it ends, which takes
//! knowing every way of quoting and nesting. What is inside `$(...)` is read by the grammar
//! (grammar.rs), since only that can tell the `)` of a case pattern from the closing one.
//! The rules are those of POSIX.1-2024 XCU 2.3 and of bash 5.2's parse.y where it goes further.
//! Where they leave room for doubt the scanner gives up (`Stop::Whole`) and the shell decides.

use super::fault::ScanStop;

/// Levels of nesting the scanner follows; a deeper text is left whole to the shell. It keeps
/// the recursion here within any stack, and the time of brush-parser within bounds: of a `case`
/// in a `case` it reads each level twice, which took 0.7 ms at depth 8 and 180 ms at depth 16.
pub(super) const MAX_DEPTH: usize = 10;

/// Digits of a file descriptor that surely fit; brush-parser 0.4 unwraps the conversion.
pub(super) const MAX_DESCRIPTOR_DIGITS: usize = 9;

/// The characters of an unexpected word that are shown in a message.
const MAX_SHOWN: usize = 24;

/// Longest first, so that the first that fits is the right one.
const OPERATORS: [&str; 24] = [
    ";;&", "&>>", "<<<", "<<-", ";;", ";&", "&&", "&>", "||", "|&", "<<", ">>", "<&", ">&", "<>",
    ">|", "\n", ";", "&", "|", "(", ")", "<", ">",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Word,
    Op(&'static str),
    End,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
    /// A word with no quoting and no expansion in it: only such a word can be reserved.
    pub plain: bool,
}

pub(super) struct Scanner<'a> {
    pub text: &'a str,
    pub pos: usize,
    /// Where the last token taken ends; the end of a stage is found with it.
    pub last_end: usize,
    /// The text speaks of the process of the shell itself: `$$`, `$!`, `$?`, `$-`, `$_`.
    pub own_process: bool,
    depth: usize,
    ahead: Option<Token>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, pos: 0, last_end: 0, own_process: false, depth: 0, ahead: None }
    }

    pub fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn byte_at(&self, pos: usize) -> Option<u8> {
        self.text.as_bytes().get(pos).copied()
    }

    fn looking_at(&self, what: &str) -> bool {
        self.text.as_bytes()[self.pos..].starts_with(what.as_bytes())
    }

    pub fn enter(&mut self) -> Result<(), ScanStop> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(ScanStop::Whole) } else { Ok(()) }
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The next token, left in place. It is kept, so no word is ever scanned twice: scanning
    /// twice at each of the levels of nesting would cost 2 to the power of the depth.
    pub fn peek(&mut self) -> Result<Token, ScanStop> {
        match self.ahead {
            Some(token) => Ok(token),
            None => {
                let token = self.token()?;
                self.ahead = Some(token);
                Ok(token)
            }
        }
    }

    pub fn next(&mut self) -> Result<Token, ScanStop> {
        let token = self.peek()?;
        self.ahead = None;
        if token.kind != TokenKind::End {
            self.last_end = token.end;
        }
        Ok(token)
    }

    fn token(&mut self) -> Result<Token, ScanStop> {
        self.blanks();
        let start = self.pos;
        let process = self.looking_at("<(") || self.looking_at(">(");
        if self.byte().is_none() {
            return Ok(Token { kind: TokenKind::End, start, end: start, plain: false });
        }
        if !process && let Some(token) = self.operator()? {
            return Ok(token);
        }
        self.word()
    }

    /// Skips blanks, continued lines and a comment. A comment starts only where a token would.
    fn blanks(&mut self) {
        loop {
            match self.byte() {
                Some(b' ' | b'\t') => self.pos += 1,
                Some(b'\\') if self.looking_at("\\\n") => self.pos += 2,
                Some(b'#') => {
                    let rest = &self.text[self.pos..];
                    self.pos += rest.find('\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    fn operator(&mut self) -> Result<Option<Token>, ScanStop> {
        let start = self.pos;
        let rest = &self.text[start..];
        let Some(op) = OPERATORS.iter().find(|op| rest.starts_with(**op)) else {
            return Ok(None);
        };
        // The body of a here-document lies outside the command it belongs to: nothing to cut.
        if matches!(*op, "<<" | "<<-") {
            return Err(ScanStop::Whole);
        }
        let end = start + op.len();
        let mut after = end;
        while self.text[after..].starts_with("\\\n") {
            after += 2;
        }
        // `|`, backslash, newline, `|` is the operator `||`. Nobody writes that; let it be.
        if after > end
            && matches!(self.byte_at(after), Some(b'|' | b'&' | b';' | b'<' | b'>' | b'('))
        {
            return Err(ScanStop::Whole);
        }
        self.pos = end;
        Ok(Some(Token { kind: TokenKind::Op(op), start, end, plain: false }))
    }

    /// A word. Its end is that of its last character, not of a continued line after it.
    pub fn word(&mut self) -> Result<Token, ScanStop> {
        let start = self.pos;
        let (mut end, mut plain) = (start, true);
        while let Some(byte) = self.byte() {
            match byte {
                b'\\' if self.looking_at("\\\n") => {
                    self.pos += 2;
                    continue;
                }
                b'\\' => self.escaped()?,
                b'\'' => self.single_quote(self.pos)?,
                b'"' => self.double_quote()?,
                b'`' => self.backquote()?,
                b'$' => self.dollar(false)?,
                b'<' | b'>' if self.byte_at(self.pos + 1) == Some(b'(') => self.process()?,
                b'(' if is_array_start(&self.text[start..self.pos]) => self.array()?,
                b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>' => break,
                _ => {
                    self.pos += 1;
                    end = self.pos;
                    continue;
                }
            }
            plain = false;
            end = self.pos;
        }
        Ok(Token { kind: TokenKind::Word, start, end, plain })
    }

    /// A backslash and the character after it. One at the very end of the text is a literal
    /// backslash to bash and an error to others.
    fn escaped(&mut self) -> Result<(), ScanStop> {
        let mut rest = self.text[self.pos + 1..].chars();
        self.pos += 1 + rest.next().ok_or(ScanStop::Whole)?.len_utf8();
        Ok(())
    }

    fn single_quote(&mut self, at: usize) -> Result<(), ScanStop> {
        match self.text[self.pos + 1..].find('\'') {
            Some(length) => self.pos += length + 2,
            None => return Err(ScanStop::fault(at, "unterminated single quote")),
        }
        Ok(())
    }

    fn ansi_quote(&mut self, at: usize) -> Result<(), ScanStop> {
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

    fn double_quote(&mut self) -> Result<(), ScanStop> {
        let at = self.pos;
        self.pos += 1;
        loop {
            match self.byte() {
                None => return Err(ScanStop::fault(at, "unterminated double quote")),
                Some(b'"') => break,
                Some(b'\\') if self.pos + 1 < self.text.len() => self.escaped()?,
                Some(b'$') => self.dollar(true)?,
                Some(b'`') => self.backquote()?,
                Some(_) => self.pos += 1,
            }
        }
        self.pos += 1;
        Ok(())
    }

    /// Up to the next backquote that is not escaped: quotes inside do not hide one. The inside
    /// is only searched as a string for what would need the whole text.
    fn backquote(&mut self) -> Result<(), ScanStop> {
        let at = self.pos;
        self.pos += 1;
        loop {
            match self.byte() {
                None => return Err(ScanStop::fault(at, "unterminated backquote")),
                Some(b'`') => break,
                Some(b'\\') if self.pos + 1 < self.text.len() => self.escaped()?,
                Some(_) => self.pos += 1,
            }
        }
        let inside = &self.text[at + 1..self.pos];
        if inside.contains("<<") {
            return Err(ScanStop::Whole);
        }
        self.own_process |= speaks_of_own_process(inside);
        self.pos += 1;
        Ok(())
    }

    fn dollar(&mut self, in_double: bool) -> Result<(), ScanStop> {
        let at = self.pos;
        self.pos += 1;
        match self.byte() {
            Some(b'(') if self.byte_at(self.pos + 1) == Some(b'(') => {
                self.pos += 2;
                self.arithmetic(at, "$((")?;
            }
            Some(b'(') => {
                self.pos += 1;
                self.substitution(at, "$(")?;
            }
            Some(b'{') => self.parameter(at, in_double)?,
            // `$[...]` is long out of every manual, and a broken line after `$` is a riddle.
            Some(b'[') => return Err(ScanStop::Whole),
            Some(b'\\') if self.looking_at("\\\n") => return Err(ScanStop::Whole),
            Some(b'\'') if !in_double => self.ansi_quote(at)?,
            Some(b'$' | b'!' | b'?' | b'-') => {
                self.own_process = true;
                self.pos += 1;
            }
            Some(byte) if is_name_start(byte) => {
                let start = self.pos;
                while self.byte().is_some_and(|b| is_name_start(b) || b.is_ascii_digit()) {
                    self.pos += 1;
                }
                self.own_process |= &self.text[start..self.pos] == "_";
            }
            _ => {}
        }
        Ok(())
    }

    fn parameter(&mut self, at: usize, in_double: bool) -> Result<(), ScanStop> {
        self.enter()?;
        self.pos += 1;
        let name = self.text[self.pos..].trim_start_matches('#');
        self.own_process |= name.starts_with(['$', '!', '?', '-'])
            || name.strip_prefix('_').is_some_and(|rest| {
                !rest.starts_with(|c: char| c == '_' || c.is_ascii_alphanumeric())
            });
        // `${$}`: the second `$` is a name, not the start of an expansion.
        if matches!(self.byte(), Some(b'$')) {
            self.pos += 1;
        }
        loop {
            match self.byte() {
                None => return Err(ScanStop::fault(at, "'${' is never closed")),
                Some(b'}') => break,
                Some(b'\\') if self.pos + 1 < self.text.len() => self.escaped()?,
                // Whether `'` quotes inside "${x:-'}'}" depends on the operator and the shell.
                Some(b'\'') if in_double => return Err(ScanStop::Whole),
                Some(b'\'') => self.single_quote(self.pos)?,
                Some(b'"') => self.double_quote()?,
                Some(b'`') => self.backquote()?,
                Some(b'$') => self.dollar(in_double)?,
                Some(b'<' | b'>') if self.byte_at(self.pos + 1) == Some(b'(') => {
                    return Err(ScanStop::Whole);
                }
                Some(_) => self.pos += 1,
            }
        }
        self.pos += 1;
        self.leave();
        Ok(())
    }

    /// The rest of `((...))` or `$((...))`. When the parentheses do not close together it was a
    /// subshell in a subshell after all; a portable text puts a blank between, so give up. So it
    /// does on a fault inside, which bash finds only when it evaluates the expression.
    pub fn arithmetic(&mut self, at: usize, opener: &str) -> Result<(), ScanStop> {
        self.enter()?;
        let mut open = 0_usize;
        loop {
            match self.byte() {
                None => return Err(ScanStop::fault(at, format!("'{opener}' is never closed"))),
                Some(b'(') => open += 1,
                Some(b')') if open > 0 => open -= 1,
                Some(b')') if self.byte_at(self.pos + 1) == Some(b')') => break,
                Some(b')' | b'\'') => return Err(ScanStop::Whole),
                Some(b'\\') if self.pos + 1 < self.text.len() => {
                    self.escaped()?;
                    continue;
                }
                Some(b'"') => {
                    self.double_quote().map_err(|_| ScanStop::Whole)?;
                    continue;
                }
                Some(b'`') => {
                    self.backquote().map_err(|_| ScanStop::Whole)?;
                    continue;
                }
                Some(b'$') => {
                    self.dollar(true).map_err(|_| ScanStop::Whole)?;
                    continue;
                }
                Some(_) => {}
            }
            self.pos += 1;
        }
        self.pos += 2;
        self.last_end = self.pos;
        self.leave();
        Ok(())
    }

    fn process(&mut self) -> Result<(), ScanStop> {
        let at = self.pos;
        let opener = &self.text[at..at + 2];
        self.pos += 2;
        // bash reads `<((` its own way, and takes even `<(())`.
        if self.byte() == Some(b'(') {
            return Err(ScanStop::Whole);
        }
        self.substitution(at, opener)
    }

    /// A list of commands up to its `)`, for `$(`, `<(` and `>(`.
    fn substitution(&mut self, at: usize, opener: &str) -> Result<(), ScanStop> {
        self.enter()?;
        // A word is being scanned, so nothing can have been looked at beyond it.
        assert!(self.ahead.is_none(), "a substitution is read with no token ahead");
        self.list()?;
        let close = self.next()?;
        match close.kind {
            TokenKind::Op(")") => {}
            TokenKind::End => {
                return Err(ScanStop::fault(at, format!("'{opener}' is never closed")));
            }
            _ => return Err(self.unexpected(close)),
        }
        self.leave();
        Ok(())
    }

    /// The elements of `name=(...)`.
    fn array(&mut self) -> Result<(), ScanStop> {
        let at = self.pos;
        self.enter()?;
        self.pos += 1;
        loop {
            let token = self.next()?;
            match token.kind {
                TokenKind::Op(")") => break,
                // `[subscript]=value`, where the subscript may hold anything.
                TokenKind::Word if self.text[token.start..].starts_with('[') => {
                    return Err(ScanStop::Whole);
                }
                TokenKind::Op("\n") | TokenKind::Word => {}
                TokenKind::End => return Err(ScanStop::fault(at, "'(' is never closed")),
                TokenKind::Op(_) => return Err(self.unexpected(token)),
            }
        }
        self.leave();
        Ok(())
    }
}

/// Whether a string has one of the parameters in it that name the shell's own process.
pub(super) fn speaks_of_own_process(text: &str) -> bool {
    ["$$", "$!", "$?", "$-", "$_"].iter().any(|parameter| text.contains(parameter))
}

fn is_name_start(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphabetic()
}

/// `name=`, `name+=` or `name[...]=`: what can stand before the `(` of an array.
fn is_array_start(word: &str) -> bool {
    let Some(name) = word.strip_suffix('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    match name.split_once('[') {
        Some((name, subscript)) => is_name(name) && subscript.ends_with(']'),
        None => is_name(name),
    }
}

pub(super) fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(is_name_start)
        && text.bytes().all(|b| is_name_start(b) || b.is_ascii_digit())
}

impl Scanner<'_> {
    pub fn unexpected(&self, token: Token) -> ScanStop {
        if token.kind == TokenKind::End {
            return ScanStop::fault(token.start, "the text ends too soon");
        }
        ScanStop::fault(token.start, format!("unexpected {}", self.shown(token)))
    }

    /// A command or a file name is wanted where `found` stands, because of `after`.
    pub fn missing(&self, after: Option<Token>, found: Token) -> ScanStop {
        match (after, found.kind) {
            (Some(after), TokenKind::End) => {
                ScanStop::fault(after.start, format!("nothing after {}", self.shown(after)))
            }
            (Some(after), _) => ScanStop::fault(
                found.start,
                format!("nothing between {} and {}", self.shown(after), self.shown(found)),
            ),
            (None, TokenKind::Op("|" | "|&" | "&&" | "||" | ";" | "&")) => {
                ScanStop::fault(found.start, format!("nothing before {}", self.shown(found)))
            }
            (None, _) => self.unexpected(found),
        }
    }

    fn shown(&self, token: Token) -> String {
        let text = &self.text[token.start..token.end];
        if text == "\n" {
            return "end of line".to_owned();
        }
        let short: String = text.chars().take(MAX_SHOWN).collect();
        if short.len() < text.len() { format!("'{short}...'") } else { format!("'{short}'") }
    }
}
