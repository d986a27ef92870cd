//! Sends numbered bytes through a weir pipe to `pipe_recv`, which checks them.
//!
//! ```text
//! cargo run --release -p weir-pipes --example pipe_recv -- /tmp/demo.sock --check &
//! cargo run --release -p weir-pipes --example pipe_send -- /tmp/demo.sock --bytes 10G --chunk 64K
//! ```
//!
//! The bytes are computed from `--seed`. At the end, or when the reader is gone, it prints how many
//! bytes were written, and their checksum. Kill either side at any time: the other prints how far it
//! came.

mod common;

use clap::Parser;
use common::{Bytes, Checksum, size};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use weir::{ErrorKind, Options};

/// Send numbered bytes through a weir pipe.
#[derive(Parser)]
struct Args {
    /// The socket at which pipe_recv listens
    path: PathBuf,
    /// How many bytes
    #[arg(long, default_value = "1G", value_parser = size)]
    bytes: u64,
    /// Bytes of a write
    #[arg(long, default_value = "64K", value_parser = size)]
    chunk: u64,
    /// The seed of the bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes the pipe holds [default: that of weir tune]
    #[arg(long, value_parser = size)]
    capacity: Option<u64>,
    /// Send records instead of a stream
    #[arg(long)]
    records: bool,
    /// Sum the bytes up
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match send(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pipe_send: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes all of it.
type Write = Box<dyn FnMut(&[u8]) -> weir::Result<()>>;

fn send(args: &Args) -> weir::Result<()> {
    let mut options = Options::new();
    if let Some(bytes) = args.capacity {
        options = options.capacity_bytes(bytes);
    }
    let mut write: Write = if args.records {
        let mut writer = weir::RecordWriter::connect(&args.path, &options)?;
        Box::new(move |chunk| writer.send(chunk))
    } else {
        let mut writer = weir::Writer::connect(&args.path, &options)?;
        Box::new(move |chunk| writer.write(chunk).map(drop))
    };
    let (mut bytes, mut sum) = (Bytes::new(args.seed), Checksum::default());
    let mut chunk = vec![0; args.chunk.max(1) as usize];
    let begun = Instant::now();
    let mut sent = 0;
    let ended = loop {
        let count = (args.bytes - sent).min(chunk.len() as u64) as usize;
        if count == 0 {
            break Ok(());
        }
        bytes.fill(&mut chunk[..count]);
        match write(&chunk[..count]) {
            Ok(()) => {}
            // Bytes that a write published before its reader went away are not counted.
            Err(error) => break Err(error),
        }
        sent += count as u64;
        if args.check {
            sum.add(&chunk[..count]);
        }
    };
    common::report("sent", sent, args.check.then_some(sum), begun.elapsed());
    match ended {
        Err(error) if error.kind() == ErrorKind::Closed => {
            eprintln!("pipe_send: {error}");
            Ok(())
        }
        ended => ended,
    }
}
