//! Options of `weir buffer`.

use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::{percent, rate};

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
#[command(after_help = EXAMPLES, after_long_help = MANUAL)]
pub struct BufferOptions {
    /// File to read instead of standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// Write to FILE, which is created or emptied, instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub pool: PoolFlags,

    /// Pass on at most this many bytes a second, such as 10M
    #[arg(short = 'L', long, value_name = "SIZE", allow_hyphen_values = true,
          value_parser = rate(1, TOO_SLOW))]
    pub rate: Option<u64>,

    /// Expected number of bytes, for the share done and the time left; known if input is a file
    #[arg(short, long, value_name = "SIZE", allow_hyphen_values = true,
          value_parser = weir_command::units::parse::size)]
    pub size: Option<u64>,

    /// Pass nothing on until this share of the memory is in use, or all input was read
    #[arg(short = 'P', long, value_name = "PERCENT",
          allow_hyphen_values = true, value_parser = percent(1..=100_u8, NO_SHARE))]
    pub start: Option<u8>,

    /// At the end, print on standard error how many bytes passed, and how
    #[arg(long)]
    pub stats: bool,

    #[command(flatten)]
    pub json: JsonOption,

    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,

    /// Show progress even if standard error is not a terminal, one line each time
    #[arg(short, long, conflicts_with = "quiet")]
    pub force: bool,

    /// Time between updates of the progress, such as 2s
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = weir_command::units::parse::period)]
    pub interval: Duration,

    /// Begin every line of progress with NAME, to tell several buffers apart
    #[arg(short = 'N', long)]
    pub name: Option<String>,
}

/// The memory of a buffer, and the file behind it.
#[derive(Debug, Args)]
pub struct PoolFlags {
    /// Memory for bytes that the output cannot take yet
    #[arg(short, long, value_name = "SIZE", default_value = "256M", allow_hyphen_values = true,
          value_parser = memory)]
    pub memory: u64,

    /// Directory of the file used once memory is full [default: $TMPDIR, else /var/tmp; memory
    /// only, if that cannot be used]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "no_spill")]
    pub spill: Option<PathBuf>,

    /// Use memory only, no file: once memory is full, the writer waits
    #[arg(long)]
    pub no_spill: bool,

    /// Maximum size of the file; once memory and file are full, the writer waits
    #[arg(long, value_name = "SIZE", default_value = "10G", allow_hyphen_values = true,
          value_parser = limit, conflicts_with = "no_spill")]
    pub limit: u64,

    /// Keep checksums of everything written to the file, and check what is read back
    #[arg(long, conflicts_with = "no_spill")]
    pub verify: bool,
}

const TOO_SLOW: &str = "no byte would ever pass; write a rate such as 500K or 10M";
const NO_SHARE: &str = "not a share of the memory; write 1 to 100, such as 50";

const JSON: &str = "At the end, write the statistics as JSON (schema weir.buffer/1) to FILE";

const EXAMPLES: &str = "\
Examples:
  tar c src | weir buffer | ssh host 'cat > src.tar'
  ./produce | weir buffer --memory 2G --spill /scratch | ./consume
  weir buffer --rate 10M < big.img | ssh host 'cat > big.img'
  ./produce | weir buffer --no-spill --stats | ./consume";

const MANUAL: &str = "\
Passes standard input, or a file, on to standard output. While the output takes the bytes, and one
of the two is a pipe, the bytes are moved without being copied. Bytes the output cannot take yet are
kept in memory, then in a file, so the writer need not wait.

On a terminal it shows progress: bytes passed on, time, rates in and out over the last three
seconds, share of the memory in use, and bytes spilled (written to the file). If the size is known
(from a file, from --size, or once all input was read), it also shows a bar, the share done and the
time left. At the end one line remains, with the mean rates and the most memory used. It shows
nothing if standard output is a terminal too.

Several buffers in one pipeline have a line each; -N gives them names. On SIGUSR1 (kill -USR1) the
buffer prints such a line, whether it shows progress or not.

What --stats and --json count: moved (spliced_bytes) are bytes passed straight on; kept
(buffered_bytes) are bytes copied and kept for a while. Of those kept, chosen (delayed_bytes) were
selected for the file when memory ran short. Of those chosen, avoided (cancelled_bytes) were taken
by the output before they were written, and spilled (spilled_bytes) were written.

Sizes are 65536, 64K, 1.5G or 2T: K, M, G and T are powers of 1024 (KB and KiB as well), here and in
what weir buffer prints (34 MiB).

With --verify, data that the file's device lost without reporting it is an error (status 1): no
wrong byte is passed on. This costs one pass over each block on its way to the file, and one on its
way back.

The file has no name and disappears with the process. A regular file as input is not read ahead of
the output, since it keeps its bytes itself.

Exit status: 0 once all input was passed on; 1 if bytes could not be read or written (what was read
before is passed on first); 2 for wrong usage. If the reader of its output has left, it dies of
SIGPIPE. If it is interrupted, it dies of that signal; bytes that the output had not taken are lost,
and it says how many. --stats and --json are written in these cases too. If the file cannot be
created or written, it says so and goes on with memory only: no byte is lost, and this is not a
failure, unless --spill named a directory that cannot be used at all.";

/// A cluster, which is also four frames.
const LEAST_MEMORY_BYTES: u64 = 256 << 10;
/// Frames are numbered by 26 bits.
const MOST_BYTES: u64 = 4 << 40;

fn memory(text: &str) -> Result<u64, String> {
    match limit(text)? {
        bytes if bytes < LEAST_MEMORY_BYTES => Err(String::from("too small: at least 256K")),
        bytes => Ok(bytes),
    }
}

fn limit(text: &str) -> Result<u64, String> {
    match weir_command::units::parse::size(text)? {
        bytes if bytes > MOST_BYTES => Err(String::from("too large: at most 4T")),
        bytes => Ok(bytes),
    }
}
