//! A peer together with its descriptor, in polls and reactors of others.

use crate::follow::{follows, is_readable};
use weir::{Pollable, Timeout};
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

#[test]
fn a_descriptor_follows_a_peer() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("mpx");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("created");
    let peer = MpxPeer::connect(&name, &MpxPeerOptions::new()).expect("connected");
    let mut peer = Pollable::new(peer).expect("a descriptor");
    let to_owner = peer.get_mut().open(b"label").expect("opened");
    let mut to_peer = None;
    while to_peer.is_none() {
        let each = |record: weir_mpx::Record<'_>| to_peer = Some(record.channel);
        owner.receive_each_timeout(&mut [0; 64], Timeout::Never, each).expect("received");
    }
    let to_peer = to_peer.expect("a channel");
    owner.accept(to_peer).expect("accepted");
    assert!(is_readable(&peer, 10), "the answer");
    let mut kinds = Vec::new();
    let each = |record: weir_mpx::Record<'_>| kinds.push((record.channel, record.kind));
    peer.get_mut().receive_each_timeout(&mut [0; 64], Timeout::Never, each).expect("received");
    assert_eq!(kinds, [(to_owner, RecordKind::Accepted)]);
    let take = |peer: &mut MpxPeer| {
        peer.receive_each_timeout(&mut [0; 64], Timeout::Now, |_| ()).map(drop)
    };
    follows(peer.into_inner(), take, || {
        owner.send(to_peer, b"ding").expect("sent");
    });
}
