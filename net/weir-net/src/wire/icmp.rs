//! Messages of ICMP (RFC 792): a checked view, and a writer.

use super::checksum::{self, RunningSum};
use super::ipv4::{self, Header};
use super::{address, word};
use std::net::Ipv4Addr;

/// Bytes of the shortest meaningful message, and of the fields before data or a quotation.
pub const HEADER_BYTES: usize = 8;
/// Bytes of a timestamp message.
pub const TIMESTAMP_BYTES: usize = 20;
/// Room for the times of such a message.
pub type TimestampRoom = [u8; TIMESTAMP_BYTES - HEADER_BYTES];
/// Least payload bytes of a quoted datagram, if it had as many.
pub const LEAST_QUOTED_BYTES: usize = 8;

/// Types of messages (RFC 792; types not named here have no meaning for a host).
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Source quench, deprecated (RFC 6633).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect to a better gateway.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO: u8 = 8;
    /// Time exceeded: a datagram lived too long, or its fragments took too long.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem: a header could not be understood.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP: u8 = 13;
    /// Answer to a timestamp request.
    pub const TIMESTAMP_REPLY: u8 = 14;
    /// Information request, deprecated (RFC 6918).
    pub const INFORMATION: u8 = 15;
    /// Answer to an information request.
    pub const INFORMATION_REPLY: u8 = 16;
    /// Types that ask for a reply.
    pub const REQUESTS: [u8; 3] = [ECHO, TIMESTAMP, INFORMATION];
}

/// Codes of [`Message::Unreachable`] used here (RFC 792, RFC 1122 3.2.2.1).
pub mod unreachable {
    /// No process has the protocol.
    pub const PROTOCOL: u8 = 2;
    /// No process has the port.
    pub const PORT: u8 = 3;
    /// It would have to be fragmented, but must not be.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Its source route cannot be followed.
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    /// The last code that is assigned (RFC 1812 5.2.7.1).
    pub const LAST: u8 = 15;
}

/// Code of [`Message::TimeExceeded`]: fragments were missing when the time was over.
pub const REASSEMBLY_TIME_EXCEEDED: u8 = 1;

/// Whether messages of this type are requests or replies: an error about these may be sent. Errors
/// are neither (RFC 1122 3.2.2: never an error about an error), and neither is an unassigned type,
/// which may become an error.
pub fn is_query(kind: u8) -> bool {
    // Echo, router discovery (RFC 1256), timestamp, information, address mask (RFC 950).
    matches!(kind, 0 | 8 | 9 | 10 | 13..=18)
}

/// The content of an echo request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Identifies the process that asks.
    pub id: u16,
    /// Identifies the request of that process.
    pub sequence: u16,
    /// Any data; the reply repeats them.
    pub data: &'a [u8],
}

/// The content of a timestamp request or reply. Times are milliseconds since midnight UT; a time
/// whose highest bit is set has another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Identifies the process that asks.
    pub id: u16,
    /// Identifies the request of that process.
    pub sequence: u16,
    /// When the request was sent, by the asker's clock.
    pub originate_ms: u32,
    /// When it was received, by the answerer's clock.
    pub receive_ms: u32,
    /// When the reply was sent, by the answerer's clock.
    pub transmit_ms: u32,
}

/// A message whose length and checksum have been checked.
///
/// A message of an unassigned type or code is [`Message::Other`], to be ignored silently (RFC 1122
/// 3.2.2). Unused fields are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Echo request.
    Echo(Echo<'a>),
    /// Echo reply: the request's data.
    EchoReply(Echo<'a>),
    /// Timestamp request.
    Timestamp(Timestamp),
    /// Timestamp reply.
    TimestampReply(Timestamp),
    /// Information request: which net is this? The reply's addresses say.
    Information {
        /// Identifies the process that asks.
        id: u16,
        /// Identifies the request of that process.
        sequence: u16,
    },
    /// Information reply.
    InformationReply {
        /// That of the request.
        id: u16,
        /// That of the request.
        sequence: u16,
    },
    /// A datagram could not be delivered.
    Unreachable {
        /// The reason, 0 to 15, see [`mod@unreachable`].
        code: u8,
        /// The next hop's MTU in bytes, if the datagram was too long (code 4) and the gateway
        /// states it (RFC 1191); else 0.
        mtu_bytes: u16,
        /// The quoted datagram.
        quoted: Quoted<'a>,
    },
    /// Source quench. Deprecated (RFC 6633), to be ignored.
    SourceQuench {
        /// The quoted datagram.
        quoted: Quoted<'a>,
    },
    /// Redirect to a better gateway.
    Redirect {
        /// Its scope: a net (0), a host (1), or one type of service of these (2, 3).
        code: u8,
        /// The better gateway.
        gateway: Ipv4Addr,
        /// The quoted datagram, which took a worse route.
        quoted: Quoted<'a>,
    },
    /// A datagram was given up.
    TimeExceeded {
        /// Whether it passed too many gateways (0), or not all its fragments arrived in time (1).
        code: u8,
        /// The quoted datagram.
        quoted: Quoted<'a>,
    },
    /// A header could not be understood.
    ParameterProblem {
        /// The byte at `pointer` is wrong (0), an option is missing (1), a length is wrong (2).
        code: u8,
        /// The position of that byte in the header.
        pointer: u8,
        /// The quoted datagram.
        quoted: Quoted<'a>,
    },
    /// Anything else.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
    },
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Shorter than its type requires.
    Short,
    /// Its checksum is wrong.
    Checksum,
    /// It quotes too little, or something that is not a datagram.
    Quoted,
}

impl<'a> Message<'a> {
    /// Checks the payload of a datagram of [`ipv4::protocol::ICMP`].
    pub fn check(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if bytes.len() < HEADER_BYTES {
            return Err(Malformed::Short);
        }
        if !checksum::is_right(bytes) {
            return Err(Malformed::Checksum);
        }
        let (kind, code) = (bytes[0], bytes[1]);
        Ok(match (kind, code) {
            (kind::ECHO, 0) => Message::Echo(Echo::read(bytes)),
            (kind::ECHO_REPLY, 0) => Message::EchoReply(Echo::read(bytes)),
            (kind::TIMESTAMP, 0) => Message::Timestamp(Timestamp::read(bytes)?),
            (kind::TIMESTAMP_REPLY, 0) => Message::TimestampReply(Timestamp::read(bytes)?),
            (kind::INFORMATION, 0) => {
                Message::Information { id: word(bytes, 4), sequence: word(bytes, 6) }
            }
            (kind::INFORMATION_REPLY, 0) => {
                Message::InformationReply { id: word(bytes, 4), sequence: word(bytes, 6) }
            }
            (kind::UNREACHABLE, 0..=unreachable::LAST) => {
                let mtu_bytes =
                    if code == unreachable::FRAGMENTATION_NEEDED { word(bytes, 6) } else { 0 };
                Message::Unreachable { code, mtu_bytes, quoted: Quoted::within(bytes)? }
            }
            (kind::SOURCE_QUENCH, 0) => Message::SourceQuench { quoted: Quoted::within(bytes)? },
            (kind::REDIRECT, 0..=3) => {
                let gateway = address(bytes, 4);
                Message::Redirect { code, gateway, quoted: Quoted::within(bytes)? }
            }
            (kind::TIME_EXCEEDED, 0..=REASSEMBLY_TIME_EXCEEDED) => {
                Message::TimeExceeded { code, quoted: Quoted::within(bytes)? }
            }
            (kind::PARAMETER_PROBLEM, 0..=2) => {
                let pointer = if code == 0 { bytes[4] } else { 0 };
                Message::ParameterProblem { code, pointer, quoted: Quoted::within(bytes)? }
            }
            _ => Message::Other { kind, code },
        })
    }

    /// Writes the message with its checksum; returns its length.
    ///
    /// Returns `None`, and writes nothing, where `out` is too short, or for [`Message::Other`].
    #[must_use]
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let mut times = TimestampRoom::default();
        let (head, rest) = self.parts(&mut times)?;
        let out = out.get_mut(..HEADER_BYTES + rest.len())?;
        out[..HEADER_BYTES].copy_from_slice(&head);
        out[HEADER_BYTES..].copy_from_slice(rest);
        Some(out.len())
    }

    /// Makes the header of the message, with its checksum; what follows on it stays where it is, or is
    /// made in `times`. Returns `None` for [`Message::Other`].
    #[must_use]
    pub fn parts<'r>(
        &'r self,
        times: &'r mut TimestampRoom,
    ) -> Option<([u8; HEADER_BYTES], &'r [u8])> {
        // Type, code, the four bytes after the checksum, and the rest.
        let (kind, code, field, rest): (u8, u8, [u8; 4], &[u8]) = match self {
            Message::Echo(echo) => (kind::ECHO, 0, words(echo.id, echo.sequence), echo.data),
            Message::EchoReply(echo) => {
                (kind::ECHO_REPLY, 0, words(echo.id, echo.sequence), echo.data)
            }
            Message::Timestamp(asked) => (kind::TIMESTAMP, 0, asked.write(times), times),
            Message::TimestampReply(times_of) => {
                (kind::TIMESTAMP_REPLY, 0, times_of.write(times), times)
            }
            Message::Information { id, sequence } => {
                (kind::INFORMATION, 0, words(*id, *sequence), &[])
            }
            Message::InformationReply { id, sequence } => {
                (kind::INFORMATION_REPLY, 0, words(*id, *sequence), &[])
            }
            Message::Unreachable { code, mtu_bytes, quoted } => {
                (kind::UNREACHABLE, *code, words(0, *mtu_bytes), quoted.bytes)
            }
            Message::SourceQuench { quoted } => (kind::SOURCE_QUENCH, 0, [0; 4], quoted.bytes),
            Message::Redirect { code, gateway, quoted } => {
                (kind::REDIRECT, *code, gateway.octets(), quoted.bytes)
            }
            Message::TimeExceeded { code, quoted } => {
                (kind::TIME_EXCEEDED, *code, [0; 4], quoted.bytes)
            }
            Message::ParameterProblem { code, pointer, quoted } => {
                (kind::PARAMETER_PROBLEM, *code, [*pointer, 0, 0, 0], quoted.bytes)
            }
            Message::Other { .. } => return None,
        };
        let mut head = [kind, code, 0, 0, field[0], field[1], field[2], field[3]];
        let mut sum = RunningSum::new();
        sum.add(&head);
        sum.add(rest);
        head[2..4].copy_from_slice(&sum.finish().to_be_bytes());
        Some((head, rest))
    }
}

impl<'a> Echo<'a> {
    /// Reads an echo; `bytes` has a header at least.
    fn read(bytes: &'a [u8]) -> Echo<'a> {
        Echo { id: word(bytes, 4), sequence: word(bytes, 6), data: &bytes[HEADER_BYTES..] }
    }
}

impl Timestamp {
    /// Reads a timestamp; bytes beyond the twentieth are ignored, and not answered.
    fn read(bytes: &[u8]) -> Result<Timestamp, Malformed> {
        if bytes.len() < TIMESTAMP_BYTES {
            return Err(Malformed::Short);
        }
        Ok(Timestamp {
            id: word(bytes, 4),
            sequence: word(bytes, 6),
            originate_ms: u32::from(address(bytes, 8)),
            receive_ms: u32::from(address(bytes, 12)),
            transmit_ms: u32::from(address(bytes, 16)),
        })
    }

    /// Writes the times; returns identifier and sequence number.
    fn write(&self, times: &mut TimestampRoom) -> [u8; 4] {
        let all = [self.originate_ms, self.receive_ms, self.transmit_ms];
        times.copy_from_slice(all.map(u32::to_be_bytes).as_flattened());
        words(self.id, self.sequence)
    }
}

/// The quoted beginning of a datagram that an error is about: its header, and at least the first
/// eight bytes of its payload, or all of a shorter one.
///
/// The check is lenient: gateways changed the datagram on its way (its time to live, its options),
/// some forget the checksum, and most of it is cut off. Extensions may follow it (RFC 4884), which
/// are not told apart: only its header and first payload bytes may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    bytes: &'a [u8],
    /// The header's length: 20 to 60, and within `bytes`.
    header_bytes: usize,
}

impl<'a> Quoted<'a> {
    /// Checks the beginning of a datagram: version, header length, and that it is long enough.
    pub fn check(bytes: &'a [u8]) -> Result<Quoted<'a>, Malformed> {
        if bytes.len() < ipv4::LEAST_HEADER_BYTES || bytes[0] >> 4 != 4 {
            return Err(Malformed::Quoted);
        }
        let header_bytes = usize::from(bytes[0] & 0xf) * 4;
        if header_bytes < ipv4::LEAST_HEADER_BYTES || header_bytes > bytes.len() {
            return Err(Malformed::Quoted);
        }
        let whole_bytes = usize::from(word(bytes, 2)).max(header_bytes);
        if bytes.len() < whole_bytes.min(header_bytes + LEAST_QUOTED_BYTES) {
            return Err(Malformed::Quoted);
        }
        Ok(Quoted { bytes, header_bytes })
    }

    /// Returns the quotation in the message `bytes`, which has a header at least.
    fn within(bytes: &'a [u8]) -> Result<Quoted<'a>, Malformed> {
        Quoted::check(&bytes[HEADER_BYTES..])
    }

    /// Returns it cut to `most_bytes`, and without bytes beyond the datagram's end.
    ///
    /// The header and eight bytes of payload are kept however small `most_bytes` is.
    #[must_use]
    pub fn cut(&self, most_bytes: usize) -> Quoted<'a> {
        let least = self.header_bytes + LEAST_QUOTED_BYTES;
        let whole = usize::from(self.header().total_bytes).max(self.header_bytes);
        let bytes = self.bytes.len().min(most_bytes.max(least)).min(whole);
        Quoted { bytes: &self.bytes[..bytes], ..*self }
    }

    /// Returns the header and the quoted payload.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the quoted payload.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes..]
    }

    /// Returns its header; only the version and the header length were checked.
    #[inline]
    pub fn header(&self) -> Header {
        Header::of_checked(self.bytes)
    }
}

/// Joins two words as they are in a message.
fn words(first: u16, second: u16) -> [u8; 4] {
    (u32::from(first) << 16 | u32::from(second)).to_be_bytes()
}
