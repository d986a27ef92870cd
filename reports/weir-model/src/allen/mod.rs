//! Allen, MIT: a packet driver in the kernel, a daemon in user mode, and what its log costs.
//!
//! - A packet goes out from the sender's own buffer, which is free again when the device is done.
//! - The unbuffered log makes a write call of each character.
//! - Elapsed times are read off a clock of 60 ticks a second, and CPU times are charged by the tick.

mod daemon;
mod driver;
mod tables;

pub use tables::run;

use crate::kernel::{Discipline, Step, Sys, V6, WaitChannel, World};
use crate::machine::{Machine, MachineError};

/// What things cost on the machine, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// A send, before the device begins.
    send: u64,
    /// A small packet in the device.
    wire: u64,
    interrupt: u64,
    /// A receive of a packet that is there.
    receive: u64,
    /// The daemon's work on a packet.
    daemon: u64,
    /// A write call of one character.
    write: u64,
    /// More for a character that fills a block: the disk is started, and interrupts later.
    block: u64,
    /// User time for a character of the log.
    character: u64,
    /// A bit on the network.
    bit: u64,
    /// User time for a byte of a file.
    file_byte: u64,
    /// A read or write call of a block.
    file_block: u64,
    hz: u64,
    switch: u64,
}

impl Costs {
    fn of(machine: &Machine) -> Result<Costs, MachineError> {
        let ratio = machine.get("cpu_ratio")?;
        // What was fitted on the 11/40.
        let scaled = |name: &str| machine.get(name).map(|ns| ns / ratio);
        let call = scaled("call")? + scaled("block")?;
        Ok(Costs {
            send: machine.ns("send")?,
            wire: machine.ns("wire")?,
            interrupt: scaled("interrupt")? as u64,
            receive: machine.ns("receive")?,
            daemon: machine.ns("daemon")?,
            write: (call + scaled("byte")?) as u64,
            block: (scaled("disk")? + scaled("interrupt")?) as u64,
            character: machine.ns("format")? + scaled("user")? as u64,
            bit: (1000.0 / machine.get("bit_rate")?) as u64,
            file_byte: machine.ns("tftp_byte")?,
            file_block: (call + 512.0 * scaled("byte")?) as u64,
            hz: machine.get("hz")? as u64,
            switch: scaled("switch")? as u64,
        })
    }

    fn discipline(&self) -> Discipline {
        Discipline::V6(V6 { hz: self.hz, switch_ns: self.switch, scan_ns: 0, wake_preempts: true })
    }
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    /// The inbox it goes to; none for another host.
    to: Option<usize>,
    /// The process that sleeps until it is out.
    from: usize,
    /// How long the device takes.
    takes_ns: u64,
}

/// What the device or the network reports.
enum DeviceReport {
    /// The packet in the device is out.
    Out,
    /// A packet has come from another host.
    In(usize),
}

/// The driver with its device, and the inboxes of the processes.
struct NetDriver {
    queue: std::collections::VecDeque<Packet>,
    inbox: Vec<u64>,
    /// Packets that are out, by sender.
    out: Vec<u64>,
    costs: Costs,
    /// After what time another host answers a packet, and how often packets come unasked.
    answers_ns: Option<u64>,
    every_ns: Option<u64>,
    /// Packets that went to other hosts.
    left: u64,
}

/// Inboxes and senders sleep on channels of their own.
fn arrived(inbox: usize) -> WaitChannel {
    2 * inbox as WaitChannel
}

fn is_out(sender: usize) -> WaitChannel {
    2 * sender as WaitChannel + 1
}

/// Priority of sleeping for the network.
const PNET: i32 = 2;

impl NetDriver {
    fn new(costs: Costs, stations: usize) -> NetDriver {
        NetDriver {
            queue: std::collections::VecDeque::new(),
            inbox: vec![0; stations],
            out: vec![0; stations],
            costs,
            answers_ns: None,
            every_ns: None,
            left: 0,
        }
    }
}

impl World for NetDriver {
    type Event = DeviceReport;

    fn on(sys: &mut Sys<NetDriver>, report: DeviceReport) -> u64 {
        match report {
            DeviceReport::Out => {
                let Some(packet) = sys.world.queue.pop_front() else { return 0 };
                if let Some(next) = sys.world.queue.front() {
                    let ns = next.takes_ns;
                    sys.after(ns, DeviceReport::Out);
                }
                sys.world.out[packet.from] += 1;
                sys.wake(is_out(packet.from));
                match packet.to {
                    Some(inbox) => deliver(sys, inbox),
                    None => {
                        sys.world.left += 1;
                        if let Some(ns) = sys.world.answers_ns {
                            sys.after(ns, DeviceReport::In(0));
                        }
                    }
                }
            }
            DeviceReport::In(inbox) => {
                deliver(sys, inbox);
                if let Some(ns) = sys.world.every_ns {
                    sys.after(ns, DeviceReport::In(inbox));
                }
            }
        }
        sys.world.costs.interrupt
    }
}

fn deliver(sys: &mut Sys<NetDriver>, inbox: usize) {
    sys.world.inbox[inbox] += 1;
    sys.wake(arrived(inbox));
}

/// Gives a packet to the device.
fn hand_over(sys: &mut Sys<NetDriver>, packet: Packet) {
    sys.world.queue.push_back(packet);
    if sys.world.queue.len() == 1 {
        sys.after(packet.takes_ns, DeviceReport::Out);
    }
}

/// Returns the sleep of a sender whose packet is not out yet.
fn wait_out(sys: &mut Sys<NetDriver>, sender: usize) -> Option<Step> {
    if sys.world.out[sender] == 0 {
        return Some(Step::Sleep(is_out(sender), PNET));
    }
    sys.world.out[sender] -= 1;
    None
}

/// Returns the sleep of a receiver whose inbox is empty.
fn wait_in(sys: &mut Sys<NetDriver>, inbox: usize) -> Option<Step> {
    if sys.world.inbox[inbox] == 0 {
        return Some(Step::Sleep(arrived(inbox), PNET));
    }
    sys.world.inbox[inbox] -= 1;
    None
}
