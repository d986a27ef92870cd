//! Rules that need the file parsed: function lengths, and `unsafe`.

use proc_macro2::{TokenStream, TokenTree};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::Visit;

/// Longest function, in lines.
pub const FUNCTION_LINES: usize = 70;

/// Where `unsafe` may stand.
const UNSAFE_PLACES: [&str; 6] = [
    "crates/weir-sys/",
    "crates/weir-ffi/",
    "crates/weir/src/map.rs",
    "crates/weir/src/map/",
    "crates/weir/src/ring.rs",
    "crates/weir/src/ring/",
];
/// Crates that forbid it at their root.
const FORBIDDING: [&str; 8] = [
    "crates/weir-policy/src/lib.rs",
    "crates/weir-measure/src/lib.rs",
    "crates/weir-net/src/lib.rs",
    "crates/weir-model/src/lib.rs",
    "crates/weir-bridge/src/lib.rs",
    "crates/weir-cli/src/main.rs",
    "crates/weir-cli/src/lib.rs",
    "tests/src/lib.rs",
];

/// Complaints about a Rust file.
pub fn complaints(path: &Path, text: &str) -> Vec<String> {
    let name = path.display().to_string();
    let file = match syn::parse_file(text) {
        Ok(file) => file,
        Err(error) => return vec![format!("{name}: cannot be parsed: {error}")],
    };
    let mut look = Look { name: &name, lines: text.lines().collect(), found: Vec::new() };
    look.visit_file(&file);
    let mut found = look.found;
    let allowed = UNSAFE_PLACES.iter().any(|place| name.starts_with(place));
    if !allowed && let Ok(tokens) = text.parse() {
        for line in unsafe_lines(tokens) {
            found.push(format!("{name}:{line}: unsafe outside of the places for it"));
        }
    }
    if FORBIDDING.contains(&name.as_str()) && !text.contains("#![forbid(unsafe_code)]") {
        found.push(format!("{name}: lacks #![forbid(unsafe_code)]"));
    }
    if name.starts_with("crates/weir-policy/src") {
        found.extend(pure(&name, text));
    }
    found
}

/// Policy knows no clock and does no input or output.
fn pure(name: &str, text: &str) -> Vec<String> {
    const IMPURE: [&str; 3] = ["std::", "Instant", "SystemTime"];
    let mut found = Vec::new();
    if name.ends_with("src/lib.rs") && !text.contains("#![no_std]") {
        found.push(format!("{name}: lacks #![no_std]"));
    }
    for (number, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if let Some(word) = IMPURE.iter().find(|word| code.contains(**word)) {
            found.push(format!("{name}:{}: policy must not know {word}", number + 1));
        }
    }
    found
}

fn unsafe_lines(tokens: TokenStream) -> Vec<usize> {
    let mut lines = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if ident == "unsafe" => lines.push(ident.span().start().line),
            TokenTree::Group(group) => lines.extend(unsafe_lines(group.stream())),
            _ => {}
        }
    }
    lines
}

struct Look<'a> {
    name: &'a str,
    lines: Vec<&'a str>,
    found: Vec<String>,
}

impl Look<'_> {
    fn length(&mut self, ident: &syn::Ident, block: &syn::Block) {
        let span = block.span();
        let lines = span.end().line - span.start().line + 1;
        if lines > FUNCTION_LINES {
            let at = ident.span().start().line;
            let name = self.name;
            self.found
                .push(format!("{name}:{at}: {ident} has {lines} lines, at most {FUNCTION_LINES}"));
        }
    }

    /// The comment right above the statement in which line `line` stands must give the reason.
    fn reason(&mut self, line: usize) {
        let mut above = line - 1;
        while above > 0 && self.lines[line - 1..line].iter().all(|l| !l.contains("SAFETY:")) {
            let text = self.lines[above - 1].trim();
            if text.contains("SAFETY:") {
                return;
            }
            // A statement may begin some lines above its unsafe block.
            if text.is_empty() || text.ends_with(';') || text.ends_with('}') {
                break;
            }
            above -= 1;
        }
        let name = self.name;
        self.found.push(format!("{name}:{line}: unsafe without `// SAFETY:` above it"));
    }

    fn safety_section(&mut self, line: usize, attrs: &[syn::Attribute]) {
        let documented = attrs.iter().any(|attr| {
            matches!(&attr.meta, syn::Meta::NameValue(meta)
                if matches!(&meta.value, syn::Expr::Lit(lit)
                    if matches!(&lit.lit, syn::Lit::Str(text) if text.value().contains("# Safety"))))
        });
        if !documented {
            let name = self.name;
            self.found.push(format!("{name}:{line}: an unsafe fn needs a `# Safety` section"));
        }
    }
}

impl<'ast> Visit<'ast> for Look<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.length(&item.sig.ident, &item.block);
        if let Some(word) = &item.sig.unsafety {
            self.safety_section(word.span().start().line, &item.attrs);
        }
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.length(&item.sig.ident, &item.block);
        if let Some(word) = &item.sig.unsafety {
            self.safety_section(word.span().start().line, &item.attrs);
        }
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_expr_unsafe(&mut self, expr: &'ast syn::ExprUnsafe) {
        self.reason(expr.unsafe_token.span().start().line);
        syn::visit::visit_expr_unsafe(self, expr);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(word) = &item.unsafety {
            self.reason(word.span().start().line);
        }
        syn::visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Vec<String> {
        complaints(Path::new(name), text)
    }

    #[test]
    fn unsafe_needs_its_place_and_its_reason() {
        let bare = "fn a() {\n    unsafe { b() };\n}\n";
        let why = "fn a() {\n    // SAFETY: b asks for nothing.\n    unsafe { b() };\n}\n";
        assert_eq!(of("crates/weir-sys/src/a.rs", why), Vec::<String>::new());
        assert!(of("crates/weir-sys/src/a.rs", bare)[0].contains(":2: unsafe without"));
        assert!(of("crates/weir-cli/src/a.rs", why)[0].contains("outside of the places"));
        let in_words = "// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(of("crates/weir-cli/src/a.rs", in_words), Vec::<String>::new());
        let function = "pub unsafe fn a() {}\n";
        assert!(of("crates/weir-sys/src/a.rs", function)[0].contains("# Safety"));
    }

    #[test]
    fn a_reason_may_stand_above_a_statement_of_several_lines() {
        let far = "fn a() {\n    // SAFETY: fine.\n    let x =\n        unsafe { b() };\n}\n";
        assert_eq!(of("crates/weir-sys/src/a.rs", far), Vec::<String>::new());
    }

    #[test]
    fn long_functions_are_found_wherever_they_stand() {
        let body = "    a();\n".repeat(70);
        let method = format!("impl A {{\nfn long(&self) {{\n{body}}}\n}}\n");
        assert!(of("a.rs", &method)[0].contains("a.rs:2: long has 72 lines"));
        let short = format!("fn short() {{\n{}}}\n", "    a();\n".repeat(68));
        assert_eq!(of("a.rs", &short), Vec::<String>::new());
    }

    #[test]
    fn policy_is_pure_and_roots_forbid_unsafe() {
        let clock = "use core::time;\nfn a(_: Instant) {}\n";
        assert!(of("crates/weir-policy/src/a.rs", clock)[0].contains("must not know Instant"));
        assert!(of("crates/weir-measure/src/lib.rs", "mod a;\n")[0].contains("lacks #![forbid"));
    }
}
