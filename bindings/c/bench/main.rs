//! Measures what the C boundary costs: the same loops over records of 64 bytes, in Rust and in C.
//!
//! ```text
//! cargo bench -p weir-c --bench boundary -- --pairs 30
//! ```
//!
//! It builds weir for C by `bindings/c/install`, and `worker.c` with it, linked to the shared and to
//! the static library. A round runs all sides in random order, Rust twice: the ratio of Rust to itself
//! (A/A) is what this host can resolve. Rust that calls the library with a length that is not known
//! when it is compiled is the least that a boundary costs. Ratios are of the time for a record, with 95 % intervals.

#![forbid(unsafe_code)]

mod worker;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use weir_measure::pairs::{Comparison, PairOrder};

/// The sides; the first is what the others are compared with.
const SIDES: [&str; 5] = ["Rust", "Rust again", "Rust, called", "C, shared", "C, static"];
/// How a side is timed: its number, the programs, a directory.
type Way = fn(usize, &[PathBuf], &Path) -> f64;
const IN_ONE_THREAD: u64 = 40_000_000;
const BETWEEN_TWO: u64 = 20_000_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["worker", ref work @ ..] => worker::work(work),
        ["--pairs", count] if count.parse::<usize>().is_ok_and(|count| count >= 6) => {
            bench(count.parse().unwrap_or_default());
        }
        [] => println!("boundary: nothing measured: run it with `-- --pairs 30`"),
        _ => {
            eprintln!("boundary: --pairs takes a number, at least 6");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Runs a command that must succeed. Returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().expect("the command runs");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Builds the C sides in `place`.
fn build(place: &Path) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    run(Command::new(root.join("install")).arg(place.join("weir")).env_remove("DESTDIR"));
    let compile = |name: &str, libraries: &[&str]| {
        let (program, lib) = (place.join(name), place.join("weir/lib"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c99", "-O2", "-o"]).arg(&program).arg(root.join("bench/worker.c"));
        cc.arg("-I").arg(place.join("weir/include")).arg("-L").arg(&lib);
        cc.args(libraries).arg(format!("-Wl,-rpath,{}", lib.display()));
        run(&mut cc);
        program
    };
    let rest = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    let whole: Vec<&str> = ["-l:libweir.a"].into_iter().chain(rest).collect();
    vec![compile("shared", &["-lweir"]), compile("static", &whole)]
}

fn side(side: usize, built: &[PathBuf], cpu: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpu]);
    if side < 3 {
        command.arg(std::env::current_exe().expect("this program")).arg("worker");
        command.args((side == 2).then_some("called"));
    } else {
        command.arg(&built[side - 3]);
    }
    command
}

/// The time for a record in one thread, which sends 64 and receives 64.
fn in_one_thread(number: usize, built: &[PathBuf], _: &Path) -> f64 {
    let printed = run(side(number, built, "1").args(["one", &IN_ONE_THREAD.to_string()]));
    printed.trim().parse().expect("a number")
}

/// The time for a record between two processes, on a CPU each.
fn between_two(number: usize, built: &[PathBuf], place: &Path) -> f64 {
    let (path, records) = (place.join("records"), BETWEEN_TWO.to_string());
    let mut writer = side(number, built, "0");
    let mut writer = writer.arg("write").arg(&path).arg(&records).spawn().expect("it starts");
    let printed = run(side(number, built, "1").arg("read").arg(&path).arg(&records));
    assert!(writer.wait().expect("it ends").success());
    printed.trim().parse().expect("a number")
}

fn bench(pairs: usize) {
    let place = tempfile::tempdir().expect("a directory");
    let built = build(place.path());
    let mut order = PairOrder::new(1);
    let ways: [(&str, Way); 2] = [("one thread", in_one_thread), ("two processes", between_two)];
    for (name, measure) in ways {
        let mut times = vec![[0.0; SIDES.len()]; pairs];
        for round in &mut times {
            let mut sides: [usize; SIDES.len()] = std::array::from_fn(|side| side);
            order.shuffle(&mut sides);
            for side in sides {
                round[side] = measure(side, &built, place.path());
            }
        }
        println!("{name}: records of 64 bytes, {pairs} pairs");
        for (side, title) in SIDES.iter().enumerate().skip(1) {
            let pairs: Vec<(f64, f64)> =
                times.iter().map(|round| (round[0], round[side])).collect();
            let found = Comparison::from_pairs(&pairs).expect("enough pairs");
            println!(
                "  {title:<12} {:.2} ns, Rust {:.2} ns: ratio {:.4} ({:.4} to {:.4})",
                found.b_median, found.a_median, found.ratio, found.low, found.high
            );
        }
    }
}
