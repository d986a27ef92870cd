//! Reads a port that any number of `port_write` write to, until all expected writers are gone.
//!
//! ```sh
//! cargo run --release -p weir-pipes --example port_read -- /tmp/demo.port --writers 3 &
//! for i in 1 2 3; do
//!     cargo run --release -p weir-pipes --example port_write -- /tmp/demo.port --messages 1M &
//! done
//! ```

use clap::Parser;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use weir::{Event, Port, PortOptions, Result, Timeout};

/// Read a weir port and count what comes.
#[derive(Parser)]
struct Args {
    /// The name of the port; one without a `/` is in the user's directory of names
    name: PathBuf,
    /// End when this many writers have come and all are gone
    #[arg(long, default_value_t = 1)]
    writers: u64,
    /// Print each message, with its writer and number
    #[arg(long)]
    print: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match read(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("port_read: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(args: &Args) -> Result<()> {
    let mut port = Port::create(&args.name, &PortOptions::new())?;
    let mut buffer = vec![0; 1 << 16];
    let mut open = BTreeMap::new();
    let (mut messages, mut writers, begun) = (0_u64, 0, Instant::now());
    while writers < args.writers || !open.is_empty() {
        port.receive_each_timeout(&mut buffer, Timeout::Never, |received, bytes| {
            let process = received.identity.pid;
            let writer = received.writer.number();
            if open.insert(writer, process).is_none() {
                writers += 1;
            }
            match received.event {
                Event::Closed(ending) => {
                    open.remove(&writer);
                    let count = received.sequence;
                    println!("writer {writer} (process {process}) {ending:?}: {count} messages");
                }
                _ => {
                    messages += 1;
                    if args.print {
                        let text = bytes.escape_ascii();
                        println!("{writer}/{}: {text}", received.sequence);
                    }
                }
            }
        })?;
    }
    let rate = messages as f64 / begun.elapsed().as_micros().max(1) as f64;
    println!("received {messages} messages of {writers} writers, {rate:.1} a microsecond");
    Ok(())
}
