//! Why packets are dropped: a number, and a name for people and programs.

use crate::reassembly::Rejection;
use crate::wire::ipv4::Malformed;

/// The log's number of the first drop reason; failures have lower numbers.
pub const FIRST_REASON: u8 = 64;

/// Declares the reasons, so that number, name and text stay together.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// Returns its number in the log.
            pub fn number(self) -> u8 {
                FIRST_REASON + self as u8
            }

            /// Returns its name, for people and programs.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(DropReason::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// Shorter than an IP header.
    Short "short",
    /// Its version is neither 4 nor 6.
    Version "version",
    /// The length of its header is impossible.
    HeaderLength "header-length",
    /// It is shorter than its header says.
    TotalLength "total-length",
    /// The checksum of its header is wrong.
    HeaderChecksum "header-checksum",
    /// An impossible fragment.
    BadFragment "bad-fragment",
    /// Invalid options.
    BadOptions "bad-options",
    /// It has a source route (RFC 7126).
    SourceRoute "source-route",
    /// Its source is not a host's address, or is our own (RFC 1122, 3.2.1.3).
    Source "source",
    /// It is for another host.
    NotForUs "not-for-us",
    /// It is a broadcast or multicast.
    Broadcast "broadcast",
    /// A first fragment too short for the header of its protocol (RFC 1858).
    TinyFragment "tiny-fragment",
    /// It overlaps another fragment (RFC 5722), or another fragment of its datagram did.
    Overlap "overlap",
    /// An exact copy of it arrived before.
    Duplicate "duplicate-fragment",
    /// The congestion marks of its fragments contradict each other (RFC 3168, 5.3).
    Congestion "congestion-marks",
    /// It would make its datagram longer than 65,535 bytes.
    TooLong "too-long",
    /// A datagram dropped to make room for newer ones.
    Evicted "evicted",
    /// A datagram dropped because its source has too much pending.
    EvictedOfSource "evicted-of-source",
    /// A datagram whose fragments did not all arrive in time.
    Expired "reassembly-timeout",
    /// No station has its protocol.
    NoProtocol "no-protocol",
    /// No station has its port.
    NoPort "no-port",
    /// The ring of its station is full.
    StationFull "station-full",
    /// Its station is gone.
    StationGone "station-gone",
    /// An invalid message from a station, or one from a station that is not attached.
    BadMessage "bad-message",
    /// The station may not send this protocol.
    NotItsProtocol "not-its-protocol",
    /// A station wants to send to an address that is not a host's.
    Destination "destination",
    /// A station wants to send to another net, and there is no gateway.
    NoRoute "no-route",
    /// It is longer than the device takes, and must not be fragmented.
    TooBig "too-big",
    /// The device refused it.
    Device "device",
    /// It is of IP version 6, which is not supported: the kernel sends some to any device.
    Ipv6 "ipv6",
    /// Its neighbour has not told its Ethernet address, or too many packets waited for that.
    NoNeighbour "no-neighbour",
    /// A long segment that a sender on this machine has left to the device to cut, and that is
    /// neither of TCP nor of UDP.
    Segments "segments",
}

impl From<Rejection> for DropReason {
    fn from(why: Rejection) -> DropReason {
        match why {
            Rejection::Duplicate => DropReason::Duplicate,
            Rejection::Overlap | Rejection::Poisoned => DropReason::Overlap,
            Rejection::TooLong => DropReason::TooLong,
            Rejection::Tiny => DropReason::TinyFragment,
            Rejection::Ecn => DropReason::Congestion,
            Rejection::SourceBudget => DropReason::EvictedOfSource,
            Rejection::WholeBudget => DropReason::Evicted,
        }
    }
}

impl From<Malformed> for DropReason {
    fn from(why: Malformed) -> DropReason {
        match why {
            Malformed::Short => DropReason::Short,
            Malformed::Version => DropReason::Version,
            Malformed::Version6 => DropReason::Ipv6,
            Malformed::HeaderLength => DropReason::HeaderLength,
            Malformed::TotalLength => DropReason::TotalLength,
            Malformed::Checksum => DropReason::HeaderChecksum,
            Malformed::Fragment => DropReason::BadFragment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_reasons_have_one_name() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|why| why.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }
}
