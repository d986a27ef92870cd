//! `weir net up`: the packet switch.

use super::netns::Netns;
use super::{asked, failed, stop_flag};
use crate::args::NetUpOptions;
use crate::fault::{Fault, tell};
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_net::icmp;
use weir_net::names;
use weir_net::reassembly::{LEAST_BUDGET_BYTES, Limits};
use weir_net::switch::{Settings, Switch};

/// Carries out the verb.
pub fn up(options: &NetUpOptions) -> Result<ExitCode, Fault> {
    let settings = settings(options)?;
    let stop = stop_flag()?;
    // Before there is a second thread, which would be left behind in the old one.
    let netns = options.netns.as_deref().map(Netns::make).transpose()?;
    let mut switch = Switch::new(settings).map_err(asked)?;
    let (address, bits) = options.addr;
    let place = options
        .netns
        .as_deref()
        .map_or(String::new(), |name| format!("; to get there: ip netns exec {name} COMMAND"));
    tell(&format!(
        "{} is up: {address}/{bits}, the kernel is {}{place}",
        options.tun, options.peer
    ));
    let mut daemon = if options.icmpd { Some(start_icmpd(options)?) } else { None };
    let command = Commanded::start(&options.command, &stop)?;
    let ran = switch.run(&stop);
    let status = command.finish();
    if let Some(daemon) = &mut daemon {
        let _ = signal(daemon, rustix::process::Signal::TERM);
        let _ = daemon.wait();
    }
    drop(netns);
    ran.map_err(failed)?;
    Ok(status)
}

fn settings(options: &NetUpOptions) -> Result<Settings, Fault> {
    let (address, prefix_bits) = options.addr;
    let memory = usize::try_from(options.reassembly_memory).unwrap_or(usize::MAX);
    if memory < LEAST_BUDGET_BYTES {
        return Err(Fault::usage(format!(
            "cannot use --reassembly-memory {memory}: the longest datagram takes {LEAST_BUDGET_BYTES}"
        )));
    }
    let usual = Limits::default();
    let limits = Limits {
        whole_bytes: memory,
        source_bytes: usual.source_bytes.min(memory),
        timeout_ns: u64::try_from(options.reassembly_timeout.as_nanos()).unwrap_or(u64::MAX),
    };
    let inline = options.inline.then(|| icmp::Settings {
        ggp: options.ggp,
        // The switch takes nothing from outside that says it is from us.
        loopback: true,
        ..icmp::Settings::new(address, prefix_bits)
    });
    if options.ggp && !options.inline && !options.icmpd {
        return Err(Fault::usage("--ggp goes with --inline or --icmpd"));
    }
    names::check(&options.tun).map_err(asked)?;
    Ok(Settings {
        device: options.tun.clone(),
        address,
        peer: options.peer,
        prefix_bits,
        mtu: options.mtu,
        gateway: Some(options.gateway.unwrap_or(options.peer)),
        vnet_header: !options.no_vnet_header,
        limits,
        port: names::switch_port(&options.tun).map_err(asked)?,
        inline,
    })
}

/// The daemon beside the switch: it ends when the switch does, however that ends.
fn start_icmpd(options: &NetUpOptions) -> Result<Child, Fault> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["net", "icmpd", "--tun", &options.tun]);
    if options.ggp {
        command.arg("--ggp");
    }
    command.spawn().map_err(|error| Fault::failed(format!("cannot start icmpd: {error}")))
}

fn signal(child: &Child, signal: rustix::process::Signal) -> Result<(), rustix::io::Errno> {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal)
}

/// The command that the switch is for, if there is one.
struct Commanded {
    waiting: Option<std::thread::JoinHandle<ExitCode>>,
    pid: Option<rustix::process::Pid>,
    over: Arc<AtomicBool>,
}

impl Commanded {
    /// Starts it; when it ends, `stop` is set.
    fn start(words: &[std::ffi::OsString], stop: &Arc<AtomicBool>) -> Result<Commanded, Fault> {
        let over = Arc::new(AtomicBool::new(false));
        let Some((program, words)) = words.split_first() else {
            return Ok(Commanded { waiting: None, pid: None, over });
        };
        let started = Command::new(program).args(words).spawn();
        let mut child = started.map_err(|error| {
            Fault::failed(format!("cannot start '{}': {error}", program.display()))
        })?;
        let pid = Some(rustix::process::Pid::from_child(&child));
        let (stop, ended) = (stop.clone(), over.clone());
        let waiting = std::thread::spawn(move || {
            let status = child.wait();
            // Relaxed: the thread's end is waited for before its result is used.
            ended.store(true, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            status.map_or(ExitCode::FAILURE, |status| {
                use std::os::unix::process::ExitStatusExt;
                let of_signal = status.signal().map(|signal| 128 + signal as u8);
                ExitCode::from(status.code().map_or(of_signal.unwrap_or(1), |code| code as u8))
            })
        });
        Ok(Commanded { waiting: Some(waiting), pid, over })
    }

    /// Ends it, if it goes on, and gives its status.
    fn finish(self) -> ExitCode {
        if let Some(pid) = self.pid
            && !self.over.load(Ordering::Relaxed)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let status = self.waiting.map(|waiting| waiting.join().unwrap_or(ExitCode::FAILURE));
        status.unwrap_or(ExitCode::SUCCESS)
    }
}
