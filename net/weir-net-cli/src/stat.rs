//! `weir net stat`: shows the counters of a switch.

use super::switch::NamedSwitch;
use super::tftp_list;
use crate::args::NetStatOptions;
use crate::failed;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;
use weir_command::fault::Fault;
use weir_command::json;
use weir_command::output::Outlet;
use weir_command::units::seconds;
use weir_net::icmp::IcmpCounts;
use weir_net::station::{STATISTICS_SCHEMA, Station};

/// Most protocols and ports of a station that are named.
const MOST_WANTS: usize = 4;

pub fn stat(options: &NetStatOptions) -> Result<ExitCode, Fault> {
    let mut outlet = Outlet::open(&options.json)?;
    let switch = NamedSwitch::find(options.tun.as_deref())?;
    let attached = Station::attach(&switch.port, &switch.directory, &[]);
    let mut station = switch.attached(attached)?;
    let text = station.statistics().map_err(failed)?;
    let tun = &switch.tun;
    let mut body = understood(&text).ok_or_else(|| {
        let why = format!("its answer is not of schema {STATISTICS_SCHEMA}");
        Fault::failed(format!("cannot understand the switch of '{tun}': {why}"))
    })?;
    leave_out_askers(&mut body);
    body["transfers"] = tftp_list::behind(tun).into();
    outlet.write_report(STATISTICS_SCHEMA, || named(&body), || table(&body))?;
    Ok(ExitCode::SUCCESS)
}

/// The answer of the switch, without the keys with which a document begins.
fn understood(text: &str) -> Option<Value> {
    let mut said: Value = serde_json::from_str(text).ok()?;
    let object = said.as_object_mut()?;
    object.shift_remove("weir_version");
    (object.shift_remove("schema")? == STATISTICS_SCHEMA).then_some(said)
}

/// The answer with the names of the stations' processes.
fn named(said: &Value) -> Value {
    let mut said = said.clone();
    for station in said["stations"].as_array_mut().into_iter().flatten() {
        let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
        let pid = number(&station["pid"]).unwrap_or(0);
        let uid = station["uid"].as_u64().and_then(|uid| u32::try_from(uid).ok());
        let mut more = station.take();
        for name in ["pid", "uid"] {
            more.as_object_mut().and_then(|more| more.shift_remove(name));
        }
        *station = json::process(pid, uid, more);
    }
    said
}

/// Removes the stations that want nothing: they are attached only to ask, as this process is. It may
/// have another number there.
fn leave_out_askers(stat: &mut Value) {
    if let Some(stations) = stat["stations"].as_array_mut() {
        stations.retain(|station| station["wants"].as_array().is_none_or(|it| !it.is_empty()));
    }
}

/// The answer as text.
fn table(stat: &Value) -> String {
    let number = |name: &str| stat[name].as_u64().unwrap_or(0);
    let text = |name: &str| stat[name].as_str().unwrap_or("?");
    let mut out = String::new();
    let mut line = |what: &str, said: String| {
        let _ = writeln!(out, "{what:<14}{said}");
    };
    let (address, bits) = (text("address"), number("prefix_bits"));
    let beside = match stat["peer"].as_str() {
        Some(peer) => format!("the kernel is {peer}"),
        None => format!("at {}", stat["ethernet"]["at"].as_str().unwrap_or("?")),
    };
    let device = format!(
        "{}: {address}/{bits}, {beside}, MTU {}, process {}",
        text("device"),
        number("mtu"),
        number("pid"),
    );
    line("switch", device);
    let (packets, bytes) = (number("packets_in"), number("bytes_in"));
    line("received", format!("{packets} packets, {bytes} bytes"));
    let put_together = number("datagrams_reassembled");
    line(
        "delivered",
        format!("{} datagrams, {put_together} reassembled", number("datagrams_delivered")),
    );
    let (sent, packets, bytes) =
        (number("datagrams_sent"), number("packets_out"), number("bytes_out"));
    line("sent", format!("{sent} datagrams in {packets} packets, {bytes} bytes"));
    let waiting = &stat["reassembly"];
    let datagrams = waiting["datagrams"].as_u64().unwrap_or(0);
    let held_bytes = waiting["held_bytes"].as_u64().unwrap_or(0);
    line("waiting", format!("{datagrams} datagrams for fragments, {held_bytes} bytes"));
    let drops = stat["drops"].as_object().into_iter().flatten();
    // The kernel sends IPv6 by itself on any device, so these drops are not a sign of a fault.
    let (ipv6, drops): (Vec<_>, Vec<_>) = drops.partition(|(why, _)| *why == "ipv6");
    let drops: Vec<String> =
        drops.iter().map(|(why, count)| format!("{} {count}", why.replace('_', "-"))).collect();
    line("dropped", if drops.is_empty() { String::from("nothing") } else { drops.join(", ") });
    for (_, count) in ipv6 {
        line("IPv6", format!("{count} packets dropped: not supported"));
    }
    let icmp = stat["icmp"].as_object().into_iter().flatten();
    let name =
        |key: &str| IcmpCounts::default().each().find(|each| each.0 == key).map(|each| each.1);
    let icmp: Vec<String> =
        icmp.map(|(key, count)| format!("{} {count}", name(key).unwrap_or(key))).collect();
    if !icmp.is_empty() {
        line("icmp", icmp.join(", "));
    }
    if stat["inline"].as_bool() == Some(true) {
        line("station", String::from("ICMP in the switch itself"));
    }
    for station in stat["stations"].as_array().into_iter().flatten() {
        line("station", station_text(station));
        for connection in station["connections"].as_array().into_iter().flatten() {
            line("connection", connection_text(connection));
        }
    }
    for row in stat["transfers"].as_array().into_iter().flatten() {
        line("transfer", tftp_list::line(row));
    }
    put_neighbours(&mut line, &stat["ethernet"]);
    put_routes(&mut line, stat);
    out
}

/// What there is more on an Ethernet.
fn put_neighbours(line: &mut impl FnMut(&str, String), ethernet: &Value) {
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or(0);
    let Some(neighbours) = ethernet["neighbours"].as_array() else { return };
    let said = format!(
        "{} messages, {} answered, {} questions asked, {} disbelieved",
        number(ethernet, "messages_in"),
        number(ethernet, "answers_out"),
        number(ethernet, "questions_out"),
        number(ethernet, "disbelieved"),
    );
    line("ARP", said);
    let conflicts = number(ethernet, "conflicts");
    if conflicts > 0 {
        line("conflict", format!("{conflicts} messages of others claim this host's address"));
    }
    for it in neighbours {
        let address = it["address"].as_str().unwrap_or("?");
        let said = match it["at"].as_str() {
            Some(at) => format!("{address} at {at}, for another {} s", number(it, "left_s")),
            None => format!(
                "{address} has not answered, {} packets wait",
                number(it, "packets_waiting")
            ),
        };
        line("neighbour", said);
    }
}

/// The routes that were learnt.
fn put_routes(line: &mut impl FnMut(&str, String), stat: &Value) {
    let number = |name: &str| stat[name].as_u64().unwrap_or(0);
    let (taken, refused) = (number("redirects_taken"), number("redirects_refused"));
    line("redirects", format!("{taken} accepted, {refused} refused"));
    for known in stat["gateways"].as_array().into_iter().flatten() {
        let said = format!(
            "to {} through {}, for another {} s",
            known["destination"].as_str().unwrap_or("?"),
            known["gateway"].as_str().unwrap_or("?"),
            known["left_s"]
        );
        line("gateway", said);
    }
    let announced = stat["announced"].as_array().map(Vec::as_slice).unwrap_or_default();
    for route in announced {
        let said = format!(
            "to the net {} through {}, distance {} from there, for another {} s",
            route["network"].as_str().unwrap_or("?"),
            route["gateway"].as_str().unwrap_or("?"),
            route["distance"],
            route["left_s"]
        );
        line("announced", said);
    }
    let further = number("announced_networks").saturating_sub(announced.len() as u64);
    if further > 0 {
        line("announced", format!("{further} further nets"));
    }
}

fn station_text(station: &Value) -> String {
    let all: Vec<&Value> = station["wants"].as_array().into_iter().flatten().collect();
    let mut wants: Vec<String> = all
        .iter()
        .take(MOST_WANTS)
        .map(|want| match want["port"].as_u64() {
            Some(port) => format!("{} port {port}", protocol(&want["protocol"])),
            None => protocol(&want["protocol"]),
        })
        .collect();
    if all.len() > MOST_WANTS {
        wants.push(format!("{} further ports", all.len() - MOST_WANTS));
    }
    let (delivered, full) = (&station["datagrams_delivered"], &station["datagrams_refused"]);
    let wants = if wants.is_empty() { String::from("nothing") } else { wants.join(", ") };
    let figures = station["figures"].as_object().into_iter().flatten();
    let figures: Vec<String> = figures
        .filter(|(_, figure)| figure.as_u64() != Some(0))
        .map(|(name, figure)| match name.strip_suffix("_ns") {
            Some(name) => format!("{name} {}", seconds(figure.as_u64().unwrap_or(0))),
            None => format!("{name} {figure}"),
        })
        .map(|figure| figure.replace('_', " "))
        .collect();
    let service = station["service"].as_str().map_or(String::new(), |service| {
        format!(
            "; {service}: {}",
            if figures.is_empty() { "nothing yet".into() } else { figures.join(", ") }
        )
    });
    format!(
        "process {} receives {wants}: {delivered} datagrams delivered, {full} lost (ring full){service}",
        station["pid"]
    )
}

fn connection_text(connection: &Value) -> String {
    let waits_for = connection["waits_for"].as_str().unwrap_or("nobody");
    format!(
        "{} on port {}: windows {} here, {} there, {} on the way, {} segments sent again, waits for \
         {waits_for}",
        connection["remote"].as_str().unwrap_or("?"),
        connection["local_port"],
        connection["own_window_bytes"],
        connection["other_window_bytes"],
        connection["flight_bytes"],
        connection["segments_again"],
    )
}

fn protocol(number: &Value) -> String {
    match number.as_u64() {
        Some(1) => String::from("ICMP"),
        Some(3) => String::from("GGP"),
        Some(6) => String::from("TCP"),
        Some(17) => String::from("UDP"),
        _ => format!("protocol {number}"),
    }
}
