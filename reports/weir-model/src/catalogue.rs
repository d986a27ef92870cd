//! The experiments by their names, and the predictions.

use crate::allen;
use crate::bbn::tables;
use crate::franke;
use crate::joy::{packets, paging, swapping, switch, syscall};
use crate::machine::{Machine, MachineError};
use crate::outcome::Outcome;

/// An experiment.
pub struct Experiment {
    /// Its name, that of the suite.
    pub name: &'static str,
    /// The machine it was published for.
    pub machine: &'static str,
    /// What it is.
    pub about: &'static str,
    run: fn(&Machine) -> Result<Outcome, MachineError>,
}

/// All experiments.
pub const EXPERIMENTS: [Experiment; 9] = [
    Experiment {
        name: "bbn-pipe",
        machine: "pdp11-40",
        about: "BBN 1978, tables 1 and 2: 1000 blocks through a pipe, standard and improved system",
        run: tables::pipe,
    },
    Experiment {
        name: "bbn-port",
        machine: "pdp11-40",
        about: "BBN 1978, tables 3 and 4: 1000 blocks through a port, with headers and bare",
        run: tables::port,
    },
    Experiment {
        name: "joy-syscall",
        machine: "vax780",
        about: "Joy 1980: a trivial system call by its phases, and six changes",
        run: syscall::run,
    },
    Experiment {
        name: "joy-switch",
        machine: "vax780",
        about: "Joy 1980: a context switch from 2000 to 270 us, and Kashtan's rates",
        run: switch::run,
    },
    Experiment {
        name: "joy-ipc",
        machine: "vax780",
        about: "Joy 1980: packets to self, one way and two ways",
        run: packets::run,
    },
    Experiment {
        name: "kashtan-paging",
        machine: "vax780",
        about: "Joy 1980: Kashtan's paging benchmarks, as ratios between systems",
        run: paging::run,
    },
    Experiment {
        name: "joy-swap",
        machine: "vax780",
        about: "Joy 1980: swapping out the oldest, or the oldest of the largest",
        run: swapping::run,
    },
    Experiment {
        name: "allen-icmp",
        machine: "pdp11-45",
        about: "Allen: a daemon that answers echoes, its packet driver, and what its log costs",
        run: allen::run,
    },
    Experiment {
        name: "franke",
        machine: "pentium2-2way",
        about: "Franke 2001: larger pipes, and segments; grep, lmbench and pipeflex on two CPUs",
        run: franke::run,
    },
];

impl Experiment {
    /// Runs it, on another machine if one is named.
    ///
    /// # Errors
    /// There is no such machine, or it lacks a constant.
    pub fn run(&self, machine: Option<&str>) -> Result<Outcome, MachineError> {
        let machine = machine.unwrap_or(self.machine);
        let mut outcome = (self.run)(&Machine::named(machine)?)?;
        if machine != self.machine {
            outcome.cells.iter_mut().for_each(|cell| cell.published = None);
            let text =
                format!("figures were published for {}: none stand beside these", self.machine);
            outcome.notes.push(text);
        }
        Ok(outcome)
    }
}

/// Returns the predictions: the names of the files, and their texts.
pub fn predictions() -> Result<Vec<(&'static str, String)>, MachineError> {
    let (old, new) = (Machine::named("pdp11-40")?, Machine::named("pdp11-70")?);
    let vax = Machine::named("vax780")?;
    let (one, single) = (Machine::named("pentium2-1way")?, Machine::named("pentium2-up")?);
    Ok(vec![
        ("bbn_1978_pipe_1170.csv", tables::predict(&new, false)?),
        ("bbn_1978_port_1170.csv", tables::predict(&new, true)?),
        ("bbn_1978_loaded_1140.csv", tables::predict_loaded(&old)?),
        ("joy_1980_ipc_after.csv", packets::predict(&vax)?),
        ("joy_1980_paging_ratio.csv", paging::predict(&vax)?),
        ("franke_2001_1way.csv", franke::predict(&one)?),
        ("franke_2001_up.csv", franke::predict(&single)?),
    ])
}
