//! What holds for any bytes that are read as a packet: nothing panics, nothing is shown that was not
//! there, and what was taken can be written again. Of the tests here and of the fuzzer.

use std::net::Ipv4Addr;
use weir_net::wire::ipv4::{Datagram, MOST_OPTION_BYTES};
use weir_net::wire::options::{self, kind};
use weir_net::wire::{ports, udp};

/// Everything that reads bytes of a packet reads these.
pub fn read_all(bytes: &[u8]) {
    let range = bytes.as_ptr_range();
    let inside = |part: &[u8]| {
        let part = part.as_ptr_range();
        assert!(part.start >= range.start && part.end <= range.end);
    };
    read_options(&bytes[..bytes.len().min(60)]);
    let Ok(datagram) = Datagram::check(bytes) else { return };
    let header = datagram.header();
    [datagram.bytes(), datagram.options(), datagram.payload()].into_iter().for_each(inside);
    assert_eq!(datagram.bytes().len(), usize::from(header.total_bytes));
    assert_eq!(datagram.bytes().len(), 20 + datagram.options().len() + datagram.payload().len(),);
    assert!(usize::from(header.offset_bytes) + datagram.payload().len() <= 65_515);
    let mut again = [0; 60];
    let written = header.emit(datagram.options(), &mut again).unwrap();
    let mut expected = bytes[..written].to_vec();
    // The reserved flag is the only bit that is not kept.
    expected[6] &= 0x7f;
    expected[10..12].copy_from_slice(&again[10..12]);
    assert_eq!(again[..written], expected);
    Datagram::check(&[&again[..written], datagram.payload()].concat()).unwrap();
    read_options(datagram.options());
    assert_eq!(
        ports::of(header.protocol, datagram.payload()).is_some(),
        matches!(header.protocol, 6 | 17) && datagram.payload().len() >= 4,
    );
    if let Ok(user) = udp::UdpDatagram::check(header.source, header.destination, datagram.payload())
    {
        inside(user.payload());
        assert!(user.payload().len() + 8 <= datagram.payload().len());
    }
}

/// What holds for any options.
pub fn read_options(list: &[u8]) {
    let mut end = 0;
    for entry in options::each(list).map_while(Result::ok) {
        assert!(entry.at >= end && entry.bytes.len() >= 2);
        assert_eq!(entry.bytes, &list[entry.at..entry.at + entry.bytes.len()]);
        end = entry.at + entry.bytes.len();
    }
    assert!(end <= list.len().min(MOST_OPTION_BYTES));
    let verified = options::verify(list);
    if let Err(problem) = verified {
        assert!(usize::from(problem.pointer) < 20 + list.len().min(MOST_OPTION_BYTES));
    }
    let own = Ipv4Addr::new(10, 9, 8, 7);
    let mut updated = list.to_vec();
    let result = options::update(&mut updated, own, 1);
    for (at, (old, new)) in list.iter().zip(&updated).enumerate() {
        let touched = |entry: options::OptionEntry<'_>| {
            matches!(entry.kind, kind::RECORD_ROUTE | kind::TIMESTAMP)
                && (entry.at + 2..entry.at + entry.bytes.len()).contains(&at)
        };
        let honoured = || options::each(list).map_while(Result::ok).any(touched);
        assert!(old == new || honoured(), "byte {at} of {list:?}");
    }
    let mut out = [0; MOST_OPTION_BYTES];
    let reply = options::for_reply(list, &mut out);
    if let Ok(seen) = verified {
        assert!(result.is_ok_and(|()| options::verify(&updated) == Ok(seen)) || result.is_err());
        if let Err(problem) = result {
            assert_eq!(problem.reason, options::OptionFault::Overflow, "all else was verified");
        }
        let replied = options::verify(&out[..reply]).unwrap();
        assert_eq!(replied, options::OptionSummary { others: 0, ..seen });
        let copied = options::copied_on_fragments(list, &mut out);
        let wanted = options::each(list).map(Result::unwrap).filter(|entry| entry.kind >= 0x80);
        assert_eq!(options::each(&out[..copied]).count(), wanted.count());
    }
}
