//! Flags: 64 of them in one word, to set, clear and wait for.
//!
//! A forked child shares the flags of its parent.

use crate::arguments::{self, descriptor, free, given, handle_place, held, place, timeout};
use crate::error::{call, invalid, weir_status};
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use weir::{Error, Flags};

const FLAGS: &str = "flags";
/// Waits until all flags of the mask are set at once. Without it: until any is.
pub const WEIR_ALL: u32 = 1;
/// Clears the flags that were waited for, in the same step: each goes to one of several that wait.
pub const WEIR_CLEAR: u32 = 2;

/// A cluster of 64 flags.
pub struct weir_flags(pub(crate) Flags);

fn put(to: &mut *mut weir_flags, flags: Flags) {
    *to = held(weir_flags(flags));
}

/// Makes flags in shared memory, for this process, the children that it forks, and those that get the
/// descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_create(
    flags: Option<&mut MaybeUninit<*mut weir_flags>>,
) -> weir_status {
    call(|| {
        let to = handle_place(flags)?;
        put(to, Flags::shared()?);
        Ok(())
    })
}

/// Opens the flags of this path. If there are none, makes them, all clear, for this user alone. They
/// exist until the file is removed. Who may write the file is trusted not to truncate it: that would
/// end its users by SIGBUS.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_named(
    path: *const c_char,
    flags: Option<&mut MaybeUninit<*mut weir_flags>>,
) -> weir_status {
    call(|| {
        let to = handle_place(flags)?;
        // SAFETY: C promises a string.
        let path = unsafe { arguments::path(path) }?;
        put(to, Flags::named(path)?);
        Ok(())
    })
}

/// Opens flags by a copy of the descriptor of their memory.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_open(
    memory: c_int,
    flags: Option<&mut MaybeUninit<*mut weir_flags>>,
) -> weir_status {
    call(|| {
        let to = handle_place(flags)?;
        let copy = descriptor(memory)?.try_clone_to_owned();
        let copy = copy.map_err(|cause| Error::os("open", FLAGS, cause))?;
        put(to, Flags::open(copy)?);
        Ok(())
    })
}

/// Stores the descriptor of the memory, for other processes. It belongs to the flags, is closed on
/// exec, and cannot be polled.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_memory(
    flags: Option<&weir_flags>,
    memory: Option<&mut MaybeUninit<c_int>>,
) -> weir_status {
    call(|| {
        let to = place(memory, -1, "a descriptor")?;
        let memory = given(flags, FLAGS)?.0.memory_descriptor();
        *to = memory.ok_or_else(|| invalid(FLAGS, "they are not shared"))?.as_raw_fd();
        Ok(())
    })
}

/// Sets the flags of the mask and wakes those that wait for them. `before`, which may be NULL, gets the
/// state before.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_set(
    flags: Option<&weir_flags>,
    mask: u64,
    before: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        let was = given(flags, FLAGS)?.0.set(mask);
        before.map(|before| before.write(was));
        Ok(())
    })
}

/// Clears the flags of the mask. `before`, which may be NULL, gets the state before.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_clear(
    flags: Option<&weir_flags>,
    mask: u64,
    before: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        let was = given(flags, FLAGS)?.0.clear(mask);
        before.map(|before| before.write(was));
        Ok(())
    })
}

/// Stores the state.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_read(
    flags: Option<&weir_flags>,
    state: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        *place(state, 0, "a state")? = given(flags, FLAGS)?.0.read();
        Ok(())
    })
}

/// Waits until any flag of the mask is set. `how` is 0, WEIR_ALL, WEIR_CLEAR, or both of these. `found`,
/// which may be NULL, gets the flags of the mask that were set.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_wait(
    flags: Option<&weir_flags>,
    mask: u64,
    how: u32,
    timeout_ns: i64,
    found: Option<&mut MaybeUninit<u64>>,
) -> weir_status {
    call(|| {
        let (flags, timeout) = (&given(flags, FLAGS)?.0, timeout(timeout_ns));
        let all_and_clear = WEIR_ALL | WEIR_CLEAR;
        let got = match how {
            0 => flags.wait_any_timeout(mask, timeout),
            WEIR_ALL => flags.wait_all_timeout(mask, timeout),
            WEIR_CLEAR => flags.wait_and_clear_timeout(mask, timeout),
            _ if how == all_and_clear => flags.wait_all_and_clear_timeout(mask, timeout),
            _ => Err(invalid(FLAGS, "how to wait is WEIR_ALL, WEIR_CLEAR or both")),
        }?;
        found.map(|found| found.write(got));
        Ok(())
    })
}

/// Frees these flags. Others that share them keep them.
#[unsafe(no_mangle)]
pub extern "C" fn weir_flags_free(flags: Option<Box<weir_flags>>) {
    free(flags);
}
