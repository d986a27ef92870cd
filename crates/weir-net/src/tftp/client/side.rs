//! What a client does with its file: it sends it, or receives it.

use super::super::flow::TransferFlow;
use super::super::packet::TftpPacket;
use super::super::receiver::{FileReceiver, Sink};
use super::super::sender::{FileSender, Source, TransferTerms};
use std::io;

/// The side of the client: what it does with the file.
pub trait Side {
    /// Begins, where the server has said this first.
    fn begin(&mut self, terms: TransferTerms, is_option_ack: bool, now_ns: u64);
    fn take(&mut self, packet: &TftpPacket<'_>, now_ns: u64) -> std::result::Result<(), Stopped>;
    fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> io::Result<bool>;
    fn expire(&mut self, now_ns: u64) -> bool;
    fn deadline_ns(&self) -> u64;
    fn is_done(&self) -> bool;
    fn is_due(&self) -> bool;
    fn flow(&self) -> Option<&TransferFlow>;
    fn flow_mut(&mut self) -> Option<&mut TransferFlow>;
}

/// Why a transfer stops.
pub enum Stopped {
    File(io::Error),
    Illegal,
}

pub struct Put<'a> {
    pub source: &'a mut dyn Source,
    pub sender: Option<FileSender>,
}

pub struct Get<'a> {
    pub sink: &'a mut dyn Sink,
    pub receiver: Option<FileReceiver>,
}

impl Side for Put<'_> {
    fn begin(&mut self, terms: TransferTerms, _is_option_ack: bool, now_ns: u64) {
        self.sender = Some(FileSender::new(terms, None, now_ns));
    }

    fn take(&mut self, packet: &TftpPacket<'_>, now_ns: u64) -> std::result::Result<(), Stopped> {
        match (packet, &mut self.sender) {
            (TftpPacket::Ack { block }, Some(sender)) => sender.acknowledge(*block, now_ns),
            (TftpPacket::OptionAck(_), _) => {}
            _ => return Err(Stopped::Illegal),
        }
        Ok(())
    }

    fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> io::Result<bool> {
        let Put { source, sender } = self;
        sender.as_mut().map_or(Ok(false), |sender| sender.transmit(now_ns, *source, to))
    }

    fn expire(&mut self, now_ns: u64) -> bool {
        self.sender.as_mut().is_none_or(|sender| sender.expire(now_ns))
    }

    fn deadline_ns(&self) -> u64 {
        self.sender.as_ref().map_or(u64::MAX, FileSender::deadline_ns)
    }

    fn is_done(&self) -> bool {
        self.sender.as_ref().is_some_and(FileSender::is_done)
    }

    fn flow(&self) -> Option<&TransferFlow> {
        self.sender.as_ref().map(|sender| &sender.flow)
    }

    fn flow_mut(&mut self) -> Option<&mut TransferFlow> {
        self.sender.as_mut().map(|sender| &mut sender.flow)
    }

    fn is_due(&self) -> bool {
        self.sender.as_ref().is_some_and(FileSender::is_due)
    }
}

impl Side for Get<'_> {
    fn begin(&mut self, terms: TransferTerms, is_option_ack: bool, now_ns: u64) {
        self.receiver = Some(match is_option_ack {
            true => FileReceiver::new(terms, None, now_ns),
            false => FileReceiver::of_first_block(terms, now_ns),
        });
    }

    fn take(&mut self, packet: &TftpPacket<'_>, now_ns: u64) -> std::result::Result<(), Stopped> {
        match (packet, &mut self.receiver) {
            (TftpPacket::Data { block, bytes }, Some(receiver)) => {
                match receiver.take(*block, bytes, now_ns, self.sink) {
                    Ok(false) => Ok(()),
                    Ok(true) => Err(Stopped::Illegal),
                    Err(cause) => Err(Stopped::File(cause)),
                }
            }
            (TftpPacket::OptionAck(_), Some(receiver)) => {
                receiver.options_again();
                Ok(())
            }
            _ => Err(Stopped::Illegal),
        }
    }

    fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> io::Result<bool> {
        Ok(self.receiver.as_mut().is_some_and(|receiver| receiver.transmit(now_ns, to)))
    }

    fn expire(&mut self, now_ns: u64) -> bool {
        self.receiver.as_mut().is_none_or(|receiver| receiver.expire(now_ns))
    }

    fn deadline_ns(&self) -> u64 {
        self.receiver.as_ref().map_or(u64::MAX, FileReceiver::deadline_ns)
    }

    fn is_done(&self) -> bool {
        self.receiver.as_ref().is_some_and(FileReceiver::is_done)
    }

    fn flow(&self) -> Option<&TransferFlow> {
        self.receiver.as_ref().map(|receiver| &receiver.flow)
    }

    fn flow_mut(&mut self) -> Option<&mut TransferFlow> {
        self.receiver.as_mut().map(|receiver| &mut receiver.flow)
    }

    fn is_due(&self) -> bool {
        self.receiver.as_ref().is_some_and(FileReceiver::is_due)
    }
}
