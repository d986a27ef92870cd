//! Holds `include/weir.h` to the code: it is generated again, and compared.

use std::path::{Path, PathBuf};

/// The parts of the header: its files in order, each a section of functions.
const SECTIONS: [&str; 10] =
    ["error", "options", "pipe", "record", "duplex", "handle", "listener", "port", "flags", "wait"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(section: &str) -> PathBuf {
    root().join("src").join(section).with_extension("rs")
}

/// The header of the code as it is.
fn generate() -> String {
    let config =
        cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("a configuration");
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SECTIONS.iter().fold(builder, |builder, name| builder.with_src(source(name)));
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    let text = short_comments(&String::from_utf8(made).expect("text"));
    SECTIONS.iter().fold(text, |text, section| with_title(&text, section))
}

/// Puts comments of one line on one line.
fn short_comments(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (mut short, mut at) = (String::new(), 0);
    while let Some(line) = lines.get(at) {
        let indent = &line[..line.len() - line.trim_start().len()];
        let one = lines.get(at + 1).and_then(|line| line.trim_start().strip_prefix("* "));
        let ends = lines.get(at + 2).is_some_and(|line| line.trim() == "*/");
        match one {
            Some(words) if ends && line.trim() == "/**" => {
                short += &format!("{indent}/** {words} */\n");
                at += 3;
            }
            _ => {
                short += line.trim_end();
                short.push('\n');
                at += 1;
            }
        }
    }
    short
}

/// Puts the `//!` lines of a file as a title above the first function that it has.
fn with_title(text: &str, section: &str) -> String {
    let code = std::fs::read_to_string(source(section)).expect("a file of ours");
    let title: Vec<&str> = code.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let mut functions = code.split("pub extern \"C\" fn ").skip(1);
    let Some(first) = functions.next().and_then(|rest| rest.split('(').next()) else {
        return text.to_owned();
    };
    // Comments may name it before it is declared.
    let named = format!("{first}(");
    let is_declared = |at: &usize| {
        let line = text[..*at].rfind('\n').map_or(0, |end| end + 1);
        !text[line..].trim_start().starts_with(['*', '/'])
    };
    let declared = text.match_indices(&named).map(|(at, _)| at).find(is_declared);
    let declared = declared.expect("the function is in the header");
    let comment = text[..declared].rfind("/**").expect("a comment");
    let rule = "-".repeat(96);
    let body: String = title.iter().map(|line| format!(" *{line}\n")).collect();
    format!("{}/* {rule}\n{body} * {rule} */\n\n{}", &text[..comment], &text[comment..])
}

/// `UPDATE_HEADER=1 cargo test --test header` writes it.
#[test]
fn the_header_is_that_of_the_code() {
    let (path, made) = (root().join("include/weir.h"), generate());
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("the header is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == made, "include/weir.h is not of this code: UPDATE_HEADER=1 writes it");
}

/// A function that the version script forgets cannot be linked to.
#[test]
fn the_version_script_exports_what_the_header_declares() {
    let script = std::fs::read_to_string(root().join("libweir.map")).expect("the version script");
    assert!(script.contains("WEIR_0.1 {") && script.contains("weir_*;"), "{script}");
    let made = generate();
    let comment = |line: &&str| !line.trim_start().starts_with(['*', '/', '#']);
    let called = made.lines().filter(comment).filter_map(|line| line.split_once('('));
    let names = called.filter_map(|(before, _)| before.rsplit([' ', '*']).next());
    let names: Vec<&str> = names.filter(|name| name.starts_with("weir")).collect();
    assert!(names.len() > 70, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("weir_")), "{names:?}");
}
