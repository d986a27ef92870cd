//! Signals in the library's own threads.

/// Blocks all signals in this thread, so that other threads get them.
pub fn block_all() {
    // SAFETY: a signal set holds integers; all-zero bytes are a valid value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set.
    unsafe { libc::sigfillset(&mut set) };
    // SAFETY: as above; a null old set is not written.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
}
