//! Parser of the kernel's figures on a TCP connection (`struct tcp_info`).

use crate::bytes;
use crate::sys::socket::tcp_info;
use std::os::fd::OwnedFd;
use weir_doctor::facts::TcpSample;

/// Returns the figures of a TCP socket; `None` for another one.
pub fn sample(socket: &OwnedFd) -> Option<TcpSample> {
    let (info, length) = tcp_info(socket)?;
    parse(info.get(..length)?)
}

/// Parses the structure. Its later fields are missing in older kernels and then 0.
fn parse(info: &[u8]) -> Option<TcpSample> {
    let word = |at: usize| bytes::word(info, at).map_or(0, u64::from);
    let long = |at: usize| bytes::long(info, at).unwrap_or(0);
    let (us, ms) = (1_000, 1_000_000);
    // The last field that every kernel since Linux 4.9 has.
    const LEAST_BYTES: usize = 168;
    (info.len() >= LEAST_BYTES).then(|| TcpSample {
        unacked: word(24),
        unsent_bytes: word(144),
        silent_ns: word(52) * ms,
        rtt_ns: word(68) * us,
        // The largest value stands for "not measured yet".
        min_rtt_ns: Some(word(148)).filter(|rtt| *rtt < u64::from(u32::MAX)).unwrap_or(0) * us,
        receiver_rtt_ns: word(92) * us,
        own_window_bytes: word(232),
        received_bytes: long(128),
        acked_bytes: long(120),
        busy_ns: long(168).saturating_mul(us),
        far_window_ns: long(176).saturating_mul(us),
        own_buffer_ns: long(184).saturating_mul(us),
        sent_segments: word(156),
        came_segments: word(152),
        resent_segments: word(100),
        out_of_order: word(224),
        delivery_bytes_per_s: long(160),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_a_real_connection_moved_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut near =
            TcpStream::connect(listener.local_addr().expect("known")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        near.write_all(&[7; 5000]).expect("written");
        far.read_exact(&mut [0; 5000]).expect("read");
        far.write_all(&[7; 300]).expect("written");
        near.read_exact(&mut [0; 300]).expect("read");
        let look = sample(&OwnedFd::from(near)).expect("a connection");
        assert_eq!(
            (look.received_bytes, look.came_segments, look.sent_segments > 0),
            (300, 1, true)
        );
        assert!(look.acked_bytes >= 5000 && look.rtt_ns > 0 && look.rtt_ns < 1_000_000_000);
        assert!(look.min_rtt_ns > 0 && look.min_rtt_ns <= 1_000_000_000);
    }

    #[test]
    fn what_the_kernel_does_not_give_is_none_or_nothing() {
        assert_eq!(parse(&[]), None);
        assert_eq!(parse(&[0xff; 100]), None);
        let old = parse(&[0xff; 168]).expect("long enough");
        assert_eq!((old.busy_ns, old.own_window_bytes, old.out_of_order), (0, 0, 0));
        assert_eq!(old.min_rtt_ns, 0);
        assert!(parse(&[0xff; 256]).is_some());
    }
}
