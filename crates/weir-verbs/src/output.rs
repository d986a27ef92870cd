//! What a verb prints: to people on standard output, to programs where `--json` says.
//!
//! Nothing is buffered by line, and output that nobody reads any more is given up without a word.
//! What is printed holds text that others chose: names of processes and files, reports of others.
//! Nothing of it reaches a terminal as a control character: here, in [`crate::json`], and for
//! messages on standard error in [`crate::fault::tell`].

use crate::args::JsonOption;
use crate::fault::Fault;
use crate::json;
use comfy_table::{CellAlignment, Row, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use serde::Serialize;
use signal_hook::consts::SIGPIPE;
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use weir_measure_sys::signals::{die_of, is_ignored};
use weir_policy::text::{printable, printable_lines};

/// Writes text for people to standard output; a reader that has seen enough is no error.
pub fn print(text: &str) -> Result<(), Fault> {
    Output::stdout()?.write(printable_lines(text)).map(drop)
}

/// Writes text for people to standard error; nobody to read it is no error.
pub fn print_err(text: &str) {
    let _ = io::stderr().lock().write_all(printable_lines(text).as_bytes());
}

/// Writes JSON to standard output; a reader that has seen enough is no error.
pub fn print_json(text: &str) -> Result<(), Fault> {
    Output::stdout()?.write(json::escaped(text).as_ref()).map(drop)
}

/// Standard output, or a file.
#[derive(Debug)]
pub struct Output {
    file: File,
    /// Nothing for standard output.
    path: Option<PathBuf>,
}

impl Output {
    /// Standard output, by a descriptor of its own: the standard library prints at every newline.
    pub fn stdout() -> Result<Output, Fault> {
        let own: OwnedFd =
            io::stdout().as_fd().try_clone_to_owned().map_err(|error| unwritten(None, error))?;
        Ok(Output { file: own.into(), path: None })
    }

    /// A file, which is made, or emptied.
    pub fn create(path: &Path) -> Result<Output, Fault> {
        let file = File::create(path).map_err(|error| unwritten(Some(path), error))?;
        Ok(Output { file, path: Some(path.to_owned()) })
    }

    /// What the option `--json` names, if it is given. A verb opens that before its work, so that a
    /// bad name is told at once.
    pub fn open(option: &JsonOption) -> Result<Option<Output>, Fault> {
        match &option.file {
            None => Ok(None),
            Some(_) if option.is_stdout() => Output::stdout().map(Some),
            Some(path) => Output::create(path).map(Some),
        }
    }

    /// Where records go, which are printed in one form only: as JSON where the option says, and
    /// otherwise to standard output.
    pub fn of_records(option: &JsonOption) -> Result<Output, Fault> {
        Output::open(option)?.map_or_else(Output::stdout, Ok)
    }

    /// Writes all of it. False when nobody reads it any more.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<bool, Fault> {
        match self.file.write_all(bytes.as_ref()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            written => {
                written.map(|()| true).map_err(|error| unwritten(self.path.as_deref(), error))
            }
        }
    }

    /// Waits that long, less than a second; false, and at once, when nobody reads what would be
    /// written: a pipe without a reader says so before it is written to.
    pub fn wait(&self, time: Duration) -> Result<bool, Fault> {
        let mut asked = [PollFd::new(&self.file, PollFlags::empty())];
        // Fits: pauses are short.
        let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut asked, Some(&time)) {
            Err(rustix::io::Errno::INTR) => Ok(true),
            found => {
                found.map_err(|cause| unwritten(self.path.as_deref(), cause))?;
                Ok(!asked[0].revents().contains(PollFlags::ERR))
            }
        }
    }

    /// Dies of SIGPIPE, as others in a pipeline do.
    pub fn die() -> ExitCode {
        die(SIGPIPE)
    }
}

/// Dies of a signal.
pub fn die(signal: i32) -> ExitCode {
    // If it does not kill (it is blocked), the status says the same.
    let _ = die_of(signal);
    ExitCode::from(128 + signal as u8)
}

/// Hears signals in a thread of their own, except those ignored when weir was started.
pub fn hear_beside(all: &[i32], mut hear: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(all.iter().filter(|signal| !is_ignored(**signal)))?;
    let listen = move || signals.forever().for_each(&mut hear);
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(drop)
}

/// A bar of progress on standard error, where that is a terminal and the bar is wanted.
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

/// An error that names what could not be written.
fn unwritten(path: Option<&Path>, error: impl Into<io::Error>) -> Fault {
    let error = error.into();
    Fault::failed(match path {
        Some(path) => format!("cannot write '{}': {error}", path.display()),
        None => format!("cannot write to standard output: {error}"),
    })
}

/// Text for people in place of what stands on the terminal.
fn redrawn(text: &str) -> String {
    let mut screen = String::from("\x1b[H");
    for line in printable_lines(text).lines() {
        screen += line;
        screen += "\x1b[K\n";
    }
    screen + "\x1b[J"
}

/// Where a verb says what it found: text to standard output, and JSON where the option says. If
/// that is standard output, there is no text.
#[derive(Debug)]
pub struct Outlet {
    text: Option<Output>,
    json: Option<Output>,
    in_lines: bool,
    in_place: bool,
}

impl Outlet {
    /// Opened before a verb does its work, so that a bad name is told at once.
    pub fn open(option: &JsonOption) -> Result<Outlet, Fault> {
        let text = if option.is_stdout() { None } else { Some(Output::stdout()?) };
        Ok(Outlet { text, json: Output::open(option)?, in_lines: false, in_place: false })
    }

    /// Each document on a line, for verbs that write several.
    pub fn in_lines(self, in_lines: bool) -> Outlet {
        Outlet { in_lines, ..self }
    }

    /// Text in place of what stands on the terminal, where standard output is one.
    pub fn in_place(self, in_place: bool) -> Outlet {
        Outlet { in_place: in_place && io::stdout().is_terminal(), ..self }
    }

    /// Whether people read what is found.
    pub fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Says it. False when nobody reads it any more.
    pub fn say<B: Serialize>(
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
            Some(output) if self.in_place => output.write(redrawn(&text())),
            Some(output) => output.write(printable_lines(&text())),
            None => Ok(true),
        }
    }

    /// Says something to people only. False when nobody reads it any more.
    pub fn tell(&mut self, text: &str) -> Result<bool, Fault> {
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

/// A table without lines, in which the columns of these numbers stand to the right.
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

/// A table without the blanks at the ends of its lines, and with nothing in it that a terminal acts
/// on.
pub fn trimmed(table: &Table) -> String {
    table.lines().map(|line| printable(line.trim_end())).collect::<Vec<_>>().join("\n")
}
