//! Options of `weir net`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `weir net`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct NetCommand {
    /// What to do.
    #[command(subcommand)]
    pub verb: NetVerb,
}

/// The verbs of `weir net`.
#[derive(Debug, Subcommand)]
pub enum NetVerb {
    /// Print or follow the log of a switch, choose what is logged, measure what that costs
    Log(NetLogOptions),
}

/// Options of `weir net log`.
#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
pub struct NetLogOptions {
    /// The log, if not that of a switch
    #[arg(conflicts_with = "tun")]
    pub file: Option<PathBuf>,

    /// The device whose switch it is
    #[arg(long, value_name = "DEVICE", default_value = "weir0")]
    pub tun: String,

    /// Go on with what is logged from now on, until an interrupt; begins with the last 10 events
    #[arg(short, long)]
    pub follow: bool,

    /// Print each event as a line of JSON (schema weir.net.log/1)
    #[arg(long, group = "form")]
    pub json: bool,

    /// Print the packets of dumps as a capture file, which tcpdump and wireshark read
    #[arg(long, group = "form")]
    pub pcap: bool,

    /// Print these kinds only, such as drops,errors
    #[arg(long, value_name = "KINDS")]
    pub kinds: Option<String>,

    /// With --follow: begin with the oldest event that is there
    #[arg(long, conflicts_with = "last")]
    pub since_start: bool,

    /// Begin with the last N events
    #[arg(long, value_name = "N")]
    pub last: Option<usize>,

    /// Log these kinds from now on (none, all, or names), in all processes that write to the log
    #[arg(long, value_name = "KINDS", conflicts_with_all = READS)]
    pub set: Option<String>,

    /// Wait for the disk at each event of these kinds from now on (none, all, or names)
    #[arg(long, value_name = "KINDS", conflicts_with_all = READS)]
    pub sync: Option<String>,

    /// Measure what an event of each kind costs here, in a log of its own beside this one
    #[arg(long, conflicts_with_all = OTHERS)]
    pub cost: bool,
}

/// Options that read the log: they do not go with those that change it.
const READS: [&str; 6] = ["follow", "json", "pcap", "kinds", "since_start", "last"];

/// What does not go with measuring.
const OTHERS: [&str; 7] = ["set", "sync", "follow", "pcap", "kinds", "since_start", "last"];

const LOG_EXAMPLES: &str = "\
Kinds: transactions, errors, dumps-in, dumps-out, drops, stations.

Examples:
  weir net log                                    what is in the log of the switch on weir0
  weir net log -f --kinds drops,errors            what goes wrong, as it happens
  weir net log --set all                          log whole packets too, from now on
  weir net log --pcap --since-start -f | tcpdump -r -
  weir net log --cost                             what that costs here, in ns an event";
