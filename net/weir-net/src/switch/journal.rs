//! Counts events of the switch and writes them to the log. Each call checks the mask first: an
//! event that is not logged costs one load.

use super::payload::Payload;
use crate::counts::SwitchCounts;
use crate::drop_reason::DropReason;
use crate::log::{
    Direction, Dropped, EventReason, FailureEvent, Kinds, Log, Packet, StationChange, StationEvent,
    Transaction, Transport,
};
use crate::message::Want;
use crate::outgoing::Outgoing;
use crate::wire::ipv4::{Header, LEAST_HEADER_BYTES};
use std::net::Ipv4Addr;
use std::sync::OnceLock;

/// Payload bytes that a transaction needs.
const TOLD_BYTES: usize = 8;

/// The counters, and the log if there is one.
#[derive(Debug, Default)]
pub struct Journal {
    pub counts: SwitchCounts,
    pub log: OnceLock<Log>,
}

impl Journal {
    /// Records a packet that came from the device.
    #[inline]
    pub fn log_in(&self, packet: &[u8]) {
        if let Some(log) = self.log.get() {
            log.packet(Direction::In, packet);
            if log.wants(Kinds::TRANSACTIONS) {
                weir_profile::charge_now();
            }
        }
    }

    /// Records an outgoing datagram: its header, options and payload.
    #[inline]
    pub fn log_out(&self, header: &Header, options: &[u8], payload: &Payload<'_>) {
        let Some(log) = self.log.get() else { return };
        if log.wants(Kinds::TRANSACTIONS) {
            let mut above = [0; TOLD_BYTES];
            let above = &mut above[..payload.len().min(TOLD_BYTES)];
            payload.copy_to(above);
            let packet = Packet::of_parts(header, above);
            log.transaction(&Transaction { direction: Direction::Out, packet });
        }
        if log.wants(Kinds::DUMPS_OUT) {
            let mut whole = vec![0; usize::from(header.total_bytes)];
            let Some(head) = header.emit(options, &mut whole) else { return };
            payload.copy_to(&mut whole[head..]);
            log.dump_out(&whole);
        }
    }

    /// Counts and logs a received packet that is dropped.
    #[inline]
    pub fn drop_in(&self, why: DropReason, packet: &[u8]) {
        self.counts.drop(why);
        if let Some(log) = self.log.get().filter(|log| log.wants(Kinds::DROPS)) {
            log.dropped(&Dropped { reason: why.into(), packet: Packet::of(packet) });
            weir_profile::charge_now();
        }
    }

    /// Counts and logs a station's datagram that is dropped.
    pub fn drop_out(
        &self,
        why: DropReason,
        source: Ipv4Addr,
        out: &Outgoing<'_>,
        payload: &Payload<'_>,
    ) {
        self.counts.drop(why);
        let Some(log) = self.log.get().filter(|log| log.wants(Kinds::DROPS)) else { return };
        let total_bytes = LEAST_HEADER_BYTES + out.options.len() + payload.len();
        let packet = Packet {
            source,
            target: out.destination,
            protocol: out.protocol,
            transport: Transport::None { id: 0 },
            length_bytes: u16::try_from(total_bytes).unwrap_or(u16::MAX),
        };
        log.dropped(&Dropped { reason: why.into(), packet });
    }

    /// Records that the device refused a packet.
    #[cold]
    pub fn log_refusal(&self, cause: &std::io::Error) {
        if let Some(log) = self.log.get() {
            let nobody = Ipv4Addr::UNSPECIFIED;
            log.error(&FailureEvent {
                reason: EventReason::SYSTEM,
                protocol: 0,
                source: nobody,
                target: nobody,
                value: cause.raw_os_error().unwrap_or(0).cast_unsigned(),
            });
        }
    }

    /// Records that a station came or went: an event for each protocol and port that it has or
    /// wants.
    pub fn log_station(&self, change: StationChange, pid: i32, wants: &[Want]) {
        let Some(log) = self.log.get() else { return };
        for want in wants {
            log.station(&StationEvent {
                change,
                pid: pid.cast_unsigned(),
                protocol: want.protocol,
                port: want.port.unwrap_or(0),
            });
        }
    }
}
