//! What passes through the ports between the switch and its stations, byte by byte.
//!
//! To a station: 8 bytes, then what the kind says. All numbers are little-endian.
//!
//! ```text
//! 0 kind   1 why   2 checksum   3 zero   4..8 pointer (of a parameter problem)
//! PACKET, UNDELIVERABLE   the IP datagram, whole, as it came (or its first 576 bytes)
//! NOTICE                  what an ICMP error said: see [`Notice`]
//! ATTACHED                address 4, peer 4, mtu 2, prefix 1
//! REFUSED                 text
//! STATISTICS              JSON
//! ```
//!
//! From a station: 16 bytes, then what the kind says.
//!
//! ```text
//! 0 kind   1 protocol   2 tos   3 ttl   4 flags (1: do not fragment)   5 bytes of options
//! 6..8 zero   8..12 destination   12..16 zero
//! SEND      options, payload
//! ATTACH    count of wants 1, each: protocol 1, flag 1 (1: a port), port 2; path of the station
//! REDIRECT  destination 4, gateway 4, who said so 4
//! NOTICE    see [`Notice`]
//! STATISTICS  nothing
//! ```

use crate::icmp::{Notice, Trouble, Undeliverable};
use crate::outgoing::Outgoing;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Bytes before what a station receives.
pub const TO_STATION_BYTES: usize = 8;
/// Bytes before what a station sends.
pub const FROM_STATION_BYTES: usize = 16;
/// Most protocols and ports of one station.
pub const MOST_WANTS: usize = 64;
/// Longest message: a datagram of 65,535 bytes and what lies before it.
pub const MOST_MESSAGE_BYTES: usize = 65_535 + FROM_STATION_BYTES + 40;

/// Kinds of messages to a station.
pub mod to_station {
    /// A datagram for it.
    pub const PACKET: u8 = 1;
    /// One that nobody takes, for whoever has ICMP.
    pub const UNDELIVERABLE: u8 = 2;
    /// An ICMP error about something this station sent.
    pub const NOTICE: u8 = 3;
    /// It is attached.
    pub const ATTACHED: u8 = 4;
    /// It is not, and why.
    pub const REFUSED: u8 = 5;
    /// What the switch has counted.
    pub const STATISTICS: u8 = 6;
}

/// Kinds of messages from a station.
pub mod from_station {
    /// It wants to be attached.
    pub const ATTACH: u8 = 1;
    /// A datagram to be sent.
    pub const SEND: u8 = 2;
    /// A better gateway.
    pub const REDIRECT: u8 = 3;
    /// An ICMP error that concerns another station.
    pub const NOTICE: u8 = 4;
    /// It asks what was counted.
    pub const STATISTICS: u8 = 5;
}

/// What the sender's machine did about a packet's checksum above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing that is known: it is to be checked.
    ToCheck,
    /// It was left out, since the packet came from this machine; nothing is to be checked.
    LeftOut,
}

/// A protocol, all of it or one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Want {
    /// The number of the protocol.
    pub protocol: u8,
    /// Its port: of UDP and TCP the destination's, of ICMP the identifier of replies. None: what no
    /// other station has asked for.
    pub port: Option<u16>,
}

/// What a station learns when it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The address of the host.
    pub address: Ipv4Addr,
    /// The address of the other side of the device.
    pub peer: Ipv4Addr,
    /// Bits of the net's number.
    pub prefix_bits: u8,
    /// Longest packet of the device.
    pub mtu: u16,
}

/// What a station asks for when it wants to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it wants to receive.
    pub wants: Vec<Want>,
    /// The path of its port.
    pub path: PathBuf,
}

/// The front of a message from a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// One of [`from_station`].
    pub kind: u8,
    /// Bytes of options after the front; a multiple of four, at most 40.
    pub options_bytes: usize,
    /// Of SEND: what to do; the options are not in it.
    pub out: Outgoing<'static>,
}

impl Front {
    /// Of bytes that a station wrote; `None` if they are none.
    pub fn check(bytes: &[u8; FROM_STATION_BYTES]) -> Option<Front> {
        let options_bytes = usize::from(bytes[5]);
        let zeros = [bytes[6], bytes[7], bytes[12], bytes[13], bytes[14], bytes[15]];
        if bytes[4] > 1 || options_bytes > 40 || options_bytes % 4 != 0 || zeros != [0; 6] {
            return None;
        }
        Some(Front {
            kind: bytes[0],
            options_bytes,
            out: Outgoing {
                destination: address(&bytes[8..12]),
                protocol: bytes[1],
                tos: bytes[2],
                ttl: bytes[3],
                dont_fragment: bytes[4] == 1,
                options: &[],
            },
        })
    }
}

/// Puts a message from a station into `to`: its front and options for SEND.
pub fn put_send(to: &mut Vec<u8>, out: &Outgoing<'_>, payload: &[u8]) {
    let options_bytes = out.options.len().next_multiple_of(4);
    to.clear();
    to.extend_from_slice(&[
        from_station::SEND,
        out.protocol,
        out.tos,
        out.ttl,
        u8::from(out.dont_fragment),
        options_bytes as u8,
        0,
        0,
    ]);
    to.extend_from_slice(&out.destination.octets());
    to.extend_from_slice(&[0; 4]);
    to.extend_from_slice(out.options);
    to.resize(FROM_STATION_BYTES + options_bytes, 0);
    to.extend_from_slice(payload);
}

/// The front of a message that is no datagram.
pub fn front(kind: u8) -> [u8; FROM_STATION_BYTES] {
    let mut front = [0; FROM_STATION_BYTES];
    front[0] = kind;
    front
}

impl Request {
    /// As it is sent.
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

    /// Of what follows the front; `None` if that is none.
    pub fn check(bytes: &[u8]) -> Option<Request> {
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
        (path.is_absolute() && !rest.contains(&0)).then_some(Request { wants, path })
    }
}

impl Attached {
    /// As it is sent, after the front.
    pub fn put(&self) -> Vec<u8> {
        let mut bytes = vec![to_station::ATTACHED, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend_from_slice(&self.address.octets());
        bytes.extend_from_slice(&self.peer.octets());
        bytes.extend_from_slice(&self.mtu.to_le_bytes());
        bytes.push(self.prefix_bits);
        bytes
    }

    /// Of what follows the front; `None` if that is none.
    pub fn check(bytes: &[u8]) -> Option<Attached> {
        let bytes: &[u8; 11] = bytes.try_into().ok()?;
        Some(Attached {
            address: address(&bytes[..4]),
            peer: address(&bytes[4..8]),
            mtu: u16::from_le_bytes([bytes[8], bytes[9]]),
            prefix_bits: bytes[10],
        })
    }
}

/// Troubles by their numbers, which begin at 1.
const TROUBLES: [Trouble; 3] =
    [Trouble::Unreachable, Trouble::TimeExceeded, Trouble::ParameterProblem];
/// Bytes of a notice.
pub const NOTICE_BYTES: usize = 28;

/// A notice as it is sent: trouble, code, protocol, pointer; both ports; the remote address and who
/// says so; the MTU, two zeros; the first bytes of the payload.
pub fn put_notice(notice: &Notice) -> [u8; NOTICE_BYTES] {
    let trouble = TROUBLES.iter().position(|trouble| *trouble == notice.trouble);
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

/// A notice out of bytes; `None` if they are none.
pub fn notice(bytes: &[u8]) -> Option<Notice> {
    let bytes: &[u8; NOTICE_BYTES] = bytes.try_into().ok()?;
    let trouble = *TROUBLES.get(usize::from(bytes[0].checked_sub(1)?))?;
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

/// Why nobody takes a datagram, as two bytes: what, and of a bad header where.
pub fn put_why(why: Undeliverable) -> (u8, u8) {
    match why {
        Undeliverable::Protocol => (1, 0),
        Undeliverable::Port => (2, 0),
        Undeliverable::ReassemblyTimeout => (3, 0),
        Undeliverable::SourceRoute => (4, 0),
        Undeliverable::Parameter { pointer } => (5, pointer),
    }
}

/// The same out of two bytes; `None` if they are none.
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

/// A redirect as it is sent.
pub fn put_redirect(destination: Ipv4Addr, gateway: Ipv4Addr, from: Ipv4Addr) -> Vec<u8> {
    let mut bytes = front(from_station::REDIRECT).to_vec();
    for address in [destination, gateway, from] {
        bytes.extend_from_slice(&address.octets());
    }
    bytes
}

/// An address out of four bytes.
pub fn address(bytes: &[u8]) -> Ipv4Addr {
    let octets = <[u8; 4]>::try_from(bytes).unwrap_or_default();
    Ipv4Addr::from(octets)
}
