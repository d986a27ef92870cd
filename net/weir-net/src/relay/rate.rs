//! A share of packets, exact to a millionth.

use fastrand::Rng;
use std::fmt;
use std::str::FromStr;

/// A share of packets, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

/// The share of all packets, in millionths.
const WHOLE: u32 = 1_000_000;
/// Digits after the point of a percentage: a millionth is 0.0001 %.
const DECIMALS: usize = 4;

impl Share {
    /// No packet.
    pub const NEVER: Share = Share(0);
    /// Every packet.
    pub const ALWAYS: Share = Share(WHOLE);

    /// Makes a share of this many millionths; `None` above a million.
    pub fn per_million(count: u32) -> Option<Share> {
        (count <= WHOLE).then_some(Share(count))
    }

    /// Returns the share in millionths.
    pub fn millionths(self) -> u32 {
        self.0
    }

    /// Draws whether it happens this time. Takes one number, whatever the share.
    pub fn strikes(self, random: &mut Rng) -> bool {
        random.u64(..u64::from(WHOLE)) < u64::from(self.0)
    }
}

impl FromStr for Share {
    type Err = &'static str;

    /// Parses a percentage from 0% to 100% with at most four digits after the point, such as
    /// `0.1%`.
    fn from_str(text: &str) -> Result<Share, &'static str> {
        const WRONG: &str = "not a percentage; write 5%, 0.1% or 100%";
        let number = text.strip_suffix('%').ok_or(WRONG)?.trim_end();
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) {
            return Err(WRONG);
        }
        if part.len() > DECIMALS {
            return Err("finer than a millionth; the finest step is 0.0001%");
        }
        let scale = 10u32.pow(DECIMALS as u32);
        let part = format!("{part:0<DECIMALS$}").parse::<u32>().map_err(|_| WRONG)?;
        let whole = whole.parse::<u32>().ok().and_then(|whole| whole.checked_mul(scale));
        let count = whole.and_then(|whole| whole.checked_add(part));
        count.and_then(Share::per_million).ok_or("more than 100%")
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = 10u32.pow(DECIMALS as u32);
        let (whole, part) = (self.0 / scale, self.0 % scale);
        if part == 0 {
            return write!(f, "{whole}%");
        }
        let part = format!("{part:04}");
        write!(f, "{whole}.{}%", part.trim_end_matches('0'))
    }
}
