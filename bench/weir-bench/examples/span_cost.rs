//! The CPU time of a span, with the profile off and on. Batches run in random order within rounds,
//! and the empty loop of the same round is subtracted from each. Shows the median and the quartiles
//! of the rounds. Usage: `span_cost [ROUNDS]`, built with `--release`.

use std::hint::black_box;
use weir_bench::engine::estimate::quantile;
use weir_measure::pairs::PairOrder;
use weir_profile::Subroutine;
use weir_sys::cpu::thread_ns;

static OUTER: Subroutine = Subroutine::new("outer");
static INNER: Subroutine = Subroutine::new("inner");
static CALL: Subroutine = Subroutine::new("call");

/// A batch: its name, whether the profile is on, how many turns, and what each turn does.
type Case = (&'static str, bool, u64, fn(u64) -> u64);

const CASES: [Case; 11] = [
    ("empty loop", false, 4_000_000, |turn| turn),
    ("span, off", false, 4_000_000, span),
    ("two spans, one in the other, off", false, 4_000_000, spans),
    ("system(), off", false, 4_000_000, system),
    ("wait(), off", false, 4_000_000, wait),
    ("span, on", true, 400_000, span),
    ("two spans, one in the other, on", true, 400_000, spans),
    ("system(), on", true, 400_000, system),
    ("wait(), on", true, 40_000, wait),
    ("a look at the CPU clock", false, 40_000, |turn| turn ^ thread_ns()),
    ("two looks at the counter", false, 400_000, |turn| {
        COUNTER.with(|it| it.raw() ^ it.raw() ^ turn)
    }),
];

thread_local!(static COUNTER: quanta::Clock = quanta::Clock::new());

fn span(turn: u64) -> u64 {
    let _span = INNER.enter();
    black_box(turn)
}

fn spans(turn: u64) -> u64 {
    let _span = OUTER.enter();
    span(turn)
}

fn system(turn: u64) -> u64 {
    weir_profile::system(&CALL, || black_box(turn))
}

fn wait(turn: u64) -> u64 {
    weir_profile::wait(&CALL, || black_box(turn))
}

fn main() -> std::io::Result<()> {
    let rounds = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100);
    let mut order = PairOrder::new(1);
    let mut values = vec![Vec::new(); CASES.len()];
    for _ in 0..rounds {
        let mut round: Vec<usize> = (0..CASES.len()).collect();
        order.shuffle(&mut round);
        for case in round {
            let (_, on, turns, body) = CASES[case];
            weir_profile::switch(on)?;
            values[case].push(batch(turns, body));
        }
    }
    for (case, (name, ..)) in CASES.iter().enumerate() {
        let less = |(ns, empty): (&f64, &f64)| if case == 0 { *ns } else { ns - empty };
        let ns: Vec<f64> = values[case].iter().zip(&values[0]).map(less).collect();
        let at = |share| quantile(&ns, share);
        println!("{name:34} {:8.2} ns ({:.2} to {:.2})", at(0.5), at(0.25), at(0.75));
    }
    Ok(())
}

/// Returns the CPU time of one turn, in nanoseconds.
fn batch(turns: u64, body: fn(u64) -> u64) -> f64 {
    let begun_ns = thread_ns();
    for turn in 0..turns {
        black_box(body(black_box(turn)));
    }
    (thread_ns() - begun_ns) as f64 / turns as f64
}
