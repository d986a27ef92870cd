//! Writes numbered messages to the port of the example `port_read`.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weir::{PortWriter, PortWriterOptions, Result};

/// Write numbered messages to a weir port.
#[derive(Parser)]
struct Args {
    /// The name of the port
    name: PathBuf,
    /// How many messages
    #[arg(long, default_value_t = 1000)]
    messages: u64,
    /// How long to wait for a reader, in seconds
    #[arg(long, default_value_t = 5)]
    wait: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match write(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("port_write: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(args: &Args) -> Result<()> {
    let options = PortWriterOptions::new().connect_timeout(Duration::from_secs(args.wait));
    let mut writer = PortWriter::connect(&args.name, &options)?;
    for number in 0..args.messages {
        writer.send(format!("message {number}").as_bytes())?;
    }
    Ok(())
}
