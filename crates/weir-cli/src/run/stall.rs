//! Tells of a stall on standard error while it lasts: what `weir why` would say of it.

use crate::why::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, tcgetattr};
use std::io;
use weir_command::fault::print_message;
use weir_doctor::stall::Stall;
use weir_measure::runner::StallNews;

/// Tells of a stall, by one write; of its end only where its beginning was shown.
pub fn tell(news: &StallNews, was_shown: &mut bool) {
    let is_end = matches!(news, StallNews::Over { .. });
    let is_due = !is_end || std::mem::take(was_shown);
    if is_due && is_free() {
        print_message(&text(news));
        *was_shown = !is_end;
    }
}

fn text(news: &StallNews) -> String {
    match news {
        StallNews::Begun(still, why) => {
            let answer = words::text(why);
            format!("nothing has moved for {} s: {}", still.as_secs(), answer.trim_end())
        }
        StallNews::Over { stall, went_on, .. } => {
            let what = if *went_on { "went on" } else { "ended" };
            format!("it {what} after {} s", stall.lasted_ns / 1_000_000_000)
        }
    }
}

pub fn keep(longest: &mut Option<Stall>, news: StallNews) {
    if let StallNews::Over { stall, .. } = news
        && longest.as_ref().is_none_or(|other| other.lasted_ns < stall.lasted_ns)
    {
        *longest = Some(*stall);
    }
}

/// Whether standard error can take a text now: it is no pipe that is full, and no terminal on which a
/// program draws or edits a line.
fn is_free() -> bool {
    let stderr = io::stderr();
    let mut set = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let takes = poll(&mut set, Some(&at_once)).is_ok_and(|ready| ready > 0);
    let is_raw = tcgetattr(&stderr).is_ok_and(|it| !it.local_modes.contains(LocalModes::ICANON));
    takes && !is_raw
}
