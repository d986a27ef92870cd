//! Options of `weir buffer`.

use super::JsonOption;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
#[command(after_help = EXAMPLES, after_long_help = MANUAL)]
pub struct BufferOptions {
    /// What to read instead of standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// Write to FILE, which is made or emptied, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Memory for bytes that the output does not take at once
    #[arg(short, long, value_name = "SIZE", default_value = "256M", allow_hyphen_values = true,
          value_parser = memory)]
    pub memory: u64,

    /// Directory for the file behind the memory [default: $TMPDIR, else /var/tmp; memory alone
    /// where that cannot be used]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "no_spill")]
    pub spill: Option<PathBuf>,

    /// No file, memory alone: once that is full, the writer waits
    #[arg(long)]
    pub no_spill: bool,

    /// Most the file holds; memory and file full, the writer waits
    #[arg(long, value_name = "SIZE", default_value = "10G", allow_hyphen_values = true,
          value_parser = limit)]
    pub limit: u64,

    /// Keep a checksum of all that is written to the file, and check what is read back
    #[arg(long, conflicts_with = "no_spill")]
    pub verify: bool,

    /// Pass on at most so many bytes a second, such as 10M
    #[arg(short = 'L', long, value_name = "SIZE", allow_hyphen_values = true, value_parser = rate)]
    pub rate: Option<u64>,

    /// Bytes to expect, for share and time left; known where input is a file
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true,
          value_parser = crate::units::parse::size)]
    pub size: Option<u64>,

    /// Pass nothing on until so many percent of the memory are in use, or all input was read
    #[arg(short = 'P', long, value_name = "PERCENT",
          allow_hyphen_values = true, value_parser = percent)]
    pub start: Option<u8>,

    /// At the end, print on standard error what passed, and how
    #[arg(long)]
    pub stats: bool,

    #[command(flatten)]
    pub json: JsonOption,

    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,

    /// Show progress also where standard error is no terminal, a line each time
    #[arg(short, long, conflicts_with = "quiet")]
    pub force: bool,

    /// Time between two looks at the progress, such as 2s
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = crate::units::parse::period)]
    pub interval: Duration,

    /// Put NAME before what is shown, to tell several buffers apart
    #[arg(short = 'N', long)]
    pub name: Option<String>,
}

const JSON: &str = "At the end, write the same as JSON (schema weir.buffer/2) to FILE";

const EXAMPLES: &str = "\
Examples:
  tar c src | weir buffer | ssh host 'cat > src.tar'
  ./produce | weir buffer --memory 2G --spill /scratch | ./consume
  weir buffer --rate 10M < big.img | ssh host 'cat > big.img'
  ./produce | weir buffer --no-spill --stats | ./consume";

const MANUAL: &str = "\
Passes standard input, or a file, on to standard output. While the output takes the bytes they are moved
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

Several buffers in one pipeline have a line each; -N gives them names. On SIGUSR1 (kill -USR1) such
a line is printed, whether progress is shown or not.

With --stats and --json: moved (spliced_bytes) are bytes that went straight on, kept
(buffered_bytes) those that were copied and kept for a while. Of the latter, chosen (delayed_bytes)
were picked to be written to the file when memory ran short; avoided (cancelled_bytes) were taken
by the output before that was done, spilled were written.

Sizes are 65536, 64K, 1.5G or 2T: K, M, G and T are powers of 1024 (KB and KiB as well), here and in
what is shown (34 MiB).

With --verify what the file's device lost although it said that all went well is an error (status
1): no wrong byte is passed on. It costs a pass over each block at each way to the file and back.

The file has no name and goes with the process. A regular file as input is not read ahead of the
output: it keeps its bytes itself.

Exit status: 0 once all input was passed on; 1 when bytes could not be read or written (what was
read before is passed on first); 2 for wrong usage. When its reader has gone it dies of SIGPIPE,
when it is interrupted of that signal (what it had and the output did not take is lost, and is said);
--stats and --json are written all the same. When the file cannot be made or written it says so and
goes on with memory alone: no byte is lost, and that is no failure, unless --spill named a directory
that cannot be used at all.";

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
    match crate::units::parse::size(text)? {
        bytes if bytes > MOST_BYTES => Err(String::from("too much: 4T at most")),
        bytes => Ok(bytes),
    }
}

fn percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse();
    let percent = number.ok().filter(|percent| (1..=100).contains(percent));
    percent.ok_or_else(|| String::from("not a share of the memory; write 1 to 100, such as 50"))
}

fn rate(text: &str) -> Result<u64, String> {
    match crate::units::parse::size(text)? {
        0 => Err(String::from("nothing would ever pass; write 500K or 10M")),
        bytes => Ok(bytes),
    }
}
