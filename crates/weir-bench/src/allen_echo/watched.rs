//! Switches weir's transaction log and its profile on or off for a batch.

use super::host::{EchoHost, HostKind};
use super::weir::Weir;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use weir_measure::bench::case::{CaseError, Site};
use weir_net::log::{Kinds, Log};
use weir_profile::Observed;

/// What `weir net up` logs by default.
const WITHOUT_PACKETS: Kinds = Kinds::of_bits(Kinds::USUAL.bits() & !Kinds::TRANSACTIONS.bits());

/// What is switched on, and for which comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrumentation {
    /// The state after the start: errors are logged, packets are not.
    Usual,
    /// A comparison of logs: without packets, or with every packet.
    Log(bool),
    /// A comparison of profiles: off or on.
    Profile(bool),
}

/// A host, and what to do before each of its batches.
pub struct Prepared {
    pub host: Rc<EchoHost>,
    before: Before,
}

enum Before {
    Nothing,
    Set(Log, Kinds),
    Renew(Vec<Observed>),
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
            Instrumentation::Profile(false) => ", profile off",
            Instrumentation::Profile(true) => ", profile on",
        }
    }

    /// Starts a host. Cases that compare logs share one host in this process, and its mask is set
    /// between batches. A profile stays on for a while after an observer switched it on, so it
    /// needs a host of its own.
    pub fn start(self, site: &Site, way: HostKind) -> Result<Prepared, CaseError> {
        let host = match self {
            Instrumentation::Log(_) => shared(site, way)?,
            _ => Rc::new(EchoHost::start(site, way)?),
        };
        let weir = || {
            host.weir()
                .ok_or_else(|| CaseError::failed("only weir has a log or a profile to watch"))
        };
        let before = match self {
            Instrumentation::Usual | Instrumentation::Profile(false) => Before::Nothing,
            Instrumentation::Log(on) => {
                let log = weir()?.log()?;
                Before::Set(log, if on { Kinds::USUAL } else { WITHOUT_PACKETS })
            }
            Instrumentation::Profile(true) => Before::Renew(weir().and_then(Weir::profiles)?),
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
            Before::Set(log, kinds) => {
                log.set_mask(*kinds);
            }
            Before::Renew(profiles) => profiles.iter_mut().try_for_each(Observed::renew)?,
        }
        Ok(())
    }
}
