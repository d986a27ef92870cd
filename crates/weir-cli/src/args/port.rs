//! Options of `weir port`.

use super::{JsonOption, PoolFlags};
use clap::{Arg, Args, Subcommand, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use weir_command::units::parse::whole;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MANUAL, disable_help_subcommand = true)]
pub struct PortCommand {
    /// What to do.
    #[command(subcommand)]
    pub verb: PortVerb,
}

#[derive(Debug, Subcommand)]
pub enum PortVerb {
    /// Create a port and print the messages sent to it, until interrupted
    Read(PortReadOptions),
    /// Send each line of standard input to a port as one message
    Write(PortWriteOptions),
    /// List the ports of a directory and their readers
    List(PortListOptions),
    /// Show the reader and the writers of a port, and their counters
    Stat(PortStatOptions),
    /// Remove a port that a dead reader left behind
    Remove(PortRemoveOptions),
    /// Show ports as files below a directory, for programs that know nothing of weir
    #[cfg(feature = "mount")]
    Mount(PortMountOptions),
}

#[derive(Debug, Args)]
#[command(after_help = READ_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(READ_JSON).group("form")))]
#[command(mut_args(needs_elastic))]
pub struct PortReadOptions {
    /// The port: a path, or a name without a /, which is in a directory of this user
    pub name: PathBuf,

    /// Print a NUL instead of a newline after each message
    #[arg(short = '0', long, group = "form")]
    pub null: bool,

    /// Print the length of each message before it, 4 bytes, little-endian
    #[arg(long, group = "form")]
    pub length_prefixed: bool,

    /// Print the messages and nothing between them
    #[arg(long, group = "form")]
    pub raw: bool,

    #[command(flatten)]
    pub json: JsonOption,

    /// Begin each line with the number of the writer and of its message, as 3:17, and a tab
    #[arg(long, conflicts_with_all = ["raw", "length_prefixed", "json"])]
    pub header: bool,

    /// End once no message has come for this long, such as 5s or 200ms
    #[arg(long, value_name = "TIME", value_parser = weir_command::units::parse::duration)]
    pub until_idle: Option<Duration>,

    /// End once no writer is left, and at least N (1 without N) have come and gone
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1",
          require_equals = true, value_parser = whole(1..=u64::MAX))]
    pub until_closed: Option<u64>,

    /// Who may write, in octal as for chmod (the directory must admit them, too)
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    pub mode: u32,

    /// Longest message to accept, such as 64K; at most 1G
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = weir_command::units::parse::size)]
    pub max_message: u64,

    /// Maximum number of writers at once, up to 16384; each takes a file descriptor
    #[arg(long, value_name = "N", default_value = "1024",
          value_parser = whole(0..=u32::MAX))]
    pub max_writers: u32,

    /// Let no writer wait while the output rests: keep what comes in memory, then in a file
    #[arg(long)]
    pub elastic: bool,

    #[command(flatten)]
    pub pool: PoolFlags,
}

#[derive(Debug, Args)]
#[command(after_help = WRITE_EXAMPLES)]
pub struct PortWriteOptions {
    /// The port, named as for weir port read
    pub name: PathBuf,

    /// Send TEXT as a message and do not read standard input; may be given several times
    #[arg(short, long, value_name = "TEXT", conflicts_with_all = ["null", "length_prefixed"])]
    pub message: Vec<OsString>,

    /// Messages in standard input end with a NUL, not with a newline
    #[arg(short = '0', long, conflicts_with = "length_prefixed")]
    pub null: bool,

    /// Each message in standard input has its length before it, 4 bytes, little-endian
    #[arg(long)]
    pub length_prefixed: bool,

    /// If no reader is listening, wait this long for one, such as 5s or 200ms
    #[arg(long, value_name = "TIME", value_parser = weir_command::units::parse::duration)]
    pub wait: Option<Duration>,

    /// Bytes that can be on their way before the writer must wait for the reader
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = weir_command::units::parse::size)]
    pub capacity: u64,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(LIST_JSON)))]
pub struct PortListOptions {
    /// The directory; without it, the one in which names without a / lie
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
#[command(after_help = STAT_NOTE)]
#[command(mut_arg("json", |arg| arg.help(STAT_JSON)))]
pub struct PortStatOptions {
    /// The port, named as for weir port read
    pub name: PathBuf,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
pub struct PortRemoveOptions {
    /// The port, named as for weir port read; a port that has a reader is not removed
    pub name: PathBuf,
}

#[cfg(feature = "mount")]
#[derive(Debug, Args)]
#[command(after_help = MOUNT_EXAMPLES)]
pub struct PortMountOptions {
    /// The directory on which to mount them
    #[arg(value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,

    /// Show the ports of this directory, and not those with names without a /
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub of: Option<PathBuf>,

    /// Longest message, such as 64K; at most 1G
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = weir_command::units::parse::size)]
    pub max_message: u64,
}

#[cfg(feature = "mount")]
const MOUNT_EXAMPLES: &str = "\
Examples:
  weir port read log > log.txt &
  mkdir ports; weir port mount ports &
  echo 'backup done' > ports/log                  one message, with its newline
  ls ports; umount ports

What a program writes between open and close is one message, whatever others write at the same time.
An open waits until what was closed before it is sent, and fails if no reader is listening (ENXIO, as
of a FIFO). A message that cannot be sent is lost, which is told here and not to its writer, who has
closed by then. This command is the sender of all messages. Others than its user have no access.
It needs /dev/fuse and, unless root mounts, fusermount3.";

const READ_JSON: &str = "\
Write each message as a line of JSON (schema weir.port.read/1), with its sender, to FILE; - is \
standard output";

const LIST_JSON: &str = "Write JSON (schema weir.port.list/1) to FILE; - is standard output";

const STAT_JSON: &str = "Write JSON (schema weir.port.stat/1) to FILE; - is standard output";

const EXAMPLES: &str = "\
A port has a name, one reader and any number of writers. Each message arrives whole, whatever other
writers send at the same time.

Examples:
  weir port read log > log.txt &
  for job in 1 2 3; do ./job $job 2>&1 | weir port write log --wait 5s & done
  weir port stat log";

const MANUAL: &str = "\
With a port, many jobs can write to one file: no line is torn, and the lines of each job stay in
order.

A name without a / lies in $XDG_RUNTIME_DIR/weir or, if that is not set, in a directory of this user
for temporary files. A name with a / is a path, such as ./log. The file NAME.lock lies beside it.

Exit status: 0; 1 if something failed (no reader, the name is taken); 2 for wrong usage.";

const READ_EXAMPLES: &str = "\
Examples:
  weir port read log > log.txt                    until an interrupt (Ctrl-C, kill)
  weir port read --until-closed=8 log | sort      until 8 writers have come and gone
  weir port read --header log                     each line with its sender, WRITER:SEQUENCE
  weir port read --json - log                     the same and more, as JSON
  weir port read --null paths | xargs -0 ls -d    for messages that may hold newlines
  weir port read --elastic log | ./slow           writers go on while ./slow works

A reader that is interrupted closes the port and dies of the signal. If the reader of its output has
left, it closes the port and dies of SIGPIPE, as other programs in a pipeline do.

With --elastic each writer that fills its capacity gets a backlog in memory, and then in a file
without a name, as of weir buffer. All writers share both. Once they are full, writers wait. What is
in the backlog when the reader is interrupted is lost, and it says how much.";

const WRITE_EXAMPLES: &str = "\
Examples:
  ./job 2>&1 | weir port write --wait 5s log      each line is a message, sent as soon as it is read
  weir port write log --message 'backup done'     one message
  find . -print0 | weir port write --null paths   for messages that may hold newlines

Once the reader has left, sending fails and the command ends with status 1; the rest of standard
input is not read. Status 0 means that every message was sent, and a reader that lives receives it,
unless it had as many writers as it takes and was too busy to say so. The reader's own exit status
says whether it could print it.";

const STAT_NOTE: &str = "\
The reader and the writers count for themselves. Sent and received count pieces: a message longer
than a quarter of its writer's capacity is sent in several. Writers whose processes this user may
not inspect are not shown.";

/// Makes the options of the backlogs need `--elastic`.
fn needs_elastic(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "memory" | "spill" | "no_spill" | "limit" | "verify" => arg.requires("elastic"),
        _ => arg,
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| String::from("not permissions; write 600, 622 or 666"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes() {
        assert_eq!([mode("622"), mode("0600"), mode("0")], [Ok(0o622), Ok(0o600), Ok(0)]);
        assert!(mode("1000").is_err() && mode("8").is_err() && mode("").is_err());
    }
}
