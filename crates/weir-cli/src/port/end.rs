//! The reading end of `weir port read`: a port, or an elastic one.

use super::asked;
use crate::args::PortReadOptions;
use crate::buffer::make_pool;
use weir::{ElasticPort, Pool, Port, PortCounts, PortOptions, Received, Timeout};
use weir_command::fault::{Fault, print_message};
use weir_command::units::bytes;

pub enum ReadingPort {
    Plain(Box<Port>),
    Elastic {
        port: Box<ElasticPort>,
        pool: Pool,
        /// The user was told that nothing can be written to the file.
        told: bool,
    },
}

impl ReadingPort {
    pub fn create(options: &PortReadOptions) -> Result<ReadingPort, Fault> {
        let wanted = PortOptions::new()
            .mode(options.mode)
            .most_message_bytes(options.max_message)
            .most_writers(options.max_writers);
        let pool = options.elastic.then(|| make_pool(&options.pool)).transpose()?;
        let port = Port::create(&options.name, &wanted).map_err(asked)?;
        Ok(match pool {
            None => ReadingPort::Plain(Box::new(port)),
            Some((pool, _)) => {
                let port = Box::new(port.elastic(&pool)?);
                ReadingPort::Elastic { port, pool, told: false }
            }
        })
    }

    pub fn receive_each(
        &mut self,
        buffer: &mut [u8],
        timeout: Timeout,
        see: impl FnMut(Received, &[u8]),
    ) -> weir::Result<usize> {
        match self {
            ReadingPort::Plain(port) => port.receive_each_timeout(buffer, timeout, see),
            ReadingPort::Elastic { port, .. } => port.receive_each_timeout(buffer, timeout, see),
        }
    }

    pub fn counts(&mut self) -> weir::Result<PortCounts> {
        match self {
            ReadingPort::Plain(port) => port.counts(),
            ReadingPort::Elastic { port, .. } => port.counts(),
        }
    }

    /// Tells the user once that the file cannot be written. On a device that is full, that ends with
    /// each block that is read, and begins again.
    pub fn report_trouble(&mut self) {
        let ReadingPort::Elastic { pool, told, .. } = self else { return };
        let trouble = pool.trouble();
        if let Some(why) = trouble.as_ref().filter(|_| !*told) {
            print_message(&format!("{why}; writers wait once memory is full"));
        }
        *told |= trouble.is_some();
    }

    /// Bytes that wait in backlogs to be received.
    pub fn backlog_bytes(&self) -> u64 {
        match self {
            ReadingPort::Plain(_) => 0,
            ReadingPort::Elastic { port, .. } => port.backlog_bytes(),
        }
    }

    /// Whether messages wait in backlogs, which may be empty ones. What a writer left that was shut
    /// out does not: nobody takes it.
    pub fn has_backlog(&self) -> bool {
        match self {
            ReadingPort::Plain(_) => false,
            ReadingPort::Elastic { pool, .. } => {
                let account = pool.account();
                account.memory_bytes + account.file_bytes > 0
            }
        }
    }

    /// Says what an interrupt loses.
    pub fn report_loss(&self) {
        match self.backlog_bytes() {
            0 => {}
            lost => print_message(&format!("{} of messages in the backlog are lost", bytes(lost))),
        }
    }
}
