//! iceoryx2: publish and subscribe with one publisher, one subscriber and no overflow.

use super::gate::Gate;
use super::place::{UniqueName, meet};
use super::{LibraryLine, RecordFlow, RecordReceiver, RecordSender, See, first_time};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::PortFactory as _;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use std::fmt::Debug;
use std::hint::{black_box, spin_loop};
use std::mem::MaybeUninit;
use std::time::Instant;
use weir_bench::tools::peer::PeerProcess;
use weir_bench::tools::{elapsed_ns, work};
use weir_bench::engine::case::{Batch, CaseError, MadeWork, Site};

/// Number of records that the subscriber's queue holds.
const QUEUE_RECORDS: usize = 256;

/// Looks of a reader that finds nothing before it lets writers on its CPU run.
const LOOKS: u32 = 100;

struct Publish {
    place: UniqueName,
    bytes: usize,
    writers: u64,
}

/// Makes a line; both ends open or create the service of this name.
pub fn line(
    place: &UniqueName,
    bytes: usize,
    direction: RecordFlow,
) -> Result<Box<dyn LibraryLine>, CaseError> {
    let writers = if let RecordFlow::Many(writers) = direction { writers } else { 1 };
    Ok(Box::new(Publish { place: place.clone(), bytes, writers }))
}

fn trouble(error: impl Debug) -> CaseError {
    CaseError::failed(format!("iceoryx2: {error:?}"))
}

/// The values that keep an end alive.
struct Base<T: Debug + ZeroCopySend + 'static> {
    service: PortFactory<ipc::Service, [T], ()>,
    _node: Node<ipc::Service>,
}

fn base<T: Debug + ZeroCopySend + 'static>(
    place: &UniqueName,
    writers: u64,
) -> Result<Base<T>, CaseError> {
    set_log_level(LogLevel::Error);
    let mut config = Config::default();
    let root = format!("{}/iceoryx2", place.directory().display());
    config.global.set_root_path(&Path::new(root.as_bytes()).map_err(trouble)?);
    // A different name from the directory's, which iceoryx2 would take for a file of its own.
    let prefix = format!("{}-i", place.name());
    config.global.prefix = FileName::new(prefix.as_bytes()).map_err(trouble)?;
    let node = NodeBuilder::new()
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .config(&config)
        .create::<ipc::Service>()
        .map_err(trouble)?;
    let name = ServiceName::new(place.name()).map_err(trouble)?;
    let service = meet("iceoryx2", || {
        let builder = node.service_builder(&name).publish_subscribe::<[T]>();
        let builder = builder.enable_safe_overflow(false).subscriber_max_borrowed_samples(2);
        let builder = builder.subscriber_max_buffer_size(QUEUE_RECORDS).history_size(0);
        let builder = builder.max_publishers(writers as usize).max_subscribers(1);
        let builder = builder.max_nodes(writers as usize + 1);
        builder.open_or_create().map_err(|error| format!("{error:?}"))
    })?;
    Ok(Base { service, _node: node })
}

struct IceoryxSender<T: Debug + ZeroCopySend + 'static> {
    publisher: Publisher<ipc::Service, [T], ()>,
    _base: Base<T>,
}

fn sending<T: Debug + ZeroCopySend + 'static>(
    place: &UniqueName,
    bytes: usize,
    writers: u64,
) -> Result<IceoryxSender<T>, CaseError> {
    let base = base::<T>(place, writers)?;
    let publisher = base
        .service
        .publisher_builder()
        .initial_max_slice_len(bytes)
        .max_loaned_samples(2)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()
        .map_err(trouble)?;
    meet("iceoryx2", || {
        let subscribers = base.service.dynamic_config().number_of_subscribers();
        if subscribers == 1 { Ok(()) } else { Err("no subscriber".to_owned()) }
    })?;
    publisher.update_connections().map_err(trouble)?;
    Ok(IceoryxSender { publisher, _base: base })
}

struct IceoryxReceiver<T: Debug + ZeroCopySend + 'static> {
    subscriber: Subscriber<ipc::Service, [T], ()>,
    _base: Base<T>,
}

fn receiving<T: Debug + ZeroCopySend + 'static>(
    place: &UniqueName,
    writers: u64,
) -> Result<IceoryxReceiver<T>, CaseError> {
    let base = base::<T>(place, writers)?;
    let subscriber = base.service.subscriber_builder().create().map_err(trouble)?;
    Ok(IceoryxReceiver { subscriber, _base: base })
}

impl LibraryLine for Publish {
    fn sender(&self) -> Result<Box<dyn RecordSender>, CaseError> {
        Ok(Box::new(sending::<u8>(&self.place, self.bytes, self.writers)?))
    }

    fn receiver(&self) -> Result<Box<dyn RecordReceiver>, CaseError> {
        let end = receiving::<u8>(&self.place, self.writers)?;
        Ok(Box::new(Copying { end, buffer: vec![0; self.bytes], yields: self.writers > 1 }))
    }
}

impl RecordSender for IceoryxSender<u8> {
    fn send(&mut self, record: &[u8]) -> Result<(), CaseError> {
        until_somebody_has_it(|| {
            let sample = self.publisher.loan_slice_uninit(record.len()).map_err(trouble)?;
            sample.write_from_slice(record).send().map_err(trouble)
        })
    }
}

/// Repeats a send that reached nobody: a subscriber connects when it first receives, and until then
/// records that its queue does not hold are dropped.
fn until_somebody_has_it(
    mut send: impl FnMut() -> Result<usize, CaseError>,
) -> Result<(), CaseError> {
    while send()? == 0 {
        std::thread::yield_now();
    }
    Ok(())
}

struct Copying {
    end: IceoryxReceiver<u8>,
    buffer: Vec<u8>,
    yields: bool,
}

impl RecordReceiver for Copying {
    fn receive(&mut self, see: &mut See) -> Result<u64, CaseError> {
        let mut looks = 0;
        loop {
            if let Some(sample) = self.end.subscriber.receive().map_err(trouble)? {
                let copied = self.buffer.get_mut(..sample.payload().len());
                let copied = copied.ok_or_else(|| {
                    CaseError::failed("iceoryx2: a record is longer than the buffer")
                })?;
                copied.copy_from_slice(sample.payload());
                see(copied)?;
                return Ok(1);
            }
            looks += 1;
            if self.yields && looks % LOOKS == 0 {
                std::thread::yield_now();
            }
            spin_loop();
        }
    }
}

/// A byte of a loan, which may stay uninitialised.
type Raw = MaybeUninit<u8>;

impl IceoryxSender<Raw> {
    /// Sends a loan and writes its first and last byte.
    fn send_loan(&mut self, bytes: usize, mark: u8) -> Result<(), CaseError> {
        until_somebody_has_it(|| {
            let sample = self.publisher.loan_slice_uninit(bytes).map_err(trouble)?;
            let mut sample = sample.write_from_fn(|_| Raw::uninit());
            let payload = sample.payload_mut();
            payload[0] = Raw::new(mark);
            payload[bytes - 1] = Raw::new(!mark);
            sample.send().map_err(trouble)
        })
    }
}

impl IceoryxReceiver<Raw> {
    /// Receives a loan and loads its first and last byte. Safe code cannot compare them.
    fn receive_loan(&mut self, bytes: usize) -> Result<(), CaseError> {
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(trouble)? {
                let payload = sample.payload();
                if payload.len() != bytes {
                    return Err(CaseError::failed("iceoryx2: a loan of another length"));
                }
                black_box((payload[0], payload[bytes - 1]));
                return Ok(());
            }
            spin_loop();
        }
    }
}

/// Makes work of round trips by loan.
pub fn loans(site: &Site, bytes: usize) -> MadeWork {
    let (there, back, gate) = (UniqueName::new(), UniqueName::new(), Gate::new()?);
    let mut peer = PeerProcess::start(site, |control| {
        gate.await_beginning()?;
        let (mut from, mut to) = (receiving::<Raw>(&there, 1)?, sending::<Raw>(&back, bytes, 1)?);
        let mut done: u64 = 0;
        loop {
            gate.pass(control, done)?;
            from.receive_loan(bytes)?;
            to.send_loan(bytes, done as u8)?;
            done += 1;
            control.report(done)?;
        }
    })?;
    let (mut gate, mut ends, mut sent) = (gate.near(), None, 0u64);
    work(move |count| {
        gate.begin()?;
        let open = || {
            let from = receiving::<Raw>(&back, 1)?;
            Ok((sending::<Raw>(&there, bytes, 1)?, from))
        };
        let (to, from) = first_time(&mut ends, open)?;
        gate.open(&mut peer, count)?;
        let begun = Instant::now();
        for _ in 0..count {
            to.send_loan(bytes, sent as u8)?;
            from.receive_loan(bytes)?;
            sent += 1;
        }
        let elapsed = elapsed_ns(begun);
        peer.wait()?;
        Ok(Batch::time(elapsed, count))
    })
}
