//! POSIX message queues (`mq_overview(7)`), which rustix lacks.

use std::ffi::CString;
use std::io;

/// A queue without a name: it lives as long as someone has it open.
#[derive(Debug)]
pub struct Queue {
    descriptor: libc::mqd_t,
}

impl Queue {
    /// Creates a queue of at most `records` records of at most `record_bytes` bytes.
    ///
    /// # Errors
    /// `ENOSYS` where the kernel has no queues; `EINVAL` above the limits in /proc/sys/fs/mqueue;
    /// `EMFILE` above `RLIMIT_MSGQUEUE`.
    pub fn new(records: usize, record_bytes: usize) -> io::Result<Queue> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let serial = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = CString::new(format!("/weir-bench-{}-{serial}", std::process::id()))?;
        // SAFETY: `mq_attr` is plain integers, for which all-zero bytes are a value.
        let mut limits: libc::mq_attr = unsafe { std::mem::zeroed() };
        limits.mq_maxmsg = records as libc::c_long;
        limits.mq_msgsize = record_bytes as libc::c_long;
        let how = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name is a C string and `limits` a live local of the type O_CREAT asks for.
        let descriptor = unsafe { libc::mq_open(name.as_ptr(), how, 0o600, &limits) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the name is a C string.
        unsafe { libc::mq_unlink(name.as_ptr()) };
        Ok(Queue { descriptor })
    }

    /// Sends a record; waits for room.
    ///
    /// # Errors
    /// `EMSGSIZE` for one that is too long.
    pub fn send(&self, record: &[u8]) -> io::Result<()> {
        // SAFETY: start and length are those of a live slice.
        let done =
            unsafe { libc::mq_send(self.descriptor, record.as_ptr().cast(), record.len(), 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Receives a record into `buffer`, which must have room for the longest; waits for one.
    ///
    /// # Errors
    /// `EMSGSIZE` for a buffer that is too short.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (start, room) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: start and length are those of a slice that is borrowed mutably for the call.
        let got =
            unsafe { libc::mq_receive(self.descriptor, start.cast(), room, std::ptr::null_mut()) };
        if got < 0 { Err(io::Error::last_os_error()) } else { Ok(got as usize) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this queue's own and is not used afterwards.
        unsafe { libc::mq_close(self.descriptor) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_out_whole() {
        let queue = match Queue::new(2, 64) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => return,
            made => made.expect("a queue"),
        };
        queue.send(b"one").expect("sent");
        let mut buffer = [0; 64];
        let got = queue.receive(&mut buffer).expect("received");
        assert_eq!(&buffer[..got], b"one");
        assert!(queue.send(&[0; 65]).is_err());
        assert!(queue.receive(&mut buffer[..8]).is_err());
    }
}
