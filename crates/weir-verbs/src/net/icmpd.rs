//! `weir net icmpd`: attaches to a switch, answers ICMP, and asks for local programs.

use super::{device, listener, not_attached, publish, stop_flag, switch_of};
use crate::args::NetIcmpdOptions;
use crate::fault::{Fault, tell};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use weir_net::icmp::TokenRate;
use weir_net::icmpd::Icmpd;
use weir_net::icmpd::local::LocalService;
use weir_net::log::Log;
use weir_net::names;

pub fn icmpd(options: &NetIcmpdOptions) -> Result<ExitCode, Fault> {
    let stop = stop_flag()?;
    let tun = device(options.tun.as_deref())?;
    let (switch, directory) = switch_of(&tun)?;
    // The switch creates the log. Without one, nothing is logged.
    let log = Log::open(directory.join(names::LOG)).ok();
    let attached = Icmpd::attach(&switch, &directory, options.ggp, log.clone(), |settings| {
        settings.information = options.information;
        settings.replies = options.echo_rate.map(|per_s| TokenRate { per_s, burst: per_s });
    });
    let mut daemon = attached.map_err(|error| not_attached(&tun, error))?;
    let _published = publish(&tun, "icmpd")?;
    let listener = listener(names::icmpd(&tun), "icmpd");
    let service = LocalService::new(&switch, &directory, options.ggp, log, &stop);
    tell(&format!("icmpd answers for {}", daemon.address()));
    std::thread::scope(|scope| {
        if let Some(listener) = &listener {
            scope.spawn(|| service.run(listener, scope));
        }
        let ended = daemon.run(&stop);
        // Relaxed: it only signals the end.
        stop.store(true, Ordering::Relaxed);
        ended
    })?;
    let counts: Vec<String> = daemon
        .counts()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let counts =
        if counts.is_empty() { String::from("nothing was received") } else { counts.join(", ") };
    tell(&format!("icmpd ends: {counts}"));
    Ok(ExitCode::SUCCESS)
}
