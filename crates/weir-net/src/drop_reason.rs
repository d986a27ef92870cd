//! Why packets are dropped: a number, and a name for people and programs.

use crate::reassembly::Why;
use crate::wire::ipv4::Malformed;

/// The log's number of the first reason: below are those of other failures.
pub const FIRST_REASON: u8 = 64;

/// Declares the reasons, so that number, name and text cannot come apart.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// All of them, in the order of their numbers.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// Its number in the log.
            pub fn number(self) -> u8 {
                FIRST_REASON + self as u8
            }

            /// Its name, for people and programs.
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
    /// The length of its header cannot be.
    HeaderLength "header-length",
    /// Its length is more than what came.
    TotalLength "total-length",
    /// The checksum of its header is wrong.
    HeaderChecksum "header-checksum",
    /// A fragment that cannot be.
    BadFragment "bad-fragment",
    /// Options that cannot be.
    BadOptions "bad-options",
    /// It wants to say where to go through (RFC 7126).
    SourceRoute "source-route",
    /// Its source is no host's address, or our own (RFC 1122, 3.2.1.3).
    Source "source",
    /// It is for another host.
    NotForUs "not-for-us",
    /// It is for all hosts of the net, or a group of them.
    Broadcast "broadcast",
    /// A first fragment too short for the header of its protocol (RFC 1858).
    TinyFragment "tiny-fragment",
    /// It overlaps with another fragment (RFC 5722), or one of its datagram did.
    Overlap "overlap",
    /// A fragment that came before, to the byte.
    Duplicate "duplicate-fragment",
    /// Marks of congestion of its fragments contradict each other (RFC 3168, 5.3).
    Congestion "congestion-marks",
    /// With it its datagram would be longer than 65,535 bytes.
    TooLong "too-long",
    /// A datagram given up for the room of newer ones.
    Evicted "evicted",
    /// A datagram given up since its source has too much waiting.
    EvictedOfSource "evicted-of-source",
    /// A datagram of which fragments were missing for too long.
    Expired "reassembly-timeout",
    /// Nobody has its protocol.
    NoProtocol "no-protocol",
    /// Nobody has its port.
    NoPort "no-port",
    /// The ring of its station is full.
    StationFull "station-full",
    /// Its station is gone.
    StationGone "station-gone",
    /// A message of a station that cannot be, or of one that is not attached.
    BadMessage "bad-message",
    /// A station may not send this protocol.
    NotItsProtocol "not-its-protocol",
    /// A station wants to send to what is no host.
    Destination "destination",
    /// A station wants to send to another net, and there is no gateway.
    NoRoute "no-route",
    /// It is longer than the device takes, and must not be fragmented.
    TooBig "too-big",
    /// The device did not take it.
    Device "device",
    /// It is of IP version 6, which is not supported: the kernel sends some to any device.
    Ipv6 "ipv6",
}

impl From<Why> for DropReason {
    fn from(why: Why) -> DropReason {
        match why {
            Why::Duplicate => DropReason::Duplicate,
            Why::Overlap | Why::Poisoned => DropReason::Overlap,
            Why::TooLong => DropReason::TooLong,
            Why::Tiny => DropReason::TinyFragment,
            Why::Ecn => DropReason::Congestion,
            Why::SourceBudget => DropReason::EvictedOfSource,
            Why::WholeBudget => DropReason::Evicted,
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
