//! The pool's thread. It begins transfers and tells the policy when they are done.

use super::core::{Core, TransferJob};
use crate::error::{Error, Result};
use crate::memory::{Failure, FrameLoan, FrameTransfers};
use crate::park::ready::wait_for_any;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::sync::Arc;
use weir_policy::pool::PoolEvent;
use weir_sys::bell;
use weir_sys::spill::TransferDirection;

/// Describes in one line what moves frames, and why nothing better does.
pub fn describe(transfers: &FrameTransfers) -> String {
    let cache = if transfers.is_direct() { "O_DIRECT" } else { "cached" };
    let mut line = format!("{}, {cache}", transfers.engine());
    if transfers.verifies() {
        line.push_str(", with checksums");
    }
    transfers.remarks().iter().for_each(|remark| {
        line.push_str("; ");
        line.push_str(remark);
    });
    line
}

pub fn start(core: Arc<Core>, transfers: FrameTransfers) -> Result<()> {
    let started = weir_sys::threads::start("weir-pool", move || run(&core, transfers));
    started.map(drop).map_err(|cause| Error::os("start", "the thread of a pool", cause))
}

fn run(core: &Core, mut transfers: FrameTransfers) {
    weir_sys::signals::block_all();
    let mut done: Vec<(u64, Option<Failure>)> = Vec::with_capacity(transfers.room());
    let mut jobs: Vec<TransferJob> = Vec::with_capacity(transfers.room());
    let mut loans = Vec::with_capacity(weir_sys::spill::MOST_PIECES);
    loop {
        transfers.completed(|token, result| done.push((token, result.err())));
        let deadline = {
            let mut state = core.lock();
            if state.stopping {
                return;
            }
            state.idle = false;
            let deadline = core.deadline(&state);
            if done.is_empty() && deadline.is_some() {
                core.on(&mut state, PoolEvent::Tick);
            }
            for (token, failure) in done.drain(..) {
                let fault = failure.map(|failure| state.fault_of(failure));
                core.on(&mut state, PoolEvent::Done { transfer: token as u32, fault });
            }
            jobs.extend(state.jobs.drain(..));
            state.idle = jobs.is_empty();
            core.deadline(&state)
        };
        let is_idle = jobs.is_empty();
        for job in jobs.drain(..) {
            if !begin(core, &mut transfers, &job, &mut loans) {
                // The policy gives the frames to others when it hears of it.
                loans.clear();
                done.push((job.transfer.into(), Some(Failure::Os(Errno::IO))));
            }
        }
        transfers.submit();
        if is_idle && !wait(core, &transfers, deadline) {
            return;
        }
    }
}

/// Begins a transfer: whether it could. The policy lets nobody else use its frames meanwhile.
fn begin(
    core: &Core,
    transfers: &mut FrameTransfers,
    job: &TransferJob,
    loans: &mut Vec<FrameLoan>,
) -> bool {
    let direction =
        if job.of.writes { TransferDirection::ToDisk } else { TransferDirection::FromDisk };
    for &frame in job.of.frames() {
        let Some(loan) = core.frames.lend(frame, direction) else { return false };
        loans.push(loan);
    }
    let offset = u64::from(job.of.slot) * core.frames.frame_bytes() as u64;
    transfers.start(job.transfer.into(), offset, loans)
}

/// Waits for the disk, for new transfers, or for the deadline.
fn wait(core: &Core, transfers: &FrameTransfers, deadline: Option<std::time::Duration>) -> bool {
    let Some(completions) = transfers.descriptor() else { return false };
    let kicked = core.kicked();
    let mut descriptors = [
        PollFd::from_borrowed_fd(completions, PollFlags::IN),
        PollFd::from_borrowed_fd(kicked, PollFlags::IN),
    ];
    wait_for_any(&mut descriptors, deadline);
    if descriptors[1].revents().contains(PollFlags::IN) {
        bell::clear(kicked);
    }
    true
}
