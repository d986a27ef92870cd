//! Options of `weir net profile`.

use clap::Args;
use std::ffi::OsString;
use std::time::Duration;
use weir_command::json_option::JsonOption;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MANUAL)]
#[command(mut_arg("json", |arg| arg.help(JSON)))]
pub struct NetProfileOptions {
    /// Profile files, or processes of the switch [default: all processes of the switch]
    #[arg(value_name = "FILE|PID")]
    pub which: Vec<OsString>,

    /// Device of the switch [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// How long to count, such as 5s or 1m; an interrupt ends the count early
    #[arg(short, long, value_name = "TIME", default_value = "5",
          value_parser = weir_command::units::parse::period)]
    pub seconds: Duration,

    /// Print a profile of every interval of this length, until interrupted
    #[arg(short, long, value_name = "TIME", conflicts_with = "seconds",
          value_parser = weir_command::units::parse::period)]
    pub interval: Option<Duration>,

    #[command(flatten)]
    pub json: JsonOption,
}

const JSON: &str = "\
Write JSON (schema weir.net.profile/1) to FILE, with --interval one line each time; - is \
standard output";

const EXAMPLES: &str = "\
Examples:
  weir net profile                         what a packet costs, and where, over 5 seconds
  weir net profile --seconds 60 --json -   as JSON
  weir net profile --interval 1 4711       one process of the switch, every second";

const MANUAL: &str = "\
Counting is off until this command switches it on. It goes off by itself two seconds after the last
command that wanted it. Several commands may count at once.

self user      CPU time in the subroutine itself, without the subroutines and system calls it makes
system         CPU time of the system calls it makes, which are listed again below by name
wait           time without a CPU in both, also because others had the CPU
per call       self user and system
not explained  CPU time of the process, as the kernel counted it, that is in no row
(the profile)  what the profile itself takes to tell CPU time from waiting
(not timed)    waiting while calls were counted and not timed, beyond what the timed ones had

All calls are counted. At high rates only a part of them is timed, in turns of some hundred
microseconds, and the times of all are estimated from these. The last line of a table says which
part.

Waits shorter than 2 us, and times shorter than 4 us in which others had the CPU, are not seen.

The number of packets is that of the switch's calls of ip.verify, one for each packet it read.";
