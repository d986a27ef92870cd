//! The imports that every suite uses: cases, their parameters, and the functions that make them.

pub use super::{
    case, compared, difference, direct_file, elapsed_ns, file_for_all, group, moving, now_ns,
    operation, repeat, round_trips, size, timed, try_repeat, two_cpus, work,
};
pub use weir_measure::bench::case::*;
pub use weir_measure::bench::params::*;
