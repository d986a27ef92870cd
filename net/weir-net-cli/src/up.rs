//! `weir net up`: runs the packet switch.

use super::netns::Netns;
use super::{asked, publish, stop_flag};
use crate::args::NetUpOptions;
use crate::failed;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGTERM;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use weir_command::command_line::quoted;
use weir_command::fault::{Fault, print_message};
use weir_command::status::{exit_code, unstarted_code};
use weir_measure::sys::signals::is_ignored;
use weir_measure::sys::spawn::spawn;
use weir_net::icmp;
use weir_net::log::{Kinds, Log};
use weir_net::names;
use weir_net::reassembly::{LEAST_BUDGET_BYTES, ReassemblyLimits};
use weir_net::switch::{Switch, SwitchHandle, SwitchSettings};
use weir_net::wire::ipv4::protocol;

/// How long a command waits for the daemon beside the switch.
const ATTACHED: Duration = Duration::from_secs(5);
/// The time between two checks.
const LOOK: Duration = Duration::from_millis(5);

pub fn up(options: &NetUpOptions) -> Result<ExitCode, Fault> {
    let settings = settings(options)?;
    let stop = stop_flag()?;
    // Before a second thread starts, which would stay in the old namespace.
    let netns = options.netns.as_deref().map(Netns::make).transpose()?;
    let kinds = options.log.parse::<Kinds>().map_err(asked)?;
    let mut switch = Switch::new(settings).map_err(asked)?;
    switch.log_to(log(options, kinds)?);
    let _published = publish(options.device(), "switch");
    let (address, bits) = options.addr;
    let place = options.netns.as_deref().map_or(String::new(), |name| {
        format!("; enter it with: ip netns exec {} COMMAND", quoted(name))
    });
    let beside = match options.peer {
        Some(peer) => format!("the kernel is {peer}"),
        None => String::from("on an Ethernet"),
    };
    print_message(&format!("{} is up: {address}/{bits}, {beside}{place}", options.device()));
    let mut daemon = if options.icmpd { Some(start_icmpd(options)?) } else { None };
    let command = Commanded::start(options, switch.watch(), &stop)?;
    let ran = switch.run(&stop);
    let status = command.finish();
    if let Some(daemon) = &mut daemon {
        let _ = kill_process(Pid::from_child(daemon), Signal::TERM);
        if is_ignored(SIGTERM) {
            // It ignores that as well, and ends without its switch.
            drop(switch);
        }
        let _ = daemon.wait();
    }
    drop(netns);
    ran.map_err(failed)?;
    Ok(status)
}

fn settings(options: &NetUpOptions) -> Result<SwitchSettings, Fault> {
    let (address, prefix_bits) = options.addr;
    let memory = usize::try_from(options.reassembly_memory).unwrap_or(usize::MAX);
    if memory < LEAST_BUDGET_BYTES {
        return Err(Fault::usage(format!(
            "cannot use --reassembly-memory {memory}: the longest datagram needs {LEAST_BUDGET_BYTES}"
        )));
    }
    let usual = ReassemblyLimits::default();
    let limits = ReassemblyLimits {
        whole_bytes: memory,
        source_bytes: usual.source_bytes.min(memory),
        timeout_ns: u64::try_from(options.reassembly_timeout.as_nanos()).unwrap_or(u64::MAX),
    };
    let inline = options.inline.then(|| icmp::IcmpSettings {
        ggp: options.ggp,
        // The switch accepts no packet from outside that claims to come from this host.
        loopback: true,
        ..icmp::IcmpSettings::new(address, prefix_bits)
    });
    if options.ggp && !options.inline && !options.icmpd {
        return Err(Fault::usage("--ggp needs --inline or --icmpd"));
    }
    names::check(options.device()).map_err(asked)?;
    Ok(SwitchSettings {
        device: options.device().to_owned(),
        address,
        peer: options.peer,
        prefix_bits,
        mtu: options.mtu,
        gateway: options.gateway.or(options.peer),
        vnet_header: !options.no_vnet_header,
        division: options.division,
        limits,
        port: names::switch_port(options.device()).map_err(asked)?,
        inline,
    })
}

/// Creates the log of this switch. The log of the previous switch is kept beside it.
fn log(options: &NetUpOptions, kinds: Kinds) -> Result<Log, Fault> {
    let path = names::log(options.device()).map_err(asked)?;
    let log = Log::create(path, options.log_size).map_err(asked)?;
    log.set_mask(kinds);
    log.prepare();
    Ok(log)
}

/// Starts the daemon beside the switch. It ends when the switch ends, for whatever reason.
fn start_icmpd(options: &NetUpOptions) -> Result<Child, Fault> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["icmpd", "--tun", options.device()]);
    if options.ggp {
        command.arg("--ggp");
    }
    spawn(&mut command).map_err(Fault::cannot("start icmpd"))
}

/// The command that runs while the switch is up, if there is one.
struct Commanded {
    waiting: Option<std::thread::JoinHandle<ExitCode>>,
    pid: Arc<AtomicI32>,
    over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Commanded {
    /// Starts the command. When it ends, `stop` is set.
    fn start(
        options: &NetUpOptions,
        watch: SwitchHandle,
        stop: &Arc<AtomicBool>,
    ) -> Result<Commanded, Fault> {
        let over = Arc::new(AtomicBool::new(false));
        let Some((program, words)) = options.command.split_first() else {
            return Ok(Commanded { waiting: None, pid: Arc::default(), over, stop: stop.clone() });
        };
        let mut command = Command::new(program);
        command.args(words);
        let object = program.display().to_string();
        let kept = stop.clone();
        let (stop, ended, awaited) = (stop.clone(), over.clone(), options.icmpd);
        let pid = Arc::new(AtomicI32::new(0));
        let started = pid.clone();
        let waiting = std::thread::spawn(move || {
            let begun = Instant::now();
            // Wait for the daemon, so that the first packet of the command is answered.
            while awaited && !watch.has_station_for(protocol::ICMP) && begun.elapsed() < ATTACHED {
                std::thread::sleep(LOOK);
            }
            // Acquire: pairs with the Release store in `finish`.
            if stop.load(Ordering::Acquire) {
                return ExitCode::SUCCESS;
            }
            let status = spawn(&mut command).and_then(|mut child| {
                // Release: pairs with the Acquire load in `finish`, which signals the process that
                // it finds here.
                started.store(child.id().cast_signed(), Ordering::Release);
                child.wait()
            });
            // Release: pairs with the Acquire load in `finish`: the process has been reaped, and is
            // not to be signalled.
            ended.store(true, Ordering::Release);
            // Relaxed: the switch ends, and looks at nothing else.
            stop.store(true, Ordering::Relaxed);
            match status {
                Ok(status) => exit_code(status),
                Err(error) => {
                    print_message(&format!("cannot start '{object}': {error}"));
                    unstarted_code(&error)
                }
            }
        });
        Ok(Commanded { waiting: Some(waiting), pid, over, stop: kept })
    }

    /// Ends the command, if it is still running, and returns its status.
    fn finish(self) -> ExitCode {
        // Release: pairs with the Acquire load in `start`, before the command is spawned. The
        // switch loads it too, and needs no order.
        self.stop.store(true, Ordering::Release);
        let mut is_told = false;
        while self.waiting.as_ref().is_some_and(|waiting| !waiting.is_finished()) {
            // Acquire, twice: each pairs with a Release store of the thread that started it, in
            // `start`. A command that cleans up is not to be interrupted in that: it is told once.
            if !is_told
                && let Some(pid) = Pid::from_raw(self.pid.load(Ordering::Acquire))
                && !self.over.load(Ordering::Acquire)
            {
                is_told = kill_process(pid, Signal::TERM).is_ok();
            }
            std::thread::sleep(LOOK);
        }
        let status = self.waiting.map(|waiting| waiting.join().unwrap_or(ExitCode::FAILURE));
        status.unwrap_or(ExitCode::SUCCESS)
    }
}
