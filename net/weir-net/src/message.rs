//! The messages between the switch and its stations, byte by byte.
//!
//! To a station: 8 bytes, then a body that depends on the kind. All numbers are little-endian.
//!
//! ```text
//! 0 kind   1 why   2 checksum   3 unchecked (1: the station checks the header)
//! 4..8 pointer (of a parameter problem)
//! PACKET, UNDELIVERABLE   the IP datagram, whole, as it came (or its first 576 bytes)
//! NOTICE                  what an ICMP error said: see [`Notice`]
//! ATTACHED                address 4, peer 4, mtu 2, prefix 1,
//!                         flags 1 (1: segments are cut; 2: stations fill and check headers)
//! REFUSED                 text
//! STATISTICS              JSON, or a part of it (why is 1: it continues in the next message)
//! ```
//!
//! From a station: 16 bytes, then a body that depends on the kind.
//!
//! ```text
//! 0 kind   1 protocol   2 tos   3 ttl   5 bytes of options   6..8 zero   8..12 destination
//! 4 flags (1: do not fragment; 2: the checksum of TCP is left to the device)
//! 12..14 bytes of a segment of TCP that the device cuts, or 0   14..16 zero
//! SEND      options, payload
//! ATTACH    count of wants 1, each: protocol 1, flag 1 (1: a port), port 2; path of the station
//! FILLED    IP header with its options, payload; only protocol, flag 2 and 12..14 of the head count
//! DROPPED   reason 1, pointer 1, whether ICMP reports it 1, the datagram that the station found
//!           invalid (or its first 576 bytes)
//! REDIRECT  destination 4, gateway 4, who said so 4
//! ROUTES    gateway 4, its routing update of GGP
//! NOTICE    see [`Notice`]
//! STATISTICS  nothing
//! REPORT    figures of a service: see [`crate::report`]
//! ```

use crate::division::{Division, PacketRefusal};
use crate::drop_reason::{DropReason, FIRST_REASON};
use crate::icmp::{Notice, NoticeKind, Undeliverable};
use crate::outgoing::{Offload, Outgoing};
use crate::wire::ggp::{self, Update};
use crate::wire::ipv4::{MOST_HEADER_BYTES, protocol};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Bytes of the head of a message to a station.
pub const TO_STATION_BYTES: usize = 8;
/// Bytes of the head of a message from a station.
pub const FROM_STATION_BYTES: usize = 16;
/// Most protocols and ports that one station may ask for.
pub const MOST_WANTS: usize = 64;
/// Bytes of an undeliverable datagram that are passed on: more than an ICMP error quotes.
pub(crate) const QUOTED_BYTES: usize = 576;
/// Longest message: a datagram of 65,535 bytes and its head.
pub const MOST_MESSAGE_BYTES: usize = 65_535 + FROM_STATION_BYTES + 40;

/// Kinds of messages to a station.
pub mod to_station {
    /// A datagram for the station.
    pub const PACKET: u8 = 1;
    /// A datagram that no station takes, for the station that has ICMP.
    pub const UNDELIVERABLE: u8 = 2;
    /// An ICMP error about a datagram that this station sent.
    pub const NOTICE: u8 = 3;
    /// The station is attached.
    pub const ATTACHED: u8 = 4;
    /// The station is refused, and why.
    pub const REFUSED: u8 = 5;
    /// The switch's counters.
    pub const STATISTICS: u8 = 6;
}

/// Kinds of messages from a station.
pub mod from_station {
    /// A request to be attached.
    pub const ATTACH: u8 = 1;
    /// A datagram to send.
    pub const SEND: u8 = 2;
    /// A redirect to a better gateway.
    pub const REDIRECT: u8 = 3;
    /// An ICMP error for another station.
    pub const NOTICE: u8 = 4;
    /// A request for the switch's counters.
    pub const STATISTICS: u8 = 5;
    /// Figures of the station's own work.
    pub const REPORT: u8 = 6;
    /// A datagram to send whose header the station has filled.
    pub const FILLED: u8 = 7;
    /// A received datagram whose header the station found invalid.
    pub const DROPPED: u8 = 8;
    /// The nets that a gateway announced.
    pub const ROUTES: u8 = 9;
}

/// How far the sender's machine dealt with a packet's checksum above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Unknown: the receiver must check it.
    ToCheck,
    /// It was left out, since the packet came from this machine; the receiver need not check it.
    LeftOut,
}

/// A protocol, or one port of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Want {
    /// The number of the protocol.
    pub protocol: u8,
    /// Its port: the destination port of UDP and TCP, the identifier of replies of ICMP and to GGP
    /// echoes. None: all
    /// ports that no other station has asked for.
    pub port: Option<u16>,
}

/// What the switch tells a station when it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The host's address.
    pub address: Ipv4Addr,
    /// The address of the device's other side.
    pub peer: Ipv4Addr,
    /// Bits of the address that are the net's number.
    pub prefix_bits: u8,
    /// Longest packet that the device takes.
    pub mtu: u16,
    /// Whether the device completes checksums of TCP and cuts long segments ([`Offload`]).
    pub offloads: bool,
    /// Who fills and checks headers.
    pub division: Division,
}

/// A station's request to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachRequest {
    /// The protocols and ports that it wants to receive.
    pub wants: Vec<Want>,
    /// The path of the station's port.
    pub path: PathBuf,
}

/// The head of a message from a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// One of [`from_station`].
    pub kind: u8,
    /// Bytes of options after the head; a multiple of four, at most 40.
    pub options_bytes: usize,
    /// For SEND: the datagram to send, without its options.
    pub out: Outgoing<'static>,
}

impl MessageHead {
    /// Parses bytes that a station wrote; `None` if they are not valid.
    pub fn check(bytes: &[u8; FROM_STATION_BYTES]) -> Option<MessageHead> {
        let options_bytes = usize::from(bytes[5]);
        let zeros = [bytes[6], bytes[7], bytes[14], bytes[15]];
        if bytes[4] > 3 || options_bytes > 40 || options_bytes % 4 != 0 || zeros != [0; 4] {
            return None;
        }
        let offload = match (bytes[4] & 2 != 0, u16::from_le_bytes([bytes[12], bytes[13]])) {
            (false, 0) => Offload::None,
            (true, _) if bytes[1] != protocol::TCP => return None,
            (true, 0) => Offload::Checksum,
            (true, segment_bytes) => Offload::Segments(segment_bytes),
            (false, _) => return None,
        };
        Some(MessageHead {
            kind: bytes[0],
            options_bytes,
            out: Outgoing {
                destination: address(&bytes[8..12]),
                protocol: bytes[1],
                tos: bytes[2],
                ttl: bytes[3],
                dont_fragment: bytes[4] & 1 != 0,
                offload,
                options: &[],
            },
        })
    }
}

/// Most bytes of the head and the options of SEND, which go before the payload.
pub const MOST_SEND_HEAD_BYTES: usize = FROM_STATION_BYTES + 40;

/// Writes the head and the options of SEND; returns their length. Options beyond 40 bytes are an
/// error that the switch counts, and are not written.
pub fn put_send_head(out: &Outgoing<'_>, to: &mut [u8; MOST_SEND_HEAD_BYTES]) -> usize {
    let options_bytes = out.options.len().next_multiple_of(4);
    let (is_left, segment_bytes) = match out.offload {
        Offload::None => (false, 0),
        Offload::Checksum => (true, 0),
        Offload::Segments(bytes) => (true, bytes),
    };
    let flags = u8::from(out.dont_fragment) | u8::from(is_left) << 1;
    to.fill(0);
    to[..6].copy_from_slice(&[
        from_station::SEND,
        out.protocol,
        out.tos,
        out.ttl,
        flags,
        u8::try_from(options_bytes).unwrap_or(u8::MAX),
    ]);
    to[8..12].copy_from_slice(&out.destination.octets());
    to[12..14].copy_from_slice(&segment_bytes.to_le_bytes());
    let Some(room) = to.get_mut(FROM_STATION_BYTES..FROM_STATION_BYTES + out.options.len()) else {
        return FROM_STATION_BYTES;
    };
    room.copy_from_slice(out.options);
    FROM_STATION_BYTES + options_bytes
}

/// Most bytes of the head and the IP header of FILLED, which go before the payload.
pub(crate) const MOST_FILLED_HEAD_BYTES: usize = FROM_STATION_BYTES + MOST_HEADER_BYTES;

/// Writes the head of FILLED before the IP header; returns the room for that.
pub(crate) fn put_filled_head<'a>(
    out: &Outgoing<'_>,
    to: &'a mut [u8; MOST_FILLED_HEAD_BYTES],
) -> &'a mut [u8] {
    let mut head = [0; MOST_SEND_HEAD_BYTES];
    put_send_head(&Outgoing { options: &[], ..*out }, &mut head);
    head[0] = from_station::FILLED;
    to[..FROM_STATION_BYTES].copy_from_slice(&head[..FROM_STATION_BYTES]);
    &mut to[FROM_STATION_BYTES..]
}

/// Writes a whole message of SEND over what `to` holds.
pub fn put_send(to: &mut Vec<u8>, out: &Outgoing<'_>, payload: &[u8]) {
    let mut head = [0; MOST_SEND_HEAD_BYTES];
    let head_bytes = put_send_head(out, &mut head);
    to.clear();
    to.extend_from_slice(&head[..head_bytes]);
    to.extend_from_slice(payload);
}

/// Makes the head of a message that carries no datagram.
pub fn front(kind: u8) -> [u8; FROM_STATION_BYTES] {
    let mut front = [0; FROM_STATION_BYTES];
    front[0] = kind;
    front
}

impl AttachRequest {
    /// Encodes the message.
    pub fn put(&self) -> Vec<u8> {
        let mut bytes = front(from_station::ATTACH).to_vec();
        bytes.push(self.wants.len() as u8);
        for want in &self.wants {
            bytes.extend_from_slice(&[want.protocol, u8::from(want.port.is_some())]);
            bytes.extend_from_slice(&want.port.unwrap_or(0).to_le_bytes());
        }
        bytes.extend_from_slice(self.path.as_os_str().as_encoded_bytes());
        bytes
    }

    /// Parses the body after the head; `None` if it is not valid.
    pub fn check(bytes: &[u8]) -> Option<AttachRequest> {
        use std::os::unix::ffi::OsStrExt;
        let (count, mut rest) = bytes.split_first()?;
        let count = usize::from(*count);
        if count > MOST_WANTS {
            return None;
        }
        let mut wants = Vec::with_capacity(count);
        for _ in 0..count {
            let (want, after) = rest.split_first_chunk::<4>()?;
            let port = u16::from_le_bytes([want[2], want[3]]);
            let port = match want[1] {
                0 if port == 0 => None,
                1 => Some(port),
                _ => return None,
            };
            wants.push(Want { protocol: want[0], port });
            rest = after;
        }
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(rest));
        (path.is_absolute() && !rest.contains(&0)).then_some(AttachRequest { wants, path })
    }
}

impl Attached {
    /// Encodes the whole message.
    pub fn put(&self) -> Vec<u8> {
        let mut bytes = vec![to_station::ATTACHED, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&self.address.octets());
        bytes.extend_from_slice(&self.peer.octets());
        bytes.extend_from_slice(&self.mtu.to_le_bytes());
        let is_allen = self.division == Division::Allen;
        let flags = u8::from(self.offloads) | u8::from(is_allen) << 1;
        bytes.extend_from_slice(&[self.prefix_bits, flags]);
        bytes
    }

    /// Parses the body after the head; `None` if it is not valid.
    pub fn check(bytes: &[u8]) -> Option<Attached> {
        let bytes: &[u8; 12] = bytes.try_into().ok()?;
        Some(Attached {
            address: address(&bytes[..4]),
            peer: address(&bytes[4..8]),
            mtu: u16::from_le_bytes([bytes[8], bytes[9]]),
            prefix_bits: bytes[10],
            offloads: bytes[11] & 1 != 0,
            division: match bytes[11] >> 1 {
                0 => Division::Later,
                1 => Division::Allen,
                _ => return None,
            },
        })
    }
}

/// Encodes the switch's counters, in as many messages as they take.
pub(crate) fn put_statistics(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let parts = text.as_bytes().chunks(MOST_MESSAGE_BYTES - TO_STATION_BYTES);
    let last = parts.len().saturating_sub(1);
    parts.enumerate().map(move |(at, part)| {
        let front = [to_station::STATISTICS, u8::from(at < last), 0, 0, 0, 0, 0, 0];
        [&front[..], part].concat()
    })
}

/// Numbers of notice kinds, which begin at 1.
const NOTICE_KINDS: [NoticeKind; 3] =
    [NoticeKind::Unreachable, NoticeKind::TimeExceeded, NoticeKind::ParameterProblem];
/// Bytes of a notice.
pub const NOTICE_BYTES: usize = 28;

/// Encodes a notice: kind, code, protocol, pointer; both ports; the remote address and the address
/// that reports it; the MTU, two zeros; the first bytes of the payload.
pub fn put_notice(notice: &Notice) -> [u8; NOTICE_BYTES] {
    let trouble = NOTICE_KINDS.iter().position(|trouble| *trouble == notice.trouble);
    let trouble = trouble.map_or(0, |index| index as u8 + 1);
    let mut bytes = [0; NOTICE_BYTES];
    bytes[..4].copy_from_slice(&[trouble, notice.code, notice.protocol, notice.pointer]);
    bytes[4..6].copy_from_slice(&notice.local_port.to_le_bytes());
    bytes[6..8].copy_from_slice(&notice.remote_port.to_le_bytes());
    bytes[8..12].copy_from_slice(&notice.remote.octets());
    bytes[12..16].copy_from_slice(&notice.from.octets());
    bytes[16..18].copy_from_slice(&notice.mtu_bytes.to_le_bytes());
    bytes[20..].copy_from_slice(&notice.first);
    bytes
}

/// Parses a notice; `None` if the bytes are not valid.
pub fn notice(bytes: &[u8]) -> Option<Notice> {
    let bytes: &[u8; NOTICE_BYTES] = bytes.try_into().ok()?;
    let trouble = *NOTICE_KINDS.get(usize::from(bytes[0].checked_sub(1)?))?;
    let first = bytes[20..].try_into().ok()?;
    Some(Notice {
        trouble,
        code: bytes[1],
        protocol: bytes[2],
        pointer: bytes[3],
        local_port: u16::from_le_bytes([bytes[4], bytes[5]]),
        remote_port: u16::from_le_bytes([bytes[6], bytes[7]]),
        remote: address(&bytes[8..12]),
        from: address(&bytes[12..16]),
        mtu_bytes: u16::from_le_bytes([bytes[16], bytes[17]]),
        first,
    })
}

/// Encodes why a datagram is undeliverable: the reason, and for a bad header the position.
pub fn put_why(why: Undeliverable) -> (u8, u8) {
    match why {
        Undeliverable::Protocol => (1, 0),
        Undeliverable::Port => (2, 0),
        Undeliverable::ReassemblyTimeout => (3, 0),
        Undeliverable::SourceRoute => (4, 0),
        Undeliverable::Parameter { pointer } => (5, pointer),
    }
}

/// Decodes what [`put_why`] encoded; `None` if they are not valid.
pub fn why(what: u8, pointer: u8) -> Option<Undeliverable> {
    Some(match what {
        1 => Undeliverable::Protocol,
        2 => Undeliverable::Port,
        3 => Undeliverable::ReassemblyTimeout,
        4 => Undeliverable::SourceRoute,
        5 => Undeliverable::Parameter { pointer },
        _ => return None,
    })
}

/// Encodes that a station found the header of a datagram invalid.
/// `reported`: it reports that itself, as the station for ICMP.
pub(crate) fn put_dropped(
    to: &mut Vec<u8>,
    refusal: &PacketRefusal,
    reported: bool,
    quoted: &[u8],
) {
    let (_, pointer) = refusal.undeliverable.map_or((0, 0), put_why);
    to.clear();
    to.extend_from_slice(&front(from_station::DROPPED));
    to.extend_from_slice(&[refusal.reason.number(), pointer, u8::from(reported)]);
    to.extend_from_slice(quoted);
}

/// Parses the body after the head; `None` if it is not valid. Returns the datagram's beginning too.
pub(crate) fn dropped(bytes: &[u8]) -> Option<(PacketRefusal, &[u8])> {
    let ([number, pointer, reported @ (0 | 1)], quoted) = bytes.split_first_chunk()? else {
        return None;
    };
    let reason = *DropReason::ALL.get(usize::from(number.checked_sub(FIRST_REASON)?))?;
    let undeliverable = match reason {
        DropReason::Short
        | DropReason::Version
        | DropReason::HeaderLength
        | DropReason::TotalLength
        | DropReason::HeaderChecksum
        | DropReason::BadFragment
        | DropReason::Ipv6
        | DropReason::Broadcast
        | DropReason::NotForUs
        | DropReason::Source => None,
        DropReason::SourceRoute => Some(Undeliverable::SourceRoute),
        DropReason::BadOptions => Some(Undeliverable::Parameter { pointer: *pointer }),
        _ => return None,
    };
    let undeliverable = undeliverable.filter(|_| *reported == 0);
    Some((PacketRefusal { reason, undeliverable }, quoted))
}

/// Encodes a redirect.
pub fn put_redirect(destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) -> Vec<u8> {
    let mut bytes = front(from_station::REDIRECT).to_vec();
    for address in [destination, gateway, from] {
        bytes.extend_from_slice(&address.octets());
    }
    bytes
}

/// Encodes what a gateway announced.
pub fn put_routes(gateway: Ipv4Addr, update: &Update<'_>) -> Vec<u8> {
    [&front(from_station::ROUTES)[..], &gateway.octets(), update.bytes()].concat()
}

/// Parses the body after the head; `None` if it is not valid.
pub(crate) fn routes(bytes: &[u8]) -> Option<(Ipv4Addr, Update<'_>)> {
    let (gateway, update) = bytes.split_at_checked(4)?;
    match ggp::Message::check(update) {
        Ok(ggp::Message::RoutingUpdate(update)) => Some((address(gateway), update)),
        _ => None,
    }
}

/// Returns the address in these four bytes.
pub fn address(bytes: &[u8]) -> Ipv4Addr {
    let octets = <[u8; 4]>::try_from(bytes).unwrap_or_default();
    Ipv4Addr::from(octets)
}
