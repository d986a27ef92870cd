//! Starting the stages: first the pipes, then the processes.
//!
//! The last stage is started first. To start a process takes until it runs its program, and a stage
//! with input would take the CPUs from those still to be started. One that has none yet waits for
//! it.

use super::RunningJob;
use super::finish::{LiveStage, StartFailure};
use super::job::{Job, Launch, StageSpec, Watcher};
use crate::attribution::{Endpoints, PipeTotals, PipeWatch};
use crate::machine;
use crate::pipe_room::resize;
use crate::programs::in_path;
use crate::sys::spawn::{Differences, spawn_with};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_doctor::programs::is_posix_shell;
use weir_sys::Pid;
use weir_sys::proc::Descriptor;

/// The two ends of the pipe between two stages.
struct PipeEnds {
    reader: Option<OwnedFd>,
    writer: Option<OwnedFd>,
    identity: Option<Descriptor>,
    capacity_bytes: u64,
}

impl RunningJob {
    /// Starts every stage of the job.
    pub(super) fn start(&mut self, job: &Job, watcher: &mut dyn Watcher) -> io::Result<()> {
        // What came before does not concern the run.
        let _ = self.handle_events(watcher);
        self.file_limit = allow_many_files(job.stages.len());
        let mut pipes = self.make_pipes(job)?;
        let outer = Endpoints {
            input: Descriptor::of(rustix::stdio::stdin()),
            output: Descriptor::of(rustix::stdio::stdout()),
        };
        for pipe in &pipes {
            if let Some(identity) = pipe.identity {
                let sizing = self.sizing(job);
                let mut watch = PipeWatch::new(identity, sizing);
                watch.totals = PipeTotals::made(pipe.capacity_bytes);
                self.sampler.pipes.push(watch);
            }
        }
        let last = job.stages.len().saturating_sub(1);
        let mut started = Vec::new();
        for (position, spec) in job.stages.iter().enumerate().rev() {
            let stdin = (position > 0).then(|| pipes[position - 1].reader.take()).flatten();
            let stdout = (position < last).then(|| pipes[position].writer.take()).flatten();
            let closed =
                [job.closed[0] && position == 0, job.closed[1] && position == last, job.closed[2]];
            let differences =
                Differences { closed, file_limit: self.file_limit, pipe_ignored: job.pipe_ignored };
            let start_ns = self.clock.now_ns();
            let mut notes = Vec::new();
            let variable = job.variables.get(position);
            let spawned = spawn(spec, job, variable, (stdin, stdout), differences, &mut notes);
            let before = started.iter().filter_map(|(_, spawned, _)| Result::as_ref(spawned).ok());
            self.leave_out_start(watcher, start_ns, before);
            started.push((start_ns, spawned, notes));
        }
        for (position, (start_ns, spawned, notes)) in started.into_iter().rev().enumerate() {
            self.notes.extend(notes);
            let input = position.checked_sub(1).map_or(outer.input, |left| pipes[left].identity);
            let output = pipes.get(position).map_or(outer.output, |pipe| pipe.identity);
            let live = match spawned {
                Ok(child) => {
                    let ends = Endpoints { input, output };
                    self.adopt(job, position, &child, ends, start_ns)
                }
                Err(failure) => {
                    watcher.failed(position, &job.stages[position].label, &failure.reason);
                    LiveStage::failed(failure, start_ns)
                }
            };
            self.live.push(live);
        }
        // With vfork a child starts in this process's memory, so its peak begins with ours.
        let own_rss_bytes = machine::own_peak_rss_bytes();
        self.live.iter_mut().for_each(|live| live.inherits(own_rss_bytes));
        Ok(())
    }

    fn make_pipes(&mut self, job: &Job) -> io::Result<Vec<PipeEnds>> {
        let (mut pipes, mut refused) = (Vec::new(), None);
        for wanted in job.pipe_sizes() {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            let result = wanted.map_or(Ok(()), |bytes| resize(&writer, bytes));
            let identity = Descriptor::of(&reader);
            let capacity_bytes = fcntl_getpipe_size(&reader).map_or(0, |size| size as u64);
            if let Err(refusal) = result {
                refused = Some((capacity_bytes, refusal));
            }
            let (reader, writer) = (Some(reader), Some(writer));
            pipes.push(PipeEnds { reader, writer, identity, capacity_bytes });
        }
        if let Some((bytes, refusal)) = refused {
            self.notes.push(format!("pipes hold {} KiB: {refusal}", bytes >> 10));
            // Nor would they become larger later, so that nobody is advised to try.
            self.limit_bytes = self.limit_bytes.min(bytes);
        }
        Ok(pipes)
    }

    fn adopt(
        &mut self,
        job: &Job,
        position: usize,
        child: &Child,
        ends: Endpoints,
        start_ns: u64,
    ) -> LiveStage {
        let pid = child.id() as Pid;
        let group = self.sampler.add_group(pid, ends, start_ns);
        if job.script {
            // It may be over before the first sample.
            self.sampler.describe(group, &words_of(&job.stages[position].launch));
        }
        if let Some(profiler) = &mut self.profiler {
            profiler.attach(pid, (!job.script).then_some(position));
        }
        for watch in &mut self.sampler.pipes {
            if Some(watch.identity) == ends.input && position > 0 {
                watch.set_reader(pid, 0);
            }
            if Some(watch.identity) == ends.output {
                watch.set_writer(pid, 1);
            }
        }
        LiveStage::started(pid, group, start_ns)
    }
}

/// Files that this process itself may need for a stage: its pipe, and those kept open to measure
/// it.
const FILES_A_STAGE: u64 = 14;
/// Files that it needs in addition.
const FILES_BESIDES: u64 = 32;

/// Whether this many stages fit within the limit of open files.
pub fn files_suffice(stages: usize) -> bool {
    let limit = getrlimit(Resource::Nofile);
    limit.maximum.is_none_or(|most| most >= files_needed(stages))
}

/// Returns how many open files that takes.
pub fn files_needed(stages: usize) -> u64 {
    FILES_BESIDES + FILES_A_STAGE * stages as u64
}

/// Raises the limit of open files if it is too low for this many stages; returns the limit that the
/// stages must keep, if that differs.
fn allow_many_files(stages: usize) -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    let given = limit.current?;
    if given >= files_needed(stages) {
        return None;
    }
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).ok().map(|()| given)
}

fn spawn(
    spec: &StageSpec,
    job: &Job,
    variable: Option<&(OsString, OsString)>,
    // Kept here too, for a second attempt through the shell; closed when this function returns.
    ends: (Option<OwnedFd>, Option<OwnedFd>),
    differences: Differences,
    notes: &mut Vec<String>,
) -> Result<Child, StartFailure> {
    let own = |command: &mut Command| {
        command.envs(variable.map(|(name, value)| (name, value)));
    };
    match &spec.launch {
        Launch::Shell(text) => {
            let mut command = by_shell(job, text);
            own(&mut command);
            start(&mut command, &ends, differences).map_err(|error| failure(&job.shell, &error))
        }
        Launch::Exec { env, argv, text } => {
            let mut command = Command::new(&argv[0]);
            own(&mut command);
            command.args(&argv[1..]).envs(env.iter().map(|(name, value)| (name, value)));
            let error = match start(&mut command, &ends, differences) {
                Ok(child) => return Ok(child),
                Err(error) => error,
            };
            drop(command);
            let usual = matches!(error.raw_os_error(), Some(2 | 13));
            let scripted = Path::new(&argv[0]).exists() && error.raw_os_error() != Some(13);
            match text {
                Some(text) if !usual || scripted => {
                    if let Some(why) = interpreter_fault(Path::new(&argv[0])) {
                        notes.push(format!("{} was not run: {why}", argv[0].to_string_lossy()));
                    }
                    let mut command = by_shell(job, text);
                    own(&mut command);
                    start(&mut command, &ends, differences)
                        .map_err(|error| failure(&job.shell, &error))
                }
                _ => Err(failure(Path::new(&argv[0]), &error)),
            }
        }
    }
}

fn by_shell(job: &Job, text: &OsStr) -> Command {
    let mut command = Command::new(&job.shell);
    // Argument 0 is the shell's name in its messages, as for one started by hand.
    let name = job.shell.file_name().unwrap_or(job.shell.as_os_str());
    command.arg0(name).args(&job.shell_options).arg("-c");
    // Without `--`, a text that starts with a dash would be taken for options. To other shells,
    // such as fish, it is the text itself.
    command.args(name.to_str().is_some_and(is_posix_shell).then_some("--")).arg(text);
    command
}

fn start(
    command: &mut Command,
    (stdin, stdout): &(Option<OwnedFd>, Option<OwnedFd>),
    differences: Differences,
) -> io::Result<Child> {
    if let Some(end) = stdin {
        command.stdin(Stdio::from(end.try_clone()?));
    }
    if let Some(end) = stdout {
        command.stdout(Stdio::from(end.try_clone()?));
    }
    spawn_with(command, differences)
}

fn failure(program: &Path, error: &io::Error) -> StartFailure {
    const ENOENT: i32 = 2;
    const EACCES: i32 = 13;
    let by_path = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let not_found = || String::from("command not found");
    let (status, reason) = match error.raw_os_error() {
        Some(ENOENT) if by_path && let Some(why) = interpreter_fault(program) => (127, why),
        Some(ENOENT) if !by_path => (127, not_found()),
        Some(EACCES) if !by_path && !is_in_path(program) => (127, not_found()),
        Some(ENOENT) => (127, String::from("no such file or directory")),
        Some(EACCES) if program.is_dir() => (126, String::from("is a directory")),
        Some(EACCES) => (126, not_executable(program)),
        _ => (126, error.to_string()),
    };
    StartFailure { status, reason }
}

/// Whether a file of this name is in a directory of `PATH`. Shells pass over directories.
fn is_in_path(name: &Path) -> bool {
    in_path(name).any(|at| at.metadata().is_ok_and(|found| !found.is_dir()))
}

/// Says what lets a script run that may not be executed.
fn not_executable(program: &Path) -> String {
    const TO_EXECUTE: u32 = 0o111;
    let is_marked = program.metadata().is_ok_and(|file| file.mode() & TO_EXECUTE != 0);
    let words = first_line(program).unwrap_or_default();
    let words: Vec<&str> = words.iter().filter_map(|word| std::str::from_utf8(word).ok()).collect();
    let names = words.iter().filter_map(|word| word.trim_end_matches('\r').rsplit('/').next());
    // `#!/usr/bin/env -S python3 -u`
    let shell = names.filter(|name| *name != "env").find(|name| !name.starts_with('-'));
    let path = program.display();
    match shell {
        Some(shell) if is_marked => format!("permission denied; try: weir run {shell} {path}"),
        Some(shell) => format!("permission denied: chmod +x {path}, or: weir run {shell} {path}"),
        None => String::from("not executable: permission denied"),
    }
}

/// Returns why a script that is there cannot be run: the program that its first line names is not
/// there. `None` for other files.
fn interpreter_fault(script: &Path) -> Option<String> {
    let words = first_line(script)?;
    let named = words.first()?.as_slice();
    let program = named.strip_suffix(b"\r").unwrap_or(named);
    let shown = String::from_utf8_lossy(program);
    if Path::new(OsStr::from_bytes(named)).exists() {
        return None;
    }
    Some(match Path::new(OsStr::from_bytes(program)).exists() {
        true => format!("its lines end with CR LF, so its first line names no '{shown}'"),
        false => format!("its first line names '{shown}', which is not installed"),
    })
}

/// Returns the arguments that a program has once it is started: of a script, what its first line names
/// comes before them. None for a text of the shell.
fn words_of(launch: &Launch) -> Vec<String> {
    let Launch::Exec { argv, .. } = launch else { return Vec::new() };
    let interpreter = argv.first().and_then(|program| first_line(Path::new(program)));
    let before = interpreter.unwrap_or_default();
    let before = before.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    before.chain(argv.iter().map(|word| word.to_string_lossy().into_owned())).collect()
}

/// Returns the words behind `#!` in the first line of a script; `None` for other files.
fn first_line(script: &Path) -> Option<Vec<Vec<u8>>> {
    const LENGTH: u64 = 256;
    // Opening something else than a file may wait for ever.
    let file = File::open(Some(script).filter(|path| path.is_file())?).ok()?;
    let mut start = Vec::new();
    file.take(LENGTH).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    // As the kernel takes it apart: a carriage return belongs to the word.
    let words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    Some(words.map(<[u8]>::to_vec).collect())
}
