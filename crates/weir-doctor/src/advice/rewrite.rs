//! The stages of a pipeline as they are when a piece of advice has been followed.

use super::{Advice, AdviceKind, tools};
use crate::command::Command;
use crate::facts::Run;
use crate::programs;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// A stage changed: its position, and its new text; `None` where it is left out.
pub type Change = (usize, Option<String>);

/// Returns the changes that follow a piece of advice, if it says exactly what to type.
pub fn rewrite(run: &Run, advice: &Advice) -> Option<Vec<Change>> {
    let at = advice.stage.filter(|_| !run.script)?;
    let label = |at: usize| run.stages.get(at).map(|stage| stage.label.as_str());
    let one = |text: String| Some(vec![(at, Some(text))]);
    match advice.kind {
        AdviceKind::CLocale => {
            Command::read(label(at)?)?;
            one(format!("LC_ALL=C {}", label(at)?))
        }
        AdviceKind::ParallelCompressor => {
            let has = |name: &str| run.installed.contains(&name);
            one(programs::parallel(label(at)?, &has)?)
        }
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
        AdviceKind::LargerWrites | AdviceKind::LargerReads => {
            one(programs::with_buffer(label(at)?)?)
        }
        AdviceKind::LargerPipe
        | AdviceKind::ElasticBuffer
        | AdviceKind::MoreCpus
        | AdviceKind::FewerProcesses
        | AdviceKind::OnePass
        | AdviceKind::CountInTable => None,
    }
}

/// Returns the command with those changes, if `command` is these stages joined by `|` and nothing
/// else.
pub fn apply(command: &str, labels: &[&str], changes: &[Change]) -> Option<String> {
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
