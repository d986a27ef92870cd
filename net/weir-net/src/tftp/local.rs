//! Requests of local programs to a tftpd (`crate::local`): to fetch a file, to send one, and to
//! say how transfers stand.
//!
//! Each reply is a record of JSON: how the transfer stands, now and then, and at last how it ended.
//! The daemon reads and writes the file itself; the path in a request is absolute.

use super::board::{TransferBoard, TransferReport, TransferState};
use super::client::{Client, Progress, Proposal};
use super::datagrams::Datagrams;
use super::files::FileSource;
use super::packet::Mode;
use crate::error::{ErrorKind, Result};
use crate::jail;
use crate::local::{
    LOOK, LocalChannel, MOST_REQUEST_BYTES, PATIENCE, refuse_nonsense, refuse_one_more, request,
    run_and_serve, send_report,
};
use crate::log::Log;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weir::{Listener, RecordDuplex};

/// What a program asks for.
#[derive(Clone, Debug)]
pub struct LocalRequest<'a> {
    /// The server to talk to.
    pub server: SocketAddr,
    /// What to propose to it.
    pub proposal: Proposal,
    /// Whether the file is fetched; else it is sent.
    pub fetches: bool,
    /// The name of the file there.
    pub remote: &'a [u8],
    /// The file here: an absolute path.
    pub local: &'a Path,
}

impl LocalRequest<'_> {
    /// Encodes it: the terms as JSON, and the two names, which may have any bytes but NUL.
    fn put(&self) -> Vec<u8> {
        let Proposal { mode, block_bytes, window, timeout_s, options } = self.proposal;
        let terms = json!({
            "pid": std::process::id(),
            "fetches": self.fetches,
            "server": self.server,
            "netascii": mode == Mode::Netascii,
            "block_bytes": block_bytes,
            "window": window,
            "timeout_s": timeout_s,
            "options": options,
        });
        let local = self.local.as_os_str().as_bytes();
        [terms.to_string().as_bytes(), &[0], self.remote, &[0], local].concat()
    }

    /// Parses it, with the process that sent it by its own account.
    fn check<'a>(terms: &Value, names: &'a [u8]) -> Option<(LocalRequest<'a>, u32)> {
        let at = names.iter().position(|byte| *byte == 0)?;
        let (remote, local) = (&names[..at], Path::new(OsStr::from_bytes(&names[at + 1..])));
        let small = |name: &str| terms[name].as_u64().and_then(|number| u16::try_from(number).ok());
        let block_bytes = small("block_bytes").filter(|bytes| (8..=65_464).contains(bytes))?;
        let proposal = Proposal {
            mode: if terms["netascii"].as_bool()? { Mode::Netascii } else { Mode::Octet },
            block_bytes,
            window: small("window").filter(|window| *window > 0)?,
            timeout_s: small("timeout_s").and_then(|s| u8::try_from(s).ok()).filter(|s| *s > 0),
            options: terms["options"].as_bool()?,
        };
        let request = LocalRequest {
            server: terms["server"].as_str()?.parse().ok()?,
            proposal,
            fetches: terms["fetches"].as_bool()?,
            remote,
            local,
        };
        let pid = terms["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?;
        (local.is_absolute() && !local.as_os_str().as_bytes().contains(&0))
            .then_some((request, pid))
    }
}

/// A program's way to a tftpd.
#[derive(Debug)]
pub struct LocalDaemon(LocalChannel);

impl LocalDaemon {
    /// Connects to the tftpd that takes requests at this path.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: none is there.
    pub fn connect(path: &Path) -> Result<LocalDaemon> {
        Ok(LocalDaemon(LocalChannel::connect(path, "tftpd", MOST_REQUEST_BYTES)?))
    }

    /// Asks for a transfer, and returns how it ended, as [`TransferReport`] in JSON. Shows now and
    /// then how it stands.
    ///
    /// # Errors
    /// The daemon refuses, has ended, or does not answer; `stop` was set.
    pub fn transfer(
        mut self,
        request: &LocalRequest<'_>,
        stop: &AtomicBool,
        see: &mut dyn FnMut(&Value),
    ) -> Result<Value> {
        self.0.send(&request.put())?;
        loop {
            let reply = self.0.next(PATIENCE)?;
            if reply["state"] != "running" {
                return Ok(reply);
            }
            see(&reply);
            // Relaxed: it only signals the end. The daemon sees that the channel is closed.
            if stop.load(Ordering::Relaxed) {
                return Err(self.0.fault(ErrorKind::TimedOut, "it was interrupted"));
            }
        }
    }

    /// Asks for the transfers: those that run, and the last that have ended.
    pub fn transfers(mut self) -> Result<Vec<Value>> {
        self.0.send(br#"{"lists":true}"#)?;
        let mut rows = Vec::new();
        loop {
            let reply = self.0.next(PATIENCE)?;
            if reply["end"] == true {
                return Ok(rows);
            }
            rows.push(reply);
        }
    }
}

/// What transfers for local programs need.
#[derive(Debug)]
pub struct TransferService<'a, F> {
    /// Where the transfers are shown.
    pub board: TransferBoard,
    /// The log of the switch, if there is one.
    pub log: Option<Log>,
    /// Set when the daemon is to end.
    pub stop: &'a AtomicBool,
    /// Makes the ports of a transfer with this server.
    pub make: F,
}

impl<F: Fn(SocketAddr) -> Result<Box<dyn Datagrams>> + Sync> TransferService<'_, F> {
    /// Runs the daemon, and serves meanwhile the programs that come to `listener`. Then the daemon
    /// is to end.
    pub fn run_beside<R>(&self, listener: Option<&Listener>, daemon: impl FnOnce() -> R) -> R {
        run_and_serve(listener, self.stop, &|channel, more| self.serve(channel, more), daemon)
    }

    /// Serves one program. Beside as many as there may be, only the list.
    fn serve(&self, channel: RecordDuplex, is_one_more: bool) {
        let Some((channel, terms, names)) = request(channel, self.stop) else { return };
        if terms["lists"] == true {
            return self.list(channel);
        }
        if is_one_more {
            return refuse_one_more(channel);
        }
        match LocalRequest::check(&terms, &names) {
            Some((request, pid)) => self.transfer(channel, &request, pid),
            None => refuse_nonsense(channel),
        }
    }

    fn list(&self, mut channel: RecordDuplex) {
        let rows = self.board.transfers().into_iter().map(|row| json!(row));
        for row in rows.chain([json!({ "end": true })]) {
            if !send_report(&mut channel, row.to_string().as_bytes(), self.stop) {
                return;
            }
        }
    }

    fn transfer(&self, channel: RecordDuplex, request: &LocalRequest<'_>, pid: u32) {
        let mut reported = Reported {
            channel,
            board: self.board.clone(),
            number: self.board.number(),
            report: TransferReport {
                state: TransferState::Running,
                pid: Some(pid),
                failure: None,
                ..TransferReport::refused(
                    request.server,
                    String::from_utf8_lossy(request.remote).into_owned(),
                    request.fetches,
                    String::new(),
                )
            },
            last: None,
        };
        reported.report();
        let ran = self.client(request, &mut reported);
        match ran {
            Ok(progress) => {
                reported.note(&progress);
                reported.report.state = TransferState::Completed;
            }
            Err(error) => {
                reported.report.state = TransferState::Failed;
                reported.report.failure = Some(error.to_string());
            }
        }
        reported.report.waits_for = None;
        reported.board.end(reported.number, reported.report.clone());
        let report = json!(reported.report).to_string();
        // A program that is gone or stuck misses it.
        send_report(&mut reported.channel, report.as_bytes(), self.stop);
    }

    fn client(&self, request: &LocalRequest<'_>, reported: &mut Reported) -> Result<Progress> {
        let mut datagrams = (self.make)(request.server)?;
        let mut client = Client::new(&mut *datagrams, request.server, request.proposal);
        self.log.iter().for_each(|log| client.log_to(log.clone()));
        let over = AtomicBool::new(false);
        // Relaxed: it only signals the end.
        let mut see = |progress: &Progress| {
            if !reported.see(progress) || self.stop.load(Ordering::Relaxed) {
                over.store(true, Ordering::Relaxed);
            }
        };
        if request.fetches {
            let mut file = jail::new_file(request.local)?;
            client.get(request.remote, &mut file, &over, &mut see)
        } else {
            let (file, size_bytes) = jail::plain_file(request.local)?;
            let mut source = FileSource::new(file, size_bytes);
            client.put(request.remote, &mut source, size_bytes, &over, &mut see)
        }
    }
}

/// A transfer as its program is told of it.
struct Reported {
    channel: RecordDuplex,
    board: TransferBoard,
    number: u64,
    report: TransferReport,
    last: Option<Instant>,
}

impl Reported {
    fn note(&mut self, progress: &Progress) {
        let Progress { size_bytes, block_bytes, window, counts, waits, waits_for } = *progress;
        let report = &mut self.report;
        report.waits_for = Some(waits_for);
        (report.size_bytes, report.counts, report.waits) = (size_bytes, counts, waits);
        (report.block_bytes, report.window) = (block_bytes, window);
    }

    /// Notes how it stands, and tells it now and then. Returns whether the program is there.
    fn see(&mut self, progress: &Progress) -> bool {
        if self.last.is_some_and(|last| last.elapsed() < LOOK) {
            return true;
        }
        self.note(progress);
        self.report()
    }

    fn report(&mut self) -> bool {
        self.last = Some(Instant::now());
        self.board.show(self.number, self.report.clone());
        let report = json!(self.report).to_string();
        match self.channel.writer.try_send(report.as_bytes()) {
            Ok(()) => true,
            // It reads slowly: it gets the next one.
            Err(error) => error.kind() == weir::ErrorKind::WouldBlock,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::local::MOST_LOCAL;
    use std::time::Duration;

    /// A program that asked for the list and did not read it kept a daemon that was to end for five
    /// seconds.
    #[test]
    fn a_list_that_nobody_reads_keeps_no_daemon_from_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tftpd");
        let listener = Listener::bind(&path).expect("it listens");
        let board = TransferBoard::default();
        let peer = "10.9.0.1:69".parse().expect("an address");
        for number in 0..1000 {
            let name = format!("{number:0200}");
            board.show(number, TransferReport::refused(peer, name, false, String::new()));
        }
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let stop = AtomicBool::new(false);
            let none = |_| Err(Error::new(ErrorKind::Invalid, "open", "a port", "there is none"));
            let service = TransferService { board, log: None, stop: &stop, make: none };
            let asking = service.run_beside(Some(&listener), || {
                let mut asking = LocalDaemon::connect(&path).expect("connected");
                asking.0.send(br#"{"lists":true}"#).expect("asked");
                asking.0.next(PATIENCE).expect("the first row");
                asking
            });
            drop((asking, ended.send(())));
        });
        has_ended.recv_timeout(Duration::from_secs(60)).expect("it waits for no reader");
    }

    /// With as many transfers for local programs as there may be, the list of them was refused too.
    #[test]
    fn transfers_are_listed_beside_as_many_as_there_may_be() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tftpd");
        let listener = Listener::bind(&path).expect("it listens");
        let stop = AtomicBool::new(false);
        let none = |_| Err(Error::new(ErrorKind::Invalid, "open", "a port", "there is none"));
        let board = TransferBoard::default();
        let service = TransferService { board, log: None, stop: &stop, make: none };
        let (listed, refused) = service.run_beside(Some(&listener), || {
            let connect = || LocalDaemon::connect(&path).expect("connected");
            let _asking: Vec<LocalDaemon> = (0..MOST_LOCAL).map(|_| connect()).collect();
            let server = "10.9.0.1:69".parse().expect("an address");
            let proposal = Proposal {
                mode: Mode::Octet,
                block_bytes: 512,
                window: 1,
                timeout_s: None,
                options: false,
            };
            let local = Path::new("/file");
            let wanted = LocalRequest { server, proposal, fetches: true, remote: b"file", local };
            let listed = connect().transfers();
            (listed, connect().transfer(&wanted, &stop, &mut |_| {}))
        });
        assert_eq!(listed.expect("listed"), Vec::<Value>::new());
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.ends_with("too many requests at a time"), "{refused}");
    }
}
