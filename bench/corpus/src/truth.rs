//! The truth about a pipeline by two experiments, and weir's verdict beside it.

use crate::corpus::{Pipeline, text};
use crate::run::Place;
use crate::slow::{SLICE, Stops, Target, slowed};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Stdio;
use weir_measure::pairs::{Comparison, PairOrder, quantile};

/// The capacity of pipes between stages, which is weir's.
const PIPE_BYTES: usize = 256 << 10;
/// And where slices would be too long for these.
const LARGE_PIPE_BYTES: usize = 1 << 20;
/// What a pipe holds must last this many times a slice.
const LASTS: f64 = 2.0;
/// Each stage runs alone this often.
const ALONE_RUNS: usize = 3;
/// weir judges this often.
const VERDICTS: usize = 3;
/// Stages whose costs differ by less than this share of the run count as equal, as they do for weir.
const MARGIN: f64 = 0.10;
/// A stage that costs the whole less than this share of its own slow-down is not a bottleneck.
const SOME: f64 = 0.25;

/// What is known about a stage.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StageTruth {
    pub text: String,
    pub alone_s: Vec<f64>,
    /// CPU time of a run alone.
    pub alone_cpu_s: f64,
    /// Wall times of the whole while this stage was slowed down, one a round.
    pub slowed_s: Vec<f64>,
    pub stops: Stops,
    /// Whether the pipeline wrote other bytes while this stage was stopped and continued: a program
    /// that takes a write that a signal cut short for an error cannot be slowed down like this.
    #[serde(default)]
    pub spoiled: bool,
}

/// What is known about a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Truth {
    pub part: String,
    pub name: String,
    pub field: String,
    pub stages: Vec<StageTruth>,
    /// The server outside the pipeline, if it has one.
    pub outside: Option<StageTruth>,
    /// Wall times of the whole while nobody was slowed down, one a round.
    pub plain_s: Vec<f64>,
    pub pipe_bytes: usize,
    /// How long what a pipe holds lasts its reader, in milliseconds.
    pub lasts_ms: Vec<f64>,
    pub cpus: f64,
    pub verdicts: Vec<Said>,
    pub same_output: bool,
}

/// A verdict of weir.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Said {
    /// From 1; none where no single stage was named.
    pub stage: Option<usize>,
    pub reason: Option<String>,
    pub text: String,
}

/// Measures a pipeline.
pub fn measure(
    pipeline: &Pipeline,
    place: &Place,
    weir: &Path,
    rounds: usize,
    server: Option<u32>,
) -> Result<Truth, String> {
    let whole = text(&pipeline.stages);
    let bash = place.whole(Path::new("bash"), &["-c", &whole])?;
    let (stages, sizes) = alone(pipeline, place)?;
    let lasts = |pipe_bytes: usize| -> Vec<f64> {
        let ms = |bytes: &u64| pipe_bytes as f64 / (*bytes).max(1) as f64 * bash.wall_s * 1e3;
        sizes.iter().map(ms).collect()
    };
    let needs_ms = LASTS * SLICE.as_secs_f64() * 1e3;
    let small = lasts(PIPE_BYTES).iter().all(|ms| *ms >= needs_ms);
    let pipe_bytes = if small { PIPE_BYTES } else { LARGE_PIPE_BYTES };
    let mut truth = Truth {
        part: String::from("truth"),
        name: pipeline.name.clone(),
        field: pipeline.field.clone(),
        stages,
        outside: server.map(|_| StageTruth::default()),
        plain_s: Vec::new(),
        pipe_bytes,
        lasts_ms: lasts(pipe_bytes),
        cpus: weir_measure::machine::usable_cpus(),
        verdicts: Vec::new(),
        same_output: true,
    };
    slow_each(pipeline, place, rounds, server, bash.output, &mut truth)?;
    for _ in 0..VERDICTS {
        let (said, output) = verdict(place, weir, &whole)?;
        truth.same_output &= output == bash.output;
        truth.verdicts.push(said);
    }
    Ok(truth)
}

/// Runs each stage alone; returns what is known of each, and the sizes of what went between them.
fn alone(pipeline: &Pipeline, place: &Place) -> Result<(Vec<StageTruth>, Vec<u64>), String> {
    let file = |at: usize| place.data.join(format!("stage-{at}.in"));
    for at in 1..pipeline.stages.len() {
        let mut command = place.command(Path::new("bash"));
        let output = std::fs::File::create(file(at)).map_err(|error| error.to_string())?;
        command.arg("-c").arg(&pipeline.stages[at - 1]).stdout(output);
        if at > 1 {
            let input = std::fs::File::open(file(at - 1)).map_err(|error| error.to_string())?;
            command.stdin(Stdio::from(input));
        }
        command.status().map_err(|error| error.to_string())?;
    }
    let mut stages = Vec::new();
    for (at, stage) in pipeline.stages.iter().enumerate() {
        let input = (at > 0).then(|| file(at));
        let mut truth = StageTruth { text: stage.clone(), ..StageTruth::default() };
        let used_s = children_cpu_s();
        for _ in 0..ALONE_RUNS {
            truth.alone_s.push(place.alone(stage, input.as_deref())?);
        }
        truth.alone_cpu_s = (children_cpu_s() - used_s) / ALONE_RUNS as f64;
        stages.push(truth);
    }
    let mut sizes = Vec::new();
    for at in 1..pipeline.stages.len() {
        sizes.push(std::fs::metadata(file(at)).map_or(0, |found| found.len()));
        let _ = std::fs::remove_file(file(at));
    }
    Ok((stages, sizes))
}

/// CPU time of all children that were waited for, by the kernel's ticks.
fn children_cpu_s() -> f64 {
    const TICKS_A_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks =
        rest.split_whitespace().skip(13).take(2).filter_map(|word| word.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_A_SECOND
}

fn slow_each(
    pipeline: &Pipeline,
    place: &Place,
    rounds: usize,
    server: Option<u32>,
    output: (u64, u64),
    truth: &mut Truth,
) -> Result<(), String> {
    let mut order = PairOrder::new(1978);
    for _ in 0..rounds {
        let mut round: Vec<Target> = (0..pipeline.stages.len()).map(Target::Stage).collect();
        round.push(Target::Nobody);
        round.extend(server.map(Target::Below));
        order.shuffle(&mut round);
        for target in round {
            let running = place.start(&pipeline.stages, truth.pipe_bytes)?;
            let (wall_s, found, stops) = slowed(running, target)?;
            let stage = match target {
                Target::Nobody => {
                    truth.same_output &= found == output;
                    truth.plain_s.push(wall_s);
                    continue;
                }
                Target::Stage(at) => &mut truth.stages[at],
                Target::Below(_) => truth.outside.as_mut().ok_or("no server")?,
            };
            stage.spoiled |= found != output;
            stage.slowed_s.push(wall_s);
            let sum = |total: f64, one: f64| total + one / rounds as f64;
            stage.stops = Stops {
                share: sum(stage.stops.share, stops.share),
                mean_us: sum(stage.stops.mean_us, stops.mean_us),
                p99_us: stage.stops.p99_us.max(stops.p99_us),
            };
        }
    }
    Ok(())
}

/// Runs a text under weir; returns its report too.
pub fn reported(
    place: &Place,
    weir: &Path,
    text: &str,
) -> Result<(serde_json::Value, (u64, u64)), String> {
    let report = place.data.join("report.json");
    let path = report.to_string_lossy();
    let run = place.whole(weir, &["run", "--quiet", "--json", &path, text])?;
    let read = std::fs::read(&report).map_err(|error| format!("no report: {error}"))?;
    let value = serde_json::from_slice(&read).map_err(|error| format!("no report: {error}"))?;
    Ok((value, run.output))
}

fn verdict(place: &Place, weir: &Path, text: &str) -> Result<(Said, (u64, u64)), String> {
    let (report, output) = reported(place, weir, text)?;
    let verdict = &report["verdict"];
    let said = Said {
        stage: verdict["stage"].as_u64().map(|stage| stage as usize),
        reason: verdict["reason"].as_str().map(str::to_owned),
        text: verdict["text"].as_str().unwrap_or_default().to_owned(),
    };
    Ok((said, output))
}

/// What an experiment says of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The stage at this position, or the server behind it, holds the pipeline up.
    Stage(usize),
    /// It cannot tell the first two apart.
    Equal,
    /// It does not apply.
    Unfit,
}

impl Truth {
    /// The time of each stage alone: the shortest of its runs.
    pub fn alone(&self) -> Vec<f64> {
        let shortest = |stage: &StageTruth| stage.alone_s.iter().copied().fold(f64::MAX, f64::min);
        self.stages.iter().map(shortest).collect()
    }

    /// The stage that takes longest alone, where the CPUs suffice.
    pub fn by_alone(&self) -> Answer {
        let alone = self.alone();
        let Some((top, second)) = first_two(&alone) else { return Answer::Unfit };
        let cpu_s: f64 = self.stages.iter().map(|stage| stage.alone_cpu_s).sum();
        if self.outside.is_some() || alone[top] < cpu_s / self.cpus {
            return Answer::Unfit;
        }
        let apart = alone[top] * (1.0 - MARGIN) > alone[second];
        if apart { Answer::Stage(top) } else { Answer::Equal }
    }

    /// Of its own slow-down, the share that each stage costs the whole, and the server last.
    pub fn costs(&self) -> Vec<f64> {
        let cost = |stage: &StageTruth| {
            let pairs = self.plain_s.iter().zip(&stage.slowed_s);
            let ratios: Vec<f64> = pairs.map(|(plain, slowed)| slowed / plain).collect();
            let own = 1.0 / (1.0 - stage.stops.share.min(0.9)) - 1.0;
            (quantile(&ratios, 0.5) - 1.0) / own.max(0.01)
        };
        self.stages.iter().chain(&self.outside).map(cost).collect()
    }

    /// Whether what the pipes held lasted longer than a slice.
    pub fn slices_are_short(&self) -> bool {
        let stages = self.stages.iter().chain(&self.outside);
        let longest_ms = stages.map(|stage| stage.stops.mean_us / 1e3).fold(0.0, f64::max);
        self.lasts_ms.iter().all(|ms| *ms >= LASTS * longest_ms)
    }

    /// The stage whose slow-down costs the most.
    pub fn by_slowing(&self) -> Answer {
        let costs = self.costs();
        let spoiled = self.stages.iter().chain(&self.outside).any(|stage| stage.spoiled);
        if spoiled || !self.slices_are_short() {
            return Answer::Unfit;
        }
        let Some((top, second)) = first_two(&costs) else { return Answer::Unfit };
        let all: Vec<&StageTruth> = self.stages.iter().chain(&self.outside).collect();
        let slowed = all[second].slowed_s.iter().copied().zip(all[top].slowed_s.iter().copied());
        let apart = Comparison::from_pairs(&slowed.collect::<Vec<_>>());
        let apart = apart.is_ok_and(|found| found.low > 1.0);
        if apart && costs[top] >= SOME && costs[top] - costs[second] > MARGIN {
            // The server is behind the first stage.
            return Answer::Stage(if top < self.stages.len() { top } else { 0 });
        }
        Answer::Equal
    }

    /// What both say together: the slow-down of the whole where it tells, else the stages alone if
    /// slowing that stage costs the most too, or if slowing does not apply; nothing where they
    /// contradict each other.
    pub fn answer(&self) -> Answer {
        match (self.by_slowing(), self.by_alone()) {
            (Answer::Stage(one), Answer::Stage(other)) if one != other => Answer::Unfit,
            (Answer::Unfit, alone) => alone,
            (Answer::Equal, Answer::Stage(alone))
                if first_two(&self.costs()).is_some_and(|(top, _)| top == alone) =>
            {
                Answer::Stage(alone)
            }
            (slowing, _) => slowing,
        }
    }

    /// The verdict that weir gave most often (the first of equals), from 0, and how often.
    pub fn verdict(&self) -> Option<(Option<usize>, usize)> {
        let count =
            |stage: Option<usize>| self.verdicts.iter().filter(|said| said.stage == stage).count();
        let most = self.verdicts.iter().map(|said| count(said.stage)).max()?;
        let said = self.verdicts.iter().find(|said| count(said.stage) == most)?;
        Some((said.stage.map(|stage| stage - 1), most))
    }
}

/// The positions of the largest and the second largest.
fn first_two(values: &[f64]) -> Option<(usize, usize)> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    Some((*order.first()?, *order.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(alone: [f64; 2], slowed: [f64; 2]) -> Truth {
        let stops = Stops { share: 0.2, mean_us: 200.0, p99_us: 300.0 };
        let stage = |at: usize| StageTruth {
            text: String::new(),
            alone_s: vec![alone[at]; 3],
            alone_cpu_s: alone[at],
            slowed_s: (0..8).map(|n| slowed[at] + f64::from(n) / 1e3).collect(),
            stops,
            spoiled: false,
        };
        Truth {
            part: String::new(),
            name: String::new(),
            field: String::new(),
            stages: vec![stage(0), stage(1)],
            outside: None,
            plain_s: vec![1.0; 8],
            pipe_bytes: PIPE_BYTES,
            lasts_ms: vec![1.0],
            cpus: 2.0,
            verdicts: Vec::new(),
            same_output: true,
        }
    }

    #[test]
    fn the_stage_whose_slowing_costs_most_is_the_answer() {
        let clear = truth([0.9, 0.3], [1.25, 1.02]);
        assert_eq!(clear.answer(), Answer::Stage(0));
        assert!((clear.costs()[0] - 1.0).abs() < 0.05);
        assert_eq!(truth([0.9, 0.88], [1.25, 1.24]).answer(), Answer::Equal);
        assert_eq!(truth([0.9, 0.3], [1.02, 1.25]).answer(), Answer::Unfit, "they contradict");
        let mut noisy = truth([0.9, 0.3], [1.25, 1.02]);
        noisy.stages[1].slowed_s[0] = 2.0;
        noisy.stages[1].slowed_s[1] = 2.0;
        assert_eq!(noisy.by_slowing(), Answer::Equal);
        assert_eq!(noisy.answer(), Answer::Stage(0), "the stages alone tell, and the order agrees");
    }

    #[test]
    fn slices_longer_than_the_pipes_last_say_nothing() {
        let mut long = truth([0.9, 0.3], [1.02, 1.25]);
        long.lasts_ms = vec![0.3];
        assert_eq!(long.by_slowing(), Answer::Unfit);
        assert_eq!(long.answer(), Answer::Stage(0), "the stages alone still say it");
    }

    #[test]
    fn without_cpus_enough_a_stage_alone_says_nothing() {
        let mut crowded = truth([0.9, 0.3], [1.25, 1.02]);
        crowded.cpus = 1.0;
        assert_eq!(crowded.by_alone(), Answer::Unfit);
    }
}
