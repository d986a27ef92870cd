//! Aeron's C client over IPC: an exclusive publication and a polled subscription, with the C media
//! driver in a process of its own.

use super::place::{UniqueName, meet};
use super::{LibraryLine, RecordFlow, RecordReceiver, RecordSender, See};
use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronSubscription, Handlers, IntoCString,
};
use rusteron_media_driver::bindings::aeron_threading_mode_enum;
use rusteron_media_driver::{AeronDriver, AeronDriverContext};
use std::ffi::CStr;
use std::hint::spin_loop;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_bench::engine::case::CaseError;
use weir_measure::sys::fork::{self, Child};

const STREAM: i32 = 1001;
/// Returns the bytes of a term, of which there are three, and the channel. One way, 64 MiB, Aeron's
/// default, was the fastest of 4, 16 and 64 MiB: the driver advances the writer's limit once a
/// millisecond by half a term at a time. There and back the size makes no difference, and a small
/// term is set up faster.
fn channel(direction: RecordFlow) -> (usize, &'static CStr) {
    match direction {
        RecordFlow::OneWay | RecordFlow::Many(_) => (64 << 20, c"aeron:ipc?term-length=64m|mtu=8k"),
        RecordFlow::TwoWay => (1 << 20, c"aeron:ipc?term-length=1m|mtu=8k"),
    }
}

/// Longest record of one frame; the longest frame is below 64 KiB.
const RECORD_BYTES_MAX: usize = 8 << 10;
/// Fragments of one poll, as in Aeron's own throughput samples.
const FRAGMENTS: usize = 256;
const PATIENCE: Duration = Duration::from_secs(10);

struct Ipc {
    directory: PathBuf,
    bytes: usize,
    channel: &'static CStr,
    driver: Option<Child>,
}

/// Starts a driver in a process of its own, on whatever CPU is free.
pub fn line(
    place: &UniqueName,
    bytes: usize,
    direction: RecordFlow,
) -> Result<Box<dyn LibraryLine>, CaseError> {
    if bytes >= RECORD_BYTES_MAX {
        return Err(CaseError::left_out("aeron: a frame ends below 64 KiB"));
    }
    let directory = place.directory();
    let (term_bytes, channel) = channel(direction);
    let driver = fork::child(|| match drive(&directory, term_bytes) {
        Ok(()) => 0,
        Err(trouble) => {
            eprintln!("{}", trouble.text);
            1
        }
    })?;
    Ok(Box::new(Ipc { directory, bytes, channel, driver: Some(driver) }))
}

impl Drop for Ipc {
    fn drop(&mut self) {
        // The driver is killed first; otherwise it would continue in a directory that is gone.
        if self.driver.take().is_some() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

fn trouble(error: impl std::fmt::Display) -> CaseError {
    CaseError::failed(format!("aeron: {error}"))
}

fn drive(directory: &Path, term_bytes: usize) -> Result<(), CaseError> {
    let context = AeronDriverContext::new().map_err(trouble)?;
    let set = |done: Result<i32, _>| done.map(drop).map_err(trouble);
    set(context.set_dir(&directory.display().to_string().into_c_string()))?;
    set(context.set_dir_delete_on_start(true))?;
    set(context.set_ipc_term_buffer_length(term_bytes))?;
    set(context.set_term_buffer_sparse_file(false))?;
    // One thread that sleeps when idle: records do not pass through it, and three polling threads
    // would take the CPUs that are measured.
    set(context.set_threading_mode(aeron_threading_mode_enum::AERON_THREADING_MODE_SHARED))?;
    let driver = AeronDriver::new(&context).map_err(trouble)?;
    driver.start(true).map_err(trouble)?;
    loop {
        driver.main_idle_strategy(driver.main_do_work().map_err(trouble)?);
    }
}

impl Ipc {
    fn client(&self) -> Result<Aeron, CaseError> {
        meet("aeron: no client", || {
            let context = AeronContext::new().map_err(|error| error.to_string())?;
            let directory = self.directory.display().to_string().into_c_string();
            context.set_dir(&directory).map_err(|error| error.to_string())?;
            context.set_pre_touch_mapped_memory(true).map_err(|error| error.to_string())?;
            let client = Aeron::new(&context).map_err(|error| error.to_string())?;
            client.start().map_err(|error| error.to_string())?;
            Ok(client)
        })
    }
}

impl LibraryLine for Ipc {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError> {
        let client = self.client()?;
        let publication = client
            .async_add_exclusive_publication(self.channel, STREAM)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(trouble)?;
        meet("aeron", || publication.is_connected().then_some(()).ok_or("no reader".to_owned()))?;
        Ok(Box::new(Publication { publication, _client: client }))
    }

    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError> {
        let client = self.client()?;
        let subscription = client
            .async_add_subscription(self.channel, STREAM, Handlers::NONE, Handlers::NONE)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(trouble)?;
        Ok(Box::new(Subscription { subscription, buffer: vec![0; self.bytes], _client: client }))
    }
}

struct Publication {
    publication: AeronExclusivePublication,
    _client: Aeron,
}

impl RecordSender for Publication {
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        loop {
            match self.publication.offer(record) {
                Ok(_) => return Ok(()),
                Err(error) if error.is_retryable() => spin_loop(),
                Err(error) => return Err(trouble(error)),
            }
        }
    }
}

struct Subscription {
    subscription: AeronSubscription,
    buffer: Vec<u8>,
    _client: Aeron,
}

impl RecordReceiver for Subscription {
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError> {
        let buffer = &mut self.buffer;
        let mut seen = Ok(());
        let mut copy = |record: &[u8]| {
            let copied = buffer.get_mut(..record.len());
            let copied = copied
                .ok_or_else(|| CaseError::failed("aeron: a record is longer than the buffer"))?;
            copied.copy_from_slice(record);
            see(copied)
        };
        loop {
            let handle = |record: &[u8], _header| {
                if seen.is_ok() {
                    seen = copy(record);
                }
            };
            let count = self.subscription.poll_fn(handle, FRAGMENTS).map_err(trouble)?;
            if count > 0 {
                seen?;
                return Ok(count as u64);
            }
            spin_loop();
        }
    }
}
