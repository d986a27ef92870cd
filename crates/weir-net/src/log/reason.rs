//! Why a packet was dropped or what was wrong, as a number in the log and a word for people.

use crate::counts::{Drop, FIRST_REASON};
use std::fmt;

/// A reason: a number below 128. Those that have a name are listed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(u8);

macro_rules! reasons {
    ($($number:literal $name:ident $words:literal $explained:literal)*) => {
        impl Reason {
            $(#[doc = $explained] pub const $name: Reason = Reason($number);)*

            /// All that have a name, in the order of their numbers.
            pub const NAMED: &[(Reason, &str)] = &[$((Reason($number), $words)),*];
        }
    };
}

reasons! {
    1 TOO_SHORT "too short" "Shorter than the header it must have."
    2 VERSION "not version 4" "The version of its IP header is not 4."
    3 HEADER_LENGTH "bad header length" "The length of its header is impossible."
    4 TOTAL_LENGTH "bad total length" "Its total length does not fit what came."
    5 HEADER_CHECKSUM "bad header checksum" "The checksum of its IP header is wrong."
    6 OPTIONS "bad options" "Its IP options cannot be read."
    7 SOURCE "bad source" "No host may send from this address (RFC 1122, 3.2.1.3)."
    8 TARGET "not for this host" "It is addressed to somebody else."
    9 NO_STATION "no station" "Nobody has attached for its protocol and port."
    10 STATION_FULL "station full" "Its station does not take packets as fast as they come."
    11 STATION_GONE "station gone" "Its station died before it took the packet."
    12 NOT_YOURS "source is not the station's" "A station sent from what it has not attached."
    13 TOO_LONG "too long" "Longer than can be sent, and not to be fragmented."
    14 DEVICE "device refused" "The device did not take it; see the value, an errno."
    15 OVERLAP "overlapping fragments" "Fragments overlap: the datagram is given up (RFC 5722)."
    16 TINY_FRAGMENT "tiny fragment" "A fragment that splits a header (RFC 1858)."
    17 FRAGMENT_LENGTH "bad fragment" "A fragment of an impossible length or place."
    18 REASSEMBLY_TIME "reassembly timed out" "Fragments were missing for too long (RFC 1122, 3.3.2)."
    19 REASSEMBLY_ROOM "reassembly full" "Its fragments gave way to others."
    20 CHECKSUM "bad checksum" "The checksum of its protocol is wrong."
    21 MALFORMED "malformed" "What its protocol says is impossible."
    22 UNKNOWN_TYPE "unknown type" "A type of message that is not known."
    23 RATE "rate limit" "An answer that was not sent, since too many were."
    24 TTL "time to live over" "Its time to live is over."
    25 UNREACHABLE "unreachable" "It was reported that it could not be delivered."
    26 TIME_EXCEEDED "time exceeded" "It was reported that it was too long under way."
    27 PARAMETER "parameter problem" "It was reported that its header is wrong."
    28 SYSTEM "system error" "A call of the system failed; see the value, an errno."
    29 PEER "bad request" "A station or the switch said what cannot be."
}

impl Reason {
    /// The reason of a number; of those from 128 on only the low 7 bits count.
    pub const fn new(number: u8) -> Reason {
        Reason(number & 127)
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        let named = Reason::NAMED.iter().find(|(reason, _)| *reason == self);
        let dropped =
            || Some(Drop::ALL.get(usize::from(self.0.checked_sub(FIRST_REASON)?))?.as_str());
        named.map(|(_, name)| *name).or_else(dropped)
    }
}

impl fmt::Display for Reason {
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
        for pair in Reason::NAMED.windows(2) {
            assert!(pair[0].0.number() < pair[1].0.number());
        }
        let mut names: Vec<&str> = Reason::NAMED.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::NAMED.len());
        assert!(Reason::NAMED.iter().all(|(reason, _)| reason.number() < 128));
        assert_eq!(Reason::new(127).to_string(), "reason 127");
        assert_eq!(Reason::new(0x80 | 9), Reason::NO_STATION);
    }
}
