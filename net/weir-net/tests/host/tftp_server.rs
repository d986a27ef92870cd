//! The server of TFTP over ports that a test plays (docs/contracts/tftp.md).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use weir_net::Result;
use weir_net::jail::Jail;
use weir_net::tftp::PORT;
use weir_net::tftp::datagrams::{Datagrams, Inbound};
use weir_net::tftp::server::{TftpServer, TransferReport, TransferRules, TransferState};

/// The port of the first transfer; the others have the following ones.
const FIRST: u16 = 50_000;

/// Datagrams that come together: for which port, from which client, and their bytes.
type Batch = Vec<(u16, SocketAddr, Vec<u8>)>;

#[derive(Debug)]
struct Played {
    coming: VecDeque<Batch>,
    next: u16,
    stop: Arc<AtomicBool>,
}

impl Datagrams for Played {
    fn open(&mut self) -> Result<u16> {
        self.next += 1;
        Ok(self.next - 1)
    }

    fn close(&mut self, _port: u16) {}

    fn send(&mut self, _from: u16, _to: SocketAddr, _payload: &[u8]) -> Result<()> {
        Ok(())
    }

    fn receive(&mut self, _time: Duration, see: &mut dyn FnMut(Inbound<'_>) -> bool) -> Result<()> {
        let Some(batch) = self.coming.pop_front() else {
            // Relaxed: this thread looks at it.
            self.stop.store(true, Ordering::Relaxed);
            return Ok(());
        };
        for (local_port, from, payload) in batch {
            see(Inbound::Datagram { local_port, from, payload: &payload });
        }
        Ok(())
    }

    fn receive_bytes(&self) -> usize {
        1 << 20
    }
}

/// Serves a directory with the file `there` while these batches come. Returns how transfers ended.
fn served(rules: TransferRules, batches: Vec<Batch>) -> (TempDir, Vec<TransferReport>) {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("there"), [7; 600]).expect("written");
    let stop = Arc::new(AtomicBool::new(false));
    let played = Played { coming: batches.into(), next: FIRST, stop: stop.clone() };
    let jail = Jail::open(directory.path()).expect("opened");
    let rules = TransferRules { writes: true, ..rules };
    let mut server = TftpServer::new(Box::new(played), PORT, jail, rules);
    let mut reports = Vec::new();
    server.run(&stop, &mut |report| reports.push(report.clone())).expect("served");
    (directory, reports)
}

fn client(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 9, 0, 1], port))
}

fn asks(kind: u8, from: u16, name: &str, mode: &str) -> (u16, SocketAddr, Vec<u8>) {
    (PORT, client(from), [&[0, kind], name.as_bytes(), b"\0", mode.as_bytes(), b"\0"].concat())
}

fn reads(from: u16, name: &str) -> (u16, SocketAddr, Vec<u8>) {
    asks(1, from, name, "octet")
}

fn writes(from: u16, name: &str) -> (u16, SocketAddr, Vec<u8>) {
    asks(2, from, name, "octet")
}

/// The only block of a file, for the transfer of this number.
fn block(number: u16, from: u16) -> (u16, SocketAddr, Vec<u8>) {
    (FIRST + number, client(from), b"\0\x03\0\x01all".to_vec())
}

fn acknowledges(number: u16, from: u16, block: u8) -> (u16, SocketAddr, Vec<u8>) {
    (FIRST + number, client(from), vec![0, 4, 0, block])
}

fn is_there(directory: &TempDir, name: &str) -> bool {
    Path::new(&directory.path().join(name)).exists()
}

/// How the transfer of a file ended, or a request for it: in these words, or well.
fn end<'a>(reports: &'a [TransferReport], name: &str) -> (TransferState, &'a str) {
    let found: Vec<_> = reports.iter().filter(|report| report.name == name).collect();
    let [report] = found[..] else { panic!("{name}: {reports:?}") };
    (report.state, report.failure.as_deref().unwrap_or_default())
}

/// It had to wait until nobody could ask for the last acknowledgement of its last transfer any more;
/// and what it asked for together with the end of a transfer was not heard.
#[test]
fn a_client_that_uses_its_port_again_need_not_wait() {
    let batches = vec![
        vec![writes(1, "first")],
        vec![block(0, 1)],
        // The first request once more, late, begins no second transfer.
        vec![writes(1, "first"), writes(1, "second")],
        vec![block(1, 1)],
        vec![reads(1, "there")],
        vec![(FIRST + 2, client(1), b"\0\x05\0\0not now\0".to_vec()), writes(1, "third")],
        vec![block(3, 1)],
    ];
    let (directory, reports) = served(TransferRules::default(), batches);
    for name in ["first", "second", "third"] {
        assert_eq!(end(&reports, name), (TransferState::Completed, ""), "{reports:?}");
        assert!(is_there(&directory, name), "{name}");
    }
    assert_eq!(end(&reports, "there").0, TransferState::Failed);
}

/// A host that sent files one after the other was refused: "too many transfers at a time".
#[test]
fn transfers_that_are_complete_keep_nobody_out() {
    for rules in [
        TransferRules { most_of_a_host: 1, ..TransferRules::default() },
        TransferRules { most_transfers: 1, ..TransferRules::default() },
    ] {
        let one = |number, name| [vec![writes(number + 1, name)], vec![block(number, number + 1)]];
        let batches = [one(0, "a"), one(1, "b"), one(2, "c")].concat();
        let (directory, reports) = served(rules, batches);
        for name in ["a", "b", "c"] {
            assert_eq!(end(&reports, name), (TransferState::Completed, ""));
            assert!(is_there(&directory, name), "{name}");
        }
    }
}

/// A request for a file that is not there once ended the transfer of a client that was slow.
#[test]
fn nothing_gives_way_to_what_is_refused_and_what_gives_way_is_told() {
    let rules = TransferRules { most_transfers: 1, ..TransferRules::default() };
    let absent = vec![
        vec![reads(1, "there")],
        vec![reads(2, "absent")],
        vec![acknowledges(0, 1, 1)],
        vec![acknowledges(0, 1, 2)],
    ];
    let (_directory, reports) = served(rules, absent);
    assert_eq!(end(&reports, "absent"), (TransferState::Failed, "no such file"));
    assert_eq!(end(&reports, "there"), (TransferState::Completed, ""));
    let (directory, reports) = served(rules, vec![vec![reads(1, "there")], vec![writes(2, "new")]]);
    assert_eq!(end(&reports, "there"), (TransferState::Failed, "it gave way to a newer request"));
    assert!(!is_there(&directory, "new"), "it goes on");
}

/// A transfer whose client acknowledges, however slowly, gives way to none. So a host may have only
/// some of all.
#[test]
fn slow_transfers_of_one_host_leave_room_for_others() {
    let rules = TransferRules { most_transfers: 4, most_of_a_host: 2, ..TransferRules::default() };
    let other = SocketAddr::from(([10, 9, 0, 3], 9));
    let (_, _, request) = writes(9, "of another");
    let (_, _, contents) = block(2, 9);
    let batches = vec![
        vec![reads(1, "there"), reads(2, "./there")],
        vec![acknowledges(0, 1, 1), acknowledges(1, 2, 1)],
        vec![(PORT, other, request)],
        vec![writes(3, "third")],
        vec![(FIRST + 2, other, contents)],
        vec![acknowledges(0, 1, 2), acknowledges(1, 2, 2)],
    ];
    let (directory, reports) = served(rules, batches);
    for name in ["there", "./there", "of another"] {
        assert_eq!(end(&reports, name), (TransferState::Completed, ""), "{reports:?}");
    }
    assert!(is_there(&directory, "of another"));
    assert_eq!(end(&reports, "third").0, TransferState::Failed);
}

/// No line said that it was refused, and no figure.
#[test]
fn a_request_in_a_mode_that_is_not_known_is_a_refused_one() {
    let batches = vec![vec![asks(1, 1, "there", "mail"), asks(2, 1, "letter", "mail")]];
    let (_directory, reports) = served(TransferRules::default(), batches);
    let refused = (TransferState::Failed, "this is not a request in octet or netascii");
    assert_eq!((end(&reports, "there"), end(&reports, "letter")), (refused, refused));
}

/// Anybody could so keep the list of transfers from everybody: a row was longer than has room.
#[test]
fn what_a_client_says_makes_no_long_row() {
    let name = "/".repeat(60_000) + "there";
    let error = [b"\0\x05\0\0", &[b'x'; 60_000][..], b"\0"].concat();
    let batches = vec![
        vec![reads(1, "there"), reads(2, &name), asks(2, 3, &name, "mail")],
        vec![(FIRST, client(1), error)],
    ];
    let (_directory, reports) = served(TransferRules::default(), batches);
    assert_eq!(reports.len(), 3, "{reports:?}");
    for report in &reports {
        let (name, why) = (report.name.len(), report.failure.as_ref().map_or(0, String::len));
        assert!(name <= 512 && why <= 256, "{name} bytes of a name, {why} of a reason");
    }
}
