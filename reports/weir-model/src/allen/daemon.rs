//! The daemon: packets that come in are logged and answered; and a file that goes out by TFTP.
//!
//! The daemon does not sleep until its packet is out, as the driver's test does: it takes the next
//! packet, and sleeps only if it has to send again before.

use super::{Costs, DeviceReport, NetDriver, Packet, hand_over, wait_in, wait_out};
use crate::kernel::{Pid, Script, Sim, Step, Sys};

/// Bytes of a data packet of TFTP.
pub(super) const DATA: u64 = 512;

#[derive(Clone, Copy)]
enum State {
    Wait,
    Received,
    /// Characters of the log that are left.
    Format(u64),
    Write(u64),
    Decide,
    Send,
    Leaving,
    Start,
}

/// What the daemon does with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Job {
    /// It answers what other hosts ask.
    Foreign,
    /// It asks itself, and answers: two packets a round trip.
    Own,
    /// It sends a file, a block for each acknowledgement.
    File,
}

struct Daemon {
    job: Job,
    log: u64,
    logged: u64,
    packets: u64,
    sent: u64,
    at: State,
}

impl Daemon {
    fn packet(&self, costs: &Costs) -> Packet {
        let to = (self.job == Job::Own).then_some(0);
        let data_ns = if self.job == Job::File { DATA * 8 * costs.bit } else { 0 };
        Packet { to, from: 0, takes_ns: costs.wire + data_ns }
    }
}

impl Script<NetDriver> for Daemon {
    fn step(&mut self, sys: &mut Sys<NetDriver>, _: Pid) -> Step {
        let costs = sys.world.costs;
        loop {
            match self.at {
                State::Wait => {
                    if let Some(sleep) = wait_in(sys, 0) {
                        return sleep;
                    }
                    self.at = State::Received;
                    return Step::Kernel(costs.receive);
                }
                State::Received => {
                    self.at = State::Format(self.log);
                    return Step::User(costs.daemon);
                }
                State::Format(0) => self.at = State::Decide,
                State::Format(left) => {
                    self.at = State::Write(left);
                    return Step::User(costs.character);
                }
                State::Write(left) => {
                    self.at = State::Format(left - 1);
                    self.logged += 1;
                    let fills = self.logged.is_multiple_of(512);
                    return Step::Kernel(costs.write + if fills { costs.block } else { 0 });
                }
                State::Decide => {
                    if self.packets == 0 {
                        return Step::Exit;
                    }
                    self.packets -= 1;
                    self.at = State::Send;
                    if self.job == Job::File {
                        // The next block of the file is read, and the packet made.
                        return Step::User(DATA * costs.file_byte);
                    }
                }
                State::Send => {
                    self.at = if self.sent > 0 { State::Leaving } else { State::Start };
                    let file = if self.job == Job::File { costs.file_block } else { 0 };
                    return Step::Kernel(costs.send + file);
                }
                State::Leaving => {
                    if let Some(sleep) = wait_out(sys, 0) {
                        return sleep;
                    }
                    self.at = State::Start;
                }
                State::Start => {
                    let packet = self.packet(&costs);
                    hand_over(sys, packet);
                    self.sent += 1;
                    self.at = State::Wait;
                    return Step::User(0);
                }
            }
        }
    }
}

/// Packets of a run.
const PACKETS: u64 = 4_000;

fn start(costs: Costs, job: Job, log: u64, at: State) -> (Sim<NetDriver>, Pid) {
    let mut sim = Sim::new(NetDriver::new(costs, 1), 1, costs.discipline());
    let pid = sim.spawn(Daemon { job, log, logged: 0, packets: PACKETS, sent: 0, at });
    (sim, pid)
}

/// What a packet took, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// By the clock on the wall.
    pub(super) elapsed_ms: f64,
    /// In user mode and in the kernel, as the ticks of the clock tell.
    pub(super) ticks_ms: [f64; 2],
    /// In user mode and in the kernel.
    pub(super) cpu_ms: [f64; 2],
}

fn took(sim: &Sim<NetDriver>, pid: Pid, costs: Costs) -> Took {
    let proc = &sim.sys.procs[pid];
    let a_packet = |ms: f64| ms / PACKETS as f64;
    let ticks = |ticks: u64| a_packet(ticks as f64 * 1000.0 / costs.hz as f64);
    Took {
        elapsed_ms: a_packet(sim.sys.now_ns as f64 / 1e6),
        ticks_ms: [ticks(proc.ticks.0), ticks(proc.ticks.1)],
        cpu_ms: [proc.user_ns, proc.system_ns].map(|ns| a_packet(ns as f64 / 1e6)),
    }
}

/// Lets the daemon ask itself. A round trip is two packets.
pub(super) fn own(costs: Costs, log: u64, events: &mut u64) -> Took {
    let (mut sim, pid) = start(costs, Job::Own, log, State::Decide);
    sim.run(&[pid], u64::MAX / 4);
    *events += sim.sys.events();
    took(&sim, pid, costs)
}

/// Sends requests to the daemon in this interval. Returns whether it keeps up: at the end, a
/// hundred packets or less wait.
fn keeps_up(costs: Costs, every_ns: u64, events: &mut u64) -> bool {
    let (mut sim, pid) = start(costs, Job::Foreign, 0, State::Wait);
    sim.sys.world.every_ns = Some(every_ns);
    sim.sys.after(every_ns, DeviceReport::In(0));
    sim.run(&[pid], u64::MAX / 4);
    *events += sim.sys.events();
    sim.sys.world.inbox[0] <= 100
}

/// Returns the shortest interval in which it keeps up, in milliseconds.
pub(super) fn shortest_interval_ms(costs: Costs, events: &mut u64) -> f64 {
    // By halves, to 10 us.
    let (mut fails, mut holds) = (0_u64, 100_000_000_u64);
    while holds - fails > 10_000 {
        let half = (fails + holds) / 2;
        if keeps_up(costs, half, events) { holds = half } else { fails = half }
    }
    holds as f64 / 1e6
}

/// Returns what a block of TFTP takes, to a host that is as fast as this one.
pub(super) fn tftp(costs: Costs, events: &mut u64) -> Took {
    let (mut sim, pid) = start(costs, Job::File, 0, State::Decide);
    let takes_data = costs.receive + costs.daemon + DATA * costs.file_byte + costs.file_block;
    let acknowledges = costs.send + costs.wire;
    sim.sys.world.answers_ns = Some(takes_data + acknowledges);
    sim.run(&[pid], u64::MAX / 4);
    *events += sim.sys.events();
    took(&sim, pid, costs)
}
