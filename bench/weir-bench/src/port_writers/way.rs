//! The mechanisms from many writers to one reader, as one type: a message arrives whole, with the
//! number of its writer.
//!
//! A pipe, a socket and a queue carry that number and the length in 8 bytes before the message. The
//! port and the ring have headers of their own; a port numbers writers in the order in which it
//! accepted them.

use crate::engine::case::CaseError;
use crate::tools::channel::{BenchChannel, Mechanism};
use crate::tools::own::{ChannelSide, PipeSettings, Records, trouble};
use crate::tools::place::PortDirectory;
use crate::tools::ports::{self, CheckedPort};
use crate::tools::ring::{MutexRing, MutexRingReader, MutexRingWriter};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    socket_with,
};
use std::sync::atomic::{AtomicU32, Ordering};
use weir::{PortWriter, Waiting};

/// The number of the writer and the length, for mechanisms that do not carry them.
const HEADER_BYTES: usize = 8;
/// Writes of up to this size are never torn (`PIPE_BUF`).
const WHOLE_BYTES: usize = 4_096;
/// Bytes of one read from a pipe: as much as it holds.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of the ring under the mutex: the best size of 128 KiB to 4 MiB for 16 writers and more.
const RING_BYTES: usize = 512 << 10;
/// A record pipe with the same capacity as the default ring of a port's writer.
const AS_A_PORT: PipeSettings = PipeSettings { capacity_bytes: 256 << 10, ..PipeSettings::DEFAULT };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FanIn {
    Port,
    /// `weir::records`, for one writer.
    Records,
    /// One `pipe(2)` to which all write, each message by one write.
    Pipe,
    /// One `socketpair(2)`, `AF_UNIX`, sequenced packets, whose end all writers share.
    Seqpacket,
    /// A named datagram socket, and one socket for each writer.
    Datagram,
    Queue,
    /// A ring under a robust mutex.
    Ring,
}

impl FanIn {
    /// The mechanisms for many writers. The others are compared with the first.
    pub const OF_MANY: [FanIn; 6] =
        [FanIn::Port, FanIn::Ring, FanIn::Pipe, FanIn::Seqpacket, FanIn::Datagram, FanIn::Queue];

    pub fn name(self) -> &'static str {
        match self {
            FanIn::Port => "weir-port",
            FanIn::Records => "weir-record",
            FanIn::Pipe => "kernel-pipe",
            FanIn::Seqpacket => "unix-seqpacket",
            FanIn::Datagram => "unix-datagram",
            FanIn::Queue => "posix-mq",
            FanIn::Ring => "robust-ring",
        }
    }

    /// Returns the length of the longest message that it carries whole.
    pub fn most_bytes(self) -> u64 {
        if self == FanIn::Pipe { (WHOLE_BYTES - HEADER_BYTES) as u64 } else { u64::MAX }
    }
}

/// The part that is made before the fork.
#[derive(Debug)]
pub struct FanInSetup {
    kind: FanInParts,
    bytes: usize,
}

#[derive(Debug)]
enum FanInParts {
    Port(PortDirectory),
    Records(Box<Records>),
    Pipe(OwnedFd, OwnedFd),
    /// Packets, or a queue.
    Framed(Box<BenchChannel>),
    Named(OwnedFd, SocketAddrUnix),
    Ring(MutexRing),
}

impl FanInSetup {
    pub fn new(way: FanIn, bytes: usize) -> Result<FanInSetup, CaseError> {
        let framed = |mechanism| {
            BenchChannel::new(mechanism, HEADER_BYTES + bytes)
                .map(|made| FanInParts::Framed(Box::new(made)))
        };
        let kind = match way {
            FanIn::Port => FanInParts::Port(PortDirectory::new()?),
            FanIn::Records => FanInParts::Records(Box::new(Records::new(AS_A_PORT)?)),
            FanIn::Pipe => {
                let (read, write) = rustix::pipe::pipe()?;
                FanInParts::Pipe(read, write)
            }
            FanIn::Seqpacket => framed(Mechanism::UnixSeqpacket)?,
            FanIn::Queue => framed(Mechanism::PosixMq)?,
            FanIn::Datagram => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                // Relaxed: the numbers only have to differ. An abstract name leaves nothing behind.
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("weir-bench-{}-{number}", std::process::id());
                let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                let socket = datagram_socket()?;
                bind(&socket, &address)?;
                FanInParts::Named(socket, address)
            }
            FanIn::Ring => FanInParts::Ring(MutexRing::new(RING_BYTES)?),
        };
        Ok(FanInSetup { kind, bytes })
    }

    /// Removes names that are not needed any more: every writer has sent something.
    pub fn settled(&self) {
        if let FanInParts::Port(place) = &self.kind {
            place.remove();
        }
    }

    /// Opens the end of a writer, for the calling process.
    pub fn writer(&self, number: u64) -> Result<WriterEnd<'_>, CaseError> {
        let mut framed = vec![0; HEADER_BYTES + self.bytes];
        framed[..4].copy_from_slice(&(number as u32).to_le_bytes());
        framed[4..HEADER_BYTES].copy_from_slice(&(self.bytes as u32).to_le_bytes());
        Ok(match &self.kind {
            FanInParts::Port(place) => {
                WriterEnd::Port(Box::new(ports::open(place, Waiting::Adaptive)?))
            }
            FanInParts::Records(records) => {
                records.only(ChannelSide::Sends);
                WriterEnd::Records(records)
            }
            FanInParts::Pipe(_, end) => WriterEnd::Pipe(end.as_fd(), framed),
            FanInParts::Framed(channel) => WriterEnd::Framed(channel, framed),
            FanInParts::Named(_, address) => {
                let socket = datagram_socket()?;
                connect(&socket, address)?;
                WriterEnd::Named(socket, framed)
            }
            FanInParts::Ring(ring) => WriterEnd::Ring(ring.writer(number)),
        })
    }

    pub fn reader(&self) -> Result<ReaderEnd<'_>, CaseError> {
        let (plain, framed) = (vec![0; self.bytes], vec![0; HEADER_BYTES + self.bytes]);
        Ok(match &self.kind {
            FanInParts::Port(place) => {
                ReaderEnd::Port(Box::new(CheckedPort::new(place, Waiting::Adaptive)?), plain)
            }
            FanInParts::Records(records) => {
                records.only(ChannelSide::Receives);
                ReaderEnd::Records(records, plain)
            }
            FanInParts::Pipe(end, _) => {
                let buffer = vec![0; PIPE_BYTES];
                ReaderEnd::Pipe(PipeReader { end: end.as_fd(), buffer, filled: 0 })
            }
            FanInParts::Framed(channel) => ReaderEnd::Framed(channel, framed),
            FanInParts::Named(end, _) => ReaderEnd::Packets(end.as_fd(), framed),
            FanInParts::Ring(ring) => ReaderEnd::Ring(ring.reader(), plain),
        })
    }
}

/// The end of a writer. For the kernel's mechanisms, a message with its header in front.
pub enum WriterEnd<'l> {
    Port(Box<PortWriter>),
    Records(&'l Records),
    Pipe(BorrowedFd<'l>, Vec<u8>),
    Framed(&'l BenchChannel, Vec<u8>),
    Named(OwnedFd, Vec<u8>),
    Ring(MutexRingWriter<'l>),
}

impl WriterEnd<'_> {
    /// Sends a message; waits for room.
    #[inline]
    pub fn send(&mut self, message: &[u8]) -> Result<(), CaseError> {
        let whole = |framed: &[u8], sent: usize| match sent == framed.len() {
            true => Ok(()),
            false => Err(CaseError::failed("a message was truncated")),
        };
        match self {
            WriterEnd::Port(writer) => writer.send(message).map_err(trouble),
            WriterEnd::Records(records) => records.send(message),
            WriterEnd::Pipe(end, framed) => {
                framed[HEADER_BYTES..].copy_from_slice(message);
                whole(framed, rustix::io::write(*end, framed)?)
            }
            WriterEnd::Framed(channel, framed) => {
                framed[HEADER_BYTES..].copy_from_slice(message);
                channel.send(framed)
            }
            WriterEnd::Named(end, framed) => {
                framed[HEADER_BYTES..].copy_from_slice(message);
                whole(framed, rustix::net::send(&*end, framed, SendFlags::empty())?)
            }
            WriterEnd::Ring(writer) => writer.send(message),
        }
    }
}

pub enum ReaderEnd<'l> {
    Port(Box<CheckedPort>, Vec<u8>),
    Records(&'l Records, Vec<u8>),
    Pipe(PipeReader<'l>),
    Framed(&'l BenchChannel, Vec<u8>),
    Packets(BorrowedFd<'l>, Vec<u8>),
    Ring(MutexRingReader<'l>, Vec<u8>),
}

impl ReaderEnd<'_> {
    /// Waits for a message, receives those that one call gives, and shows each with the number of
    /// its writer. Returns how many.
    #[inline]
    pub fn receive_each(&mut self, mut see: impl FnMut(usize, &[u8])) -> Result<u64, CaseError> {
        match self {
            ReaderEnd::Port(port, buffer) => port.receive_each(buffer, see),
            ReaderEnd::Records(records, buffer) => {
                records.receive_each(buffer, |message| see(0, message))
            }
            ReaderEnd::Pipe(pipe) => pipe.receive_each(see),
            ReaderEnd::Packets(end, buffer) => {
                let bytes = rustix::net::recv(*end, &mut **buffer, RecvFlags::empty())?.1;
                one(buffer, bytes, see)
            }
            ReaderEnd::Framed(channel, buffer) => {
                channel.receive(buffer)?;
                one(buffer, buffer.len(), see)
            }
            ReaderEnd::Ring(ring, buffer) => ring.receive_each(buffer, see),
        }
    }
}

fn datagram_socket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Shows the only message of a buffer.
fn one(buffer: &[u8], bytes: usize, mut see: impl FnMut(usize, &[u8])) -> Result<u64, CaseError> {
    match take_off(buffer.get(..bytes).unwrap_or_default()) {
        Some((writer, message, [])) => {
            see(writer, message);
            Ok(1)
        }
        _ => Err(CaseError::failed("the length of a message differs from its header")),
    }
}

/// Returns the writer, the first message of a buffer, and the rest; `None` if the message is
/// incomplete.
fn take_off(buffer: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (writer, rest) = buffer.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((u32::from_le_bytes(*writer) as usize, message, rest))
}

/// A pipe from which each read takes as much as is there.
pub struct PipeReader<'l> {
    end: BorrowedFd<'l>,
    buffer: Vec<u8>,
    filled: usize,
}

impl PipeReader<'_> {
    fn receive_each(&mut self, mut see: impl FnMut(usize, &[u8])) -> Result<u64, CaseError> {
        let room = &mut self.buffer[self.filled..];
        match retry_on_intr(|| rustix::io::read(self.end, &mut *room))? {
            0 => return Err(CaseError::failed("the other side ended")),
            bytes => self.filled += bytes,
        }
        let (mut rest, mut count) = (&self.buffer[..self.filled], 0);
        while let Some((writer, message, after)) = take_off(rest) {
            see(writer, message);
            (rest, count) = (after, count + 1);
        }
        let (begin, end) = (self.filled - rest.len(), self.filled);
        self.filled = rest.len();
        self.buffer.copy_within(begin..end, 0);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_brings_messages_whole_with_their_writer() {
        for way in FanIn::OF_MANY {
            let line = match FanInSetup::new(way, 100) {
                Err(trouble) if trouble.left_out => continue,
                made => made.expect("a line"),
            };
            // Two ends that are opened in one process stand for two processes.
            let mut reader = line.reader().expect("a reader");
            let mut ends = [0, 1].map(|number| line.writer(number).expect("a writer"));
            let (mut seen, mut sent) = (Vec::new(), Vec::new());
            for round in 0..3 {
                for (number, end) in ends.iter_mut().enumerate() {
                    let message = [round * 16 + number as u8; 100];
                    end.send(&message).expect("sent");
                    sent.push((number, message.to_vec()));
                }
            }
            while seen.len() < sent.len() {
                let see = |writer: usize, message: &[u8]| seen.push((writer, message.to_vec()));
                reader.receive_each(see).expect("received");
            }
            seen.sort_by_key(|(writer, message)| (*writer, message[0]));
            sent.sort_by_key(|(writer, message)| (*writer, message[0]));
            assert_eq!(seen, sent, "{way:?}");
        }
    }
}
