//! Of each rule a sample that breaks it, for the message, and one that keeps it.

use super::*;
use serde_json::{Value, json};
use std::path::Path;

/// What `check` says of a file, one text a fault.
fn said(path: &str, text: &str) -> Vec<String> {
    check(path, text).iter().map(Fault::to_string).collect()
}

/// Rust of a crate without rules of its own, with the opening line that every file has: what
/// `body` begins with is on line 2.
fn of_rust(body: &str) -> Vec<String> {
    said("crates/weir-x/src/a.rs", &format!("//! A sample.\n{body}"))
}

/// The same where `unsafe` may stand.
fn of_sys(body: &str) -> Vec<String> {
    said("crates/weir-sys/src/a.rs", &format!("//! A sample.\n{body}"))
}

#[track_caller]
fn one(faults: Vec<String>, begins: &str) {
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with(begins), "{} does not begin {begins}", faults[0]);
}

#[track_caller]
fn none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{faults:?}");
}

fn package(name: &str, dependencies: &[(&str, Value)]) -> Value {
    let list: Vec<Value> =
        dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
    let manifest = format!("/nowhere/crates/{name}/Cargo.toml");
    json!({ "name": name, "manifest_path": manifest, "dependencies": list })
}

fn arrows_of(packages: &[Value]) -> Vec<String> {
    let metadata = json!({ "packages": packages });
    arrows::arrows(Path::new("/nowhere"), &metadata).iter().map(Fault::to_string).collect()
}

#[test]
fn an_arrow_against_the_table_is_named_with_its_kind() {
    let library = package("weir", &[("weir-policy", Value::Null), ("libc", Value::Null)]);
    let policy = package("weir-policy", &[]);
    let good = package("weir-model", &[("weir-policy", Value::Null), ("serde", Value::Null)]);
    none(arrows_of(&[library.clone(), policy.clone(), good]));
    for (kind, name) in [(Value::Null, "normal"), (json!("dev"), "dev"), (json!("build"), "build")]
    {
        let bad = package("weir-model", &[("weir", kind)]);
        let faults = arrows_of(&[library.clone(), policy.clone(), bad]);
        one(
            faults,
            &format!(
                "crates/weir-model/Cargo.toml:1: [arrows] \
                 weir-model may not depend on weir ({name} dependency)"
            ),
        );
    }
    one(arrows_of(&[package("weir-new", &[])]), "crates/weir-new/Cargo.toml:1: [arrows] unknown");
}

#[test]
fn a_crate_without_a_place_in_the_table_is_told_where_to_add_itself() {
    let faults = arrows_of(&[package("weir-new", &[])]);
    assert!(faults[0].contains("add it to ARROWS"), "{faults:?}");
}

#[test]
fn a_file_opens_with_what_it_holds() {
    one(said("a.rs", "fn main() {}\n"), "a.rs:1: [opening]");
    one(said("build.rs", "//!\nfn main() {}\n"), "build.rs:1: [opening]");
    one(said("a.rs", "// A comment that is no doc comment.\n"), "a.rs:1: [opening]");
    none(said("a.rs", "//! Holds nothing.\nfn main() {}\n"));
}

#[test]
fn files_lines_and_functions_have_lengths() {
    let lines = "// line\n".repeat(lines::FILE_LINES - 1);
    none(of_rust(&lines));
    one(of_rust(&format!("{lines}// one more\n")), "crates/weir-x/src/a.rs:501: [file-length] 501");

    let line = "x".repeat(lines::LINE_CHARS - 3);
    none(of_rust(&format!("// {line}\n")));
    one(of_rust(&format!("\n// {line}x\n")), "crates/weir-x/src/a.rs:3: [line-length] 101");

    let body = "    let _ = 0;\n".repeat(syntax::FUNCTION_LINES);
    none(of_rust(&format!("fn a() {{\n{body}}}\n")));
    let long = "crates/weir-x/src/a.rs:3: [function-length] the body of `a` has 71 lines";
    one(of_rust(&format!("\nfn a() {{\n{body}\n}}\n")), long);
    let method = format!("impl A {{\nfn a<const N: usize>(_: B<{{ N }}>) -> u8 {{\n{body}\n}}}}\n");
    one(of_rust(&method), long);
    let in_macro = format!("proptest! {{\n#[test] fn a(x in 0..9) {{\n{body}\n}}}}\n");
    one(of_rust(&in_macro), long);
    none(of_rust("trait A { fn a(&self); fn b(&self); }\nextern \"C\" { fn c(); }\n"));
}

#[test]
fn a_long_string_or_address_excuses_its_line_but_not_what_is_beside_it() {
    let piece = "x".repeat(110);
    none(of_rust(&format!("const A: &str = \"{piece}\";\n")));
    none(of_rust(&format!("const A: &str = r#\"\n{piece}\n\"#;\n")));
    none(of_rust(&format!("// See https://example.org/{piece}\n")));
    none(of_rust(&format!("/// See <https://example.org/{piece}>.\nfn a() {{}}\n")));
    let beside = format!("const A: (&str, u8) = (\"{}\", {});\n", "x".repeat(10), "1 +".repeat(40));
    one(of_rust(&beside), "crates/weir-x/src/a.rs:2: [line-length]");
    let comment = format!("// a string in a comment is no string: \"{piece}\"\n");
    one(of_rust(&comment), "crates/weir-x/src/a.rs:2: [line-length]");
}

#[test]
fn code_is_ascii_and_prose_need_not_be() {
    let text = "# caf\u{e9}\n";
    for path in ["a.toml", "x/a.sh", "justfile", ".ci/run"] {
        one(said(path, text), &format!("{path}:1: [ascii] '\u{e9}' is not ASCII"));
    }
    one(said("examples/a", &format!("#!/bin/sh\n{text}")), "examples/a:2: [ascii]");
    none(said("README.md", text));
    one(of_rust("// caf\u{e9}\n"), "crates/weir-x/src/a.rs:2: [ascii]");
}

#[test]
fn work_left_over_is_found() {
    let marks = [concat!("FIX", "ME"), concat!("X", "XX")];
    for mark in marks {
        one(of_rust(&format!("// {mark}: later\n")), "crates/weir-x/src/a.rs:2: [leftover]");
    }
    none(of_rust(&format!("// mktemp a.{}XX\n", marks[1])));
    let banned = "crates/weir-x/src/a.rs:2: [banned]";
    one(of_rust("fn a() { todo!() }\n"), banned);
    one(of_rust("fn a() { assert!(b(unimplemented!(\"later\"))) }\n"), banned);
    one(of_rust("#[ignore = \"slow\"]\n#[test]\nfn a() {}\n"), banned);
    one(of_rust("#[cfg_attr(miri, ignore)]\n#[test]\nfn a() {}\n"), banned);
    none(of_rust("// todo!() is banned\nconst A: &str = \"#[ignore] todo!()\";\nfn todo() {}\n"));
}

#[test]
fn a_test_that_sleeps_says_why() {
    let call = "thread::sleep(SHORT);";
    let fault = "[sleep] a test waits for what happens";
    let bare = format!("#[cfg(test)]\nmod tests {{\n    {call}\n}}\n");
    one(of_rust(&bare), &format!("crates/weir-x/src/a.rs:4: {fault}"));
    let whole_file = format!("//! A test.\nfn a() {{ {call} }}\n");
    one(said("crates/weir-x/tests/a.rs", &whole_file), "crates/weir-x/tests/a.rs:2: [sleep]");
    one(said("crates/weir-x/src/tests.rs", &whole_file), "crates/weir-x/src/tests.rs:2: [sleep]");
    one(of_rust("#[test]\nfn a() { sleep(SHORT) }\n"), "crates/weir-x/src/a.rs:3: [sleep]");
    one(
        of_rust(&format!("#[test]\nfn a() {{\n// sleep:\n{call} }}\n")),
        "crates/weir-x/src/a.rs:5: [sleep]",
    );
    none(of_rust(&format!("#[test]\nfn a() {{\n// sleep: time is measured here.\n{call} }}\n")));
    none(of_rust(&format!("#[test]\nfn a() {{\n{call} // sleep: so that it ages.\n}}\n")));
    none(of_rust(&format!("fn not_a_test() {{ {call} }}\n")));
    none(of_rust("#[test]\nfn a() { Command::new(\"sleep\"); clock.sleep(SHORT) }\n"));
}

#[test]
fn the_policy_knows_neither_clock_nor_system() {
    let of_policy = |body: &str| said("crates/weir-policy/src/a.rs", &format!("//! A.\n{body}"));
    let fault = "crates/weir-policy/src/a.rs:2: [pure-policy]";
    one(of_policy("use std::fs;\n"), fault);
    one(of_policy("fn a() { crate::b(::std::process::id()) }\n"), fault);
    one(of_policy("extern crate std;\n"), fault);
    one(of_policy("fn a(now: Instant) {}\n"), fault);
    none(of_policy("#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}\nfn a() {}\n"));
    none(of_policy("/// Like std::fs, but without an Instant.\nfn a() {}\n"));
    none(said("crates/weir-policy/src/a/tests.rs", "//! Tests.\nuse std::fs;\n"));
    let not = "#[cfg(not(test))]\nuse std::fs;\n";
    one(of_policy(not), "crates/weir-policy/src/a.rs:3: [pure-policy]");
    let after = "#[cfg(test)]\nuse std::fs;\nuse std::io;\n";
    one(of_policy(after), "crates/weir-policy/src/a.rs:4: [pure-policy]");
}

#[test]
fn roots_of_crates_forbid_unsafe() {
    let both = "//! A.\n#![no_std]\n#![forbid(unsafe_code)]\n";
    none(said("crates/weir-policy/src/lib.rs", both));
    let faults = said("crates/weir-policy/src/lib.rs", "//! `#![forbid(unsafe_code)]`\n");
    assert_eq!(faults.len(), 2, "{faults:?}");
    one(
        said("crates/weir-cli/src/main.rs", "//! A.\n#![deny(unsafe_code)]\n"),
        "crates/weir-cli/src/main.rs:1: [header] \
         the root of weir-cli must say `#![forbid(unsafe_code)]`",
    );
    none(said("crates/weir-cli/src/args.rs", "//! A.\n"));
    none(said("crates/weir-sys/src/lib.rs", "//! A.\n"));
}

#[test]
fn unsafe_stands_in_its_places_only() {
    let text = "//! A.\nfn a() {\n    // SAFETY: fine.\n    unsafe { b() }\n}\n";
    let places = ["weir-sys/src/a.rs", "weir-ffi/src/lib.rs", "weir/src/memory/link.rs"];
    for path in places.into_iter().chain(["weir/src/memory/mod.rs"]) {
        none(said(&format!("crates/{path}"), text));
    }
    for path in ["crates/weir/src/pipe.rs", "tests/tests/a.rs", "crates/weir-cli/src/ring.rs"] {
        one(said(path, text), &format!("{path}:4: [unsafe-place]"));
    }
    none(of_rust("// unsafe\nconst A: &str = \"unsafe\";\n/// unsafe\nfn r#unsafe() {}\n"));
}

#[test]
fn unsafe_without_its_comment_is_found() {
    let fault = "crates/weir-sys/src/a.rs:3: [unsafe-comment] `unsafe";
    one(of_sys("fn a() {\n    unsafe { b() }\n}\n"), fault);
    one(of_sys("\nunsafe impl Send for A {}\n"), fault);
    one(of_sys("\nunsafe extern \"C\" {}\n"), fault);
    one(of_sys("\n#[unsafe(no_mangle)]\nfn a() {}\n"), fault);
    one(of_sys("\npub unsafe fn a() {}\n"), fault);
    one(of_sys("\npub unsafe trait A {}\n"), fault);
    one(of_sys("// SAFETY: of a docless function\npub unsafe extern \"C\" fn a() {}\n"), "crates");
    // A comment above the function says nothing of a block inside, nor one past a blank line.
    one(of_sys("// SAFETY: no.\nfn a() { b();\n\n unsafe { c() } }\n"), "crates");
    one(of_sys("fn a() {\n    // SAFETY: no.\n\n    unsafe { b() }\n}\n"), "crates");
    one(of_sys("fn a() {\n    // SAFETY: no.\n    b();\n    unsafe { c() }\n}\n"), "crates");
    one(of_sys("fn a() {\n// SAFETY: no.\n    if b {}\n    unsafe { c() }\n}\n"), "crates");
    one(of_sys("macro_rules! a { () => {\n unsafe { b() } } }\n"), fault);
}

#[test]
fn unsafe_with_its_comment_passes() {
    none(of_sys("fn a() {\n    // SAFETY: kept\n    // by the caller.\n    unsafe { b() }\n}\n"));
    none(of_sys("fn a() {\n    // SAFETY: kept.\n    let c =\n        d(unsafe { b() });\n}\n"));
    none(of_sys("fn a() {\n    // SAFETY: kept.\n    if b(c, || d)\n || unsafe { e() } {}\n}\n"));
    none(of_sys("fn a() { match b {\n B { c } => d,\n// SAFETY: kept.\nE => unsafe { f() },\n} }"));
    none(of_sys("// SAFETY: kept.\n#[allow(dead_code)]\nunsafe impl<A, B> Send for C<A, B> {}\n"));
    none(of_sys("// SAFETY: once.\n#[used]\n#[unsafe(link_section = \"a\")]\nstatic A: u8 = 0;\n"));
    none(of_sys("/// A.\n///\n/// # Safety\n/// Call once.\n#[inline]\npub unsafe fn a() {}\n"));
    none(of_sys("/// # Safety\n/// Keep it.\npub unsafe trait A {}\n"));
    none(of_sys("type A = unsafe extern \"C\" fn(u8);\nfn a(_: unsafe fn()) {}\n"));
    none(of_sys(
        "// SAFETY: kept.\nunsafe impl A for B {\n    // SAFETY: as in A.\n    unsafe fn a() {}\n}\n",
    ));
}

#[test]
fn a_path_of_a_machine_is_found_in_any_text() {
    let fault = "[machine-path]";
    one(said("README.md", "a\nsee /root/notes\n"), &format!("README.md:2: {fault} `/root/`"));
    one(said("data/a.txt", "cwd=/builds/x\n"), &format!("data/a.txt:1: {fault} `/builds/`"));
    one(said("a.py", "'/home/builder/x'"), &format!("a.py:1: {fault} `/home/builder/`"));
    one(said("a.py", "/Users/jo/x"), &format!("a.py:1: {fault} `/Users/jo/`"));
    none(said("README.md", "cd /home/you/src; cd /home/user/x; ls /home/; echo /home/$USER/\n"));
    none(said("README.md", "crates/builds/a ${DIR}/root/b https://example.org/home/page/x\n"));
    none(said("tests/src/tidy/a.rs", "//! /root/\n"));
}

#[test]
fn text_that_is_not_rust_is_a_fault_of_its_own() {
    one(of_rust("fn a( {\n"), "crates/weir-x/src/a.rs:");
}

#[test]
#[should_panic(expected = "2 broken house rules:\na.rs:1: [opening]")]
fn all_faults_are_told_at_once() {
    demand_none(&check("a.rs", "fn a() { todo!() }\n"));
}

#[test]
fn without_git_all_but_what_is_built_is_looked_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    for path in ["Cargo.toml", "src/lib.rs", "target/debug/a.rs", ".git/config"] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        std::fs::write(path, "a\n").expect("a file");
    }
    std::fs::write(root.join("picture"), b"\0\x01").expect("a file");
    std::os::unix::fs::symlink("src", root.join("link")).expect("a link");
    assert_eq!(files::tracked(root), ["Cargo.toml", "picture", "src/lib.rs"]);
    assert_eq!(files::text(&root.join("picture")), None);
    assert_eq!(files::text(&root.join("src/lib.rs")).as_deref(), Some("a\n"));
}
