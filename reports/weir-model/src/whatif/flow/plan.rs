//! What a report says, as a plan of stages and pipes.

use super::Costs;
use crate::kernel::Linux;
use crate::machine::Machine;
use crate::whatif::report::{MeasuredPipe, MeasuredStage, Report};
use crate::whatif::{Changes, WhatIfError};

/// Chunks that are simulated at most: a longer run is scaled down.
const CHUNKS_MAX: f64 = 20_000.0;
/// The capacity of a pipe whose capacity is not known: the kernel's.
const CAPACITY: u64 = 65_536;
/// Programs that write nothing before they have read everything.
const BARRIERS: [&str; 14] = [
    "sort",
    "tac",
    "shuf",
    "tsort",
    "wc",
    "tail",
    "md5sum",
    "sha1sum",
    "sha224sum",
    "sha256sum",
    "sha512sum",
    "b2sum",
    "cksum",
    "sum",
];

/// A pipeline that can be run.
#[derive(Clone, Debug)]
pub(in crate::whatif) struct Plan {
    pub(in crate::whatif) stages: Vec<Stage>,
    /// The capacities of the pipes.
    pub(super) pipes: Vec<f64>,
    pub(super) cpus: usize,
    pub(super) others: f64,
    pub(super) costs: Costs,
    pub(super) linux: Linux,
    /// How many times longer than the model's the pipeline is.
    pub(in crate::whatif) scale: f64,
}

#[derive(Clone, Debug, Default)]
pub(in crate::whatif) struct Stage {
    pub(in crate::whatif) index: usize,
    pub(in crate::whatif) command: String,
    pub(in crate::whatif) workers: usize,
    /// Its pipes.
    pub(super) input: Option<usize>,
    pub(super) output: Option<usize>,
    /// Bytes of input; of output, where there is no input.
    pub(super) todo: f64,
    /// Bytes of output for one of these.
    pub(super) gain: f64,
    pub(super) read: f64,
    pub(super) write: f64,
    /// CPU time for a byte of `todo`.
    pub(super) byte_ns: f64,
    /// Waits for other things than pipes, for a byte of `todo`.
    pub(super) wait_ns: f64,
    /// If it writes only at the end: CPU time between the last byte of input and the first of output,
    /// and CPU time for a byte of output.
    pub(super) barrier: Option<(f64, f64)>,
}

impl Stage {
    pub(in crate::whatif) fn is_barrier(&self) -> bool {
        self.barrier.is_some()
    }

    fn times_cpu(&mut self, factor: f64) {
        self.byte_ns *= factor;
        if let Some((middle_ns, out_ns)) = &mut self.barrier {
            *middle_ns *= factor;
            *out_ns *= factor;
        }
    }

    fn cpu_ns(&self) -> f64 {
        let (middle_ns, out_ns) = self.barrier.unwrap_or_default();
        self.byte_ns * self.todo + middle_ns + out_ns * self.todo * self.gain
    }

    /// Takes from its CPU time what the model adds by itself, but never all.
    pub(in crate::whatif) fn less_cpu(&mut self, overhead_ns: u64) {
        let whole_ns = self.cpu_ns();
        if whole_ns > 0.0 {
            self.times_cpu((1.0 - overhead_ns as f64 / whole_ns).clamp(0.1, 1.0));
        }
    }
}

/// Returns the mean size of so many calls, as a power of two.
fn size(bytes: Option<u64>, calls: Option<u64>) -> f64 {
    let (bytes, calls) = (bytes.unwrap_or(0), calls.unwrap_or(0));
    let mean = bytes.checked_div(calls).unwrap_or(65_536);
    mean.clamp(1, 1 << 20).next_power_of_two().clamp(512, 1 << 20) as f64
}

impl Plan {
    pub(in crate::whatif) fn of(report: &Report, host: &Machine) -> Result<Plan, WhatIfError> {
        let mut stages = Vec::new();
        for of in &report.stages {
            stages.push(stage(report, of)?);
        }
        let mut plan = Plan {
            stages,
            pipes: Vec::new(),
            cpus: (report.cpus.ceil() as usize).clamp(1, 1024),
            others: report.others(),
            costs: Costs { call_ns: host.ns("call")?, wake_ns: host.ns("wake")? },
            linux: Linux {
                switch_ns: host.ns("switch")?,
                scan_ns: 0,
                rouse_ns: host.ns("rouse")?,
                slice_ticks: 1,
                margin: host.ns("margin")? as i64,
            },
            scale: 1.0,
        };
        for (number, pipe) in report.pipes.iter().enumerate() {
            let capacity = pipe.capacity_bytes.unwrap_or(CAPACITY).max(4096);
            plan.pipes.push(capacity as f64);
            for stage in &mut plan.stages {
                if stage.index == pipe.from {
                    stage.output = Some(number);
                } else if stage.index == pipe.to {
                    stage.input = Some(number);
                }
            }
        }
        plan.shorten();
        Ok(plan)
    }

    /// Scales a long run down: fewer bytes, the same chunks and pipes.
    fn shorten(&mut self) {
        let chunks = |stage: &Stage| stage.todo / stage.read.min(stage.write);
        let most = self.stages.iter().map(chunks).fold(1.0, f64::max);
        self.scale = (most / CHUNKS_MAX).max(1.0);
        for stage in &mut self.stages {
            stage.todo /= self.scale;
            if let Some((middle_ns, _)) = &mut stage.barrier {
                *middle_ns /= self.scale;
            }
        }
    }

    pub(in crate::whatif) fn changed(&self, changes: &Changes) -> Plan {
        let mut plan = self.clone();
        if let Some(capacity) = changes.pipe_bytes {
            plan.pipes.iter_mut().for_each(|pipe| *pipe = capacity.max(4096) as f64);
        }
        plan.cpus = changes.cpus.unwrap_or(plan.cpus).clamp(1, 1024);
        for (index, factor) in &changes.faster {
            let stage = plan.stages.iter_mut().find(|stage| stage.index == *index);
            if let Some(stage) = stage {
                stage.times_cpu(1.0 / factor);
            }
        }
        plan
    }
}

/// Returns the bytes that went through a pipe.
fn through(report: &Report, pipe: &MeasuredPipe) -> Option<u64> {
    let stage = |index: usize| report.stages.iter().find(|stage| stage.index == index);
    let (from, to) = (stage(pipe.from)?, stage(pipe.to)?);
    from.pipe_bytes_out.or(to.pipe_bytes_in).or(from.bytes_out).or(to.bytes_in)
}

fn stage(report: &Report, of: &MeasuredStage) -> Result<Stage, WhatIfError> {
    let input = report.pipes.iter().find(|pipe| pipe.to == of.index);
    let output = report.pipes.iter().find(|pipe| pipe.from == of.index);
    let bytes = |pipe: Option<&MeasuredPipe>| match pipe {
        None => Ok(None),
        Some(pipe) => through(report, pipe).map(Some).ok_or_else(|| {
            let (from, to) = (pipe.from, pipe.to);
            let why = format!("it does not say how many bytes went from stage {from} to {to}");
            WhatIfError::TooLittle(why)
        }),
    };
    let (bytes_in, bytes_out) = (bytes(input)?, bytes(output)?);
    // A stage without pipes continues in steps of its own.
    let todo = bytes_in.or(bytes_out).unwrap_or(1 << 26).max(1) as f64;
    let gain = bytes_out.unwrap_or(0) as f64 / todo;
    let (read, write) = (size(of.bytes_in, of.read_calls), size(of.bytes_out, of.write_calls));
    let (cpu_ns, other_ns) = (of.cpu_s * 1e9, of.blocked_other.sum_s() * 1e9);
    // Tasks that were busy at a time, while any was.
    let busy_s = of.busy * of.wall_s;
    let at_once = if busy_s > 0.0 { (of.cpu_s + of.runq_sum_s) / busy_s } else { 1.0 };
    let mut stage = Stage {
        index: of.index,
        command: of.command.clone(),
        workers: if at_once > 1.2 { of.most_tasks.clamp(2, 64) } else { 1 },
        todo,
        gain,
        read: if bytes_in.is_some() { read } else { write },
        write: if output.is_some() { write } else { read },
        byte_ns: cpu_ns / todo,
        wait_ns: other_ns / todo,
        ..Stage::default()
    };
    if let (Some(input), Some(output)) = (input, output) {
        let upstream_s = report.stages.iter().find(|stage| stage.index == input.from);
        let upstream_s = upstream_s.map_or(0.0, |stage| stage.wall_s);
        if writes_at_the_end(report, of, output, upstream_s) {
            divide(&mut stage, of, output, upstream_s, bytes_out.unwrap_or(0));
        }
    }
    Ok(stage)
}

/// Whether the words of a program that usually writes at the end have it write at once: `tail -n +2`
/// and `tail -f`, and a `sort` that merges what is in order.
fn passes_on(of: &MeasuredStage) -> bool {
    let mut words = of.command.split_whitespace().skip(1);
    match of.program.as_str() {
        "tail" => words.any(|word| word.contains('+') || matches!(word, "-f" | "-F")),
        "sort" => words.any(|word| matches!(word, "-m" | "--merge")),
        _ => false,
    }
}

/// Whether a stage wrote nothing before its input had ended.
fn writes_at_the_end(
    report: &Report,
    of: &MeasuredStage,
    output: &MeasuredPipe,
    upstream_s: f64,
) -> bool {
    if BARRIERS.contains(&of.program.as_str()) && !passes_on(of) {
        return true;
    }
    // The pipe was empty until the input's end, and what came then is much.
    let wall_s = report.wall_s;
    let first_s = output.longest_empty_s;
    let after_s = of.wall_s - upstream_s;
    let reader = report.stages.iter().find(|stage| stage.index == output.to);
    let reader_fits = reader.is_some_and(|reader| {
        let tasks = reader.most_tasks.max(1) as f64;
        reader.cpu_s <= (reader.wall_s - first_s).max(0.0) * tasks
    });
    first_s >= 0.98 * upstream_s && after_s > 0.1 * wall_s && reader_fits
}

/// Divides the CPU time of a stage that writes at the end: while it reads, between, while it writes.
fn divide(
    stage: &mut Stage,
    of: &MeasuredStage,
    output: &MeasuredPipe,
    upstream_s: f64,
    bytes_out: u64,
) {
    let cpu_s = of.cpu_s;
    let reading_s = (upstream_s - of.blocked_in_s).clamp(0.0, cpu_s);
    let after_s = (of.wall_s - upstream_s - of.blocked_out_s).max(1e-9);
    let before_first_s = (output.longest_empty_s - upstream_s).clamp(0.0, after_s);
    let middle_s = (cpu_s - reading_s) * before_first_s / after_s;
    let writing_s = cpu_s - reading_s - middle_s;
    stage.byte_ns = reading_s * 1e9 / stage.todo;
    stage.barrier = Some((middle_s * 1e9, writing_s * 1e9 / bytes_out.max(1) as f64));
}
