//! A robust mutex of POSIX threads in memory shared with forked children: the next holder learns
//! that the last one died.

use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use weir_sys::mapping::{Mapping, Sharing};

/// The mutex. Processes forked after it was made have it too.
///
/// Its memory stays mapped for ever: a forgotten lock stays on the C library's list of the locks
/// that this thread holds, and the next lock walks and writes that list.
#[derive(Debug)]
pub struct RobustMutex {
    mapping: ManuallyDrop<Mapping>,
}

/// While this value lives, the mutex is held.
#[derive(Debug)]
pub struct RobustGuard<'m> {
    mutex: &'m RobustMutex,
    after_a_death: bool,
    // The thread that took the mutex must release it.
    _same_thread: PhantomData<*const ()>,
}

impl RobustMutex {
    /// Those of mmap(2) and pthread_mutex_init(3).
    pub fn new() -> io::Result<RobustMutex> {
        let mapping = Mapping::new(size_of::<libc::pthread_mutex_t>(), Sharing::Shared)?;
        let mutex = RobustMutex { mapping: ManuallyDrop::new(mapping) };
        let mut how = std::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let how = how.as_mut_ptr();
        // SAFETY: `how` points to a live local of the type that is initialised here.
        check(unsafe { libc::pthread_mutexattr_init(how) })?;
        // SAFETY: initialised above.
        check(unsafe { libc::pthread_mutexattr_setpshared(how, libc::PTHREAD_PROCESS_SHARED) })?;
        // SAFETY: as above.
        check(unsafe { libc::pthread_mutexattr_setrobust(how, libc::PTHREAD_MUTEX_ROBUST) })?;
        // SAFETY: the mapping is as large as a mutex, aligned to a page, and nobody else has it
        // yet; the attributes are initialised.
        check(unsafe { libc::pthread_mutex_init(mutex.place(), how) })?;
        // SAFETY: initialised above and not used afterwards.
        check(unsafe { libc::pthread_mutexattr_destroy(how) })?;
        Ok(mutex)
    }

    fn place(&self) -> *mut libc::pthread_mutex_t {
        self.mapping.start().cast()
    }

    /// Locks the mutex; waits while another holds it.
    ///
    /// Those of pthread_mutex_lock(3), except `EOWNERDEAD`, which [`RobustGuard`] reports.
    #[inline]
    pub fn lock(&self) -> io::Result<RobustGuard<'_>> {
        // SAFETY: an initialised mutex that is mapped for ever.
        let code = unsafe { libc::pthread_mutex_lock(self.place()) };
        let after_a_death = code == libc::EOWNERDEAD;
        if after_a_death {
            // SAFETY: this thread holds the mutex, as EOWNERDEAD says.
            check(unsafe { libc::pthread_mutex_consistent(self.place()) })?;
        } else {
            check(code)?;
        }
        Ok(RobustGuard { mutex: self, after_a_death, _same_thread: PhantomData })
    }
}

impl RobustGuard<'_> {
    /// Whether the last holder died while it held the mutex.
    pub fn after_a_death(&self) -> bool {
        self.after_a_death
    }
}

impl Drop for RobustGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread holds the mutex: a `RobustGuard` stays where it was made.
        unsafe { libc::pthread_mutex_unlock(self.mutex.place()) };
    }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_forgotten_outlives_its_mutex() {
        let other = RobustMutex::new().expect("made");
        {
            let forgotten = RobustMutex::new().expect("made");
            std::mem::forget(forgotten.lock().expect("taken"));
        }
        // Locking another mutex writes into the forgotten one.
        assert!(!other.lock().expect("taken").after_a_death());
    }

    #[test]
    fn who_comes_after_a_dead_holder_is_told() {
        let mutex = RobustMutex::new().expect("made");
        assert!(!mutex.lock().expect("taken").after_a_death());
        // SAFETY: the child takes a mutex that nobody holds, makes no other call, and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let held = mutex.lock();
            std::mem::forget(held);
            // SAFETY: _exit(2) has no preconditions.
            unsafe { libc::_exit(0) };
        }
        weir_measure::sys::wait::reap_blocking(pid).expect("reaped");
        assert!(mutex.lock().expect("taken").after_a_death(), "the child died with it");
        assert!(!mutex.lock().expect("taken").after_a_death(), "it is sound again");
    }
}
