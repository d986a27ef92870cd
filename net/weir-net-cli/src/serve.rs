//! `weir net serve`: echo, discard, chargen, HTTP and Telnet over TCP, on the host behind a switch.

use super::switch::NamedSwitch;
use super::{asked, stop_flag};
use crate::args::NetServeOptions;
use crate::failed;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use weir_command::fault::{Fault, print_message};
use weir_command::units;
use weir_net::jail::Jail;
use weir_net::tcp::endpoint::TcpEndpoint;
use weir_net::tcp::service::{Answered, Service, ServiceEvent, TcpServer, TelnetService};

pub fn serve(options: &NetServeOptions) -> Result<ExitCode, Fault> {
    let stop = stop_flag()?;
    let mut services = HashMap::new();
    let http = options.http.as_ref().map(|directory| Jail::open(directory)).transpose();
    let wanted = [
        options.echo.map(|port| (port, Service::Echo)),
        options.discard.map(|port| (port, Service::Discard)),
        options.chargen.map(|port| (port, Service::Chargen)),
        http.map_err(asked)?.map(|jail| (options.http_port, Service::Http(jail))),
        options.telnet.as_ref().map(|command| {
            // The host is known once the endpoint is attached.
            let (command, host) = (command.clone(), Ipv4Addr::UNSPECIFIED);
            (options.telnet_port, Service::Telnet(TelnetService { command, host }))
        }),
    ];
    for (port, service) in wanted.into_iter().flatten() {
        if let Some(other) = services.insert(port, service) {
            let other = other.as_str();
            return Err(Fault::usage(format!("two services have port {port}, {other} is one")));
        }
    }
    if services.is_empty() {
        let how =
            "nothing to serve: use --echo, --discard, --chargen, --http DIR or --telnet COMMAND";
        return Err(Fault::usage(how));
    }
    let mut ports: Vec<u16> = services.keys().copied().collect();
    ports.sort();
    let switch = NamedSwitch::find(options.tun.as_deref())?;
    let attached = TcpEndpoint::listen(&switch.port, &switch.directory, &ports);
    let endpoint = switch.attached(attached)?;
    let _published = switch.publish("serve");
    let named: Vec<String> =
        ports.iter().map(|port| format!("{} on port {port}", services[port].as_str())).collect();
    let address = endpoint.address();
    let serves_telnet = services.values().any(|it| matches!(it, Service::Telnet(_)));
    if serves_telnet && endpoint.peer().is_unspecified() {
        return Err(Fault::usage(
            "cannot serve a terminal on an Ethernet: Telnet is for this machine only, and the kernel \
             is not the other side of the device",
        ));
    }
    for service in services.values_mut() {
        if let Service::Telnet(telnet) = service {
            telnet.host = endpoint.peer();
        }
    }
    let mut server = TcpServer::new(endpoint, services);
    switch.log().into_iter().for_each(|log| server.log_to(log));
    print_message(&format!("serve is up at {address}: {}", named.join(", ")));
    let ran = server.run(&stop, |event| {
        if !options.quiet {
            print_message(&line(event));
        }
    });
    let counts = server.endpoint().counts();
    print_message(&format!(
        "serve ends: {} connections, {} segments in, {} out, {} sent again, {} dropped as bad, \
         {} disbelieved, {} half open given up, {} stalls",
        counts.accepted,
        counts.segments_in,
        counts.segments_out,
        counts.segments_again,
        counts.bad_segments,
        counts.disbelieved,
        counts.half_open_dropped,
        counts.waits.stalls.all(),
    ));
    ran.map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

fn line(event: &ServiceEvent) -> String {
    match event {
        ServiceEvent::Answered(Answered { client, request, status, bytes }) => {
            let request: String = request.escape_debug().take(200).collect();
            format!("{client} {request}: {status}, {}", units::bytes(*bytes))
        }
        ServiceEvent::Refused { client, why } => format!("{client} is refused: {why}"),
        ServiceEvent::Ended { client, service, bytes_in, bytes_out } => format!(
            "{client} has left {service}: {} in, {} out",
            units::bytes(*bytes_in),
            units::bytes(*bytes_out)
        ),
    }
}
