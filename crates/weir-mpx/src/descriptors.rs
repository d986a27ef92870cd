//! The descriptors that channels of one participant are joined to, and one epoll over them.
//!
//! The watcher of the process looks at that epoll and notifies the participant, which then asks
//! which descriptors are ready. Each is watched for changes only: it is used until it says that it
//! is empty or full.

use super::descriptor::{ChannelDescriptor, Direction};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use weir::parts::{Inbox, WatchedDescriptor, errno_of};
use weir::{Error, Result};
use weir_sys::forks::ParentOnly;

/// Events taken from the kernel in one go.
const MOST_EVENTS: usize = 64;

#[derive(Debug, Default)]
pub struct ChannelDescriptors {
    pub input: Option<ChannelDescriptor>,
    pub output: Option<ChannelDescriptor>,
}

impl ChannelDescriptors {
    fn place(&mut self, direction: Direction) -> &mut Option<ChannelDescriptor> {
        match direction {
            Direction::Input => &mut self.input,
            Direction::Output => &mut self.output,
        }
    }
}

#[derive(Debug)]
pub struct Descriptors {
    epoll: ParentOnly,
    _watched: WatchedDescriptor,
    of: HashMap<u32, ChannelDescriptors>,
}

fn failed(cause: Errno) -> Error {
    Error::os("join", "a descriptor to a channel", cause)
}

impl Descriptors {
    pub fn new(inbox: &Arc<Inbox>) -> Result<Descriptors> {
        let make = || epoll::create(CreateFlags::CLOEXEC).map_err(io::Error::from);
        let epoll = ParentOnly::make(make).map_err(|cause| failed(errno_of(&cause)))?;
        let mut watched = WatchedDescriptor::copy_of(epoll.here().map_err(failed)?)?;
        watched.start(EventFlags::IN | EventFlags::ET, inbox)?;
        Ok(Descriptors { epoll, _watched: watched, of: HashMap::new() })
    }

    /// A descriptor that is readable while one of these may be ready; `None` in a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        self.epoll.get()
    }

    pub fn of(&mut self, index: u32, direction: Direction) -> Option<&mut ChannelDescriptor> {
        self.of.get_mut(&index)?.place(direction).as_mut()
    }

    /// Joins a descriptor to a channel that has none in this direction.
    pub fn join(
        &mut self,
        index: u32,
        direction: Direction,
        descriptor: ChannelDescriptor,
    ) -> Result<()> {
        let epoll = self.epoll.here().map_err(failed)?;
        let (events, bit) = match direction {
            Direction::Input => (EventFlags::IN | EventFlags::RDHUP, 0),
            Direction::Output => (EventFlags::OUT, 1),
        };
        let data = EventData::new_u64(u64::from(index) << 1 | bit);
        let own = descriptor.get().ok_or(Errno::BADF).map_err(failed)?;
        match epoll::add(epoll, own, data, events | EventFlags::ET) {
            // A file on a disk is always ready.
            Ok(()) | Err(Errno::PERM) => {}
            Err(cause) => return Err(failed(cause)),
        }
        *self.of.entry(index).or_default().place(direction) = Some(descriptor);
        Ok(())
    }

    /// Drops a channel's descriptor in this direction. Returns whether none is left.
    pub fn leave(&mut self, index: u32, direction: Direction) -> bool {
        let Some(all) = self.of.get_mut(&index) else { return true };
        if let (Some(old), Some(epoll)) = (all.place(direction).take(), self.epoll.get())
            && let Some(own) = old.get()
        {
            // Another descriptor may keep the file open, and epoll would keep its entry.
            let _ = epoll::delete(epoll, own);
        }
        let is_last = all.input.is_none() && all.output.is_none();
        if is_last {
            self.of.remove(&index);
        }
        is_last
    }

    /// Finds the channels whose descriptors have become ready.
    pub fn poll(&mut self, mut found: impl FnMut(u32)) {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [none; MOST_EVENTS];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let Some(epoll) = self.epoll.get() else { return };
            let count = epoll::wait(epoll, &mut events[..], Some(&now)).unwrap_or(0);
            for event in &events[..count] {
                let (index, bit) = ((event.data.u64() >> 1) as u32, event.data.u64() & 1);
                let direction = if bit == 0 { Direction::Input } else { Direction::Output };
                let Some(descriptor) = self.of(index, direction) else { continue };
                descriptor.may = true;
                // Nobody reads what is written there.
                let over = EventFlags::ERR | EventFlags::HUP;
                let flags = event.flags;
                descriptor.at_end |= direction == Direction::Output && flags.intersects(over);
                found(index);
            }
            if count < MOST_EVENTS {
                return;
            }
        }
    }
}
