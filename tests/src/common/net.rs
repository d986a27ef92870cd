//! A bed for tests of `weir net`: a network namespace of the test's own, weir's processes in it,
//! clients, and packets made by hand (`tests/net`).
//!
//! Everything that is started dies with the test, however the test ends. Processes are killed as
//! groups when they are dropped, and by the kernel when the test's thread ends. A namespace has no
//! name, so it goes with its last process. No packet leaves it.

use super::{Binary, WEIR, bound, have, python, schema};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The kernel's side of the device.
pub const KERNEL: &str = "10.9.0.1";
/// The host behind it: the switch's, or another kernel's.
pub const HOST: &str = "10.9.0.2";
/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the output of a process is read once that has ended.
const LEFT_BEHIND: Duration = Duration::from_millis(300);
/// Seconds that a client or a script may take.
const MOST_S: &str = "60";
/// A network namespace and a directory. Dropping this removes both.
pub struct Bed {
    /// State of the switch, captures.
    pub directory: tempfile::TempDir,
    holder: Process,
}

/// Why there can be no bed here.
fn missing() -> Option<&'static str> {
    static WHY: OnceLock<Option<&'static str>> = OnceLock::new();
    *WHY.get_or_init(|| {
        let works = |command: &mut Command| {
            let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            quiet.status().is_ok_and(|status| status.success())
        };
        let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
        if tun.is_err() {
            return Some("/dev/net/tun cannot be opened");
        }
        let ip = "ip tuntap add dev probe0 mode tun && ip link set lo up";
        if !works(Command::new("unshare").args(["-n", "sh", "-c", ip])) {
            return Some("no privilege for a network namespace and a TUN device");
        }
        let modules = "import json, random, select, socket, struct, subprocess";
        if !works(Command::new(python()).args(["-c", modules])) {
            return Some("no python3 with its standard modules");
        }
        None
    })
}

impl Bed {
    /// Makes a namespace with nothing but loopback, for a test that also uses these programs.
    /// Returns `None`, and prints why, if that is not possible.
    pub fn new(programs: &[&str]) -> Option<Bed> {
        let always =
            ["ip", "unshare", "nsenter", "setpriv", "timeout", "sysctl", "tcpdump", "python3"];
        if !have(&[&always, programs].concat()) {
            return None;
        }
        if let Some(why) = missing() {
            eprintln!("SKIPPED: {why}");
            return None;
        }
        Binary("weir-net").need();
        let directory = tempfile::tempdir().expect("a directory");
        // Neighbour discovery would be traffic that no test asked for.
        let quiet = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
        let script = format!(
            "sysctl -qw {quiet} 2>/dev/null; ip link set lo up; echo ready; exec sleep 1000"
        );
        let mut command = mortal("unshare");
        command.args(["-n", "sh", "-c", &script]);
        let holder = Process::start(command);
        holder.said("ready");
        Some(Bed { directory, holder })
    }

    /// The file that stands for the namespace.
    pub fn namespace(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.pid()))
    }

    /// A command that will run in the namespace, without a time limit.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = mortal("nsenter");
        command.arg(format!("--net={}", self.namespace().display())).arg("--").arg(program);
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command.current_dir(self.directory.path());
        command
    }

    /// Runs a program to its end. Spaces separate the words of the line.
    pub fn run(&self, line: &str) -> Output {
        let mut command = self.command("timeout");
        command.args(["-k", "5", MOST_S]).args(words(line));
        let output = command.output().expect("it starts");
        assert_ne!(output.status.code(), Some(124), "{line} took too long\n{}", both(&output));
        output
    }

    /// Runs a program that must succeed, and returns what it printed.
    pub fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}\n{}", output.status, both(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts `weir net ARGS`.
    pub fn net(&self, args: &str) -> Process {
        let mut command = self.command(WEIR);
        command.arg("net").args(words(args));
        Process::start(command)
    }

    /// Runs `weir net ARGS` to its end.
    pub fn run_net(&self, args: &str) -> Output {
        self.run(&format!("{WEIR} net {args}"))
    }

    /// Starts the switch with further options, and waits until it is up.
    pub fn switch(&self, args: &str) -> Process {
        let line = format!("up --tun weir0 --addr {HOST}/24 --peer {KERNEL} {args}");
        let switch = self.net(line.trim_end());
        switch.said("weir0 is up: 10.9.0.2/24, the kernel is 10.9.0.1");
        switch
    }

    /// Starts the ICMP daemon with further options, and waits until it answers.
    pub fn icmpd(&self, args: &str) -> Process {
        let icmpd = self.net(format!("icmpd --tun weir0 {args}").trim_end());
        icmpd.said("icmpd answers for 10.9.0.2");
        icmpd
    }

    /// The counters of the switch.
    pub fn stat(&self) -> Value {
        let text = self.ok(&format!("{WEIR} net stat --tun weir0 --json -"));
        schema::check_text("weir.net.stat/1", text.as_bytes())
    }

    /// The packets that were dropped so far for this reason.
    pub fn drops(&self, reason: &str) -> u64 {
        self.stat()["drops"][reason.replace('-', "_")].as_u64().unwrap_or(0)
    }

    /// Runs a script of `tests/net` to its end, and returns the JSON it prints.
    pub fn script(&self, args: &str) -> Value {
        let mut words = words(args);
        let script = scripts().join(words.next().expect("a script"));
        let rest: Vec<_> = words.collect();
        // -B: Python writes no compiled file beside the script.
        let line = format!("{} -B {} {}", python(), script.display(), rest.join(" "));
        let text = self.ok(line.trim_end());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    /// Begins to record what the kernel gets from the device.
    pub fn capture(&self, device: &str) -> Capture {
        let file = self.directory.path().join(format!("{device}.pcap"));
        let mut command = self.command("tcpdump");
        // Its buffer is divided into places of this length, which is enough for what the host
        // sends.
        let link = self.ok(&format!("ip link show {device}"));
        let mtu = link.split_whitespace().skip_while(|word| *word != "mtu").nth(1);
        command.args(["-s", mtu.expect("a size"), "-B", "16384", "-U", "--immediate-mode"]);
        // -Z root: tcpdump would otherwise give up the right to write into the directory.
        command.args(["-i", device, "-Q", "in", "-Z", "root", "-w"]).arg(&file);
        let process = Process::start(command);
        process.said("listening on");
        Capture { process, file }
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../net/weir-net-cli/tests/net")
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(' ').filter(|word| !word.is_empty())
}

/// A command that the kernel kills when this thread ends, with piped output and no input.
fn mortal(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Everything that was printed.
pub fn both(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The lines of both outputs of a process, as they come.
#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<String>>,
    more: Condvar,
    /// How many outputs have come to their end.
    ends: Mutex<usize>,
    end: Condvar,
}

impl Heard {
    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(self: &Arc<Heard>, output: impl Read + Send + 'static) {
        let heard = Arc::clone(self);
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                heard.lines().push(String::from_utf8_lossy(&line).into_owned());
                heard.more.notify_all();
            }
            *heard.ends.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            heard.end.notify_all();
        });
    }

    /// Waits until both outputs were read to their end. What a process has left behind may keep them
    /// open, so not for long.
    fn both_to_the_end(&self) {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.end.wait_timeout_while(ends, LEFT_BEHIND, |ends| *ends < 2);
    }
}

/// A process that is killed with the test, together with those it started.
pub struct Process {
    child: Child,
    heard: Arc<Heard>,
}

impl Process {
    /// Starts a command and reads its output.
    pub fn start(mut command: Command) -> Process {
        let mut child = command.spawn().expect("it starts");
        bound(&child);
        let heard = Arc::new(Heard::default());
        heard.hear(child.stdout.take().expect("piped"));
        heard.hear(child.stderr.take().expect("piped"));
        Process { child, heard }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has printed this text, and returns the line.
    pub fn said(&self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut lines = self.heard.lines();
        loop {
            if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never said {text:?}, but: {lines:#?}");
            let waited = self.heard.more.wait_timeout(lines, left);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Everything it has printed so far.
    pub fn printed(&self) -> String {
        self.heard.lines().join("\n")
    }

    pub fn kill(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("sent");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("looked").is_none()
    }

    /// Waits until it has ended by itself.
    pub fn ended(&mut self) -> ExitStatus {
        if self.is_running() {
            let pidfd = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
            let pidfd = pidfd.expect("it was not waited for");
            let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
            let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&time));
            assert_eq!(ended, Ok(1), "it has not ended: {}", self.printed());
        }
        self.heard.both_to_the_end();
        self.child.wait().expect("ended")
    }

    /// Interrupts it and waits until it has ended. It must end well.
    pub fn end(&mut self) {
        self.kill(Signal::TERM);
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{status}: {}", self.printed());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Not after it was waited for, since its number may belong to another process by then.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// What answers for the host behind a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// The daemon, in a process of its own.
    Daemon,
    /// The daemon, which fills and checks the headers of IP too.
    Allen,
    /// The switch itself.
    Inline,
}

/// All kinds.
pub const ANSWERS: [Answers; 3] = [Answers::Daemon, Answers::Allen, Answers::Inline];

/// A host behind a switch, and a recording of everything it sends.
pub struct Host<'a> {
    bed: &'a Bed,
    pub switch: Process,
    pub icmpd: Option<Process>,
    capture: Capture,
}

impl Bed {
    /// Starts a host whose switch or daemon takes further options.
    pub fn host(&self, answers: Answers, switch: &str, icmpd: &str) -> Host<'_> {
        let (switch, icmpd) = match answers {
            Answers::Inline => (self.switch(&format!("--inline {switch} {icmpd}")), None),
            Answers::Daemon => (self.switch(switch), Some(self.icmpd(icmpd))),
            Answers::Allen => {
                (self.switch(&format!("--division allen {switch}")), Some(self.icmpd(icmpd)))
            }
        };
        Host { bed: self, switch, icmpd, capture: self.capture("weir0") }
    }
}

impl Host<'_> {
    /// Ends all of it. Each process must end well, and what the host sent must be sound.
    pub fn end(self) {
        self.end_with("");
    }

    /// Ends all of it as `end` does, where the host sent errors that quote unsound datagrams.
    pub fn end_after_nonsense(self) {
        // A fault of the datagram that an error quotes is not a fault of the error.
        self.end_with("&&!(icmp.type==3||icmp.type==11||icmp.type==12)");
    }

    /// Ends all of it as `end` does; the checksums of TCP, which the host made, are right too.
    pub fn end_with_checksums_of_tcp(self) {
        self.end_with("||tcp.checksum.status==Bad");
    }

    fn end_with(mut self, except: &str) {
        if let Some(icmpd) = &mut self.icmpd {
            icmpd.end();
        }
        self.switch.end();
        self.capture.check(self.bed, except);
    }
}

/// A recording of what came from a device.
pub struct Capture {
    process: Process,
    file: PathBuf,
}

impl Capture {
    /// Ends the recording. Every packet from the host must be sound to programs that know packets
    /// well: tcpdump finds no bad checksum, tshark nothing malformed, and no fragment overlaps.
    fn check(mut self, bed: &Bed, except: &str) {
        // tcpdump ends by itself if its device is gone.
        if self.process.is_running() {
            self.process.kill(Signal::INT);
        }
        self.process.ended();
        let said = self.process.said("dropped by kernel");
        assert!(said.starts_with("0 packets"), "the recording has gaps: {said}");
        let file = self.file.display();
        let forged = bed.ok(&format!("tcpdump -Z root -n -r {file} not src host {HOST}"));
        assert_eq!(forged, "", "not from the host's address");
        let text = bed.ok(&format!("tcpdump -Z root -vv -n -r {file}"));
        assert!(!text.is_empty(), "nothing came from the host");
        // A packet is one line with the time and one without. Further lines are what an error
        // quotes.
        let lines: Vec<_> = text.lines().collect();
        let is_first = |at: usize| lines[at].starts_with(|c: char| c.is_ascii_digit());
        for at in (0..lines.len()).filter(|at| is_first(*at) || is_first(at - 1)) {
            for sign in ["bad cksum", "wrong icmp cksum", "bad udp cksum", "[|", "bad length"] {
                assert!(!lines[at].contains(sign), "{sign}: {}", lines[at]);
            }
        }
        if !have(&["tshark"]) {
            return;
        }
        let checks = "-o ip.check_checksum:TRUE -o udp.check_checksum:TRUE \
                      -o tcp.check_checksum:TRUE";
        let faults = "_ws.malformed||ip.checksum.status==Bad||icmp.checksum.status==Bad\
                      ||(udp.checksum.status==Bad&&!icmp)||ip.fragment.error||ip.fragment.overlap";
        let only = format!("({faults}){except}");
        let found = bed.ok(&format!("tshark -n -r {file} {checks} -Y {only}"));
        assert_eq!(found, "", "of tshark");
    }
}
