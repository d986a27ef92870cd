//! Two processes take turns by the flags of a named cluster: start it twice with the same name.
//!
//! ```sh
//! cargo run --release -p weir-pipes --example flags_turns -- /dev/shm/demo.flags --turns 100K &
//! cargo run --release -p weir-pipes --example flags_turns -- /dev/shm/demo.flags --turns 100K
//! ```

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir::{Flags, Result};

/// Set by the process that came first, so that the other knows it is the second.
const TAKEN: u64 = 1 << 63;
/// The flags of whose turn it is: the first's, the second's.
const TURN: [u64; 2] = [1, 2];

/// Take turns with another process.
#[derive(Parser)]
struct Args {
    /// The file that names the cluster
    name: PathBuf,
    /// How many turns
    #[arg(long, default_value_t = 1000)]
    turns: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match take_turns(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flags_turns: {error}");
            ExitCode::FAILURE
        }
    }
}

fn take_turns(args: &Args) -> Result<()> {
    let flags = Flags::named(&args.name)?;
    // The state before tells exactly one of the two that it came first.
    let me = usize::from(flags.set(TAKEN) & TAKEN != 0);
    if me == 1 {
        flags.set(TURN[0]);
    }
    let patience = Some(Duration::from_secs(30));
    let begun = Instant::now();
    for _ in 0..args.turns {
        flags.wait_and_clear_timeout(TURN[me], patience)?;
        flags.set(TURN[1 - me]);
    }
    let ns = begun.elapsed().as_nanos() as f64 / args.turns.max(1) as f64;
    let name = ["first", "second"][me];
    println!("the {name} took {} turns, {ns:.0} ns each, of both", args.turns);
    if me == 1 {
        // A named cluster stays until its file is removed. Processes that have it open keep it.
        let _ = std::fs::remove_file(&args.name);
    }
    Ok(())
}
