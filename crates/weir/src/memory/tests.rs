//! Memory of this crate, and foreign memory.
#![expect(clippy::disallowed_methods)]

mod races;

use super::sealed::SEALS;
use super::*;
use crate::error::Result;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::mm::Advice;
use weir_ring::board::Board;
use weir_ring::cluster::Cluster;
use weir_ring::layout::{self, PipeHeader};
use weir_ring::primitive::Ordering;
use weir_ring::{Area, RingMemory};

const STREAM: Extent =
    Extent { kind: layout::STREAM, ring_bytes: 8192, arena_bytes: 0, generation: 0 };
const RECORD: Extent =
    Extent { kind: layout::RECORD, ring_bytes: 4096, arena_bytes: 8192, generation: 3 };

#[test]
fn what_is_made_can_be_opened_and_its_areas_continue_where_they_end() {
    for extent in [STREAM, RECORD] {
        let (file, made) = create(extent).expect("made");
        let opened = open(file.here().expect("mine"), Use::Movable).expect("opened");
        assert_eq!(opened.extent(), extent);
        let areas = [(Area::Ring, extent.ring_bytes), (Area::Arena, extent.arena_bytes)];
        for (area, bytes) in areas.into_iter().filter(|(_, bytes)| *bytes > 0) {
            made.copy_in(area, bytes - 3, b"around");
            let mut out = [0; 3];
            // A place is a position, which grows without end.
            for position in [0, 7 * bytes, bytes.wrapping_neg()] {
                opened.copy_out(area, position, &mut out);
                assert_eq!(&out, b"und");
            }
        }
    }
}

#[test]
#[should_panic(expected = "a part of no area")]
fn a_part_beyond_the_area_is_our_own_fault() {
    let (_file, map) = create(STREAM).expect("made");
    map.copy_in(Area::Arena, 0, b"x");
}

fn refusal(file: &OwnedFd) -> String {
    open(file.as_fd(), Use::Movable).expect_err("refused").to_string()
}

fn file_of(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("other", flags).expect("a file");
    rustix::fs::ftruncate(&file, bytes).expect("sized");
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

/// A sealed copy of a sound memory whose header is spoilt.
fn spoilt(spoil: impl FnOnce(&PipeHeader)) -> OwnedFd {
    let (mut file, map) = create(STREAM).expect("made");
    spoil(map.header());
    file.take().expect("mine")
}

#[test]
fn foreign_memory_is_refused_by_name() {
    let directory = tempfile::tempfile().expect("a file");
    assert!(refusal(&directory.into()).contains("not a file that can be sealed"));
    let unsealed = file_of(12_288, SealFlags::SHRINK);
    assert_eq!(refusal(&unsealed), "cannot use the memory received: it is not sealed");
    assert!(refusal(&file_of(100, SEALS)).contains("too short"));
    assert!(refusal(&file_of(12_288, SEALS)).contains("not the memory of a pipe"));
    let version = spoilt(|header| header.fixed.version.store(9, Ordering::Relaxed));
    let why = format!("version 9, and this is version {}", layout::VERSION);
    assert!(refusal(&version).contains(&why));
    for bytes in [0, 4095, 12_000, 1 << 40, 4096] {
        let sized = spoilt(|header| header.fixed.ring_bytes.store(bytes, Ordering::Relaxed));
        let text = refusal(&sized);
        assert!(
            text.contains("sizes in its header are invalid") || text.contains("not as long"),
            "{text}"
        );
    }
    let kind = spoilt(|header| header.fixed.kind.store(7, Ordering::Relaxed));
    assert!(refusal(&kind).contains("sizes in its header are invalid"));
    // No memory can follow this one, and an end that looked for it overflowed.
    let last = spoilt(|header| header.fixed.generation.store(u64::MAX, Ordering::Relaxed));
    assert!(refusal(&last).contains("sizes in its header are invalid"));
}

#[test]
fn sealed_memory_cannot_be_cut_off() {
    let (file, _map) = create(STREAM).expect("made");
    let file = file.here().expect("mine");
    assert_eq!(rustix::fs::ftruncate(file, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(file, 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(file, SealFlags::WRITE), Err(Errno::BUSY));
}

/// The allocated bytes of a file.
fn there(file: BorrowedFd) -> u64 {
    rustix::fs::fstat(file).expect("a file").st_blocks as u64 * 512
}

/// A file with the header of a ring of which only the first bytes are allocated, and some behind
/// its end.
fn sparse(extent: Extent, bytes_there: u64, behind: u64) -> OwnedFd {
    let (made, _map) = create(extent).expect("made");
    let mut header = [0; 1024];
    rustix::io::pread(made.here().expect("mine"), &mut header, 0).expect("read");
    let file = file_of(extent.file_bytes(), SealFlags::empty());
    let keep = FallocateFlags::KEEP_SIZE;
    if behind > 0 {
        rustix::fs::fallocate(&file, keep, extent.file_bytes(), behind).expect("allocated");
    }
    rustix::fs::fallocate(&file, keep, 0, bytes_there).expect("allocated");
    rustix::io::pwrite(&file, &header, 0).expect("written");
    rustix::fs::fcntl_add_seals(&file, SEALS).expect("sealed");
    file
}

#[test]
fn memory_with_holes_is_refused_and_not_paid_for() {
    let page = page_bytes();
    let ring = Extent { kind: layout::MESSAGE, ring_bytes: 1 << 20, ..RECORD };
    let whole = ring.file_bytes();
    for how in [Use::Movable, Use::ForGood] {
        // Blocks behind the end do not make up for holes.
        for (bytes_there, behind) in
            [(page, 0), (whole - page, 0), (page, whole), (page, 8 * whole)]
        {
            let file = sparse(ring, bytes_there, behind);
            let error = open(file.as_fd(), how).expect_err("refused").to_string();
            assert!(
                error.ends_with(&format!(
                    "{bytes_there} of its {whole} bytes are allocated, the rest are holes"
                )),
                "{error}"
            );
            assert_eq!(there(file.as_fd()), bytes_there, "nothing of it was touched");
        }
        // A file without any block.
        let file = file_of(whole, SEALS);
        assert!(refusal(&file).contains("not the memory of a pipe"));
        assert_eq!(there(file.as_fd()), 0);
        open(sparse(ring, whole, 0).as_fd(), how).expect("whole");
        open(sparse(ring, whole, whole).as_fd(), how).expect("whole, and more behind it");
    }
}

#[test]
fn memory_in_use_for_good_keeps_its_pages_and_gets_no_other_writer() {
    let ring = Extent { kind: layout::MESSAGE, ..RECORD };
    let (file, made) = create(ring).expect("made");
    let file = file.here().expect("mine");
    let opened = open(file, Use::ForGood).expect("opened");
    let (punch, page) = (FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, page_bytes());
    assert_eq!(rustix::fs::fallocate(file, punch, page, page), Err(Errno::PERM));
    let start = std::ptr::from_ref(made.header()).cast_mut().cast();
    // SAFETY: the range is the first page of this mapping, for which any bytes are a value.
    let removed = unsafe { rustix::mm::madvise(start, page as usize, Advice::LinuxRemove) };
    assert_eq!(removed, Err(Errno::PERM));
    assert_eq!(there(file), ring.file_bytes());
    // The same memory cannot be opened twice.
    let error = open(file, Use::ForGood).expect_err("in use").to_string();
    assert!(error.contains("cannot map") || error.contains("handed over before"), "{error}");
    made.copy_in(Area::Ring, 5, b"still");
    let mut out = [0; 5];
    opened.copy_out(Area::Ring, 5, &mut out);
    assert_eq!(&out, b"still", "both sides that have it go on");
}

/// Mappings of this process whose file has this name.
fn mappings(name: &str) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    maps.lines().filter(|line| line.contains(name)).count()
}

#[test]
fn memory_of_huge_pages_is_refused_and_not_mapped() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(file) = rustix::fs::memfd_create("weir-huge-test", flags) else {
        println!("SKIPPED: this kernel has no huge pages");
        return;
    };
    rustix::fs::ftruncate(&file, 4 << 20).expect("sized");
    rustix::fs::fcntl_add_seals(&file, SEALS).expect("sealed");
    for _ in 0..3 {
        assert!(refusal(&file).contains("not made of ordinary pages"));
    }
    assert_eq!(mappings("weir-huge-test"), 0);
}

/// A file of each kind of memory that this crate makes, or the error.
fn one_of_each() -> Vec<Result<OwnedFd>> {
    let files = [
        create(STREAM).map(|made| made.0),
        create(RECORD).map(|made| made.0),
        SharedPage::<Board>::create().map(|made| made.0),
        SharedPage::<Cluster>::create().map(|made| made.0),
    ];
    files.into_iter().map(|made| made.map(|mut file| file.take().expect("mine"))).collect()
}

#[test]
fn no_memory_can_be_executed() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
    if rustix::fs::memfd_create("weir-noexec-test", flags).is_err() {
        println!("SKIPPED: this kernel seals no file against execution");
        return;
    }
    for file in one_of_each() {
        let file = file.expect("made");
        assert_eq!(rustix::fs::fstat(&file).expect("a file").st_mode & 0o111, 0);
        let executable = Mode::from_raw_mode(0o700);
        assert_eq!(rustix::fs::fchmod(&file, executable), Err(Errno::PERM), "it is sealed");
    }
}

/// Keeps this process from making a file of a page: whether it could. The kernel would kill a
/// process that makes a file longer than its limit.
fn forbid_pages() -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let short = Rlimit { current: Some(page_bytes() - 1), ..getrlimit(Resource::Fsize) };
    setrlimit(Resource::Fsize, short).is_ok()
}

#[test]
fn memory_that_may_not_be_so_long_is_an_error_and_no_signal() {
    assert!(in_forked_child(|| {
        forbid_pages()
            && one_of_each().iter().all(|made| {
                made.as_ref().is_err_and(|error| error.to_string().contains("too large"))
            })
            && Frames::new(page_bytes() as usize, 1).is_err()
    }));
}

#[test]
fn a_named_page_that_may_not_be_so_long_is_an_error_and_no_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flags");
    let named = || SharedPage::named(&path);
    assert!(in_forked_child(|| {
        forbid_pages() && named().is_err_and(|error| error.to_string().contains("too large"))
    }));
    assert!(!path.exists(), "nothing got the name");
    named().expect("made");
    // One that exists is not made longer.
    assert!(in_forked_child(|| forbid_pages() && named().is_ok()));
}

/// Runs `child` in a forked child, which must do little. Returns what it returned.
pub(crate) fn in_forked_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls only what a forked child of a process with threads may call with this
    // C library (which can allocate memory there), and ends by a system call.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = i32::from(!child());
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: the pointer is to a live local.
    let reaped = unsafe { libc::waitpid(pid, &mut status, 0) };
    reaped == pid && status == 0
}

#[test]
fn a_forked_child_has_no_end_of_its_parent_s() {
    use crate::{ErrorKind, Options, pipe, records};
    let options = Options::new().capacity_bytes(4096);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    let (mut sender, mut receiver) = records(&options).expect("made");
    assert!(in_forked_child(|| {
        let kinds = [
            writer.write(b"x").map_err(|error| error.kind()).map(drop),
            reader.try_read(&mut [0]).map_err(|error| error.kind()).map(drop),
            sender.send(b"x").map_err(|error| error.kind()),
            receiver.try_receive(&mut [0]).map_err(|error| error.kind()).map(drop),
        ];
        kinds.iter().all(|kind| *kind == Err(ErrorKind::Forked))
    }));
    // Neither the child nor its exit has touched them.
    writer.write(b"still").expect("written");
    assert_eq!(reader.read(&mut [0; 9]).expect("read"), 5);
}

/// A call finds once that the memory is mapped in its process. What it calls may fork, and then the
/// child continues within that call.
#[test]
fn a_child_that_is_forked_within_a_receiving_call_gets_an_error() {
    use crate::{ErrorKind, Options, records};
    let (mut sender, mut receiver) = records(&Options::new().capacity_bytes(4096)).expect("made");
    for _ in 0..3 {
        sender.send(b"x").expect("sent");
    }
    let mut pid = None;
    let received = receiver.receive_each(&mut [0; 9], |_| {
        // SAFETY: as in `in_forked_child`.
        pid.get_or_insert_with(|| unsafe { libc::fork() });
    });
    let pid = pid.expect("forked");
    if pid == 0 {
        let is_forked = received.is_err_and(|error| error.kind() == ErrorKind::Forked);
        // SAFETY: as in `in_forked_child`.
        unsafe { libc::_exit(i32::from(!is_forked)) };
    }
    assert_eq!(received.expect("received"), 3);
    let mut status = -1;
    // SAFETY: the pointer is to a live local.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "the child's call did not end with that error");
}

#[test]
fn the_parent_s_end_is_seen_while_its_child_lives() {
    use crate::{Options, pipe};
    let (writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).expect("made");
    let (tell, told) = std::io::pipe().map(|(read, write)| (write, read)).expect("a pipe");
    // SAFETY: as in `in_forked_child`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(tell);
        let _ = std::io::Read::read(&mut &told, &mut [0]);
        // SAFETY: as in `in_forked_child`.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    assert_eq!(reader.read(&mut [0; 9]).expect("the end"), 0);
    drop(tell);
    // SAFETY: waits for the child above; a null status is not written.
    assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
}

#[test]
fn a_handle_is_inherited_and_opened_by_a_forked_child() {
    use crate::{Handle, Options, Reader, Writer};
    let options = Options::new().capacity_bytes(4096);
    let (writer, reader) = Handle::stream_pair(&options).expect("made");
    // The process has a watcher already; the child starts its own.
    let mut reader = Reader::open(reader).expect("opened");
    let mut writer = Some(writer);
    assert!(in_forked_child(|| {
        let handle = writer.take().expect("inherited");
        Writer::open(handle).and_then(|mut end| end.write(b"from the child")).is_ok()
    }));
    drop(writer);
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut got).expect("read");
    assert_eq!(got, b"from the child");
}
