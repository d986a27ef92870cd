//! How long a call waits.

use crate::errors;
use pyo3::PyResult;
use rustix::thread::futex::Timespec;
use std::time::{Duration, Instant};

/// The longest sleep between two looks at signals, which Python handles in its main thread only.
pub const SLICE: Duration = Duration::from_millis(100);

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Instant>);

impl Until {
    /// A wait of so many seconds from now; of `None`, without an end.
    pub fn new(seconds: Option<f64>) -> PyResult<Until> {
        let Some(seconds) = seconds else { return Ok(Until(None)) };
        if seconds.is_nan() {
            return Err(errors::invalid("a timeout that is not a number".into()));
        }
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        Ok(Until(Instant::now().checked_add(time)))
    }

    /// The time that is left; `None` for ever.
    pub fn left(self) -> Option<Duration> {
        self.0.map(|then| then.saturating_duration_since(Instant::now()))
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// A time as the kernel takes it.
pub fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
