//! One side of a transfer: it sends its file, or receives it.

use super::flow::TransferFlow;
use super::packet::TftpPacket;
use super::receiver::{FileReceiver, Sink};
use super::sender::{FileSender, Source};
use std::io;

/// One side of a transfer, and its file.
#[derive(Debug)]
pub enum FileSide<S, K> {
    Sends(Box<FileSender>, S),
    Receives(Box<FileReceiver>, K),
}

/// Why a packet stops a transfer.
#[derive(Debug)]
pub enum Stopped {
    /// The file cannot be written.
    File(io::Error),
    /// The packet has no place in the transfer.
    Misplaced,
    /// A block is longer than was agreed on.
    TooLong,
}

impl<S: Source, K: Sink> FileSide<S, K> {
    /// Takes a block or an acknowledgement.
    ///
    /// # Errors
    /// The transfer cannot continue.
    pub fn take(&mut self, packet: &TftpPacket<'_>, now_ns: u64) -> Result<(), Stopped> {
        match (self, packet) {
            (FileSide::Sends(sender, _), TftpPacket::Ack { block }) => {
                sender.acknowledge(*block, now_ns);
                Ok(())
            }
            (FileSide::Receives(receiver, sink), TftpPacket::Data { block, bytes }) => {
                match receiver.take(*block, bytes, now_ns, sink) {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(Stopped::TooLong),
                    Err(cause) => Err(Stopped::File(cause)),
                }
            }
            _ => Err(Stopped::Misplaced),
        }
    }

    /// Takes an acknowledgement of options that came again: ours of it was lost.
    pub fn options_again(&mut self) {
        if let FileSide::Receives(receiver, _) = self {
            receiver.options_again();
        }
    }

    /// Writes the next packet that is to be sent now over what `to` holds. Returns `false` where
    /// there is none.
    pub fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> io::Result<bool> {
        match self {
            FileSide::Sends(sender, source) => sender.transmit(now_ns, source, to),
            FileSide::Receives(receiver, _) => Ok(receiver.transmit(now_ns, to)),
        }
    }

    /// Notes the time. Returns `false` where the other side is given up.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        match self {
            FileSide::Sends(sender, _) => sender.expire(now_ns),
            FileSide::Receives(receiver, _) => receiver.expire(now_ns),
        }
    }

    /// Returns when to call [`FileSide::expire`] or [`FileSide::transmit`] at the latest.
    pub fn deadline_ns(&self) -> u64 {
        match self {
            FileSide::Sends(sender, _) => sender.deadline_ns(),
            FileSide::Receives(receiver, _) => receiver.deadline_ns(),
        }
    }

    /// Whether the whole file is acknowledged, or has come.
    pub fn is_done(&self) -> bool {
        match self {
            FileSide::Sends(sender, _) => sender.is_done(),
            FileSide::Receives(receiver, _) => receiver.is_done(),
        }
    }

    /// Whether there is something to send, now or after a pause.
    pub fn is_due(&self) -> bool {
        match self {
            FileSide::Sends(sender, _) => sender.is_due(),
            FileSide::Receives(receiver, _) => receiver.is_due(),
        }
    }

    /// Returns how it continues.
    pub fn flow(&self) -> &TransferFlow {
        match self {
            FileSide::Sends(sender, _) => &sender.flow,
            FileSide::Receives(receiver, _) => &receiver.flow,
        }
    }

    /// Returns how it continues, to note what happens.
    pub fn flow_mut(&mut self) -> &mut TransferFlow {
        match self {
            FileSide::Sends(sender, _) => &mut sender.flow,
            FileSide::Receives(receiver, _) => &mut receiver.flow,
        }
    }
}
