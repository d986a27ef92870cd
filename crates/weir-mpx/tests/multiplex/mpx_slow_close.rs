//! Descriptors whose closing takes as long as their sender likes, sent where memory or nothing is
//! expected. Nobody waits for them to be closed (docs/contracts/mpx.md).

use crate::common;
use crate::slow::{BOUND, come_to, in_time, wait_for};
use weir::Timeout;
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};

#[test]
fn what_is_handed_over_to_an_mpx_holds_up_nobody() {
    let (_directory, name) = common::place();
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
    let _all = come_to(&name, b"weir-mpx");
    for _ in 0..5 {
        let _ =
            in_time("a call", || owner.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| {}));
        let _ = in_time("a wait", || wait_for(&mut owner));
    }
    let mut honest = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    honest.open(b"honest").expect("opened");
    let got = in_time("an open", || owner.receive_each_timeout(&mut [0; 64], BOUND, |_| {}));
    assert_eq!(got.expect("it comes"), 1);
    let _more = come_to(&name, b"weir-mpx");
    in_time("the close", || drop(owner));
}
