//! Runs jobs repeatedly, each time with the same input, and with the output in a file without a name.

use super::status;
use super::watch::{ENDS, TAKEN, Watch};
use crate::args::LiveView;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs::File;
use std::hash::Hasher;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_64;
use weir_command::fault::Fault;
use weir_command::output::progress_bar;
use weir_command::signals::heeded;
use weir_measure::pairs::{Comparison, PairOrder, Verdict};
use weir_measure::runner::{self, Job};
use weir_measure::sys::signals::restore_default;

/// The largest relative difference in time that counts as none.
const BAND: f64 = 0.02;

/// The statuses of a shell that could not start a command.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A job to compare.
#[derive(Clone, Debug)]
pub struct Entrant {
    pub job: Job,
    /// Whether its status is that of the rightmost stage that failed.
    pub pipefail: bool,
    /// Whether its status is inverted.
    pub negated: bool,
}

/// The result of one run of a job.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The wall time.
    pub wall_s: f64,
    /// The status that a shell would have.
    pub status: i32,
    pub output: Digest,
    /// Whether a command could not be started.
    pub is_unstarted: bool,
}

/// Runs each entrant once a round, in random order. Returns the samples of each, or `None` if the user
/// interrupted it.
pub fn rounds(
    entrants: &[&Entrant],
    count: usize,
    standard: &Standard,
) -> Result<Option<Vec<Vec<Sample>>>, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut order = PairOrder::new(now.as_nanos() as u64);
    let template = "comparing {bar:24} round {pos} of {len}, {eta} left";
    let bar = progress_bar(true, count as u64, template);
    let mut samples = vec![Vec::with_capacity(count); entrants.len()];
    for _ in 0..count {
        let mut round: Vec<usize> = (0..entrants.len()).collect();
        order.shuffle(&mut round);
        for which in round {
            let Some(sample) = standard.run(entrants[which])? else {
                bar.finish_and_clear();
                return Ok(None);
            };
            samples[which].push(sample);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Some(samples))
}

/// Compares the second of two times with the first, round by round.
pub fn compared(pairs: impl Iterator<Item = (f64, f64)>) -> Result<Comparison, Fault> {
    let pairs: Vec<(f64, f64)> = pairs.collect();
    Comparison::from_pairs(&pairs).map_err(|error| Fault::failed(error.to_string()))
}

/// Judges a comparison beside that of the first with itself. Where the same thing differed from itself, only
/// a larger difference is shown.
pub fn verdict(found: &Comparison, alike: &Comparison) -> Verdict {
    let verdict = found.verdict(BAND);
    let by_itself = by_itself(alike);
    match verdict {
        Verdict::Faster if found.high * by_itself >= 1.0 => Verdict::Inconclusive,
        Verdict::Slower if found.low <= by_itself => Verdict::Inconclusive,
        verdict => verdict,
    }
}

/// Returns how many times as long as itself the first took at the worst; 1 where no difference was shown.
pub fn by_itself(alike: &Comparison) -> f64 {
    if alike.holds_one() { 1.0 } else { alike.high.max(1.0 / alike.low) }
}

/// Refuses an input that cannot be read a second time.
fn check_input() -> Result<(), Fault> {
    let stdin = rustix::stdio::stdin();
    let Ok(found) = rustix::fs::fstat(stdin) else { return Ok(()) };
    let kind = FileType::from_raw_mode(found.st_mode);
    if matches!(kind, FileType::Fifo | FileType::Socket) {
        return Err(Fault::usage(
            "cannot compare: standard input is a pipe, which can be read only once; use a file",
        ));
    }
    Ok(())
}

/// The original standard input, output and error, which are restored after each run.
pub struct Standard {
    input_at: Option<u64>,
    output: OwnedFd,
    error: OwnedFd,
    /// Whether the user wants it to end: between two runs nobody else hears of that.
    over: Arc<AtomicBool>,
}

/// The length and the checksum of what a run wrote.
pub type Digest = (u64, u64);

impl Standard {
    /// Keeps the standard streams, if the input can be read again.
    pub fn keep() -> Result<Standard, Fault> {
        check_input()?;
        let cannot = |error: Errno| Fault::failed(format!("cannot compare: {error}"));
        let keep = |fd: rustix::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let over = Arc::new(AtomicBool::new(false));
        for signal in heeded(&ENDS) {
            signal_hook::flag::register(signal, Arc::clone(&over))
                .map_err(Fault::cannot("listen for signals"))?;
        }
        Ok(Standard {
            over,
            input_at: rustix::fs::tell(rustix::stdio::stdin()).ok(),
            output: keep(rustix::stdio::stdout()).map_err(cannot)?,
            error: keep(rustix::stdio::stderr()).map_err(cannot)?,
        })
    }

    fn is_over(&self) -> bool {
        // Relaxed: no other memory depends on it.
        self.over.load(Ordering::Relaxed)
    }

    /// Runs a job with its output into a file without a name. Returns `None` if it was interrupted.
    pub fn run(&self, entrant: &Entrant) -> Result<Option<Sample>, Fault> {
        let cannot = |error: std::io::Error| Fault::failed(format!("cannot compare: {error}"));
        if self.is_over() {
            return Ok(None);
        }
        if let Some(at) = self.input_at {
            let _ = rustix::fs::seek(rustix::stdio::stdin(), rustix::fs::SeekFrom::Start(at));
        }
        let mut output = unnamed_file().map_err(|error| {
            let place = std::env::temp_dir();
            let cannot = "cannot compare: cannot make a file for the output";
            Fault::failed(format!("{cannot} in '{}': {error}", place.display()))
        })?;
        let nowhere = File::options().write(true).open("/dev/null");
        let nowhere = nowhere.map_err(Fault::cannot("compare: cannot open '/dev/null'"))?;
        rustix::stdio::dup2_stdout(&output).map_err(|error| cannot(error.into()))?;
        rustix::stdio::dup2_stderr(&nowhere).map_err(|error| cannot(error.into()))?;
        let mut watch = Watch::new(LiveView::Never, &entrant.job, &TAKEN);
        let run = runner::run(&entrant.job, &mut watch);
        let _ = rustix::stdio::dup2_stdout(&self.output);
        let _ = rustix::stdio::dup2_stderr(&self.error);
        let run = run.map_err(cannot)?;
        if !run.signals.is_empty() {
            return Ok(None);
        }
        let status = status::status(&run, entrant.pipefail, entrant.negated).shell_status();
        let wall_s = run.wall_ns.max(1) as f64 / 1e9;
        let output = sum(&mut output).map_err(cannot)?;
        let is_unstarted = run.stages.iter().any(|stage| stage.failure.is_some())
            || [NOT_EXECUTABLE, NOT_FOUND].contains(&status);
        let sample = Sample { wall_s, status, output, is_unstarted };
        Ok((!self.is_over()).then_some(sample))
    }
}

impl Standard {
    /// No run follows: signals end weir, also while it waits to write what it says.
    pub fn end_by_signals(&self) {
        for signal in heeded(&ENDS) {
            restore_default(signal);
        }
    }
}

impl Drop for Standard {
    fn drop(&mut self) {
        self.end_by_signals();
    }
}

/// A file without a name, to whose end everybody writes.
fn unnamed_file() -> std::io::Result<File> {
    let file = tempfile::tempfile()?;
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
    Ok(file)
}

fn sum(file: &mut File) -> std::io::Result<Digest> {
    file.rewind()?;
    let (mut buffer, mut bytes, mut sum) = (vec![0; 1 << 16], 0, XxHash3_64::new());
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((bytes, sum.finish()));
        }
        bytes += n as u64;
        sum.write(&buffer[..n]);
    }
}
