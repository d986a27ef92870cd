//! Messages between the switch and its stations: bytes are refused, or read to what is put as the
//! same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_net::message::{
    self, AttachRequest, Attached, FROM_STATION_BYTES, MessageHead, TO_STATION_BYTES,
};
use weir_net::outgoing::Outgoing;

/// A front and what follows it, as the switch reads them.
fn from_station(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first_chunk::<FROM_STATION_BYTES>() else { return };
    let Some(front) = MessageHead::check(first) else { return };
    assert!(front.options_bytes <= 40 && front.options_bytes.is_multiple_of(4));
    let Some((options, payload)) = rest.split_at_checked(front.options_bytes) else { return };
    let out = Outgoing { options, ..front.out };
    let mut again = Vec::new();
    message::put_send(&mut again, &out, payload);
    assert_eq!(again[0], message::from_station::SEND);
    assert_eq!(again[1..], bytes[1..]);
}

fuzz_target!(|bytes: &[u8]| {
    from_station(bytes);
    if let Some(request) = AttachRequest::check(bytes) {
        assert!(request.path.is_absolute() && request.wants.len() <= message::MOST_WANTS);
        assert_eq!(request.put()[FROM_STATION_BYTES..], *bytes);
    }
    if let Some(attached) = Attached::check(bytes) {
        assert_eq!(attached.put()[TO_STATION_BYTES..], *bytes);
    }
    if let Some(notice) = message::notice(bytes) {
        let again = message::put_notice(&notice);
        assert_eq!((&again[..18], &again[20..]), (&bytes[..18], &bytes[20..]));
        assert_eq!(message::notice(&again), Some(notice));
    }
    if let [what, pointer, ..] = *bytes
        && let Some(why) = message::why(what, pointer)
    {
        let (what_again, pointer_again) = message::put_why(why);
        assert_eq!(message::why(what_again, pointer_again), Some(why));
        assert_eq!(what_again, what);
    }
});
