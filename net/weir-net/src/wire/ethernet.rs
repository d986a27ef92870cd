//! Frames of Ethernet with IP or ARP in them (RFC 894).

use std::fmt;

/// Bytes of the header: destination, source, type.
pub const HEADER_BYTES: usize = 14;
/// The type of a frame with a packet of IP version 4.
pub const IPV4: u16 = 0x0800;
/// The type of a frame with a message of ARP.
pub const ARP: u16 = 0x0806;

/// The address of a device on Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// All devices on the wire.
    pub const BROADCAST: MacAddress = MacAddress([0xff; 6]);
    /// No address: of who is asked for.
    pub const NONE: MacAddress = MacAddress([0; 6]);

    /// Whether it stands for several devices.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether it can be one device's.
    pub fn is_device(self) -> bool {
        !self.is_group() && self != MacAddress::NONE
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, last] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Who is to take it.
    pub destination: MacAddress,
    /// Who sends it.
    pub source: MacAddress,
    /// What is in it: [`IPV4`], [`ARP`] or anything else.
    pub kind: u16,
}

impl FrameHeader {
    /// Reads it; `None` if the frame is too short.
    pub fn check(frame: &[u8]) -> Option<FrameHeader> {
        let header = frame.first_chunk::<HEADER_BYTES>()?;
        let address = |at: usize| MacAddress(std::array::from_fn(|byte| header[at + byte]));
        let kind = u16::from_be_bytes([header[12], header[13]]);
        Some(FrameHeader { destination: address(0), source: address(6), kind })
    }

    /// Writes it.
    pub fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..6].copy_from_slice(&self.destination.0);
        header[6..12].copy_from_slice(&self.source.0);
        header[12..].copy_from_slice(&self.kind.to_be_bytes());
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_is_written_is_read() {
        let [destination, source] = [MacAddress::BROADCAST, MacAddress([2, 0, 0, 0, 0, 9])];
        let header = FrameHeader { destination, source, kind: ARP };
        assert_eq!(FrameHeader::check(&header.emit()), Some(header));
        assert_eq!(FrameHeader::check(&header.emit()[..13]), None);
        assert_eq!(source.to_string(), "02:00:00:00:00:09");
        assert!(source.is_device() && !destination.is_device() && !MacAddress::NONE.is_device());
    }
}
