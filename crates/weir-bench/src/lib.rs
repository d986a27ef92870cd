//! The suites of `weir bench`: the experiments of four reports on UNIX, on the mechanisms of today.
//!
//! One file or folder a suite; [`catalogue`] lists them. A suite is a number of groups of cases; a
//! case is a recipe that a fresh process carries out. No statistics and no output here: those are
//! the engine's (`weir_measure::bench`) and the command's.

#![forbid(unsafe_code)]

pub mod bbn;
pub mod franke;
pub mod joy_ipc;
pub mod joy_switch;
pub mod joy_syscall;
pub mod limits;
pub mod published;
pub mod tools;

use weir_measure::bench::case::Suite;

/// All suites, in the order in which they are shown.
pub fn catalogue() -> Vec<Suite> {
    vec![
        limits::suite(),
        joy_syscall::suite(),
        joy_switch::suite(),
        joy_ipc::suite(),
        bbn::pipe(),
        bbn::port(),
        bbn::loaded(),
        franke::pipe(),
        franke::grep(),
        franke::pipeflex(),
    ]
}
