//! One-way transfer: chunks from this side to a peer that checks them.

use super::channel::{BenchChannel, Mechanism};
use super::own::ChannelSide;
use super::pattern::Pattern;
use super::peer::PeerProcess;
use super::{elapsed_ns, work};
use crate::engine::case::{Batch, CaseError, MadeWork, Site};
use std::time::Instant;

/// A channel, the peer that reads from it, and the next chunk to send.
pub struct OneWay {
    channel: BenchChannel,
    peer: PeerProcess,
    sent: Pattern,
}

impl OneWay {
    pub fn start(site: &Site, mechanism: Mechanism, bytes: usize) -> Result<OneWay, CaseError> {
        let channel = BenchChannel::new(mechanism, bytes)?;
        let peer = PeerProcess::start(site, |control| {
            channel.only(ChannelSide::Receives);
            let (mut expected, mut buffer, mut done) = (Pattern::new(bytes), vec![0; bytes], 0);
            loop {
                channel.receive_next(&mut expected, &mut buffer)?;
                done += 1;
                control.report_with_usage(done)?;
            }
        })?;
        channel.only(ChannelSide::Sends);
        Ok(OneWay { channel, peer, sent: Pattern::new(bytes) })
    }

    /// Sends `count` chunks, waits until the last has been checked, and returns the time that took.
    pub fn send(&mut self, count: u64) -> Result<f64, CaseError> {
        self.peer.more(count);
        let begun = Instant::now();
        for _ in 0..count {
            self.channel.send_next(&mut self.sent)?;
        }
        self.peer.wait()?;
        let elapsed = elapsed_ns(begun);
        self.channel.settled();
        Ok(elapsed)
    }

    /// Makes work whose figure is the throughput.
    pub fn throughput(site: &Site, mechanism: Mechanism, bytes: u64) -> MadeWork {
        let mut stream = OneWay::start(site, mechanism, bytes as usize)?;
        work(move |count| Ok(Batch::throughput(stream.send(count)?, count * bytes)))
    }

    pub fn peer(&self) -> &PeerProcess {
        &self.peer
    }
}
