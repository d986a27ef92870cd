//! From the text of `weir run 'TEXT'` to a plan: the stages of its pipeline, each as a text for
//! the shell and, where no shell is needed, as arguments to execute.
//!
//! Nothing is interpreted. The text is cut at its top-level `|` and `|&`, and what lies between
//! is handed on as it was typed. When a text is more than one pipeline, or when a stage could
//! tell that it was cut out, the plan is to run the whole text under the shell and to find the
//! processes from outside. So wrong guesses cost a finer report, never a wrong result.
//!
//! Flow: grammar.rs reads the text (with scan.rs for its tokens), second.rs has brush-parser
//! read it again, words.rs looks for the stages that need no shell, replace.rs for those in whose
//! place a shell can put itself.

mod builtins;
mod fault;
mod grammar;
mod replace;
mod scan;
mod script;
mod second;
#[cfg(test)]
mod tests;
mod words;

pub use fault::SyntaxError;
pub use script::pipelines;

use fault::Stop;
use grammar::{PipelineSpan, Shape, Stage};

/// The longest text that is cut, in bytes; a longer one runs whole.
const MAX_TEXT_BYTES: usize = 64 * 1024;
/// The most stages that are measured apart.
const MAX_STAGES: usize = 128;

/// How a text is to be run.
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
    /// It was preceded by `!` (an odd number of them).
    pub negated: bool,
    /// At least one.
    pub stages: Vec<StageText>,
}

/// One command of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageText {
    /// What a person typed for it, without blanks and comments around it: its label.
    pub source: String,
    /// What to give to `SHELL -c`: the source, and ` 2>&1` when `|&` follows.
    pub shell_text: String,
    /// The stage with no shell, when it means exactly the same.
    pub direct: Option<Direct>,
    /// The text with `exec` before the command, where that can be found and started.
    pub replaced: Option<Replaced>,
}

/// A text for a shell that puts a program in its own place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// What to give to `SHELL -c`.
    pub shell_text: String,
    /// The program that must be there: `exec` words its errors its own way.
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
    /// The shell would refuse it too, as far as can be told here.
    #[error("{0}")]
    Syntax(SyntaxError),
}

/// Plans a text. `is_exported_function` tells of a command word whether the environment holds a
/// shell function of that name, which bash would run instead of the program.
pub fn plan(text: &str, is_exported_function: &dyn Fn(&str) -> bool) -> Result<Plan, PlanError> {
    if text.len() > MAX_TEXT_BYTES || text.contains('\0') {
        return Ok(Plan::Whole);
    }
    let (list, own_process) = match grammar::read(text) {
        Ok(read) => read,
        Err(Stop::Whole) => return Ok(Plan::Whole),
        Err(Stop::Fault(_)) if second::accepts(text) => return Ok(Plan::Whole),
        Err(Stop::Fault(fault)) => return Err(PlanError::Syntax(SyntaxError::new(text, fault))),
    };
    let Some(pipeline) = list.first else {
        return Err(PlanError::Empty);
    };
    let apart = list.pipelines == 1
        && !list.background
        && can_be_cut(&pipeline)
        && !(pipeline.stages.len() > 1 && (own_process || speaks_of_shell(text)))
        && second::agrees(text, pipeline.negations, &pipeline.stages);
    if !apart {
        return Ok(Plan::Whole);
    }
    let stages: Option<Vec<StageText>> =
        pipeline.stages.iter().map(|stage| cut(text, stage, is_exported_function)).collect();
    Ok(stages.map_or(Plan::Whole, |stages| {
        Plan::Pipeline(Pipeline { negated: pipeline.negations % 2 == 1, stages })
    }))
}

/// Whether there is something to cut and each part can run in a shell of its own.
fn can_be_cut(pipeline: &PipelineSpan) -> bool {
    let stages = &pipeline.stages;
    let lone_compound = stages.len() == 1 && stages[0].shape != Shape::Simple;
    !pipeline.timed
        && !stages.is_empty()
        && stages.len() <= MAX_STAGES
        && !lone_compound
        && stages.iter().all(|stage| stage.shape != Shape::Function)
}

/// Whether the text names what belongs to the one shell that would have run it: its process,
/// its depth, its line, the text it was given, the statuses of the other stages. Anywhere in the
/// text, in quotes as well, since names are also read without a `$` (`declare -p`, arithmetic).
/// The short parameters such as `$$` are another matter: quoted, they belong to perl and awk,
/// so the scanner looks for them, unless `eval` may take the quotes off again.
fn speaks_of_shell(text: &str) -> bool {
    const NAMES: [&str; 8] = [
        "PIPESTATUS",
        "PPID",
        "BASHPID",
        "BASH_SUBSHELL",
        "BASH_COMMAND",
        "BASH_EXECUTION_STRING",
        "LINENO",
        "SHLVL",
    ];
    let mut names = text.split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
    names.any(|name| NAMES.contains(&name) || (name == "eval" && scan::speaks_of_own_process(text)))
}

fn cut(
    text: &str,
    stage: &Stage,
    is_exported_function: &dyn Fn(&str) -> bool,
) -> Option<StageText> {
    let source = &text[stage.start..stage.end];
    // The source ends with its last token, so no comment or escaped blank can take this in.
    let shell_text = if stage.with_stderr { format!("{source} 2>&1") } else { source.to_owned() };
    if !stands_alone(&shell_text, stage.shape) {
        return None;
    }
    let simple = stage.shape == Shape::Simple && !stage.with_stderr;
    let direct = if simple { words::direct(source, is_exported_function) } else { None };
    let replaced = (stage.shape == Shape::Simple)
        .then(|| replace::replaced(&shell_text, is_exported_function))
        .flatten()
        .filter(|(text, _)| stands_alone(text, stage.shape))
        .map(|(shell_text, program)| Replaced { shell_text, program });
    Some(StageText { source: source.to_owned(), shell_text, direct, replaced })
}

/// Whether a stage, cut out, reads as the same single command from its first byte to its last,
/// to both readers. `time` is where this matters: a program after `|`, a reserved word here.
fn stands_alone(shell_text: &str, shape: Shape) -> bool {
    let Ok((list, _)) = grammar::read(shell_text) else {
        return false;
    };
    let Some(PipelineSpan { negations: 0, timed: false, stages }) = list.first else {
        return false;
    };
    let [stage] = stages.as_slice() else {
        return false;
    };
    list.pipelines == 1
        && !list.background
        && stage.shape == shape
        && (stage.start, stage.end) == (0, shell_text.len())
        && second::stands_alone(shell_text, shape)
}
