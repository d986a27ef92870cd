//! For each rule a sample that breaks it, to check the message, and one that keeps it.

use super::*;
use serde_json::{Value, json};
use std::path::Path;

/// Returns the faults that `check` finds in a file, as texts.
fn said(path: &str, text: &str) -> Vec<String> {
    check(path, text).iter().map(TidyFault::to_string).collect()
}

/// Checks Rust of a crate without special rules. The opening line that every file has is added, so
/// `body` begins on line 2.
fn of_rust(body: &str) -> Vec<String> {
    said("crates/weir-x/src/a.rs", &format!("//! A sample.\n{body}"))
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
    arrows::arrows(Path::new("/nowhere"), &metadata).iter().map(TidyFault::to_string).collect()
}

#[test]
fn an_arrow_against_the_table_is_named_with_its_kind() {
    let library = package("weir-pipes", &[("weir-policy", Value::Null), ("libc", Value::Null)]);
    let policy = package("weir-policy", &[]);
    let good = package("weir-ring", &[("weir-policy", Value::Null), ("serde", Value::Null)]);
    none(arrows_of(&[library.clone(), policy.clone(), good]));
    for (kind, name) in [(Value::Null, "normal"), (json!("dev"), "dev"), (json!("build"), "build")]
    {
        let bad = package("weir-ring", &[("weir-pipes", kind)]);
        let faults = arrows_of(&[library.clone(), policy.clone(), bad]);
        one(
            faults,
            &format!(
                "crates/weir-ring/Cargo.toml:1: [arrows] \
                 weir-ring may not depend on weir-pipes ({name} dependency)"
            ),
        );
    }
    one(arrows_of(&[package("weir-new", &[])]), "crates/weir-new/Cargo.toml:1: [arrows] unknown");
}

#[test]
fn a_dependency_that_no_source_names_is_named() {
    let dependencies = [
        ("serde-json", Value::Null),
        ("weir-pipes", Value::Null),
        ("cc", json!("build")),
        ("insta", json!("dev")),
    ];
    let mut library = package("weir-pipes", &[]);
    library["targets"] = json!([{ "kind": ["lib"], "name": "weir" }]);
    let metadata = json!({ "packages": [package("weir-ring", &dependencies), library] });
    let unused = |texts: &[(&str, &str)]| {
        let texts = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        let faults = arrows::unused(Path::new("/nowhere"), &metadata, &texts.collect());
        faults.iter().map(TidyFault::to_string).collect::<Vec<_>>()
    };
    let build = ("crates/weir-ring/build.rs", "cc::Build::new();");
    let source = ("crates/weir-ring/src/a/b.rs", "use serde_json::Value;\nuse weir::pipe;");
    none(unused(&[build, source]));
    let other = ("crates/weir-ring-2/src/lib.rs", "use serde_json::Value; use weir::pipe;");
    let test = ("crates/weir-ring/tests/a.rs", "use serde_json::Value;");
    let near = ("crates/weir-ring/src/a.rs", "use serde_json_2 as x; use weir::pipe;");
    one(
        unused(&[build, other, test, near]),
        "crates/weir-ring/Cargo.toml:1: [unused] no source of weir-ring names serde_json",
    );
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
fn one_room_makes_paths_of_proc() {
    let text =
        format!("//! A.\nfn a() {{ b(&format!(\"{}pid}}/stat\")) }}\n", concat!("/pr", "oc/{"));
    one(said("crates/weir-x/src/a.rs", &text), "crates/weir-x/src/a.rs:2: [proc]");
    for path in ["crates/weir-sys/src/proc/a.rs", "crates/weir-x/tests/a.rs", "net/weir-x/src/a.rs"]
    {
        none(said(path, &text));
    }
}

#[test]
fn lines_have_a_length() {
    let line = "x".repeat(rules::LINE_CHARS - 3);
    none(of_rust(&format!("// {line}\n")));
    one(of_rust(&format!("\n// {line}x\n")), "crates/weir-x/src/a.rs:3: [line-length] 101");
}

#[test]
fn a_long_string_or_address_excuses_its_line() {
    let piece = "x".repeat(110);
    none(of_rust(&format!("const A: &str = \"{piece}\";\n")));
    none(of_rust(&format!("const A: &str = r#\"\n{piece}\n\"#;\n")));
    none(of_rust(&format!("// See https://example.org/{piece}\n")));
    none(of_rust(&format!("/// See <https://example.org/{piece}>.\nfn a() {{}}\n")));
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
    let ignored = "crates/weir-x/src/a.rs:2: [ignore]";
    one(of_rust("#[ignore = \"slow\"]\n#[test]\nfn a() {}\n"), ignored);
    one(of_rust("#[cfg_attr(miri, ignore)]\n#[test]\nfn a() {}\n"), ignored);
    none(of_rust("// #[ignore]\nconst A: &str = \"#[ignore]\";\nfn ignore() {}\n"));
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
fn crates_of_decisions_do_without_std() {
    let of_policy = |body: &str| said("crates/weir-policy/src/a.rs", &format!("//! A.\n{body}"));
    one(of_policy("extern crate std;\n"), "crates/weir-policy/src/a.rs:2: [pure]");
    none(of_policy(
        "#[cfg(test)]\nextern crate std;\n#[cfg(all(unix, test))]\nextern crate std;\n",
    ));
    one(of_policy("#[cfg(not(test))]\nextern crate std;\n"), "crates/weir-policy/src/a.rs:3");
    none(of_policy("/// extern crate std;\nfn a() {}\n"));
}

#[test]
fn roots_of_crates_forbid_unsafe() {
    let both = "//! A.\n#![no_std]\n#![forbid(unsafe_code)]\n";
    none(said("crates/weir-policy/src/lib.rs", both));
    let faults = said("crates/weir-policy/src/lib.rs", "//! `#![forbid(unsafe_code)]`\n");
    assert_eq!(faults.len(), 2, "{faults:?}");
    one(
        said("crates/weir-cli/src/main.rs", "//! A.\n#![warn(unsafe_code)]\n"),
        "crates/weir-cli/src/main.rs:1: [header] \
         the root of weir-cli must say `#![forbid(unsafe_code)]`",
    );
    none(said("crates/weir-cli/src/args.rs", "//! A.\n"));
    none(said("crates/weir-sys/src/lib.rs", "//! A.\n"));
}

#[test]
fn unsafe_stands_in_its_places_only() {
    let text = "//! A.\nfn a() {\n    unsafe { b() }\n}\n";
    for path in
        ["weir-new-sys/src/a.rs", "weir/src/memory/a.rs", "weir-x/src/sys.rs", "weir/tests/a.rs"]
    {
        none(said(&format!("crates/{path}"), text));
    }
    none(said("bindings/c/src/pipe.rs", text));
    for path in ["weir/src/pipe.rs", "weir-cli/src/a/sys/b.rs", "weir-ring/src/heap.rs"] {
        let path = format!("crates/{path}");
        one(said(&path, text), &format!("{path}:3: [unsafe-place]"));
    }
    none(of_rust("// unsafe\nconst A: &str = \"unsafe\";\n/// unsafe\nfn r#unsafe() {}\n"));
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
    demand_none(&check("a.rs", "fn a() { unsafe { b() } }\n"));
}

#[test]
fn tracked_texts_are_looked_at_and_nothing_else() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    let git = |arguments: &[&str]| {
        let run = std::process::Command::new("git").current_dir(root).args(arguments).output();
        assert!(run.is_ok_and(|output| output.status.success()), "git {arguments:?}");
    };
    assert_eq!(files::texts(root), None);
    git(&["init", "--quiet"]);
    for (name, bytes) in [("Cargo.toml", "a\n"), ("gone", "a\n"), ("picture", "\0"), ("notes", "a")]
    {
        std::fs::write(root.join(name), bytes).expect("a file");
    }
    std::os::unix::fs::symlink("Cargo.toml", root.join("link")).expect("a link");
    git(&["add", "Cargo.toml", "gone", "picture", "link"]);
    std::fs::remove_file(root.join("gone")).expect("there");
    let texts = files::texts(root).expect("a repository");
    assert_eq!(texts, [("Cargo.toml".to_owned(), "a\n".to_owned())].into());
}

/// Returns the circles in a crate, as texts.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let texts = texts_of(files);
    let arrows = circles::House::read(&texts).arrows();
    circles::circles(&arrows).iter().map(TidyFault::to_string).collect()
}

fn texts_of(files: &[(&str, &str)]) -> circles::Texts {
    let file = |(path, text): &(&str, &str)| {
        (format!("crates/weir-x/src/{path}.rs"), format!("//! A.\n{text}"))
    };
    files.iter().map(file).collect()
}

#[test]
fn a_circle_of_files_is_told_with_its_arrows_and_names() {
    let faults = circles_of(&[
        ("lib", "mod a;\nmod b;\nmod c;\n"),
        ("a", "use crate::b::{B, inner::{self, D as E}};\npub struct A(B, E);\n"),
        ("b", "pub mod inner { pub struct D; }\npub fn f() {\n    assert!(super::c::C > 1)\n}\n"),
        ("c", "use super::a as other;\npub const C: other::A = 1;\n"),
    ]);
    let begins = "crates/weir-x/src/a.rs:2: [circle] 3 files import each other in a circle:\n    \
                  crates/weir-x/src/a.rs:2 -> crates/weir-x/src/b.rs: B, D, inner\n    \
                  crates/weir-x/src/b.rs:4 -> crates/weir-x/src/c.rs: C\n    \
                  crates/weir-x/src/c.rs:2 -> crates/weir-x/src/a.rs: A, a";
    one(faults, begins);
}

#[test]
fn a_name_that_is_handed_on_leads_to_where_it_is_defined() {
    let c = ("c", "use crate::a::B;\npub struct C(B);\n");
    let face = ("a", "mod b;\npub use b::B;\n");
    let b = ("a/b", "use crate::c::C;\npub struct B(C);\n");
    one(
        circles_of(&[("lib", "mod a;mod c;"), face, b, c]),
        "crates/weir-x/src/a/b.rs:2: [circle] 2",
    );
    // Through the root, under another name, in a `mod.rs`.
    let root = ("lib", "mod a;mod c;\npub use a::B as X;");
    let c = ("c", "use crate::X;\npub struct C(X);\n");
    let face = ("a/mod", "mod b;\npub(crate) use self::b::B;\n");
    one(circles_of(&[root, face, b, c]), "crates/weir-x/src/a/b.rs:2: [circle] 2");
    // By a glob.
    let c = ("c", "use crate::a::*;\npub struct C(B);\n");
    let a = ("a", "use crate::c::C;\npub struct B(C);\n");
    one(circles_of(&[("lib", "mod a;mod c;"), a, c]), "crates/weir-x/src/a.rs:2: [circle] 2");
    // A module that re-exports a name and uses it.
    let a = ("a", "mod b;\npub use b::f;\npub fn g() { f() }\n");
    let b = ("a/b", "pub fn f() { crate::c::h() }\n");
    let c = ("c", "pub fn h() { crate::a::g() }\n");
    one(circles_of(&[("lib", "mod a;mod c;"), a, b, c]), "crates/weir-x/src/a.rs:4: [circle] 3");
}

#[test]
fn what_is_no_import_makes_no_circle() {
    let to_a = ("c", "pub fn g() { crate::a::f() }\n");
    for a in [
        "pub fn f() {}\n#[cfg(test)]\nuse crate::c::g;\n",
        "pub fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::c::g;\n}\n",
        "/// See [`crate::c::g`].\npub fn f() -> &'static str { \"crate::c::g\" }\n",
        "use other::c::g;\npub fn f(c: u8) { c::<u8>(std::c::g) }\n",
    ] {
        none(circles_of(&[("lib", "mod a;mod c;"), ("a", a), to_a]));
    }
    // A folder's own file and a file in it, also through others in the folder; a module that
    // re-exports, and a module below it.
    let (b, c) = ("use super::c::h;\npub fn g() { h() }\n", "pub fn h() { crate::a::K }\n");
    let a = "mod b;\nmod c;\npub use b::g;\npub const K: u8 = 1;\nfn f() { b::g() }\n";
    none(circles_of(&[("lib", "mod a;"), ("a", a), ("a/b", b), ("a/c", c)]));
    let (b, c) = ("pub fn g() {}\n", "use crate::d::D;\npub fn h(_: D) {}\n");
    let d = ("d", "use crate::a::g;\npub struct D;\nfn f() { g() }\n");
    let a = "mod b;\nmod c;\npub use b::g;\npub use c::h;\n";
    none(circles_of(&[("lib", "mod a;mod d;"), ("a", a), ("a/b", b), ("a/c", c), d]));
}

#[test]
fn a_room_imports_those_below_it_only() {
    let of = |from: &str, path: &str| {
        let texts: circles::Texts = [
            ("lib", "mod error;mod park;mod pipe;mod tokio;".to_owned()),
            ("error", "pub struct Error;".to_owned()),
            ("park", "pub struct Parker;".to_owned()),
            ("pipe", "mod end;\npub use end::End;".to_owned()),
            ("pipe/end", "pub struct End;".to_owned()),
            ("tokio", "pub struct Stream;".to_owned()),
            (from, format!("use {path} as A;\npub struct Error;pub struct Parker;")),
        ]
        .into_iter()
        .map(|(file, text)| (format!("crates/weir/src/{file}.rs"), text))
        .collect();
        let arrows = circles::House::read(&texts).arrows();
        let faults = arrows::rooms(texts.keys().map(String::as_str), &arrows);
        faults.iter().map(TidyFault::to_string).collect::<Vec<_>>()
    };
    none(of("tokio", "crate::pipe::End"));
    none(of("pipe/end", "super::super::error::Error"));
    none(of("lib", "tokio::Stream"));
    let begin = "crates/weir/src/park.rs:1: [rooms] park may not import pipe (End of ";
    let faults = of("park", "crate::pipe::End");
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults.iter().all(|fault| fault.starts_with(begin)), "{faults:?}");
    one(of("error", "crate::park::Parker"), "crates/weir/src/error.rs:1: [rooms] error may not");
    one(
        of("loft", "crate::error::Error"),
        "crates/weir/src/loft.rs:1: [rooms] `loft` is not a room",
    );
}

#[test]
fn a_test_that_a_contract_names_exists() {
    let of = |contract: &str| {
        let texts: circles::Texts = [
            ("docs/contracts/a.md", contract),
            ("crates/weir-cli/tests/net.rs", "//! A.\n#[test]\nfn a_ping() {}\nfn helper() {}\n"),
            (
                "crates/weir-policy/src/pool/tests.rs",
                "//! A.\nmod inner {\n    #[test]\n    /// A.\n    fn a_b() {}\n}\n",
            ),
            ("crates/weir/tests/storm.rs", "//! A.\n#[tokio::test(a)]\nasync fn blows() {}\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        contracts::named_tests(&texts).iter().map(TidyFault::to_string).collect::<Vec<_>>()
    };
    none(of("1. Kept. [cli net::a_ping, net::a_pi..., unit\n   pool::a_b, loom, storm::blows]\n"));
    none(of("[policy pool::tests::inner] [net.md](net.md) [the same] `a[u8::MAX]` [storm, x]\n"));
    let fault = "docs/contracts/a.md:2: [contract] `";
    one(of("1.\n   [cli net::a_pong, net::a_ping]\n"), &format!("{fault}cli net::a_pong` leads"));
    one(of("1.\n[policy net::a_ping]\n"), fault);
    one(of("1.\n[net::helper]\n"), fault);
    one(of("1.\n[storm::a_ping]\n"), fault);
    one(of("1.\n[net::a_ping, strom]\n"), fault);
}

#[test]
fn what_recipes_and_tests_name_is_there() {
    let of = |justfile: &str, test: &str| {
        let texts: circles::Texts = [
            ("justfile", justfile),
            (".ci/run", "needs=(\n    sh:dash mkfs.ext4:e2fsprogs\n)\n"),
            ("crates/weir-cli/src/cut/random.rs", "//! A.\n#[test]\nfn texts() {}\n"),
            ("crates/weir-cli/tests/a.rs", test),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        let faults = [commands::recipes(&texts), commands::tools(&texts)].concat();
        faults.iter().map(TidyFault::to_string).collect::<Vec<_>>()
    };
    let good =
        "random:\n    A=1 cargo test --release --target-dir target/a -p weir-cli --lib random\n";
    none(of(good, "fn a() {\n    have(&[\"sh\", \"mkfs.ext4\"]);\n}\n"));
    let lost = "    cargo test -p weir random\n";
    one(of(lost, ""), "justfile:1: [recipe] `weir` has no test `random`");
    one(of("    cargo test -p weir-cli --test kill\n", ""), "justfile:1: [recipe] `weir-cli` has");
    let absent = "\n    Bed::new(&[\"sh\", \"nc\"]);\n";
    one(of(good, absent), "crates/weir-cli/tests/a.rs:2: [tools] `.ci/run` does not look for `nc`");
}
