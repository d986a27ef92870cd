//! What the tests need of a machine.

use super::Costs;
use super::run::Setup;
use crate::disk::Geometry;
use crate::kernel::{Discipline, V6};
use crate::machine::{Machine, MachineError};

impl Setup {
    /// Takes the constants out of a machine.
    pub fn of(machine: &Machine) -> Result<Setup, MachineError> {
        let (system, user) = (machine.get("cpu_ratio")?, machine.get("user_ratio")?);
        let of = |name: &str, ratio: f64| machine.get(name).map(|ns| (ns / ratio).round() as u64);
        let cpu = |name: &str| of(name, system);
        let (first, stride) = (machine.get("first_block")? as u64, machine.get("stride")? as u64);
        let disk = Geometry {
            rpm: machine.get("rpm")?,
            sectors_per_cylinder: machine.get("sectors_per_cylinder")? as u64,
            sectors_per_track: machine.get("sectors_per_track")? as u64,
            seek_track_ms: machine.get("seek_track")? / 1e6,
            seek_average_ms: machine.get("seek_average")? / 1e6,
            seek_full_ms: machine.get("seek_full")? / 1e6,
            cylinders: machine.get("cylinders")? as u64,
        };
        let whole = disk.cylinders * disk.sectors_per_cylinder;
        Ok(Setup {
            costs: Costs {
                call_ns: cpu("call")?,
                port_ns: cpu("port")?,
                block_ns: cpu("block")?,
                byte_ns: cpu("byte")?,
                disk_ns: cpu("disk")?,
                interrupt_ns: cpu("interrupt")?,
                cancel_ns: cpu("cancel")?,
                user_ns: of("user", user)?,
                check_ns: of("check", user)?,
                start_ns: machine.ns("start")?,
            },
            discipline: Discipline::V6(V6 {
                hz: machine.get("hz")? as u64,
                switch_ns: cpu("switch")?,
                scan_ns: 0,
                wake_preempts: true,
            }),
            disk,
            buffers: machine.get("buffers")? as usize,
            blocks: (0..8).map(|block| (first + block * stride) % whole).collect(),
        })
    }
}
