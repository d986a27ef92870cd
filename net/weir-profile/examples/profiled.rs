//! A program with a profile of a known structure: publish it, observe it, ask it for its own.
//!
//! `profiled FILE THREADS` publishes to FILE and waits for lines: `ROUNDS`, which all threads then
//! do, or nothing (end of input), at which it ends. A round is 3 checks of 8 words within a packet,
//! one write to /dev/null, and a wait. `profiled` alone does 100,000 rounds and prints its report.

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_profile::Subroutine;

static PACKET: Subroutine = Subroutine::new("packet");
static CHECK: Subroutine = Subroutine::new("check");
static WRITE: Subroutine = Subroutine::new("write");
static READ: Subroutine = Subroutine::new("read");
static LISTEN: Subroutine = Subroutine::new("listen");

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), threads) = (arguments.next(), arguments.next()) else {
        weir_profile::switch(true)?;
        rounds(100_000, &mut File::create("/dev/null")?)?;
        weir_profile::switch(false)?;
        print!("{}", weir_profile::report().expect("it was on").per(100_000, "packet"));
        return Ok(());
    };
    let threads = threads.and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let _published = weir_profile::publish(Path::new(&path), "profiled")?;
    let (done, all_done) = channel();
    let workers: Vec<Sender<u64>> = (0..threads).map(|_| worker(done.clone())).collect();
    say("ready")?;
    let mut input = std::io::stdin().lock();
    loop {
        let mut line = String::new();
        // The time until a line comes is counted as waiting.
        if weir_profile::wait(&LISTEN, || input.read_line(&mut line))? == 0 {
            return Ok(());
        }
        let count = line.trim().parse().expect("a number of rounds");
        workers.iter().for_each(|worker| worker.send(count).expect("it lives"));
        workers.iter().for_each(|_| all_done.recv().expect("they live"));
        say("done")?;
    }
}

fn say(word: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{word}")?;
    output.flush()
}

/// Starts a thread that does the rounds it is sent.
fn worker(done: Sender<()>) -> Sender<u64> {
    let (tell, told): (Sender<u64>, Receiver<u64>) = channel();
    std::thread::spawn(move || {
        let mut null = File::create("/dev/null").expect("opened");
        for count in told {
            rounds(count, &mut null).expect("written");
            done.send(()).expect("somebody waits");
        }
    });
    tell
}

fn rounds(count: u64, null: &mut File) -> std::io::Result<()> {
    let mut zero = File::open("/dev/zero")?;
    for round in 0..count {
        let _packet = PACKET.enter();
        let mut word = [0; 8];
        for part in 0..3 {
            let sum = CHECK.run(|| (0..8).fold(round, |sum, at| (sum ^ at).rotate_left(part + 1)));
            word = std::hint::black_box(sum).to_ne_bytes();
        }
        weir_profile::system(&WRITE, || null.write_all(&word))?;
        weir_profile::wait(&READ, || zero.read_exact(&mut word))?;
    }
    Ok(())
}
