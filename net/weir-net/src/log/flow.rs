//! Changes of transfers and connections.

use super::format;
use crate::stalls::WaitedSide;
use serde::Serialize;
use std::net::Ipv4Addr;

/// What happened to a transfer or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum FlowChange {
    /// It began, with these terms.
    Began {
        /// Bytes of a block, or of a full segment.
        block_bytes: u16,
        /// Blocks of a window, where there are such.
        window: u16,
    },
    /// It came to its end after this many bytes of data.
    Ended {
        /// Bytes of data, each counted once.
        bytes: u64,
    },
    /// It failed after this many bytes of data.
    Failed {
        /// Bytes of data, each counted once.
        bytes: u64,
    },
    /// Something was sent again.
    Again {
        /// The number of the first block or byte.
        from: u64,
    },
    /// Nothing has moved for a while.
    Stalled {
        /// The side that is waited for.
        waits_for: WaitedSide,
    },
}

/// A change of a transfer or a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowEvent {
    /// What happened.
    #[serde(flatten)]
    pub change: FlowChange,
    /// Its protocol.
    #[serde(flatten, serialize_with = "format::put_protocol")]
    pub protocol: u8,
    /// Our port.
    pub port: u16,
    /// The other side's address.
    #[serde(rename = "target")]
    pub remote: Ipv4Addr,
    /// The other side's port.
    #[serde(rename = "target_port")]
    pub remote_port: u16,
}

impl FlowEvent {
    /// Returns the number of the change, and two words with the rest except the protocol.
    #[inline]
    pub(crate) fn words(&self) -> (u8, [u64; 2]) {
        let (what, value) = match self.change {
            FlowChange::Began { block_bytes, window } => {
                (0, u64::from(block_bytes) << 16 | u64::from(window))
            }
            FlowChange::Ended { bytes } => (1, bytes),
            FlowChange::Failed { bytes } => (2, bytes),
            FlowChange::Again { from } => (3, from),
            FlowChange::Stalled { waits_for } => (4, waits_for as u64),
        };
        let ports = u64::from(self.remote_port) << 16 | u64::from(self.port);
        let word = u64::from(self.remote.to_bits()) << 32 | ports;
        (what, [word, value])
    }

    /// Reads what [`FlowEvent::words`] returned; `None` if it is not valid.
    pub(crate) fn of_words(what: u8, protocol: u8, [word, value]: [u64; 2]) -> Option<FlowEvent> {
        let change = match what {
            0 => FlowChange::Began { block_bytes: (value >> 16) as u16, window: value as u16 },
            1 => FlowChange::Ended { bytes: value },
            2 => FlowChange::Failed { bytes: value },
            3 => FlowChange::Again { from: value },
            4 => FlowChange::Stalled {
                waits_for: *WaitedSide::ALL.get(usize::try_from(value).ok()?)?,
            },
            _ => return None,
        };
        Some(FlowEvent {
            change,
            protocol,
            port: word as u16,
            remote: Ipv4Addr::from_bits((word >> 32) as u32),
            remote_port: (word >> 16) as u16,
        })
    }
}
