//! How long a call waits.

use std::time::{Duration, Instant};

/// How long a call waits.
///
/// A call that may wait comes in two forms: `x(..)` waits as long as it takes, and
/// `x_timeout(.., timeout)` takes anything that converts into a `Timeout`: a [`Duration`], an
/// [`Instant`], an `Option<Duration>` (`None` waits for ever), or a variant of this type.
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
#[non_exhaustive]
pub enum Timeout {
    /// Waits as long as it takes.
    #[default]
    Never,
    /// Does not wait: a call that would have to wait fails with
    /// [`ErrorKind::WouldBlock`](crate::ErrorKind::WouldBlock).
    Now,
    /// Waits for this long, counted from the call. A duration too long to be added to the current
    /// [`Instant`] is [`Timeout::Never`].
    After(Duration),
    /// Waits until this instant.
    At(Instant),
}

impl Timeout {
    /// Fixes the end of the wait. A duration counts from now.
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

/// The end of a wait: a [`Timeout`] of a call that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// It is over.
    Now,
    /// It never is.
    Ever,
    /// It is over at this moment.
    Then(Instant),
}

impl Until {
    /// The end of a wait of this time that begins now.
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

    /// The rest of the wait as a timeout, for a call of another end.
    pub fn timeout(self) -> Timeout {
        match self {
            Until::Now => Timeout::Now,
            Until::Ever => Timeout::Never,
            Until::Then(then) => Timeout::At(then),
        }
    }

    /// The end of a timeout that begins now.
    pub fn starting(timeout: Timeout) -> Until {
        timeout.start()
    }

    /// Whether it is over.
    pub fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}
