//! Running pipelines: as a whole by another program, or stage by stage with a hand on each.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Where and under which names of the environment a pipeline runs.
#[derive(Clone, Debug)]
pub struct Place {
    pub data: PathBuf,
    pub env: BTreeMap<String, String>,
    /// Whether whole pipelines run on one CPU (`taskset`).
    pub one_cpu: bool,
}

/// One run of a pipeline as a whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole {
    pub wall_s: f64,
    pub status: i32,
    /// Length and FNV-1a of standard output.
    pub output: (u64, u64),
}

impl Place {
    /// Prepares a command: no input, the place's directory and environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.data).stdin(Stdio::null()).stderr(Stdio::null());
        command.env("LC_ALL", "C").env("TMPDIR", &self.data).env_remove("BASH_ENV");
        // It would make every python write in small pieces.
        command.env_remove("PYTHONUNBUFFERED");
        // weir's memory of earlier runs would make one run depend on another.
        command.env("WEIR_ELASTIC", "/dev/null").envs(&self.env);
        command
    }

    /// Runs a command with its output into memory.
    pub fn whole(&self, program: &Path, args: &[&str]) -> Result<Whole, String> {
        let mut output = memory()?;
        let mut command = self.command(if self.one_cpu { Path::new("taskset") } else { program });
        if self.one_cpu {
            command.args(["-c", "0"]).arg(program);
        }
        command.args(args).stdout(clone(&output)?);
        let start = Instant::now();
        let status = command.status().map_err(|error| cannot(program, &error))?;
        let wall_s = start.elapsed().as_secs_f64();
        Ok(Whole { wall_s, status: status.code().unwrap_or(-1), output: sum(&mut output)? })
    }

    /// Runs `text` by bash, and its output through `check`; returns that one's output.
    pub fn checked(&self, text: &str, check: &str) -> Result<(u64, u64), String> {
        Ok(self.whole(Path::new("bash"), &["-c", &format!("{{ {text}; }} | {check}")])?.output)
    }

    /// Starts one stage in a process group of its own.
    fn stage(&self, text: &str, input: Stdio, output: Stdio) -> Result<Child, String> {
        let bash = Path::new("bash");
        let mut command = self.command(bash);
        command.arg("-c").arg(text).stdin(input).stdout(output).process_group(0);
        command.spawn().map_err(|error| cannot(bash, &error))
    }

    /// Runs one stage alone, its input from a file and its output into a pipe that is emptied
    /// without copying; returns its wall time. (tar and grep do less work if they write to
    /// /dev/null.)
    pub fn alone(&self, text: &str, input: Option<&Path>) -> Result<f64, String> {
        const PIPE_BYTES: usize = 1 << 20;
        let open = |path: &Path| File::open(path).map_err(|error| cannot(path, &error));
        let input = input.map(open).transpose()?.map_or_else(Stdio::null, Stdio::from);
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(|error| cannot(Path::new("/dev/null"), &error))?;
        let (from, to) = pipe(PIPE_BYTES)?;
        let start = Instant::now();
        let mut child = self.stage(text, input, to.into())?;
        while splice(&from, None, &nowhere, None, PIPE_BYTES, SpliceFlags::empty())
            .map_err(|error| format!("cannot empty a pipe: {error}"))?
            > 0
        {}
        child.wait().map_err(|error| error.to_string())?;
        Ok(start.elapsed().as_secs_f64())
    }

    /// Starts all stages with pipes of `pipe_bytes` between them, and output into memory.
    pub fn start(&self, stages: &[String], pipe_bytes: usize) -> Result<Running, String> {
        let output = memory()?;
        let mut running = Running { children: Vec::new(), start: Instant::now(), output };
        let mut input = Stdio::null();
        for (at, stage) in stages.iter().enumerate() {
            let (next, out) = if at + 1 < stages.len() {
                let (from, to) = pipe(pipe_bytes)?;
                (Stdio::from(from), Stdio::from(to))
            } else {
                (Stdio::null(), Stdio::from(clone(&running.output)?))
            };
            let child = self.stage(stage, std::mem::replace(&mut input, next), out)?;
            running.children.push(child);
        }
        Ok(running)
    }
}

/// A pipeline of which each stage is a process group.
pub struct Running {
    children: Vec<Child>,
    start: Instant,
    output: File,
}

impl Running {
    /// The process groups, in the order of the stages.
    pub fn groups(&self) -> Vec<Pid> {
        self.children.iter().map(Pid::from_child).collect()
    }

    /// Waits for the end of all stages; returns the wall time and the output.
    pub fn wait(mut self) -> Result<(f64, (u64, u64)), String> {
        for child in &mut self.children {
            child.wait().map_err(|error| error.to_string())?;
        }
        let wall_s = self.start.elapsed().as_secs_f64();
        Ok((wall_s, sum(&mut self.output)?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            if matches!(child.try_wait(), Ok(None)) {
                let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
                let _ = child.wait();
            }
        }
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn pipe(bytes: usize) -> Result<(OwnedFd, OwnedFd), String> {
    let ends = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("no pipe: {error}"))?;
    fcntl_setpipe_size(&ends.0, bytes).map_err(|error| format!("no pipe of {bytes}: {error}"))?;
    Ok(ends)
}

fn memory() -> Result<File, String> {
    let memory = memfd_create("output", MemfdFlags::CLOEXEC);
    memory.map(File::from).map_err(|error| format!("no memory for the output: {error}"))
}

fn clone(file: &File) -> Result<File, String> {
    file.try_clone().map_err(|error| error.to_string())
}

/// Length and FNV-1a of what was written.
fn sum(file: &mut File) -> Result<(u64, u64), String> {
    let failed = |error: std::io::Error| format!("cannot read the output: {error}");
    file.rewind().map_err(failed)?;
    let (mut buffer, mut bytes, mut sum) = (vec![0; 1 << 16], 0, 0xcbf2_9ce4_8422_2325_u64);
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok((bytes, sum));
        }
        bytes += count as u64;
        sum = buffer[..count]
            .iter()
            .fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    }
}
