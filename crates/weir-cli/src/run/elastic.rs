//! `weir run --elastic`: chooses the pipes that get a buffer, puts the buffers in, and remembers what a run
//! showed ([`super::evidence`]).
//!
//! Pipes have the numbers of the pipeline as typed: pipe n is between stages n and n+1, and buffers that weir
//! puts in do not count.

use super::evidence::{self, Memory, PipeEvidence, Replaced};
use super::plan::Planned;
use super::status::lossy_buffers;
use crate::args::Elastic;
use crate::report::Report;
use std::cell::OnceCell;
use std::path::Path;
use weir_command::fault::{Fault, print_message};
use weir_command::units::ending;
use weir_doctor::advice::{AdviceKind, Refuted, Surroundings};
use weir_doctor::facts::{Pipe, Run};
use weir_measure::programs::find_program;
use weir_measure::runner::{Launch, StageSpec, files_suffice};

/// The text of an inserted stage in a report.
const LABEL: &str = "weir buffer";

/// Puts in the buffers that were asked for. Returns remarks for the report.
pub fn put_in(asked: Option<&Elastic>, planned: &mut Planned) -> Result<Vec<String>, Fault> {
    match asked {
        None => Ok(Vec::new()),
        Some(Elastic::Pipes(_)) if planned.job.script => Err(Fault::usage(
            "cannot put a buffer in: this is not one pipeline that weir can run stage by stage; \
             write '| weir buffer |' into the text",
        )),
        Some(Elastic::Pipes(pipes)) => {
            check(pipes, planned.job.stages.len() - 1)?;
            let put = insert_all(&mut planned.job.stages, pipes);
            put.map_err(|why| Fault::failed(format!("cannot put a buffer in: {why}")))?;
            Ok(Vec::new())
        }
        Some(Elastic::Evidence) if planned.job.script => Ok(vec![String::from(
            "no elastic buffer was put in: this is not one pipeline that weir can run stage by \
             stage; write '| weir buffer |' into the text",
        )]),
        Some(Elastic::Evidence) => Ok(by_evidence(planned)),
    }
}

/// Refuses numbers that no pipe has.
fn check(pipes: &[usize], there: usize) -> Result<(), Fault> {
    let Some(wrong) = pipes.iter().find(|pipe| !(1..=there).contains(*pipe)) else {
        return Ok(());
    };
    let are = match there {
        0 => String::from("the pipeline is one stage and has none"),
        1 => String::from("the only pipe is 1, between stages 1 and 2"),
        _ => format!("the pipes are 1 to {there}, pipe n between stages n and n+1"),
    };
    Err(Fault::usage(format!("cannot put a buffer into pipe {wrong}: {are}")))
}

fn by_evidence(planned: &mut Planned) -> Vec<String> {
    let pipeline = evidence::pipeline_key(&planned.command);
    let mut seen = evidence::place().map_or_else(Vec::new, |path| {
        let read = evidence::read(&path).map(|memory| memory.seen);
        read.unwrap_or_else(|trouble| {
            let path = path.display();
            print_message(&format!(
                "cannot read what earlier runs showed from '{path}': {trouble}"
            ));
            Vec::new()
        })
    });
    let there = planned.job.stages.len() - 1;
    seen.retain(|seen| seen.pipeline == pipeline && (1..=there).contains(&seen.pipe));
    let doubtful = seen.iter().find(|seen| !seen.stands()).map(PipeEvidence::counts);
    seen.retain(PipeEvidence::stands);
    seen.sort_by_key(|seen| seen.pipe);
    let pipes: Vec<usize> = seen.iter().map(|seen| seen.pipe).collect();
    if pipes.is_empty() {
        let who = match doubtful {
            Some((shown, runs)) => format!("only {shown} of the last {runs} runs"),
            None => String::from("no earlier run"),
        };
        return vec![format!(
            "no elastic buffer was put in: {who} of this pipeline showed that it would help"
        )];
    }
    if let Err(why) = insert_all(&mut planned.job.stages, &pipes) {
        return vec![format!("no elastic buffer was put in: {why}")];
    }
    let said = |seen: &PipeEvidence| {
        format!(
            "an elastic buffer was put into pipe {}: an earlier run without it found the pipe \
             full {:.0} % and empty {:.0} % of the time",
            seen.pipe,
            seen.full_share * 100.0,
            seen.empty_share * 100.0
        )
    };
    seen.iter().map(said).collect()
}

/// Inserts a buffer into each of these pipes (from 1), or returns why it cannot.
fn insert_all(stages: &mut Vec<StageSpec>, pipes: &[usize]) -> Result<(), String> {
    let mut pipes = pipes.to_vec();
    pipes.sort();
    pipes.dedup();
    let more = stages.len() + pipes.len();
    if !files_suffice(more) {
        return Err(format!(
            "the limit on open files is too low for {more} more stages (ulimit -n)"
        ));
    }
    // It goes from the right, so that positions to the left stay valid.
    pipes.iter().rev().try_for_each(|pipe| insert(stages, pipe - 1))
}

/// Inserts a buffer after the stage at position `from`, or returns why it cannot.
pub fn insert(stages: &mut Vec<StageSpec>, from: usize) -> Result<(), String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot find the program weir: {error}"))?;
    if !program.exists() {
        return Err(format!("weir is no longer at '{}'", program.display()));
    }
    let argv = vec![program.into_os_string(), "buffer".into(), "-q".into()];
    let launch = Launch::Exec { env: Vec::new(), argv, text: None };
    stages.insert(from + 1, StageSpec { label: String::from(LABEL), launch, inserted: true });
    Ok(())
}

/// Returns the number, in the pipeline as typed, of the pipe after the stage at position `from`. `inserted`
/// has for each stage whether weir put it in.
pub fn typed_number(mut inserted: impl Iterator<Item = bool>, from: usize) -> usize {
    inserted.by_ref().take(from + 1).filter(|inserted| !inserted).count()
}

/// Prints which buffers failed, also if there is no report: the user did not type them.
pub fn report_losses(run: &Run) {
    for at in lossy_buffers(run) {
        let pipe = typed_number(run.stages.iter().map(|stage| stage.inserted), at);
        let ending = ending(&run.stages[at]);
        print_message(&format!(
            "the elastic buffer in pipe {pipe} failed ({ending}): bytes may be lost"
        ));
    }
}

/// This host, and what earlier runs of the same text showed, read where it is asked for.
pub struct Around<'a> {
    run: &'a Run,
    command: &'a str,
    memory: OnceCell<Option<Memory>>,
}

impl<'a> Around<'a> {
    /// Nothing is read yet.
    pub fn new(run: &'a Run, command: &'a str) -> Around<'a> {
        Around { run, command, memory: OnceCell::new() }
    }

    fn memory(&self) -> Option<&Memory> {
        let read = || evidence::usable(&evidence::place().filter(|_| !self.run.script)?);
        self.memory.get_or_init(read).as_ref()
    }
}

impl Surroundings for Around<'_> {
    fn has_program(&self, name: &str) -> bool {
        find_program(Path::new(name)).is_some()
    }

    fn refuted(&self) -> Vec<Refuted> {
        let pipeline = evidence::pipeline_key(self.command);
        let known = self.memory().into_iter().flat_map(|memory| &memory.refuted);
        let known = known.filter(|known| known.pipeline == pipeline);
        known.flat_map(|known| here(self.run, known)).collect()
    }

    fn remembers(&self) -> bool {
        self.memory().is_some()
    }
}

/// Returns refuted advice with the positions that its stage or pipe has in this run.
fn here(run: &Run, known: &evidence::Refuted) -> Vec<Refuted> {
    let Ok(kind) = known.kind.parse::<AdviceKind>() else { return Vec::new() };
    let typed = |position| typed_number(run.stages.iter().map(|stage| stage.inserted), position);
    if let Some(number) = known.pipe {
        let pipes = run.pipes.iter().enumerate().filter(|(_, pipe)| typed(pipe.from) == number);
        return pipes.map(|(at, _)| Refuted { kind, stage: None, pipe: Some(at) }).collect();
    }
    let stages = (0..run.stages.len()).filter(|at| !run.stages[*at].inserted);
    let stages = stages.filter(|at| Some(typed(*at)) == known.stage);
    stages.map(|at| Refuted { kind, stage: Some(at), pipe: None }).collect()
}

/// Remembers what a comparison showed about the advice that it followed. Unless the advised runs were
/// faster, weir does not give that advice again for this text.
pub fn remember_compared(report: &Report) {
    let Some(compared) = report.compared.as_ref().filter(|compared| !compared.tried.is_empty())
    else {
        return;
    };
    let run = &report.run;
    let Some(path) = evidence::place().filter(|_| !run.script) else { return };
    let typed = |position| typed_number(run.stages.iter().map(|stage| stage.inserted), position);
    let tried = compared.tried.iter().map(|advice| evidence::Refuted {
        pipeline: evidence::pipeline_key(&report.command),
        kind: advice.kind.as_ref().to_owned(),
        stage: advice.stage.map(typed),
        pipe: advice.pipe.and_then(|at| Some(typed(run.pipes.get(at)?.from))),
        when_unix_s: evidence::now_unix_s(),
    });
    let tried: Vec<evidence::Refuted> = tried.collect();
    // The ratio is advised to plain. If its upper bound is below 1, the advised runs were faster.
    if let Err(trouble) = evidence::judge_tried(&path, &tried, compared.high < 1.0) {
        let path = path.display();
        print_message(&format!("cannot save in '{path}' what comparing showed: {trouble}"));
    }
}

/// Remembers which pipes would gain from a buffer, as this run showed, and which would not, if it ran without
/// buffers. If the file cannot be written, weir prints a line and continues.
pub fn remember(report: &Report) {
    let run = &report.run;
    if run.script {
        return;
    }
    let Some(path) = evidence::place() else { return };
    let pipeline = evidence::pipeline_key(&report.command);
    let number = |pipe: &Pipe| typed_number(run.stages.iter().map(|s| s.inserted), pipe.from);
    let advised = |position: usize| {
        let mut advice = report.found.advice.iter().map(|advised| &advised.advice);
        advice.any(|of| of.pipe == Some(position) && of.kind == AdviceKind::ElasticBuffer)
    };
    let (shown, not): (Vec<_>, Vec<_>) =
        run.pipes.iter().enumerate().partition(|(position, _)| advised(*position));
    let shown: Vec<PipeEvidence> =
        shown.iter().map(|(_, pipe)| seen(pipe, &pipeline, number(pipe))).collect();
    let not = not.iter().filter(|(_, pipe)| is_contrary(run, pipe));
    let contrary: Vec<usize> = not.map(|(_, pipe)| number(pipe)).collect();
    if shown.is_empty() && contrary.is_empty() {
        return;
    }
    match evidence::update(&path, &pipeline, &shown, &contrary) {
        Err(trouble) if !shown.is_empty() => {
            let path = path.display();
            print_message(&format!("cannot save in '{path}' what this run showed: {trouble}"));
        }
        Ok(Replaced::Damaged) => {
            print_message(&format!("'{}' was damaged and is replaced", path.display()));
        }
        // Nothing is lost if the findings of a contrary run cannot be written.
        _ => {}
    }
}

/// Returns whether a run without advice for a pipe shows that a buffer there would not help. A run with
/// buffers does not show that, since its pipes differ. Nor does a run that was interrupted or too short.
fn is_contrary(run: &Run, pipe: &Pipe) -> bool {
    let plain = run.stages.iter().all(|stage| !stage.inserted);
    plain && run.signals.is_empty() && pipe.samples >= Pipe::ENOUGH_SAMPLES
}

fn seen(pipe: &Pipe, pipeline: &str, number: usize) -> PipeEvidence {
    let (full_share, empty_share) = pipe.shares();
    PipeEvidence {
        pipeline: pipeline.to_owned(),
        pipe: number,
        full_share,
        empty_share,
        longest_full_ms: pipe.longest_full_ns / 1_000_000,
        longest_empty_ms: pipe.longest_empty_ns / 1_000_000,
        when_unix_s: evidence::now_unix_s(),
        runs: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_keep_their_typed_numbers() {
        // a | buffer | b | c
        let inserted = [false, true, false, false];
        let number = |from| typed_number(inserted.into_iter(), from);
        assert_eq!([number(0), number(1), number(2)], [1, 1, 2]);
    }

    #[test]
    fn a_wrong_number_is_refused_with_those_there_are() {
        let refused = |pipes: &[usize], there| check(pipes, there).expect_err("wrong").to_string();
        assert!(check(&[1, 3], 3).is_ok());
        let said = "cannot put a buffer into pipe 4: the pipes are 1 to 3, pipe n between stages";
        assert!(refused(&[1, 4], 3).starts_with(said));
        assert!(refused(&[0], 1).contains("pipe 0: the only pipe is 1"));
        assert!(refused(&[1], 0).contains("one stage and has none"));
    }
}
