//! `weir buffer` and the file behind its memory (docs/contracts/pool.md).

mod common;

use common::buffer::{Buffer, sample, with_mounts};
use common::port::{Place, refused, said, sent};
use serde_json::Value;

fn json(place: &Place) -> Value {
    let text = std::fs::read_to_string(place.directory.path().join("json")).expect("written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_writer_goes_on_though_nobody_reads() {
    let place = Place::new();
    let bytes = sample(50_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill . --json json");
    assert!(buffer.feed(bytes.clone()).all(), "all is taken before anything is read");
    assert!(buffer.status_bytes("VmHWM") <= 17 << 20);
    assert!(buffer.read() == bytes);
    let (status, said) = buffer.end();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
    let json = json(&place);
    let bytes = |name: &str| json[format!("{name}_bytes")].as_u64().expect(name);
    assert!(bytes("spilled") > 40_000_000 && bytes("read_back") > 40_000_000, "{json}");
    assert!(bytes("most_file") > 40_000_000 && bytes("most_memory") <= 1 << 20, "{json}");
    assert_eq!(bytes("delayed"), bytes("cancelled") + bytes("spilled"), "nothing is left");
}

#[test]
fn the_limit_makes_the_writer_wait() {
    let place = Place::new();
    let bytes = sample(30_000_000);
    let mut buffer = Buffer::start(&place, "--memory 1M --spill . --limit 4M --json json");
    let fed = buffer.feed(bytes.clone());
    common::port::until("file and memory are full", || fed.bytes() > 4_500_000);
    assert!(buffer.read() == bytes && fed.all());
    assert_eq!(buffer.end().0.code(), Some(0));
    assert!(json(&place)["most_file_bytes"].as_u64() <= Some(4 << 20), "{}", json(&place));
}

#[test]
fn a_full_device_is_said_and_loses_nothing() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(30_000_000)).expect("written");
    // The reader begins once it was said, and not before.
    let script = "set -o pipefail; mkdir spill && mount -t tmpfs -o size=4M none spill &&
        cat in | $WEIR buffer --memory 1M --spill spill --json json 2> said |
        { timeout 60 bash -c 'until grep -q going said; do :; done'; cat > out; }
        status=$?; cat said >&2; cmp in out && exit $status";
    let Some(output) = with_mounts(&place, script) else { return };
    refused(&output, 1, "weir: cannot spill to ");
    let said = said(&output);
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("going on with memory alone, the writer waits"), "{said}");
    assert_eq!(said.matches("No space").count(), 1, "it is said once: {said}");
    assert_eq!(
        (&json(&place)["ended"], &json(&place)["out_bytes"]),
        (&"failed".into(), &30_000_000.into())
    );
}

#[test]
fn many_buffers_spill_at_once() {
    let place = Place::new();
    std::fs::write(place.directory.path().join("in"), sample(10_000_000)).expect("written");
    let script = "set -eo pipefail; mkfifo go.1 go.2 go.3 go.4; for job in 1 2 3 4; do
        cat in | $WEIR buffer --memory 1M --spill . | { read -r < go.$job; cmp - in; } &
        jobs=\"$jobs $!\"; done; for job in 1 2 3 4; do echo > go.$job; done
        for job in $jobs; do wait $job; done";
    sent(&place.bash(script));
}
