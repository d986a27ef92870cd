//! Allen's figures and the model's.

use super::daemon::{self, DATA};
use super::{Costs, driver};
use crate::machine::{Machine, MachineError};
use crate::outcome::{Basis, Cell, Outcome};
use crate::published::{ALLEN, Published};

/// How the rows begin whose figures a constant of the machine was derived from.
const DERIVED: [&str; 6] = [
    "driver send elapsed",
    "driver receive elapsed",
    "slow-down of send and receive",
    "round trip to self with logging off",
    "kernel CPU a packet",
    "TFTP transfer rate",
];

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let costs = Costs::of(machine)?;
    let mut outcome = Outcome::new("allen-icmp", &machine.name, "ms, or as the row says");
    let mut events = 0;
    let published = Published::read(ALLEN);
    let mut row = |name: &str, column: &str, told: Option<f64>, model: f64| {
        let is_derived = DERIVED.iter().any(|begun| name.starts_with(begun));
        let basis = if is_derived { Basis::Identity } else { Basis::Fitted };
        outcome.cells.push(Cell::new(name, column, told, model).on(basis));
    };
    let told = |name: &str| published.named(name, "value");

    let (alone, exact) = driver::test(costs, 1, &mut events);
    let (four, _) = driver::test(costs, 4, &mut events);
    row("driver send elapsed", "by the clock", told("driver send elapsed"), alone[0]);
    row("driver receive elapsed", "by the clock", told("driver receive elapsed"), alone[1]);
    let slower = (four[0] + four[1]) / (alone[0] + alone[1]);
    let copies = "slow-down of send and receive with four copies of the test";
    row(copies, "times", told(copies), slower);

    let quiet = daemon::own(costs, 0, &mut events);
    let round = "round trip to self with logging off";
    row(round, "elapsed", told(round), 2.0 * quiet.elapsed_ms);
    let interval = daemon::shortest_interval_ms(costs, &mut events);
    let sustained = "packet interval sustained with logging off";
    row(sustained, "shortest", told(sustained), interval);

    let low = daemon::own(costs, machine.get("log_low")? as u64, &mut events);
    let high = daemon::own(costs, machine.get("log_high")? as u64, &mut events);
    let user = "user CPU a packet with transaction logging";
    row(user, "by the clock", told(user), f64::midpoint(low.ticks_ms[0], high.ticks_ms[0]));
    for (end, of) in [("low", low), ("high", high)] {
        let kernel = format!("kernel CPU a packet with unbuffered transaction logging ({end})");
        row(&kernel, "by the clock", told(&kernel), of.ticks_ms[1]);
        let trip = format!("round trip to self with unbuffered transaction logging ({end})");
        row(&trip, "elapsed", told(&trip), 2.0 * of.elapsed_ms);
    }

    // What a block would take if a packet took what the log makes of it, and what it does take.
    let rate = |ms: f64| (DATA * 8) as f64 / ms * 1000.0;
    row("TFTP as the log had it", "bit/s", Some(16_000.0), rate(low.ticks_ms.iter().sum()));
    let block = daemon::tftp(costs, &mut events);
    let tftp = "TFTP transfer rate at 512-byte packets";
    row(tftp, "bit/s", told(tftp), rate(block.elapsed_ms));
    outcome.events = events;
    outcome.notes = notes(machine, [alone, exact], low)?;
    Ok(outcome)
}

fn notes(
    machine: &Machine,
    [alone, exact]: [[f64; 2]; 2],
    logged: daemon::Took,
) -> Result<Vec<String>, MachineError> {
    let off = |read: f64, is: f64| (read / is - 1.0) * 100.0;
    Ok(vec![
        format!(
            "the clock has 60 ticks a second: of 20000 packets it reads {:.3} and {:.3} ms for a send and a receive \
             of {:.3} and {:.3} ms; of one packet it reads 0 or 16.7",
            alone[0], alone[1], exact[0], exact[1]
        ),
        format!(
            "a tick charges all its time to the mode it finds: user time with the log is {:+.1}% off, kernel time \
             {:+.1}%",
            off(logged.ticks_ms[0], logged.cpu_ms[0]),
            off(logged.ticks_ms[1], logged.cpu_ms[1])
        ),
        format!(
            "the log's cost comes from the pipes of the PDP-11/40: a write call of one character, {} to {} of them \
             a packet, on a CPU {} times as fast. The interval, the round trips with the log and its user time are \
             fitted to nothing",
            machine.get("log_low")?,
            machine.get("log_high")?,
            machine.get("cpu_ratio")?
        ),
        String::from(
            "a daemon that slept until its packet is out, as the driver's test does, would need 15 ms a packet: the \
             model's takes the next one meanwhile, which nothing documents",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_within_15_percent() {
        let outcome = Machine::named("pdp11-45").and_then(|machine| run(&machine)).expect("whole");
        assert_eq!((outcome.errors(Basis::Fitted).len(), outcome.identities()), (5, 7));
        let errors: Vec<f64> = outcome.cells.iter().filter_map(Cell::error).collect();
        assert!(errors.iter().all(|error| error.abs() < 0.15), "{}", outcome.text());
    }

    /// A packet of 9 ms is within one tick of 16.7 ms: only the mean of many tells its length.
    #[test]
    fn the_clock_has_an_error_of_its_own() {
        let costs = Machine::named("pdp11-45").and_then(|machine| Costs::of(&machine)).expect("it");
        let (ticks, exact) = driver::test(costs, 1, &mut 0);
        for (read, is) in ticks.iter().zip(exact) {
            assert!(*read != is && (read / is - 1.0).abs() < 0.05, "{ticks:?} {exact:?}");
        }
    }
}
