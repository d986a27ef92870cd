//! Runs as tests of several modules write them down by hand: what is not said is the same in all.

use crate::facts::{Run, Stage};
use crate::partition::Times;
use alloc::string::ToString;
use alloc::vec::Vec;

pub const MS: u64 = 1_000_000;

/// A stage of a second by milliseconds: on CPU, queue, input, output, asleep, as many as are not 0.
pub fn stage<const N: usize>(label: &str, times_ms: [u64; N]) -> Stage {
    let time_ns = |at: usize| times_ms.get(at).map_or(0, |ms| ms * MS);
    let times = Times {
        cpu_ns: time_ns(0),
        queue_ns: time_ns(1),
        input_ns: time_ns(2),
        output_ns: time_ns(3),
        sleep_ns: time_ns(4),
        ..Times::default()
    };
    Stage {
        label: label.to_string(),
        program: label.split(' ').next().unwrap_or("").to_string(),
        wall_ns: 1000 * MS,
        times,
        user_ns: times.cpu_ns,
        single_task: true,
        samples: 200,
        ..Stage::default()
    }
}

/// Gives a stage this many read calls that moved these bytes.
pub fn reads(stage: &mut Stage, calls: u64, bytes: u64) {
    let io = stage.io.get_or_insert_default();
    (io.read_calls, io.read_bytes) = (calls, bytes);
}

/// Gives a stage this many write calls that moved these bytes.
pub fn writes(stage: &mut Stage, calls: u64, bytes: u64) {
    let io = stage.io.get_or_insert_default();
    (io.write_calls, io.write_bytes) = (calls, bytes);
}

/// Lets this much of a stage's CPU time be the kernel's.
pub fn in_kernel(stage: &mut Stage, system_ns: u64) {
    (stage.user_ns, stage.system_ns) = (stage.cpu_sum_ns() - system_ns, system_ns);
}

/// A run of a second on two CPUs.
pub fn run(stages: Vec<Stage>) -> Run {
    Run { wall_ns: 1000 * MS, cpus: 2.0, stages, ..Run::default() }
}
