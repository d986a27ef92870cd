//! Parsers of `io` and of the peak in `status`.

use weir_doctor::facts::Io;

/// Parses the contents of `/proc/PID/io`: what a process and the descendants it waited for asked
/// for.
pub fn parse_io(text: &[u8]) -> Option<Io> {
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
        assert!(parse_io(text).expect("parses").read_calls > 0);
        let text = read_small("/proc/self/status", &mut buffer).expect("status");
        assert!(peak_rss_bytes(text).expect("parses") > 100_000);
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(parse_io(b"rchar: x"), None);
        assert_eq!(peak_rss_bytes(b"VmRSS: 1 kB"), None);
    }
}
