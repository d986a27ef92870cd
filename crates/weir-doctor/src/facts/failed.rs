//! The commands of a script that failed.

use super::Line;
use crate::ending::{Ending, StatusMeaning};
use crate::failures::Role;
use alloc::string::String;

/// A command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCommand {
    /// The command.
    pub command: String,
    /// Where it is in a script, if that is known.
    pub line: Option<Line>,
    /// How it ended.
    pub ending: Ending,
    /// What that says, where it is an answer.
    pub answer: Option<StatusMeaning>,
    /// How many such processes failed so.
    pub times: u64,
    /// What followed.
    pub role: Role,
    /// What read from it, if a pipeline.
    pub reader: Option<String>,
}
