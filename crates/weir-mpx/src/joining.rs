//! The calls that join descriptors to channels, at an owner and at a peer.

use super::channels::{ChannelEntry, ChannelState};
use super::descriptor::{ChannelDescriptor, Direction};
use super::descriptors::Descriptors;
use super::link_end::NONE;
use super::record::ChannelId;
use super::sides::{Multiplexer, Participant};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use weir::parts::{errno_of, passing};
use weir::{Error, ErrorKind, Result};
use weir_sys::forks::ParentOnly;

impl<R> Participant<R> {
    /// Joins a descriptor to a channel as its input. From now on the calls that receive read what is
    /// there and send it on the channel. At the end of the file they send a mark, as
    /// [`Participant::end`] does, and let the descriptor go.
    ///
    /// `docs/contracts/mpx.md` says what the descriptor may be, and how its flags are kept.
    ///
    /// # Errors
    /// [`Invalid`]: the channel has ended, is not open, is another mpx, is connected or has an input;
    /// or the descriptor is not open for reading, or is not a stream of bytes. [`Forked`]. Those of
    /// the kernel.
    ///
    /// [`Invalid`]: ErrorKind::Invalid
    /// [`Forked`]: ErrorKind::Forked
    pub fn join_input(&mut self, channel: ChannelId, descriptor: OwnedFd) -> Result<()> {
        let index = free_to_join(&self.inner, channel, &[Direction::Input])?;
        let descriptor = ChannelDescriptor::new(descriptor, Direction::Input)?;
        join(&mut self.inner, index, Direction::Input, descriptor)
    }

    /// Joins a descriptor to a channel as its output. From now on the calls that receive write data
    /// that comes on the channel there, and do not show it. A mark ends the output. Once nobody reads
    /// it, what comes is shown again.
    ///
    /// # Errors
    /// As those of [`Participant::join_input`], with writing in place of reading.
    pub fn join_output(&mut self, channel: ChannelId, descriptor: OwnedFd) -> Result<()> {
        let index = free_to_join(&self.inner, channel, &[Direction::Output])?;
        let descriptor = ChannelDescriptor::new(descriptor, Direction::Output)?;
        join(&mut self.inner, index, Direction::Output, descriptor)
    }

    /// Hands a channel on as a descriptor, a socket that plain programs read and write: for the
    /// standard input and output of a child, say. The other end of the socket is the channel's input
    /// and output. The caller must close the descriptor here once the child has it.
    ///
    /// ```
    /// use std::process::{Command, Stdio};
    /// use weir_mpx::RecordKind;
    /// use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let name = directory.path().join("exchange");
    /// let mut owner = Mpx::create(&name, &MpxOptions::new())?;
    /// let mut peer = MpxPeer::connect(&name, &MpxPeerOptions::new())?;
    /// let channel = peer.open(b"sort")?;
    /// peer.send(channel, b"2\n1\n")?;
    /// peer.end(channel)?;
    ///
    /// let (mut opened, mut buffer) = (Vec::new(), [0; 4096]);
    /// owner.receive_each(&mut buffer, |record| opened.push(record.channel))?;
    /// owner.accept(opened[0])?;
    /// let socket = owner.extract(opened[0])?;
    /// let other = socket.try_clone().expect("a descriptor");
    /// let mut child = Command::new("sort")
    ///     .stdin(Stdio::from(socket))
    ///     .stdout(Stdio::from(other))
    ///     .spawn()
    ///     .expect("started");
    /// let mut is_over = false;
    /// while !is_over {
    ///     owner.receive_each(&mut buffer, |record| is_over |= record.kind == RecordKind::Released)?;
    /// }
    /// child.wait().expect("ended");
    ///
    /// let mut sorted = Vec::new();
    /// while sorted.len() < 4 {
    ///     peer.receive_each(&mut buffer, |record| sorted.extend_from_slice(record.bytes))?;
    /// }
    /// assert_eq!(sorted, b"1\n2\n");
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Participant::join_input`].
    pub fn extract(&mut self, channel: ChannelId) -> Result<OwnedFd> {
        let both = [Direction::Input, Direction::Output];
        let index = free_to_join(&self.inner, channel, &both)?;
        let failed = |cause| Error::os("make", "a pair of sockets", cause);
        let (unix, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let make = || socketpair(unix, kind, SocketFlags::CLOEXEC, None).map_err(io::Error::from);
        let pair = ParentOnly::make_two(make).map_err(|cause| failed(errno_of(&cause)));
        let (ours, mut theirs) = pair?;
        let copy = ours.here().and_then(passing::copy_of).map_err(failed)?;
        for (own, direction) in [(copy, Direction::Output), (ours, Direction::Input)] {
            join(&mut self.inner, index, direction, ChannelDescriptor::of_pair(own, direction))?;
        }
        theirs.take().ok_or_else(|| failed(rustix::io::Errno::BADF))
    }

    /// Ends that descriptors are joined to a channel, and closes them here: whether there were any.
    /// What was read from the input was sent; what the output has not taken is shown.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the channel has ended. [`ErrorKind::Forked`].
    pub fn release(&mut self, channel: ChannelId) -> Result<bool> {
        self.inner.act()?;
        let table = &mut self.inner.table;
        let index = table.channels.find("release", channel)?;
        let ChannelEntry { has_input, has_output, .. } = table.channels[index];
        table.drop_descriptors(index);
        table.wake(index);
        Ok(has_input || has_output)
    }
}

/// Finds a channel that has no descriptor yet in these directions.
fn free_to_join(inner: &Multiplexer, channel: ChannelId, directions: &[Direction]) -> Result<u32> {
    inner.act()?;
    let index = inner.table.channels.find("join a descriptor to", channel)?;
    let entry = &inner.table.channels[index];
    let has = |direction: &Direction| match direction {
        Direction::Input => entry.has_input,
        Direction::Output => entry.has_output,
    };
    let is_open = matches!(entry.state, ChannelState::Open | ChannelState::Opening);
    if is_open && entry.partner == NONE && !directions.iter().any(has) {
        return Ok(index);
    }
    let why = "it is not open, or is connected, or has a descriptor";
    let object = format!("channel {channel}");
    Err(Error::new(ErrorKind::Invalid, "join a descriptor to", object, why))
}

fn join(
    inner: &mut Multiplexer,
    index: u32,
    way: Direction,
    descriptor: ChannelDescriptor,
) -> Result<()> {
    let table = &mut inner.table;
    if table.descriptors.is_none() {
        let descriptors = Descriptors::new(&inner.inbox)?;
        if let (Some(doorbell), Some(own)) = (&inner.doorbell, descriptors.get()) {
            doorbell.add_own(own)?;
        }
        table.descriptors = Some(descriptors);
    }
    if let Some(descriptors) = &mut table.descriptors {
        descriptors.join(index, way, descriptor)?;
    }
    let entry = &mut table.channels[index];
    match way {
        Direction::Input => entry.has_input = true,
        Direction::Output => entry.has_output = true,
    }
    table.wake(index);
    Ok(())
}
