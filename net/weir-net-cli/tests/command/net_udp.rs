//! User datagrams of a program that uses `weir_net::udp`, with the kernel as the other side
//! (docs/contracts/udp.md).

use crate::common::net::{Answers, Bed, HOST, KERNEL, Process};
use crate::common::{WEIR, python};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_net::ErrorKind;
use weir_net::icmp::NoticeKind;
use weir_net::udp::{UdpArrival, UdpEndpoint};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// A port of the host, two of the kernel: programs that know packets expect no protocol there.
const DISCARD: u16 = 9;
const ECHO: u16 = 9_999;
const CLOSED: u16 = 9_998;
const SIZES: [usize; 8] = [0, 1, 2, 1472, 1473, 9_000, 65_506, 65_507];

fn bind(bed: &Bed, port: u16) -> UdpEndpoint {
    let directory = bed.directory.path().join("weir/net/weir0");
    let bound = UdpEndpoint::bind(&directory.join("switch"), &directory, &[port], 0);
    bound.expect("attached")
}

fn contents(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes) as u8).collect()
}

fn kernel(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(KERNEL.parse::<Ipv4Addr>().expect("an address"), port)
}

/// Starts a script of `tests/net` that continues beside the test.
fn start(bed: &Bed, args: &str) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net/udp_peer.py");
    let mut command = bed.command(python());
    command.arg("-B").arg(script).args(args.split(' '));
    Process::start(command)
}

/// Receives until `see` has had enough.
fn receive(endpoint: &mut UdpEndpoint, mut see: impl FnMut(UdpArrival<'_>) -> bool) {
    let until = Instant::now() + PATIENCE;
    let mut enough = false;
    while !enough {
        assert!(Instant::now() < until, "nothing more came: {:?}", endpoint.counts());
        let time = Duration::from_millis(100);
        let took = endpoint.receive_for(time, |arrival| enough |= see(arrival));
        took.expect("the switch is there");
    }
}

#[test]
fn datagrams_of_every_size_go_to_the_kernel_and_come_back() {
    let Some(bed) = Bed::new(&[]) else { return };
    for options in ["", "--no-vnet-header"] {
        let host = bed.host(Answers::Inline, options, "");
        let mut peer = start(&bed, &format!("serve {ECHO} {}", SIZES.len()));
        peer.said("ready");
        let mut endpoint = bind(&bed, DISCARD);
        let port = endpoint.ports()[0];
        for bytes in SIZES {
            let sent = contents(bytes);
            endpoint.send(port, kernel(ECHO), &sent).expect("sent");
            receive(&mut endpoint, |arrival| {
                let UdpArrival::Datagram { local_port, from, payload } = arrival else {
                    panic!("{arrival:?}");
                };
                assert_eq!((local_port, from), (port, kernel(ECHO)));
                assert!(payload == sent, "{bytes} bytes differ");
                true
            });
        }
        let counts = endpoint.counts();
        assert_eq!((counts.sent, counts.received), (8, 8), "{counts:?}");
        assert_eq!((counts.malformed, counts.bad_checksums, counts.undelivered), (0, 0, 0));
        assert!(peer.ended().success());
        let refused = endpoint.send(port, kernel(ECHO), &contents(65_508)).expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        let refused = endpoint.send(port ^ 1, kernel(ECHO), b"x").expect_err("not its port");
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert_eq!(endpoint.counts().sent, 8, "neither was sent");
        drop(endpoint);
        host.end();
    }
}

#[test]
fn nc_asks_and_is_answered() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let host = bed.host(Answers::Inline, "", "");
    let mut endpoint = bind(&bed, DISCARD);
    let mut nc = bed.command("sh");
    nc.args(["-c", &format!("echo question | timeout 60 nc -u -W 1 {HOST} 9")]);
    let nc = Process::start(nc);
    let mut asker = None;
    receive(&mut endpoint, |arrival| {
        let UdpArrival::Datagram { from, payload, .. } = arrival else { panic!("{arrival:?}") };
        assert_eq!(payload, b"question\n");
        asker = Some(from);
        true
    });
    endpoint.send(DISCARD, asker.expect("one asked"), b"answer\n").expect("sent");
    nc.said("answer");
    host.end();
}

#[test]
fn both_sides_are_told_of_ports_that_nobody_has() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in crate::common::net::ANSWERS {
        let host = bed.host(answers, "", "");
        let mut endpoint = bind(&bed, DISCARD);
        endpoint.send(DISCARD, kernel(CLOSED), b"anybody?").expect("sent");
        receive(&mut endpoint, |arrival| {
            let UdpArrival::Undelivered { local_port, to, notice } = arrival else {
                panic!("{arrival:?}");
            };
            assert_eq!((local_port, to), (DISCARD, kernel(CLOSED)));
            assert_eq!((notice.trouble, notice.code), (NoticeKind::Unreachable, 3), "the port");
            true
        });
        assert_eq!(endpoint.counts().undelivered, 1);
        // It was not, where the switch itself answers.
        let log = bed.ok(&format!("{WEIR} net log --tun weir0 --kinds errors"));
        let error = format!("error    {KERNEL} > {KERNEL} udp: unreachable, value 3");
        assert!(log.contains(&error), "{answers:?}: {log}");
        assert_eq!(bed.script("udp_peer.py closed 10")["said"], "refused");
        host.end();
    }
}

#[test]
fn damaged_datagrams_are_counted_and_not_shown() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut endpoint = bind(&bed, DISCARD);
    assert_eq!(bed.script("udp_peer.py damaged 9")["sent"], 6);
    let mut shown = Vec::new();
    receive(&mut endpoint, |arrival| {
        let UdpArrival::Datagram { payload, .. } = arrival else { panic!("{arrival:?}") };
        shown.push(String::from_utf8_lossy(payload).into_owned());
        shown.len() == 2
    });
    assert_eq!(shown, ["sound", "none"]);
    let counts = endpoint.counts();
    // Three bytes have no port, and no station gets them.
    assert_eq!((counts.bad_checksums, counts.malformed), (1, 2), "{counts:?}");
    switch.end();
}
