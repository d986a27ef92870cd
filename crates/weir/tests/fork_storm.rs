//! Children that are forked while other threads make and drop ends keep none of these
//! (docs/contracts/pipe.md, port.md, mpx.md). This is a program of its own, because it counts what
//! a child holds.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use weir::{Options, Port, PortOptions, PortWriter, PortWriterOptions, pipe, records};

/// How many children there are in all, and how long they may take.
const CHILDREN: u32 = 600;
const PATIENCE: Duration = Duration::from_secs(60);

/// The descriptors and mappings of this library in a process, by their names.
fn kept() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let links = links.map(|link| link.to_string_lossy().into_owned());
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    let maps =
        maps.lines().filter_map(|line| line.split_once('/').map(|(_, name)| name.to_owned()));
    let is_ours = |name: &String| {
        // A board is a page of words that has no ends: children may map it.
        let is_page = name.contains("memfd:weir-board");
        name.contains("memfd:weir-") && !is_page
            || name.contains("socket:")
            || name.contains(".lock")
    };
    links.filter(is_ours).chain(maps.filter(is_ours)).collect()
}

/// Forks while `make` makes ends again and again. Returns what a child has and should not have.
fn storm(make: impl Fn() + Sync) -> Vec<String> {
    let before = kept();
    let (stops, made) = (AtomicBool::new(false), AtomicU32::new(0));
    let begun = Instant::now();
    let mut found = Vec::new();
    std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            while !stops.load(Ordering::Relaxed) {
                make();
                made.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..CHILDREN {
            let (mut told, tells) = std::io::pipe().expect("a pipe");
            let body = || {
                use std::io::Write;
                let mut left = kept();
                left.retain(|name| !before.contains(name));
                let text = left.join("\n");
                u8::from((&tells).write_all(text.as_bytes()).is_err())
            };
            // SAFETY: other threads of the test have nothing locked that the body needs.
            let mut child = unsafe { weir_measure::sys::fork::copy(body) }.expect("forked");
            drop(tells);
            let mut text = String::new();
            std::io::Read::read_to_string(&mut told, &mut text).expect("told");
            child.wait().expect("reaped");
            found.extend(text.lines().map(str::to_owned));
            if begun.elapsed() > PATIENCE {
                break;
            }
        }
        stops.store(true, Ordering::Relaxed);
        making.join().expect("no panic");
    });
    let made = made.load(Ordering::Relaxed);
    assert!(made >= 5, "{made} were made: others who fork keep nobody out");
    found
}

#[test]
fn no_child_keeps_an_end_that_was_being_made() {
    let options = Options::new().capacity_bytes(4096);
    let kinds: [(&str, &(dyn Fn() + Sync)); 3] = [
        ("a stream", &|| {
            let (mut writer, mut reader) = pipe(&options).expect("made");
            writer.write(b"x").expect("written");
            assert_eq!(reader.read(&mut [0]).expect("read"), 1);
            writer.resize(8192).expect("resized");
        }),
        ("a record pipe", &|| drop(records(&options).expect("made"))),
        ("a port", &|| {
            let (_directory, name) = common::place();
            let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
            let open = PortWriterOptions::new().capacity_bytes(4096);
            let mut writer = PortWriter::connect(&name, &open).expect("a writer");
            writer.send(b"x").expect("sent");
            port.receive(&mut [0]).expect("received");
        }),
    ];
    for (what, make) in kinds {
        let found = storm(make);
        let (count, some) = (found.len(), &found[..found.len().min(5)]);
        assert!(found.is_empty(), "{what}: {count} things were kept, such as {some:?}");
    }
}
