//! Requests of local programs to icmpd (`crate::local`): to send an echo, a timestamp or a GGP
//! echo for them, and to hand them the answers.
//!
//! A program names the host to ask, and gets the identifier that its requests must have. It then
//! sends requests as payloads of ICMP or GGP. The daemon checks each, sends it from a station of
//! its own for this program, and passes on what comes back: datagrams, and notices of errors, as a
//! switch tells them.

use crate::error::{ErrorKind, Result};
use crate::local::{
    LOOK, LocalChannel, PATIENCE, refuse, refuse_nonsense, refuse_one_more, request, run_and_serve,
};
use crate::log::{Asker, Log, RequestEvent};
use crate::message::MOST_MESSAGE_BYTES;
use crate::outgoing::Outgoing;
use crate::readiness::wait_for;
use crate::station::{Station, StationMessage, arrival, put_arrival};
use crate::wire::ggp;
use crate::wire::icmp::Message;
use crate::wire::ipv4::protocol;
use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir::{ErrorKind as ChannelError, Listener, RecordDuplex};

/// A program's way to an icmpd, with which it asks one host.
#[derive(Debug)]
pub struct LocalIcmp {
    channel: LocalChannel,
    id: u16,
}

impl LocalIcmp {
    /// Connects to the icmpd that takes requests at this path, to ask `destination`: by ICMP, or
    /// by GGP echoes.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`]: none is there, or it does not do that.
    pub fn connect(path: &Path, destination: Ipv4Addr, by_ggp: bool) -> Result<LocalIcmp> {
        let mut channel = LocalChannel::connect(path, "icmpd", MOST_MESSAGE_BYTES)?;
        let pid = std::process::id();
        let request = json!({ "pid": pid, "destination": destination, "ggp": by_ggp });
        channel.send(request.to_string().as_bytes())?;
        let id = channel.next(PATIENCE)?["id"].as_u64().and_then(|id| u16::try_from(id).ok());
        let nonsense = || channel.fault(ErrorKind::Corrupt, "its reply cannot be understood");
        let id = id.ok_or_else(nonsense)?;
        Ok(LocalIcmp { channel, id })
    }

    /// Returns the identifier that requests must have.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Has a request sent: the payload of a datagram of ICMP or GGP.
    ///
    /// # Errors
    /// The daemon has ended, or takes no more.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        self.channel.send(request)
    }

    /// Shows the next datagram or notice, if one comes within this time.
    ///
    /// # Errors
    /// The daemon has ended.
    pub fn receive_for(
        &mut self,
        time: Duration,
        mut see: impl FnMut(StationMessage<'_>),
    ) -> Result<()> {
        match self.channel.next_bytes(time) {
            Ok(bytes) => arrival(bytes).into_iter().for_each(&mut see),
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// What requests of local programs need.
#[derive(Debug)]
pub struct LocalService<'a> {
    switch: PathBuf,
    directory: PathBuf,
    has_ggp: bool,
    log: Option<Log>,
    stop: &'a AtomicBool,
}

impl LocalService<'_> {
    /// Makes it, for the switch whose port is `switch`. `has_ggp`: the daemon takes part in GGP.
    pub fn new<'a>(
        switch: &Path,
        directory: &Path,
        has_ggp: bool,
        log: Option<Log>,
        stop: &'a AtomicBool,
    ) -> LocalService<'a> {
        LocalService {
            switch: switch.to_owned(),
            directory: directory.to_owned(),
            has_ggp,
            log,
            stop,
        }
    }

    /// Runs the daemon, and serves meanwhile the programs that come to `listener`. Then the daemon
    /// is to end.
    pub fn run_beside<R>(&self, listener: Option<&Listener>, daemon: impl FnOnce() -> R) -> R {
        run_and_serve(listener, self.stop, &|channel, more| self.serve(channel, more), daemon)
    }

    /// Serves one program, unless as many are served as there may be.
    fn serve(&self, channel: RecordDuplex, is_one_more: bool) {
        if is_one_more {
            return refuse_one_more(channel);
        }
        let Some((mut channel, terms, rest)) = request(channel, self.stop) else { return };
        let Some(mut asked) = Asked::check(&terms).filter(|_| rest.is_empty()) else {
            return refuse_nonsense(channel);
        };
        if asked.protocol == protocol::GGP && !self.has_ggp {
            return refuse(channel, "this icmpd does not speak GGP (icmpd --ggp does)");
        }
        let LocalService { switch, directory, .. } = self;
        let attached = Station::attach_ports(switch, directory, asked.protocol, &[], 1);
        let (station, ids) = match attached {
            Ok(attached) => attached,
            Err(error) => return refuse(channel, &error.to_string()),
        };
        asked.id = ids[0];
        let reply = json!({ "id": asked.id }).to_string();
        if channel.writer.send_timeout(reply.as_bytes(), PATIENCE).is_ok() {
            // A switch that has ended, and a program that is gone, both end it.
            let _ = Serving { asked, channel, station, log: self.log.as_ref() }.run(self.stop);
        }
    }
}

/// Whom a program asks, and by what.
#[derive(Clone, Copy, Debug)]
struct Asked {
    pid: u32,
    destination: Ipv4Addr,
    protocol: u8,
    id: u16,
}

impl Asked {
    fn check(terms: &Value) -> Option<Asked> {
        let protocol = if terms["ggp"].as_bool()? { protocol::GGP } else { protocol::ICMP };
        let destination = terms["destination"].as_str()?.parse().ok()?;
        let pid = terms["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())?;
        Some(Asked { pid, destination, protocol, id: 0 })
    }

    /// Whether these bytes are a request with the program's identifier.
    fn allows(&self, payload: &[u8]) -> bool {
        match self.protocol {
            protocol::GGP => ggp::echo_ids(payload).is_some_and(|(id, _)| id == self.id),
            _ => match Message::check(payload) {
                Ok(Message::Echo(echo)) => echo.id == self.id,
                Ok(Message::Timestamp(times)) => times.id == self.id,
                _ => false,
            },
        }
    }
}

/// A program that is served.
struct Serving<'a> {
    asked: Asked,
    channel: RecordDuplex,
    station: Station,
    log: Option<&'a Log>,
}

impl Serving<'_> {
    /// Serves until the program, the daemon or the switch ends.
    fn run(mut self, stop: &AtomicBool) -> Result<()> {
        let mut payload = vec![0; MOST_MESSAGE_BYTES];
        let mut message = Vec::new();
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            let Serving { channel, station, .. } = &mut self;
            let writer = &mut channel.writer;
            let received = station.receive_for(Duration::ZERO, |_, arrived| {
                put_arrival(&arrived, &mut message);
                // A program that does not read loses what has no room, as behind a full ring.
                let _ = writer.try_send(&message);
            })?;
            let asked = match self.channel.reader.try_receive(&mut payload) {
                Ok(Some(bytes)) => self.ask(&payload[..bytes])?,
                Err(error) if error.kind() == ChannelError::WouldBlock => false,
                Ok(None) | Err(_) => return Ok(()),
            };
            if received == 0 && !asked {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Sends a request. What is none ends the service, since the program cannot know what was sent.
    fn ask(&mut self, payload: &[u8]) -> Result<bool> {
        let Asked { pid, destination, protocol, .. } = self.asked;
        if !self.asked.allows(payload) {
            let why = json!({ "refused": "that is not a request" }).to_string();
            let _ = self.channel.writer.try_send(why.as_bytes());
            return Err(nonsense());
        }
        if let Some(log) = self.log {
            log.request(&RequestEvent::new(Asker::Local { pid }, destination, protocol, payload));
        }
        self.station.send(&Outgoing::new(destination, protocol), payload)?;
        Ok(true)
    }

    /// Waits for the program or the switch.
    fn wait(&mut self) -> Result<()> {
        let program = self.channel.reader.poll_descriptor()?;
        let switch = self.station.poll_descriptor()?;
        let mut both = [program, switch].map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN));
        wait_for(&mut both, Some(LOOK), "a program")?;
        Ok(())
    }
}

fn nonsense() -> crate::Error {
    crate::Error::new(ErrorKind::Invalid, "send for", "a program", "that is not a request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::icmp::{Echo, Timestamp};

    const ASKED: Asked =
        Asked { pid: 1, destination: Ipv4Addr::LOCALHOST, protocol: protocol::ICMP, id: 258 };

    #[test]
    fn only_requests_with_the_programs_own_identifier_are_sent() {
        let mut bytes = [0; 64];
        let mut allows = |message: Message<'_>| {
            let length = message.emit(&mut bytes).expect("room");
            ASKED.allows(&bytes[..length])
        };
        let times =
            |id| Timestamp { id, sequence: 1, originate_ms: 1, receive_ms: 0, transmit_ms: 0 };
        let echo = |id| Echo { id, sequence: 1, data: b"data" };
        assert!(allows(Message::Echo(echo(258))));
        assert!(allows(Message::Timestamp(times(258))));
        assert!(!allows(Message::Echo(echo(259))), "another's");
        assert!(!allows(Message::Timestamp(times(2))), "another's");
        assert!(!allows(Message::EchoReply(echo(258))), "no request");
        assert!(!ASKED.allows(&[]) && !ASKED.allows(&[8; 8]), "no message");
        let ggp = Asked { protocol: protocol::GGP, ..ASKED };
        assert!(ggp.allows(&[8, 0, 0, 0, 1, 2, 0, 0]));
        for other in
            [&[8, 0, 0, 0, 1, 2, 0][..], &[8, 0, 0, 0, 2, 2, 0, 0], &[0, 0, 0, 0, 1, 2, 0, 0]]
        {
            assert!(!ggp.allows(other), "{other:?}");
        }
    }

    #[test]
    fn any_terms_are_a_request_or_not() {
        let terms = json!({ "pid": 7, "destination": "10.9.0.1", "ggp": true });
        let asked = Asked::check(&terms).expect("a request");
        assert_eq!((asked.pid, asked.protocol), (7, protocol::GGP));
        for (name, wrong) in [("pid", json!(-1)), ("destination", json!("x")), ("ggp", json!(1))] {
            let mut terms = terms.clone();
            terms[name] = wrong;
            assert!(Asked::check(&terms).is_none(), "{name}");
        }
        assert!(Asked::check(&json!([])).is_none());
    }
}
