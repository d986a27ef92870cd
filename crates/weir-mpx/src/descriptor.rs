//! A descriptor that is one direction of a channel: how it is opened, read and written without waiting.
//!
//! Its file may be shared with other programs, which must not see `O_NONBLOCK` on it. So pipes and
//! terminals are opened anew, and sockets are used by calls that do not wait.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, major, minor, open};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketType, recv, send, shutdown, sockopt};
use std::io;
use weir::parts::errno_of;
use weir::{Error, ErrorKind, Result};
use weir_sys::forks::ParentOnly;

/// The device number of the file that makes terminals. Opening one anew makes another.
const MULTIPLEXER: (u32, u32) = (5, 2);
/// The most reads that empty a socket before it is closed.
const LAST_READS: u32 = 64;

/// The direction of a channel that a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What is read from the descriptor is sent on the channel.
    Input,
    /// What comes on the channel is written to the descriptor.
    Output,
}

/// A descriptor of a channel. Dropping it tells the other side of a socket that this was all.
#[derive(Debug)]
pub struct ChannelDescriptor {
    file: ParentOnly,
    direction: Direction,
    is_socket: bool,
    /// The error that stands for the end of the other side.
    end: Option<Errno>,
    /// It was not yet found to be empty, or full.
    pub may: bool,
    /// At an input: its end was read, but no mark was sent yet. At an output: nobody reads it.
    pub at_end: bool,
}

impl ChannelDescriptor {
    /// Takes a descriptor over.
    pub fn new(given: OwnedFd, direction: Direction) -> Result<ChannelDescriptor> {
        let object = "a descriptor to a channel";
        let failed = |cause: Errno| Error::os("join", object, cause);
        let refused = |why: &'static str| Error::new(ErrorKind::Invalid, "join", object, why);
        let stat = fstat(&given).map_err(failed)?;
        let flags = fcntl_getfl(&given).map_err(failed)?;
        let fits = match direction {
            Direction::Input => flags & OFlags::RWMODE != OFlags::WRONLY,
            Direction::Output => flags & OFlags::RWMODE != OFlags::RDONLY,
        };
        if !fits || flags.contains(OFlags::PATH) {
            return Err(refused("it is not open in this direction"));
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_multiplexer = (major(stat.st_rdev), minor(stat.st_rdev)) == MULTIPLEXER;
        let file = match kind {
            FileType::Socket if sockopt::socket_type(&given).ok() != Some(SocketType::STREAM) => {
                return Err(refused("it is a socket, but no stream"));
            }
            FileType::Fifo => match again(&given, direction) {
                // Nobody reads it. Its descriptor may be one that waits, and a reader may come, so
                // nothing must be written through it.
                Err(Errno::NXIO) => {
                    let mut made =
                        ChannelDescriptor::of(own(given).map_err(failed)?, direction, false);
                    made.at_end = true;
                    return Ok(made);
                }
                opened => opened.map_err(failed)?,
            },
            FileType::CharacterDevice if !is_multiplexer && rustix::termios::isatty(&given) => {
                again(&given, direction).map_err(failed)?
            }
            FileType::CharacterDevice => {
                fcntl_setfl(&given, flags | OFlags::NONBLOCK).map_err(failed)?;
                own(given).map_err(failed)?
            }
            FileType::Socket | FileType::RegularFile | FileType::BlockDevice => {
                own(given).map_err(failed)?
            }
            _ => return Err(refused("it is not a stream of bytes")),
        };
        let mut made = ChannelDescriptor::of(file, direction, kind == FileType::Socket);
        // The other side of a terminal is closed.
        made.end = (kind == FileType::CharacterDevice).then_some(Errno::IO);
        Ok(made)
    }

    /// Takes over one of a pair of connected sockets.
    pub fn of_pair(file: ParentOnly, direction: Direction) -> ChannelDescriptor {
        // The program at the other end left something unread.
        let end = Some(Errno::CONNRESET);
        ChannelDescriptor { end, file, direction, is_socket: true, may: true, at_end: false }
    }

    fn of(file: ParentOnly, direction: Direction, is_socket: bool) -> ChannelDescriptor {
        ChannelDescriptor { file, direction, is_socket, end: None, may: true, at_end: false }
    }

    /// The descriptor; `None` in a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        self.file.get()
    }

    /// Reads what is there: how many bytes, 0 at the end.
    pub fn read(&mut self, to: &mut [u8]) -> rustix::io::Result<usize> {
        let is_socket = self.is_socket;
        let read = self.again_if_interrupted(|file| match is_socket {
            true => recv(file, &mut *to, RecvFlags::DONTWAIT).map(|(count, _)| count),
            false => rustix::io::read(file, &mut *to),
        });
        if read.is_err() && read.err() == self.end { Ok(0) } else { read }
    }

    /// Writes as much as there is room for. `PIPE`: nobody reads it any more.
    pub fn write(&mut self, from: &[u8]) -> rustix::io::Result<usize> {
        let is_socket = self.is_socket;
        let written = self.again_if_interrupted(|file| match is_socket {
            true => send(file, from, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            false => rustix::io::write(file, from),
        });
        if written.is_err() && written.err() == self.end { Err(Errno::PIPE) } else { written }
    }

    fn again_if_interrupted(
        &mut self,
        mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        let file = self.file.here()?;
        let done = retry_on_intr(|| call(file));
        self.may &= done != Err(Errno::AGAIN);
        done
    }
}

impl Drop for ChannelDescriptor {
    fn drop(&mut self) {
        let Some(file) = self.file.get().filter(|_| self.is_socket) else { return };
        if self.direction == Direction::Output {
            let _ = shutdown(file, Shutdown::Write);
            return;
        }
        let _ = shutdown(file, Shutdown::Read);
        // The other side would find an error in place of the end if bytes stayed here.
        let mut bytes = [0; 4096];
        for _ in 0..LAST_READS {
            if !matches!(recv(file, &mut bytes[..], RecvFlags::DONTWAIT), Ok((1.., _))) {
                break;
            }
        }
    }
}

fn own(given: OwnedFd) -> rustix::io::Result<ParentOnly> {
    ParentOnly::new(given).map_err(|cause| errno_of(&cause))
}

/// Opens the file of a descriptor anew, so that its flags are not shared with anybody.
fn again(given: &OwnedFd, direction: Direction) -> rustix::io::Result<ParentOnly> {
    let way = if direction == Direction::Input { OFlags::RDONLY } else { OFlags::WRONLY };
    let flags = way | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = weir_sys::proc::path_of_own(given);
    let open = || open(&*path, flags, Mode::empty()).map_err(io::Error::from);
    ParentOnly::make(open).map_err(|cause| errno_of(&cause))
}
