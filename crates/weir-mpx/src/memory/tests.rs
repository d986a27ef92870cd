//! The memory of a link that limits do not allow or another process sent, and what a forked child has.

#[path = "../../../weir/src/memory/transfers/tests/faulty.rs"]
pub(crate) mod faulty;
mod races;

use super::{LinkExtent, LinkMap};
use crate::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};
use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, Mode};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir::parts::{SEALS, page_bytes};
use weir::{ErrorKind, Timeout};

const SMALL: LinkExtent = LinkExtent { channels: 1, arena_bytes: 64 << 10 };

#[test]
fn memory_of_huge_pages_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(file) = rustix::fs::memfd_create("weir-huge-link", flags) else {
        println!("SKIPPED: this kernel has no huge pages");
        return;
    };
    rustix::fs::ftruncate(&file, 4 << 20).expect("sized");
    rustix::fs::fcntl_add_seals(&file, SEALS).expect("sealed");
    let link = LinkMap::open(file.as_fd()).expect_err("refused").to_string();
    assert!(link.contains("not made of ordinary pages"), "{link}");
}

#[test]
fn no_memory_can_be_executed() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL;
    if rustix::fs::memfd_create("weir-noexec-test", flags).is_err() {
        println!("SKIPPED: this kernel seals no file against execution");
        return;
    }
    let (file, _map) = LinkMap::create(SMALL).expect("made");
    let file = file.here().expect("mine");
    assert_eq!(rustix::fs::fstat(file).expect("a file").st_mode & 0o111, 0);
    let executable = Mode::from_raw_mode(0o700);
    assert_eq!(rustix::fs::fchmod(file, executable), Err(Errno::PERM), "it is sealed");
}

/// Runs `child` in a forked child, which must do little. Returns what it returned.
fn in_forked_child(child: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child makes no threads, and ends.
    let forked = unsafe { weir_measure::sys::fork::copy(|| u8::from(!child())) };
    forked.expect("forked").succeeded().expect("reaped")
}

/// The kernel would kill a process that makes a file longer than its limit.
#[test]
fn memory_that_may_not_be_so_long_is_an_error_and_no_signal() {
    assert!(in_forked_child(|| {
        let short = Rlimit { current: Some(page_bytes() - 1), ..getrlimit(Resource::Fsize) };
        let is_short = setrlimit(Resource::Fsize, short).is_ok();
        let made = LinkMap::create(SMALL);
        is_short && made.is_err_and(|error| error.to_string().contains("too large"))
    }));
}

#[test]
fn a_forked_child_has_no_mpx_of_its_parent_s() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("made");
    let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    let there = peer.open(b"forked").expect("opened");
    let mut here = None;
    let mut buffer = [0; 64];
    owner.receive_each(&mut buffer, |record| here = Some(record.channel)).expect("received");
    let here = here.expect("an open");
    let mut ends = Some((owner, peer));
    assert!(in_forked_child(|| {
        let Some((mut owner, mut peer)) = ends.take() else { return false };
        let kinds = [
            owner.accept(here).map_err(|error| error.kind()),
            owner
                .receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {})
                .map_err(|error| error.kind())
                .map(drop),
            peer.send(there, b"x").map_err(|error| error.kind()).map(drop),
            peer.open(b"x").map_err(|error| error.kind()).map(drop),
        ];
        // Dropping them here does not close the parent's.
        drop((owner, peer));
        kinds.iter().all(|kind| *kind == Err(ErrorKind::Forked))
    }));
    let (mut owner, mut peer) = ends.take().expect("the parent's");
    owner.accept(here).expect("accepted");
    let mut kinds = Vec::new();
    peer.receive_each(&mut buffer, |record| kinds.push(record.kind)).expect("received");
    assert_eq!(kinds, [RecordKind::Accepted]);
    peer.send(there, b"still").expect("sent");
    owner.receive_each(&mut buffer, |record| assert_eq!(record.bytes, b"still")).expect("there");
}
