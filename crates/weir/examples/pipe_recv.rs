//! Receives what the example `pipe_send` sends, and checks it.

mod common;

use clap::Parser;
use common::{Bytes, Checksum, size};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir::{Listener, Pool, PoolOptions};

/// Receive numbered bytes from a weir pipe.
#[derive(Parser)]
struct Args {
    /// The socket to listen at
    path: PathBuf,
    /// Stop after this many bytes [default: at the writer's end]
    #[arg(long, value_parser = size)]
    bytes: Option<u64>,
    /// Bytes of a read; with records, the longest expected
    #[arg(long, default_value = "64K", value_parser = size)]
    chunk: u64,
    /// The seed of the bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Receive records instead of a stream
    #[arg(long)]
    records: bool,
    /// With a stream: keep what the reader has no time for in this much memory, and in a file
    #[arg(long, value_name = "MEMORY", value_parser = size, conflicts_with = "records")]
    elastic: Option<u64>,
    /// Rest this many seconds before reading
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    rest: f64,
    /// Compare each byte with the expected one, and sum the bytes up
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match receive(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pipe_recv: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads into a buffer: how many bytes, 0 at the end.
type Read = Box<dyn FnMut(&mut [u8]) -> weir::Result<usize>>;

fn receive(args: &Args) -> weir::Result<bool> {
    let listener = Listener::bind(&args.path)?;
    let mut read: Read = if args.records {
        let mut reader = listener.accept::<weir::RecordReader>()?;
        Box::new(move |buffer| Ok(reader.receive(buffer)?.unwrap_or(0)))
    } else {
        let mut reader = listener.accept::<weir::Reader>()?;
        match args.elastic {
            None => Box::new(move |buffer| reader.read(buffer)),
            Some(memory) => {
                let pool = Pool::new(&PoolOptions::new().memory_bytes(memory))?;
                let mut reader = reader.elastic(&pool)?;
                Box::new(move |buffer| reader.read(buffer))
            }
        }
    };
    std::thread::sleep(Duration::try_from_secs_f64(args.rest).unwrap_or_default());
    let (mut expected, mut sum) = (Bytes::new(args.seed), Checksum::default());
    let mut buffer = vec![0; args.chunk.max(1) as usize];
    let mut wanted = buffer.clone();
    let begun = Instant::now();
    let mut received = 0;
    while args.bytes.is_none_or(|bytes| received < bytes) {
        let count = read(&mut buffer)?;
        if count == 0 {
            break;
        }
        if args.check {
            expected.fill(&mut wanted[..count]);
            if let Some(at) = (0..count).find(|at| buffer[*at] != wanted[*at]) {
                eprintln!("pipe_recv: byte {} is wrong", received + at as u64);
                return Ok(false);
            }
            sum.add(&buffer[..count]);
        }
        received += count as u64;
    }
    common::report("received", received, args.check.then_some(sum), begun.elapsed());
    Ok(true)
}
