//! Parser of `/proc/PID/syscall` (kernel: `proc_pid_syscall`).

use super::{ProcContents, ProcDir};
use rustix::io::Errno;

/// The activity of a task at the moment of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// On a CPU, or waiting for one.
    Running,
    /// Blocked, but not in a system call: a page fault, or stopped.
    NotInCall,
    /// Blocked in the system call of this number with these arguments.
    Call(i64, [u64; 6]),
    /// This process may not see it.
    Hidden,
}

impl ProcContents for Blocked {
    const FILE: &str = "syscall";

    /// Reads that of a task; `None` where it has ended.
    fn of(dir: impl Into<ProcDir>) -> Option<Blocked> {
        match dir.into().read(Blocked::FILE, Blocked::parse) {
            Err(Errno::PERM | Errno::ACCESS) => Some(Blocked::Hidden),
            read => read.ok(),
        }
    }

    fn parse(text: &[u8]) -> Option<Blocked> {
        let text = std::str::from_utf8(text).ok()?.trim_end();
        if text == "running" {
            return Some(Blocked::Running);
        }
        let mut fields = text.split_ascii_whitespace();
        let number: i64 = fields.next()?.parse().ok()?;
        if number < 0 {
            return Some(Blocked::NotInCall);
        }
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Blocked::Call(number, args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms() {
        assert_eq!(Blocked::parse(b"running\n"), Some(Blocked::Running));
        assert_eq!(Blocked::parse(b"-1 0x7ffe 0x7f00\n"), Some(Blocked::NotInCall));
        let call = b"0 0x3 0x7ffd10 0x1000 0x0 0x22 0xffffffff 0x7ffe 0x7f00\n";
        let args = [3, 0x7f_fd10, 0x1000, 0, 0x22, 0xffff_ffff];
        assert_eq!(Blocked::parse(call), Some(Blocked::Call(0, args)));
    }

    #[test]
    fn a_line_cut_short_is_none() {
        assert_eq!(Blocked::parse(b"0 0x3 0x7ffd10"), None);
        assert_eq!(Blocked::parse(b""), None);
    }
}
