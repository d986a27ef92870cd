//! Tells of a stall on standard error while it lasts: what `weir why` would say of it.

use crate::why::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, tcgetattr};
use std::io;
use std::time::Duration;
use weir_command::fault::print_message;
use weir_measure::runner::StallNews;

/// Tells of a stall, by one write.
pub fn tell(news: &StallNews) {
    if is_free() {
        print_message(&text(news));
    }
}

fn text(news: &StallNews) -> String {
    let whole = |time: &Duration| format!("{} s", time.as_secs());
    match news {
        StallNews::Begun(still, why) => {
            let answer = words::text(why);
            format!("nothing has moved for {}: {}", whole(still), answer.trim_end())
        }
        StallNews::WentOn(lasted) => format!("it went on after {}", whole(lasted)),
        StallNews::Ended(lasted) => format!("it ended after {}", whole(lasted)),
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
