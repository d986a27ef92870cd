//! A report as commands of a workflow of GitHub Actions: the verdict as a notice, and what failed as an error, with
//! its file and line where the script is a file of the repository.
//!
//! The runner takes such lines from the standard output and error of a step. It shows each in the log too.

use super::Report;
use super::text::headline;
use super::words::failed_last;
use std::path::Path;
use weir_doctor::facts::Line;
use weir_doctor::failures::Role;
use weir_policy::text::printable;

/// Writes the lines. `below`: a path within the repository of the job, if it is there. Without the verdict where
/// the run was `short`.
pub fn annotations(
    report: &Report,
    is_short: bool,
    below: impl Fn(&Path) -> Option<String>,
) -> String {
    let title = property(&headline(report));
    let failed = report.run.failed.iter().find(|failed| failed.role != Role::Other);
    let mut lines = String::new();
    if let Some((failed, line)) = failed.and_then(|failed| Some((failed, failed.line.as_ref()?)))
        && !failed.ending.is_broken_pipe()
    {
        let place = |Line { path, line, .. }: &Line| {
            let file = property(&below(path.as_ref()?.as_ref())?);
            Some(format!("file={file},line={line},"))
        };
        let place = place(line).unwrap_or_default();
        lines += &format!("::error {place}title={title}::{}\n", data(&failed_last(failed)));
    }
    let verdict = report.verdict.lines().next().filter(|_| !is_short);
    if let Some(verdict) = verdict {
        lines += &format!("::notice title={title}::{}\n", data(verdict));
    }
    lines
}

/// Text as the message of a command.
fn data(text: &str) -> String {
    // No line end is left that would need an escape.
    printable(text).replace('%', "%25")
}

/// Text as a property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_message_or_a_property_is_escaped() {
        assert_eq!(data("50 %\r\n::set-env a:b"), "50 %25??::set-env a:b");
        assert_eq!(property("a:b,c=50%"), "a%3Ab%2Cc=50%25");
    }
}
