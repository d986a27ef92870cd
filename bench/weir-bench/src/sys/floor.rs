//! System calls that do as little as possible. Their differences show what a system call costs.
//! Each is made directly, without the C library's shortcuts.

use std::os::fd::{AsRawFd, BorrowedFd};

/// A number that no kernel uses: entry, exit, and the look at the table.
const NO_SUCH_CALL: libc::c_long = 100_000;

/// The number of `read(2)`.
pub const READ_CALL: i64 = libc::SYS_read;
/// The number of `write(2)`.
pub const WRITE_CALL: i64 = libc::SYS_write;

/// A call that does not exist.
pub fn no_such_call() {
    // SAFETY: the kernel refuses the number with ENOSYS and touches no memory.
    unsafe { libc::syscall(NO_SUCH_CALL) };
}

/// `getppid(2)`.
pub fn parent_id() -> i64 {
    // SAFETY: getppid(2) takes nothing and touches no memory.
    unsafe { libc::syscall(libc::SYS_getppid) }
}

/// `getuid(2)`.
pub fn user_id() -> i64 {
    // SAFETY: getuid(2) takes nothing and touches no memory.
    unsafe { libc::syscall(libc::SYS_getuid) }
}

/// `read(2)` into `buffer`, of a number that is never open if there is no descriptor; the result is
/// negative after an error.
pub fn read(descriptor: Option<BorrowedFd<'_>>, buffer: &mut [u8]) -> i64 {
    let descriptor = descriptor.map_or(-1, |open| open.as_raw_fd());
    let (start, bytes) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: start and length are those of a slice that is borrowed mutably for the call, and the
    // descriptor is borrowed for it too. The kernel refuses -1 with EBADF.
    unsafe { libc::syscall(libc::SYS_read, descriptor, start, bytes) }
}

/// `pread(2)` of what a file begins with into `buffer`; the result is negative after an error.
pub fn read_first(file: BorrowedFd<'_>, buffer: &mut [u8]) -> i64 {
    let (start, bytes) = (buffer.as_mut_ptr(), buffer.len());
    // SAFETY: as in `read`.
    unsafe { libc::syscall(libc::SYS_pread64, file.as_raw_fd(), start, bytes, 0_i64) }
}

/// `clock_gettime(2)` as a real system call, not through the vDSO.
pub fn clock() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable local of the right type.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `clock_gettime(2)` as the C library does it, through the vDSO where there is one.
pub fn clock_in_user_mode() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live, writable local of the right type.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn they_do_what_they_say() {
        no_such_call();
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        assert_eq!(parent_id(), i64::from(std::os::unix::process::parent_id()));
        let zero = std::fs::File::open("/dev/zero").expect("/dev/zero");
        let mut buffer = [7; 16];
        assert_eq!(read(Some(zero.as_fd()), &mut buffer), 16);
        assert_eq!(buffer, [0; 16]);
        assert_eq!(read(None, &mut buffer), -1);
        let program = std::fs::File::open("/proc/self/exe").expect("this program");
        for _ in 0..2 {
            assert_eq!(read_first(program.as_fd(), &mut buffer), 16);
            assert_eq!(buffer[..4], *b"\x7fELF");
        }
        let (call, user) = (clock(), clock_in_user_mode());
        assert!(user >= call && user - call < 10_000_000_000);
        assert!(user_id() >= 0);
    }
}
