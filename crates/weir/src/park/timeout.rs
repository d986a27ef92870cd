//! How long a call waits.

use std::time::{Duration, Instant};

/// How long a call waits.
///
/// A call that may wait comes in two forms: `x(..)` waits as long as it takes, and
/// `x_timeout(.., timeout)` takes whatever becomes a `Timeout`: a [`Duration`], an [`Instant`], an
/// `Option<Duration>` (`None` waits for ever), or one of these.
///
/// ```
/// use std::time::{Duration, Instant};
/// use weir::{ErrorKind, Options, Timeout};
/// let (_writer, mut reader) = weir::records(&Options::new())?;
/// let mut buffer = [0; 64];
/// let time = Duration::from_millis(1);
/// for timeout in [Timeout::from(time), (Instant::now() + time).into(), Some(time).into()] {
///     let error = reader.receive_timeout(&mut buffer, timeout).unwrap_err();
///     assert_eq!(error.kind(), ErrorKind::TimedOut);
/// }
/// let error = reader.receive_timeout(&mut buffer, Timeout::Now).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::WouldBlock);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// Waits as long as it takes.
    #[default]
    Never,
    /// Does not wait: the call fails with [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock)
    /// where it would have to.
    Now,
    /// Waits for this long, from the call on. One that is too long to be added to the time of day
    /// is [`Timeout::Never`].
    After(Duration),
    /// Waits until then.
    At(Instant),
}

impl Timeout {
    /// Fixes the end of the wait: a duration counts from now on.
    pub(crate) fn start(self) -> Until {
        match self {
            Timeout::Never => Until::Ever,
            Timeout::Now => Until::Now,
            Timeout::After(time) => Until::after(time),
            Timeout::At(then) => Until::Then(then),
        }
    }
}

impl From<Duration> for Timeout {
    fn from(time: Duration) -> Timeout {
        Timeout::After(time)
    }
}

impl From<Instant> for Timeout {
    fn from(then: Instant) -> Timeout {
        Timeout::At(then)
    }
}

impl From<Option<Duration>> for Timeout {
    fn from(time: Option<Duration>) -> Timeout {
        time.map_or(Timeout::Never, Timeout::After)
    }
}

/// Until when a call waits that has begun: a [`Timeout`] whose end is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// As long as it takes.
    Ever,
    /// Until then.
    Then(Instant),
}

impl Until {
    /// So long from now.
    pub fn after(time: Duration) -> Until {
        Instant::now().checked_add(time).map_or(Until::Ever, Until::Then)
    }

    /// The time that is left; `None` for ever.
    pub fn left(self) -> Option<Duration> {
        match self {
            Until::Now => Some(Duration::ZERO),
            Until::Ever => None,
            Until::Then(then) => Some(then.saturating_duration_since(Instant::now())),
        }
    }

    /// The time that is left, or `most` where that is less.
    pub fn at_most(self, most: impl Into<Option<Duration>>) -> Option<Duration> {
        self.left().into_iter().chain(most.into()).min()
    }

    /// What is left of it, for a call of another end.
    pub fn timeout(self) -> Timeout {
        match self {
            Until::Now => Timeout::Now,
            Until::Ever => Timeout::Never,
            Until::Then(then) => Timeout::At(then),
        }
    }

    /// Whether no time is left.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}
