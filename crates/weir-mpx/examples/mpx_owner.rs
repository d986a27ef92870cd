//! Owns an mpx, and receives what any number of `mpx_peer` send on their channels.
//!
//! ```text
//! cargo run --release -p weir-mpx --example mpx_owner -- demo --check &
//! cargo run --release -p weir-mpx --example mpx_peer -- demo --channels 1000 --records 1000
//! ```
//!
//! At the end of the last channel it prints how much has come, and the checksum of everything. Then
//! it ends, unless `--stay` is given. With `--echo` it sends back what comes. Kill a peer at any time:
//! its channels end, and the others continue.

#[path = "../../weir/examples/common/mod.rs"]
mod common;

use clap::Parser;
use common::Checksum;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use weir::Ending;
use weir_mpx::{ChannelId, Mpx, MpxOptions, RecordKind};

/// Own an mpx, and receive what its peers send.
#[derive(Parser)]
struct Args {
    /// The name
    name: PathBuf,
    /// Sum the bytes up
    #[arg(long)]
    check: bool,
    /// Send back what comes
    #[arg(long)]
    echo: bool,
    /// Go on when the last channel has ended
    #[arg(long)]
    stay: bool,
}

/// What came.
#[derive(Default)]
struct Counts {
    sums: HashMap<ChannelId, Checksum>,
    bytes: u64,
    records: u64,
    ended: u64,
    died: u64,
    // The checksums of all channels, in whatever order they ended.
    mixed: u64,
}

fn main() -> ExitCode {
    match own(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpx_owner: {error}");
            ExitCode::FAILURE
        }
    }
}

fn own(args: &Args) -> weir::Result<()> {
    let mut owner = Mpx::create(&args.name, &MpxOptions::new())?;
    eprintln!("mpx_owner: listening at {}", owner.path().display());
    let mut buffer = vec![0; 64 << 10];
    let mut counts = Counts::default();
    let mut begun = Instant::now();
    loop {
        let (mut asked, mut back) = (Vec::new(), Vec::new());
        owner.receive_each(&mut buffer, |record| match record.kind {
            RecordKind::Open => asked.push(record.channel),
            RecordKind::Data => {
                counts.bytes += record.bytes.len() as u64;
                counts.records += 1;
                if args.check {
                    counts.sums.entry(record.channel).or_default().add(record.bytes);
                }
                if args.echo {
                    back.push((record.channel, record.bytes.to_vec()));
                }
            }
            RecordKind::Close(ending) => {
                counts.ended += 1;
                counts.died += u64::from(ending != Ending::Closed);
                counts.mixed ^= counts.sums.remove(&record.channel).unwrap_or_default().value();
            }
            _ => {}
        })?;
        if !asked.is_empty() && counts.records == 0 {
            begun = Instant::now();
        }
        for channel in asked {
            owner.accept(channel)?;
        }
        for (channel, bytes) in back {
            // A channel that has ended meanwhile, or does not read its replies, gets nothing back.
            let _ = owner.send(channel, &bytes);
        }
        if counts.ended > 0 && owner.channels() == 0 {
            let Counts { records, ended, died, mixed, .. } = counts;
            let sum = if args.check { format!(" checksum {mixed:016x}") } else { String::new() };
            println!("{ended} channels ended, of which {died} died; {records} records{sum}");
            common::report("received", counts.bytes, None, begun.elapsed());
            if !args.stay {
                return Ok(());
            }
            counts = Counts::default();
        }
    }
}
