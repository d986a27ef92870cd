//! What the switch has counted, for people and programs: `weir.net.stat/1`.

use super::stations::Station;
use super::{Shared, now_ns};
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

impl Shared {
    /// As JSON.
    pub fn statistics(&self) -> String {
        let counts = &self.counts;
        // Relaxed: each count stands for itself.
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut incoming = self.lock();
        incoming.count_evicted(self);
        let drops: Map<String, Value> =
            counts.drops().map(|(why, number)| (why.as_str().to_owned(), json!(number))).collect();
        let stations: Vec<Value> = incoming.stations.iter().map(station).collect();
        let (waiting, waiting_bytes) =
            (incoming.reassembly.waiting(), incoming.reassembly.held_bytes());
        let icmp: Map<String, Value> = incoming
            .icmp_counts()
            .into_iter()
            .filter(|(_, number)| *number > 0)
            .map(|(name, number)| (name.to_owned(), json!(number)))
            .collect();
        drop(incoming);
        let now_ns = now_ns();
        let gateways: Vec<Value> = self
            .routes()
            .remembered(now_ns)
            .map(|known| {
                let left_s = (known.until_ns - now_ns) / 1_000_000_000;
                json!({
                    "destination": known.destination,
                    "gateway": known.gateway,
                    "left_s": left_s,
                })
            })
            .collect();
        let settings = &self.settings;
        let text = json!({
            "schema": "weir.net.stat/1",
            "device": settings.device,
            "pid": std::process::id(),
            "address": settings.address,
            "prefix_bits": settings.prefix_bits,
            "peer": settings.peer,
            "mtu": settings.mtu,
            "vnet_header": self.tun.has_vnet_header(),
            "inline": settings.inline.is_some(),
            "received": count(&counts.received),
            "received_bytes": count(&counts.received_bytes),
            "reassembled": count(&counts.reassembled),
            "delivered": count(&counts.delivered),
            "sent": count(&counts.sent),
            "sent_packets": count(&counts.sent_packets),
            "sent_bytes": count(&counts.sent_bytes),
            "redirects": count(&counts.redirects),
            "redirects_refused": count(&counts.redirects_refused),
            "reassembly": { "waiting": waiting, "waiting_bytes": waiting_bytes },
            "icmp": icmp,
            "drops": drops,
            "stations": stations,
            "gateways": gateways,
        });
        text.to_string()
    }
}

/// A station as it is shown.
fn station(station: &Station) -> Value {
    let wants: Vec<Value> = station
        .wants
        .iter()
        .map(|want| json!({ "protocol": want.protocol, "port": want.port }))
        .collect();
    json!({
        "pid": station.identity.pid,
        "uid": station.identity.uid,
        "wants": wants,
        "delivered": station.delivered,
        "full": station.full,
    })
}
