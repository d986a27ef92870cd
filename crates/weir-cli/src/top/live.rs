//! The live view: looks, draws, and listens to keys and signals.

use super::app::{Action, App, Line, Style};
use super::keys::pending;
use super::rows::Collector;
use super::screen::{Screen, restore};
use super::table::View;
use crate::why;
use anstyle::{AnsiColor, Effects};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weir_command::fault::Fault;
use weir_command::signals::CaughtSignals;
use weir_command::terminal::{has_screen, wants_colour};
use weir_measure::sys::signals::die_of;

/// The first rates come soon.
const FIRST: Duration = Duration::from_millis(300);
/// How long the loop may take to end by a signal.
const PATIENCE: Duration = Duration::from_secs(2);
/// The signals that end the command.
const ENDS: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// The signals after which the loop draws anew.
const HEEDED: [i32; 3] = [SIGTSTP, SIGCONT, SIGWINCH];

/// What the loop is to do next.
enum Next {
    Draw,
    End,
}

/// The terminals for output and for keys, if there are both and a whole screen can be drawn.
pub fn terminals() -> Option<(OwnedFd, OwnedFd)> {
    if !has_screen() || !std::io::stdout().is_terminal() {
        return None;
    }
    let output = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    let input = if std::io::stdin().is_terminal() {
        std::io::stdin().as_fd().try_clone_to_owned().ok()?
    } else {
        openat(CWD, "/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?
    };
    Some((output, input))
}

/// Shows the live view until a key or a signal ends it.
pub fn live(
    view: View,
    interval: Duration,
    (output, input): (OwnedFd, OwnedFd),
) -> Result<ExitCode, Fault> {
    let heard = CaughtSignals::start(&ENDS, &HEEDED, PATIENCE, restore)?;
    let screen = Screen::enter(output)?;
    let colour = wants_colour(true);
    let (mut collector, mut app) = (Collector::new(), App::new(view));
    app.update(collector.snapshot(app.view.all));
    let mut due = Instant::now() + FIRST.min(interval);
    loop {
        // A terminal that is gone shows nothing.
        if screen.write(drawn(&app.frame(screen.size()), colour).as_bytes()).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        let left = due.saturating_duration_since(Instant::now());
        let events = match wait(&input, &heard, left) {
            Waited::Nothing => Ok(Vec::new()),
            Waited::Keys => pending(),
            Waited::Gone => return Ok(ExitCode::SUCCESS),
        };
        let Ok(events) = events else { return Ok(ExitCode::SUCCESS) };
        let came = heard.take();
        if let Some(signal) = heard.end() {
            restore();
            let _ = die_of(signal);
        }
        let (stops, continues) = (came.has(SIGTSTP), came.has(SIGCONT));
        if stops && screen.stop(false).is_err() || continues && screen.resume().is_err() {
            return Ok(ExitCode::SUCCESS);
        }
        for event in events {
            match act(app.event(event), &mut app, &screen, &mut due) {
                Next::Draw => {}
                Next::End => return Ok(ExitCode::SUCCESS),
            }
        }
        if Instant::now() >= due {
            due = Instant::now() + interval;
            if app.is_sampling() {
                app.update(collector.snapshot(app.view.all));
            }
        }
    }
}

fn act(action: Action, app: &mut App, screen: &Screen, due: &mut Instant) -> Next {
    match action {
        Action::None => {}
        Action::Quit => return Next::End,
        Action::Stop if screen.stop(true).is_err() => return Next::End,
        Action::Stop => {}
        Action::Look => *due = Instant::now(),
        Action::Why(pid) => app.show_message(why::answer_for(pid)),
    }
    Next::Draw
}

/// What came first.
enum Waited {
    Keys,
    /// A signal, or the end of the time.
    Nothing,
    Gone,
}

/// Waits for keys, a signal, or the end of the time.
fn wait(input: &OwnedFd, heard: &CaughtSignals, time: Duration) -> Waited {
    let bell = heard.bell();
    let mut set = [PollFd::new(input, PollFlags::IN), PollFd::new(&bell, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    match poll(&mut set, time.as_ref()) {
        Ok(0) | Err(Errno::INTR) => Waited::Nothing,
        Ok(_) if set[1].revents().contains(PollFlags::IN) => Waited::Nothing,
        Ok(_) if set[0].revents() == PollFlags::IN => Waited::Keys,
        _ => Waited::Gone,
    }
}

/// The bytes of a frame. Each line is written over the one before, so nothing flickers. The lines
/// fill the screen: to erase what is behind one would erase its last column, where the cursor is.
fn drawn(lines: &[Line], colour: bool) -> String {
    let mut text = String::from("\x1b[H");
    for (at, (line, style)) in lines.iter().enumerate() {
        if at > 0 {
            text.push_str("\r\n");
        }
        let look = match style {
            Style::Plain => anstyle::Style::new(),
            Style::Bold => Effects::BOLD.into(),
            Style::Reverse => Effects::INVERT.into(),
            Style::Stuck if colour => AnsiColor::Yellow.on_default(),
            Style::Stuck => Effects::BOLD.into(),
        };
        text.push_str(&format!("{look}{line}{look:#}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last column was blank: "writer" became "write" at 80 columns.
    #[test]
    fn nothing_is_erased_behind_a_line_that_fills_the_screen() {
        let lines = [(String::from("abc"), Style::Plain), (String::from("def"), Style::Bold)];
        let text = drawn(&lines, true);
        assert!(text.contains("abc\r\n") && text.contains("def"), "{text:?}");
        assert!(!text.contains("\x1b[K") && !text.contains("\x1b[J"), "{text:?}");
    }
}
