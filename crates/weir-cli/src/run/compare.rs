//! `weir run --compare`: the same pipeline under plain settings and under the advice, in rounds.
//!
//! Each round runs it three times in random order: plain, advised, and plain once more, so that
//! the rounds also say what this host can tell apart. Plain are pipes as the kernel makes them.
//! What the pipeline writes goes to a file without a name and must be the same each time.

use super::{elastic, watch};
use crate::args::When;
use crate::fault::{Fault, tell};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_measure::pairs::{Comparison, PairOrder};
use weir_measure::record::Run;
use weir_measure::runner::{self, Job, Launch};
use weir_policy::advice::{Advice, Kind};

/// Capacity of a pipe as Linux makes it.
const PLAIN_PIPE_BYTES: u64 = 65_536;
/// The difference that is taken for none.
const BAND: f64 = 0.02;

/// What the rounds gave.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// What plain means.
    pub plain: String,
    /// What was changed for the advised runs.
    pub advised: Vec<String>,
    /// Advice that cannot be tried without changing the pipeline itself.
    pub not_tried: Vec<String>,
    /// Rounds that were run to their end.
    pub rounds: usize,
    /// Wall times of the plain runs, one a round.
    pub plain_s: Vec<f64>,
    /// Of the advised runs.
    pub advised_s: Vec<f64>,
    /// Of the second plain runs.
    pub twin_s: Vec<f64>,
    /// Estimate of advised / plain, its 95 % interval and p value.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// p value of "both the same".
    pub p: f64,
    /// "faster", "slower", "equivalent" or "inconclusive": of the advised runs.
    pub verdict: String,
    /// What plain against plain gave.
    pub resolves_percent: f64,
    /// Whether all runs wrote the same bytes.
    pub same_output: bool,
    /// The advice that was followed in the advised runs.
    #[serde(skip)]
    pub tried: Vec<Advice>,
    /// All of that in sentences.
    pub sentences: Vec<String>,
}

/// One of the three of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Plain,
    Advised,
    Twin,
}

/// What cannot be read a second time is refused before the first run.
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

/// Standard input, output and error as they were, to be put back.
pub struct Standard {
    input_at: Option<u64>,
    output: OwnedFd,
    error: OwnedFd,
}

/// Runs the rounds after the first run gave `advice`.
///
/// `standard` was kept before that run, which has read standard input.
pub fn compare(
    job: &Job,
    advice: &[Advice],
    rounds: usize,
    standard: &Standard,
) -> Result<Option<Compared>, Fault> {
    let Applied { job: advised_job, advised, tried, not_tried } = apply(job, advice);
    let mut plain_job = Job { pipe_bytes: PLAIN_PIPE_BYTES, pipe_auto: false, ..job.clone() };
    plain_job.stages.retain(|stage| !stage.inserted);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut order = PairOrder::new(now.as_nanos() as u64);
    let bar = bar(rounds);
    let mut runs: [Vec<f64>; 3] = Default::default();
    let mut outputs = Vec::new();
    for _ in 0..rounds {
        let mut round = [Which::Plain, Which::Advised, Which::Twin];
        order.shuffle(&mut round);
        for which in round {
            let job = if which == Which::Advised { &advised_job } else { &plain_job };
            let Some((wall_s, output)) = standard.run(job)? else {
                bar.finish_and_clear();
                tell("interrupted: nothing is compared");
                return Ok(None);
            };
            runs[which as usize].push(wall_s);
            outputs.push(output);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let [plain_s, advised_s, twin_s] = runs;
    let pairs = |other: &[f64]| {
        let pairs: Vec<(f64, f64)> = plain_s.iter().copied().zip(other.iter().copied()).collect();
        Comparison::from_pairs(&pairs).map_err(|error| Fault::failed(error.to_string()))
    };
    let (found, alike) = (pairs(&advised_s)?, pairs(&twin_s)?);
    let same_output = outputs.windows(2).all(|pair| pair[0] == pair[1]);
    let mut compared = Compared {
        plain: String::from("pipes of 64 KiB, as the kernel makes them"),
        advised,
        not_tried,
        rounds,
        ratio: found.ratio,
        low: found.low,
        high: found.high,
        p: found.p,
        verdict: found.verdict(BAND).to_string(),
        resolves_percent: alike.resolution().fraction * 100.0,
        same_output,
        tried,
        sentences: Vec::new(),
        plain_s,
        advised_s,
        twin_s,
    };
    compared.sentences = sentences(&compared, &found, &alike);
    Ok(Some(compared))
}

fn bar(rounds: usize) -> ProgressBar {
    let bar = ProgressBar::new(rounds as u64);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let template = "comparing {bar:24} round {pos} of {len}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

fn sentences(compared: &Compared, found: &Comparison, alike: &Comparison) -> Vec<String> {
    let mut said = vec![
        format!("{} rounds of plain, advised and plain again, in random order", compared.rounds),
        format!("plain:   {} ({:.3} s)", compared.plain, found.a_median),
        format!("advised: {} ({:.3} s)", compared.advised.join("; "), found.b_median),
        found.sentence("plain", "advised", BAND).to_string(),
        format!("A/A: {}", alike.resolution()),
    ];
    said.extend(compared.not_tried.iter().map(|text| format!("not tried: {text}")));
    said.push(String::from(if compared.same_output {
        "output: the same bytes in all runs"
    } else {
        "output: NOT the same bytes in all runs; what is compared may not be the same work"
    }));
    said
}

/// A job changed as advised.
struct Applied {
    job: Job,
    /// What was changed, in words.
    advised: Vec<String>,
    /// The advice that is followed.
    tried: Vec<Advice>,
    /// The text of that which can't be followed.
    not_tried: Vec<String>,
}

/// The job with the advice that can be followed without changing what the pipeline says.
fn apply(job: &Job, advice: &[Advice]) -> Applied {
    let mut changed = job.clone();
    let mut advised = vec![format!("pipes of {} KiB", job.pipe_bytes >> 10)];
    let (mut tried, mut not_tried) = (Vec::new(), Vec::new());
    let buffer_in = |from| {
        let pipe = elastic::typed_number(job.stages.iter().map(|stage| stage.inserted), from);
        format!("elastic buffer in pipe {pipe}->{}", pipe + 1)
    };
    let put_in = job.stages.iter().enumerate().filter(|(_, stage)| stage.inserted);
    advised.extend(put_in.map(|(position, _)| buffer_in(position)));
    let mut buffers: Vec<(usize, &Advice)> = Vec::new();
    for piece in advice {
        match (piece.kind, piece.stage) {
            (Kind::LargerPipe, _) => {
                tried.push(piece.clone());
                if !changed.pipe_auto {
                    changed.pipe_auto = true;
                    advised.push(String::from("enlarged in use"));
                }
            }
            (Kind::CLocale, Some(stage)) if stage < changed.stages.len() && !job.script => {
                set_c_locale(&mut changed.stages[stage].launch);
                tried.push(piece.clone());
                advised.push(format!("LC_ALL=C for stage {}", stage + 1));
            }
            (Kind::ElasticBuffer, _) if !job.script => {
                buffers.extend(piece.pipe.map(|from| (from, piece)));
            }
            _ => not_tried.push(piece.text.clone()),
        }
    }
    // Last and from the right, so that all else keeps its place.
    buffers.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    for (from, piece) in buffers {
        match elastic::insert(&mut changed.stages, from) {
            Ok(()) => {
                advised.push(buffer_in(from));
                tried.push(piece.clone());
            }
            Err(why) => not_tried.push(format!("{} ({why})", piece.text)),
        }
    }
    if job.pipe_auto && !advised.iter().any(|text| text == "enlarged in use") {
        advised.push(String::from("enlarged in use"));
    }
    Applied { job: changed, advised, tried, not_tried }
}

fn set_c_locale(launch: &mut Launch) {
    match launch {
        Launch::Exec { env, .. } => env.push(("LC_ALL".into(), "C".into())),
        Launch::Shell(text) => {
            let mut with = std::ffi::OsString::from("export LC_ALL=C\n");
            with.push(&text);
            *text = with;
        }
    }
}

/// Length and sum of what a run wrote.
type Output = (u64, u64);

impl Standard {
    /// Keeps them, after a look whether the input can be read again.
    pub fn keep() -> Result<Standard, Fault> {
        check_input()?;
        let cannot = |error: Errno| Fault::failed(format!("cannot compare: {error}"));
        let keep = |fd: rustix::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        Ok(Standard {
            input_at: rustix::fs::tell(rustix::stdio::stdin()).ok(),
            output: keep(rustix::stdio::stdout()).map_err(cannot)?,
            error: keep(rustix::stdio::stderr()).map_err(cannot)?,
        })
    }

    /// Runs a job with its output into a file without a name; none if it was interrupted.
    fn run(&self, job: &Job) -> Result<Option<(f64, Output)>, Fault> {
        let cannot = |error: std::io::Error| Fault::failed(format!("cannot compare: {error}"));
        if let Some(at) = self.input_at {
            let _ = rustix::fs::seek(rustix::stdio::stdin(), rustix::fs::SeekFrom::Start(at));
        }
        let mut output = unnamed_file().map_err(cannot)?;
        let nowhere = File::options().write(true).open("/dev/null").map_err(cannot)?;
        rustix::stdio::dup2_stdout(&output).map_err(|error| cannot(error.into()))?;
        rustix::stdio::dup2_stderr(&nowhere).map_err(|error| cannot(error.into()))?;
        let mut watch = watch::Watch::new(When::Never);
        let run = runner::run(job, &mut watch);
        let _ = rustix::stdio::dup2_stdout(&self.output);
        let _ = rustix::stdio::dup2_stderr(&self.error);
        let run = run.map_err(cannot)?;
        if !run.signals.is_empty() {
            return Ok(None);
        }
        Ok(Some((wall_s(&run), sum(&mut output).map_err(cannot)?)))
    }
}

fn wall_s(run: &Run) -> f64 {
    run.wall_ns.max(1) as f64 / 1e9
}

fn unnamed_file() -> std::io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC | OFlags::APPEND;
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::open(std::env::temp_dir(), flags, mode)?.into())
}

fn sum(file: &mut File) -> std::io::Result<Output> {
    file.seek(SeekFrom::Start(0))?;
    let (mut buffer, mut bytes, mut sum) = (vec![0; 1 << 16], 0, 0);
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            return Ok((bytes, sum));
        }
        bytes += n as u64;
        // FNV-1a, which any reader can repeat.
        sum = buffer[..n]
            .iter()
            .fold(sum, |sum: u64, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}
