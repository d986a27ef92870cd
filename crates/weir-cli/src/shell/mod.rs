//! From the text of `weir run 'TEXT'` to a plan: the stages of its pipeline, each as a text for
//! the shell and, where no shell is needed, as arguments to execute.
//!
//! weir does not interpret the text. It cuts it at its top-level `|` and `|&`, and passes on each part
//! as it was typed. If a text is more than one pipeline, or if a stage could notice that it was cut
//! out, the whole text runs under the shell, and weir finds the processes from outside. So a wrong
//! guess makes the report less detailed, never the result wrong.
//!
//! Flow: grammar.rs reads the text (with scan.rs for its tokens, which moves a cursor.rs over it),
//! words.rs looks for the stages that need no shell, replace.rs for those in whose place a shell can
//! put itself. Where a reading leaves doubt, the shell itself reads the text and the stages too.

mod builtins;
mod cursor;
mod fault;
mod grammar;
mod replace;
mod scan;
mod script;
mod span;
#[cfg(test)]
mod tests;
mod token;
mod words;

pub use fault::SyntaxError;
pub use script::pipelines;

use fault::ScanStop;
use grammar::Reading;
use span::{PipelineSpan, Shape, StageSpan};

/// The longest text that is cut, in bytes; a longer one runs whole.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The most stages that are measured separately.
const MAX_STAGES: usize = 128;

/// How to run a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Stage by stage.
    Pipeline(Pipeline),
    /// The text unmodified, under the shell.
    Whole,
}

/// One pipeline; a single command counts as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Whether an odd number of `!` precedes it.
    pub negated: bool,
    /// At least one.
    pub stages: Vec<StageText>,
    /// The text and the stages of which the reading leaves doubt: the cut stands only if the shell
    /// accepts each of them.
    pub doubts: Vec<String>,
}

/// One command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageText {
    /// The text as it was typed, without blanks and comments around it. It is the stage's label.
    pub source: String,
    /// What to give to `SHELL -c`: the source, and ` 2>&1` when `|&` follows.
    pub shell_text: String,
    /// The stage without a shell, if that means exactly the same.
    pub direct: Option<Direct>,
    /// The text with `exec` before the command, if weir can find the command.
    pub replaced: Option<Replaced>,
}

/// A text for a shell that puts a program in its own place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// What to give to `SHELL -c`.
    pub shell_text: String,
    /// The program, which must exist, since `exec` reports errors differently.
    pub program: String,
}

/// A command to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// Assignments before the command, to be put in its environment in this order.
    pub env: Vec<(String, String)>,
    /// The command's name, to be looked up in PATH, and its arguments.
    pub argv: Vec<String>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Nothing but blanks and comments.
    #[error("the pipeline is empty")]
    Empty,
    /// The shell would refuse it too, as far as can be told here: it decides.
    #[error("{0}")]
    Syntax(SyntaxError),
}

/// Plans a text. `is_exported_function` tells whether the environment holds a shell function of this
/// name, which bash would run instead of the program. No shell is asked here: the caller asks it about
/// the doubts of a cut, and about a text that is refused.
pub fn plan(text: &str, is_exported_function: &dyn Fn(&str) -> bool) -> Result<Plan, PlanError> {
    if text.len() > MAX_TEXT_BYTES || text.contains('\0') {
        return Ok(Plan::Whole);
    }
    let Reading { list, own_process, doubtful } = match grammar::read(text) {
        Ok(read) => read,
        Err(ScanStop::Whole) => return Ok(Plan::Whole),
        Err(ScanStop::Fault(fault)) => {
            return Err(PlanError::Syntax(SyntaxError::new(text, fault)));
        }
    };
    let Some(pipeline) = list.first else {
        return Err(PlanError::Empty);
    };
    let apart = list.pipelines == 1
        && !list.background
        && can_be_cut(&pipeline)
        && !(pipeline.stages.len() > 1 && (own_process || speaks_of_shell(text)));
    if !apart {
        return Ok(Plan::Whole);
    }
    let mut doubts = Vec::from_iter(doubtful.then(|| text.to_owned()));
    let stages: Option<Vec<StageText>> = pipeline
        .stages
        .iter()
        .map(|stage| cut(text, stage, is_exported_function, &mut doubts))
        .collect();
    Ok(stages.map_or(Plan::Whole, |stages| {
        Plan::Pipeline(Pipeline { negated: pipeline.negations % 2 == 1, stages, doubts })
    }))
}

/// Whether there is something to cut and each part can run in a separate shell.
fn can_be_cut(pipeline: &PipelineSpan) -> bool {
    let stages = &pipeline.stages;
    let lone_compound = stages.len() == 1 && stages[0].shape != Shape::Simple;
    !pipeline.timed
        && !stages.is_empty()
        && stages.len() <= MAX_STAGES
        && !lone_compound
        && stages.iter().all(|stage| stage.shape != Shape::Function)
}

/// Whether the text names properties of the one shell that would have run it: its process, its depth,
/// its line, its text, the statuses of the other stages. Names count anywhere in the text, even in
/// quotes, since names are also read without a `$` (`declare -p`, arithmetic). Short parameters such
/// as `$$` differ: in quotes they belong to perl and awk. The scanner looks for those, unless `eval`
/// may remove the quotes.
fn speaks_of_shell(text: &str) -> bool {
    const NAMES: [&str; 9] = [
        "PIPESTATUS",
        "PPID",
        "BASHPID",
        "BASH_SUBSHELL",
        "BASH_COMMAND",
        "BASH_EXECUTION_STRING",
        "LINENO",
        "SHLVL",
        "ZSH_SUBSHELL",
    ];
    let mut names = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    names.any(|name| NAMES.contains(&name) || (name == "eval" && scan::speaks_of_own_process(text)))
}

fn cut(
    text: &str,
    stage: &StageSpan,
    is_exported_function: &dyn Fn(&str) -> bool,
    doubts: &mut Vec<String>,
) -> Option<StageText> {
    let source = &text[stage.start..stage.end];
    // The source ends with its last token, so no comment or escaped blank can absorb this.
    let shell_text = if stage.with_stderr { format!("{source} 2>&1") } else { source.to_owned() };
    let doubtful = stands_alone(&shell_text, stage.shape)?;
    if doubtful && !doubts.contains(&shell_text) {
        doubts.push(shell_text.clone());
    }
    let simple = stage.shape == Shape::Simple && !stage.with_stderr;
    let direct = if simple { words::direct(source, is_exported_function) } else { None };
    let replaced = (stage.shape == Shape::Simple)
        .then(|| replace::replaced(&shell_text, is_exported_function))
        .flatten()
        .filter(|(text, _)| stands_alone(text, stage.shape).is_some())
        .map(|(shell_text, program)| Replaced { shell_text, program });
    Some(StageText { source: source.to_owned(), shell_text, direct, replaced })
}

/// Reads the cut stage again: it must be the same single command from its first byte to its last.
/// This matters for `time`, which is a program after `|` but a reserved word at the start. Returns
/// whether the reading leaves doubt.
fn stands_alone(shell_text: &str, shape: Shape) -> Option<bool> {
    let Reading { list, doubtful, .. } = grammar::read(shell_text).ok()?;
    let Some(PipelineSpan { negations: 0, timed: false, stages }) = list.first else {
        return None;
    };
    let [stage] = stages.as_slice() else {
        return None;
    };
    let alone = list.pipelines == 1
        && !list.background
        && stage.shape == shape
        && (stage.start, stage.end) == (0, shell_text.len());
    alone.then_some(doubtful)
}
