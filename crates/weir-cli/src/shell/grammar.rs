//! The grammar of the shell as far as cutting needs it: lists, pipelines and compound commands
//! (POSIX.1-2024 XCU 2.10, and bash 5.2 for `[[`, `((`, `select`, `function`).
//!
//! The grammar only records the places of the stages of the first pipeline. Flow: `list` reads
//! pipelines, a pipeline reads commands, a compound command reads lists again.

use super::fault::ScanStop;
use super::scan::Scanner;
use super::span::{PipelineSpan, Shape, StageSpan};
use super::token::{Token, TokenKind, is_name};

/// Words that end a list when they stand where a command would.
const CLOSERS: [&str; 8] = ["}", "then", "else", "elif", "fi", "do", "done", "esac"];

/// Commands whose arguments bash reads as assignments.
const DECLARATIONS: [&str; 6] = ["declare", "typeset", "local", "export", "readonly", "eval"];

/// What a list of commands holds.
#[derive(Debug, Default)]
pub(super) struct CommandList {
    pub pipelines: usize,
    pub background: bool,
    pub first: Option<PipelineSpan>,
}

/// What a whole text holds.
pub(super) struct Reading {
    pub list: CommandList,
    /// It speaks of the process of the shell itself.
    pub own_process: bool,
    /// The shell must be asked whether it reads the text too.
    pub doubtful: bool,
}

/// Reads a whole text.
pub(super) fn read(text: &str) -> Result<Reading, ScanStop> {
    let mut scanner = Scanner::new(text);
    let list = scanner.list()?;
    let end = scanner.next()?;
    if end.kind != TokenKind::End {
        return Err(ScanStop::unexpected(end));
    }
    Ok(Reading { list, own_process: scanner.own_process, doubtful: scanner.doubtful })
}

impl<'a> Scanner<'a> {
    /// Reads up to whatever ends a list; the caller checks that it is its own ending.
    pub fn list(&mut self) -> Result<CommandList, ScanStop> {
        let mut list = CommandList::default();
        loop {
            self.newlines()?;
            if self.at_list_end()? {
                return Ok(list);
            }
            self.and_or(&mut list)?;
            let token = self.peek()?;
            match token.kind {
                TokenKind::Op(";" | "\n") => {}
                TokenKind::Op("&") => list.background = true,
                _ if self.at_list_end()? => return Ok(list),
                _ => return Err(ScanStop::unexpected(token)),
            }
            self.next()?;
        }
    }

    fn and_or(&mut self, list: &mut CommandList) -> Result<(), ScanStop> {
        let mut after = None;
        loop {
            let pipeline = self.pipeline(after)?;
            list.pipelines += 1;
            list.first.get_or_insert(pipeline);
            if !matches!(self.peek()?.kind, TokenKind::Op("&&" | "||")) {
                return Ok(());
            }
            after = Some(self.next()?);
            self.newlines()?;
        }
    }

    fn pipeline(&mut self, mut after: Option<Token<'a>>) -> Result<PipelineSpan, ScanStop> {
        let mut pipeline = PipelineSpan::default();
        loop {
            let token = self.peek()?;
            match token.reserved() {
                "!" => pipeline.negations += 1,
                "time" => pipeline.timed = true,
                "-p" | "--" if pipeline.timed => {}
                _ => break,
            }
            self.next()?;
        }
        // `!` and `time` may be alone, as if before an empty command.
        let prefixed = pipeline.timed || pipeline.negations > 0;
        self.doubtful |= prefixed;
        if prefixed && matches!(self.peek()?.kind, TokenKind::Op("\n" | ";") | TokenKind::End) {
            return Ok(pipeline);
        }
        loop {
            let start = self.peek()?.start;
            let shape = self.command(after)?;
            let mut stage =
                StageSpan { start, end: self.last_end, shape, pipe_end: None, with_stderr: false };
            let pipe = self.peek()?;
            let TokenKind::Op(op @ ("|" | "|&")) = pipe.kind else {
                pipeline.stages.push(stage);
                self.pipelines.push(pipeline.clone());
                return Ok(pipeline);
            };
            stage.pipe_end = Some(pipe.end());
            stage.with_stderr = op == "|&";
            pipeline.stages.push(stage);
            after = Some(self.next()?);
            self.newlines()?;
        }
    }

    /// Reads one command; `after` is the operator that asks for it.
    fn command(&mut self, after: Option<Token>) -> Result<Shape, ScanStop> {
        let token = self.peek()?;
        match token.kind {
            TokenKind::Op("(") => self.parenthesis()?,
            TokenKind::Op(op) if is_redirection(op) => return self.simple(),
            TokenKind::Op(_) | TokenKind::End => return Err(ScanStop::missing(after, token)),
            TokenKind::Word => match token.reserved() {
                "{" => {
                    self.next()?;
                    self.block(token, &["}"])?;
                }
                "if" => self.if_command()?,
                "while" | "until" => {
                    self.next()?;
                    self.block(token, &["do"])?;
                    self.block(token, &["done"])?;
                }
                "for" | "select" => self.for_command()?,
                "case" => self.case_command()?,
                "[[" => self.condition()?,
                "function" => return self.function_command(),
                // It hands variables back to the shell that reads the rest of the text.
                "coproc" => return Err(ScanStop::Whole),
                "!" | "]]" | "in" => return Err(ScanStop::unexpected(token)),
                word if CLOSERS.contains(&word) => return Err(ScanStop::unexpected(token)),
                _ => return self.simple(),
            },
        }
        self.redirections()?;
        Ok(Shape::Compound)
    }

    fn simple(&mut self) -> Result<Shape, ScanStop> {
        let mut words = 0;
        let mut assignable = true;
        loop {
            let token = self.peek()?;
            match token.kind {
                TokenKind::Word => {
                    self.next()?;
                    words += 1;
                    // A line may be continued within a name.
                    let joined = token.text.replace("\\\n", "");
                    let word = joined.as_str();
                    if let Some(subscript) = subscript(word).filter(|_| assignable) {
                        if !is_plain_subscript(subscript) {
                            return Err(ScanStop::Whole);
                        }
                        self.doubtful = true;
                    }
                    // In `2>f a`, the `2` is not the command.
                    assignable &= word.contains('=')
                        || DECLARATIONS.contains(&word)
                        || matches!(self.cursor.byte(), Some(b'<' | b'>'));
                }
                TokenKind::Op(op) if is_redirection(op) => {
                    self.redirection()?;
                    words += 2;
                }
                TokenKind::Op("(") if words == 1 => {
                    self.next()?;
                    let close = self.next()?;
                    if close.kind != TokenKind::Op(")") {
                        return Err(ScanStop::unexpected(token));
                    }
                    return self.function_body(close);
                }
                _ => return Ok(Shape::Simple),
            }
        }
    }

    fn redirections(&mut self) -> Result<(), ScanStop> {
        loop {
            let token = self.peek()?;
            match token.kind {
                TokenKind::Op(op) if is_redirection(op) => self.redirection()?,
                TokenKind::Word if self.is_descriptor(token) => {
                    self.next()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Whether the word that was just read is `2` in `2>file` or `{name}` in `{name}>file`: it belongs
    /// to the operator that it touches.
    fn is_descriptor(&self, token: Token) -> bool {
        let word = token.text;
        let number = word.bytes().all(|b| b.is_ascii_digit());
        let variable = word.starts_with('{') && word.ends_with('}');
        matches!(self.cursor.byte(), Some(b'<' | b'>')) && (number || variable)
    }

    fn redirection(&mut self) -> Result<(), ScanStop> {
        let op = self.next()?;
        // bash 5.2 refuses `> f &>> x=1`, but no such file behind another operator.
        self.doubtful |= op.text == "&>>";
        let target = self.peek()?;
        if target.kind != TokenKind::Word || self.is_descriptor(target) {
            return Err(ScanStop::missing(Some(op), target));
        }
        self.next()?;
        Ok(())
    }

    fn parenthesis(&mut self) -> Result<(), ScanStop> {
        let open = self.next()?;
        if self.cursor.take(b'(') {
            return self.arithmetic(open.start, "((");
        }
        self.block(open, &[")"])?;
        Ok(())
    }

    /// A list that must hold something, up to one of `endings`. The first ending is the one
    /// named when none is found.
    fn block(&mut self, opener: Token, endings: &[&str]) -> Result<Token<'a>, ScanStop> {
        self.enter()?;
        let list = self.list()?;
        let end = self.next()?;
        let found = endings.contains(&end.text);
        if end.kind == TokenKind::End {
            let message = match opener.text {
                "(" | "{" => format!("'{}' is never closed", opener.text),
                _ => format!("'{}' without '{}'", opener.text, endings[0]),
            };
            return Err(ScanStop::fault(opener.start, message));
        }
        if !found || list.pipelines == 0 {
            return Err(ScanStop::unexpected(end));
        }
        self.leave();
        Ok(end)
    }

    fn if_command(&mut self) -> Result<(), ScanStop> {
        let opener = self.next()?;
        self.block(opener, &["then"])?;
        loop {
            let end = self.block(opener, &["fi", "else", "elif"])?;
            match end.text {
                "elif" => self.block(opener, &["then"])?,
                "else" => {
                    self.block(opener, &["fi"])?;
                    return Ok(());
                }
                _ => return Ok(()),
            };
        }
    }

    fn for_command(&mut self) -> Result<(), ScanStop> {
        let opener = self.next()?;
        let name = self.next()?;
        if name.kind == TokenKind::Op("(") && self.cursor.take(b'(') {
            self.arithmetic(name.start, "((")?;
        } else if name.kind != TokenKind::Word {
            return Err(ScanStop::missing(Some(opener), name));
        }
        if self.peek()?.kind == TokenKind::Op("\n") {
            self.newlines()?;
        }
        let token = self.peek()?;
        if token.reserved() == "in" {
            while self.next()?.kind == TokenKind::Word && self.peek()?.kind == TokenKind::Word {}
        }
        if self.peek()?.kind == TokenKind::Op(";") {
            self.next()?;
        }
        self.newlines()?;
        let body = self.next()?;
        match body.reserved() {
            "do" => self.block(opener, &["done"])?,
            "{" => self.block(body, &["}"])?,
            _ if body.kind == TokenKind::End => {
                let message = format!("'{}' without 'do'", opener.text);
                return Err(ScanStop::fault(opener.start, message));
            }
            _ => return Err(ScanStop::unexpected(body)),
        };
        Ok(())
    }

    fn case_command(&mut self) -> Result<(), ScanStop> {
        let opener = self.next()?;
        self.enter()?;
        let subject = self.next()?;
        if subject.kind != TokenKind::Word {
            return Err(ScanStop::missing(Some(opener), subject));
        }
        self.newlines()?;
        let word = self.next()?;
        if word.reserved() != "in" {
            return Err(unclosed_case(opener, word, "in"));
        }
        loop {
            self.newlines()?;
            let token = self.next()?;
            if token.reserved() == "esac" {
                break;
            }
            self.case_patterns(opener, token)?;
            self.list()?;
            let end = self.peek()?;
            match end.kind {
                TokenKind::Op(";;" | ";&" | ";;&") => {
                    self.next()?;
                }
                _ if end.reserved() == "esac" => {}
                _ => return Err(unclosed_case(opener, end, "esac")),
            }
        }
        self.leave();
        Ok(())
    }

    /// Reads `(a|b)` or `a|b)`, from its first token on.
    fn case_patterns(&mut self, opener: Token, first: Token) -> Result<(), ScanStop> {
        let mut pattern = if first.kind == TokenKind::Op("(") { self.next()? } else { first };
        loop {
            if pattern.kind != TokenKind::Word {
                return Err(unclosed_case(opener, pattern, "esac"));
            }
            let token = self.next()?;
            match token.kind {
                TokenKind::Op(")") => return Ok(()),
                TokenKind::Op("|") => pattern = self.next()?,
                _ => return Err(unclosed_case(opener, token, "esac")),
            }
        }
    }

    /// Reads `[[ ... ]]` without its grammar: only quoting matters until `]]` stands as a word.
    fn condition(&mut self) -> Result<(), ScanStop> {
        let opener = self.next()?;
        self.doubtful = true;
        loop {
            match self.cursor.byte() {
                None => return Err(ScanStop::fault(opener.start, "'[[' is never closed")),
                Some(b' ' | b'\t' | b'\n' | b'(' | b')' | b'<' | b'>' | b'&' | b'|') => {
                    self.cursor.pos += 1;
                }
                // A comment or a pattern, by context; and `;` is an error only a parser can tell.
                Some(b'#' | b';') => return Err(ScanStop::Whole),
                Some(_) => {
                    let word = self.word()?;
                    if word.plain && word.text == "]]" {
                        // bash 5.2 stops reading at `[[ ]]`, and says nothing.
                        if self.cursor.text[opener.end()..word.start].trim().is_empty() {
                            return Err(ScanStop::Whole);
                        }
                        self.last_end = word.end();
                        return Ok(());
                    }
                }
            }
        }
    }

    fn function_command(&mut self) -> Result<Shape, ScanStop> {
        let keyword = self.next()?;
        let mut last = self.next()?;
        if last.kind != TokenKind::Word {
            return Err(ScanStop::missing(Some(keyword), last));
        }
        if self.peek()?.kind == TokenKind::Op("(") && self.cursor.byte() == Some(b')') {
            self.next()?;
            last = self.next()?;
        }
        self.function_body(last)
    }

    fn function_body(&mut self, after: Token) -> Result<Shape, ScanStop> {
        self.enter()?;
        self.newlines()?;
        let token = self.peek()?;
        let shape = self.command(Some(after))?;
        if shape != Shape::Compound {
            return Err(ScanStop::unexpected(token));
        }
        self.leave();
        Ok(Shape::Function)
    }

    fn newlines(&mut self) -> Result<(), ScanStop> {
        while self.peek()?.kind == TokenKind::Op("\n") {
            // Not a token of any stage: the end of the last one stays where it was.
            let last_end = self.last_end;
            self.next()?;
            self.last_end = last_end;
        }
        Ok(())
    }

    fn at_list_end(&mut self) -> Result<bool, ScanStop> {
        let token = self.peek()?;
        Ok(match token.kind {
            TokenKind::End | TokenKind::Op(")" | ";;" | ";&" | ";;&") => true,
            TokenKind::Op(_) => false,
            TokenKind::Word => CLOSERS.contains(&token.reserved()),
        })
    }
}

fn unclosed_case(opener: Token, found: Token, wanted: &str) -> ScanStop {
    if found.kind == TokenKind::End {
        ScanStop::fault(opener.start, format!("'case' without '{wanted}'"))
    } else {
        ScanStop::unexpected(found)
    }
}

fn is_redirection(op: &str) -> bool {
    matches!(op, "<" | ">" | ">>" | "<&" | ">&" | "<>" | ">|" | "&>" | "&>>" | "<<<")
}

/// What follows `name[` in a word that starts so.
fn subscript(word: &str) -> Option<&str> {
    word.split_once('[').filter(|(name, _)| is_name(name)).map(|(_, subscript)| subscript)
}

/// Whether the subscript of a word that may be an assignment ends in this word. bash reads up to the
/// `]`, over blanks and operators: `a[1 | 2]=3` is a word.
fn is_plain_subscript(subscript: &str) -> bool {
    let special = |c: char| matches!(c, ']' | '[' | '\'' | '"' | '$' | '`' | '\\');
    subscript[subscript.find(special).unwrap_or(subscript.len())..].starts_with(']')
}
