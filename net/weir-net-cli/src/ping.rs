//! `weir net ping`: asks a host for an echo or the time of day, from the host behind a switch, by a
//! station of its own or by the running icmpd.

use super::asked;
use super::switch::NamedSwitch;
use crate::args::NetPingOptions;
use crate::failed;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_command::fault::Fault;
use weir_command::output::Outlet;
use weir_command::signals::{CaughtSignals, ENDS};
use weir_net::icmp::ping::{PingResult, PingSummary, Pinger, Probe};
use weir_net::icmp::{Notice, NoticeKind};
use weir_net::icmpd::local::LocalIcmp;
use weir_net::names;
use weir_net::outgoing::Outgoing;
use weir_net::station::{Station, StationMessage};
use weir_net::switch::ms_since_midnight;
use weir_net::wire::ipv4::Datagram;

/// The longest single wait, so that an interrupt is seen.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interrupted ping may take to print its summary, before it dies of the signal: nobody
/// may read that.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs the verb. The status is 1 if nothing answered.
pub fn ping(options: &NetPingOptions) -> Result<ExitCode, Fault> {
    let outlet = Outlet::open(&options.json)?;
    let received = CaughtSignals::start(&ENDS, &[], PATIENCE, || {})?;
    let data_bytes = usize::from(options.size);
    let probe = match (options.timestamp, options.ggp) {
        (true, _) => Probe::Timestamp,
        (false, true) => Probe::GgpEcho { data_bytes },
        (false, false) => Probe::Echo { data_bytes },
    };
    let (way, id) = Way::open(options, probe)?;
    let late_ns = u64::try_from(options.wait.as_nanos()).unwrap_or(u64::MAX);
    let mut asking = Asking {
        options,
        way,
        outlet,
        probe,
        pinger: Pinger::new(id, probe, late_ns),
        begun: Instant::now(),
        answered: 0,
    };
    let (mut sent, mut next) = (0, Instant::now());
    let mut until = None;
    while received.end().is_none() {
        let now = Instant::now();
        if options.count.is_none_or(|count| sent < count) && now >= next {
            asking.ask()?;
            sent += 1;
            next = now.max(next + options.interval);
            if options.count == Some(sent) {
                until = Some(now + options.wait);
            }
        }
        if until.is_some_and(|until| now >= until) || options.count == Some(asking.answered) {
            break;
        }
        // Nobody else would end it.
        if options.count.is_none() && !asking.outlet.wait(Duration::ZERO)? {
            return Err(Fault::reader_gone());
        }
        let wake = until.unwrap_or(next).max(now);
        asking.receive(LOOK.min(wake - now))?;
    }
    asking.finish()
}

/// What sends the requests.
enum Way {
    /// A station of this process.
    Station(Box<Station>),
    /// The icmpd that runs.
    Daemon(Box<LocalIcmp>),
}

impl Way {
    /// Opens it; returns the identifier of the requests too.
    fn open(options: &NetPingOptions, probe: Probe) -> Result<(Way, u16), Fault> {
        let switch = NamedSwitch::find(options.tun.as_deref())?;
        if options.by_daemon {
            let path = names::icmpd(&switch.tun).map_err(asked)?;
            let daemon =
                LocalIcmp::connect(&path, options.destination, options.ggp).map_err(failed)?;
            let id = daemon.id();
            return Ok((Way::Daemon(Box::new(daemon)), id));
        }
        let (port, protocol) = (&switch.port, probe.protocol());
        let attached = Station::attach_ports(port, &switch.directory, protocol, &[], 1);
        let (station, ids) = switch.attached(attached)?;
        Ok((Way::Station(Box::new(station)), ids[0]))
    }

    fn send(&mut self, to: &Outgoing<'_>, request: &[u8]) -> weir_net::Result<()> {
        match self {
            Way::Station(station) => station.send(to, request),
            Way::Daemon(daemon) => daemon.send(request),
        }
    }

    fn receive_for(
        &mut self,
        time: Duration,
        mut see: impl FnMut(StationMessage<'_>),
    ) -> weir_net::Result<()> {
        match self {
            Way::Station(station) => station.receive_for(time, |_, arrived| see(arrived)).map(drop),
            Way::Daemon(daemon) => daemon.receive_for(time, see),
        }
    }
}

struct Asking<'a> {
    options: &'a NetPingOptions,
    way: Way,
    probe: Probe,
    outlet: Outlet,
    pinger: Pinger,
    begun: Instant,
    answered: u64,
}

impl Asking<'_> {
    fn ask(&mut self) -> Result<(), Fault> {
        let to = Outgoing::new(self.options.destination, self.probe.protocol());
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let request = self.pinger.request(now_ns, ms_since_midnight());
        self.way.send(&to, request).map_err(failed)
    }

    /// Handles what comes within this time.
    fn receive(&mut self, time: Duration) -> Result<(), Fault> {
        let Asking { options, way, outlet, pinger, begun, answered, .. } = self;
        let mut lines = String::new();
        let received = way.receive_for(time, |arrival| match arrival {
            StationMessage::Packet { bytes, .. } => {
                let Ok(datagram) = Datagram::check(bytes) else { return };
                let header = datagram.header();
                // Only the host that was asked may answer.
                if header.source != options.destination {
                    return;
                }
                let now_ns = begun.elapsed().as_nanos() as u64;
                let took = pinger.take(datagram.payload(), now_ns, ms_since_midnight());
                *answered += u64::from(matches!(took, PingResult::Reply { .. }));
                let bytes = datagram.payload().len();
                let from = format!("{bytes} bytes from {}", header.source);
                lines.push_str(&line(&from, header.ttl, took));
            }
            StationMessage::Notice(notice) if pinger.notice(&notice) => {
                lines.push_str(&trouble(&notice));
            }
            _ => {}
        });
        received.map_err(failed)?;
        if !options.quiet {
            outlet.write_text(&lines)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ExitCode, Fault> {
        let summary = self.pinger.summary();
        let text = || format!("-- {}: {summary}\n", self.options.destination);
        self.outlet.write_report("weir.net.ping/1", || json(self.options, &summary), text)?;
        Ok(if summary.counts.received > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn line(from: &str, ttl: u8, took: PingResult) -> String {
    match took {
        PingResult::Reply { sequence, rtt_ns, late } => {
            let late = if late { " (late)" } else { "" };
            let ms = rtt_ns as f64 / 1e6;
            format!("{from}: sequence {sequence}, ttl {ttl}, {ms:.3} ms{late}\n")
        }
        PingResult::Duplicate { sequence } => format!("{from}: sequence {sequence}, duplicate\n"),
        PingResult::Changed { sequence } => {
            format!("{from}: sequence {sequence}, changed data\n")
        }
        PingResult::NotOurs => String::new(),
    }
}

fn trouble(notice: &Notice) -> String {
    let what = match notice.trouble {
        NoticeKind::Unreachable => "unreachable",
        NoticeKind::TimeExceeded => "time exceeded",
        NoticeKind::ParameterProblem => "parameter problem",
    };
    let Notice { from, code, remote_port, .. } = notice;
    format!("from {from}: {what} (code {code}), sequence {remote_port}\n")
}

fn json(options: &NetPingOptions, summary: &PingSummary) -> Value {
    let PingSummary { probe, counts, lost, loss_share, rtt, clock } = summary;
    let probe = match probe {
        Probe::Echo { data_bytes } => json!({"kind": "echo", "data_bytes": data_bytes}),
        Probe::GgpEcho { data_bytes } => json!({"kind": "ggp-echo", "data_bytes": data_bytes}),
        Probe::Timestamp => json!({"kind": "timestamp", "data_bytes": null}),
    };
    json!({
        "destination": options.destination,
        "by_daemon": options.by_daemon,
        "probe": probe,
        "requests": counts.sent,
        "replies": counts.received,
        "late_replies": counts.late,
        "duplicate_replies": counts.duplicates,
        "changed_replies": counts.changed,
        "nonstandard_times": counts.nonstandard_times,
        "errors": {
            "unreachable": counts.unreachable,
            "time_exceeded": counts.time_exceeded,
            "parameter_problem": counts.parameter_problem,
        },
        "lost_requests": lost,
        "loss_share": loss_share,
        "rtt": rtt.map(|rtt| json!({
            "min_s": rtt.min_ns / 1e9,
            "mean_s": rtt.mean_ns / 1e9,
            "p50_s": rtt.p50_ns / 1e9,
            "p90_s": rtt.p90_ns.map(|ns| ns / 1e9),
            "p99_s": rtt.p99_ns.map(|ns| ns / 1e9),
            "max_s": rtt.max_ns / 1e9,
        })),
        "clock": clock.map(|clock| json!({
            "ahead_s": clock.ahead_ms / 1e3,
            "uncertain_s": clock.uncertain_ms / 1e3,
            "there_s": clock.there_ms as f64 / 1e3,
            "back_s": clock.back_ms as f64 / 1e3,
        })),
    })
}
