//! Requests of local programs to a daemon: the way of a program to it, and its taking of them.
//!
//! A program connects a channel of records to the path of the daemon, which only the daemon's user
//! may do, and sends one request, which begins with JSON. What follows is the daemon's affair. A
//! program that goes away ends its request.

use crate::error::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};
use weir::{Listener, Options, RecordDuplex};

/// Most requests of local programs at a time.
pub const MOST_LOCAL: usize = 16;
/// Most programs beside them that only want to know how these stand.
const MOST_LISTS: usize = 4;
/// How often a daemon checks whether it is to end.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// How long a program may take for its request, and a daemon for its next word. In unit tests so long
/// that whoever waits for it is seen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 5 });
/// Longest request.
pub(crate) const MOST_REQUEST_BYTES: usize = 16 << 10;

/// A program's way to a daemon.
#[derive(Debug)]
pub(crate) struct LocalChannel {
    pub channel: RecordDuplex,
    /// The daemon, such as "tftpd".
    who: &'static str,
    path: String,
    reply: Vec<u8>,
}

impl LocalChannel {
    /// Connects to the daemon that takes requests at this path. Records from it have at most
    /// `most_bytes`.
    pub fn connect(path: &Path, who: &'static str, most_bytes: usize) -> Result<LocalChannel> {
        let shown = path.display().to_string();
        // Each ring has room for the longest record wherever the free place begins.
        let options = Options::new().capacity_bytes(4 * most_bytes as u64);
        let channel = RecordDuplex::connect(path, &options).map_err(|error| {
            let why = match error.kind() {
                weir::ErrorKind::NoReader => format!("no {who} takes requests there"),
                _ => error.to_string(),
            };
            Error::new(ErrorKind::Refused, "ask at", format!("'{shown}'"), why)
        })?;
        Ok(LocalChannel { channel, who, path: shown, reply: vec![0; most_bytes] })
    }

    pub fn fault(&self, kind: ErrorKind, why: impl Into<String>) -> Error {
        Error::new(kind, "ask at", format!("'{}'", self.path), why)
    }

    pub fn ended(&self) -> Error {
        self.fault(ErrorKind::Refused, format!("{} has ended", self.who))
    }

    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        match self.channel.writer.send_timeout(request, PATIENCE) {
            // It may have refused before the request came: the reply says why.
            Err(error) if error.kind() != weir::ErrorKind::Closed => {
                Err(self.fault(ErrorKind::Refused, error.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Receives the next record.
    pub fn next_bytes(&mut self, time: Duration) -> Result<&[u8]> {
        match self.channel.reader.receive_timeout(&mut self.reply, time) {
            Ok(Some(bytes)) => Ok(&self.reply[..bytes]),
            Ok(None) => Err(self.ended()),
            Err(error) => {
                let why = match error.kind() {
                    weir::ErrorKind::TimedOut => format!("{} does not answer", self.who),
                    _ => error.to_string(),
                };
                Err(self.fault(ErrorKind::TimedOut, why))
            }
        }
    }

    /// Receives the next record, which is JSON. A refusal is an error.
    pub fn next(&mut self, time: Duration) -> Result<Value> {
        let reply: Option<Value> = serde_json::from_slice(self.next_bytes(time)?).ok();
        let reply = reply
            .ok_or_else(|| self.fault(ErrorKind::Corrupt, "its reply cannot be understood"))?;
        match reply["refused"].as_str() {
            Some(why) => Err(self.fault(ErrorKind::Refused, why.to_owned())),
            None => Ok(reply),
        }
    }
}

/// Runs a daemon, and has `serve` serve local programs meanwhile, each in a thread of its own; it is
/// told of one whether there are [`MOST_LOCAL`] others already. Once the daemon has run, `stop` is
/// set, which ends all of them.
pub(crate) fn run_and_serve<R>(
    listener: Option<&Listener>,
    stop: &AtomicBool,
    serve: &(dyn Fn(RecordDuplex, bool) + Sync),
    daemon: impl FnOnce() -> R,
) -> R {
    let serving = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        if let Some(listener) = listener {
            let serving = &serving;
            scope.spawn(move || take_requests(listener, stop, serving, scope, serve));
        }
        let ended = daemon();
        // Relaxed: it only signals the end.
        stop.store(true, Ordering::Relaxed);
        ended
    })
}

/// Takes requests until the daemon is to end; each is served in a thread of its own.
fn take_requests<'scope>(
    listener: &Listener,
    stop: &AtomicBool,
    serving: &'scope AtomicUsize,
    scope: &'scope Scope<'scope, '_>,
    serve: &'scope (dyn Fn(RecordDuplex, bool) + Sync),
) {
    // Relaxed: it only signals the end.
    while !stop.load(Ordering::Relaxed) {
        // What is not a channel of records, and nobody, are passed over.
        let Ok(channel) = listener.accept_timeout::<RecordDuplex>(LOOK) else { continue };
        // Relaxed: a bound, which needs no order.
        let others = serving.fetch_add(1, Ordering::Relaxed);
        if others >= MOST_LOCAL + MOST_LISTS {
            refuse_one_more(channel);
            serving.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        scope.spawn(move || {
            serve(channel, others >= MOST_LOCAL);
            serving.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Receives the request: its JSON, and what follows after a NUL. Refuses what cannot be understood.
/// A daemon that is to end waits for none.
pub(crate) fn request(
    mut channel: RecordDuplex,
    stop: &AtomicBool,
) -> Option<(RecordDuplex, Value, Vec<u8>)> {
    let mut request = vec![0; MOST_REQUEST_BYTES];
    let until = Instant::now() + PATIENCE;
    // Relaxed: it only signals the end.
    let waits = || !stop.load(Ordering::Relaxed) && Instant::now() < until;
    let bytes = loop {
        match channel.reader.receive_timeout(&mut request, LOOK) {
            Err(error) if error.kind() == weir::ErrorKind::TimedOut && waits() => {}
            received => break received.ok()??,
        }
    };
    request.truncate(bytes);
    let end = request.iter().position(|byte| *byte == 0).unwrap_or(bytes);
    let Ok(terms) = serde_json::from_slice::<Value>(&request[..end]) else {
        refuse_nonsense(channel);
        return None;
    };
    request.drain(..bytes.min(end + 1));
    Some((channel, terms, request))
}

/// Sends a record to a program that may take its time. Returns whether it was sent. A daemon that is
/// to end waits for nobody.
pub(crate) fn send_report(channel: &mut RecordDuplex, record: &[u8], stop: &AtomicBool) -> bool {
    let until = Instant::now() + PATIENCE;
    // Relaxed: it only signals the end.
    let waits = || !stop.load(Ordering::Relaxed) && Instant::now() < until;
    loop {
        match channel.writer.send_timeout(record, LOOK) {
            Err(error) if error.kind() == weir::ErrorKind::TimedOut && waits() => {}
            sent => return sent.is_ok(),
        }
    }
}

pub(crate) fn refuse(mut channel: RecordDuplex, why: &str) {
    let reply = json!({ "refused": why }).to_string();
    // A program that is gone misses it.
    let _ = channel.writer.try_send(reply.as_bytes());
}

pub(crate) fn refuse_one_more(channel: RecordDuplex) {
    refuse(channel, "too many requests at a time");
}

pub(crate) fn refuse_nonsense(channel: RecordDuplex) {
    refuse(channel, "the request cannot be understood");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that connected and said nothing kept a daemon that was to end for five seconds.
    #[test]
    fn a_program_that_says_nothing_keeps_no_daemon_from_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("daemon");
        let listener = Listener::bind(&path).expect("it listens");
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (stop, is_served) = (AtomicBool::new(false), AtomicBool::new(false));
            let serve = |channel, _| {
                // Relaxed: the daemon below only waits for it.
                is_served.store(true, Ordering::Relaxed);
                assert!(request(channel, &stop).is_none(), "nothing was asked");
            };
            let silent = run_and_serve(Some(&listener), &stop, &serve, || {
                let silent = RecordDuplex::connect(&path, &Options::new()).expect("connected");
                while !is_served.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                silent
            });
            drop((silent, ended.send(())));
        });
        has_ended.recv_timeout(Duration::from_secs(60)).expect("it waits for no request");
    }

    /// It said that the pipe stayed empty.
    #[test]
    fn a_daemon_that_says_nothing_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("daemon");
        let _silent = Listener::bind(&path).expect("it listens");
        let mut channel = LocalChannel::connect(&path, "tftpd", 4096).expect("connected");
        let error = channel.next_bytes(LOOK).expect_err("nothing came");
        assert!(error.to_string().ends_with("tftpd does not answer"), "{error}");
    }
}
