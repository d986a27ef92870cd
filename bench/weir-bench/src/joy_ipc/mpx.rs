//! Records through an mpx, over eight channels of ten, a thousand or ten thousand that are open:
//! what do idle channels cost the busy ones?
//!
//! Two cases are beside them in the same rounds: a record pipe, and the lower bound for an mpx,
//! which is the loads and stores of eight lanes without a library ([`super::lanes`]).

use super::lanes;
use crate::tools::channel::Mechanism;
use crate::tools::own::{PipeSettings, trouble};
use crate::tools::peer::{Control, PeerProcess};
use crate::tools::place::PortDirectory;
use crate::tools::prelude::*;
use crate::tools::stream::OneWay;
use std::time::{Duration, Instant};
use weir_mpx::{ChannelId, Mpx, MpxOptions, MpxPeer, MpxPeerOptions, RecordKind};

/// Number of open channels.
const CHANNELS: [u64; 3] = [10, 1_000, 10_000];
/// Number of channels that send.
const BUSY: usize = 8;
const BYTES: usize = 64;
/// The bytes of a record. They are compared as a whole: one after the other, the check took two
/// fifths of the owner's time.
const EXPECTED: [u8; BYTES] = [7; BYTES];
/// How long the owner may take to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures the cost of a record by the number of channels.
pub fn channels() -> Group {
    let cases = CHANNELS.map(|channels| {
        let params = Params {
            chunk_bytes: Some(BYTES as u64),
            parties: Some(channels),
            ..moving("weir-mpx", "one-way")
        };
        let name = format!("one-way weir-mpx {BYTES} B, {channels} channels");
        let make = move |site: &Site| send(site, channels as u32);
        Case {
            standard: false,
            normalise: Normalise::OnOneCpu,
            ..case(name, params, Measure::TIME, make)
        }
    });
    let beside = |mechanism: &str, name: &str, make: fn(&Site) -> MadeWork| {
        let params = Params { chunk_bytes: Some(BYTES as u64), ..moving(mechanism, "one-way") };
        let name = format!("one-way {name} {BYTES} B (beside mpx)");
        Case {
            standard: false,
            normalise: Normalise::OnOneCpu,
            ..case(name, params, Measure::TIME, make)
        }
    };
    let mut all = vec![beside("weir-record", "weir-record", record)];
    all.extend(cases);
    all.push(beside("bare-lanes", "bare-lanes", lanes::one_way::<BYTES>));
    let made = compared("mpx", Sides::Two, all);
    Group { standard: vec![Placement::OtherCpu], ..made }
}

/// The owner: accepts all channels, and reports when as many records have arrived as the goal says.
fn own(place: &PortDirectory, control: &Control) -> Result<(), CaseError> {
    let mut owner = Mpx::create(place.name(), &MpxOptions::new()).map_err(trouble)?;
    let mut buffer = vec![0; 64 << 10];
    let (mut asking, mut bytes, mut wrong) = (Vec::new(), 0_u64, 0_u64);
    loop {
        let before = bytes / BYTES as u64;
        let received = owner.receive_each(&mut buffer, |record| match record.kind {
            RecordKind::Open => asking.push(record.channel),
            RecordKind::Data => {
                bytes += record.bytes.len() as u64;
                wrong += u64::from(EXPECTED.get(..record.bytes.len()) != Some(record.bytes));
            }
            _ => {}
        });
        received.map_err(trouble)?;
        for channel in asking.drain(..) {
            owner.accept(channel).map_err(trouble)?;
        }
        if wrong > 0 {
            return Err(CaseError::failed("a wrong record arrived"));
        }
        for done in before..bytes / BYTES as u64 {
            control.report(done + 1)?;
        }
    }
}

/// The side that sends, with its busy channels.
struct MpxSender {
    peer: MpxPeer,
    busy: Vec<ChannelId>,
    buffer: Vec<u8>,
}

impl MpxSender {
    fn open(place: &PortDirectory, channels: u32) -> Result<MpxSender, CaseError> {
        let options = MpxPeerOptions::new().channels(channels).connect_timeout(PATIENCE);
        let mut peer = MpxPeer::connect(place.name(), &options).map_err(trouble)?;
        let mut buffer = vec![0; 4096];
        let mut open = Vec::new();
        for _ in 0..channels {
            open.push(peer.open(b"").map_err(trouble)?);
        }
        let mut accepted = 0;
        while accepted < channels {
            let count = |kind| u32::from(kind == RecordKind::Accepted);
            let received = peer.receive_each(&mut buffer, |record| accepted += count(record.kind));
            received.map_err(trouble)?;
        }
        place.remove();
        // The busy channels are spread over all, so that they are not neighbours.
        let busy = (0..BUSY).map(|at| open[at * open.len() / BUSY]).collect();
        Ok(MpxSender { peer, busy, buffer })
    }

    fn send(&mut self, at: usize) -> Result<(), CaseError> {
        let channel = self.busy[at % BUSY];
        let mut left = BYTES;
        while left > 0 {
            left -= self.peer.send(channel, &EXPECTED[..left]).map_err(trouble)?;
            if left > 0 {
                // Waits until some channel has room again; it may be another one.
                self.peer.receive_each(&mut self.buffer, |_| {}).map_err(trouble)?;
            }
        }
        Ok(())
    }
}

fn record(site: &Site) -> MadeWork {
    let mut stream = OneWay::start(site, Mechanism::WeirRecord(PipeSettings::DEFAULT), BYTES)?;
    work(move |count| Ok(Batch::time(stream.send(count)?, count)))
}

fn send(site: &Site, channels: u32) -> MadeWork {
    let place = PortDirectory::new()?;
    let mut owner = PeerProcess::start(site, |control| own(&place, control))?;
    // Opened on first use: a process with an mpx has threads and must not be forked.
    let mut opened: Option<MpxSender> = None;
    work(move |count| {
        let sender = match &mut opened {
            Some(sender) => sender,
            None => opened.insert(MpxSender::open(&place, channels)?),
        };
        owner.more(count);
        let begun = Instant::now();
        for at in 0..count as usize {
            sender.send(at)?;
        }
        owner.wait()?;
        Ok(Batch::time(elapsed_ns(begun), count))
    })
}
