//! How a port lets a writer in: it checks the ring that the writer brought, and opens it.

use super::slot::{WriterSlot, WriterSlots};
use super::{PortOptions, WriterId};
use crate::connect::acceptor::Arrival;
use crate::connect::board::{ReaderSite, welcome};
use crate::connect::lifeline::Lifeline;
use crate::connect::passing::turn_away;
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, page_bytes};
use crate::pipe::connection::{Connection, Role};
use crate::pipe::defaults::out_of_range;
use crate::pipe::end::End;
use crate::pipe::options::Resolved;
use crate::pipe::record::RecordReader;
use crate::pipe::storage::open_kind;
use rustix::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use weir_policy::pipe::PipeShape;
use weir_ring::layout::MESSAGE;
use weir_ring::{Area, RingMemory};
use weir_sys::forks::ParentOnly;

/// A writer that waits for room is woken once this fraction (one half) of its ring is free. With
/// many writers each wake-up costs two switches: with 64 writers and messages of 4 KiB, a half moved
/// a sixth more than an eighth.
const WOKEN_AT: u64 = 2;

/// What a port needs to let writers in.
#[derive(Debug)]
pub struct Entrance {
    board_file: ParentOnly,
    inbox: Arc<Inbox>,
    pub resolved: Resolved,
    next_serial: u64,
    /// Descriptors are scarce, and those of processes were closed.
    shed: bool,
}

impl Entrance {
    pub fn new(
        board_file: ParentOnly,
        inbox: Arc<Inbox>,
        options: &PortOptions,
    ) -> Result<Entrance> {
        Ok(Entrance {
            board_file,
            inbox,
            resolved: options.resolve()?,
            next_serial: 1,
            shed: false,
        })
    }

    /// Lets a writer in at this place, or refuses it. Where descriptors are scarce, the others give up
    /// those of their processes.
    pub fn admit(
        &mut self,
        arrival: Arrival,
        place: u32,
        others: &mut WriterSlots,
        options: &PortOptions,
    ) -> Option<WriterSlot> {
        let Arrival { socket, memory, identity, .. } = arrival;
        let Ok(map) = open_kind(&memory, MESSAGE) else {
            turn_away(socket, "its reader received no valid ring");
            return None;
        };
        // Each writer costs descriptors. The mapping does not need the memory's, and the process's
        // is kept only while descriptors are plenty.
        drop(memory);
        let pidfd = socket.get().and_then(|socket| weir_sys::peer::pidfd(socket).ok());
        let pidfd = pidfd.filter(|pidfd| !self.are_scarce(pidfd, others));
        let reader = self.open(map, socket, pidfd, place, options).ok()?;
        let id = WriterId { serial: self.next_serial, slot: place };
        self.next_serial += 1;
        Some(WriterSlot::new(reader, id, identity))
    }

    fn open(
        &self,
        map: Arc<Map>,
        socket: ParentOnly,
        pidfd: Option<OwnedFd>,
        place: u32,
        options: &PortOptions,
    ) -> Result<RecordReader> {
        let bytes = map.bytes(Area::Ring);
        let shape = PipeShape::new(page_bytes(), bytes, Some(bytes / WOKEN_AT), None)
            .map_err(out_of_range)?;
        let resolved = Resolved { shape, ..self.resolved };
        // The port's inbox is notified when the writer or its process dies.
        let mut lifeline = Lifeline::start(socket, self.inbox.clone(), place)?.exclusive();
        pidfd.map_or(Ok(()), |pidfd| lifeline.watch_process(pidfd))?;
        let connection = Connection::over(lifeline, Role::Reader, ReaderSite::Ring);
        let mut end = End::new(None, map, connection, &resolved)?;
        // The shape that the writer wrote into the memory is not trusted.
        end.shape = shape;
        let board = self.board_file.get().ok_or_else(|| {
            Error::new(ErrorKind::Forked, "let in", "a writer", "the process has forked")
        })?;
        // A writer that does not get this cannot set its bit; the look at all rings finds it.
        let _ = welcome(&end.life, board, place, options.most_message_bytes);
        RecordReader::over(end)
    }

    /// Whether descriptors are scarce: the newest has a number of at least half the limit. At three
    /// quarters the descriptors of processes are closed for good.
    fn are_scarce(&mut self, newest: &OwnedFd, others: &mut WriterSlots) -> bool {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let (newest, limit) = (newest.as_raw_fd() as u64, limit.unwrap_or(u64::MAX));
        if newest >= limit / 4 * 3 && !std::mem::replace(&mut self.shed, true) {
            for slot in others.iter_mut().flatten() {
                if let Ok((end, _)) = slot.reader.parts() {
                    end.life.forget_process();
                }
            }
        }
        self.shed || newest >= limit / 2
    }
}
