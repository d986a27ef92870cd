//! Options of `weir net tftpd`, `tftp`, `serve` and `connect`.

use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use weir_command::json_option::JsonOption;
use weir_command::units::parse::{rate, size, whole};

#[derive(Debug, Args)]
#[command(after_help = TFTPD_EXAMPLES)]
pub struct NetTftpdOptions {
    /// Directory whose files are served; no name leads out of it
    pub directory: PathBuf,

    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE", conflicts_with = "socket")]
    pub tun: Option<String>,

    /// Use the kernel's sockets, without a switch
    #[arg(long)]
    pub socket: bool,

    /// With --socket: the address to serve at
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", requires = "socket")]
    pub bind: IpAddr,

    /// Port where requests come
    #[arg(long, value_name = "PORT", default_value = "69",
          value_parser = whole(1..=u16::MAX))]
    pub port: u16,

    /// Let clients write files that are not there
    #[arg(long)]
    pub write: bool,

    /// Let clients write files, and replace those that are there
    #[arg(long)]
    pub replace: bool,

    /// Longest file that clients may write
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    pub max_size: u64,

    /// Most transfers at a time
    #[arg(long, value_name = "N", default_value = "256",
          value_parser = whole(1..=u16::MAX))]
    pub transfers: u16,

    /// Most transfers at a time with one host
    #[arg(long, value_name = "N", default_value = "64",
          value_parser = whole(1..=u16::MAX))]
    pub per_host: u16,

    /// Most bytes a second, sent and received, of all transfers together [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = rate(1024, "less than 1K a second"))]
    pub rate: Option<u64>,

    /// Longest window to agree on, in blocks
    #[arg(long, value_name = "N", default_value = "65535",
          value_parser = whole(1..=u16::MAX))]
    pub window: u16,

    /// Longest block to agree on
    #[arg(long, value_name = "BYTES", default_value = "65464",
          value_parser = whole(8_u16..=65464))]
    pub block: u16,

    /// Seconds until a packet is sent again at the latest, where the client does not say
    #[arg(long, value_name = "SECONDS", default_value = "1",
          value_parser = whole(1..=u8::MAX))]
    pub timeout: u8,

    /// Do not print a line for each transfer
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = TFTP_EXAMPLES, disable_help_subcommand = true)]
pub struct NetTftpCommand {
    /// What to do.
    #[command(subcommand)]
    pub verb: NetTftpVerb,
}

#[derive(Debug, Subcommand)]
pub enum NetTftpVerb {
    /// Fetch a file
    Get(NetTftpGetOptions),
    /// Send a file
    Put(NetTftpPutOptions),
    /// Show the transfers of a tftpd that runs
    List(NetTftpListOptions),
}

#[derive(Debug, Args)]
#[command(mut_arg("json", |arg| arg.help(LIST_JSON)))]
pub struct NetTftpListOptions {
    /// Device of the switch that tftpd is attached to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE", conflicts_with = "socket")]
    pub tun: Option<String>,

    /// Ask the tftpd that uses the kernel's sockets
    #[arg(long)]
    pub socket: bool,

    /// Port where that tftpd waits for requests
    #[arg(long, value_name = "PORT", default_value = "69",
          value_parser = whole(1..=u16::MAX))]
    pub port: u16,

    #[command(flatten)]
    pub json: JsonOption,
}

#[derive(Debug, Args)]
pub struct NetTftpGetOptions {
    /// Host to ask
    pub host: String,

    /// Name of the file there
    pub remote: OsString,

    /// File to write, - for standard output [default: the last part of the name]
    pub local: Option<PathBuf>,

    #[command(flatten)]
    pub transfer: TransferOptions,
}

#[derive(Debug, Args)]
pub struct NetTftpPutOptions {
    /// Host to send to
    pub host: String,

    /// File to send
    pub local: PathBuf,

    /// Name of the file there [default: the last part of the name here]
    pub remote: Option<OsString>,

    #[command(flatten)]
    pub transfer: TransferOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TransferMode {
    /// Bytes as they are
    Octet,
    /// Text: lines travel with CR LF
    Netascii,
}

#[derive(Debug, Args)]
pub struct TransferOptions {
    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE", conflicts_with = "socket")]
    pub tun: Option<String>,

    /// Use the kernel's sockets, without a switch
    #[arg(long)]
    pub socket: bool,

    /// Port where the server waits for requests
    #[arg(long, value_name = "PORT", default_value = "69",
          value_parser = whole(1..=u16::MAX))]
    pub port: u16,

    /// Let the tftpd that runs on this host, at this port, do the transfer [default: 69]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "69", value_parser = whole(1..=u16::MAX))]
    pub daemon: Option<u16>,

    /// How the bytes travel
    #[arg(long, value_name = "MODE", default_value = "octet")]
    pub mode: TransferMode,

    /// Bytes of a block to propose
    #[arg(long, value_name = "BYTES", default_value = "1428",
          value_parser = whole(8_u16..=65464))]
    pub block: u16,

    /// Blocks of a window to propose
    #[arg(long, value_name = "N", default_value = "32",
          value_parser = whole(1..=u16::MAX))]
    pub window: u16,

    /// Seconds until a packet is sent again at the latest, to propose
    #[arg(long, value_name = "SECONDS", value_parser = whole(1..=u8::MAX))]
    pub timeout: Option<u8>,

    /// Propose no options, for servers that do not know them
    #[arg(long)]
    pub no_options: bool,

    /// Print no progress and no summary
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub struct NetServeOptions {
    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// Send back what comes, on this port [default: 7]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "7", value_parser = whole(1..=u16::MAX))]
    pub echo: Option<u16>,

    /// Throw away what comes, on this port [default: 9]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "9", value_parser = whole(1..=u16::MAX))]
    pub discard: Option<u16>,

    /// Send characters without end, on this port [default: 19]
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true,
          default_missing_value = "19", value_parser = whole(1..=u16::MAX))]
    pub chargen: Option<u16>,

    /// Serve the files of this directory by HTTP; no name leads out of it
    #[arg(long, value_name = "DIR")]
    pub http: Option<PathBuf>,

    /// Port for HTTP
    #[arg(long, value_name = "PORT", default_value = "80", requires = "http",
          value_parser = whole(1..=u16::MAX))]
    pub http_port: u16,

    /// Give clients of Telnet a terminal with this command of the shell; only the machine or the
    /// namespace where the device lies is served
    #[arg(long, value_name = "COMMAND")]
    pub telnet: Option<String>,

    /// Port for Telnet
    #[arg(long, value_name = "PORT", default_value = "23", requires = "telnet",
          value_parser = whole(1..=u16::MAX))]
    pub telnet_port: u16,

    /// Do not print a line for each connection and answer
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = CONNECT_EXAMPLES)]
pub struct NetConnectOptions {
    /// Host to connect to
    #[arg(value_parser = super::address::address)]
    pub host: Ipv4Addr,

    /// Port there
    #[arg(value_parser = whole(1..=u16::MAX))]
    pub port: u16,

    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = TELNET_EXAMPLES)]
pub struct NetTelnetOptions {
    /// Host to work on
    #[arg(value_parser = super::address::address)]
    pub host: Ipv4Addr,

    /// Port there
    #[arg(default_value = "23", value_parser = whole(1..=u16::MAX))]
    pub port: u16,

    /// Device of the switch to attach to [default: the only one that is up, else weir0]
    #[arg(long, value_name = "DEVICE")]
    pub tun: Option<String>,

    /// Ask for binary transmission in both directions
    #[arg(long)]
    pub binary: bool,
}

const LIST_JSON: &str = "\
Write the transfers as JSON (schema weir.net.tftp.list/1) to FILE; - is standard output";

const TFTPD_EXAMPLES: &str = "\
Only files that all users may read are served, and nothing is written unless --write or --replace
says so. A file that a client writes gets its name once it is complete.

Examples:
  weir net tftpd /srv/tftp                         on the host behind the switch
  weir net tftpd /srv/tftp --socket                on this machine, for anyone
  weir net tftpd in --socket --port 6969 --write   let clients write new files
  weir net tftpd /srv/tftp --socket --rate 10M     at most 10 MiB/s";

const TFTP_EXAMPLES: &str = "\
Examples:
  weir net tftp get 10.9.0.1 boot.img              from the host behind the switch to the kernel
  weir net tftp get --socket localhost boot.img - | sha256sum
  weir net tftp put --socket --block 512 --window 1 192.0.2.7 notes.txt
  weir net tftp get --daemon 10.9.0.1 boot.img     the tftpd that runs fetches it
  weir net tftp list                               its transfers, and what they wait for";

const SERVE_EXAMPLES: &str = "\
Examples:
  weir net serve --http /srv/www                   then: curl http://10.9.0.2/FILE
  weir net serve --echo --discard --chargen        ports 7, 9 and 19
  weir net serve --echo=7777                       another port
  weir net serve --telnet 'python3 -q'             then: telnet 10.9.0.2";

const TELNET_EXAMPLES: &str = "\
On a terminal, what is typed goes to the other side at once where that echoes it, and ^] ends the
command. Otherwise standard input is sent line by line, and its end is told to the other side.

Examples:
  weir net telnet 10.9.0.1
  printf 'GET / HTTP/1.0\\n\\n' | weir net telnet 10.9.0.1 8000";

const CONNECT_EXAMPLES: &str = "\
Standard input goes to the other side, and what it sends to standard output. At the end of the
input the other side is told; the command ends when both have sent their last.

Example:
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | weir net connect 10.9.0.1 8000";
