//! Fits the constants of the PDP-11/40 to BBN's tables 2, 3 and 4: a random walk that keeps what is better.

use weir_model::bbn::cache::Rules;
use weir_model::bbn::pipe::Test;
use weir_model::bbn::run::{Setup, run};
use weir_model::bbn::tables::{IMPROVED, STANDARD};
use weir_model::machine::Machine;
use weir_model::published::{BBN_BARE, BBN_PIPE, BBN_PORT};
use weir_policy::random::Random;

const FITTED: [&str; 14] = [
    "buffers",
    "first_block",
    "stride",
    "call",
    "port",
    "block",
    "byte",
    "disk",
    "interrupt",
    "cancel",
    "switch",
    "user",
    "check",
    "start",
];

fn rows() -> Vec<(Test, Rules, f64, f64)> {
    let (standard, improved) = (STANDARD, IMPROVED);
    let mut rows = Vec::new();
    for (text, port, headers) in
        [(BBN_PIPE, false, false), (BBN_PORT, true, true), (BBN_BARE, true, false)]
    {
        for line in text.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit())) {
            let f: Vec<f64> = line.split(',').map(|x| x.parse().unwrap_or(f64::NAN)).collect();
            let test = Test { blocks: 1000, bytes: f[0] as usize, pipe: 0, port, headers };
            match (port, headers) {
                (false, _) => {
                    rows.extend([(test, standard, f[1], f[2]), (test, improved, f[3], f[4])])
                }
                (true, true) => {
                    rows.extend([(test, standard, f[1], f[3]), (test, improved, f[4], f[6])])
                }
                _ => rows.push((test, improved, f[3], f[4])),
            }
        }
    }
    rows
}

fn loss(machine: &Machine, show: bool) -> f64 {
    let setup = Setup::of(machine).expect("a whole machine");
    if setup.buffers < 2 {
        return 1e9;
    }
    let mut sum = 0.0;
    let mut all = Vec::new();
    for (test, rules, real, sys) in rows() {
        let times = run(&setup, rules, test);
        // Readings are whole seconds.
        let off =
            |model: f64, told: f64, grain: f64| ((model - told).abs() - grain).max(0.0) / told;
        let (a, b) = (off(times.real_s, real, 0.3), off(times.system_s, sys, 0.03));
        sum += a.powf(1.5).min(0.4) + b.powf(1.5).min(0.4);
        all.push((times.real_s / real - 1.0).abs());
        all.push((times.system_s / sys - 1.0).abs());
        if show {
            println!(
                "{:5} port {} hdr {} imp {}: real {real:5} {:6.1} {:+5.1}%  sys {sys:5} {:5.1} {:+5.1}%  disk {:?}",
                test.bytes,
                test.port as u8,
                test.headers as u8,
                rules.delay as u8,
                times.real_s,
                (times.real_s / real - 1.) * 100.,
                times.system_s,
                (times.system_s / sys - 1.) * 100.,
                times.disk
            );
        }
    }
    if show {
        all.sort_by(f64::total_cmp);
        println!(
            "median {:.3} beyond 20%: {} of {}",
            all[all.len() / 2],
            all.iter().filter(|e| **e > 0.2).count(),
            all.len()
        );
    }
    sum
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(10);
    let seed: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let mut best = Machine::named("pdp11-40").expect("a machine");
    for a in std::env::args().skip(3) {
        let (k, v) = a.split_once('=').unwrap();
        best.constants.get_mut(k).unwrap().value = v.parse().unwrap();
    }
    let fixed: Vec<String> =
        std::env::args().skip(3).map(|a| a.split_once('=').unwrap().0.to_owned()).collect();
    let mut least = loss(&best, false);
    if seconds == 0 {
        let mut all: Vec<(f64, u64)> = (1..900)
            .map(|stride| {
                best.constants.get_mut("stride").expect("known").value = stride as f64;
                (loss(&best, false), stride)
            })
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        println!("{:?}", &all[..8]);
        best.constants.get_mut("stride").expect("known").value = all[0].1 as f64;
        loss(&best, true);
        return;
    }
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < seconds {
        let mut next = best.clone();
        for _ in 0..=random.below(3) {
            let name = FITTED[random.below(FITTED.len() as u64) as usize];
            if fixed.iter().any(|f| f == name) {
                continue;
            }
            let value = &mut next.constants.get_mut(name).expect("known").value;
            match name {
                "buffers" => *value = 6.0 + random.below(9) as f64,
                "first_block" => *value = random.below(4000) as f64,
                "stride" => {
                    *value = if random.once_in(3) {
                        random.below(4000) as f64
                    } else {
                        random.below(60) as f64
                    }
                }
                _ => *value *= 1.0 + random.normal() * 0.08,
            }
        }
        let now = loss(&next, false);
        if now < least {
            (best, least) = (next, now);
        }
    }
    loss(&best, true);
    println!("loss {least}");
    for name in FITTED {
        println!("{name} = {}", best.constants[name].value);
    }
}
