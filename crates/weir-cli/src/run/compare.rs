//! `weir run --compare`: the same pipeline under plain settings and under the advice, in rounds.
//!
//! Each round runs it three times in random order: plain, advised, and plain once more. The two plain runs
//! show which differences this host resolves. In a plain run the pipes are as the kernel makes them. The
//! output of the pipeline goes to a file without a name and must be the same each time.

use super::elastic;
use super::rounds::{Entrant, Sample, Standard, compared, verdict};
use crate::report::{Compared, Report, difference};
use weir_command::fault::{Fault, print_message};
use weir_doctor::advice::{Advice, AdviceKind, Advised};
use weir_measure::pairs::Comparison;
use weir_measure::runner::{Job, Launch};

/// The capacity of a pipe as Linux makes it.
const PLAIN_PIPE_BYTES: u64 = 65_536;

/// Runs the rounds, after the first run gave this report.
///
/// `standard` has the standard streams from before that run, which has read standard input.
pub fn compare(
    job: &Job,
    report: &Report,
    rounds: usize,
    standard: &Standard,
) -> Result<Option<Compared>, Fault> {
    let Applied { job: advised_job, advised, tried, not_tried } = apply(job, report.advised());
    let mut plain_job = Job { pipe_bytes: Some(PLAIN_PIPE_BYTES), pipe_auto: false, ..job.clone() };
    plain_job.stages.retain(|stage| !stage.inserted);
    let has_pipes = plain_job.stages.len() > 1;
    let other = |size: Option<u64>| size.is_some_and(|bytes| bytes != PLAIN_PIPE_BYTES);
    let has_others = has_pipes && (job.pipe_auto || job.pipe_sizes().into_iter().any(other));
    if tried.is_empty() && !has_others && plain_job.stages.len() == job.stages.len() {
        standard.end_by_signals();
        print_message(
            "nothing was compared: weir has no pipe to make larger here, and no advice that it can try",
        );
        not_tried.iter().for_each(|text| print_message(&format!("not tried: {text}")));
        return Ok(None);
    }
    let entrant = |job| Entrant { job, pipefail: false, negated: false };
    let (plain_job, advised_job) = (entrant(plain_job), entrant(advised_job));
    let all = [&plain_job, &advised_job, &plain_job];
    let Some(samples) = super::rounds::rounds(&all, rounds, standard)? else {
        standard.end_by_signals();
        print_message("interrupted: nothing was compared");
        return Ok(None);
    };
    let wall_s = |which: usize| samples[which].iter().map(|sample| sample.wall_s).collect();
    let [plain_s, advised_s, twin_s]: [Vec<f64>; 3] = [0, 1, 2].map(wall_s);
    let outputs: Vec<_> = samples.iter().flatten().map(|sample| sample.output).collect();
    let pairs = |other: &[f64]| compared(plain_s.iter().copied().zip(other.iter().copied()));
    let (found, alike) = (pairs(&advised_s)?, pairs(&twin_s)?);
    let same_output = outputs.windows(2).all(|pair| pair[0] == pair[1]);
    let is_judged = has_one_status(&samples);
    // Runs that fail tell nothing of what was tried.
    let tried = if is_judged { tried } else { Vec::new() };
    let mut compared = Compared {
        plain: String::from("pipes of 64 KiB, the kernel's default"),
        advised,
        not_tried,
        rounds,
        ratio: found.ratio,
        low: found.low,
        high: found.high,
        p: found.p,
        verdict: match is_judged {
            true => verdict(&found, &alike).to_string(),
            false => NOT_JUDGED.to_owned(),
        },
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

/// The verdict on runs that did not all end with the same status.
const NOT_JUDGED: &str = "not judged";

/// Whether all runs ended with the same status: one that fails does other work.
fn has_one_status(samples: &[Vec<Sample>]) -> bool {
    let mut statuses = samples.iter().flatten().map(|sample| sample.status);
    let first = statuses.next();
    statuses.all(|status| Some(status) == first)
}

fn sentences(compared: &Compared, found: &Comparison, alike: &Comparison) -> Vec<String> {
    let mut said = vec![
        format!("{} rounds of plain, advised and plain again, in random order", compared.rounds),
        format!("plain:   {} ({:.3} s)", compared.plain, found.a_median),
        format!("advised: {} ({:.3} s)", compared.advised.join("; "), found.b_median),
        match compared.verdict == NOT_JUDGED {
            true => String::from("not all runs ended with the same status: not judged"),
            false => difference(found, verdict(found, alike), "plain", "advised"),
        },
        format!("A/A: {}", alike.resolution()),
    ];
    said.extend(compared.not_tried.iter().map(|text| format!("not tried: {text}")));
    said.push(String::from(if compared.same_output {
        "output: the same bytes in all runs"
    } else {
        "output: NOT the same bytes in all runs; the runs may not do the same work"
    }));
    said
}

/// A job that follows the advice.
struct Applied {
    job: Job,
    /// The changes, in words.
    advised: Vec<String>,
    /// The advice that the job follows.
    tried: Vec<Advice>,
    /// The text of the advice that it cannot follow.
    not_tried: Vec<String>,
}

/// Returns the job with all advice that can be followed without changing the text of the pipeline.
fn apply<'a>(job: &Job, advice: impl Iterator<Item = (&'a Advised, &'a str)>) -> Applied {
    let mut changed = job.clone();
    let largest = job.pipe_sizes().into_iter().flatten().max().unwrap_or(PLAIN_PIPE_BYTES);
    let mut advised = vec![format!("pipes of {} KiB", largest >> 10)];
    let (mut tried, mut not_tried) = (Vec::new(), Vec::new());
    let buffer_in = |from| {
        let pipe = elastic::typed_number(job.stages.iter().map(|stage| stage.inserted), from);
        format!("elastic buffer in pipe {pipe}->{}", pipe + 1)
    };
    let put_in = job.stages.iter().enumerate().filter(|(_, stage)| stage.inserted);
    advised.extend(put_in.map(|(position, _)| buffer_in(position)));
    let mut buffers: Vec<(usize, &Advice, &str)> = Vec::new();
    for (Advised { advice, .. }, text) in advice {
        match (advice.kind, advice.stage) {
            (AdviceKind::LargerPipe, _) if !job.script => {
                tried.push(advice.clone());
                if !changed.pipe_auto {
                    changed.pipe_auto = true;
                    advised.push(String::from("enlarged during the run"));
                }
            }
            (AdviceKind::CLocale, Some(stage)) if stage < changed.stages.len() && !job.script => {
                set_c_locale(&mut changed.stages[stage].launch);
                tried.push(advice.clone());
                advised.push(format!("LC_ALL=C for stage {}", stage + 1));
            }
            (AdviceKind::ElasticBuffer, _) if !job.script => {
                buffers.extend(advice.pipe.map(|from| (from, advice, text)));
            }
            // The text of the pipeline would have to change.
            (AdviceKind::MoreCpus, _) => {}
            _ => not_tried.push(text.to_owned()),
        }
    }
    // Buffers come last, and from the right, so that the positions of the other stages stay valid.
    buffers.sort_by_key(|(from, ..)| std::cmp::Reverse(*from));
    for (from, advice, text) in buffers {
        match elastic::insert(&mut changed.stages, from) {
            Ok(()) => {
                advised.push(buffer_in(from));
                tried.push(advice.clone());
            }
            Err(why) => not_tried.push(format!("{text} ({why})")),
        }
    }
    if job.pipe_auto && !advised.iter().any(|text| text == "enlarged during the run") {
        advised.push(String::from("enlarged during the run"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_doctor::advice::Gain;
    use weir_doctor::facts::Run;

    /// A program that failed at once with a larger pipe was "faster" there.
    #[test]
    fn runs_that_end_differently_are_not_judged() {
        let runs =
            |status| vec![Sample { wall_s: 1.0, status, output: (0, 0), is_unstarted: false }; 2];
        assert!(has_one_status(&[runs(1), runs(1), runs(1)]));
        assert!(!has_one_status(&[runs(0), runs(1), runs(0)]));
    }

    /// It was tried "enlarged during the run", which no pipe of a script is.
    #[test]
    fn larger_pipes_are_not_tried_on_a_script() {
        let job = Job { script: true, ..Job::default() };
        let (kind, gain) = (AdviceKind::LargerPipe, Gain::About(2.0));
        let found = Advice { kind, stage: None, pipe: Some(0), gain };
        let found = Advised::of(&Run::default(), "", found, &());
        let applied = apply(&job, [(&found, "larger")].into_iter());
        assert!(applied.tried.is_empty() && !applied.job.pipe_auto);
        assert_eq!(applied.not_tried, ["larger"]);
    }
}
