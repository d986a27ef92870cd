//! Metrics in the text format of Prometheus, and the sums that their counters need.

use std::collections::BTreeMap;

/// The most sums that are kept: names are others' to choose.
const MOST_SUMS: usize = 4096;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows while weir runs.
    Counter,
    /// The state at the last look.
    Gauge,
}

/// The labels of a sample, each with its value.
pub type Labels = Vec<(&'static str, String)>;

/// Metrics, as text.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    text: String,
}

impl Metrics {
    /// Adds a metric with its samples; nothing where there are none.
    pub fn add(
        &mut self,
        name: &str,
        kind: Kind,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in samples {
            let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
            let labels = labels.iter().map(label).collect::<Vec<_>>().join(",");
            let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
            self.text += &format!("{name}{braced} {value}\n");
        }
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Sums over all looks so far, by a key.
#[derive(Clone, Debug)]
pub struct Sums<K>(BTreeMap<K, f64>);

impl<K: Ord + Clone> Sums<K> {
    /// Makes sums of nothing.
    pub fn new() -> Sums<K> {
        Sums(BTreeMap::new())
    }

    /// Adds to a sum. Beyond a number of keys, new ones are left out.
    pub fn add(&mut self, key: K, value: f64) {
        if self.0.len() < MOST_SUMS || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += value;
        }
    }

    /// Forgets the sums of keys that are no more.
    pub fn retain(&mut self, is_there: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| is_there(key));
    }

    /// Iterates over the sums.
    pub fn iter(&self) -> impl Iterator<Item = (&K, f64)> {
        self.0.iter().map(|(key, value)| (key, *value))
    }
}

/// The value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_their_labels_and_escapes() {
        let mut metrics = Metrics::default();
        metrics.add("weir_none", Kind::Gauge, "Nothing.", []);
        let samples = [(vec![("program", "a\"b\\c\nd".into()), ("state", "cpu".into())], 1.5)];
        metrics.add("weir_seconds_total", Kind::Counter, "Time.", samples);
        metrics.add("weir_stuck", Kind::Gauge, "Whether.", [(Vec::new(), 0.0)]);
        let text = "# HELP weir_seconds_total Time.\n# TYPE weir_seconds_total counter\n\
                    weir_seconds_total{program=\"a\\\"b\\\\c\\nd\",state=\"cpu\"} 1.5\n\
                    # HELP weir_stuck Whether.\n# TYPE weir_stuck gauge\nweir_stuck 0\n";
        assert_eq!(metrics.finish(), text);
    }

    #[test]
    fn sums_grow_and_are_bounded() {
        let mut sums = Sums::new();
        (0..2 * MOST_SUMS).for_each(|key| sums.add(key, 1.0));
        sums.add(0, 2.0);
        assert_eq!((sums.iter().count(), sums.iter().next()), (MOST_SUMS, Some((&0, 3.0))));
        sums.retain(|key| *key == 0);
        assert_eq!(sums.iter().count(), 1);
    }
}
