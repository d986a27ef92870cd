//! `weir net stat`: what a switch has counted.

use super::{device, failed, not_attached, switch_of};
use crate::args::NetStatOptions;
use crate::fault::Fault;
use crate::output::{print, print_json};
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;
use weir_net::station::Station;

/// Carries out the verb.
pub fn stat(options: &NetStatOptions) -> Result<ExitCode, Fault> {
    let tun = device(options.tun.as_deref())?;
    let (switch, directory) = switch_of(&tun)?;
    let attached = Station::attach(&switch, &directory, &[]);
    let mut station = attached.map_err(|error| not_attached(&tun, error))?;
    let text = station.statistics().map_err(failed)?;
    let mut stat = serde_json::from_str(&text).map_err(|error| {
        Fault::failed(format!("cannot understand the switch of '{tun}': {error}"))
    })?;
    leave_out_this_process(&mut stat);
    match options.json {
        true => print_json(&format!("{stat}\n"))?,
        false => print(&table(&stat))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Who asks is attached for that only.
fn leave_out_this_process(stat: &mut Value) {
    if let Some(stations) = stat["stations"].as_array_mut() {
        let own = u64::from(std::process::id());
        stations.retain(|station| station["pid"].as_u64() != Some(own));
    }
}

/// As people read it.
fn table(stat: &Value) -> String {
    let number = |name: &str| stat[name].as_u64().unwrap_or(0);
    let text = |name: &str| stat[name].as_str().unwrap_or("?");
    let mut out = String::new();
    let mut line = |what: &str, said: String| {
        let _ = writeln!(out, "{what:<14}{said}");
    };
    let (address, bits) = (text("address"), number("prefix_bits"));
    let device = format!(
        "{}: {address}/{bits}, the kernel is {}, MTU {}, process {}",
        text("device"),
        text("peer"),
        number("mtu"),
        number("pid"),
    );
    line("switch", device);
    let (packets, bytes) = (number("received"), number("received_bytes"));
    line("received", format!("{packets} packets, {bytes} bytes"));
    let put_together = number("reassembled");
    line("delivered", format!("{} datagrams, {put_together} reassembled", number("delivered")));
    let (sent, packets, bytes) = (number("sent"), number("sent_packets"), number("sent_bytes"));
    line("sent", format!("{sent} datagrams in {packets} packets, {bytes} bytes"));
    let waiting = &stat["reassembly"];
    let datagrams = waiting["waiting"].as_u64().unwrap_or(0);
    let held_bytes = waiting["waiting_bytes"].as_u64().unwrap_or(0);
    line("waiting", format!("{datagrams} datagrams for fragments, {held_bytes} bytes"));
    let drops = stat["drops"].as_object().into_iter().flatten();
    // The kernel's own, on any device, says nothing of what goes wrong.
    let (ipv6, drops): (Vec<_>, Vec<_>) = drops.partition(|(why, _)| *why == "ipv6");
    let drops: Vec<String> = drops.iter().map(|(why, count)| format!("{why} {count}")).collect();
    line("dropped", if drops.is_empty() { String::from("nothing") } else { drops.join(", ") });
    for (_, count) in ipv6 {
        line("IPv6", format!("{count} packets dropped: not supported"));
    }
    let icmp = stat["icmp"].as_object().into_iter().flatten();
    let icmp: Vec<String> = icmp.map(|(what, count)| format!("{what} {count}")).collect();
    if !icmp.is_empty() {
        line("icmp", icmp.join(", "));
    }
    if stat["inline"].as_bool() == Some(true) {
        line("station", String::from("ICMP in the switch itself"));
    }
    for station in stat["stations"].as_array().into_iter().flatten() {
        let wants = station["wants"].as_array().into_iter().flatten();
        let wants: Vec<String> = wants
            .map(|want| match want["port"].as_u64() {
                Some(port) => format!("{} port {port}", protocol(&want["protocol"])),
                None => protocol(&want["protocol"]),
            })
            .collect();
        let (delivered, full) = (&station["delivered"], &station["full"]);
        let wants = if wants.is_empty() { String::from("nothing") } else { wants.join(", ") };
        let said = format!(
            "process {} takes {wants}: {delivered} datagrams, {full} more did not fit",
            station["pid"]
        );
        line("station", said);
    }
    let (taken, refused) = (number("redirects"), number("redirects_refused"));
    line("redirects", format!("{taken} taken, {refused} refused"));
    for known in stat["gateways"].as_array().into_iter().flatten() {
        let said = format!(
            "to {} by {}, {} s more",
            known["destination"].as_str().unwrap_or("?"),
            known["gateway"].as_str().unwrap_or("?"),
            known["left_s"]
        );
        line("gateway", said);
    }
    out
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
