//! Switches weir's transaction log and its profile on or off for a batch.

use super::host::{EchoHost, HostKind};
use super::weir::Weir;
use crate::engine::case::{CaseError, Site};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Instant;
use weir_net::log::{Kinds, Log};
use weir_profile::{LEASE, Observed};

/// What `weir net up` logs by default.
const WITHOUT_PACKETS: Kinds = Kinds::of_bits(Kinds::USUAL.bits() & !Kinds::TRANSACTIONS.bits());

/// What is switched on, and for which comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrumentation {
    /// The state after the start: errors are logged, packets are not.
    Usual,
    /// A comparison of logs: without packets, or with every packet.
    Log(bool),
    /// A comparison of what can be logged.
    Mode(LogMode),
    /// A comparison of profiles: off or on.
    Profile(bool),
}

/// What is logged of each echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogMode {
    Nothing,
    /// The request, by the daemon.
    Requests,
    /// Both packets, by the switch.
    Packets,
    /// Both packets with their bytes, and the request.
    All,
    /// The request, on the disk before it is answered.
    Synchronous,
}

impl LogMode {
    pub const ALL: [LogMode; 5] =
        [LogMode::Nothing, LogMode::Requests, LogMode::Packets, LogMode::All, LogMode::Synchronous];

    /// The kinds that are logged, and those that wait for the disk.
    fn masks(self) -> (Kinds, Kinds) {
        let with_requests = WITHOUT_PACKETS.and(Kinds::FOREIGN_REQUESTS);
        match self {
            LogMode::Nothing => (WITHOUT_PACKETS, Kinds::NONE),
            LogMode::Requests => (with_requests, Kinds::NONE),
            LogMode::Packets => (Kinds::USUAL, Kinds::NONE),
            LogMode::All => (Kinds::ALL, Kinds::NONE),
            LogMode::Synchronous => (with_requests, Kinds::FOREIGN_REQUESTS),
        }
    }
}

/// A host, and what to do before each of its batches.
pub struct Prepared {
    pub host: Rc<EchoHost>,
    before: Before,
}

enum Before {
    Nothing,
    Set(Log, (Kinds, Kinds)),
    Renew(Lease),
}

/// The profiles of a host, kept on.
struct Lease {
    profiles: Vec<Observed>,
    renewed: Option<Instant>,
}

impl Lease {
    /// Renews it as often as `weir net profile` does. Reading the tables takes 0.1 ms and leaves
    /// the caches cold: done before each batch, that would count as a cost of the profile.
    fn renew(&mut self) -> Result<(), CaseError> {
        if self.renewed.is_some_and(|then| then.elapsed() < LEASE / 8) {
            return Ok(());
        }
        self.profiles.iter_mut().try_for_each(Observed::renew)?;
        self.renewed = Some(Instant::now());
        Ok(())
    }
}

thread_local! {
    /// The hosts of this process whose logs are switched.
    static SWITCHED: RefCell<Vec<(HostKind, Weak<EchoHost>)>> = const { RefCell::new(Vec::new()) };
}

impl Instrumentation {
    /// Returns what distinguishes the name of a case.
    pub fn title(self) -> &'static str {
        match self {
            Instrumentation::Usual => "",
            Instrumentation::Log(false) => ", log off",
            Instrumentation::Log(true) => ", log on",
            Instrumentation::Mode(LogMode::Nothing) => ", log of nothing",
            Instrumentation::Mode(LogMode::Requests) => ", log of requests",
            Instrumentation::Mode(LogMode::Packets) => ", log of packets",
            Instrumentation::Mode(LogMode::All) => ", log of all and bytes",
            Instrumentation::Mode(LogMode::Synchronous) => ", log of requests, synchronous",
            Instrumentation::Profile(false) => ", profile off",
            Instrumentation::Profile(true) => ", profile on",
        }
    }

    /// Returns the kind of logging, where it is not that of the host.
    pub fn logging(self) -> Option<&'static str> {
        match self {
            Instrumentation::Log(true) => Some("ring"),
            Instrumentation::Mode(LogMode::Nothing) => None,
            Instrumentation::Mode(LogMode::Requests) => Some("ring-requests"),
            Instrumentation::Mode(LogMode::Packets) => Some("ring-packets"),
            Instrumentation::Mode(LogMode::All) => Some("ring-all"),
            Instrumentation::Mode(LogMode::Synchronous) => Some("ring-synchronous"),
            Instrumentation::Usual | Instrumentation::Log(false) | Instrumentation::Profile(_) => {
                None
            }
        }
    }

    /// Starts a host. Cases that compare logs share one host in this process, and its mask is set
    /// between batches. A profile stays on for a while after an observer switched it on, so it
    /// needs a host of its own.
    pub fn start(self, site: &Site, way: HostKind) -> Result<Prepared, CaseError> {
        let host = match self {
            Instrumentation::Log(_) | Instrumentation::Mode(_) => shared(site, way)?,
            _ => Rc::new(EchoHost::start(site, way)?),
        };
        let weir = || {
            host.weir()
                .ok_or_else(|| CaseError::failed("only weir has a log or a profile to watch"))
        };
        let before = match self {
            Instrumentation::Usual | Instrumentation::Profile(false) => Before::Nothing,
            Instrumentation::Log(on) => {
                let kinds = if on { Kinds::USUAL } else { WITHOUT_PACKETS };
                Before::Set(weir()?.log()?, (kinds, Kinds::NONE))
            }
            Instrumentation::Mode(mode) => Before::Set(weir()?.log()?, mode.masks()),
            Instrumentation::Profile(true) => {
                let profiles = weir().and_then(Weir::profiles)?;
                Before::Renew(Lease { profiles, renewed: None })
            }
        };
        Ok(Prepared { host, before })
    }
}

fn shared(site: &Site, way: HostKind) -> Result<Rc<EchoHost>, CaseError> {
    SWITCHED.with_borrow_mut(|hosts| {
        let known = hosts.iter().find(|(known, _)| *known == way);
        if let Some(host) = known.and_then(|(_, host)| host.upgrade()) {
            return Ok(host);
        }
        let host = Rc::new(EchoHost::start(site, way)?);
        hosts.push((way, Rc::downgrade(&host)));
        Ok(host)
    })
}

impl Prepared {
    /// Switches the log or the profile as the case demands.
    pub fn before_batch(&mut self) -> Result<(), CaseError> {
        match &mut self.before {
            Before::Nothing => {}
            Before::Set(log, (kinds, synchronous)) => {
                log.set_mask(*kinds);
                log.set_sync_mask(*synchronous);
            }
            Before::Renew(lease) => lease.renew()?,
        }
        Ok(())
    }
}
