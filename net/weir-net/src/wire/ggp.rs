//! Messages of the Gateway-to-Gateway Protocol: a checked view, and a writer.
//!
//! The formats are those of RFC 823 (R. Hinden, A. Sheltzer, "The DARPA Internet Gateway",
//! September 1982), Appendix A, "release 1003 of the gateway software". A message has no checksum.
//! Octets unused there are written as zeroes and ignored on reading.
//!
//! | type | message | octets after the type |
//! |---|---|---|
//! | 0 | echo reply | 3 unused, and whatever the echo had |
//! | 2 | acknowledgement | 1 unused, sequence (2) |
//! | 8 | echo | 3 unused, and anything |
//! | 9 | network interface status | 3 unused |
//! | 10 | negative acknowledgement | 1 unused, sequence (2) |
//! | 12 | routing update | 1 unused, sequence (2), need-update, n-distances, the groups |
//!
//! A group is a distance, a number of nets, and that many net numbers of 1, 2 or 3 octets,
//! depending on their class (RFC 791 2.3: A, B, C).

use super::word;
use std::net::Ipv4Addr;

/// Types of messages.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Acknowledgement of a routing update.
    pub const ACKNOWLEDGEMENT: u8 = 2;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// Network interface status: a gateway sends it to itself to test a net.
    pub const INTERFACE_STATUS: u8 = 9;
    /// Refusal of a routing update.
    pub const NEGATIVE_ACKNOWLEDGEMENT: u8 = 10;
    /// Routing update: nets and their distances.
    pub const ROUTING_UPDATE: u8 = 12;
}

/// Bytes of each message, except routing updates and echoes with data.
pub const SHORT_BYTES: usize = 4;
/// Bytes of an echo of weir before its further data: identifier and sequence are data too.
pub const ECHO_HEADER_BYTES: usize = 8;
/// Bytes of a routing update without groups.
pub const UPDATE_HEADER_BYTES: usize = 6;
/// Most nets in a routing update here: RFC 823 names no bound but a datagram's length.
pub const MOST_NETWORKS: usize = 1024;

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer or more bytes than its type has, or than its counts demand.
    Length,
    /// A type unknown to RFC 823.
    Kind,
    /// Its need-update octet is neither 0 nor 1.
    NeedUpdate,
    /// A net number that is not of class A, B or C.
    Network,
    /// One net twice in an update.
    Doubled,
    /// More than [`MOST_NETWORKS`] nets.
    TooMany,
}

/// A net of class A, B or C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The net number in the high octets; the others are zero.
    address: Ipv4Addr,
}

impl Network {
    /// Returns the net of `address` by its class; `None` for classes D and E, and for nets 0 and
    /// 127, which are not nets.
    pub fn of(address: Ipv4Addr) -> Option<Network> {
        let [a, b, c, _] = address.octets();
        let address = match octets(a)? {
            1 => Ipv4Addr::new(a, 0, 0, 0),
            2 => Ipv4Addr::new(a, b, 0, 0),
            _ => Ipv4Addr::new(a, b, c, 0),
        };
        Some(Network { address })
    }

    /// Returns its number as an address whose host part is zero.
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// Returns the octets of its number: 1, 2 or 3, for class A, B or C.
    pub fn number_bytes(self) -> usize {
        octets(self.address.octets()[0]).unwrap_or(3)
    }

    /// Splits `bytes` into the net number at their start and the rest.
    fn read(bytes: &[u8]) -> Result<(Network, &[u8]), Malformed> {
        let first = *bytes.first().ok_or(Malformed::Length)?;
        let count = octets(first).ok_or(Malformed::Network)?;
        let (number, rest) = bytes.split_at_checked(count).ok_or(Malformed::Length)?;
        let mut address = [0; 4];
        address[..count].copy_from_slice(number);
        Ok((Network { address: Ipv4Addr::from(address) }, rest))
    }
}

/// Returns the octets of a net number that begins with this octet.
fn octets(first: u8) -> Option<usize> {
    match first {
        1..=126 => Some(1),
        128..=191 => Some(2),
        192..=223 => Some(3),
        _ => None,
    }
}

/// A message whose lengths and counts have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// An echo request.
    Echo {
        /// The octets after the type, at least three unused ones; the reply repeats them.
        rest: &'a [u8],
    },
    /// Answer to an echo.
    EchoReply {
        /// All after the type.
        rest: &'a [u8],
    },
    /// Acknowledgement of a routing update.
    Acknowledgement {
        /// Sequence of the update.
        sequence: u16,
    },
    /// Refusal of a routing update.
    NegativeAcknowledgement {
        /// Sequence of the last update that was accepted.
        sequence: u16,
    },
    /// A gateway's message to itself, to test a net.
    InterfaceStatus,
    /// A routing update: nets and their distances.
    RoutingUpdate(Update<'a>),
}

impl<'a> Message<'a> {
    /// Checks the payload of a datagram of [`super::ipv4::protocol::GGP`].
    ///
    /// A message of a fixed length must have exactly that; a routing update exactly what it counts.
    pub fn check(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let [kind, rest @ ..] = bytes else {
            return Err(Malformed::Length);
        };
        match *kind {
            kind::ECHO | kind::ECHO_REPLY if bytes.len() < SHORT_BYTES => Err(Malformed::Length),
            kind::ECHO => Ok(Message::Echo { rest }),
            kind::ECHO_REPLY => Ok(Message::EchoReply { rest }),
            kind::ROUTING_UPDATE => Ok(Message::RoutingUpdate(Update::check(bytes)?)),
            kind::ACKNOWLEDGEMENT | kind::NEGATIVE_ACKNOWLEDGEMENT | kind::INTERFACE_STATUS
                if bytes.len() != SHORT_BYTES =>
            {
                Err(Malformed::Length)
            }
            kind::ACKNOWLEDGEMENT => Ok(Message::Acknowledgement { sequence: word(bytes, 2) }),
            kind::NEGATIVE_ACKNOWLEDGEMENT => {
                Ok(Message::NegativeAcknowledgement { sequence: word(bytes, 2) })
            }
            kind::INTERFACE_STATUS => Ok(Message::InterfaceStatus),
            _ => Err(Malformed::Kind),
        }
    }

    /// Writes the message; returns its length. Returns `None`, and writes nothing, where `out` is
    /// too short.
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let (kind, sequence) = match *self {
            Message::Echo { rest } => return emit_all(kind::ECHO, rest, out),
            Message::EchoReply { rest } => return emit_all(kind::ECHO_REPLY, rest, out),
            Message::RoutingUpdate(update) => {
                return emit_all(kind::ROUTING_UPDATE, &update.bytes[1..], out);
            }
            Message::Acknowledgement { sequence } => (kind::ACKNOWLEDGEMENT, sequence),
            Message::NegativeAcknowledgement { sequence } => {
                (kind::NEGATIVE_ACKNOWLEDGEMENT, sequence)
            }
            Message::InterfaceStatus => (kind::INTERFACE_STATUS, 0),
        };
        let [high, low] = sequence.to_be_bytes();
        emit_all(kind, &[0, high, low], out)
    }
}

fn emit_all(kind: u8, rest: &[u8], out: &mut [u8]) -> Option<usize> {
    let out = out.get_mut(..1 + rest.len())?;
    out[0] = kind;
    out[1..].copy_from_slice(rest);
    Some(out.len())
}

/// A routing update: nets, each once, in groups of the same distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    bytes: &'a [u8],
}

impl<'a> Update<'a> {
    /// Checks the update; `bytes` begin with the type.
    fn check(bytes: &'a [u8]) -> Result<Update<'a>, Malformed> {
        if bytes.len() < UPDATE_HEADER_BYTES {
            return Err(Malformed::Length);
        }
        if bytes[4] > 1 {
            return Err(Malformed::NeedUpdate);
        }
        let mut seen = [Ipv4Addr::UNSPECIFIED; MOST_NETWORKS];
        let mut count = 0;
        let mut rest = &bytes[UPDATE_HEADER_BYTES..];
        for _ in 0..bytes[5] {
            let [_, networks, group @ ..] = rest else {
                return Err(Malformed::Length);
            };
            rest = group;
            for _ in 0..*networks {
                let (network, after) = Network::read(rest)?;
                *seen.get_mut(count).ok_or(Malformed::TooMany)? = network.address;
                count += 1;
                rest = after;
            }
        }
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        // Sorted in place: a hostile update of a thousand nets must not cost their square.
        let seen = &mut seen[..count];
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Malformed::Doubled);
        }
        Ok(Update { bytes })
    }

    /// Returns its bytes, which begin with the type.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns its sequence.
    pub fn sequence(&self) -> u16 {
        word(self.bytes, 2)
    }

    /// Whether its sender asks for an update from us.
    pub fn need_update(&self) -> bool {
        self.bytes[4] == 1
    }

    /// Iterates over its nets with their distances, at most [`MOST_NETWORKS`].
    pub fn networks(&self) -> Networks<'a> {
        Networks { rest: &self.bytes[UPDATE_HEADER_BYTES..], distance: 0, left: 0 }
    }
}

/// An iterator over the nets of a routing update with their distances, in hops from its sender.
#[derive(Clone, Debug)]
pub struct Networks<'a> {
    rest: &'a [u8],
    distance: u8,
    /// Nets left in this group.
    left: u8,
}

impl Iterator for Networks<'_> {
    type Item = (Network, u8);

    fn next(&mut self) -> Option<(Network, u8)> {
        // A group may be empty; that all of this fits was checked.
        while self.left == 0 {
            let [distance, networks, group @ ..] = self.rest else {
                return None;
            };
            (self.distance, self.left, self.rest) = (*distance, *networks, group);
        }
        let (network, rest) = Network::read(self.rest).ok()?;
        self.rest = rest;
        self.left -= 1;
        Some((network, self.distance))
    }
}

/// Returns the identifier and the sequence in the data of an echo request of weir, where they lie as
/// in an echo of ICMP: RFC 823 leaves the data to who asks, and the reply repeats them. `None` for
/// any other message.
pub fn echo_ids(bytes: &[u8]) -> Option<(u16, u16)> {
    let [kind::ECHO, _, _, _, ..] = bytes else { return None };
    (bytes.len() >= ECHO_HEADER_BYTES).then(|| (word(bytes, 4), word(bytes, 6)))
}

/// Writes a routing update of `groups`, each a distance and its nets; returns its length.
///
/// Returns `None`, and leaves `out` in any state, where it is too short, or the update is invalid:
/// more than 255 groups, or nets in one, more than [`MOST_NETWORKS`] nets, or one net twice.
#[must_use]
pub fn emit_update(
    sequence: u16,
    need_update: bool,
    groups: &[(u8, &[Network])],
    out: &mut [u8],
) -> Option<usize> {
    let [high, low] = sequence.to_be_bytes();
    let count = u8::try_from(groups.len()).ok()?;
    let header = [kind::ROUTING_UPDATE, 0, high, low, u8::from(need_update), count];
    out.get_mut(..UPDATE_HEADER_BYTES)?.copy_from_slice(&header);
    let mut at = UPDATE_HEADER_BYTES;
    for (distance, networks) in groups {
        let count = u8::try_from(networks.len()).ok()?;
        out.get_mut(at..at + 2)?.copy_from_slice(&[*distance, count]);
        at += 2;
        for network in *networks {
            let bytes = network.number_bytes();
            out.get_mut(at..at + bytes)?.copy_from_slice(&network.address.octets()[..bytes]);
            at += bytes;
        }
    }
    Update::check(&out[..at]).ok().map(|_| at)
}
