//! Chunks from this side to the other, which checks them: what most one-way cases do.

use super::channel::{BenchChannel, Mechanism};
use super::own::ChannelSide;
use super::pattern::Pattern;
use super::peer::PeerProcess;
use super::{elapsed_ns, work};
use std::time::Instant;
use weir_measure::bench::case::{Batch, CaseError, MadeWork, Site};

/// A channel, the other side that reads it, and what comes next.
pub struct OneWay {
    channel: BenchChannel,
    peer: PeerProcess,
    sent: Pattern,
}

impl OneWay {
    /// Starts the reader.
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

    /// Sends so many chunks and waits until the last has been checked: the time that took.
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

    /// As work, of which the throughput is wanted.
    pub fn throughput(site: &Site, mechanism: Mechanism, bytes: u64) -> MadeWork {
        let mut stream = OneWay::start(site, mechanism, bytes as usize)?;
        work(move |count| Ok(Batch::throughput(stream.send(count)?, count * bytes)))
    }

    /// The reader.
    pub fn peer(&self) -> &PeerProcess {
        &self.peer
    }
}
