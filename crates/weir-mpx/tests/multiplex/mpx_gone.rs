//! Peers that connect while the owner goes away, between their connect and their first message
//! (docs/contracts/mpx.md).

use crate::common;
use crate::raw;
use rustix::event::{PollFd, PollFlags, poll};
use weir::ErrorKind;
use weir_mpx::{MpxPeer, MpxPeerOptions};

/// The error says that there is no owner, and not what the kernel reports in that case.
#[test]
fn an_owner_that_goes_while_one_connects_is_no_owner() {
    for round in 0..300 {
        let (_directory, name) = common::place();
        let socket = raw::listen(&name);
        let going = std::thread::spawn(move || {
            poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).expect("polled");
            drop(socket);
        });
        // A faster process has already handed its memory over. It cannot tell this from a busy
        // owner.
        if let Err(error) = MpxPeer::connect(&name, &MpxPeerOptions::new()) {
            assert_eq!(error.kind(), ErrorKind::NoReader, "round {round}: {error}");
        }
        going.join().expect("no panic");
    }
}
