//! Parser of `io`; see proc_pid_io(5).

use super::ProcContents;
use super::text::field;

/// What a process, and the descendants that it waited for, or one thread has read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Calls that read.
    pub read_calls: u64,
    /// Calls that write.
    pub write_calls: u64,
}

impl ProcContents for Io {
    const FILE: &str = "io";

    fn parse(text: &[u8]) -> Option<Io> {
        let text = std::str::from_utf8(text).ok()?;
        let number = |name: &str| field(text, name)?.parse().ok();
        Some(Io {
            read_bytes: number("rchar")?,
            write_bytes: number("wchar")?,
            read_calls: number("syscr")?,
            write_calls: number("syscw")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::ProcDir;

    #[test]
    fn this_process_has_read() {
        assert!(Io::of(ProcDir::This).expect("io").read_calls > 0);
        assert_eq!(Io::parse(b"rchar: x"), None);
    }
}
