//! Limits of the kernel, and sizes out of range: making the pipe fails with an error that names the
//! cause.

mod common;

use common::{hear, say, start};
use rustix::process::{Resource, Rlimit, setrlimit};
use weir::{ErrorKind, Handle, Options, Reader, RecordWriter, Writer, pipe, records};

fn large() -> Options {
    Options::new().capacity_bytes(64 << 20)
}

#[test]
fn sizes_out_of_range_are_refused_with_the_range() {
    let error = |options: Options| pipe(&options).map(drop).expect_err("refused").to_string();
    assert_eq!(
        error(Options::new().capacity_bytes(2 << 30)),
        "cannot set the capacity of a pipe: 2147483648 bytes are out of range: 1 to 1073741824"
    );
    assert_eq!(
        error(Options::new().capacity_bytes(65_536).segment_bytes(100)),
        "cannot set the segment of a pipe: 100 bytes are out of range: 256 to 65536"
    );
    assert_eq!(
        error(Options::new().capacity_bytes(65_536).atomic_bytes(0)),
        "cannot set the atomic bound of a pipe: 0 bytes are out of range: 1 to 65536"
    );
}

#[test]
fn a_handle_of_another_kind_is_refused() {
    let options = Options::new().capacity_bytes(4096);
    let (writer, reader) = Handle::stream_pair(&options).expect("made");
    assert_eq!(
        Reader::open(writer).map(drop).expect_err("refused").to_string(),
        "cannot open a reader: the handle is a writer's"
    );
    assert_eq!(
        Writer::open(reader).map(drop).expect_err("refused").to_string(),
        "cannot open a writer: the handle is a reader's"
    );
    let (writer, _reader) = Handle::stream_pair(&options).expect("made");
    assert_eq!(
        RecordWriter::open(writer).map(drop).expect_err("refused").to_string(),
        "cannot open a record pipe: the memory is of another kind"
    );
}

#[test]
fn foreign_memory_is_refused() {
    let (_, socket) = Handle::stream_pair(&large()).expect("made").0.into_descriptors();
    let file = tempfile::tempfile().expect("a file").into();
    let error = Reader::open(Handle::reader(file, socket)).map(drop);
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::Corrupt);
}

/// The error that a process under a limit gets when it makes a pipe.
fn under(role: &str) -> String {
    let (mut child, socket) = start(role);
    let said = String::from_utf8(hear(&socket)).expect("text");
    child.wait().expect("ended");
    said
}

#[test]
fn a_lack_of_memory_is_an_error_when_the_pipe_is_made() {
    assert!(
        under("little-space").starts_with("Cannot allocate memory"),
        "{}",
        under("little-space")
    );
    assert!(under("short-files").starts_with("File too large"), "{}", under("short-files"));
    assert!(under("few-files").starts_with("Too many open files"), "{}", under("few-files"));
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let limit = |resource, at_most| {
        let wanted = Rlimit { current: Some(at_most), maximum: Some(at_most) };
        setrlimit(resource, wanted).expect("limited");
    };
    match role.as_str() {
        "little-space" => limit(Resource::As, 600 << 20),
        "short-files" => limit(Resource::Fsize, 1 << 20),
        _ => limit(Resource::Nofile, 12),
    }
    let mut kept = Vec::new();
    let error = loop {
        match pipe(&large()).map(|pipe| kept.push(pipe)) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    // The pipes that exist go on working.
    for (writer, reader) in &mut kept {
        writer.write(b"x").expect("written");
        reader.read(&mut [0]).expect("read");
    }
    say(std::io::stdin(), cause.as_bytes());
    drop(records(&Options::new().capacity_bytes(4096)));
}
