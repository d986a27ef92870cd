//! Watched programs as metrics of Prometheus.

use crate::metrics::{Kind, Labels, Metrics, Sums};
use weir_command::json::seconds;
use weir_doctor::facts::{Io, Run};
use weir_policy::text::printable;

/// What was summed over the reports, by program.
#[derive(Clone, Debug)]
pub struct Totals {
    watched_s: f64,
    /// Also by state.
    spent_s: Sums<(String, &'static str)>,
    read_bytes: Sums<String>,
    written_bytes: Sums<String>,
}

impl Totals {
    /// Makes the sums of nothing.
    pub fn new() -> Totals {
        let (read_bytes, written_bytes) = (Sums::new(), Sums::new());
        Totals { watched_s: 0.0, spent_s: Sums::new(), read_bytes, written_bytes }
    }

    /// Adds the run of one report, and writes the metrics.
    pub fn metrics(&mut self, run: &Run) -> String {
        self.watched_s += seconds(run.wall_ns);
        for stage in &run.stages {
            let program = printable(&stage.program);
            let times = &stage.times;
            let parts = [
                ("cpu", times.cpu_ns),
                ("runq", times.queue_ns),
                ("in", times.input_ns),
                ("out", times.output_ns),
                ("other", times.other_ns()),
            ];
            for (state, ns) in parts {
                self.spent_s.add((program.clone(), state), seconds(ns));
            }
            if let Some(Io { read_bytes, write_bytes, .. }) = stage.io {
                self.read_bytes.add(program.clone(), read_bytes as f64);
                self.written_bytes.add(program, write_bytes as f64);
            }
        }
        let watched = run.watched.as_ref();
        let mut metrics = Metrics::default();
        let mut add = |name: &str, kind, help: &str, samples: Vec<(Labels, f64)>| {
            metrics.add(name, kind, help, samples);
        };
        let own = |value| vec![(Labels::new(), value)];
        add("weir_watched_seconds_total", Kind::Counter, "Time of watching.", own(self.watched_s));
        let spent = self.spent_s.iter().map(|((program, state), spent_s)| {
            (vec![("program", program.clone()), ("state", String::from(*state))], spent_s)
        });
        add(
            "weir_program_seconds_total",
            Kind::Counter,
            "Time of the processes of a program by state: on a CPU, ready, waiting for input, for \
             output, for something else.",
            spent.collect(),
        );
        let of = |sums: &Sums<String>| -> Vec<(Labels, f64)> {
            sums.iter().map(|(program, sum)| (vec![("program", program.clone())], sum)).collect()
        };
        let (read, written) = (of(&self.read_bytes), of(&self.written_bytes));
        add("weir_program_read_bytes_total", Kind::Counter, "Bytes that it read.", read);
        add("weir_program_written_bytes_total", Kind::Counter, "Bytes that it wrote.", written);
        let stuck = watched.is_some_and(|watched| watched.is_stuck);
        let help = "Whether nothing moved and nothing computed in the last report.";
        add("weir_watch_stuck", Kind::Gauge, help, own(f64::from(stuck)));
        metrics.finish()
    }
}
