//! The transaction log of the reference: an event for each packet that comes or goes. It is text,
//! written as programs of Allen's time did and as today's do, or a ring of weir's.

use crate::engine::case::{CaseError, Site};
use crate::tools::place::PortDirectory;
use crate::tools::{demand_disk, unnamed_file};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use weir_net::log::{Direction, Log};

const BUFFER_BYTES: usize = 64 << 10;
/// The size that `weir net up` uses.
const RING_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Logging {
    Off,
    /// Into a ring of weir's in a shared file.
    Ring,
    /// As text, 64 KiB at a time.
    Buffered,
    /// As text, one call for each line, into the page cache.
    Unbuffered,
    /// As text, one call for each line, which waits for the disk.
    Synchronous,
}

impl Logging {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug)]
pub struct Ledger {
    line: Vec<u8>,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Nothing,
    Ring(Log),
    Buffered(BufWriter<File>),
    Calls(File),
}

impl Ledger {
    /// Creates a log in an unnamed file.
    pub fn new(site: &Site, logging: Logging) -> Result<Ledger, CaseError> {
        let directory = &site.directory;
        let sink = match logging {
            Logging::Off => Sink::Nothing,
            Logging::Ring => Sink::Ring(ring()?),
            Logging::Buffered => {
                let file = open(directory, OFlags::empty())?;
                Sink::Buffered(BufWriter::with_capacity(BUFFER_BYTES, file))
            }
            Logging::Unbuffered => Sink::Calls(open(directory, OFlags::empty())?),
            Logging::Synchronous => {
                demand_disk(directory)?;
                Sink::Calls(open(directory, OFlags::DSYNC)?)
            }
        };
        Ok(Ledger { line: Vec::with_capacity(256), sink })
    }

    /// Logs a packet whose headers have been checked.
    #[inline]
    pub fn note(&mut self, direction: Direction, packet: &[u8]) -> Result<(), CaseError> {
        match &mut self.sink {
            Sink::Nothing => {}
            Sink::Ring(log) => log.packet(direction, packet),
            Sink::Buffered(file) => {
                file.write_all(text(&mut self.line, now(), direction, packet)?)?;
            }
            Sink::Calls(file) => {
                file.write_all(text(&mut self.line, now(), direction, packet)?)?;
            }
        }
        Ok(())
    }
}

fn now() -> (i64, i64) {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec, now.tv_nsec)
}

/// Formats a line: time, direction, source and destination, content.
fn text<'l>(
    line: &'l mut Vec<u8>,
    (seconds, nanoseconds): (i64, i64),
    direction: Direction,
    packet: &[u8],
) -> Result<&'l [u8], CaseError> {
    let way = match direction {
        Direction::In => "in",
        Direction::Out => "out",
    };
    line.clear();
    let address =
        |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    let message = &packet[usize::from(packet[0] & 0xf) * 4..];
    let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    writeln!(
        line,
        "{seconds}.{nanoseconds:09} {way} {} > {} icmp {} id {} seq {} bytes {}",
        address(12),
        address(16),
        message[0],
        word(4),
        word(6),
        packet.len()
    )?;
    Ok(line)
}

/// Creates a log of weir's; its file is removed once it is open.
fn ring() -> Result<Log, CaseError> {
    let place = PortDirectory::new()?;
    let log = Log::create(place.name(), RING_BYTES);
    log.map_err(|error| CaseError::left_out(error.to_string()))
}

fn open(directory: &Path, more: OFlags) -> Result<File, CaseError> {
    unnamed_file(
        directory,
        OFlags::WRONLY | OFlags::APPEND | more,
        "cannot create a file without a name",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_a_packet() {
        let mut packet = vec![0x45; 20];
        packet[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        packet.extend([8, 0, 0, 0, 0, 7, 1, 0]);
        let mut line = Vec::new();
        for _ in 0..2 {
            let line = text(&mut line, (12, 34), Direction::In, &packet).expect("written");
            let expected = "12.000000034 in 10.77.0.1 > 10.77.0.2 icmp 8 id 7 seq 256 bytes 28\n";
            assert_eq!(String::from_utf8_lossy(line), expected);
        }
    }
}
