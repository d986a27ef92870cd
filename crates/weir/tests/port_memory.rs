//! The cost of a hostile writer's memory to the reader (docs/contracts/port.md): the reader pays for
//! no memory that the writer has not paid for, and the writer can take none away later.

mod common;
#[path = "common/sparse.rs"]
mod sparse;

use common::{hear, place, say};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, SealFlags};
use rustix::io::Errno;
use sparse::{AREA_BYTES, PAGE, costs_nothing, hand_over, sparse};
use std::path::PathBuf;
use std::time::Duration;
use weir::{Event, Options, Port, PortOptions, PortWriter, PortWriterOptions};

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let input = std::io::stdin();
    assert_eq!(hear(&input), b"go");
    let mut port = Port::create(role, &PortOptions::new()).expect("a port");
    say(&input, b"up");
    let mut buffer = [0; 4096];
    loop {
        let received = port.receive(&mut buffer).expect("received");
        if let Event::Message { bytes } = received.event {
            say(&input, &buffer[..bytes]);
        }
    }
}

/// Reads the version of the layout from a pipe's memory.
fn version() -> u32 {
    let (writer, _reader) = weir::pipe(&Options::new().capacity_bytes(4096)).expect("a pipe");
    let mut word = [0; 4];
    rustix::io::pread(writer.memory_descriptor().expect("mine"), &mut word, 8).expect("read");
    u32::from_ne_bytes(word)
}

/// The ring of a port, almost all of it unallocated.
fn sparse_ring(more: SealFlags) -> OwnedFd {
    let words = [AREA_BYTES, AREA_BYTES, 0].map(u64::to_ne_bytes).concat();
    let kind = 3_u32;
    let header = [&b"weirpipe"[..], &version().to_ne_bytes(), &kind.to_ne_bytes(), &words].concat();
    sparse(PAGE + 2 * AREA_BYTES, &header, more)
}

#[test]
fn memory_that_is_not_there_is_refused_and_costs_the_reader_nothing() {
    costs_nothing(b"weir-port", sparse_ring, |name, socket| {
        let mut honest = PortWriter::connect(name, &PortWriterOptions::new()).expect("a writer");
        honest.send(b"hello").expect("sent");
        assert_eq!(hear(socket), b"hello");
    });
}

/// The rings of this process's writers. The thread that closes descriptors may close a copy of one
/// between the listing and the opening.
fn own_rings() -> Vec<OwnedFd> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ring = |path: &PathBuf| {
        std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("memfd:weir-pipe"))
    };
    let open = |path| match std::fs::File::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        opened => Some(opened.expect("opened").into()),
    };
    paths.filter(is_ring).filter_map(open).collect()
}

#[test]
fn a_writer_cannot_take_its_memory_away_once_it_is_in() {
    let _alone = common::alone();
    let (_directory, name) = place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let small = PortWriterOptions::new().capacity_bytes(65_536);
    let mut writer = PortWriter::connect(&name, &small).expect("a writer");
    writer.send(b"one").expect("sent");
    let mut buffer = [0; 8];
    let received = port.receive(&mut buffer).expect("received");
    assert_eq!(received.event, Event::Message { bytes: 3 });
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let is_this = |ring: &OwnedFd| {
        rustix::fs::fstat(ring).is_ok_and(|file| file.st_size as u64 == PAGE + 2 * 65_536)
    };
    let ring = own_rings().into_iter().find(is_this).expect("it is there");
    assert_eq!(rustix::fs::fallocate(&ring, punch, PAGE, 65_536), Err(Errno::PERM));
    // No memory can be handed over twice, to be paid for twice.
    std::thread::scope(|scope| {
        let again = scope.spawn(|| hand_over(&name, b"weir-port", &ring));
        while !again.is_finished() {
            let _ = port.receive_timeout(&mut [0; 8], Duration::from_millis(5));
        }
        assert!(again.join().expect("no panic").starts_with("weir-no "));
    });
    writer.send(b"two").expect("sent");
    let received = port.receive(&mut buffer).expect("received");
    assert_eq!((received.event, &buffer[..3]), (Event::Message { bytes: 3 }, &b"two"[..]));
}
