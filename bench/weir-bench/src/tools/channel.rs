//! Mechanisms that carry bytes, of the kernel and of weir, as one type.

use super::mpxes::LazyMpx;
use super::own::{self, ChannelSide, PipeSettings};
use super::pattern::Pattern;
use super::ports::LazyPort;
use crate::engine::case::CaseError;
use crate::sys::mq::Queue;
use rustix::fd::OwnedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use weir::Waiting;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// `pipe(2)` with this capacity in bytes; 0 for the kernel's default.
    Pipe(u64),
    /// `socketpair(2)`, `AF_UNIX`, stream.
    UnixStream,
    /// `socketpair(2)`, `AF_UNIX`, sequenced packets.
    UnixSeqpacket,
    PosixMq,
    WeirPipe(PipeSettings),
    WeirRecord(PipeSettings),
    /// A channel of a `weir_mpx::Mpx`.
    WeirMpx,
    /// `weir::Port`, whose writers wait in this way.
    WeirPort(Waiting),
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Pipe(_) => "kernel-pipe",
            Mechanism::UnixStream => "unix-stream",
            Mechanism::UnixSeqpacket => "unix-seqpacket",
            Mechanism::PosixMq => "posix-mq",
            Mechanism::WeirPipe(_) => "weir-pipe",
            Mechanism::WeirRecord(_) => "weir-record",
            Mechanism::WeirMpx => "weir-mpx",
            Mechanism::WeirPort(_) => "weir-port",
        }
    }

    /// Returns the capacity that it was given, if any.
    pub const fn pipe_bytes(self) -> Option<u64> {
        let bytes = match self {
            Mechanism::Pipe(bytes) => bytes,
            Mechanism::WeirPipe(shape) | Mechanism::WeirRecord(shape) => shape.capacity_bytes,
            _ => 0,
        };
        if bytes == 0 { None } else { Some(bytes) }
    }

    /// Returns the segment size that it was given, if any.
    pub fn segment_bytes(self) -> Option<u64> {
        match self {
            Mechanism::WeirPipe(shape) | Mechanism::WeirRecord(shape) => {
                Some(shape.segment_bytes).filter(|bytes| *bytes > 0)
            }
            _ => None,
        }
    }
}

/// Number of records that a queue holds: the kernel's default limit.
const QUEUE_RECORDS: usize = 10;

/// Both ends of one direction of a mechanism.
#[derive(Debug)]
pub enum BenchChannel {
    /// A pipe or a stream: the end to read from, the end to write to.
    Stream(OwnedFd, OwnedFd),
    /// Sequenced packets: the end to receive from, the end to send to.
    Packets(OwnedFd, OwnedFd),
    Queue(Queue),
    Own(own::OwnStream),
    Records(own::Records),
    Port(Box<LazyPort>),
    Mpx(Box<LazyMpx>),
}

impl BenchChannel {
    /// Makes a channel for chunks of at most `chunk_bytes`.
    pub fn new(mechanism: Mechanism, chunk_bytes: usize) -> Result<BenchChannel, CaseError> {
        let pair =
            |kind| rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        match mechanism {
            Mechanism::Pipe(bytes) => {
                let (read, write) = rustix::pipe::pipe()?;
                if bytes > 0 {
                    set_pipe_bytes(&write, bytes)?;
                }
                Ok(BenchChannel::Stream(read, write))
            }
            Mechanism::UnixStream => {
                let (read, write) = pair(SocketType::STREAM)?;
                Ok(BenchChannel::Stream(read, write))
            }
            Mechanism::UnixSeqpacket => {
                let (read, write) = pair(SocketType::SEQPACKET)?;
                Ok(BenchChannel::Packets(read, write))
            }
            Mechanism::WeirPipe(shape) => Ok(BenchChannel::Own(own::OwnStream::new(shape)?)),
            Mechanism::WeirRecord(shape) => Ok(BenchChannel::Records(own::Records::new(shape)?)),
            Mechanism::WeirMpx => Ok(BenchChannel::Mpx(Box::new(LazyMpx::new()?))),
            Mechanism::WeirPort(waiting) => {
                Ok(BenchChannel::Port(Box::new(LazyPort::new(waiting)?)))
            }
            Mechanism::PosixMq => Queue::new(QUEUE_RECORDS, chunk_bytes)
                .map(BenchChannel::Queue)
                .map_err(|error| CaseError::left_out(format!("cannot make a queue: {error}"))),
        }
    }

    pub fn only(&self, side: ChannelSide) {
        match self {
            BenchChannel::Own(stream) => stream.only(side),
            BenchChannel::Records(records) => records.only(side),
            BenchChannel::Port(port) => port.meeting().only(side),
            BenchChannel::Mpx(mpx) => mpx.meeting().only(side),
            _ => {}
        }
    }

    /// Removes what only the connecting needed: every sender has sent something by now.
    #[inline]
    pub fn settled(&self) {
        match self {
            BenchChannel::Port(port) => port.meeting().settled(),
            BenchChannel::Mpx(mpx) => mpx.meeting().settled(),
            _ => {}
        }
    }

    #[inline]
    pub fn send(&self, bytes: &[u8]) -> Result<(), CaseError> {
        match self {
            BenchChannel::Stream(_, end) => {
                let mut left = bytes;
                while !left.is_empty() {
                    left = &left[retry_on_intr(|| rustix::io::write(end, left))?..];
                }
                Ok(())
            }
            BenchChannel::Packets(_, end) => {
                let sent = rustix::net::send(end, bytes, SendFlags::empty())?;
                if sent == bytes.len() {
                    Ok(())
                } else {
                    Err(CaseError::failed("a packet was truncated"))
                }
            }
            BenchChannel::Queue(queue) => Ok(queue.send(bytes)?),
            BenchChannel::Own(stream) => stream.send(bytes),
            BenchChannel::Records(records) => records.send(bytes),
            BenchChannel::Port(port) => port.send(bytes),
            BenchChannel::Mpx(mpx) => mpx.send(bytes),
        }
    }

    /// Fills `bytes`; fails at the end of the stream and for a record of another length.
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> Result<(), CaseError> {
        let got = match self {
            BenchChannel::Stream(end, _) => {
                let mut filled = 0;
                while filled < bytes.len() {
                    match retry_on_intr(|| rustix::io::read(end, &mut bytes[filled..]))? {
                        0 => break,
                        count => filled += count,
                    }
                }
                filled
            }
            BenchChannel::Packets(end, _) => {
                rustix::net::recv(end, &mut *bytes, RecvFlags::empty())?.1
            }
            BenchChannel::Queue(queue) => queue.receive(bytes)?,
            BenchChannel::Own(stream) => stream.receive(bytes)?,
            BenchChannel::Records(records) => records.receive(bytes)?,
            BenchChannel::Port(port) => port.receive(bytes)?,
            BenchChannel::Mpx(mpx) => mpx.receive(bytes)?,
        };
        if got == bytes.len() { Ok(()) } else { Err(CaseError::failed("the other side ended")) }
    }

    /// Reads from a stream what one read returns. Records come whole, as by [`BenchChannel::receive`].
    #[inline]
    pub fn receive_some(&self, bytes: &mut [u8]) -> Result<usize, CaseError> {
        let got = match self {
            BenchChannel::Stream(end, _) => retry_on_intr(|| rustix::io::read(end, &mut *bytes))?,
            BenchChannel::Own(stream) => stream.receive_some(bytes)?,
            _ => {
                self.receive(bytes)?;
                bytes.len()
            }
        };
        if got > 0 { Ok(got) } else { Err(CaseError::failed("the other side ended")) }
    }

    /// Fills `bytes` and shows it to `see`. Where the mechanism has a call for it, records that
    /// already follow are shown too. Returns how many were shown.
    #[inline]
    pub fn receive_each(
        &self,
        bytes: &mut [u8],
        mut see: impl FnMut(&[u8]),
    ) -> Result<u64, CaseError> {
        match self {
            BenchChannel::Records(records) => records.receive_each(bytes, see),
            BenchChannel::Port(port) => port.receive_each(bytes, see),
            _ => {
                self.receive(bytes)?;
                see(bytes);
                Ok(1)
            }
        }
    }

    /// Sends the next chunk of a pattern.
    #[inline]
    pub fn send_next(&self, pattern: &mut Pattern) -> Result<(), CaseError> {
        self.send(pattern.next_chunk())
    }

    /// Receives the next chunk of a pattern and checks it.
    #[inline]
    pub fn receive_next(&self, pattern: &mut Pattern, bytes: &mut [u8]) -> Result<(), CaseError> {
        self.receive(bytes)?;
        pattern.check(bytes)
    }
}

/// Sets the capacity of a pipe, which may be above what an unprivileged process is allowed.
pub fn set_pipe_bytes(pipe: &OwnedFd, bytes: u64) -> Result<(), CaseError> {
    let refused = |error: Errno| {
        let error = std::io::Error::from(error);
        CaseError::left_out(format!("cannot make a pipe of {bytes} bytes: {error}"))
    };
    let got = rustix::pipe::fcntl_setpipe_size(pipe, bytes as usize).map_err(refused)?;
    if got as u64 == bytes {
        Ok(())
    } else {
        Err(CaseError::left_out(format!("requested a pipe of {bytes} bytes, got {got}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_carries_what_was_sent() {
        let all = [
            Mechanism::Pipe(0),
            Mechanism::Pipe(4096),
            Mechanism::UnixStream,
            Mechanism::UnixSeqpacket,
            Mechanism::PosixMq,
            Mechanism::WeirPipe(PipeSettings::DEFAULT),
            Mechanism::WeirRecord(PipeSettings::DEFAULT),
            Mechanism::WeirPort(Waiting::Adaptive),
            Mechanism::WeirMpx,
        ];
        for mechanism in all {
            let channel = match BenchChannel::new(mechanism, 512) {
                Err(trouble) if trouble.left_out => continue,
                made => made.expect("a channel"),
            };
            let (mut writer, mut reader) = (Pattern::new(512), Pattern::new(512));
            let mut bytes = [0; 512];
            for _ in 0..100 {
                channel.send_next(&mut writer).expect("sent");
                channel.receive_next(&mut reader, &mut bytes).expect("received");
            }
        }
    }
}
