//! Rules about `unsafe`: which crates forbid it, where it may stand, what must be said there.

use super::Fault;
use super::source::{Kind, Source};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Crates whose roots hold `#![forbid(unsafe_code)]`.
const FORBID: [&str; 10] = [
    "weir-policy",
    "weir-doctor",
    "weir-ring",
    "weir-profile",
    "weir-measure",
    "weir-net",
    "weir-bench",
    "weir-model",
    "weir-bridge",
    "weir-cli",
];
/// Crates whose roots hold `#![no_std]`.
const NO_STD: [&str; 2] = ["weir-policy", "weir-doctor"];
/// Beginnings of the paths where `unsafe` may stand.
const PLACES: [&str; 9] = [
    "crates/weir-sys/",
    "crates/weir-measure-sys/",
    "crates/weir-bench-sys/",
    "crates/weir-cli-sys/",
    "crates/weir-ffi/",
    "crates/weir/src/memory/",
    // To fork a process of several threads, as tests of what a child inherits do.
    "crates/weir/tests/",
    "crates/weir-net/tests/",
    "crates/weir-profile/tests/",
];

/// The roots of the crates say what the compiler is to hold.
pub fn headers(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some((name, file)) =
        source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
    else {
        return faults;
    };
    if !(matches!(file, "lib.rs" | "main.rs") || file.starts_with("bin/")) {
        return faults;
    }
    let demands = [(&FORBID[..], "#![forbid(unsafe_code)]"), (&NO_STD[..], "#![no_std]")];
    for (crates, header) in demands {
        if crates.contains(&name) && !has_header(source, header) {
            let text = format!("the root of {name} must say `{header}`");
            faults.push(Fault::new(&source.path, 1, "header", text));
        }
    }
    faults
}

fn has_header(source: &Source, header: &str) -> bool {
    let written: Vec<&str> = source.tokens.iter().map(|token| token.text.as_str()).collect();
    let wanted: TokenStream = header.parse().expect("an attribute");
    let wanted = Source::parse("", &wanted.to_string()).expect("an attribute").tokens;
    written
        .windows(wanted.len())
        .any(|window| window.iter().zip(&wanted).all(|(word, token)| *word == token.text))
}

/// `unsafe` stands only in the places made for it.
pub fn places(source: &Source) -> Vec<Fault> {
    if PLACES.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    source
        .tokens
        .iter()
        .filter(|token| token.kind == Kind::Word && token.text == "unsafe")
        .map(|token| {
            let text = "`unsafe` outside the -sys crates, weir-ffi and weir's memory";
            Fault::new(&source.path, token.start.line, "unsafe-place", text)
        })
        .collect()
}

/// What must be said above an `unsafe`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    /// A comment with `SAFETY:` that names the invariant.
    Comment(&'static str),
    /// A doc section `# Safety` that says what a caller has to keep.
    Section,
    /// Either: the contract is the trait's.
    Either,
    /// Nothing: a type.
    Nothing,
}

/// Each `unsafe` block, impl, extern block and attribute has a `SAFETY:` comment directly above
/// it or above the statement it is in; each `unsafe fn` and trait has a `# Safety` section.
pub fn comments(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    walk(source, source.tree.clone(), &[], false, &mut faults);
    faults
}

/// Looks through one group. `outer` holds the lines where the statements around it begin, as far
/// as the nearest braces; `of_trait` tells that the group is the body of an `impl Trait for`.
fn walk(source: &Source, tree: TokenStream, outer: &[usize], of_trait: bool, out: &mut Vec<Fault>) {
    let items: Vec<TokenTree> = tree.into_iter().filter(|item| !source.is_comment(item)).collect();
    let mut start = None;
    let (mut has_impl, mut has_for) = (false, false);
    for (index, item) in items.iter().enumerate() {
        let line = item.span().start().line;
        let mut starts = outer.to_vec();
        starts.push(*start.get_or_insert(line));
        match item {
            TokenTree::Ident(word) if word == "unsafe" => {
                starts.push(line);
                out.extend(missing(source, line, &starts, demand(&items[index + 1..], of_trait)));
            }
            TokenTree::Ident(word) => {
                has_impl |= word == "impl";
                has_for |= word == "for" && !is_mark(items.get(index + 1), "<");
            }
            TokenTree::Punct(mark) if mark.as_char() == ';' => {
                (start, has_impl, has_for) = (None, false, false);
            }
            TokenTree::Punct(mark) if mark.as_char() == ',' => start = None,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                walk(source, group.stream(), &[], has_impl && has_for, out);
                (has_impl, has_for) = (false, false);
                if !goes_on(items.get(index + 1)) {
                    start = None;
                }
            }
            TokenTree::Group(group) => walk(source, group.stream(), &starts, false, out),
            _ => {}
        }
    }
}

fn is_mark(item: Option<&TokenTree>, marks: &str) -> bool {
    matches!(item, Some(TokenTree::Punct(mark)) if marks.contains(mark.as_char()))
}

/// Whether a statement goes on after a closing brace, judged by the next token.
fn goes_on(next: Option<&TokenTree>) -> bool {
    is_mark(next, ".?=")
        || matches!(next, Some(TokenTree::Ident(word)) if word == "else" || word == "as")
}

/// What is asked of an `unsafe`, from what follows it.
fn demand(after: &[TokenTree], of_trait: bool) -> Demand {
    let function = if of_trait { Demand::Either } else { Demand::Section };
    match after {
        [TokenTree::Group(group), ..] => match group.delimiter() {
            Delimiter::Brace => Demand::Comment("block"),
            _ => Demand::Comment("attribute"),
        },
        [TokenTree::Ident(word), rest @ ..] => match word.to_string().as_str() {
            "impl" => Demand::Comment("impl"),
            "trait" | "auto" => Demand::Section,
            "fn" if matches!(rest.first(), Some(TokenTree::Ident(_))) => function,
            "extern" => match rest {
                [TokenTree::Literal(_), rest @ ..] => demand_of_extern(rest, function),
                _ => demand_of_extern(rest, function),
            },
            _ => Demand::Nothing,
        },
        _ => Demand::Nothing,
    }
}

/// The same after `unsafe extern` and the name of a calling convention.
fn demand_of_extern(rest: &[TokenTree], function: Demand) -> Demand {
    match rest {
        [TokenTree::Group(_), ..] => Demand::Comment("extern block"),
        [TokenTree::Ident(_), TokenTree::Ident(_), ..] => function,
        _ => Demand::Nothing,
    }
}

fn missing(source: &Source, line: usize, starts: &[usize], demand: Demand) -> Option<Fault> {
    let says = |words: &str| {
        starts.iter().any(|start| source.above(*start).any(|note| note.contains(words)))
    };
    let text = match demand {
        Demand::Comment(what) if !says("SAFETY:") => {
            format!("`unsafe` {what} without a `// SAFETY:` comment directly above it")
        }
        Demand::Section if !says("# Safety") => {
            "`unsafe fn` or trait without a `# Safety` section in its docs".to_owned()
        }
        Demand::Either if !says("# Safety") && !says("SAFETY:") => {
            "`unsafe fn` of a trait without `# Safety` or `// SAFETY:` above it".to_owned()
        }
        _ => return None,
    };
    Some(Fault::new(&source.path, line, "unsafe-comment", text))
}
