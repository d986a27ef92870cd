//! Datagrams into fragments: as Linux makes them, and what is refused.

use crate::datagrams::{self, FIRST, LAST, bytes};
use weir_net::fragment::{FragmentError, Pieces};
use weir_net::wire::ipv4::{Datagram, Header, protocol};

fn header() -> Header {
    datagrams::header(0xb80c, protocol::UDP, [192, 0, 2, 1], [192, 0, 2, 2])
}

fn refused(
    header: Header,
    options: &[u8],
    payload_bytes: usize,
    mtu: usize,
) -> Option<FragmentError> {
    Pieces::new(header, options, payload_bytes, mtu).err()
}

#[test]
fn pieces_are_those_that_linux_makes() {
    let (first, last) = (bytes(FIRST), bytes(LAST));
    let payload = [&first[20..], &last[20..]].concat();
    let mut out = [0; 68];
    let mut written = Vec::new();
    for piece in Pieces::new(header(), &[], payload.len(), 68).unwrap() {
        let length = piece.emit(&payload, &mut out).unwrap();
        written.push(out[..length].to_vec());
        assert_eq!(piece.emit(&payload, &mut out[..length - 1]), None, "no room");
        assert_eq!(piece.emit(&[], &mut out), None, "another payload");
    }
    assert_eq!(written, [first, last]);
}

#[test]
fn what_fits_is_one_piece_as_it_is() {
    let header = Header { dont_fragment: true, ..header() };
    let pieces: Vec<_> = Pieces::new(header, &[1; 3], 44, 68).unwrap().collect();
    assert_eq!(pieces.len(), 1);
    assert_eq!(pieces[0].header, Header { total_bytes: 68, ..header });
    assert_eq!((pieces[0].payload.clone(), &*pieces[0].options), (0..44, &[1; 3][..]));
    let empty: Vec<_> = Pieces::new(header, &[], 0, 68).unwrap().collect();
    assert_eq!((empty.len(), empty[0].header.total_bytes), (1, 20));
}

/// The longest header leaves 8 bytes of the smallest MTU; the others have none of its options.
#[test]
fn the_longest_header_goes_through_the_smallest_mtu() {
    let route = [7, 39, 4].into_iter().chain([0; 37]).collect::<Vec<u8>>();
    let pieces: Vec<_> = Pieces::new(header(), &route, 100, 68).unwrap().collect();
    let ranges: Vec<_> = pieces.iter().map(|piece| piece.payload.clone()).collect();
    assert_eq!(ranges, [0..8, 8..56, 56..100]);
    assert!(pieces[1].options.is_empty());
    let payload = [9; 100];
    for piece in pieces {
        let mut out = [0; 68];
        let length = piece.emit(&payload, &mut out).unwrap();
        let datagram = Datagram::check(&out[..length]).unwrap();
        assert_eq!(datagram.payload().len(), piece.payload.len());
    }
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    let kept = Header { dont_fragment: true, ..header() };
    assert_eq!(refused(kept, &[], 49, 68), Some(FragmentError::DontFragment));
    assert_eq!(refused(kept, &[], 48, 68), None);
    assert_eq!(refused(header(), &[], 1, 67), Some(FragmentError::Mtu));
    assert_eq!(refused(header(), &[1; 41], 1, 1500), Some(FragmentError::Options));
    assert_eq!(refused(header(), &[], 65_516, 1500), Some(FragmentError::TooLong));
    assert_eq!(refused(header(), &[], 65_515, 1500), None);
    assert_eq!(refused(header(), &[1], 65_512, 1500), Some(FragmentError::TooLong));
    let middle = Header { more_fragments: true, offset_bytes: 800, ..header() };
    assert_eq!(refused(middle, &[], 800, 68), None);
    assert_eq!(refused(middle, &[], 801, 68), Some(FragmentError::Fragment));
    assert_eq!(refused(middle, &[], 0, 68), Some(FragmentError::Fragment));
    assert_eq!(
        refused(Header { offset_bytes: 4, ..header() }, &[], 8, 68),
        Some(FragmentError::Fragment)
    );
    let far = Header { offset_bytes: 65_512, ..header() };
    assert_eq!(refused(far, &[], 4, 68), Some(FragmentError::TooLong));
    assert_eq!(refused(far, &[], 3, 68), None);
}
