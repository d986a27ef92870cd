//! Options of `weir net`.

mod address;
mod files;
mod profile;
mod relay;

use address::{address, net};
use clap::{Args, Parser, Subcommand};
pub use files::{
    NetConnectOptions, NetServeOptions, NetTelnetOptions, NetTftpCommand, NetTftpGetOptions,
    NetTftpListOptions, NetTftpPutOptions, NetTftpVerb, NetTftpdOptions, TransferMode,
    TransferOptions,
};
pub use profile::NetProfileOptions;
pub use relay::RelayOptions;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::whole;

/// Run a network host in user space: a packet switch on a TUN device, a log, profiles
#[derive(Debug, Parser)]
#[command(name = "weir-net", bin_name = "weir net", version, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub struct NetCommand {
    /// What to do.
    #[command(subcommand)]
    pub verb: NetVerb,
}

#[derive(Debug, Subcommand)]
pub enum NetVerb {
    /// Create a TUN device, or take an Ethernet device, and pass its packets to the programs that attach
    Up(NetUpOptions),
    /// Attach to a switch and answer ICMP: echo, timestamps, errors; ask for local programs
    Icmpd(NetIcmpdOptions),
    /// Ask a host for an echo or the time of day, from the host behind a switch
    Ping(NetPingOptions),
    /// Show the counters of a switch: packets, drops by reason, attached programs
    Stat(NetStatOptions),
    /// Print or follow the log of a switch, choose what it logs, measure what logging costs
    Log(NetLogOptions),
    /// Pass packets between two devices; lose, double, corrupt, reorder and delay some of them
    Relay(RelayOptions),
    /// Profile a switch: what a packet costs, and in which subroutines
    Profile(NetProfileOptions),
    /// Serve the files of a directory by TFTP
    Tftpd(NetTftpdOptions),
    /// Fetch or send a file by TFTP
    Tftp(NetTftpCommand),
    /// Serve echo, discard, chargen, files by HTTP or a terminal over TCP, on the host behind a switch
    Serve(NetServeOptions),
    /// Open a TCP connection from the host behind a switch, between standard input and output
    Connect(NetConnectOptions),
    /// Work on another host by Telnet, from the host behind a switch
    Telnet(NetTelnetOptions),
}

#[derive(Debug, Args)]
#[command(after_help = LOG_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(LOG_JSON).group("form")))]
pub struct NetLogOptions {
    /// A log file, instead of the log of a switch
    #[arg(conflicts_with = "tun")]
    pub file: Option<PathBuf>,

    /// Device of the switch [default: the only one that is up, else that has a log, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// Print the last 10 events, then each new one, until interrupted
    #[arg(short, long)]
    pub follow: bool,

    #[command(flatten)]
    pub json: JsonOption,

    /// Print the logged packets as a capture file for tcpdump and wireshark
    #[arg(long, group = "form")]
    pub pcap: bool,

    /// Print only these kinds of events, such as drops,errors
    #[arg(long, value_name = "KINDS")]
    pub kinds: Option<String>,

    /// With --follow: begin with the oldest event in the log
    #[arg(long, conflicts_with = "last")]
    pub since_start: bool,

    /// Begin with the last N events
    #[arg(long, value_name = "N", value_parser = whole(0..=usize::MAX))]
    pub last: Option<usize>,

    /// From now on log these kinds (none, all, or names), in all processes that write to the log
    #[arg(long, value_name = "KINDS", conflicts_with_all = READS)]
    pub set: Option<String>,

    /// From now on wait for the disk at each event of these kinds (none, all, or names)
    #[arg(long, value_name = "KINDS", conflicts_with_all = READS)]
    pub sync: Option<String>,

    /// Measure what an event of each kind costs on this host, in a separate log beside this one
    #[arg(long, conflicts_with_all = NOT_WITH_COST)]
    pub cost: bool,
}

const LOG_JSON: &str = "\
Write each event as a line of JSON (schema weir.net.log/1), or with --cost the measurement \
(weir.net.log.cost/1), to FILE; - is standard output";

const PING_JSON: &str = "\
Write the summary as JSON (schema weir.net.ping/1) to FILE; - is standard output";

const STAT_JSON: &str = "Write JSON (schema weir.net.stat/1) to FILE; - is standard output";

/// Options that read the log. They conflict with those that change it.
const READS: [&str; 6] = ["follow", "json", "pcap", "kinds", "since_start", "last"];

#[derive(Debug, Args)]
#[command(after_help = UP_EXAMPLES)]
pub struct NetUpOptions {
    /// Device to create
    #[arg(long, value_name = "DEVICE", default_value = "weir0")]
    pub tun: String,

    /// Address of the host behind the switch, with its prefix, such as 10.9.0.2/24
    #[arg(long, value_name = "ADDRESS/BITS", value_parser = net)]
    pub addr: (Ipv4Addr, u8),

    /// Address of the kernel's side of the device, on the same net
    #[arg(long, value_name = "ADDRESS", value_parser = address,
          required_unless_present = "ethernet")]
    pub peer: Option<Ipv4Addr>,

    /// Take this Ethernet device, which exists, instead of creating one: a real net, with ARP
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["tun", "peer", "netns"])]
    pub ethernet: Option<String>,

    /// Longest packet of the device
    #[arg(long, value_name = "BYTES", default_value = "1500",
          value_parser = whole(68..=u16::MAX))]
    pub mtu: u16,

    /// Gateway to other nets [default: the peer; none with --ethernet]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub gateway: Option<Ipv4Addr>,

    /// Create the device in a new network namespace NAME; both are removed when the switch ends
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    /// Answer ICMP in the switch itself, without a daemon and a ring in between
    #[arg(long)]
    pub inline: bool,

    /// Start weir net icmpd beside the switch, and end it with the switch
    #[arg(long, conflicts_with = "inline")]
    pub icmpd: bool,

    /// With --inline or --icmpd: answer the gateway protocol GGP (RFC 823) as well
    #[arg(long)]
    pub ggp: bool,

    /// Who fills and checks headers of IP: allen (the stations) or later (the switch)
    #[arg(long, value_name = "WHO", default_value = "later")]
    pub division: weir_net::division::Division,

    /// How long a datagram waits for its fragments
    #[arg(long, value_name = "TIME", default_value = "30s",
          value_parser = weir_command::units::parse::duration)]
    pub reassembly_timeout: Duration,

    /// Memory for datagrams that wait for fragments
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = weir_command::units::parse::size)]
    pub reassembly_memory: u64,

    /// Use packets without the device's header (IFF_VNET_HDR)
    #[arg(long)]
    pub no_vnet_header: bool,

    /// What to log at first: none, all, or kinds as in weir net log
    #[arg(
        long,
        value_name = "KINDS",
        default_value = "errors,drops,stations,flows,local-requests"
    )]
    pub log: String,

    /// Size of the log, a ring: new events overwrite the oldest
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = weir_command::units::parse::size)]
    pub log_size: u64,

    /// Run COMMAND once the switch is up; the switch ends with it and exits with its status
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl NetUpOptions {
    /// The device of the switch, whatever it is.
    pub fn device(&self) -> &str {
        self.ethernet.as_deref().unwrap_or(&self.tun)
    }
}

#[derive(Debug, Args)]
pub struct NetIcmpdOptions {
    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// Answer the gateway protocol GGP (RFC 823) as well
    #[arg(long)]
    pub ggp: bool,

    /// Answer information requests (RFC 792), which no host should any more (RFC 6918)
    #[arg(long)]
    pub information: bool,

    /// Answer at most N echo requests a second [default: all]
    #[arg(long, value_name = "N", value_parser = whole(1..=u32::MAX))]
    pub echo_rate: Option<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = PING_EXAMPLES)]
#[command(mut_arg("json", |arg| arg.help(PING_JSON)))]
pub struct NetPingOptions {
    /// Host to ask
    #[arg(value_parser = address)]
    pub destination: Ipv4Addr,

    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// Number of requests [default: until interrupted]
    #[arg(short, long, value_name = "N", value_parser = whole(1..=u64::MAX))]
    pub count: Option<u64>,

    /// Time between two requests
    #[arg(short, long, value_name = "TIME", default_value = "1s",
          value_parser = weir_command::units::parse::at_most_a_day)]
    pub interval: Duration,

    /// Bytes of data in an echo request
    #[arg(short, long, value_name = "BYTES", default_value = "56",
          value_parser = whole(0_u16..=65507))]
    pub size: u16,

    /// How long to wait for the last reply
    #[arg(short = 'W', long, value_name = "TIME", default_value = "1s",
          value_parser = weir_command::units::parse::at_most_a_day)]
    pub wait: Duration,

    /// Ask for the time of day (ICMP timestamp) instead of an echo
    #[arg(long)]
    pub timestamp: bool,

    /// Have the running icmpd send the requests, and hand over the answers
    #[arg(long)]
    pub by_daemon: bool,

    /// Ask for an echo by the gateway protocol GGP (RFC 823), which only icmpd --ggp speaks
    #[arg(long, requires = "by_daemon", conflicts_with = "timestamp")]
    pub ggp: bool,

    /// Print only the summary
    #[arg(short, long)]
    pub quiet: bool,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(STAT_JSON)))]
pub struct NetStatOptions {
    /// Device of the switch [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    #[command(flatten)]
    pub json: JsonOption,
}

const EXAMPLES: &str = "\
Examples (up and relay need CAP_NET_ADMIN, which root has):
  weir net up --addr 10.9.0.2/24 --peer 10.9.0.1 --netns lab --icmpd -- ping -c 3 10.9.0.2
  weir net log -f --kinds drops,errors             what goes wrong, as it happens
  weir net stat                                    packets received, sent and dropped, and why
  weir net profile --seconds 5                     where a packet's time goes";

const UP_EXAMPLES: &str = "\
weir net up needs CAP_NET_ADMIN (root has it). The kernel gets the peer's address and reaches the
host through the device. The programs that attach, its stations, are the host: nothing answers until
one attaches.

With --ethernet the host is on a real net, beside the kernel, under an address of its own. The kernel
must neither have that address nor forward packets that come from that device. All other verbs find
such a switch by --tun DEVICE too.

Examples:
  weir net up --tun weir0 --addr 10.9.0.2/24 --peer 10.9.0.1
  weir net icmpd & ping 10.9.0.2                   now something answers
  weir net up --addr 10.9.0.2/24 --peer 10.9.0.1 --netns lab --icmpd -- ping -c 3 10.9.0.2
                                                   all of this in a new network namespace
  weir net up --ethernet eth1 --addr 192.168.7.9/24 --gateway 192.168.7.1 --icmpd";

const PING_EXAMPLES: &str = "\
Examples:
  weir net ping 10.9.0.1 -c 10 -i 100ms            from the host behind the switch to the kernel
  weir net ping --timestamp -c 3 10.9.0.1          ask for the time of day
  weir net ping --by-daemon -c 3 10.9.0.1          have icmpd ask";

/// Options that conflict with measuring.
const NOT_WITH_COST: [&str; 7] = ["set", "sync", "follow", "pcap", "kinds", "since_start", "last"];

const LOG_EXAMPLES: &str = "\
Kinds: transactions, errors, dumps-in, dumps-out, drops, stations, flows, local-requests,
foreign-requests.

Examples:
  weir net log                                    print the log of the switch that is up
  weir net log -f --kinds drops,errors            what goes wrong, as it happens
  weir net log --set all                          log whole packets too, from now on
  weir net log --pcap --since-start -f | tcpdump -r -
  weir net log --cost                             what logging costs on this host, in ns an event";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use weir_command::manual::{assert_sound, reflowed};

    #[test]
    fn the_command_line_is_sound() {
        assert_sound(&reflowed(NetCommand::command()));
        let words = ["weir-net", "ping", "10.9.0.1", "--count", "x"];
        let refused = NetCommand::try_parse_from(words).expect_err("refused").to_string();
        assert!(
            refused.contains("invalid value") && refused.contains("of at least 1"),
            "{refused}"
        );
    }

    /// Behind a switch there is one address, and another that was named was ignored.
    #[test]
    fn an_address_to_serve_at_needs_the_kernels_sockets() {
        let words = ["weir-net", "tftpd", "files", "--bind", "127.0.0.1", "--socket"];
        assert!(NetCommand::try_parse_from(words).is_ok());
        let refused = NetCommand::try_parse_from(&words[..5]).expect_err("refused");
        assert!(refused.to_string().contains("--socket"), "{refused}");
    }
}
