//! Long segments of UDP from a sender on this machine, which has left to the device to cut them
//! (UDP_SEGMENT of udp(7)): here they come uncut.

use crate::wire::ipv4::{Datagram, Header, protocol};
use crate::wire::udp;
use std::ops::Range;

/// Cuts a packet into datagrams that carry `segment_bytes` each, the last one maybe less. Each is put
/// into `room` behind `front` bytes, its checksum of UDP left out, and passed to `each`. Returns
/// false, without a call, if it is not a sound datagram of UDP.
pub fn cut(
    packet: &[u8],
    segment_bytes: u16,
    front: usize,
    room: &mut Vec<u8>,
    mut each: impl FnMut(&mut [u8], Range<usize>),
) -> bool {
    let Ok(long) = Datagram::check(packet) else { return false };
    let (header, payload) = (long.header(), long.payload());
    let is_udp = header.protocol == protocol::UDP && !long.is_fragment();
    let Some((ports, data)) = payload.split_at_checked(udp::HEADER_BYTES) else { return false };
    if !is_udp || segment_bytes == 0 {
        return false;
    }
    for (number, data) in data.chunks(usize::from(segment_bytes)).enumerate() {
        let above = udp::HEADER_BYTES + data.len();
        // No longer than the packet that came, so both lengths fit.
        let total_bytes = (long.header_bytes() + above) as u16;
        let id = header.id.wrapping_add(number as u16);
        room.clear();
        room.resize(front + usize::from(total_bytes), 0);
        let cut = Header { total_bytes, id, ..header };
        let Some(emitted) = cut.emit(long.options(), &mut room[front..]) else { return false };
        let to = &mut room[front + emitted..];
        to[..4].copy_from_slice(&ports[..4]);
        to[4..6].copy_from_slice(&(above as u16).to_be_bytes());
        to[udp::HEADER_BYTES..].copy_from_slice(data);
        let end = room.len();
        each(room, front..end);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::udp::UdpDatagram;

    /// A packet of UDP with these data, and what it is cut into.
    fn pieces(data: &[u8], segment_bytes: u16, protocol: u8) -> Option<Vec<Vec<u8>>> {
        let header = Header {
            total_bytes: (28 + data.len()) as u16,
            id: 0xffff,
            ttl: 64,
            protocol,
            source: [10, 9, 0, 1].into(),
            destination: [10, 9, 0, 2].into(),
            tos: 0,
            dont_fragment: true,
            more_fragments: false,
            offset_bytes: 0,
        };
        let mut packet = vec![0; usize::from(header.total_bytes)];
        header.emit(&[], &mut packet).expect("room");
        let length = (8 + data.len()) as u16;
        packet[20..24].copy_from_slice(&[0x10, 0, 0, 69]);
        packet[24..26].copy_from_slice(&length.to_be_bytes());
        packet[28..].copy_from_slice(data);
        let (mut room, mut cut) = (Vec::new(), Vec::new());
        let is_cut = super::cut(&packet, segment_bytes, 5, &mut room, |room, range| {
            cut.push(room[range].to_vec());
        });
        is_cut.then_some(cut)
    }

    #[test]
    fn each_piece_is_a_sound_datagram_and_together_they_are_the_data() {
        let data: Vec<u8> = (0..250).collect();
        let pieces = pieces(&data, 100, protocol::UDP).expect("cut");
        let mut together = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let datagram = Datagram::check(piece).expect("sound");
            assert_eq!(datagram.header().id, 0xffff_u16.wrapping_add(number as u16));
            let udp = UdpDatagram::check_length(datagram.payload()).expect("sound");
            assert_eq!((udp.source_port(), udp.destination_port()), (0x1000, 69));
            together.extend_from_slice(udp.payload());
        }
        assert_eq!((pieces.len(), together), (3, data));
    }

    #[test]
    fn what_is_no_long_segment_of_udp_is_not_cut() {
        assert_eq!(pieces(&[1; 200], 100, protocol::TCP), None);
        assert_eq!(pieces(&[1; 200], 0, protocol::UDP), None);
    }
}
