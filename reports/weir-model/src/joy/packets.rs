//! Packets of 4 bytes to oneself, one way and two ways, through pipes and mailboxes.

use super::switch;
use super::syscall;
use crate::kernel::{Discipline, Pid, Script, Sim, Step, Sys, V6, World};
use crate::machine::{Machine, MachineError};
use crate::outcome::{Basis, Cell, Outcome};
use crate::published::{JOY_IPC, Published};

/// Packets that a pipe holds: 4096 bytes of 4.
const ROOM: usize = 1024;
/// Packets of a run.
const PACKETS: u64 = 4000;

/// Packets in each of two pipes.
struct Mail([usize; 2], usize);

impl World for Mail {
    type Event = ();

    fn on(_: &mut Sys<Mail>, (): ()) -> u64 {
        0
    }
}

#[derive(Clone, Copy)]
enum Act {
    Send(usize),
    Receive(usize),
}

struct Actor {
    acts: Vec<Act>,
    at: usize,
    left: u64,
    call_ns: u64,
    entered: bool,
}

impl Script<Mail> for Actor {
    fn step(&mut self, sys: &mut Sys<Mail>, _: Pid) -> Step {
        if !self.entered {
            if self.at == self.acts.len() {
                (self.at, self.left) = (0, self.left - 1);
            }
            if self.left == 0 {
                return Step::Exit;
            }
            self.entered = true;
            return Step::Kernel(self.call_ns);
        }
        // Readers sleep on the pipe's number, writers on that and 2.
        match self.acts[self.at] {
            Act::Send(pipe) => {
                if sys.world.0[pipe] == sys.world.1 {
                    return Step::Sleep(pipe as u64 + 2, 1);
                }
                sys.world.0[pipe] += 1;
                sys.wake(pipe as u64);
            }
            Act::Receive(pipe) => {
                if sys.world.0[pipe] == 0 {
                    return Step::Sleep(pipe as u64, 1);
                }
                sys.world.0[pipe] -= 1;
                // As in a file, room comes back when all was read.
                if sys.world.0[pipe] == 0 {
                    sys.wake(pipe as u64 + 2);
                }
            }
        }
        self.at += 1;
        self.entered = false;
        Step::User(0)
    }
}

/// What a mechanism costs.
#[derive(Clone, Copy)]
struct Costs {
    call_ns: u64,
    switch_ns: u64,
    /// Packets that wait at most.
    room: usize,
}

/// Returns packets a second: to oneself, one way, two ways.
fn rates(costs: Costs, hz: u64, events: &mut u64) -> [f64; 3] {
    let all: [(&[&[Act]], u64); 3] = [
        (&[&[Act::Send(0), Act::Receive(0)]], 1),
        (&[&[Act::Send(0)], &[Act::Receive(0)]], 1),
        (&[&[Act::Send(0), Act::Receive(1)], &[Act::Receive(0), Act::Send(1)]], 2),
    ];
    all.map(|(actors, packets)| {
        let discipline =
            Discipline::V6(V6 { hz, switch_ns: costs.switch_ns, scan_ns: 0, wake_preempts: false });
        let mut sim = Sim::new(Mail([0; 2], costs.room), 1, discipline);
        let pids: Vec<Pid> = actors
            .iter()
            .map(|acts| {
                sim.spawn(Actor {
                    acts: acts.to_vec(),
                    at: 0,
                    left: PACKETS,
                    call_ns: costs.call_ns,
                    entered: false,
                })
            })
            .collect();
        sim.run(&pids, u64::MAX / 4);
        *events += sim.sys.events();
        (PACKETS * packets) as f64 / (sim.sys.now_ns as f64 / 1e9)
    })
}

/// What was measured before Joy's changes, what he measured in VMS, and what the changes make of it.
fn mechanisms(machine: &Machine) -> Result<[(&'static str, Costs); 3], MachineError> {
    let (call, packet) = (machine.ns("call_published")?, machine.ns("packet")?);
    let switch_ns = machine.ns("packet_switch")?;
    let changed: u64 = syscall::phases(machine, 6)?.iter().sum();
    let [_, (_, before), _, (_, after)] = switch::ways(machine)?;
    let saved = before.whole_ns() - after.whole_ns();
    // Joy gives raising and lowering the processor's priority (spl) a third of a read or write.
    let spl_ns = (machine.get("spl")? * (call + packet) as f64).round() as u64;
    let macros_ns = (machine.get("macros")? * machine.get("procedure")?).round() as u64;
    Ok([
        (
            "VMS mailboxes",
            Costs {
                call_ns: machine.ns("mailbox")?,
                switch_ns: machine.ns("mailbox_switch")?,
                room: 1,
            },
        ),
        ("UNIX before", Costs { call_ns: call + packet, switch_ns, room: ROOM }),
        (
            "UNIX after",
            Costs {
                call_ns: changed + packet.saturating_sub(spl_ns + macros_ns),
                switch_ns: switch_ns.saturating_sub(saved),
                room: ROOM,
            },
        ),
    ])
}

const COLUMNS: [&str; 3] = ["to_self", "one_way", "two_way"];

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let mut outcome = Outcome::new("joy-ipc", &machine.name, "packets a second");
    let published = Published::read(JOY_IPC);
    for (name, costs) in mechanisms(machine)? {
        let found = rates(costs, machine.ns("hz")?, &mut outcome.events);
        for (column, rate) in COLUMNS.iter().zip(found) {
            let cell = Cell::new(name, *column, published.named(name, column), rate);
            // To self and two ways fix a constant each; one way shares their table.
            let is_derived = *column != "one_way" && cell.published.is_some();
            outcome.cells.push(if is_derived { cell.on(Basis::Identity) } else { cell });
        }
    }
    outcome.notes.push(String::from(
        "to self and two ways fix a constant each for either system; one way is what the rules then give: a mailbox \
         holds one packet, a pipe 1024, and a wake-up does not preempt",
    ));
    outcome.notes.push(String::from(
        "tried without success: if a wake-up preempts, UNIX one way is 22% too fast and two ways 32% too slow",
    ));
    outcome.notes.push(String::from(
        "UNIX after has the cheaper calls and switches, the processor priority (spl) set in line, which took nearly \
         a third of a read or write, and macros for the lock of the pipe and for the copy of the bytes. Joy holds \
         600 to 1000 packets a second to be the most that pipes can reach",
    ));
    Ok(outcome)
}

/// Predicts the packets after the changes.
pub fn predict(machine: &Machine) -> Result<String, MachineError> {
    let [_, _, (name, costs)] = mechanisms(machine)?;
    let [own, one, two] = rates(costs, machine.ns("hz")?, &mut 0);
    Ok(format!("mechanism,{}\n{name},{own:.0},{one:.0},{two:.0}\n", COLUMNS.join(",")))
}
