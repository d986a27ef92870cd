//! Syntax errors of a pipeline's text: the message, the line, and a caret under the place.

use super::token::{Token, TokenKind};
use std::fmt;

/// A text that the shell would refuse, and the place of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, as one phrase: `nothing after '|'`.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The whole of that line, without its newline.
    pub source_line: String,
}

/// An error as the scanner reports it: with a byte offset, which becomes a line and a column when it
/// is shown.
#[derive(Debug)]
pub(super) struct FaultPlace {
    pub at: usize,
    pub message: String,
}

/// Why scanning stopped early.
#[derive(Debug)]
pub(super) enum ScanStop {
    /// The text is wrong here.
    Fault(FaultPlace),
    /// The text may be right, but weir cannot cut it: a here-document, a coprocess, nesting beyond
    /// the limit, or a construct that shells read differently. The shell itself must read it.
    Whole,
}

impl ScanStop {
    pub fn fault(at: usize, message: impl Into<String>) -> ScanStop {
        ScanStop::Fault(FaultPlace { at, message: message.into() })
    }

    /// Nothing like `token` may stand where it does.
    pub fn unexpected(token: Token) -> ScanStop {
        if token.kind == TokenKind::End {
            return ScanStop::fault(token.start, "the text ends too soon");
        }
        ScanStop::fault(token.start, format!("unexpected {}", token.shown()))
    }

    /// A command or a file name is wanted where `found` stands, because of `after`.
    pub fn missing(after: Option<Token>, found: Token) -> ScanStop {
        match (after, found.kind) {
            (Some(after), TokenKind::End) => {
                ScanStop::fault(after.start, format!("nothing after {}", after.shown()))
            }
            (Some(after), _) => {
                let message = format!("nothing between {} and {}", after.shown(), found.shown());
                ScanStop::fault(found.start, message)
            }
            (None, TokenKind::Op("|" | "|&" | "&&" | "||" | ";" | "&")) => {
                ScanStop::fault(found.start, format!("nothing before {}", found.shown()))
            }
            (None, _) => ScanStop::unexpected(found),
        }
    }
}

impl SyntaxError {
    pub(super) fn new(text: &str, fault: FaultPlace) -> SyntaxError {
        let before = &text[..fault.at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let source_line = text[line_start..].split('\n').next().unwrap_or_default();
        SyntaxError {
            message: fault.message,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            source_line: source_line.to_owned(),
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        writeln!(f, "  {}", self.source_line)?;
        // A tab stays a tab, so that the caret lands under its character whatever the tab stops.
        let pad: String = self
            .source_line
            .chars()
            .take(self.column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(f, "  {pad}^")
    }
}

impl std::error::Error for SyntaxError {}
