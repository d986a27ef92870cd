//! What the switch has counted: packets that passed, and those it dropped, by reason.

use crate::log::Reason;
use crate::reassembly::Why;
use crate::wire::ipv4::Malformed;
use std::sync::atomic::{AtomicU64, Ordering};

/// The log's number of the first reason: below are those of other failures.
pub const FIRST_REASON: u8 = 64;

/// Declares the reasons, so that number, name and text cannot come apart.
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $text:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Drop {
            $($(#[$doc])* $name,)*
        }

        impl Drop {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Drop] = &[$(Drop::$name,)*];

            /// Its number in the log.
            pub fn reason(self) -> Reason {
                Reason::new(FIRST_REASON + self as u8)
            }

            /// Its name, for people and programs.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Drop::$name => $text,)*
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

/// Counters that every thread of the switch adds to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that came from the device.
    pub received: AtomicU64,
    /// Bytes in these.
    pub received_bytes: AtomicU64,
    /// Datagrams put together out of fragments.
    pub reassembled: AtomicU64,
    /// Datagrams handed to stations, or to ICMP in the switch.
    pub delivered: AtomicU64,
    /// Datagrams that stations sent.
    pub sent: AtomicU64,
    /// Packets these became.
    pub sent_packets: AtomicU64,
    /// Bytes in these packets.
    pub sent_bytes: AtomicU64,
    /// Redirects that count.
    pub redirects: AtomicU64,
    /// Those that do not.
    pub redirects_refused: AtomicU64,
    drops: [AtomicU64; Drop::ALL.len()],
}

impl Counts {
    /// Counts one more.
    #[inline]
    pub fn add(counter: &AtomicU64, number: u64) {
        // Relaxed: a count orders nothing.
        counter.fetch_add(number, Ordering::Relaxed);
    }

    /// Counts one dropped packet.
    pub fn drop(&self, why: Drop) {
        Counts::add(&self.drops[why as usize], 1);
    }

    /// Counts several at once.
    pub fn drop_many(&self, why: Drop, number: u64) {
        Counts::add(&self.drops[why as usize], number);
    }

    /// Of each reason that there was, how many.
    pub fn drops(&self) -> impl Iterator<Item = (Drop, u64)> {
        let all = Drop::ALL.iter().zip(&self.drops);
        all.map(|(why, count)| (*why, count.load(Ordering::Relaxed))).filter(|(_, n)| *n > 0)
    }
}

impl From<Why> for Drop {
    fn from(why: Why) -> Drop {
        match why {
            Why::Duplicate => Drop::Duplicate,
            Why::Overlap | Why::Poisoned => Drop::Overlap,
            Why::TooLong => Drop::TooLong,
            Why::Tiny => Drop::TinyFragment,
            Why::Ecn => Drop::Congestion,
            Why::SourceBudget => Drop::EvictedOfSource,
            Why::WholeBudget => Drop::Evicted,
        }
    }
}

impl From<Malformed> for Drop {
    fn from(why: Malformed) -> Drop {
        match why {
            Malformed::Short => Drop::Short,
            Malformed::Version => Drop::Version,
            Malformed::Version6 => Drop::Ipv6,
            Malformed::HeaderLength => Drop::HeaderLength,
            Malformed::TotalLength => Drop::TotalLength,
            Malformed::Checksum => Drop::HeaderChecksum,
            Malformed::Fragment => Drop::BadFragment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason() {
        let counts = Counts::default();
        counts.drop(Drop::Device);
        counts.drop(Drop::Short);
        counts.drop(Drop::Short);
        let seen: Vec<_> = counts.drops().collect();
        assert_eq!(seen, [(Drop::Short, 2), (Drop::Device, 1)]);
    }

    #[test]
    fn no_two_reasons_have_one_name() {
        let mut names: Vec<_> = Drop::ALL.iter().map(|why| why.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Drop::ALL.len());
    }
}
