//! Room for pipes: the pipes of a user share what `fs.pipe-user-pages-soft` allows.
//!
//! Once it is used up, each new pipe of the user holds 8 KiB, whoever makes it. So one is enlarged only
//! where enough is left for others.

use crate::machine::{page_bytes, pipe_limit_bytes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::fmt::{self, Display, Formatter};
use weir_sys::proc::sysctl;

/// The part of what a user's pipes may hold that is left to other pipes, and in how many pieces that is
/// asked for at most.
const LEFT_PART: u64 = 8;
const MOST_PIECES: u64 = 8;

/// Why a pipe is not as large as was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No pipe may be so large (`fs.pipe-max-size`).
    TooLarge,
    /// This user's pipes have used up what they may hold.
    UsedUp,
    /// Too little would be left for this user's other pipes.
    NeededByOthers,
    /// The kernel said so.
    Kernel(Errno),
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLarge => "fs.pipe-max-size allows no larger ones",
            Refusal::UsedUp => "this user's pipes have used up fs.pipe-user-pages-soft",
            Refusal::NeededByOthers => {
                "larger ones would leave this user's other pipes little of fs.pipe-user-pages-soft"
            }
            Refusal::Kernel(error) => return write!(f, "the kernel refused larger ones ({error})"),
        })
    }
}

/// Returns the size with which the kernel makes a pipe.
pub fn usual_bytes() -> u64 {
    16 * page_bytes()
}

/// Sets the size of a pipe, unless the user's other pipes would lack what it takes.
pub fn resize(pipe: impl AsFd, bytes: u64) -> Result<(), Refusal> {
    let set = || fcntl_setpipe_size(&pipe, bytes as usize).map(drop);
    let is_set = match bytes {
        _ if bytes > pipe_limit_bytes() => return set().map_err(|_| Refusal::TooLarge),
        _ if bytes <= usual_bytes() => set(),
        // What others need is taken for a moment, and the pipe enlarged beside it. Those who may
        // exceed the limit are refused nothing.
        _ => take_for_others(pages_for_others()).and_then(|_taken| set()),
    };
    is_set.map_err(|error| match error {
        Errno::PERM if is_usual(&pipe) => Refusal::NeededByOthers,
        Errno::PERM => Refusal::UsedUp,
        error => Refusal::Kernel(error),
    })
}

/// Whether a pipe is at least as large as the kernel makes them.
fn is_usual(pipe: impl AsFd) -> bool {
    fcntl_getpipe_size(pipe).is_ok_and(|size| size as u64 >= usual_bytes())
}

/// Returns how many pages are left to other pipes: none where their number is not limited.
fn pages_for_others() -> u64 {
    sysctl("fs.pipe-user-pages-soft").map_or(0, |pages: u64| pages / LEFT_PART)
}

/// Takes so many pages for pipes, or as many as this process has descriptors for.
fn take_for_others(pages: u64) -> Result<Vec<(OwnedFd, OwnedFd)>, Errno> {
    let piece = (pipe_limit_bytes() / page_bytes()).max(1);
    let mut taken = Vec::new();
    for _ in 0..(pages / piece).min(MOST_PIECES) {
        let Ok(ends) = pipe_with(PipeFlags::CLOEXEC) else { break };
        fcntl_setpipe_size(&ends.1, (piece * page_bytes()) as usize)?;
        taken.push(ends);
    }
    Ok(taken)
}
