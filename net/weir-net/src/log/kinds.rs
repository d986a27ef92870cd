//! The kinds of events that can be logged, and sets of them.

use crate::error::{Error, ErrorKind};
use std::fmt;
use std::str::FromStr;

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

/// Declares the kinds, so that a bit and its name stay together.
macro_rules! kinds {
    ($($bit:literal $kind:ident $name:literal $explained:literal)*) => {
        impl Kinds {
            $(#[doc = $explained] pub const $kind: Kinds = Kinds($bit);)*
            /// Every kind.
            pub const ALL: Kinds = Kinds(0 $(| $bit)*);
            /// The kinds one by one, with their names.
            pub const EACH: &[(Kinds, &'static str)] = &[$((Kinds::$kind, $name)),*];
        }
    };
}

kinds! {
    1 TRANSACTIONS "transactions" "A packet that was received or sent."
    2 ERRORS "errors" "Something that went wrong."
    4 DUMPS_IN "dumps-in" "The bytes of a packet that was received."
    8 DUMPS_OUT "dumps-out" "The bytes of a packet that was sent."
    16 DROPS "drops" "A packet that was dropped."
    32 STATIONS "stations" "A station that attached to the switch, or detached."
    64 FLOWS "flows" "A transfer or connection that began, ended, sent again or stalled."
    128 LOCAL_REQUESTS "local-requests" "A request that a daemon sends for a local program."
    256 FOREIGN_REQUESTS "foreign-requests" "A request of a host that a daemon takes."
}

impl Kinds {
    /// The empty set.
    pub const NONE: Kinds = Kinds(0);
    /// The kinds that a new log takes: all but the bytes of packets, and requests of hosts, which
    /// are packets too.
    pub const USUAL: Kinds = Kinds(1 | 2 | 16 | 32 | 64 | 128);

    /// Returns the set as bits; a kind's bit never changes.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Makes a set from bits; unknown ones are left out.
    #[inline]
    pub const fn of_bits(bits: u32) -> Kinds {
        Kinds(bits & Kinds::ALL.0)
    }

    /// Whether the two sets have a kind in common.
    #[inline]
    pub const fn has(self, other: Kinds) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the kinds of both sets.
    #[inline]
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Kinds::NONE => f.write_str("none"),
            Kinds::ALL => f.write_str("all"),
            some => {
                let names = Kinds::EACH.iter().filter(|(kind, _)| some.has(*kind));
                let names: Vec<&str> = names.map(|(_, name)| *name).collect();
                f.write_str(&names.join(","))
            }
        }
    }
}

impl FromStr for Kinds {
    type Err = Error;

    /// Parses `none`, `all`, or names separated by commas.
    fn from_str(text: &str) -> Result<Kinds, Error> {
        match text {
            "none" => return Ok(Kinds::NONE),
            "all" => return Ok(Kinds::ALL),
            _ => {}
        }
        let mut kinds = Kinds::NONE;
        for word in text.split(',').map(str::trim) {
            let found = Kinds::EACH.iter().find(|(_, name)| *name == word);
            let (kind, _) = found.ok_or_else(|| {
                let known: Vec<&str> = Kinds::EACH.iter().map(|(_, name)| *name).collect();
                let known = known.join(", ");
                let why = format!("the kinds are {known}, all and none");
                Error::new(ErrorKind::Invalid, "log", format!("kind {word:?}"), why)
            })?;
            kinds = kinds.and(*kind);
        }
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_read_as_it_is_written() {
        for bits in 0..=Kinds::ALL.bits() {
            let kinds = Kinds::of_bits(bits);
            assert_eq!(kinds.to_string().parse::<Kinds>().expect("kinds"), kinds);
        }
        assert_eq!(Kinds::of_bits(u32::MAX), Kinds::ALL);
        for wrong in ["", "drop", "drops,", "drops,all", "Drops"] {
            let refused = wrong.parse::<Kinds>().expect_err("refused");
            assert!(refused.to_string().contains("dumps-in"), "{refused}");
        }
    }
}
