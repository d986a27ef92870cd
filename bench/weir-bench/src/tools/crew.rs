//! Writers beside the measuring process. Each is a forked child that sends its share of a batch and
//! sleeps until the next.

use super::futex::{sleep, wake};
use super::peer::PeerProcess;
use crate::engine::case::{CaseError, Site};
use crate::sys::shared::{LINE_BYTES, SharedPages};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use weir_measure::sys::fork::{self, Child};

/// A number of writer processes.
#[derive(Debug)]
pub struct Crew {
    /// How many records each has to have sent in all; the number wraps around.
    goal: SharedPages,
    troubles: OwnedFd,
    children: Vec<Child>,
}

impl Crew {
    /// Starts `count` writers. When a writer first has something to send, it calls `begin` with its
    /// number, and then the returned closure once for each record.
    pub fn start<S: FnMut() -> Result<(), CaseError>>(
        count: u64,
        begin: impl Fn(u64) -> Result<S, CaseError>,
    ) -> Result<Crew, CaseError> {
        let goal = SharedPages::new(LINE_BYTES)?;
        let (troubles, say) = rustix::pipe::pipe()?;
        let mut children = Vec::new();
        for number in 0..count {
            let alarm = say.try_clone()?;
            children.push(fork::child(|| {
                report_panic(alarm);
                let Err(trouble) = send_on(&goal, || begin(number));
                let _ = rustix::io::write(&say, trouble.text.as_bytes());
                1
            })?);
        }
        Ok(Crew { goal, troubles, children })
    }

    /// Tells each writer to send `share` more records.
    pub fn send(&self, share: u64) -> Result<(), CaseError> {
        if self.children.is_empty() {
            return Ok(());
        }
        let word = self.goal.half(0);
        // Release pairs with acquire in `next_goal`. Both numbers wrap around alike.
        word.fetch_add(share as u32, Ordering::Release);
        wake(word, i32::MAX as u32)
    }

    /// Waits until the other side has reached its goal; fails if it or a writer failed.
    pub fn wait(&self, peer: &PeerProcess) -> Result<(), CaseError> {
        if self.children.is_empty() {
            return peer.wait();
        }
        let mut ends = [&self.troubles, peer.reports()].map(|end| PollFd::new(end, PollFlags::IN));
        retry_on_intr(|| poll(&mut ends, None))?;
        if ends[0].revents().is_empty() {
            return peer.wait();
        }
        let mut said = [0; 512];
        let count = rustix::io::read(&self.troubles, &mut said)?;
        let text = String::from_utf8_lossy(&said[..count]);
        let text = if count == 0 { "all of them died".into() } else { text };
        Err(CaseError::failed(format!("writers: {text}")))
    }
}

/// Makes a panic of this process write to `alarm` before the process ends (see [`fork::child`]).
fn report_panic(alarm: OwnedFd) {
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let _ = rustix::io::write(&alarm, b"a writer panicked");
        end(panic);
    }));
}

/// Puts a writer on one of the two CPUs in turn. The first is across from the reader.
pub fn in_turn(site: &Site, number: u64) -> Result<(), CaseError> {
    if number.is_multiple_of(2) { site.go_here() } else { site.go_there() }
}

/// Sends until the goal is reached, and waits for the next goal.
fn send_on<S: FnMut() -> Result<(), CaseError>>(
    goals: &SharedPages,
    begin: impl FnOnce() -> Result<S, CaseError>,
) -> Result<std::convert::Infallible, CaseError> {
    let mut done = 0;
    let mut goal = next_goal(goals, done)?;
    let mut send = begin()?;
    loop {
        while done != goal {
            send()?;
            done = done.wrapping_add(1);
        }
        goal = next_goal(goals, done)?;
    }
}

fn next_goal(goals: &SharedPages, done: u32) -> Result<u32, CaseError> {
    let word = goals.half(0);
    loop {
        let goal = word.load(Ordering::Acquire);
        if goal != done {
            return Ok(goal);
        }
        sleep(word, goal, None)?;
    }
}
