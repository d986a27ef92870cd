//! Many peers that connect at once while the owner waits in `Wait`, and the death of another peer of
//! the same process, of which its end must learn (docs/contracts/wait.md, 7).

#[path = "../../weir/tests/common/mod.rs"]
mod common;
#[path = "../../weir/tests/common/raw.rs"]
mod raw;
#[path = "../../weir/tests/common/storms.rs"]
mod storms;

use common::{hear, kill, start};
use std::path::Path;
use std::time::Instant;
use storms::{
    MESSAGES, OPENERS, PATIENCE, Pipe, all_at_once, hold, in_time, stay_silent, until_let,
    wait_a_little,
};
use weir::Timeout;
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["hold"] => hold(),
        ["call", name] => all_at_once(|| {
            let mut peer = until_let(|| MpxPeer::connect(name, &MpxPeerOptions::new()));
            let channel = peer.open(b"honest").expect("opened");
            (0..MESSAGES).for_each(|_| assert_eq!(peer.send(channel, b"m").expect("sent"), 1));
        }),
        ["silent", name] => stay_silent(name),
        _ => panic!("no role: {role}"),
    }
}

fn serve_mpx(name: &Path, owner: &mut Mpx) {
    let mut storm = start(&format!("call {}", name.display()));
    let pipe = Pipe::new();
    let death = std::thread::spawn(|| pipe.dies_and_is_heard());
    let (mut data, mut closed) = (0, 0);
    let begun = Instant::now();
    while closed < OPENERS {
        assert!(begun.elapsed() < PATIENCE, "{data} records of data, {closed} closed");
        wait_a_little(owner);
        let mut asked = Vec::new();
        let received =
            owner.receive_each_timeout(&mut [0; 4096], Timeout::Now, |record| match record.kind {
                RecordKind::Open => asked.push(record.channel),
                RecordKind::Data => data += record.bytes.len(),
                RecordKind::Close(_) => closed += 1,
                other => panic!("{other:?}"),
            });
        drop(received);
        asked.into_iter().for_each(|channel| owner.accept(channel).expect("accepted"));
    }
    assert_eq!(data, OPENERS * MESSAGES);
    assert!(storm.0.wait().expect("ended").success());
    death.join().expect("the death was heard");
}

#[test]
fn peers_that_connect_to_an_mpx_at_once_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
        for _ in 0..3 {
            serve_mpx(&name, &mut owner);
        }
    });
}

#[test]
fn silent_connections_to_an_mpx_hold_up_no_wait() {
    in_time(|| {
        let (_directory, name) = common::place();
        let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
        let mut silent = start(&format!("silent {}", name.display()));
        let pipe = Pipe::new();
        let death = std::thread::spawn(|| pipe.dies_and_is_heard());
        for _ in 0..10 {
            wait_a_little(&mut owner);
        }
        assert_eq!(hear(&silent.1), b"up");
        death.join().expect("the death was heard");
        kill(&mut silent.0);
        serve_mpx(&name, &mut owner);
    });
}
