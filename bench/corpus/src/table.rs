//! The results as Markdown.

use crate::pairs::{Followed, Overhead};
use crate::results::Results;
use crate::truth::{Answer, Truth};
use std::fmt::Write;
use weir_measure::pairs::Comparison;

/// All tables for which there are results.
pub fn all(results: &Results) -> String {
    let mut text = String::new();
    if !results.truths.is_empty() {
        truth(&mut text, &results.truths);
    }
    if !results.overheads.is_empty() {
        overhead(&mut text, &results.overheads);
    }
    if !results.koala.is_empty() {
        overhead(&mut text, &results.koala);
    }
    if !results.followed.is_empty() {
        advice(&mut text, &results.followed);
    }
    text
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A stage by number and program.
fn stage(truth: &Truth, at: usize) -> String {
    let Some(stage) = truth.stages.get(at) else { return String::from("server") };
    format!("{} {}", at + 1, stage.text.split_whitespace().next().unwrap_or(""))
}

fn truth(text: &mut String, truths: &[Truth]) {
    let _ = writeln!(
        text,
        "| pipeline | field | alone, s | slowed: cost | experiment | weir | agrees |\n\
         |---|---|---|---|---|---|---|"
    );
    let (mut told, mut agreed, mut contradict, mut equal) = (0, 0, 0, 0);
    let mut misses = Vec::new();
    for truth in truths {
        let alone: Vec<String> = truth.alone().iter().map(|s| format!("{s:.2}")).collect();
        let spoiled = |at: usize| truth.stages.get(at).is_some_and(|stage| stage.spoiled);
        let cost = |(at, cost): (usize, &f64)| match spoiled(at) {
            true => String::from("fails"),
            false => format!("{:.0}", 100.0 * cost.max(0.0)),
        };
        let costs: Vec<String> = truth.costs().iter().enumerate().map(cost).collect();
        let mark = if truth.by_slowing() == Answer::Unfit { " (unfit)" } else { "" };
        let answer = truth.answer();
        let shown = match answer {
            Answer::Stage(at) => stage(truth, at),
            Answer::Equal => String::from("no single one"),
            Answer::Unfit => String::from("cannot tell"),
        };
        let (said, times) = truth.verdict().unwrap_or((None, 0));
        let weir = said.map_or(String::from("no single one"), |at| stage(truth, at));
        let often = format!("{weir} ({times}/{})", truth.verdicts.len());
        let agrees = match answer {
            Answer::Stage(at) => {
                told += 1;
                agreed += usize::from(said == Some(at));
                if said == Some(at) { "yes" } else { "**no**" }
            }
            Answer::Equal => {
                equal += 1;
                "-"
            }
            Answer::Unfit => {
                contradict += 1;
                "-"
            }
        };
        if agrees == "**no**" {
            misses.push(truth.name.as_str());
        }
        let _ = writeln!(
            text,
            "| {} | {} | {} | {}{mark} | {} | {} | {agrees} |",
            truth.name,
            truth.field,
            alone.join(" "),
            costs.join(" "),
            cell(&shown),
            cell(&often),
        );
    }
    let share = 100.0 * agreed as f64 / f64::max(told as f64, 1.0);
    let _ = writeln!(
        text,
        "\n{} pipelines. In {told} the experiments tell the first two stages apart; weir names the \
         same stage in {agreed} of these ({share:.0} %). In {equal} they find no single stage, in \
         {contradict} they contradict each other or do not apply.",
        truths.len()
    );
    if !misses.is_empty() {
        let _ = writeln!(text, "\nMisses: {}.", misses.join(", "));
    }
    let wrong: Vec<&str> =
        truths.iter().filter(|truth| !truth.same_output).map(|truth| truth.name.as_str()).collect();
    let _ = match wrong.is_empty() {
        true => writeln!(text, "\nEvery run wrote the same bytes as bash."),
        false => writeln!(text, "\nNOT the same bytes as bash: {}.", wrong.join(", ")),
    };
    slices(text, truths);
}

/// What the slow-downs were like.
fn slices(text: &mut String, truths: &[Truth]) {
    let stops = truths.iter().flat_map(|truth| truth.stages.iter().map(|stage| stage.stops));
    let stops: Vec<_> = stops.collect();
    let count = stops.len().max(1) as f64;
    let share = stops.iter().map(|stops| stops.share).sum::<f64>() / count;
    let mean_us = stops.iter().map(|stops| stops.mean_us).sum::<f64>() / count;
    let p99_us = stops.iter().map(|stops| stops.p99_us).fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "\nThe slices: {mean_us:.0} us on average, {:.0} % of the time; in the worst run one in a \
         hundred was longer than {p99_us:.0} us.",
        100.0 * share
    );
}

fn compared(a: &[f64], b: &[f64]) -> Option<Comparison> {
    let pairs: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).collect();
    Comparison::from_pairs(&pairs).ok()
}

/// The geometric mean of ratios over pipelines, with its 95 % interval from the spread of the
/// rounds of each pipeline.
fn mean_ratio(pairs: &[(&[f64], &[f64])]) -> (f64, f64, f64) {
    let (mut sum, mut variance) = (0.0, 0.0);
    for (a, b) in pairs {
        let logs: Vec<f64> = a.iter().zip(*b).map(|(a, b)| b.ln() - a.ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        sum += mean;
        // One round has no spread.
        let n = logs.len().max(2) as f64;
        variance += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n;
    }
    let count = pairs.len().max(1) as f64;
    let (mean, half) = (sum / count, 1.96 * variance.sqrt() / count);
    (mean.exp(), (mean - half).exp(), (mean + half).exp())
}

/// The times of one way to run a pipeline.
type Times = fn(&Overhead) -> &[f64];

fn overhead(text: &mut String, all: &[Overhead]) {
    let _ = writeln!(
        text,
        "\n| pipeline | bash, s | weir / bash | 95 % | weir, 64 KiB pipes / bash | 95 % | bash / bash | same bytes |\n\
         |---|--:|--:|---|--:|---|--:|---|"
    );
    for one in all {
        let show = |other: &[f64]| match compared(&one.bash_s, other) {
            Some(found) => format!("{:.3} | {:.3} to {:.3}", found.ratio, found.low, found.high),
            None => String::from("| "),
        };
        let median = weir_measure::pairs::quantile(&one.bash_s, 0.5);
        let same = if one.same { "yes" } else { "**no**" };
        let (weir, small) = (show(&one.weir_s), show(&one.small_s));
        let again = compared(&one.bash_s, &one.again_s);
        let again = again.map_or(String::new(), |found| format!("{:.3}", found.ratio));
        let _ =
            writeln!(text, "| {} | {median:.2} | {weir} | {small} | {again} | {same} |", one.name);
    }
    let of: [(&str, Times); 3] = [
        ("weir with its own pipes", |one| &one.weir_s),
        ("weir with pipes as small as bash's", |one| &one.small_s),
        ("bash once more", |one| &one.again_s),
    ];
    for (what, other) in of {
        let pairs: Vec<(&[f64], &[f64])> = all
            .iter()
            .map(|one| (&one.bash_s[..], other(one)))
            .filter(|(_, other)| !other.is_empty())
            .collect();
        // Koala's scripts run by bash once, and by weir.
        if pairs.is_empty() {
            continue;
        }
        let (mean, low, high) = mean_ratio(&pairs);
        let _ = writeln!(
            text,
            "\nGeometric mean over {} pipelines, {what}: {mean:.3} ({low:.3} to {high:.3}).",
            pairs.len()
        );
    }
}

fn advice(text: &mut String, all: &[Followed]) {
    let _ = writeln!(
        text,
        "\n| pipeline | advice | promised | gain | 95 % | within | same bytes | command |\n\
         |---|---|--:|--:|---|---|---|---|"
    );
    for one in all {
        let promised = match (one.promised, one.bound) {
            (Some(factor), true) => format!("at most {factor:.2}"),
            (Some(factor), false) => format!("perhaps {factor:.2}"),
            (None, _) => String::from("not given"),
        };
        let found = compared(&one.after_s, &one.before_s);
        let shown = found.map_or(String::from("| "), |found| {
            format!("{:.2} | {:.2} to {:.2}", found.ratio, found.low, found.high)
        });
        let within = match (found, one.promised) {
            (Some(found), Some(factor)) if one.bound && found.low > factor => "**over**",
            (Some(found), _) if found.low > 1.0 => "yes",
            (Some(_), _) => "no gain shown",
            (None, _) => "not tried",
        };
        let same = if one.same { "yes" } else { "**no**" };
        let after =
            one.after.as_deref().map_or(String::new(), |after| format!("`{}`", cell(after)));
        let _ = writeln!(
            text,
            "| {} | {} | {promised} | {shown} | {within} | {same} | {after} |",
            one.name, one.kind
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        let (one, two, half) = ([1.0; 6], [2.0; 6], [0.5; 6]);
        let (mean, low, high) = mean_ratio(&[(&one, &two), (&one, &half)]);
        assert!((mean - 1.0).abs() < 1e-9 && (low - 1.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9);
    }

    /// Where bash had not run once more, the mean over 0 pipelines was 1.000 (1.000 to 1.000).
    #[test]
    fn there_is_no_mean_of_nothing() {
        let two = || vec![1.0, 1.0];
        let one = Overhead {
            part: String::new(),
            name: String::new(),
            bash_s: two(),
            weir_s: two(),
            small_s: two(),
            again_s: Vec::new(),
            same: true,
        };
        let mut text = String::new();
        overhead(&mut text, &[one]);
        assert_eq!(text.matches("Geometric mean over 1 pipelines").count(), 2, "{text}");
        assert!(!text.contains("over 0"), "{text}");
    }

    /// With `--rounds 1` four times as long was twice as long.
    #[test]
    fn a_single_round_is_its_own_mean() {
        let (mean, ..) = mean_ratio(&[(&[1.0], &[4.0])]);
        assert!((mean - 4.0).abs() < 1e-9, "{mean}");
    }
}
