//! The places of pipelines and their commands in a text.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Simple,
    Compound,
    Function,
}

/// One command of a pipeline, in bytes of the text.
#[derive(Clone, Debug)]
pub(super) struct StageSpan {
    pub start: usize,
    pub end: usize,
    pub shape: Shape,
    /// The place after the `|` or `|&` that follows, if one does.
    pub pipe_end: Option<usize>,
    /// It is followed by `|&`.
    pub with_stderr: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct PipelineSpan {
    pub negations: usize,
    pub timed: bool,
    pub stages: Vec<StageSpan>,
}
