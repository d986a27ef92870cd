//! Who fills and checks the headers of IP, and how: the packet switch or its stations.
//!
//! Both divisions call the functions of this module, so they accept and drop the same datagrams
//! (docs/adr/0023).

use crate::drop_reason::DropReason;
use crate::icmp::Undeliverable;
use crate::net::Net;
use crate::outgoing::{Offload, Outgoing, ms_since_midnight};
use crate::wire::ipv4::{Datagram, Header, LEAST_HEADER_BYTES, MOST_BYTES, MOST_OPTION_BYTES};
use crate::wire::options;
use std::fmt;
use std::str::FromStr;

/// Who fills and checks the headers of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// The stations do, as in Allen's packet driver: the switch only multiplexes.
    Allen,
    /// The switch does, as in the later driver of MIT.
    #[default]
    Later,
}

impl Division {
    /// Returns its name, for people and programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Division::Allen => "allen",
            Division::Later => "later",
        }
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Division {
    type Err = String;

    fn from_str(text: &str) -> Result<Division, String> {
        [Division::Allen, Division::Later]
            .into_iter()
            .find(|division| division.as_str() == text)
            .ok_or_else(|| format!("'{text}' is not a division: allen or later"))
    }
}

/// Why a received packet is dropped, and what ICMP says about it, if anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketRefusal {
    pub reason: DropReason,
    pub undeliverable: Option<Undeliverable>,
}

impl<R: Into<DropReason>> From<R> for PacketRefusal {
    fn from(reason: R) -> PacketRefusal {
        PacketRefusal { reason: reason.into(), undeliverable: None }
    }
}

/// Checks the header of a packet, and whether it is for this host.
pub(crate) fn admit(packet: &[u8], net: Net) -> Result<Datagram<'_>, PacketRefusal> {
    let datagram = Datagram::check(packet)?;
    let header = datagram.header();
    if header.destination != net.address {
        let all = header.destination.is_multicast() || net.is_broadcast(header.destination);
        return Err(if all { DropReason::Broadcast } else { DropReason::NotForUs }.into());
    }
    if header.source == net.address || !net.is_host(header.source) {
        return Err(DropReason::Source.into());
    }
    if !datagram.options().is_empty() {
        check_options(&datagram)?;
    }
    Ok(datagram)
}

#[cold]
fn check_options(datagram: &Datagram<'_>) -> Result<(), PacketRefusal> {
    let Err(problem) = options::verify(datagram.options()) else { return Ok(()) };
    let (reason, undeliverable) = match problem.reason {
        options::OptionFault::SourceRoute => (DropReason::SourceRoute, Undeliverable::SourceRoute),
        _ => (DropReason::BadOptions, Undeliverable::Parameter { pointer: problem.pointer }),
    };
    Err(PacketRefusal { reason, undeliverable: Some(undeliverable) })
}

/// The facts about this host that a header needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostFacts {
    pub net: Net,
    pub mtu: usize,
    /// Whether the device completes checksums of TCP and cuts long segments.
    pub offloads: bool,
}

/// A filled header: its fields, and its options padded to four bytes.
pub(crate) struct FilledHeader {
    pub header: Header,
    room: [u8; MOST_OPTION_BYTES],
    options_bytes: usize,
}

impl FilledHeader {
    /// Fills the header of a datagram with this many bytes of payload. `next_id` is given the number
    /// of packets that the device will make of it, and returns the first one's identification.
    pub fn of(
        out: &Outgoing<'_>,
        payload_bytes: usize,
        host: &HostFacts,
        next_id: impl FnOnce(u32) -> u16,
    ) -> Result<FilledHeader, DropReason> {
        if !host.net.is_host(out.destination) {
            return Err(DropReason::Destination);
        }
        let mut room = [0; MOST_OPTION_BYTES];
        let options_bytes = out.options.len().next_multiple_of(4);
        let options = room.get_mut(..options_bytes).ok_or(DropReason::BadOptions)?;
        if options_bytes > 0 {
            options[..out.options.len()].copy_from_slice(out.options);
            options::verify(options).map_err(|_| DropReason::BadOptions)?;
            options::update(options, host.net.address, ms_since_midnight())
                .map_err(|_| DropReason::BadOptions)?;
        }
        let total_bytes = LEAST_HEADER_BYTES + options_bytes + payload_bytes;
        if total_bytes > MOST_BYTES {
            return Err(DropReason::TooBig);
        }
        let packets = match out.offload {
            Offload::None => 1,
            _ if !host.offloads => return Err(DropReason::BadMessage),
            Offload::Checksum if total_bytes > host.mtu => return Err(DropReason::TooBig),
            Offload::Checksum => 1,
            Offload::Segments(segment_bytes) => payload_bytes.div_ceil(usize::from(segment_bytes)),
        };
        let header = Header {
            tos: out.tos,
            total_bytes: total_bytes as u16,
            id: next_id(packets as u32),
            dont_fragment: out.dont_fragment,
            more_fragments: false,
            offset_bytes: 0,
            ttl: out.ttl,
            protocol: out.protocol,
            source: host.net.address,
            destination: out.destination,
        };
        Ok(FilledHeader { header, room, options_bytes })
    }

    pub fn options(&self) -> &[u8] {
        &self.room[..self.options_bytes]
    }
}

/// Fills headers for a station.
#[derive(Debug)]
pub(crate) struct HeaderFiller {
    pub host: HostFacts,
    /// The identification of the next datagram.
    next_id: u16,
}

impl HeaderFiller {
    /// Creates it. `seed` keeps the identifications of two stations apart; only fragments need that,
    /// and the switch makes those (RFC 6864 4.1).
    pub fn new(host: HostFacts, seed: u32) -> HeaderFiller {
        HeaderFiller { host, next_id: (seed.wrapping_mul(0x9e37)) as u16 }
    }

    /// Writes the header of a datagram with this many bytes of payload; returns its length.
    ///
    /// Returns `None` where there can be no such datagram. The switch, which is asked to send it,
    /// finds and counts the reason.
    pub fn put(
        &mut self,
        out: &Outgoing<'_>,
        payload_bytes: usize,
        to: &mut [u8],
    ) -> Option<usize> {
        let id = &mut self.next_id;
        let next_id = |packets| std::mem::replace(id, id.wrapping_add(packets as u16));
        let filled = FilledHeader::of(out, payload_bytes, &self.host, next_id).ok()?;
        filled.header.emit(filled.options(), to)
    }
}
