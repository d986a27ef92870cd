//! The stages of a pipeline as they are when a piece of advice has been followed.

use super::cpus::{Scarcity, scarcity};
use super::filters::{Filter, filter, filtered};
use super::passes::{Rereads, rereads};
use super::starts::{Restarts, restarts};
use super::{Advice, AdviceKind, Surroundings, tools};
use crate::command::Command;
use crate::facts::{Run, Stage};
use crate::programs::{self, Instead};
use crate::repacked::{Repacked, repacked};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// A stage changed: its position, and its new text; `None` where it is left out.
pub type Change = (usize, Option<String>);

/// A piece of advice, what it rests on, and how to follow it.
#[derive(Clone, Debug, PartialEq)]
pub struct Advised {
    /// The advice.
    pub advice: Advice,
    /// The stages changed as it says; `None` where what to type is not known.
    pub changes: Option<Vec<Change>>,
    /// The whole command with these changes.
    pub command: Option<String>,
    /// What to do about the program, as its name and its options tell.
    pub hint: Option<String>,
    /// What to use in place of a (de)compressor.
    pub instead: Option<Instead>,
    /// The loop that reads a file again and again.
    pub rereads: Option<Rereads>,
    /// The command that is started again and again.
    pub restarts: Option<Restarts>,
    /// The filter that could come first.
    pub filter: Option<Filter>,
    /// Why there were too few CPUs.
    pub scarcity: Option<Scarcity>,
    /// What a script packs and unpacks again, that which took longest first.
    pub repacked: Vec<Repacked>,
    /// Whether a later run of the same command can put the buffer in by itself.
    pub remembered: bool,
}

impl Advised {
    /// Finds out how to follow advice on a run of this command.
    pub fn of(run: &Run, command: &str, advice: Advice, around: &dyn Surroundings) -> Advised {
        let has = |name: &str| around.has_program(name);
        let labels: Vec<&str> = run.stages.iter().map(|stage| stage.label.as_str()).collect();
        let is = |kind| advice.kind == kind;
        let label = advice.stage.and_then(|at| labels.get(at).copied()).unwrap_or_default();
        let instead = is(AdviceKind::ParallelCompressor).then(|| programs::instead(label, &has));
        let changes = rewrite(run, &advice, &has);
        let rereads = if is(AdviceKind::OnePass) { rereads(run) } else { None };
        let scarcity = match advice.stage {
            Some(at) => {
                run.stages.get(at).and_then(|stage| stage.quota.clone()).map(Scarcity::Group)
            }
            None => scarcity(run),
        };
        Advised {
            command: changes.as_ref().and_then(|changes| apply(command, &labels, changes)),
            changes,
            instead: instead.flatten(),
            hint: hint(run, &advice, rereads),
            filter: advice
                .stage
                .filter(|_| is(AdviceKind::FilterFirst))
                .and_then(|at| filter(run, at)),
            rereads,
            repacked: if is(AdviceKind::NoPacking) { repacked(run) } else { Vec::new() },
            restarts: if is(AdviceKind::OneProcess) { restarts(run) } else { None },
            scarcity: scarcity.filter(|_| is(AdviceKind::MoreCpus)),
            remembered: is(AdviceKind::ElasticBuffer) && !run.script && around.remembers(),
            advice,
        }
    }
}

/// Returns what to do about a program, as its name and its options tell.
fn hint(run: &Run, advice: &Advice, rereads: Option<Rereads>) -> Option<String> {
    let stage = run.stages.get(advice.stage?)?;
    let buffering = |reads| programs::buffering(&stage.label, &stage.program, reads);
    match advice.kind {
        AdviceKind::FewerProcesses => {
            let started = stage.started.iter().flat_map(|started| started.frequent());
            programs::instead_of_processes(&stage.label, &stage.program, started)
        }
        AdviceKind::OneProcess => {
            let found = restarts(run)?;
            let group = run.groups.get(found.group)?;
            let row = group.run.stages.get(found.row)?;
            let name = if group.is_single() { &group.name } else { &row.label };
            programs::in_one_process(name).map(|it| String::from(it.way))
        }
        AdviceKind::OnePass => {
            let Rereads { group, stage, .. } = rereads?;
            let program = &run.groups.get(group)?.run.stages.get(stage)?.program;
            programs::in_one_pass(program).map(String::from)
        }
        AdviceKind::FewerFlushes => Some(String::from(programs::flush_once(&stage.label))),
        AdviceKind::LargerReads => Some(buffering(true)),
        AdviceKind::LargerWrites => Some(by_variable(stage).unwrap_or_else(|| buffering(false))),
        _ => None,
    }
}

/// Returns what lets a stage write more at once that its environment keeps from that.
fn by_variable(stage: &Stage) -> Option<String> {
    stage.unbuffered.then(|| programs::buffering_by_variable(&stage.label)).flatten()
}

/// Returns the changes that follow a piece of advice, if it says exactly what to type.
pub(super) fn rewrite(
    run: &Run,
    advice: &Advice,
    has: &dyn Fn(&str) -> bool,
) -> Option<Vec<Change>> {
    let at = advice.stage.filter(|_| !run.script)?;
    let label = |at: usize| run.stages.get(at).map(|stage| stage.label.as_str());
    let one = |text: String| Some(vec![(at, Some(text))]);
    match advice.kind {
        AdviceKind::CLocale => {
            Command::read(label(at)?)?;
            one(format!("LC_ALL=C {}", label(at)?))
        }
        AdviceKind::ParallelCompressor => one(programs::parallel(label(at)?, has)?),
        // Others get their share of the CPUs too, or would hold it up next.
        AdviceKind::MoreThreads => Some(tools::shared_threads(run)),
        AdviceKind::UncompressedStream => {
            let changed =
                |at: usize| Some((at, Some(programs::uncompressed(label(at)?, label(at + 1)?)?)));
            tools::packers(run).into_iter().map(changed).collect()
        }
        AdviceKind::FasterCipher => one(Command::read(label(at)?)?.behind(0, programs::AES_CIPHER)),
        AdviceKind::DirectInput => {
            let reader = programs::without_cat(label(at)?, label(at + 1)?)?;
            Some(vec![(at, None), (at + 1, Some(reader))])
        }
        AdviceKind::LineBuffering => one(programs::line_buffered(label(at)?)?),
        // To leave out the option alone gains nothing.
        AdviceKind::LargerWrites if run.stages.get(at).and_then(by_variable).is_some() => None,
        AdviceKind::LargerWrites => one(programs::with_buffer(label(at)?, false)?),
        AdviceKind::LargerReads => one(programs::with_buffer(label(at)?, true)?),
        AdviceKind::FilterFirst => filtered(run, at),
        AdviceKind::LargerPipe
        | AdviceKind::ElasticBuffer
        | AdviceKind::MoreCpus
        | AdviceKind::FewerProcesses
        | AdviceKind::OnePass
        | AdviceKind::FewerFlushes
        | AdviceKind::NoPacking
        | AdviceKind::OneProcess
        | AdviceKind::LongestFirst
        | AdviceKind::CountInTable => None,
    }
}

/// Returns the command with those changes, if `command` is these stages joined by `|` and nothing
/// else.
pub(super) fn apply(command: &str, labels: &[&str], changes: &[Change]) -> Option<String> {
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let joined = labels.join(" | ");
    if plain(&joined) != plain(command) {
        return None;
    }
    let changed = |(at, label): (usize, &&str)| match changes.iter().find(|(of, _)| *of == at) {
        Some((_, text)) => text.clone(),
        None => Some(label.to_string()),
    };
    let stages: Vec<String> = labels.iter().enumerate().filter_map(changed).collect();
    Some(stages.join(" | "))
}
