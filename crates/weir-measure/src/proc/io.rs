//! Parsers of `io` and of the peak in `status`.

/// `/proc/PID/io`: what a process and the descendants it waited for asked for. Bytes moved by
/// `splice` and the like are not counted by the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Bytes that read calls returned.
    pub read_bytes: u64,
    /// Bytes that write calls took.
    pub write_bytes: u64,
    /// Number of read calls.
    pub read_calls: u64,
    /// Number of write calls.
    pub write_calls: u64,
}

impl Io {
    /// Parses the contents of `/proc/PID/io`.
    pub fn parse(text: &[u8]) -> Option<Io> {
        let text = std::str::from_utf8(text).ok()?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':').trim().parse::<u64>().ok()
        };
        Some(Io {
            read_bytes: field("rchar")?,
            write_bytes: field("wchar")?,
            read_calls: field("syscr")?,
            write_calls: field("syscw")?,
        })
    }

    /// Both together.
    pub fn plus(self, other: Io) -> Io {
        Io {
            read_bytes: self.read_bytes + other.read_bytes,
            write_bytes: self.write_bytes + other.write_bytes,
            read_calls: self.read_calls + other.read_calls,
            write_calls: self.write_calls + other.write_calls,
        }
    }
}

/// The peak resident set (`VmHWM`) in the contents of `/proc/PID/status`; a zombie has none.
pub fn peak_rss_bytes(status: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sys::proc::read_small;

    #[test]
    fn reads_the_kernel_s_own_files() {
        let mut buffer = [0; 4096];
        let text = read_small("/proc/self/io", &mut buffer).expect("io");
        assert!(Io::parse(text).expect("parses").read_calls > 0);
        let text = read_small("/proc/self/status", &mut buffer).expect("status");
        assert!(peak_rss_bytes(text).expect("parses") > 100_000);
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(Io::parse(b"rchar: x"), None);
        assert_eq!(peak_rss_bytes(b"VmRSS: 1 kB"), None);
    }
}
