//! The rows as metrics of Prometheus.

use super::rows::{End, Row, Snapshot};
use crate::metrics::{Kind, Labels, Metrics, Sums};
use weir_policy::text::printable;

/// What identifies a channel.
type Key = (&'static str, u64);

/// What was summed over the looks.
#[derive(Clone, Debug)]
pub struct Totals {
    moved_bytes: Sums<Key>,
    /// Also by the end that waited.
    waiting_s: Sums<(Key, &'static str)>,
}

impl Totals {
    /// Makes the sums of nothing.
    pub fn new() -> Totals {
        Totals { moved_bytes: Sums::new(), waiting_s: Sums::new() }
    }

    /// Adds what was seen for so long, and writes the metrics. A channel that is no more is forgotten: its inode
    /// may become another's.
    pub fn metrics(&mut self, rows: &[Row], seen: &Snapshot, window_s: f64) -> String {
        let key = |row: &Row| (row.kind, row.inode);
        let is_there = |of: &Key| seen.rows.iter().any(|row| key(row) == *of);
        self.moved_bytes.retain(is_there);
        self.waiting_s.retain(|(of, _)| is_there(of));
        for row in &seen.rows {
            if let Some(rate) = row.rate {
                self.moved_bytes.add(key(row), rate.bytes_per_s * window_s);
            }
            for (end, ends) in [("writer", &row.writers), ("reader", &row.readers)] {
                if ends.iter().all(|end| end.waits.is_some()) {
                    let waits = ends.iter().any(|end| end.waits == Some(true));
                    self.waiting_s.add((key(row), end), if waits { window_s } else { 0.0 });
                }
            }
        }
        let labels_of = |of: Key| rows.iter().find(|row| key(row) == of).map(labels);
        let mut metrics = Metrics::default();
        let fill = rows.iter().filter_map(|row| Some((labels(row), row.fill_bytes? as f64)));
        metrics.add("weir_channel_fill_bytes", Kind::Gauge, "Bytes in a pipe or channel.", fill);
        let size = rows.iter().filter_map(|row| Some((labels(row), row.capacity_bytes? as f64)));
        metrics.add("weir_channel_capacity_bytes", Kind::Gauge, "Bytes that it holds.", size);
        let full = rows.iter().filter_map(|row| Some((labels(row), f64::from(row.full?))));
        metrics.add("weir_channel_full", Kind::Gauge, "Whether a writer would have to wait.", full);
        let moved = self.moved_bytes.iter();
        let moved = moved.filter_map(|(of, bytes)| Some((labels_of(*of)?, bytes)));
        metrics.add(
            "weir_channel_bytes_total",
            Kind::Counter,
            "Bytes that passed through it, as well as that is known.",
            moved,
        );
        let waiting = self.waiting_s.iter().filter_map(|((of, end), waited_s)| {
            let mut labels = labels_of(*of)?;
            labels.push(("end", String::from(*end)));
            Some((labels, waited_s))
        });
        metrics.add(
            "weir_channel_waiting_seconds_total",
            Kind::Counter,
            "Time in which its writer or its reader waited for it, sampled at each look.",
            waiting,
        );
        let unseen = [(Labels::new(), (seen.unseen + seen.left_out) as f64)];
        metrics.add("weir_unseen_processes", Kind::Gauge, "Processes not looked at.", unseen);
        metrics.finish()
    }
}

fn labels(row: &Row) -> Labels {
    let first = |ends: &[End]| {
        // The same at each look.
        let first = ends.iter().min_by_key(|end| end.pid);
        first.map_or_else(String::new, |end| printable(&end.command))
    };
    vec![
        ("kind", row.kind.to_owned()),
        ("inode", row.inode.to_string()),
        ("name", printable(&row.name)),
        ("writer", first(&row.writers)),
        ("reader", first(&row.readers)),
    ]
}
