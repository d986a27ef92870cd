//! Packets between smoltcp and a station: whole verified datagrams in, datagrams out. Both lie one
//! behind the other in one buffer, so that a packet costs no allocation.

use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// Most packets that wait to be sent before they are taken out.
const MOST_OUT: usize = 64;

/// Packets one behind the other.
#[derive(Debug, Default)]
struct Packets {
    bytes: Vec<u8>,
    ends: VecDeque<usize>,
    begin: usize,
}

impl Packets {
    fn push(&mut self, len: usize) -> &mut [u8] {
        let begin = self.bytes.len();
        self.bytes.resize(begin + len, 0);
        self.ends.push_back(begin + len);
        &mut self.bytes[begin..]
    }

    fn pop(&mut self) -> Option<&[u8]> {
        let end = self.ends.pop_front()?;
        let begin = std::mem::replace(&mut self.begin, end);
        Some(&self.bytes[begin..end])
    }

    fn clear_if_empty(&mut self) {
        if self.ends.is_empty() {
            self.bytes.clear();
            self.begin = 0;
        }
    }
}

/// The device that smoltcp sees.
#[derive(Debug)]
pub struct QueueDevice {
    mtu: usize,
    incoming: Packets,
    outgoing: Packets,
}

impl QueueDevice {
    /// A device whose packets are at most this long.
    pub fn new(mtu: u16) -> QueueDevice {
        let (incoming, outgoing) = (Packets::default(), Packets::default());
        QueueDevice { mtu: usize::from(mtu), incoming, outgoing }
    }

    /// Adds a packet that came.
    pub fn put(&mut self, packet: &[u8]) {
        self.incoming.clear_if_empty();
        self.incoming.push(packet.len()).copy_from_slice(packet);
    }

    /// Takes the packets that are to be sent; returns how many there were.
    pub fn take_each(&mut self, mut see: impl FnMut(&[u8])) -> usize {
        let count = self.outgoing.ends.len();
        while let Some(packet) = self.outgoing.pop() {
            see(packet);
        }
        self.outgoing.clear_if_empty();
        count
    }

    /// Returns the packet that is handled next.
    pub fn next_incoming(&self) -> Option<&[u8]> {
        let end = *self.incoming.ends.front()?;
        Some(&self.incoming.bytes[self.incoming.begin..end])
    }

    /// Whether packets that came wait to be handled.
    pub fn has_incoming(&self) -> bool {
        !self.incoming.ends.is_empty()
    }
}

/// A packet that came.
pub struct RxToken<'a>(&'a [u8]);

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// Room for a packet to send.
pub struct TxToken<'a>(&'a mut Packets);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        f(self.0.push(len))
    }
}

impl phy::Device for QueueDevice {
    type RxToken<'a> = RxToken<'a>;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _timestamp: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        if self.outgoing.ends.len() >= MOST_OUT {
            return None;
        }
        let packet = self.incoming.pop()?;
        Some((RxToken(packet), TxToken(&mut self.outgoing)))
    }

    fn transmit(&mut self, _timestamp: Instant) -> Option<TxToken<'_>> {
        (self.outgoing.ends.len() < MOST_OUT).then_some(TxToken(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        // What comes was checked, or needs no check (`SmolStack::take`).
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}
