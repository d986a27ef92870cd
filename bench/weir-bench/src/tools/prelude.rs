//! The imports that every suite uses: cases, their parameters, and the functions that make them.

pub use super::{
    case, compared, difference, direct_file, elapsed_ns, file_for_all, group, moving, now_ns,
    operation, repeat, round_trips, size, timed, try_repeat, two_cpus, work,
};
pub use crate::engine::case::*;
pub use crate::engine::params::*;
