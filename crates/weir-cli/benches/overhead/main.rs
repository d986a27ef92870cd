//! What does measuring cost? Whole-process pairs of `bash -c TEXT` and `weir run TEXT`.
//!
//!     cargo bench -p weir-cli --bench overhead -- [--pairs 25] [--seconds 1.5] [--only NAME]
//!
//! Three pipelines over data made here, sized so that bash needs the given time on this host. A
//! round runs, in random order: bash, bash again (the A/A comparison), weir with its defaults,
//! and weir with 64 KiB pipes as bash has them (so that only the measuring differs). A pair is
//! two halves of one round. Both must print the same bytes, or nothing is timed.

mod workloads;

use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;
use weir_measure::pairs::{Comparison, PairOrder, Verdict};
use workloads::Workload;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// A difference within this band does not matter.
const BAND: f64 = 0.02;

/// The halves of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Bash,
    BashAgain,
    Weir,
    WeirSmallPipes,
}

const ROUND: [Half; 4] = [Half::Bash, Half::BashAgain, Half::Weir, Half::WeirSmallPipes];

/// What the command line asks for.
struct Options {
    pairs: usize,
    seconds: f64,
    only: Option<String>,
}

fn main() -> std::process::ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(fault) => {
            eprintln!("overhead: {fault}");
            return std::process::ExitCode::from(2);
        }
    };
    let directory = match tempfile::tempdir() {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("overhead: cannot make a directory for data: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    println!("{}\n", host());
    println!("| pipeline | against `bash -c` | bash, median | ratio | 95 % interval | verdict |");
    println!("|---|---|---|---|---|---|");
    let mut peak_bytes = 0;
    for workload in workloads::all(directory.path()) {
        if options.only.as_ref().is_some_and(|only| *only != workload.name) {
            continue;
        }
        match measure(&workload, &options) {
            Ok(peak) => peak_bytes = peak.max(peak_bytes),
            Err(fault) => println!("| {} | not measured: {fault} | | | | |", workload.name),
        }
    }
    println!(
        "\n{} pairs a row; equivalent means the whole interval lies within {} %.",
        options.pairs,
        BAND * 100.0
    );
    println!("weir's own peak memory: {:.1} MB.", peak_bytes as f64 / 1e6);
    std::process::ExitCode::SUCCESS
}

fn options() -> Result<Options, String> {
    let mut options = Options { pairs: 25, seconds: 1.5, only: None };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            // What cargo itself passes on.
            "--bench" => {}
            "--pairs" => options.pairs = value()?.parse().map_err(|_| "--pairs: not a number")?,
            "--seconds" => {
                options.seconds = value()?.parse().map_err(|_| "--seconds: not a number")?
            }
            "--only" => options.only = Some(value()?),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(options)
}

/// Runs all rounds of one pipeline and prints its rows; returns weir's peak memory.
fn measure(workload: &Workload, options: &Options) -> Result<u64, String> {
    progress(&format!("{}: making data", workload.name));
    let text = workload.prepare(options.seconds, &|text| run(Half::Bash, text).map(|(s, _)| s))?;
    let (_, expected) = run(Half::Bash, &text)?;
    let (_, found) = run(Half::Weir, &text)?;
    if expected != found {
        return Err(String::from("weir printed other bytes than bash"));
    }
    let mut order = PairOrder::new(0x0ff);
    let mut times: Vec<[f64; 4]> = Vec::new();
    for round in 0..options.pairs {
        progress(&format!("{}: round {} of {}", workload.name, round + 1, options.pairs));
        let mut halves = ROUND;
        order.shuffle(&mut halves);
        let mut took = [0.0; 4];
        for half in halves {
            took[half as usize] = run(half, &text)?.0;
        }
        times.push(took);
    }
    progress("");
    rows(workload, &times);
    peak_bytes(&text)
}

fn rows(workload: &Workload, times: &[[f64; 4]]) {
    let name = workload.name;
    let rows = [
        (Half::Weir, "weir run"),
        (Half::WeirSmallPipes, "weir run --pipe-size 64K"),
        (Half::BashAgain, "bash again (A/A)"),
    ];
    for (half, what) in rows {
        let pairs: Vec<(f64, f64)> =
            times.iter().map(|took| (took[Half::Bash as usize], took[half as usize])).collect();
        match Comparison::from_pairs(&pairs) {
            Ok(comparison) => {
                let Comparison { ratio, low, high, a_median, .. } = comparison;
                let verdict = match (half, comparison.verdict(BAND)) {
                    (Half::BashAgain, _) => {
                        format!("resolves {:.1} %", comparison.resolution().fraction * 100.0)
                    }
                    (_, Verdict::Inconclusive) => String::from("no difference shown"),
                    (_, verdict) => verdict.to_string(),
                };
                println!(
                    "| {name} | {what} | {a_median:.2} s | {ratio:.3} | {low:.3} to {high:.3} | {verdict} |"
                );
            }
            Err(error) => println!("| {name} | {what} | | | | {error} |"),
        }
    }
    let _ = std::io::stdout().flush();
}

/// Runs one half: seconds and a checksum of what it printed.
fn run(half: Half, text: &str) -> Result<(f64, u64), String> {
    let mut command = match half {
        Half::Bash | Half::BashAgain => {
            let mut bash = Command::new("bash");
            bash.args(["-c", text]);
            bash
        }
        Half::Weir | Half::WeirSmallPipes => {
            let mut weir = Command::new(WEIR);
            weir.args(["run", "--quiet"]);
            if half == Half::WeirSmallPipes {
                weir.args(["--pipe-size", "64K"]);
            }
            weir.arg(text);
            weir
        }
    };
    let start = Instant::now();
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("{half:?} ended with {}: {said}", output.status));
    }
    Ok((seconds, checksum(&output.stdout)))
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Peak memory of weir, from its own report of one more run.
fn peak_bytes(text: &str) -> Result<u64, String> {
    let output = Command::new(WEIR)
        .args(["run", "--quiet", "--json", "/dev/stderr", text])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| error.to_string())?;
    let report: serde_json::Value =
        serde_json::from_slice(&output.stderr).map_err(|error| error.to_string())?;
    Ok(report["weir"]["max_rss_bytes"].as_u64().unwrap_or(0))
}

fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}

/// One line on the machine: kernel, CPU, number of CPUs, date.
fn host() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": ?");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let date = date.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    let cpus = weir_measure::machine::usable_cpus();
    format!("Linux {kernel}, {model}, {cpus} CPUs, {}", date.unwrap_or_default())
}
