//! Options of `weir buffer`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Options of `weir buffer`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MANUAL)]
pub struct BufferOptions {
    /// Memory for bytes that the output does not take at once
    #[arg(short, long, value_name = "SIZE", default_value = "256M",
          value_parser = memory)]
    pub memory: u64,

    /// Directory for the file behind the memory [default: $TMPDIR, else /var/tmp]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "no_spill")]
    pub spill: Option<PathBuf>,

    /// No file, memory alone: once that is full, the writer waits
    #[arg(long)]
    pub no_spill: bool,

    /// Most the file holds; memory and file full, the writer waits
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = limit)]
    pub limit: u64,

    /// Keep a checksum of all that is written to the file, and check what is read back
    #[arg(long, conflicts_with = "no_spill")]
    pub verify: bool,

    /// Pass on at most so many bytes a second, such as 10M
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub rate: Option<u64>,

    /// Bytes to expect, for share and time left; known where input is a file
    #[arg(long, value_name = "SIZE", value_parser = super::pipes::size)]
    pub size: Option<u64>,

    /// At the end, print on standard error what passed, and how
    #[arg(long)]
    pub stats: bool,

    /// At the end, write the same as JSON (schema weir.buffer/1) to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,

    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,

    /// Put in by weir run: a file that cannot be had is said, but is no failure
    #[arg(long, hide = true)]
    pub put_in: bool,
}

const EXAMPLES: &str = "\
Examples:
  tar c src | weir buffer | ssh host 'cat > src.tar'
  ./produce | weir buffer --memory 2G --spill /scratch | ./consume
  weir buffer --rate 10M < big.img | ssh host 'cat > big.img'
  ./produce | weir buffer --no-spill --stats | ./consume";

const MANUAL: &str = "\
Passes standard input on to standard output. While the output takes the bytes they are moved
without being copied, where one of the two is a pipe. What it does not take at once is kept, in
memory and then in a file, so that the writer goes on.

Examples:
  tar c src | weir buffer | ssh host 'cat > src.tar'
  ./produce | weir buffer --memory 2G --spill /scratch | ./consume
  weir buffer --rate 10M < big.img | ssh host 'cat > big.img'
  ./produce | weir buffer --no-spill --stats | ./consume

On a terminal it shows how it goes: bytes passed on, time, rates in and out over the last three
seconds, share of the memory in use, and bytes spilled (written to the file); where the size is
known (of a file, by --size, or once all input was read) also a bar, the share done and the time
left. At the end a line with mean rates and the most memory stays. Nothing is shown where
standard output is a terminal too.

With --stats and --json: spliced are bytes that were moved, buffered those that were kept for a
while. Of these, delayed were chosen to be written to the file when memory ran short; cancelled
were taken before that was done, spilled were written.

Sizes are given in powers of 1024 (64K, 32M, 2G) and shown in powers of 1000 (34 MB).

With --verify what the file's device lost although it said that all went well is an error (status
1): no wrong byte is passed on. It costs a pass over each block at each way to the file and back.

The file has no name and goes with the process. A regular file as input is not read ahead of the
output: it keeps its bytes itself.

Exit status: 0 once all input was passed on; 1 when something failed (what was read before is
passed on first); 2 for wrong usage. When its reader has gone it dies of SIGPIPE. When the file
cannot be written it says so, goes on with memory alone, and exits with 1 in the end.";

/// A cluster, which is also four frames.
const LEAST_MEMORY_BYTES: u64 = 256 << 10;
/// Frames are numbered by 26 bits.
const MOST_BYTES: u64 = 4 << 40;

fn memory(text: &str) -> Result<u64, String> {
    match limit(text)? {
        bytes if bytes < LEAST_MEMORY_BYTES => Err(String::from("too little: 256K at least")),
        bytes => Ok(bytes),
    }
}

fn limit(text: &str) -> Result<u64, String> {
    match super::pipes::size(text)? {
        bytes if bytes > MOST_BYTES => Err(String::from("too much: 4096G at most")),
        bytes => Ok(bytes),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    match super::pipes::size(text)? {
        0 => Err(String::from("nothing would ever pass; write 500K or 10M")),
        bytes => Ok(bytes),
    }
}
