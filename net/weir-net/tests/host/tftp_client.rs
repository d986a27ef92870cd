//! The client of TFTP over ports that a test plays (docs/contracts/tftp.md).

use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_net::Result;
use weir_net::tftp::burst::Burst;
use weir_net::tftp::client::{Client, Progress, Proposal};
use weir_net::tftp::datagrams::{Datagrams, Inbound, Sockets};
use weir_net::tftp::packet::{self, ErrorCode, Mode, TftpPacket};
use weir_net::tftp::receiver::Sink;
use weir_net::wire::icmp::{Message, Quoted, unreachable};
use weir_net::wire::ipv4::{Header, protocol};
use weir_net::wire::udp;

const OWN_PORT: u16 = 50_000;

/// A server, and a stranger whose port is closed once it has sent something.
#[derive(Debug)]
struct Played {
    server: SocketAddr,
    transfer: SocketAddr,
    stranger: SocketAddr,
    /// What comes next: a datagram of somebody, or that none could be delivered to somebody.
    coming: VecDeque<(SocketAddr, Option<Vec<u8>>)>,
    /// Errors that were sent to the stranger.
    refusals: usize,
}

impl Played {
    fn block(&mut self, block: u16, bytes: &[u8]) {
        let packet = [&packet::data_header(block), bytes].concat();
        self.coming.push_back((self.transfer, Some(packet)));
    }
}

impl Datagrams for Played {
    fn open(&mut self) -> Result<u16> {
        Ok(OWN_PORT)
    }

    fn close(&mut self, _port: u16) {}

    fn send(&mut self, _from: u16, to: SocketAddr, payload: &[u8]) -> Result<()> {
        match TftpPacket::check(payload) {
            Some(TftpPacket::Request(_)) => {
                self.coming.push_back((self.stranger, Some(vec![0, 4, 0, 0])));
                self.block(1, &[7; 512]);
                self.coming.push_back((self.stranger, Some(vec![0, 4, 0, 0])));
            }
            Some(TftpPacket::Error { code, .. }) if to == self.stranger => {
                assert_eq!(code, ErrorCode::UnknownId as u16);
                self.refusals += 1;
                // Nobody has its port any more: ICMP says so to whom the error came from.
                self.coming.push_front((self.stranger, None));
            }
            Some(TftpPacket::Ack { block: 1 }) => self.block(2, &[7; 100]),
            _ => assert_eq!(to, self.transfer),
        }
        Ok(())
    }

    fn receive(&mut self, _time: Duration, see: &mut dyn FnMut(Inbound<'_>) -> bool) -> Result<()> {
        let local_port = OWN_PORT;
        while let Some((from, came)) = self.coming.pop_front() {
            let goes_on = match came {
                Some(payload) => see(Inbound::Datagram { local_port, from, payload: &payload }),
                None => see(Inbound::Undelivered { local_port, to: from }),
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn receive_bytes(&self) -> usize {
        1 << 20
    }
}

fn fetched_to(played: &mut Played, file: &mut dyn Sink) -> Result<Progress> {
    let (mode, block_bytes, window) = (Mode::Octet, 512, 1);
    let proposal = Proposal { mode, block_bytes, window, timeout_s: None, options: false };
    let (server, stop) = (played.server, AtomicBool::new(false));
    Client::new(played, server, proposal).get(b"file", file, &stop, &mut |_| {})
}

fn fetched(played: &mut Played) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    fetched_to(played, &mut file).map(|_| file)
}

fn played() -> Played {
    let at = |text: &str| text.parse().expect("an address");
    Played {
        server: at("10.9.0.1:69"),
        transfer: at("10.9.0.1:4000"),
        stranger: at("10.9.0.7:5000"),
        coming: VecDeque::new(),
        refusals: 0,
    }
}

/// That ICMP reported the error which the stranger was sent once ended the transfer.
#[test]
fn a_stranger_whose_port_is_closed_ends_no_transfer() {
    let mut played = played();
    let file = fetched(&mut played).expect("fetched");
    assert_eq!((file.len(), played.refusals), (612, 2));
}

#[test]
fn a_server_whose_port_is_closed_is_told() {
    let mut played = played();
    played.coming.push_back((played.server, None));
    let error = fetched(&mut played).expect_err("nobody is there");
    assert!(error.to_string().contains("nobody is there"), "{error}");
}

/// A file whose first bytes take longer to write than a side may be silent.
struct Slow(usize);

impl Sink for Slow {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.0 == 0 {
            // sleep: this side is slow, and not the other one silent.
            std::thread::sleep(Duration::from_millis(10_200));
        }
        self.0 += bytes.len();
        Ok(())
    }

    fn finish(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A reader of its output that paused for ten seconds made a client give up a server that waited
/// for its acknowledgement.
#[test]
fn the_time_that_a_file_takes_is_no_silence_of_the_other_side() {
    let mut file = Slow(0);
    fetched_to(&mut played(), &mut file).expect("fetched");
    assert_eq!(file.0, 612);
}

/// A router's word that a datagram was too long for its way ended the transfer of the next one, and a
/// server that refused a request just then. The kernel, where it was to cut what it sends, did not
/// fragment the last block either.
#[test]
fn what_is_too_long_for_its_way_ends_nothing() {
    // Of this thread only: there the longest packet of the loopback device may change.
    if weir_sys::namespace::new_network().is_err() {
        eprintln!("SKIPPED: this user can make no network namespace");
        return;
    }
    let here = Ipv4Addr::LOCALHOST;
    let longest = |bytes| weir_net::sys::tun::configure("lo", here, 8, bytes).expect("set");
    longest(1500);
    let other = UdpSocket::bind((here, 0)).expect("bound");
    other.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let at = other.local_addr().expect("bound");
    let mut sockets = Sockets::client(here.into());
    let port = sockets.open().expect("opened");
    let mut burst = Burst::default();
    for _ in 0..2 {
        burst.space().resize(1454, 7);
        sockets.send_in(port, at, &mut burst).expect("sent");
    }
    sockets.send_burst(port, at, &mut burst).expect("sent");
    longest(1400);
    sockets.send(port, at, &[7; 1404]).expect("sent in fragments");
    // As a router says it of the next one.
    let SocketAddr::V4(to) = at else { panic!("{at}") };
    let mut quoted = [0; 28];
    let datagram = &mut quoted[20..];
    let _ = udp::emit_header(SocketAddrV4::new(here, port), to, datagram).expect("a header");
    let header = Header {
        tos: 0,
        total_bytes: 28,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        offset_bytes: 0,
        ttl: 64,
        protocol: protocol::UDP,
        source: here,
        destination: here,
    };
    header.emit(&[], &mut quoted).expect("a header");
    let quoted = Quoted::check(&quoted).expect("it quotes");
    let code = unreachable::FRAGMENTATION_NEEDED;
    let mut said = [0; 64];
    let bytes = Message::Unreachable { code, mtu_bytes: 1400, quoted }.emit(&mut said);
    let icmp = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
    let said = &said[..bytes.expect("room")];
    let to = SocketAddr::from((here, 0));
    sendto(icmp.expect("a socket"), said, SendFlags::empty(), &to).expect("said");
    sockets.send(port, at, b"the next").expect("sent");
    let mut got = [0; 2000];
    let came = [(); 4].map(|()| other.recv(&mut got).expect("received"));
    assert_eq!(came, [1454, 1454, 1404, 8]);
}
