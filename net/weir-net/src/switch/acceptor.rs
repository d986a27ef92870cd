//! Attaches stations on a thread of its own, since opening a station's port may take time.

use super::SwitchState;
use super::stations::Stations;
use crate::drop_reason::DropReason;
use crate::error::{Error, Result};
use crate::log::StationChange;
use crate::message::{AttachRequest, TO_STATION_BYTES, to_station};
use crate::station::STATION;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use weir::{Identity, Port, PortName, PortWriter, PortWriterOptions, Received, WriterId};

/// Most stations that may wait to be attached.
const MOST_WAITING: usize = 64;
/// Capacity for packets that a station has not taken yet; a datagram is never split in it.
const RING_BYTES: u64 = 1 << 20;
/// How long to try to deliver a refusal.
const REFUSAL_TIME: Duration = Duration::from_millis(50);

/// The acceptor: opens the ports of stations.
#[derive(Debug)]
pub struct StationAcceptor {
    waiting: SyncSender<Caller>,
}

struct Caller {
    id: WriterId,
    identity: Identity,
    request: AttachRequest,
}

impl StationAcceptor {
    /// Starts the thread.
    pub fn start(shared: Arc<SwitchState>) -> Result<StationAcceptor> {
        let (waiting, callers) = sync_channel(MOST_WAITING);
        let started = std::thread::Builder::new()
            .name("attach".into())
            .spawn(move || serve(&shared, &callers));
        started.map_err(|cause| Error::os("start", "a thread", cause))?;
        Ok(StationAcceptor { waiting })
    }

    /// Queues a station to be attached. Returns false if it is invalid or the queue is full.
    pub fn attach(&self, stations: &mut Stations, received: Received, rest: &[u8]) -> bool {
        let (id, identity) = (received.writer, received.identity);
        AttachRequest::check(rest).is_some_and(|request| {
            stations.expect(id) && self.waiting.try_send(Caller { id, identity, request }).is_ok()
        })
    }
}

/// Removes the names that stations have left which were killed.
fn remove_dead(directory: Option<&Path>) {
    for name in PortName::list(directory).unwrap_or_default() {
        let file = name.path.file_name().unwrap_or_default().as_encoded_bytes();
        if name.reader.is_none() && file.starts_with(STATION.as_bytes()) {
            // Another process may have it by now.
            let _ = Port::remove(&name.path);
        }
    }
}

fn serve(shared: &SwitchState, callers: &Receiver<Caller>) {
    let options = PortWriterOptions::new().capacity_bytes(RING_BYTES);
    while let Ok(caller) = callers.recv() {
        admit(shared, caller, &options);
        remove_dead(shared.settings.port.parent());
    }
}

/// Attaches a station, or tells it why not.
fn admit(
    shared: &SwitchState,
    Caller { id, identity, request }: Caller,
    options: &PortWriterOptions,
) {
    let Ok(writer) = PortWriter::connect(&request.path, options) else {
        // It has no port of its own, or has ended.
        shared.lock().stations.leave(id);
        return shared.journal().counts.drop(DropReason::StationGone);
    };
    let wants = request.wants.clone();
    let mut incoming = shared.lock();
    match incoming.stations.enter(id, identity, request.wants, writer) {
        Ok(()) => {
            shared.changed();
            incoming.stations.send_to(id, &shared.attached().put());
            shared.journal().log_station(StationChange::Attached, identity.pid, &wants);
        }
        Err(refused) => {
            let (mut writer, why) = *refused;
            drop(incoming);
            shared.journal().log_station(StationChange::Refused, identity.pid, &wants);
            let mut message = vec![0; TO_STATION_BYTES];
            message[0] = to_station::REFUSED;
            message.extend_from_slice(why.as_bytes());
            let _ = writer.send_timeout(&message, REFUSAL_TIME);
        }
    }
}
