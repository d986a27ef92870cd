//! Reasons of drops and failures: a number in the log, and a name for people.

use crate::drop_reason::{DropReason, FIRST_REASON};
use std::fmt;

/// The reason of a drop or a failure: a number below 128. Failures are listed here; numbers from
/// [`FIRST_REASON`] on are the reasons why the switch drops packets ([`DropReason`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventReason(u8);

macro_rules! reasons {
    ($($number:literal $name:ident $words:literal $explained:literal)*) => {
        impl EventReason {
            $(#[doc = $explained] pub const $name: EventReason = EventReason($number);)*

            /// All reasons that have a name, in the order of their numbers.
            pub const NAMED: &[(EventReason, &str)] = &[$((EventReason($number), $words)),*];
        }
    };
}

reasons! {
    1 CHECKSUM "bad checksum" "The checksum of its protocol is wrong."
    2 MALFORMED "malformed" "What its protocol says is impossible."
    3 UNKNOWN_TYPE "unknown type" "A type of message that is not known."
    4 RATE "rate limit" "An answer that was not sent, since too many were."
    5 UNREACHABLE "unreachable" "It was reported that it could not be delivered."
    6 TIME_EXCEEDED "time exceeded" "It was reported that it was too long under way."
    7 PARAMETER "parameter problem" "It was reported that its header is wrong."
    8 SYSTEM "system error" "A call of the system failed; see the value, an errno."
    9 PEER "bad request" "A station or the switch said what cannot be."
    10 TRANSFER "transfer failed" "A transfer of a file was refused, or did not come to its end."
}

impl EventReason {
    /// Returns the reason with this number; only its low 7 bits count.
    pub const fn new(number: u8) -> EventReason {
        EventReason(number & 127)
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        let named = EventReason::NAMED.iter().find(|(reason, _)| *reason == self);
        let dropped =
            || Some(DropReason::ALL.get(usize::from(self.0.checked_sub(FIRST_REASON)?))?.as_str());
        named.map(|(_, name)| *name).or_else(dropped)
    }
}

impl From<DropReason> for EventReason {
    fn from(why: DropReason) -> EventReason {
        EventReason::new(why.number())
    }
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "reason {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_names_differ() {
        for pair in EventReason::NAMED.windows(2) {
            assert!(pair[0].0.number() < pair[1].0.number());
        }
        let mut names: Vec<&str> = EventReason::NAMED.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), EventReason::NAMED.len());
        assert!(EventReason::NAMED.iter().all(|(reason, _)| reason.number() < 128));
        assert_eq!(EventReason::new(127).to_string(), "reason 127");
        assert_eq!(EventReason::new(0x80 | 9), EventReason::PEER);
        assert_eq!(EventReason::from(DropReason::Overlap).to_string(), "overlap");
    }
}
