//! The ICMP and GGP daemon: the engine of [`mod@crate::icmp`] in a process that attaches to a
//! switch.

pub mod local;

use crate::error::Result;
use crate::icmp::{Answers, Engine, IcmpSettings, Notice};
use crate::log::{FailureEvent, Log};
use crate::message::Want;
use crate::outgoing::Outgoing;
use crate::spans;
use crate::station::{Sender, Station, StationMessage};
use crate::switch::{ms_since_midnight, now_ns};
use crate::wire::ggp;
use crate::wire::ipv4::{Datagram, protocol};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an idle daemon checks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// An attached daemon.
#[derive(Debug)]
pub struct Icmpd {
    station: Station,
    log: Option<Log>,
    engine: Engine,
}

impl Icmpd {
    /// Attaches to the switch for ICMP, and with `ggp` for GGP. `log` is that of the switch, for
    /// received errors. `adjust` may change the default settings.
    ///
    /// # Errors
    /// Those of [`Station::attach`]; most often another daemon has ICMP.
    pub fn attach(
        switch: &Path,
        directory: &Path,
        ggp: bool,
        log: Option<Log>,
        adjust: impl FnOnce(&mut IcmpSettings),
    ) -> Result<Icmpd> {
        let mut wants = vec![Want { protocol: protocol::ICMP, port: None }];
        if ggp {
            wants.push(Want { protocol: protocol::GGP, port: None });
        }
        let station = Station::attach(switch, directory, &wants)?;
        let attached = station.attached();
        let mut settings = IcmpSettings::new(attached.address, attached.prefix_bits);
        // The switch drops packets from outside that carry our source address.
        settings.loopback = true;
        settings.ggp = ggp;
        adjust(&mut settings);
        Ok(Icmpd { station, log, engine: Engine::new(settings) })
    }

    /// Returns the address it answers for.
    pub fn address(&self) -> Ipv4Addr {
        self.station.attached().address
    }

    /// Answers until `stop` is set or the switch has ended.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let Icmpd { station, log, engine } = self;
        let log = log.as_ref();
        // Relaxed: it only signals the end.
        while !stop.load(Ordering::Relaxed) {
            station.receive_for(LOOK, |sender, arrival| answer(engine, sender, log, arrival))?;
        }
        Ok(())
    }

    /// Returns the engine's counts by name.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.engine.counts().each().map(|(_, name, count)| (name, count))
    }
}

fn answer(
    engine: &mut Engine,
    sender: &mut Sender<'_>,
    log: Option<&Log>,
    arrival: StationMessage<'_>,
) {
    match arrival {
        StationMessage::Packet { bytes, .. } => {
            // It follows directly on the check of the header.
            let span = spans::ANSWER.enter_at_last();
            let Ok(datagram) = Datagram::check(bytes) else { return };
            let mut through = Through { sender, log, from: datagram.header().source };
            if let Some(log) = log {
                log.foreign_request(&datagram);
            }
            engine.take(&datagram, &mut through);
            span.end_at_last();
        }
        StationMessage::Undeliverable { bytes, why } => {
            let mut through = Through { sender, log, from: Ipv4Addr::UNSPECIFIED };
            engine.undeliverable(bytes, why, &mut through);
        }
        StationMessage::Notice(_) => {}
    }
}

/// Sends answers through the station.
struct Through<'a, 'b> {
    sender: &'a mut Sender<'b>,
    log: Option<&'a Log>,
    from: Ipv4Addr,
}

impl Answers for Through<'_, '_> {
    fn send_parts(&mut self, to: Outgoing<'_>, front: &[u8], rest: &[u8]) {
        self.sender.send_parts(&to, front, rest);
    }

    fn gateway_of(&mut self, _destination: Ipv4Addr) -> Option<Ipv4Addr> {
        // The switch knows the gateway in use, and checks again: here any sender may be it.
        Some(self.from)
    }

    fn redirect(&mut self, destination: Ipv4Addr, gateway: Ipv4Addr) {
        self.sender.redirect(destination, gateway, self.from);
    }

    fn announce(&mut self, gateway: Ipv4Addr, update: &ggp::Update<'_>) {
        self.sender.announce(gateway, update);
    }

    fn now_ns(&mut self) -> u64 {
        now_ns()
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        ms_since_midnight()
    }

    fn notice(&mut self, notice: Notice) {
        self.sender.notice(&notice);
        if let Some(log) = self.log {
            log.error(&FailureEvent::of_notice(&notice));
        }
    }
}
