//! The meaning of a comparison, in words.

use super::Comparison;
use std::fmt;

/// The meaning of a comparison of times, for b.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// It takes less time: the interval lies below 1.
    Faster,
    /// It takes more time: the interval lies above 1.
    Slower,
    /// The difference does not matter: the whole interval lies inside the band. This also holds
    /// when the interval excludes 1, that is, when a difference is certain but that small.
    Equivalent,
    /// The pairs do not decide: the interval contains 1 and reaches beyond the band.
    Inconclusive,
}

impl Verdict {
    /// Judges a ratio by its 95 % interval; see [`Comparison::verdict`].
    pub(super) fn of(low: f64, high: f64, band: f64) -> Verdict {
        if low >= 1.0 / (1.0 + band) && high <= 1.0 + band {
            Verdict::Equivalent
        } else if high < 1.0 {
            Verdict::Faster
        } else if low > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Inconclusive
        }
    }

    /// Returns the verdict on a rate, of which more is faster, where `is_rate`; else the same.
    #[must_use]
    pub fn turned(self, is_rate: bool) -> Verdict {
        match self {
            Verdict::Faster if is_rate => Verdict::Slower,
            Verdict::Slower if is_rate => Verdict::Faster,
            verdict => verdict,
        }
    }
}

impl Comparison {
    /// Judges b. `band` is the difference that does not matter, 0.02 for 2 %: ratios from 1 / (1 +
    /// band) to 1 + band, symmetric between a and b. No ratio is within a band that is negative or
    /// not a number.
    ///
    /// With the 95 % interval inside the band, both one-sided tests of equivalence hold at 2.5 %,
    /// which is stricter than the usual two at 5 % (D. J. Schuirmann 1987).
    pub fn verdict(&self, band: f64) -> Verdict {
        Verdict::of(self.low, self.high, band)
    }

    /// Describes the comparison in words about b, with a verdict that may be inverted (for rates)
    /// or corrected (for many comparisons): "1.30x (1.25 to 1.36) of a: slower".
    pub fn words(&self, a: &str, verdict: Verdict) -> String {
        let (Comparison { ratio, low, high, .. }, digits) = (self, self.digits());
        format!("{ratio:.digits$}x ({low:.digits$} to {high:.digits$}) of {a}: {verdict}")
    }

    /// Describes the comparison and its verdict in a sentence, with names for the two.
    pub fn sentence<'a>(&'a self, a: &'a str, b: &'a str, band: f64) -> Sentence<'a> {
        Sentence { comparison: self, a, b, band }
    }

    /// Returns the host's resolution, if a and b were the same thing (an A/A series).
    pub fn resolution(&self) -> Resolution {
        Resolution { comparison: *self, fraction: (self.high / self.low).sqrt() - 1.0 }
    }
}

/// Formats the ratio and its interval: "0.94x (95 % interval 0.91 to 0.97, 25 pairs)".
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { ratio, low, high, pairs, .. } = self;
        let digits = self.digits();
        write!(f, "{ratio:.digits$}x (95 % interval {low:.digits$} to {high:.digits$}, ")?;
        write!(f, "{pairs} pairs)")
    }
}

impl Comparison {
    /// Returns the decimals that show the interval: at least two, a step no larger than half its
    /// width, and no end that reads 1 without being 1.
    pub fn digits(&self) -> usize {
        digits(self.low, self.high, 2)
    }
}

/// Returns the decimals, at least so many, that show an interval of ratios.
pub fn digits(low: f64, high: f64, least: usize) -> usize {
    const MOST: usize = 6;
    if low == high {
        return 3;
    }
    let shows = |digits: &usize| {
        let step = 0.1_f64.powi(*digits as i32);
        let clear = |end: f64| end == 1.0 || (end - 1.0).abs() > step / 2.0;
        step <= (high - low) / 2.0 && clear(low) && clear(high)
    };
    (least..MOST).find(shows).unwrap_or(MOST)
}

/// A comparison as a sentence: "b takes 0.94x the time of a (95 % interval 0.91 to 0.97, 25
/// pairs): faster".
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a> {
    comparison: &'a Comparison,
    a: &'a str,
    b: &'a str,
    band: f64,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sentence { comparison, a, b, band } = self;
        let Comparison { ratio, low, high, pairs, .. } = comparison;
        let digits = comparison.digits();
        let verdict = comparison.verdict(*band);
        write!(f, "{b} takes {ratio:.digits$}x the time of {a} (95 % interval {low:.digits$} ")?;
        write!(f, "to {high:.digits$}, {pairs} pairs): {verdict}")?;
        let percent = Percent(*band);
        match verdict {
            Verdict::Equivalent if comparison.holds_one() => write!(f, " (within {percent})"),
            Verdict::Equivalent => write!(f, " (within {percent}, although there is a difference)"),
            Verdict::Inconclusive => {
                write!(f, " (a difference beyond {percent} is neither shown nor ruled out)")
            }
            Verdict::Faster | Verdict::Slower => Ok(()),
        }
    }
}

/// The host's resolution from an A/A series, in which one thing is paired with itself.
#[derive(Clone, Copy, Debug)]
pub struct Resolution {
    comparison: Comparison,
    /// Half the width of the interval, 0.015 for 1.5 %: about the smallest difference that this
    /// number of pairs of such runs can show here.
    pub fraction: f64,
}

impl Resolution {
    /// Whether the interval contains 1. One valid A/A series in twenty does not; two in a row mean
    /// that the halves do not run under equal conditions.
    pub fn holds_one(&self) -> bool {
        self.comparison.holds_one()
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this host resolves {}", Percent(self.fraction))?;
        if !self.holds_one() {
            write!(f, ", but the same thing compared with itself came out as {}", self.comparison)?;
            write!(f, "; by chance that happens once in twenty: repeat before trusting it")?;
        }
        Ok(())
    }
}

/// A fraction shown as "1.5 %", with as many decimals as necessary not to read 0.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let whole = (percent - percent.round()).abs() < 1e-9;
        let digits = if whole {
            0
        } else if percent >= 0.1 {
            1
        } else {
            3
        };
        write!(f, "{percent:.digits$} %")
    }
}
