//! Memory that is ours, and memory that is not.

use super::*;
use rustix::fs::MemfdFlags;

const STREAM: Extent =
    Extent { kind: layout::STREAM, ring_bytes: 8192, arena_bytes: 0, generation: 0 };
const RECORD: Extent =
    Extent { kind: layout::RECORD, ring_bytes: 4096, arena_bytes: 8192, generation: 3 };

#[test]
fn what_is_made_can_be_opened_and_its_areas_go_on_where_they_end() {
    for extent in [STREAM, RECORD] {
        let (file, made) = create(extent).expect("made");
        let opened = open(file.as_fd()).expect("opened");
        assert_eq!(opened.extent(), extent);
        let areas = [(Area::Ring, extent.ring_bytes), (Area::Arena, extent.arena_bytes)];
        for (area, bytes) in areas.into_iter().filter(|(_, bytes)| *bytes > 0) {
            made.copy_in(area, bytes as usize - 3, b"around");
            let mut out = [0; 3];
            opened.copy_out(area, 0, &mut out);
            assert_eq!(&out, b"und");
        }
    }
}

#[test]
fn dirtying_spares_lines_that_are_not_wholly_read() {
    let (_file, map) = create(STREAM).expect("made");
    map.copy_in(Area::Ring, 0, &[7; 512]);
    map.dirty(Area::Ring, 10, 200);
    let mut out = [0; 512];
    map.copy_out(Area::Ring, 0, &mut out);
    let dirtied: Vec<usize> = (0..512).filter(|at| out[*at] == 0).collect();
    assert_eq!(dirtied, [64, 128]);
}

#[test]
#[should_panic(expected = "a part of no area")]
fn a_part_beyond_the_area_is_our_own_fault() {
    let (_file, map) = create(STREAM).expect("made");
    map.copy_in(Area::Arena, 0, b"x");
}

fn refusal(file: &OwnedFd) -> String {
    open(file.as_fd()).expect_err("refused").to_string()
}

fn file_of(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("other", flags).expect("a file");
    rustix::fs::ftruncate(&file, bytes).expect("sized");
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

/// A sealed copy of a sound memory whose header is spoilt.
fn spoilt(spoil: impl FnOnce(&Header)) -> OwnedFd {
    let (file, map) = create(STREAM).expect("made");
    spoil(map.header());
    file
}

#[test]
fn foreign_memory_is_refused_by_name() {
    let directory = tempfile::tempfile().expect("a file");
    assert!(refusal(&directory.into()).contains("no file that can be sealed"));
    let unsealed = file_of(12_288, SealFlags::SHRINK);
    assert_eq!(refusal(&unsealed), "cannot use the memory received: it is not sealed");
    assert!(refusal(&file_of(100, SEALS)).contains("too short"));
    assert!(refusal(&file_of(12_288, SEALS)).contains("not a pipe's"));
    let version = spoilt(|header| header.fixed.version.store(9, Ordering::Relaxed));
    assert!(refusal(&version).contains("version 9, known is 1"));
    for bytes in [0, 4095, 12_000, 1 << 40, 4096] {
        let sized = spoilt(|header| header.fixed.ring_bytes.store(bytes, Ordering::Relaxed));
        let text = refusal(&sized);
        assert!(text.contains("sizes cannot be") || text.contains("not as long"), "{text}");
    }
    let kind = spoilt(|header| header.fixed.kind.store(7, Ordering::Relaxed));
    assert!(refusal(&kind).contains("sizes cannot be"));
}

#[test]
fn sealed_memory_cannot_be_cut_off() {
    let (file, _map) = create(STREAM).expect("made");
    assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&file, 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
}
