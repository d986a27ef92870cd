//! Sends numbered bytes on many channels to the example `mpx_owner`, which describes the rest.
//!
//! The bytes of each channel are computed from its number and `--seed`. The printed checksum is that
//! of all channels, and equals the owner's. With `--echo` it sends one record at a time on its
//! first channel, waits until it has come back, and prints how long that took.

#[path = "../../weir/examples/common/mod.rs"]
mod common;

use clap::Parser;
use common::{Bytes, Checksum, size};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir::Timeout;
use weir_mpx::{ChannelId, MpxPeer, MpxPeerOptions, RecordKind};

/// Send numbered bytes on many channels of an mpx.
#[derive(Parser)]
struct Args {
    /// The name of the mpx
    name: PathBuf,
    /// How many channels
    #[arg(long, default_value_t = 64)]
    channels: u32,
    /// How many records on each
    #[arg(long, default_value_t = 1000)]
    records: u32,
    /// Bytes of a record
    #[arg(long, default_value = "64", value_parser = size)]
    bytes: u64,
    /// Bytes of the arena that all channels share
    #[arg(long, default_value = "1M", value_parser = size)]
    arena: u64,
    /// The seed of the bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Sum the bytes up
    #[arg(long)]
    check: bool,
    /// Wait for each record to come back
    #[arg(long)]
    echo: bool,
}

/// A channel, and the bytes still to be sent on it.
struct Channel {
    id: ChannelId,
    bytes: Bytes,
    sum: Checksum,
    left: u32,
    /// The rest of the record that was begun.
    rest: Vec<u8>,
    is_blocked: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = if args.echo { echo(&args) } else { send(&args) };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpx_peer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn connect(args: &Args) -> weir::Result<MpxPeer> {
    let options = MpxPeerOptions::new()
        .channels(args.channels)
        .arena_bytes(args.arena as u32)
        .connect_timeout(Duration::from_secs(2));
    MpxPeer::connect(&args.name, &options)
}

fn send(args: &Args) -> weir::Result<()> {
    let mut peer = connect(args)?;
    let mut channels = Vec::new();
    for number in 0..args.channels {
        let id = peer.open(format!("channel {number}").as_bytes())?;
        let bytes = Bytes::new(args.seed ^ u64::from(number) << 32);
        let (sum, rest) = (Checksum::default(), Vec::new());
        channels.push(Channel { id, bytes, sum, left: args.records, rest, is_blocked: false });
    }
    let begun = Instant::now();
    let mut buffer = vec![0; 4096];
    let mut mixed = 0;
    let mut left = channels.len();
    while left > 0 {
        let mut sent = 0;
        for channel in channels.iter_mut().filter(|channel| !channel.is_blocked) {
            sent += fill(&mut peer, channel, args)?;
            if channel.left == 0 && channel.rest.is_empty() {
                peer.close(channel.id)?;
                channel.is_blocked = true;
                mixed ^= channel.sum.value();
                left -= 1;
            }
        }
        let mut see = |record: weir_mpx::Record<'_>| {
            if record.kind == RecordKind::Unblocked
                && let Some(channel) = channels.iter_mut().find(|at| at.id == record.channel)
            {
                channel.is_blocked = false;
            }
        };
        // If all are full, waits until one has room.
        if sent == 0 && left > 0 {
            peer.receive_each(&mut buffer, &mut see)?;
        } else {
            let _ = peer.receive_each_timeout(&mut buffer, Timeout::Now, &mut see);
        }
    }
    let total = u64::from(args.channels) * u64::from(args.records) * args.bytes;
    let sum = if args.check { format!(" checksum {mixed:016x}") } else { String::new() };
    println!("{} channels, {} records each{sum}", args.channels, args.records);
    common::report("sent", total, None, begun.elapsed());
    Ok(())
}

/// Sends on a channel until it is full or its turn ends: how many records.
fn fill(peer: &mut MpxPeer, channel: &mut Channel, args: &Args) -> weir::Result<usize> {
    for turn in 0..32 {
        if channel.rest.is_empty() {
            if channel.left == 0 {
                return Ok(turn);
            }
            channel.left -= 1;
            channel.rest.resize(args.bytes as usize, 0);
            channel.bytes.fill(&mut channel.rest);
            if args.check {
                channel.sum.add(&channel.rest);
            }
        }
        let taken = peer.send(channel.id, &channel.rest)?;
        channel.rest.drain(..taken);
        if !channel.rest.is_empty() {
            channel.is_blocked = true;
            return Ok(turn + usize::from(taken > 0));
        }
    }
    Ok(32)
}

fn echo(args: &Args) -> weir::Result<()> {
    let mut peer = connect(args)?;
    let channel = peer.open(b"echo")?;
    let (record, mut buffer) = (vec![7; args.bytes as usize], vec![0; 64 << 10]);
    let begun = Instant::now();
    for _ in 0..args.records {
        peer.send(channel, &record)?;
        let mut back = 0;
        while back < record.len() {
            peer.receive_each(&mut buffer, |record| back += record.bytes.len())?;
        }
    }
    let each = begun.elapsed() / args.records.max(1);
    println!("{} records of {} bytes there and back, {each:?} each", args.records, args.bytes);
    peer.close(channel)
}
