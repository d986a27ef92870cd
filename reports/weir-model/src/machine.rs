//! Machines: named constants with their sources, from the files in `machines/`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The files of the machines.
const FILES: [(&str, &str); 8] = [
    ("pdp11-40", include_str!("../machines/pdp11-40.toml")),
    ("pdp11-45", include_str!("../machines/pdp11-45.toml")),
    ("pdp11-70", include_str!("../machines/pdp11-70.toml")),
    ("pentium2-1way", include_str!("../machines/pentium2-1way.toml")),
    ("pentium2-2way", include_str!("../machines/pentium2-2way.toml")),
    ("pentium2-up", include_str!("../machines/pentium2-up.toml")),
    ("present", include_str!("../machines/present.toml")),
    ("vax780", include_str!("../machines/vax780.toml")),
];

/// Why a machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No file has this name.
    #[error("cannot find machine '{name}': there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read machine '{name}': {why}")]
    Unreadable {
        /// The name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// An experiment needs a constant that the machine does not have.
    #[error("cannot run this on machine '{machine}': it has no constant '{constant}'")]
    Missing {
        /// The machine.
        machine: String,
        /// The constant.
        constant: String,
    },
}

/// A constant of a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// Its value.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
    /// Where the value is from.
    pub source: String,
}

impl Constant {
    /// Returns the value in nanoseconds if the unit is one of time, and as it is otherwise.
    fn base(&self) -> f64 {
        match self.unit.as_str() {
            "s" => self.value * 1e9,
            "ms" => self.value * 1e6,
            "us" => self.value * 1e3,
            _ => self.value,
        }
    }
}

/// A machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// The machine whose constants hold where this one says nothing else.
    #[serde(default)]
    pub like: Option<String>,
    /// Its constants by name.
    pub constants: BTreeMap<String, Constant>,
}

impl Machine {
    /// Returns the machine of this name.
    ///
    /// # Errors
    /// There is none, or its file is wrong.
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = Machine::names().collect();
            return Err(MachineError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        let wrong = |why: basic_toml::Error| MachineError::Unreadable {
            name: name.to_owned(),
            why: why.to_string(),
        };
        let mut machine: Machine = basic_toml::from_str(text).map_err(wrong)?;
        if let Some(like) = &machine.like {
            for (name, constant) in Machine::named(like)?.constants {
                machine.constants.entry(name).or_insert(constant);
            }
        }
        Ok(machine)
    }

    /// Returns the names of all machines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// Returns a constant: times in nanoseconds, all else as the file has it.
    pub fn get(&self, constant: &str) -> Result<f64, MachineError> {
        self.constants.get(constant).map(Constant::base).ok_or_else(|| MachineError::Missing {
            machine: self.name.clone(),
            constant: constant.to_owned(),
        })
    }

    /// Returns a time in whole nanoseconds.
    pub fn ns(&self, constant: &str) -> Result<u64, MachineError> {
        self.get(constant).map(|value| value.round() as u64)
    }
}
