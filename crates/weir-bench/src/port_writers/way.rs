//! The ways from many writers to one reader, behind one face: a message arrives whole, with the
//! number of its writer.
//!
//! A pipe, a socket and a queue carry that number and the length in 8 bytes before the message. The
//! port and the ring have headers of their own; a port numbers writers in the order in which it let
//! them in.

use crate::tools::channel::{Channel, Mechanism};
use crate::tools::own::{Records, Shape, Side, trouble};
use crate::tools::place::Place;
use crate::tools::ports::{self, Reading};
use crate::tools::ring::{Ring, RingReader, RingWriter};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    socket_with,
};
use std::sync::atomic::{AtomicU32, Ordering};
use weir::{PortWriter, Waiting};
use weir_measure::bench::case::CaseError;

/// The number of the writer and the length, where the way itself does not say them.
const HEADER_BYTES: usize = 8;
/// Writes of up to so much are never torn (`PIPE_BUF`).
const WHOLE_BYTES: usize = 4_096;
/// What a reader of a pipe takes at once: as much as it holds.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of the ring under the mutex: of 128 KiB to 4 MiB the best for 16 writers and more.
const RING_BYTES: usize = 512 << 10;
/// A record pipe of as many bytes as the ring of a port's writer has by default.
const AS_A_PORT: Shape = Shape { capacity_bytes: 256 << 10, ..Shape::DEFAULT };

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `weir::Port`.
    Port,
    /// `weir::records`: for one writer.
    Records,
    /// One `pipe(2)` that all write to, each message by one write.
    Pipe,
    /// One pair of `socketpair(2)`, `AF_UNIX`, sequenced packets, whose end all writers have.
    Seqpacket,
    /// A datagram socket with a name, and one of its own for each writer.
    Datagram,
    /// `mq_open(3)`.
    Queue,
    /// A ring under a robust mutex.
    Ring,
}

impl Way {
    /// Those that many writers can take. The first is what the others are compared with.
    pub const OF_MANY: [Way; 6] =
        [Way::Port, Way::Ring, Way::Pipe, Way::Seqpacket, Way::Datagram, Way::Queue];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Way::Port => "weir-port",
            Way::Records => "weir-record",
            Way::Pipe => "kernel-pipe",
            Way::Seqpacket => "unix-seqpacket",
            Way::Datagram => "unix-datagram",
            Way::Queue => "posix-mq",
            Way::Ring => "robust-ring",
        }
    }

    /// The longest message that it carries whole.
    pub fn most_bytes(self) -> u64 {
        if self == Way::Pipe { (WHOLE_BYTES - HEADER_BYTES) as u64 } else { u64::MAX }
    }
}

/// What is made before the fork.
#[derive(Debug)]
pub struct Line {
    kind: Kind,
    bytes: usize,
}

#[derive(Debug)]
enum Kind {
    Port(Place),
    Records(Box<Records>),
    Pipe(OwnedFd, OwnedFd),
    /// Packets, or a queue.
    Framed(Box<Channel>),
    Named(OwnedFd, SocketAddrUnix),
    Ring(Ring),
}

impl Line {
    /// Makes one for messages of `bytes`.
    ///
    /// # Errors
    /// The kernel lacks it, or its limits are below what is asked.
    pub fn new(way: Way, bytes: usize) -> Result<Line, CaseError> {
        let framed = |mechanism| {
            Channel::new(mechanism, HEADER_BYTES + bytes).map(|made| Kind::Framed(Box::new(made)))
        };
        let kind = match way {
            Way::Port => Kind::Port(Place::new()?),
            Way::Records => Kind::Records(Box::new(Records::new(AS_A_PORT)?)),
            Way::Pipe => {
                let (read, write) = rustix::pipe::pipe()?;
                Kind::Pipe(read, write)
            }
            Way::Seqpacket => framed(Mechanism::UnixSeqpacket)?,
            Way::Queue => framed(Mechanism::PosixMq)?,
            Way::Datagram => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                // Relaxed: only the numbers must differ. An abstract name leaves nothing behind.
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!("weir-bench-{}-{number}", std::process::id());
                let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
                let socket = datagram_socket()?;
                bind(&socket, &address)?;
                Kind::Named(socket, address)
            }
            Way::Ring => Kind::Ring(Ring::new(RING_BYTES)?),
        };
        Ok(Line { kind, bytes })
    }

    /// Every writer has sent something: names are not needed any more.
    pub fn settled(&self) {
        if let Kind::Port(place) = &self.kind {
            place.remove();
        }
    }

    /// The end of a writer, for the process that calls this.
    ///
    /// # Errors
    /// Those of the mechanism.
    pub fn writer(&self, number: u64) -> Result<WriterEnd<'_>, CaseError> {
        let mut framed = vec![0; HEADER_BYTES + self.bytes];
        framed[..4].copy_from_slice(&(number as u32).to_le_bytes());
        framed[4..HEADER_BYTES].copy_from_slice(&(self.bytes as u32).to_le_bytes());
        Ok(match &self.kind {
            Kind::Port(place) => WriterEnd::Port(Box::new(ports::open(place, Waiting::Adaptive)?)),
            Kind::Records(records) => {
                records.only(Side::Sends);
                WriterEnd::Records(records)
            }
            Kind::Pipe(_, end) => WriterEnd::Pipe(end.as_fd(), framed),
            Kind::Framed(channel) => WriterEnd::Framed(channel, framed),
            Kind::Named(_, address) => {
                let socket = datagram_socket()?;
                connect(&socket, address)?;
                WriterEnd::Named(socket, framed)
            }
            Kind::Ring(ring) => WriterEnd::Ring(ring.writer(number)),
        })
    }

    /// The end of the reader.
    ///
    /// # Errors
    /// Those of the mechanism.
    pub fn reader(&self) -> Result<ReaderEnd<'_>, CaseError> {
        let (plain, framed) = (vec![0; self.bytes], vec![0; HEADER_BYTES + self.bytes]);
        Ok(match &self.kind {
            Kind::Port(place) => {
                ReaderEnd::Port(Box::new(Reading::new(place, Waiting::Adaptive)?), plain)
            }
            Kind::Records(records) => {
                records.only(Side::Receives);
                ReaderEnd::Records(records, plain)
            }
            Kind::Pipe(end, _) => {
                let buffer = vec![0; PIPE_BYTES];
                ReaderEnd::Pipe(PipeReader { end: end.as_fd(), buffer, filled: 0 })
            }
            Kind::Framed(channel) => ReaderEnd::Framed(channel, framed),
            Kind::Named(end, _) => ReaderEnd::Packets(end.as_fd(), framed),
            Kind::Ring(ring) => ReaderEnd::Ring(ring.reader(), plain),
        })
    }
}

/// The end of a writer; the kernel's ways with a message behind its header.
pub enum WriterEnd<'l> {
    Port(Box<PortWriter>),
    Records(&'l Records),
    Pipe(BorrowedFd<'l>, Vec<u8>),
    Framed(&'l Channel, Vec<u8>),
    Named(OwnedFd, Vec<u8>),
    Ring(RingWriter<'l>),
}

impl WriterEnd<'_> {
    /// Sends a message, waiting for room.
    ///
    /// # Errors
    /// The reader is gone.
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

/// The end of the reader.
pub enum ReaderEnd<'l> {
    Port(Box<Reading>, Vec<u8>),
    Records(&'l Records, Vec<u8>),
    Pipe(PipeReader<'l>),
    Framed(&'l Channel, Vec<u8>),
    Packets(BorrowedFd<'l>, Vec<u8>),
    Ring(RingReader<'l>, Vec<u8>),
}

impl ReaderEnd<'_> {
    /// Waits for a message, takes out those that one call gives, and shows each with the number of
    /// its writer: how many.
    ///
    /// # Errors
    /// A message is not what its header says; the mechanism's.
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

/// Shows the one message of a buffer.
fn one(buffer: &[u8], bytes: usize, mut see: impl FnMut(usize, &[u8])) -> Result<u64, CaseError> {
    match take_off(buffer.get(..bytes).unwrap_or_default()) {
        Some((writer, message, [])) => {
            see(writer, message);
            Ok(1)
        }
        _ => Err(CaseError::failed("the length of a message differs from its header")),
    }
}

/// The first message of a buffer, its writer and what follows it; none if it is not all there.
fn take_off(buffer: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let (writer, rest) = buffer.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((u32::from_le_bytes(*writer) as usize, message, rest))
}

/// A pipe, of which as much is read at once as there is.
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
        for way in Way::OF_MANY {
            let line = match Line::new(way, 100) {
                Err(trouble) if trouble.left_out => continue,
                made => made.expect("a line"),
            };
            // Ends that are opened twice in one process stand for two processes.
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
