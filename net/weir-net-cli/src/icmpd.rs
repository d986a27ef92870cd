//! `weir net icmpd`: attaches to a switch, answers ICMP, and asks for local programs.

use super::switch::NamedSwitch;
use super::{listener, stop_flag};
use crate::args::NetIcmpdOptions;
use crate::failed;
use std::process::ExitCode;
use weir_command::fault::{Fault, print_message};
use weir_net::icmp::TokenRate;
use weir_net::icmpd::Icmpd;
use weir_net::icmpd::local::LocalService;
use weir_net::names;

pub fn icmpd(options: &NetIcmpdOptions) -> Result<ExitCode, Fault> {
    let stop = stop_flag()?;
    let switch = NamedSwitch::find(options.tun.as_deref())?;
    let (port, directory, log) = (&switch.port, &switch.directory, switch.log());
    let attached = Icmpd::attach(port, directory, options.ggp, log.clone(), |settings| {
        settings.information = options.information;
        settings.replies = options.echo_rate.map(|per_s| TokenRate { per_s, burst: per_s });
    });
    let mut daemon = switch.attached(attached)?;
    let _published = switch.publish("icmpd");
    let listener = listener(names::icmpd(&switch.tun), "icmpd");
    let service = LocalService::new(port, directory, options.ggp, log, &stop);
    print_message(&format!("icmpd answers for {}", daemon.address()));
    service.run_beside(listener.as_ref(), || daemon.run(&stop)).map_err(failed)?;
    let counts: Vec<String> = daemon
        .counts()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    let counts =
        if counts.is_empty() { String::from("nothing was received") } else { counts.join(", ") };
    print_message(&format!("icmpd ends: {counts}"));
    Ok(ExitCode::SUCCESS)
}
