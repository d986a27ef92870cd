//! The driver's test: read the clock, send a packet to oneself, read it, receive, read it.

use super::{Costs, NetDriver, Packet, hand_over, wait_in, wait_out};
use crate::kernel::{Pid, Script, Sim, Step, Sys};
use std::cell::Cell;
use std::rc::Rc;

/// Packets of a test: "tens of thousands".
const PACKETS: u64 = 20_000;

#[derive(Clone, Copy)]
enum State {
    Begin,
    Started,
    Waiting,
    Sent,
    Receive,
    Received,
}

/// Sums of a test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Ticks in sends and in receives.
    pub(super) ticks: [u64; 2],
    /// Nanoseconds in sends and in receives.
    pub(super) ns: [u64; 2],
}

struct Tester {
    station: usize,
    left: u64,
    at: State,
    begun_ns: u64,
    sums: Rc<Cell<Sums>>,
}

impl Tester {
    /// Reads the clock at the end of a phase.
    fn read_clock(&mut self, sys: &Sys<NetDriver>, phase: usize) {
        let tick_ns = 1_000_000_000 / sys.world.costs.hz;
        let mut sums = self.sums.get();
        sums.ticks[phase] += sys.now_ns / tick_ns - self.begun_ns / tick_ns;
        sums.ns[phase] += sys.now_ns - self.begun_ns;
        self.sums.set(sums);
        self.begun_ns = sys.now_ns;
    }
}

impl Script<NetDriver> for Tester {
    fn step(&mut self, sys: &mut Sys<NetDriver>, _: Pid) -> Step {
        let costs = sys.world.costs;
        loop {
            match self.at {
                State::Begin => {
                    if self.left == 0 {
                        return Step::Exit;
                    }
                    self.left -= 1;
                    self.begun_ns = sys.now_ns;
                    self.at = State::Started;
                    return Step::Kernel(costs.send);
                }
                State::Started => {
                    let takes_ns = costs.wire;
                    let packet = Packet { to: Some(self.station), from: self.station, takes_ns };
                    hand_over(sys, packet);
                    self.at = State::Waiting;
                }
                State::Waiting => {
                    if let Some(sleep) = wait_out(sys, self.station) {
                        return sleep;
                    }
                    self.at = State::Sent;
                    return Step::User(0);
                }
                State::Sent => {
                    self.read_clock(sys, 0);
                    self.at = State::Receive;
                }
                State::Receive => {
                    if let Some(sleep) = wait_in(sys, self.station) {
                        return sleep;
                    }
                    self.at = State::Received;
                    return Step::Kernel(costs.receive);
                }
                State::Received => {
                    self.read_clock(sys, 1);
                    self.at = State::Begin;
                    return Step::User(0);
                }
            }
        }
    }
}

/// Runs so many copies at once. Returns the sums of the first, for a packet, in milliseconds: by the
/// clock's ticks, and as they are; and counts the events.
pub(super) fn test(costs: Costs, copies: usize, events: &mut u64) -> ([f64; 2], [f64; 2]) {
    let mut sim = Sim::new(NetDriver::new(costs, copies), 1, costs.discipline());
    let sums = Rc::new(Cell::new(Sums::default()));
    let pids: Vec<Pid> = (0..copies)
        .map(|station| {
            let sums = if station == 0 { Rc::clone(&sums) } else { Rc::default() };
            let at = State::Begin;
            sim.spawn(Tester { station, left: PACKETS, at, begun_ns: 0, sums })
        })
        .collect();
    sim.run(&pids[..1], u64::MAX / 4);
    *events += sim.sys.events();
    let sums = sums.get();
    let tick_ms = 1000.0 / costs.hz as f64;
    (
        sums.ticks.map(|ticks| ticks as f64 * tick_ms / PACKETS as f64),
        sums.ns.map(|ns| ns as f64 / 1e6 / PACKETS as f64),
    )
}
