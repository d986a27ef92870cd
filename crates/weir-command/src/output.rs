//! The output of verbs: text for people on standard output, JSON where `--json` says.
//!
//! Output is not buffered by line. If its reader has left, the rest is dropped silently. The output
//! holds text that others chose, such as names of processes and files. No control character of it
//! reaches a terminal: this module, [`crate::json`] and [`crate::fault::print_message`] see to that.

use crate::fault::Fault;
use crate::json;
use crate::json_option::JsonOption;
use crate::places::directory_of;
use crate::sys::{closed_standard_descriptors, copy_of};
use crate::terminal::{self, is_dumb};
use comfy_table::{CellAlignment, Row, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl};
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_policy::text::{printable, printable_lines};

/// Writes text for people to standard output. If the reader has left, that is not an error.
pub fn print(text: &str) -> Result<(), Fault> {
    Output::stdout()?.write(printable_lines(text)).map(drop)
}

/// Writes text for people to standard error, and ignores errors.
pub fn print_err(text: &str) {
    let _ = io::stderr().lock().write_all(printable_lines(text).as_bytes());
}

/// Writes JSON to standard output. If the reader has left, that is not an error.
pub fn print_json(text: &str) -> Result<(), Fault> {
    Output::requested_stdout()?.write(json::escaped(text).as_ref()).map(drop)
}

/// Standard output, or a file.
#[derive(Debug)]
pub struct Output {
    file: File,
    /// `None` for standard output.
    path: Option<PathBuf>,
}

impl Output {
    /// Opens standard output by a new descriptor: the standard library flushes at every newline.
    pub fn stdout() -> Result<Output, Fault> {
        let unwritable = |error| Fault::unwritable(None, error);
        let own: OwnedFd = io::stdout().as_fd().try_clone_to_owned().map_err(unwritable)?;
        Ok(Output { file: own.into(), path: None })
    }

    /// Creates or empties a file.
    pub fn create(path: &Path) -> Result<Output, Fault> {
        let file = create(path).map_err(|error| Fault::unwritable(Some(path), error))?;
        Ok(Output { file, path: Some(path.to_owned()) })
    }

    /// Opens what the option `--json` names, if it is given. A verb does this before its work, so
    /// that it reports a bad name at once.
    pub fn open(option: &JsonOption) -> Result<Option<Output>, Fault> {
        match &option.file {
            None => Ok(None),
            Some(_) if option.is_stdout() => Output::requested_stdout().map(Some),
            Some(path) => Output::create(path).map(Some),
        }
    }

    /// Opens the output for records, which are printed in one form only: the file of `--json`, or
    /// else standard output.
    pub fn of_records(option: &JsonOption) -> Result<Output, Fault> {
        Output::open(option)?.map_or_else(Output::requested_stdout, Ok)
    }

    /// Opens standard output for what was asked for to be there. If it was closed at the start, that
    /// would go nowhere.
    pub fn requested_stdout() -> Result<Output, Fault> {
        let output = Output::stdout()?;
        if closed_standard_descriptors()[1] {
            return Err(output.unwritable("it is closed"));
        }
        Ok(output)
    }

    /// Writes all bytes. False if the reader has left. What a standard output that was closed at the
    /// start would get goes nowhere.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<bool, Fault> {
        let bytes = bytes.as_ref();
        if self.path.is_none() && !bytes.is_empty() && closed_standard_descriptors()[1] {
            return Err(self.unwritable("it is closed"));
        }
        match self.file.write_all(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            written => written.map(|()| true).map_err(|error| self.unwritable(error)),
        }
    }

    /// Ends standard output while this process continues: whoever reads it finds the end. What is
    /// written afterwards goes nowhere.
    pub fn end_stdout(&mut self) -> Result<(), Fault> {
        // A socket may be standard input as well, and stays open for that. What is none says so.
        let _ = rustix::net::shutdown(&self.file, rustix::net::Shutdown::Write);
        let null = File::options().write(true).open("/dev/null");
        self.file = null.map_err(|error| self.unwritable(error))?;
        rustix::stdio::dup2_stdout(&self.file).map_err(|error| self.unwritable(error))
    }

    /// Waits for `time`. Returns false at once if the reader has left: a pipe or a socket reports that
    /// before it is written to.
    pub fn wait(&self, time: Duration) -> Result<bool, Fault> {
        let mut asked = [PollFd::new(&self.file, PollFlags::empty())];
        let time = Timespec::try_from(time).unwrap_or_default();
        match poll(&mut asked, Some(&time)) {
            Err(rustix::io::Errno::INTR) => Ok(true),
            found => {
                found.map_err(|error| self.unwritable(error))?;
                // A socket hangs up where a pipe has an error.
                Ok(!asked[0].revents().intersects(PollFlags::ERR | PollFlags::HUP))
            }
        }
    }

    fn unwritable(&self, error: impl std::fmt::Display) -> Fault {
        Fault::unwritable(self.path.as_deref(), error)
    }
}

/// Creates or empties a file. The name of a descriptor stands for that descriptor: to open its file
/// anew would empty a log to which others append, and write over what is there.
pub fn create(path: &Path) -> io::Result<File> {
    own_descriptor(path).map_or_else(|| File::create(path), Ok)
}

/// Returns a copy of the descriptor that a path such as `/dev/stdout` or `/dev/fd/3` names, if it
/// can be written.
pub fn own_descriptor(path: &Path) -> Option<File> {
    let fd = match path.to_str()? {
        "/dev/stdout" => 1,
        "/dev/stderr" => 2,
        path => {
            let number = path.strip_prefix("/dev/fd/").or(path.strip_prefix("/proc/self/fd/"));
            number?.parse().ok()?
        }
    };
    let own = copy_of(fd)?;
    let writes = fcntl_getfl(&own).ok()?.intersects(OFlags::WRONLY | OFlags::RDWR);
    writes.then(|| File::from(own))
}

/// Refuses a file that two options name: one would write over what the other has written. What is
/// no regular file takes both.
pub fn check_distinct<'a>(
    named: impl IntoIterator<Item = (&'a str, Option<&'a Path>)>,
) -> Result<(), Fault> {
    let file = |path: &Path| match std::fs::metadata(path) {
        _ if own_descriptor(path).is_some() => None,
        Ok(found) => path.canonicalize().ok().filter(|_| found.is_file()),
        Err(_) => Some(directory_of(path).canonicalize().ok()?.join(path.file_name()?)),
    };
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in named {
        let Some(file) = path.and_then(file) else { continue };
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == file) {
            let file = file.display();
            return Err(Fault::usage(format!("{other} and {option} name the same file, '{file}'")));
        }
        seen.push((option, file));
    }
    Ok(())
}

/// Refuses a file that is another, what this says, as well: opening it for writing would empty that,
/// and what goes to one pipe or socket is mixed. A device such as `/dev/null` takes both.
pub fn check_apart(path: &Path, (other, what): (&Stat, &str)) -> Result<(), Fault> {
    let Ok(output) = rustix::fs::stat(path) else { return Ok(()) };
    let kind = FileType::from_raw_mode(output.st_mode);
    let mixes = matches!(kind, FileType::RegularFile | FileType::Fifo | FileType::Socket);
    if mixes && (other.st_dev, other.st_ino) == (output.st_dev, output.st_ino) {
        return Err(Fault::unwritable(Some(path), format!("it is also the {what}")));
    }
    Ok(())
}

/// Refuses as the file of `--json` one that is read. To empty a log or a profile would also end by
/// SIGBUS whoever writes it.
pub fn check_json_apart(option: &JsonOption, read: &Path) -> Result<(), Fault> {
    match (&option.file, rustix::fs::stat(read)) {
        (Some(path), Ok(read)) if !option.is_stdout() => check_apart(path, (&read, "input")),
        _ => Ok(()),
    }
}

/// Creates a progress bar on standard error; it is hidden if it is not wanted or standard error is
/// not a terminal.
pub fn progress_bar(wanted: bool, length: u64, template: &str) -> ProgressBar {
    let shown = wanted && io::stderr().is_terminal();
    let target = match shown {
        true => ProgressDrawTarget::stderr_with_hz(4),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// The text with control sequences that make it replace the content of a terminal of so many rows. Each
/// line is erased before it is written: behind one that fills the terminal the cursor stays on its last
/// column. The last row stays free, since a line end there moves all others up.
fn redrawn(text: &str, rows: usize) -> String {
    let text = printable_lines(text);
    let (count, most) = (text.lines().count(), rows.saturating_sub(1));
    let shown = if count <= most { count } else { most.saturating_sub(1) };
    let rest = (count > shown).then(|| format!("... and {} more lines", count - shown));
    let mut screen = String::from("\x1b[H");
    for line in text.lines().take(shown).chain(rest.as_deref()) {
        screen += "\x1b[K";
        screen += line;
        screen += "\n";
    }
    screen + "\x1b[J"
}

/// The output of a verb that prints text to standard output and JSON where `--json` says. If JSON
/// goes to standard output, there is no text.
#[derive(Debug)]
pub struct Outlet {
    text: Option<Output>,
    json: Option<Output>,
    in_lines: bool,
    in_place: bool,
}

impl Outlet {
    /// Opens the output. A verb does this before its work, so that it reports a bad name at once.
    pub fn open(option: &JsonOption) -> Result<Outlet, Fault> {
        let text = if option.is_stdout() { None } else { Some(Output::stdout()?) };
        Ok(Outlet { text, json: Output::open(option)?, in_lines: false, in_place: false })
    }

    /// Writes each document on one line, for verbs that write several.
    pub fn in_lines(self, in_lines: bool) -> Outlet {
        Outlet { in_lines, ..self }
    }

    /// Replaces the content of the terminal by each text, if standard output is a terminal.
    pub fn in_place(self, in_place: bool) -> Outlet {
        let can_be_drawn = io::stdout().is_terminal() && !is_dumb();
        Outlet { in_place: in_place && can_be_drawn, ..self }
    }

    /// Whether text is printed.
    pub fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Writes the JSON and the text. False if a reader has left.
    pub fn write_report<B: Serialize>(
        &mut self,
        schema: &str,
        body: impl FnOnce() -> B,
        text: impl FnOnce() -> String,
    ) -> Result<bool, Fault> {
        if let Some(output) = &mut self.json {
            let write = if self.in_lines { json::line } else { json::document };
            if !output.write(write(schema, body())?)? {
                return Ok(false);
            }
        }
        match &mut self.text {
            Some(output) if self.in_place => {
                let rows = terminal::size(&output.file).1;
                output.write(redrawn(&text(), rows))
            }
            Some(output) => output.write(printable_lines(&text())),
            None => Ok(true),
        }
    }

    /// Prints text only. False if the reader has left.
    pub fn write_text(&mut self, text: &str) -> Result<bool, Fault> {
        self.text.as_mut().map_or(Ok(true), |output| output.write(printable_lines(text)))
    }

    /// Waits as [`Output::wait`] does.
    pub fn wait(&self, time: Duration) -> Result<bool, Fault> {
        match self.text.as_ref().or(self.json.as_ref()) {
            Some(output) => output.wait(time),
            None => Ok(true),
        }
    }
}

/// Creates a table without rules whose columns `right` are aligned to the right.
pub fn aligned(header: impl Into<Row>, right: impl IntoIterator<Item = usize>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// The text of a table, without trailing blanks and without characters that act on a terminal.
pub fn trimmed(table: &Table) -> String {
    table.lines().map(|line| printable(line.trim_end())).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last column of a line as wide as the terminal was blank.
    #[test]
    fn nothing_is_erased_behind_a_line() {
        assert_eq!(redrawn("ab\nc\n", 3), "\x1b[H\x1b[Kab\n\x1b[Kc\n\x1b[J");
    }

    /// What was taller than the terminal scrolled by at each update, and its head was never seen.
    #[test]
    fn what_is_taller_than_the_terminal_is_cut() {
        let cut = "\x1b[H\x1b[Ka\n\x1b[K... and 2 more lines\n\x1b[J";
        assert_eq!(redrawn("a\nb\nc\n", 3), cut);
        for rows in 1..9 {
            assert!(redrawn("a\nb\nc\nd\n", rows).matches('\n').count() < rows.max(2), "{rows}");
        }
    }
}
