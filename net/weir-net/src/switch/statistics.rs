//! The counters of the switch, for people and programs: `weir.net.stat/1`.

use super::stations::AttachedStation;
use super::{SwitchState, now_ns};
use crate::arp::{ArpCounts, ArpTable};
use crate::station::STATISTICS_SCHEMA;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most announced nets that are named; the others are only counted.
const MOST_ANNOUNCED: usize = 64;

impl SwitchState {
    /// Returns the counters as JSON.
    pub fn statistics(&self) -> String {
        let counts = &self.journal().counts;
        // Relaxed: each count is independent.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let incoming = self.lock();
        let drops: Map<String, Value> =
            counts.drops().map(|(why, number)| (key(why.as_str()), json!(number))).collect();
        let stations: Vec<Value> = incoming.stations.iter().map(station).collect();
        let reassembly = &incoming.reassembly;
        let (waiting, held_bytes) = (reassembly.waiting(), reassembly.held_bytes());
        let icmp = incoming.icmp_counts().filter(|(_, number)| *number > 0);
        let icmp: Map<_, _> = icmp.map(|(name, number)| (name.to_owned(), json!(number))).collect();
        drop(incoming);
        let now_ns = now_ns();
        let gateways: Vec<Value> = self
            .transmitter
            .routes()
            .remembered(now_ns)
            .map(|known| {
                let left_s = (known.until_ns - now_ns) / 1_000_000_000;
                let (destination, gateway) = (known.destination, known.gateway);
                json!({ "destination": destination, "gateway": gateway, "left_s": left_s })
            })
            .collect();
        let announced = self.transmitter.routes().announced(now_ns);
        let settings = &self.settings;
        let text = json!({
            "schema": STATISTICS_SCHEMA,
            "weir_version": env!("CARGO_PKG_VERSION"),
            "device": settings.device,
            "pid": std::process::id(),
            "address": settings.address,
            "prefix_bits": settings.prefix_bits,
            "peer": settings.peer,
            "mtu": settings.mtu,
            "ethernet": self.transmitter.arp().map(|arp| ethernet(&arp, now_ns)),
            "vnet_header": self.transmitter.device.has_header(),
            "inline": settings.inline.is_some(),
            "division": settings.division.as_str(),
            "packets_in": count(&counts.received),
            "bytes_in": count(&counts.received_bytes),
            "datagrams_reassembled": count(&counts.reassembled),
            "datagrams_delivered": count(&counts.delivered),
            "datagrams_sent": count(&counts.sent),
            "packets_out": count(&counts.sent_packets),
            "bytes_out": count(&counts.sent_bytes),
            "redirects_taken": count(&counts.redirects),
            "redirects_refused": count(&counts.redirects_refused),
            "reassembly": { "datagrams": waiting, "held_bytes": held_bytes },
            "icmp": icmp,
            "drops": drops,
            "stations": stations,
            "gateways": gateways,
            "announced_networks": announced.len(),
            "announced": announced.iter().take(MOST_ANNOUNCED).map(|it| json!({
                "network": it.network.address(),
                "gateway": it.gateway,
                "distance": it.distance,
                "left_s": (it.until_ns - now_ns) / 1_000_000_000,
            })).collect::<Vec<_>>(),
        });
        text.to_string()
    }
}

/// What an Ethernet device has more.
fn ethernet(arp: &ArpTable, now_ns: u64) -> Value {
    let ArpCounts { received, answered, asked, learned, disbelieved, conflicts } = arp.counts();
    let neighbours = arp.known(now_ns).into_iter().map(|it| {
        json!({
            "address": it.address,
            "at": it.at.map(|at| at.to_string()),
            "left_s": it.left_ns / 1_000_000_000,
            "packets_waiting": it.waiting,
        })
    });
    json!({
        "at": arp.own().to_string(),
        "messages_in": received,
        "answers_out": answered,
        "questions_out": asked,
        "answers_in": learned,
        "disbelieved": disbelieved,
        "conflicts": conflicts,
        "neighbours": neighbours.collect::<Vec<_>>(),
    })
}

/// Converts a name to a JSON key.
fn key(name: &str) -> String {
    name.replace('-', "_")
}

fn station(station: &AttachedStation) -> Value {
    let figures = station.report.map(|report| {
        let figures = report.figures().map(|(name, figure)| (name.to_owned(), json!(figure)));
        figures.collect::<Map<_, _>>()
    });
    let connections =
        station.report.map(|report| report.connections().copied().collect::<Vec<_>>());
    json!({
        "pid": station.identity.pid,
        "uid": station.identity.uid,
        "wants": station.wants,
        "datagrams_delivered": station.delivered,
        "datagrams_refused": station.full,
        "service": station.report.map(|report| report.service().as_str()),
        "figures": figures,
        "connections": connections.unwrap_or_default(),
    })
}
