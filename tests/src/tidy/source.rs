//! One Rust file as its lines and its tokens, comments left out of the latter.
//!
//! The tokens come from `proc_macro2`, so that a word in a string or a comment is not taken for
//! code, and code inside a macro call is not passed over as it would be in a syntax tree.

use super::Fault;
use proc_macro2::{Delimiter, Group, LineColumn, Span, TokenStream, TokenTree};

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A word.
    Word,
    /// One character of punctuation.
    Mark,
    /// A literal.
    Literal,
    /// The opening of a group.
    Open,
    /// The end of a group.
    Close,
}

/// One token; groups appear as their two ends with what is between them.
#[derive(Debug, Clone)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// As written.
    pub text: String,
    /// Where it begins: line from 1, column from 0 in characters.
    pub start: LineColumn,
    /// Where it ends.
    pub end: LineColumn,
    /// Whether it belongs to tests.
    pub test: bool,
}

impl Token {
    /// Whether it is this word, mark or end of a group.
    pub fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }
}

/// A Rust file, read.
#[derive(Debug)]
pub struct Source {
    /// Its path from the root of the workspace.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Its tokens, nested.
    pub tree: TokenStream,
    /// Its tokens in a row, without doc comments.
    pub tokens: Vec<Token>,
}

impl Source {
    /// Reads `text`.
    ///
    /// # Errors
    /// A fault when the text is not made of Rust tokens.
    pub fn parse(path: &str, text: &str) -> Result<Self, Fault> {
        let tree: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            let line = error.span().start().line;
            Fault::new(path, line, "tokens", format!("cannot be read as Rust: {error}"))
        })?;
        let lines = text.lines().map(str::to_owned).collect();
        let mut source = Self { path: path.to_owned(), lines, tree, tokens: Vec::new() };
        let tree = source.tree.clone();
        source.flatten(tree, is_test_file(path));
        Ok(source)
    }

    /// The line with this number, counted from 1; empty when there is none.
    pub fn line(&self, number: usize) -> &str {
        number.checked_sub(1).and_then(|index| self.lines.get(index)).map_or("", String::as_str)
    }

    /// The comment and attribute lines directly above a line, nearest first.
    pub fn above(&self, line: usize) -> impl Iterator<Item = &str> {
        let is_note = |line: &&str| {
            let line = line.trim_start();
            ["//", "/*", "*", "#[", "#!["].iter().any(|begin| line.starts_with(begin))
        };
        (1..line).rev().map(|number| self.line(number)).take_while(is_note)
    }

    /// Whether a token is part of a doc comment, which the lexer turns into an attribute.
    pub fn is_comment(&self, item: &TokenTree) -> bool {
        let start = item.span().start();
        self.line(start.line).chars().nth(start.column) == Some('/')
            && !matches!(item, TokenTree::Punct(mark) if mark.as_char() == '/')
    }

    fn flatten(&mut self, tree: TokenStream, mut all_test: bool) {
        let items: Vec<TokenTree> =
            tree.into_iter().filter(|item| !self.is_comment(item)).collect();
        let mut item_test = false;
        for (index, item) in items.iter().enumerate() {
            match attribute(&items[index..]) {
                Some((true, group)) => all_test |= tests_only(group),
                Some((false, group)) => item_test |= tests_only(group),
                None => {}
            }
            self.push(item, all_test || item_test);
            let ends_item = match item {
                TokenTree::Punct(mark) => mark.as_char() == ';',
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                _ => false,
            };
            item_test &= !ends_item;
        }
    }

    fn push(&mut self, item: &TokenTree, test: bool) {
        let (kind, text) = match item {
            TokenTree::Ident(word) => (Kind::Word, word.to_string()),
            TokenTree::Punct(mark) => (Kind::Mark, mark.as_char().to_string()),
            TokenTree::Literal(literal) => (Kind::Literal, literal.to_string()),
            TokenTree::Group(group) => return self.push_group(group, test),
        };
        self.push_token(kind, text, item.span(), test);
    }

    fn push_group(&mut self, group: &Group, test: bool) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        self.push_token(Kind::Open, open.to_owned(), group.span_open(), test);
        self.flatten(group.stream(), test);
        self.push_token(Kind::Close, close.to_owned(), group.span_close(), test);
    }

    fn push_token(&mut self, kind: Kind, text: String, span: Span, test: bool) {
        self.tokens.push(Token { kind, text, start: span.start(), end: span.end(), test });
    }
}

/// Whether a whole file is tests, from its path.
pub fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// The attribute at the head of `items`: whether it is an inner one, and its brackets.
fn attribute(items: &[TokenTree]) -> Option<(bool, &Group)> {
    let is_mark = |item: &TokenTree, wanted| match item {
        TokenTree::Punct(mark) => mark.as_char() == wanted,
        _ => false,
    };
    match items {
        [hash, TokenTree::Group(group), ..] if is_mark(hash, '#') => Some((false, group)),
        [hash, bang, TokenTree::Group(group), ..] if is_mark(hash, '#') && is_mark(bang, '!') => {
            Some((true, group))
        }
        _ => None,
    }
}

/// Whether an attribute keeps what follows to tests: `test`, `cfg(test)`, `cfg(all(test, ..))`.
fn tests_only(attribute: &Group) -> bool {
    let items: Vec<TokenTree> = attribute.stream().into_iter().collect();
    match items.as_slice() {
        [TokenTree::Ident(word)] => word == "test",
        [TokenTree::Ident(word), TokenTree::Group(group)] if word == "cfg" => needs_test(group),
        _ => false,
    }
}

fn needs_test(condition: &Group) -> bool {
    let items: Vec<TokenTree> = condition.stream().into_iter().collect();
    items.iter().enumerate().any(|(index, item)| match item {
        TokenTree::Ident(word) => word == "test",
        TokenTree::Group(group) => {
            let before = index.checked_sub(1).map(|before| items[before].to_string());
            before.as_deref() == Some("all") && needs_test(group)
        }
        _ => false,
    })
}
