//! One Rust file as a list of tokens, each marked as code or as part of tests.
//!
//! The tokens come from `proc_macro2`: a word in a string or a comment is not taken for code, and
//! code inside a macro call is seen, which a syntax tree would hide.

use super::TidyFault;
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// One token. A group appears as its two delimiters with its content between them.
#[derive(Debug, Clone)]
pub struct RustToken {
    /// The text as written.
    pub text: String,
    /// Whether it is a word.
    pub word: bool,
    /// Its line, counted from 1.
    pub line: usize,
    /// Whether it belongs to tests.
    pub test: bool,
}

/// A parsed Rust file.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path from the root of the workspace.
    pub path: String,
    /// Its tokens in order.
    pub tokens: Vec<RustToken>,
    /// The lines that hold a string or a part of one.
    pub strings: BTreeSet<usize>,
}

impl SourceFile {
    /// Parses `text`.
    ///
    /// A fault if the text does not consist of Rust tokens.
    pub fn parse(path: &str, text: &str) -> Result<Self, TidyFault> {
        let tree: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            let line = error.span().start().line;
            TidyFault::new(path, line, "tokens", format!("cannot be read as Rust: {error}"))
        })?;
        let mut tokens = Vec::new();
        flatten(tree, is_test_file(path), &mut tokens);
        let string = |token: &&RustToken| token.text.len() > 1 && token.text.ends_with(['"', '#']);
        let lines = |token: &RustToken| token.line..=token.line + token.text.matches('\n').count();
        let strings = tokens.iter().filter(string).flat_map(lines).collect();
        Ok(Self { path: path.to_owned(), tokens, strings })
    }

    /// Whether the tokens from `index` on have these texts.
    pub fn reads(&self, index: usize, texts: &[&str]) -> bool {
        texts.iter().zip(index..).all(|(text, index)| self.text(index) == *text)
    }

    /// Returns the text of the token at `index`; empty after the last.
    pub fn text(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &token.text)
    }

    /// Whether the token at `index` is a word.
    pub fn is_word(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.word)
    }

    /// Returns the index of the end of the group that opens at `open`.
    pub fn close_of(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (index, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" if depth == 1 => return index,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }
}

fn flatten(tree: TokenStream, mut all_test: bool, out: &mut Vec<RustToken>) {
    let items: Vec<TokenTree> = tree.into_iter().collect();
    let is_mark = |at: usize, wanted| match items.get(at) {
        Some(TokenTree::Punct(mark)) => mark.as_char() == wanted,
        _ => false,
    };
    let mut item_test = false;
    for (index, item) in items.iter().enumerate() {
        if let TokenTree::Group(group) = item {
            let tests = tests_only(group.stream());
            all_test |= tests && index > 1 && is_mark(index - 2, '#') && is_mark(index - 1, '!');
            item_test |= tests && index > 0 && is_mark(index - 1, '#');
        }
        let test = all_test || item_test;
        let mut push = |text: &str, word, span: Span| {
            out.push(RustToken { text: text.to_owned(), word, line: span.start().line, test });
        };
        let mut ends = is_mark(index, ';');
        match item {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                ends = open == "{";
                push(open, false, group.span_open());
                flatten(group.stream(), test, out);
                let line = group.span_close().start().line;
                out.push(RustToken { text: close.to_owned(), word: false, line, test });
            }
            TokenTree::Ident(word) => push(&word.to_string(), true, word.span()),
            _ => push(&item.to_string(), false, item.span()),
        }
        item_test &= !ends;
    }
}

/// Whether a file holds only tests, judged by its path.
pub fn is_test_file(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

/// Whether an attribute restricts what follows to tests: `test`, `cfg(test)`, `cfg(all(test, ..))`.
fn tests_only(attribute: TokenStream) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    let in_cfg = |cfg: &str| cfg == "test" || cfg.strip_prefix("all(").is_some_and(needs_test);
    text == "test" || text.strip_prefix("cfg(").is_some_and(|rest| in_cfg(&rest[..rest.len() - 1]))
}

/// Whether `test` is one of the conditions of an `all(`.
fn needs_test(all: &str) -> bool {
    all.trim_end_matches(')').split(',').any(|condition| condition == "test")
}
