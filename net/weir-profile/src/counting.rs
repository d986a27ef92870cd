//! The starts and ends of spans and system calls.
//!
//! A program mostly counts after other work has used the caches. So there is one copy of each of
//! these functions, and what it does in a gap comes first and calls nothing.

use super::passed::OpenCall;
use super::thread::{Begin, STATE, with_state};

/// Begins a span; returns the previous row and its depth, which is 0 where nothing is counted.
#[inline(always)]
pub fn enter(row: u32, begin: Begin) -> (u32, u32) {
    STATE.with(
        |state| {
            if state.counts_in_gap() { state.push(row) } else { enter_timed(row, begin) }
        },
    )
}

#[inline(never)]
fn enter_timed(row: u32, begin: Begin) -> (u32, u32) {
    with_state(|state| match state.table() {
        Some(_) if state.begins(begin) => state.push(row),
        _ => (0, 0),
    })
}

pub fn charge_now() {
    with_state(|state| {
        if state.table().is_some() && !state.in_gap() {
            state.begins(Begin::Now);
        }
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SpanEnd {
    /// Now: reads the clock.
    Now,
    /// The last reading, if that was the end of a span or a call within this one. Otherwise now.
    Last,
}

#[inline(never)]
pub fn leave(before: u32, depth: u32, end: SpanEnd) {
    STATE.with(|state| {
        if !state.in_gap() {
            leave_timed(before, depth, end);
        } else if state.depth.get() >= depth {
            state.pop(before, depth);
        }
    });
}

#[inline(never)]
fn leave_timed(before: u32, depth: u32, end: SpanEnd) {
    with_state(|state| {
        // Already ended, by an enclosing span that ended first or by a fork.
        if state.depth.get() < depth {
            return;
        }
        let at_last = end == SpanEnd::Last && state.ended.get();
        if !at_last {
            state.charge(OpenCall::NONE);
        }
        state.pop(before, depth);
    });
}

/// Begins a system call; `None` where nothing is counted.
#[inline(always)]
pub fn begin_call(row: u32, waits: bool, begin: Begin) -> Option<OpenCall> {
    STATE.with(|state| match state.counts_in_gap() {
        true => Some(state.call(row, waits)),
        false => begin_call_timed(row, waits, begin),
    })
}

#[inline(never)]
fn begin_call_timed(row: u32, waits: bool, begin: Begin) -> Option<OpenCall> {
    with_state(|state| match state.table() {
        Some(_) if state.begins(begin) => Some(state.call(row, waits)),
        _ => None,
    })
}

#[inline(never)]
pub fn end_call(call: OpenCall) {
    STATE.with(|state| {
        if state.in_gap() {
            state.ended.set(true);
            state.in_call.set(false);
        } else {
            end_call_timed(call);
        }
    });
}

#[inline(never)]
fn end_call_timed(call: OpenCall) {
    with_state(|state| {
        if !state.in_call.replace(false) {
            return;
        }
        state.ended.set(true);
        state.charge(call);
    });
}
