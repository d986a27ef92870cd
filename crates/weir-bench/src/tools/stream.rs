//! Chunks from this side to the other, which checks them: what most one-way cases do.

use super::channel::{Channel, Mechanism};
use super::own::Side;
use super::pattern::Pattern;
use super::peer::Peer;
use super::{elapsed_ns, work};
use std::time::Instant;
use weir_measure::bench::case::{Batch, CaseError, Site, Work};

/// A channel, the other side that reads it, and what comes next.
pub struct Stream {
    channel: Channel,
    peer: Peer,
    sent: Pattern,
}

impl Stream {
    /// Starts the reader.
    ///
    /// # Errors
    /// The host lacks the mechanism, or there is no process or memory.
    pub fn start(site: &Site, mechanism: Mechanism, bytes: usize) -> Result<Stream, CaseError> {
        let channel = Channel::new(mechanism, bytes)?;
        let peer = Peer::start(site, |control| {
            channel.only(Side::Receives);
            let (mut expected, mut buffer, mut done) = (Pattern::new(bytes), vec![0; bytes], 0);
            loop {
                channel.receive_next(&mut expected, &mut buffer)?;
                done += 1;
                control.report_with_usage(done)?;
            }
        })?;
        channel.only(Side::Sends);
        Ok(Stream { channel, peer, sent: Pattern::new(bytes) })
    }

    /// Sends so many chunks and waits until the last has been checked: the time that took.
    ///
    /// # Errors
    /// A chunk was not sent, or arrived with other bytes.
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
    ///
    /// # Errors
    /// Those of [`Stream::start`].
    pub fn throughput(
        site: &Site,
        mechanism: Mechanism,
        bytes: u64,
    ) -> Result<Box<dyn Work>, CaseError> {
        let mut stream = Stream::start(site, mechanism, bytes as usize)?;
        work(move |count| Ok(Batch::throughput(stream.send(count)?, count * bytes)))
    }

    /// The reader.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}
