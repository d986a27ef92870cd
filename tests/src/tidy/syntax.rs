//! Rules about code, read from its tokens: also what stands inside macro calls is seen.

use super::Fault;
use super::source::{Kind, Source, Token};

/// Longest body of a function, in lines between its braces.
pub const FUNCTION_LINES: usize = 70;

/// Macros that stand for code not written.
const BANNED_MACROS: [&str; 2] = ["todo", "unimplemented"];
/// Calls that let time pass instead of waiting for what happens.
const SLEEPS: [&str; 3] = ["sleep", "nanosleep", "clock_nanosleep"];
/// What reads a clock.
const CLOCKS: [&str; 2] = ["Instant", "SystemTime"];

/// The token `distance` places on.
fn at(tokens: &[Token], index: usize, distance: isize) -> Option<&Token> {
    tokens.get(index.checked_add_signed(distance)?)
}

fn is_at(tokens: &[Token], index: usize, distance: isize, text: &str) -> bool {
    at(tokens, index, distance).is_some_and(|token| token.is(text))
}

/// The index of the end of the group that opens at `open`.
fn close_of(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 1 => return index,
            Kind::Close => depth -= 1,
            _ => {}
        }
    }
    unreachable!("the lexer refuses groups that do not end")
}

/// At most [`FUNCTION_LINES`] lines in the body of each function; closures and nested functions
/// count in the function around them, and nested functions by themselves too.
pub fn function_length(source: &Source) -> Vec<Fault> {
    let tokens = &source.tokens;
    let mut faults = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let Some(name) = at(tokens, index, 1).filter(|name| name.kind == Kind::Word) else {
            continue;
        };
        let Some((open, close)) = body(tokens, index).filter(|_| token.is("fn")) else { continue };
        let inside = tokens[close].start.line.saturating_sub(tokens[open].start.line + 1);
        if inside > FUNCTION_LINES {
            let text = format!(
                "the body of `{}` has {inside} lines, more than {FUNCTION_LINES}",
                name.text
            );
            faults.push(Fault::new(&source.path, token.start.line, "function-length", text));
        }
    }
    faults
}

/// The braces of the function whose `fn` is at `index`; nothing when it is only declared.
fn body(tokens: &[Token], index: usize) -> Option<(usize, usize)> {
    let mut here = index + 1;
    while let Some(token) = tokens.get(here) {
        match token.kind {
            Kind::Mark if token.text == ";" => return None,
            Kind::Close => return None,
            Kind::Open => {
                let close = close_of(tokens, here);
                // `Array<{ N }>` in a signature: braces, but not the body.
                let constant = is_at(tokens, close, 1, ">") || is_at(tokens, close, 1, ",");
                if token.text == "{" && !constant {
                    return Some((here, close));
                }
                here = close + 1;
            }
            _ => here += 1,
        }
    }
    None
}

/// No macro for code not written, no test left out.
pub fn banned(source: &Source) -> Vec<Fault> {
    let tokens = &source.tokens;
    let mut faults = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let called = is_at(tokens, index, 1, "!")
            && at(tokens, index, 2).is_some_and(|next| next.kind == Kind::Open);
        if token.kind == Kind::Word && called && BANNED_MACROS.contains(&token.text.as_str()) {
            let text = format!("`{}!`: write it, or return an error that says so", token.text);
            faults.push(Fault::new(&source.path, token.start.line, "banned", text));
        }
        if token.is("#") && is_at(tokens, index, 1, "[") && leaves_out(tokens, index + 1) {
            let text = "`ignore` on a test: make it run, or let it skip itself and say why";
            faults.push(Fault::new(&source.path, token.start.line, "banned", text));
        }
    }
    faults
}

/// Whether the attribute whose brackets open at `open` is `ignore`, also by `cfg_attr`.
fn leaves_out(tokens: &[Token], open: usize) -> bool {
    let inside = &tokens[open + 1..close_of(tokens, open)];
    let first = inside.first();
    first.is_some_and(|word| word.is("ignore"))
        || first.is_some_and(|word| word.is("cfg_attr"))
            && inside.iter().any(|word| word.is("ignore"))
}

/// A test that sleeps says why, in a comment `// sleep: <reason>` on its line or above it.
pub fn sleeps(source: &Source) -> Vec<Fault> {
    let tokens = &source.tokens;
    let mut faults = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let sleeps = token.kind == Kind::Word && SLEEPS.contains(&token.text.as_str());
        // A call, not a method of something else and not a definition.
        let called = is_at(tokens, index, 1, "(")
            && !is_at(tokens, index, -1, ".")
            && !is_at(tokens, index, -1, "fn");
        let line = token.start.line;
        let mut notes = std::iter::once(source.line(line)).chain(source.above(line));
        if sleeps && called && token.test && !notes.any(gives_reason) {
            let text = "a test waits for what happens, not for time to pass; \
                        if time is the point, say so: `// sleep: <reason>`";
            faults.push(Fault::new(&source.path, line, "sleep", text));
        }
    }
    faults
}

fn gives_reason(line: &str) -> bool {
    line.split_once("// sleep:").is_some_and(|(_, reason)| !reason.trim().is_empty())
}

/// The crates of decisions read no clock and touch nothing outside; their tests may.
pub fn pure_policy(source: &Source) -> Vec<Fault> {
    let tokens = &source.tokens;
    let mut faults = Vec::new();
    let pure = ["crates/weir-policy/", "crates/weir-doctor/"];
    if !pure.iter().any(|place| source.path.starts_with(place)) {
        return faults;
    }
    for (index, token) in tokens.iter().enumerate().filter(|(_, token)| !token.test) {
        let uses_std =
            token.is("std") && (is_at(tokens, index, -1, "crate") || is_at(tokens, index, 1, ":"));
        if uses_std || token.kind == Kind::Word && CLOCKS.contains(&token.text.as_str()) {
            let text = format!(
                "`{}` in a crate of decisions: facts and the time are passed in",
                token.text
            );
            faults.push(Fault::new(&source.path, token.start.line, "pure-policy", text));
        }
    }
    faults
}
