//! A whole run: the host before it, its cells, and the report with the host's state beside them.

use super::assemble::{self, RunFacts};
use super::case::Suite;
use super::drive::{self, Driven, RunObserver};
use super::host;
use super::place::Topology;
use super::plan::Plan;
use super::record::{Host, HostState, Rates, Report};
use super::state::HostWatch;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_measure::host_cpu::HostUse;

/// A run that has begun with a look at the host.
#[derive(Debug)]
pub struct WatchedRun {
    begun: Instant,
    started_unix_s: u64,
    cpus: Vec<usize>,
    host: Host,
    rates: Rates,
    before: Option<HostUse>,
}

/// Tells an observer of the cells, and watches the host.
struct Watching<'a> {
    observer: &'a mut dyn RunObserver,
    watch: HostWatch,
}

impl RunObserver for Watching<'_> {
    fn cell(&mut self, what: &str, left: Duration) {
        self.watch.sample();
        self.observer.cell(what, left);
    }

    fn overrun(&mut self, whole: Duration) {
        self.observer.overrun(whole);
    }

    fn stop(&mut self) -> bool {
        self.observer.stop()
    }
}

impl WatchedRun {
    /// Begins a run whose time counts from `begun`. Looks for so long at what others do here.
    pub fn begin(topology: &Topology, begun: Instant, look: Duration) -> WatchedRun {
        let host = host::fingerprint(topology);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut watch = HostWatch::begin(topology.allowed());
        let rates = host::present_rates(look);
        let (cpus, before) = (topology.allowed().to_vec(), watch.seen());
        WatchedRun { begun, started_unix_s: started.as_secs(), cpus, host, rates, before }
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// What the CPUs did before the cells begin.
    pub fn before(&self) -> Option<&HostUse> {
        self.before.as_ref()
    }

    /// Carries out the plan, as [`drive::run`] does.
    pub fn drive(
        &mut self,
        suites: &[Suite],
        plan: &Plan,
        launch: &dyn Fn() -> Command,
        observer: &mut dyn RunObserver,
    ) -> std::io::Result<Driven> {
        let mut watching = Watching { observer, watch: HostWatch::begin(&self.cpus) };
        let driven = drive::run(suites, plan, self.begun, launch, &mut watching)?;
        self.host.state = HostState::new(self.before, watching.watch.seen());
        Ok(driven)
    }

    /// Makes the report of what the cells found.
    pub fn report(
        self,
        suites: &[Suite],
        plan: &Plan,
        driven: &Driven,
        weir_version: &str,
        nominal_ns: Option<f64>,
    ) -> Report {
        let about = RunFacts {
            weir_version: weir_version.into(),
            started_unix_s: self.started_unix_s,
            duration: self.begun.elapsed(),
            host: self.host,
            rates: self.rates,
            interrupted: driven.interrupted,
            nominal_ns,
        };
        assemble::report(suites, plan, &driven.collected, about)
    }
}
