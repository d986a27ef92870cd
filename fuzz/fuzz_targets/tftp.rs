//! A TFTP transfer whose other side sends anything at any time: nothing panics, what is received is
//! never more than was sent, and what is written is read as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_net::tftp::packet::{self, Mode, TftpPacket};
use weir_net::tftp::receiver::FileReceiver;
use weir_net::tftp::sender::{FileSender, TransferTerms};
use weir_net::tftp::{MOST_PACKET_BYTES, Patience};

/// Steps of a transfer: each takes a byte that says what happens, and what it needs.
fn transfer(terms: TransferTerms, steps: &[u8]) {
    let file = [b'\r'; 3000];
    let mut source = file.as_slice();
    let mut sender = FileSender::new(terms, None, 0);
    let mut receiver = FileReceiver::new(terms, None, 0);
    let (mut received, mut now_ns, mut packet) = (Vec::new(), 0_u64, Vec::new());
    let mut accepted = 0;
    for step in steps.chunks(4) {
        let [what, high, low, time] = [0, 1, 2, 3].map(|at| step.get(at).copied().unwrap_or(0));
        let block = u16::from_be_bytes([high, low]);
        now_ns += u64::from(time) << 22;
        match what % 5 {
            0 => sender.acknowledge(block, now_ns),
            1 => drop(sender.expire(now_ns)),
            2 => drop(receiver.expire(now_ns)),
            3 => {
                let bytes = vec![what; usize::from(low) * 4];
                accepted += bytes.len();
                let _ = receiver.take(block, &bytes, now_ns, &mut received);
            }
            _ => receiver.options_again(),
        }
        for _ in 0..4 {
            if sender.transmit(now_ns, &mut source, &mut packet).unwrap_or(false) {
                assert!(packet.len() <= MOST_PACKET_BYTES);
                assert!(matches!(TftpPacket::check(&packet), Some(TftpPacket::Data { .. })));
            }
            if receiver.transmit(now_ns, &mut packet) {
                assert!(matches!(TftpPacket::check(&packet), Some(TftpPacket::Ack { .. })));
            }
        }
        assert!(sender.flow.counts().bytes <= file.len() as u64);
        assert!(received.len() <= accepted);
    }
}

fuzz_target!(|bytes: &[u8]| {
    match TftpPacket::check(bytes) {
        Some(TftpPacket::Request(request)) => {
            let mut again = Vec::new();
            if packet::put_request(&mut again, &request) {
                assert_eq!(TftpPacket::check(&again), Some(TftpPacket::Request(request)));
            }
        }
        Some(TftpPacket::OptionAck(options)) => {
            let mut again = Vec::new();
            packet::put_option_ack(&mut again, &options);
            assert_eq!(TftpPacket::check(&again), Some(TftpPacket::OptionAck(options)));
        }
        _ => {}
    }
    if let [mode, block, window, steps @ ..] = bytes {
        let mode = if mode % 2 == 0 { Mode::Octet } else { Mode::Netascii };
        let (block_bytes, window) = (u16::from(*block) + 8, u16::from(*window) + 1);
        transfer(TransferTerms { mode, block_bytes, window, patience: Patience::default() }, steps);
    }
});
