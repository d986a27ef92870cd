//! The state of the host beside a run: before it began and while it continued.
//!
//! A figure of a busy host describes that host in that state, and must say so.

use super::record::HostState;
use weir_measure::host_cpu::{HostCpu, HostUse, frequency_hz};

/// A watch on the host from its beginning on.
#[derive(Debug)]
pub struct HostWatch {
    cpus: Vec<usize>,
    begun: Option<HostCpu>,
    frequencies_hz: Vec<f64>,
}

impl HostWatch {
    /// Begins to watch these CPUs.
    pub fn begin(cpus: &[usize]) -> HostWatch {
        let mut watch = HostWatch {
            cpus: cpus.to_vec(),
            begun: HostCpu::read(cpus),
            frequencies_hz: Vec::new(),
        };
        watch.sample();
        watch
    }

    /// Samples values that only the moment shows.
    pub fn sample(&mut self) {
        self.frequencies_hz.extend(frequency_hz(&self.cpus));
    }

    /// Returns the state since it began.
    pub fn seen(&mut self) -> Option<HostUse> {
        self.sample();
        let used = HostCpu::read(&self.cpus)?.since(self.begun.as_ref()?)?;
        let count = self.frequencies_hz.len() as f64;
        let mean_hz = self.frequencies_hz.iter().sum::<f64>() / count;
        Some(HostUse { frequency_hz: Some(mean_hz).filter(|mean| mean.is_finite()), ..used })
    }
}

impl HostState {
    /// Combines the states before a run and during it.
    pub fn new(before: Option<HostUse>, during: Option<HostUse>) -> HostState {
        let text = match &during {
            Some(during) => format!("{} while it ran", during.words()),
            None => String::from("how much CPU others used while it ran is unknown"),
        };
        let busy = during.map(|during| during.is_busy());
        HostState { before, during, busy, text }
    }

    /// Describes how the states of two runs differed, if they did. `None` also where one of them
    /// has no record.
    pub fn differs(&self, other: &HostState) -> Option<String> {
        self.during.as_ref()?.differs(other.during.as_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(others_cpus: f64, steal_cpus: f64, frequency_hz: Option<f64>) -> HostUse {
        HostUse {
            wall_s: 1.0,
            cpus: 2,
            others_cpus,
            own_cpus: 0.5,
            idle_cpus: 1.5 - others_cpus,
            steal_cpus,
            throttled_cpus: 0.0,
            cpu_pressure_share: None,
            frequency_hz,
        }
    }

    fn state(seen: HostUse) -> HostState {
        HostState::new(None, Some(seen))
    }

    #[test]
    fn a_busy_host_is_named_so() {
        let busy = state(seen(1.1, 0.0, None));
        assert_eq!(
            (busy.busy, busy.text.as_str()),
            (Some(true), "others used 1.1 of 2 CPUs while it ran")
        );
        assert_eq!(state(seen(0.1, 0.0, None)).busy, Some(false));
        let robbed = state(seen(0.1, 0.3, None));
        assert_eq!(robbed.text, "others used 0.1 of 2 CPUs, the hypervisor took 0.3 while it ran");
        assert_eq!(robbed.busy, Some(true));
        let throttled = HostUse { throttled_cpus: 0.5, ..seen(0.1, 0.0, None) };
        let state_of = state(throttled);
        assert_eq!(state_of.text, "others used 0.1 of 2 CPUs, a CPU quota took 0.5 while it ran");
        assert_eq!(state_of.busy, Some(true));
        assert_eq!(HostState::new(None, None).busy, None);
    }

    #[test]
    fn states_differ_by_more_than_a_tenth() {
        let quiet = state(seen(0.1, 0.0, Some(3e9)));
        assert_eq!(quiet.differs(&state(seen(0.25, 0.0, Some(3.1e9)))), None);
        let apart = |other: HostUse| quiet.differs(&state(other));
        assert_eq!(
            apart(seen(1.1, 0.0, None)).as_deref(),
            Some("others used 0.1 against 1.1 CPUs")
        );
        assert!(apart(seen(0.1, 0.2, None)).is_some_and(|text| text.contains("hypervisor")));
        let throttled = HostUse { throttled_cpus: 0.3, ..seen(0.1, 0.0, None) };
        assert!(apart(throttled).is_some_and(|text| text.contains("quota")));
        assert!(apart(seen(0.1, 0.0, Some(2e9))).is_some_and(|text| text.contains("GHz")));
        assert_eq!(quiet.differs(&HostState::default()), None);
    }

    #[test]
    fn watching_sees_something() {
        let mut watch = HostWatch::begin(&[]);
        // sleep: counters of the kernel move in ticks.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let seen = watch.seen().expect("/proc/stat is there");
        assert!(seen.cpus > 0 && seen.wall_s > 0.02, "{seen:?}");
        assert!(seen.others_cpus <= seen.cpus as f64 && seen.idle_cpus <= seen.cpus as f64);
    }
}
