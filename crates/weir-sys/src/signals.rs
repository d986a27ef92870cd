//! Signals in threads of the library's own.

/// Blocks all signals in this thread, so that they go to threads that expect them.
pub fn block_all() {
    // SAFETY: a signal set is integers, for which all-zero bytes are a value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigfillset(&mut set) };
    // SAFETY: as above; a null old set is not written.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
}
