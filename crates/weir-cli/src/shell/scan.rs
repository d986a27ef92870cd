//! The scanner: a shell text as operators and words, with their places in bytes.
//!
//! The scanner skips over a word and never takes it apart. It only needs the word's end, but must
//! know every way of quoting and nesting to find it. A cursor (cursor.rs) reads what holds nothing
//! else, the scanner what nests, and the grammar (grammar.rs) the inside of `$(...)`, since only
//! that can tell the `)` of a case pattern from the closing one.
//! The rules are those of POSIX.1-2024 XCU 2.3 and of bash 5.2's parse.y where it goes further.
//! Where they leave room for doubt the scanner gives up (`ScanStop::Whole`) and the shell decides.

use super::cursor::Cursor;
use super::fault::ScanStop;
use super::span::PipelineSpan;
use super::token::{Token, TokenKind, is_name, is_name_start};

/// Levels of nesting the scanner follows; a deeper text is left whole to the shell. It keeps
/// the recursion here within any stack.
pub(super) const MAX_DEPTH: usize = 10;

/// Digits of a descriptor that surely fit: those of `99999999999>` are a word to bash.
const MAX_DESCRIPTOR_DIGITS: usize = 9;

pub(super) struct Scanner<'a> {
    pub cursor: Cursor<'a>,
    /// Where the last token taken ends; the end of a stage is found with it.
    pub last_end: usize,
    /// All pipelines that were read, the inner ones before the outer ones.
    pub pipelines: Vec<PipelineSpan>,
    /// The text speaks of the process of the shell itself: `$$`, `$!`, `$?`, `$-`, `$_`.
    pub own_process: bool,
    /// The text holds more than simple commands of words, quotes, plain parameters and redirections.
    /// There this reading may differ from that of the shell, which must be asked.
    pub doubtful: bool,
    depth: usize,
    ahead: Option<Token<'a>>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner {
            cursor: Cursor { text, pos: 0 },
            last_end: 0,
            own_process: false,
            doubtful: false,
            pipelines: Vec::new(),
            depth: 0,
            ahead: None,
        }
    }

    /// Goes one level deeper, where doubt begins: only a whole grammar knows what nests.
    pub fn enter(&mut self) -> Result<(), ScanStop> {
        self.doubtful = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(ScanStop::Whole) } else { Ok(()) }
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The next token, left in place. It is kept, so no word is ever scanned twice: scanning
    /// twice at each of the levels of nesting would cost 2 to the power of the depth.
    pub fn peek(&mut self) -> Result<Token<'a>, ScanStop> {
        match self.ahead {
            Some(token) => Ok(token),
            None => {
                let token = self.token()?;
                self.ahead = Some(token);
                Ok(token)
            }
        }
    }

    pub fn next(&mut self) -> Result<Token<'a>, ScanStop> {
        let token = self.peek()?;
        self.ahead = None;
        if token.kind != TokenKind::End {
            self.last_end = token.end();
        }
        Ok(token)
    }

    fn token(&mut self) -> Result<Token<'a>, ScanStop> {
        self.cursor.blanks();
        if self.cursor.byte().is_none() {
            let start = self.cursor.pos;
            return Ok(Token { kind: TokenKind::End, start, text: "", plain: false });
        }
        let process = self.cursor.looking_at("<(") || self.cursor.looking_at(">(");
        if !process && let Some(token) = self.cursor.operator()? {
            return Ok(token);
        }
        self.word()
    }

    /// A word. Its end is that of its last character, not of a continued line after it.
    pub fn word(&mut self) -> Result<Token<'a>, ScanStop> {
        let start = self.cursor.pos;
        let (mut end, mut plain) = (start, true);
        while let Some(byte) = self.cursor.byte() {
            match byte {
                b'\\' if self.cursor.looking_at("\\\n") => {
                    self.cursor.pos += 2;
                    continue;
                }
                b'\\' => self.cursor.escaped()?,
                b'\'' => self.cursor.single_quote()?,
                b'"' => self.double_quote()?,
                b'`' => self.backquote()?,
                b'$' => self.dollar(false)?,
                b'<' | b'>' if self.cursor.byte_after() == Some(b'(') => self.process()?,
                b'(' if is_array_start(self.cursor.since(start)) => self.array()?,
                b' ' | b'\t' | b'\n' | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>' => break,
                _ => {
                    self.cursor.pos += 1;
                    end = self.cursor.pos;
                    continue;
                }
            }
            plain = false;
            end = self.cursor.pos;
        }
        let text = &self.cursor.text[start..end];
        // A continued line may lie between the digits.
        let is_number = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'\\' | b'\n'));
        let redirects = matches!(self.cursor.byte(), Some(b'<' | b'>'));
        if redirects && is_number && text.len() > MAX_DESCRIPTOR_DIGITS {
            return Err(ScanStop::Whole);
        }
        Ok(Token { kind: TokenKind::Word, start, text, plain })
    }

    fn double_quote(&mut self) -> Result<(), ScanStop> {
        let at = self.cursor.pos;
        self.cursor.pos += 1;
        loop {
            match self.cursor.byte() {
                None => return Err(ScanStop::fault(at, "unterminated double quote")),
                Some(b'"') => break,
                Some(b'\\') => self.cursor.backslash(),
                Some(b'$') => self.dollar(true)?,
                Some(b'`') => self.backquote()?,
                Some(_) => self.cursor.pos += 1,
            }
        }
        self.cursor.pos += 1;
        Ok(())
    }

    /// Reads up to the next backquote that is not escaped: quotes inside do not hide one.
    /// The inside is only searched as a string for what would need the whole text.
    fn backquote(&mut self) -> Result<(), ScanStop> {
        let at = self.cursor.pos;
        self.doubtful = true;
        self.cursor.pos += 1;
        loop {
            match self.cursor.byte() {
                None => return Err(ScanStop::fault(at, "unterminated backquote")),
                Some(b'`') => break,
                Some(b'\\') => self.cursor.backslash(),
                Some(_) => self.cursor.pos += 1,
            }
        }
        let inside = self.cursor.since(at + 1);
        if inside.contains("<<") {
            return Err(ScanStop::Whole);
        }
        self.own_process |= speaks_of_own_process(inside);
        self.cursor.pos += 1;
        Ok(())
    }

    fn dollar(&mut self, in_double: bool) -> Result<(), ScanStop> {
        let at = self.cursor.pos;
        self.cursor.pos += 1;
        match self.cursor.byte() {
            Some(b'(') if self.cursor.byte_after() == Some(b'(') => {
                self.cursor.pos += 2;
                self.arithmetic(at, "$((")?;
            }
            Some(b'(') => {
                self.cursor.pos += 1;
                self.substitution(at, "$(")?;
            }
            Some(b'{') => self.parameter(at, in_double)?,
            // `$[...]` is in no manual any more; a continued line after `$` is unclear.
            Some(b'[') => return Err(ScanStop::Whole),
            Some(b'\\') if self.cursor.looking_at("\\\n") => return Err(ScanStop::Whole),
            Some(b'\'') if !in_double => self.cursor.ansi_quote(at)?,
            Some(b'$' | b'!' | b'?' | b'-') => {
                self.own_process = true;
                self.cursor.pos += 1;
            }
            Some(byte) if is_name_start(byte) => {
                self.own_process |= self.cursor.name() == "_";
            }
            _ => {}
        }
        Ok(())
    }

    fn parameter(&mut self, at: usize, in_double: bool) -> Result<(), ScanStop> {
        self.cursor.pos += 1;
        let in_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let is_plain = self.cursor.rest().trim_start_matches(in_name).starts_with('}');
        let doubtful = self.doubtful || !is_plain;
        self.enter()?;
        // Unlike all else that nests, `${name}` leaves no doubt.
        self.doubtful = doubtful;
        let name = self.cursor.rest().trim_start_matches('#');
        self.own_process |= name.starts_with(['$', '!', '?', '-'])
            || name.strip_prefix('_').is_some_and(|rest| !rest.starts_with(in_name));
        // `${$}`: the second `$` is a name, not the start of an expansion.
        self.cursor.take(b'$');
        loop {
            match self.cursor.byte() {
                None => return Err(ScanStop::fault(at, "'${' is never closed")),
                Some(b'}') => break,
                Some(b'\\') => self.cursor.backslash(),
                // Whether `'` quotes inside "${x:-'}'}" depends on the operator and the shell.
                Some(b'\'') if in_double => return Err(ScanStop::Whole),
                Some(b'\'') => self.cursor.single_quote()?,
                Some(b'"') => self.double_quote()?,
                Some(b'`') => self.backquote()?,
                Some(b'$') => self.dollar(in_double)?,
                Some(b'<' | b'>') if self.cursor.byte_after() == Some(b'(') => {
                    return Err(ScanStop::Whole);
                }
                Some(_) => self.cursor.pos += 1,
            }
        }
        self.cursor.pos += 1;
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
            match self.cursor.byte() {
                None => return Err(ScanStop::fault(at, format!("'{opener}' is never closed"))),
                Some(b'(') => open += 1,
                Some(b')') if open > 0 => open -= 1,
                Some(b')') if self.cursor.byte_after() == Some(b')') => break,
                Some(b')' | b'\'') => return Err(ScanStop::Whole),
                Some(b'\\') => {
                    self.cursor.backslash();
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
            self.cursor.pos += 1;
        }
        self.cursor.pos += 2;
        self.last_end = self.cursor.pos;
        self.leave();
        Ok(())
    }

    fn process(&mut self) -> Result<(), ScanStop> {
        let at = self.cursor.pos;
        self.cursor.pos += 2;
        let opener = self.cursor.since(at);
        // bash reads `<((` its own way, and takes even `<(())`.
        if self.cursor.byte() == Some(b'(') {
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
            _ => return Err(ScanStop::unexpected(close)),
        }
        self.leave();
        Ok(())
    }

    /// The elements of `name=(...)`.
    fn array(&mut self) -> Result<(), ScanStop> {
        let at = self.cursor.pos;
        self.enter()?;
        self.cursor.pos += 1;
        loop {
            let token = self.next()?;
            match token.kind {
                TokenKind::Op(")") => break,
                // `[subscript]=value`, where the subscript may hold anything.
                TokenKind::Word if token.text.starts_with('[') => {
                    return Err(ScanStop::Whole);
                }
                TokenKind::Op("\n") | TokenKind::Word => {}
                TokenKind::End => return Err(ScanStop::fault(at, "'(' is never closed")),
                TokenKind::Op(_) => return Err(ScanStop::unexpected(token)),
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

/// `name=`, `name+=` or `name[...]=`: what can be before the `(` of an array.
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
