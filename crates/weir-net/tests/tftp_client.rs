//! The client of TFTP over ports that a test plays (docs/contracts/tftp.md).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_net::Result;
use weir_net::tftp::client::{Client, Progress, Proposal};
use weir_net::tftp::datagrams::{Datagrams, Inbound};
use weir_net::tftp::packet::{self, ErrorCode, Mode, TftpPacket};
use weir_net::tftp::receiver::Sink;

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
