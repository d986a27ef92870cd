//! The words in which every suite is written: cases, their parameters, and what makes them.

pub use super::{
    case, difference, direct_file, elapsed_ns, file_for_all, group, moving, now_ns, repeat,
    round_trips, size, timed, try_repeat, two_cpus, work,
};
pub use weir_measure::bench::case::*;
pub use weir_measure::bench::params::*;
