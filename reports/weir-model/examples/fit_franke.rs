//! Fits the costs of the two-way Pentium II to Franke's table, by sign and rank.

use weir_model::franke::run;
use weir_model::machine::Machine;
use weir_model::outcome::rank_correlation;
use weir_policy::random::Random;

const FITTED: [&str; 8] =
    ["call", "lock", "wake", "switch", "rouse", "byte", "remote_byte", "grep_byte"];

fn score(machine: &Machine) -> f64 {
    let outcome = run(machine).expect("a whole machine");
    let mut sum = 0.0;
    let (mut right, mut clear) = (0.0, 0.0);
    for benchmark in ["grep", "lmbench", "pipeflex"] {
        let cells = outcome.cells.iter().filter(|cell| cell.row.starts_with(benchmark));
        let pairs: Vec<(f64, f64)> =
            cells.filter_map(|cell| Some((cell.published?, cell.model))).collect();
        sum += rank_correlation(&pairs);
        for (told, model) in pairs.iter().filter(|(told, _)| told.abs() > 5.0) {
            clear += 1.0;
            right += f64::from(told.signum() == model.signum());
        }
    }
    sum / 3.0 + 2.0 * right / clear
}

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(10);
    let seed = std::env::args().nth(2).and_then(|word| word.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let mut best = Machine::named("pentium2-2way").expect("a machine");
    let mut most = score(&best);
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < seconds {
        let mut next = best.clone();
        for _ in 0..=random.below(3) {
            let name = FITTED[random.below(FITTED.len() as u64) as usize];
            let value = &mut next.constants.get_mut(name).expect("known").value;
            *value *= (1.0 + random.normal() * 0.4).clamp(0.3, 3.0);
        }
        let now = score(&next);
        if now > most {
            (best, most) = (next, now);
        }
    }
    println!("score {most}\n{}", run(&best).expect("a whole machine").score());
    for name in FITTED {
        println!("{name} = {}", best.constants[name].value);
    }
}
