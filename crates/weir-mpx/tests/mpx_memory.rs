//! The cost of a hostile peer's memory to the owner (docs/contracts/mpx.md): the owner pays for no
//! memory that the peer has not paid for.

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "../../weir/tests/common/sparse.rs"]
mod sparse;

use common::{hear, say};
use rustix::fd::OwnedFd;
use rustix::fs::SealFlags;
use sparse::{AREA_BYTES, PAGE, costs_nothing, sparse};
use std::time::Duration;
use weir_mpx::{Mpx, MpxOptions};

#[test]
fn in_a_role() {
    let Some(name) = common::role() else { return };
    let input = std::io::stdin();
    assert_eq!(hear(&input), b"go");
    let mut mpx = Mpx::create(name, &MpxOptions::new()).expect("an mpx");
    say(&input, b"up");
    loop {
        let _ = mpx.receive_each_timeout(&mut [0; 4096], Duration::from_millis(20), |_| {});
    }
}

/// A link of a channel and two arenas, almost all of it unallocated.
fn sparse_link(more: SealFlags) -> OwnedFd {
    // The version of the layout, the channels, and the bytes of an arena.
    let words =
        [weir_ring::lane::link::VERSION, 1, AREA_BYTES as u32].map(u32::to_ne_bytes).concat();
    sparse(4 * PAGE + 2 * AREA_BYTES, &[&b"weirlink"[..], &words].concat(), more)
}

#[test]
fn memory_that_is_not_there_is_refused_and_costs_the_owner_nothing() {
    costs_nothing(b"weir-mpx", sparse_link, |_, _| {});
}
