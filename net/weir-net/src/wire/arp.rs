//! Messages of ARP that ask for, or tell, the Ethernet address of an address of IP (RFC 826).

use super::ethernet::{IPV4, MacAddress};
use std::net::Ipv4Addr;

/// Bytes of a message.
pub const ARP_BYTES: usize = 28;
/// The hardware and the lengths of addresses in each message: Ethernet and IP version 4.
const FORM: [u8; 6] = [0, 1, IPV4.to_be_bytes()[0], IPV4.to_be_bytes()[1], 6, 4];

/// What a message wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To know where its target is.
    Request = 1,
    /// To tell where its sender is.
    Reply = 2,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpMessage {
    /// What it wants.
    pub operation: Operation,
    /// Who sends it, on Ethernet.
    pub sender_at: MacAddress,
    /// Who sends it. Zero: somebody who asks whether an address is free (RFC 5227).
    pub sender: Ipv4Addr,
    /// Whom it is for, on Ethernet.
    pub target_at: MacAddress,
    /// Whom it is about.
    pub target: Ipv4Addr,
}

impl ArpMessage {
    /// Reads a message, behind which a link may have padded. `None`: it is short, not of Ethernet
    /// and IP version 4, neither asks nor tells, or its sender cannot be one device.
    pub fn check(bytes: &[u8]) -> Option<ArpMessage> {
        let bytes = bytes.first_chunk::<ARP_BYTES>()?;
        let operation = match bytes[6..8] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return None,
        };
        let mac = |at: usize| MacAddress(std::array::from_fn(|byte| bytes[at + byte]));
        let ip = |at: usize| Ipv4Addr::from(std::array::from_fn(|byte| bytes[at + byte]));
        let (sender_at, target_at) = (mac(8), mac(18));
        let is_sound = bytes[..6] == FORM && sender_at.is_device();
        is_sound.then(|| ArpMessage {
            operation,
            sender_at,
            sender: ip(14),
            target_at,
            target: ip(24),
        })
    }

    /// Writes it.
    pub fn emit(&self) -> [u8; ARP_BYTES] {
        let mut bytes = [0; ARP_BYTES];
        bytes[..6].copy_from_slice(&FORM);
        bytes[7] = self.operation as u8;
        bytes[8..14].copy_from_slice(&self.sender_at.0);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_at.0);
        bytes[24..].copy_from_slice(&self.target.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: ArpMessage = ArpMessage {
        operation: Operation::Request,
        sender_at: MacAddress([2, 0, 0, 0, 0, 1]),
        sender: Ipv4Addr::new(10, 9, 0, 1),
        target_at: MacAddress::NONE,
        target: Ipv4Addr::new(10, 9, 0, 2),
    };

    #[test]
    fn a_message_of_linux_is_read_and_written() {
        let of_linux =
            [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2];
        assert_eq!(ArpMessage::check(&of_linux), Some(MESSAGE));
        assert_eq!(MESSAGE.emit(), of_linux);
        let padded = [&of_linux[..], &[0; 18]].concat();
        assert_eq!(ArpMessage::check(&padded), Some(MESSAGE));
    }

    #[test]
    fn what_is_no_message_of_one_device_is_refused() {
        let sound = MESSAGE.emit();
        assert_eq!(ArpMessage::check(&sound[..ARP_BYTES - 1]), None);
        // The hardware, the protocol, both lengths, the operation, a sender that is a group.
        for (at, byte) in [(1, 6), (2, 0x86), (4, 8), (5, 16), (7, 3), (6, 1), (8, 3)] {
            let mut wrong = sound;
            wrong[at] = byte;
            assert_eq!(ArpMessage::check(&wrong), None, "byte {at}");
        }
        let nobody = ArpMessage { sender_at: MacAddress::NONE, ..MESSAGE };
        assert_eq!(ArpMessage::check(&nobody.emit()), None);
    }
}
