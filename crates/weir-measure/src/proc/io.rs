//! Parsers of `io`, of the peak in `status`, and of other files of names and values.

use weir_doctor::facts::Io;

/// Parses the contents of `/proc/PID/io`: the transfers of a process and of the descendants it
/// waited for.
pub fn parse_io(text: &[u8]) -> Option<Io> {
    let text = std::str::from_utf8(text).ok()?;
    let number = |name: &str| field(text, name)?.parse().ok();
    Some(Io {
        read_bytes: number("rchar")?,
        write_bytes: number("wchar")?,
        read_calls: number("syscr")?,
        write_calls: number("syscw")?,
    })
}

/// Parses the peak resident set (`VmHWM`) in the contents of `/proc/PID/status`; a zombie has none.
pub fn peak_rss_bytes(status: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(status).ok()?;
    let peak = field(text, "VmHWM")?;
    Some(peak.trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// Returns the text after `name` and a colon.
pub fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    Some(pairs.find(|(known, _)| known.trim() == name)?.1.trim())
}

/// Returns the number after `name` and a blank.
pub fn number(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(known, _)| *known == name)?.1.trim().parse().ok()
}

/// Reads a file of `/proc` that may be longer than one read returns, as far as the buffer reaches.
pub fn read_whole<'b>(path: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    use std::io::Read;
    let file = std::fs::File::open(path).ok()?;
    let (mut file, mut filled) = (file.take(buffer.len() as u64), 0);
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]).ok()? {
            0 => break,
            n => filled += n,
        }
    }
    Some(&buffer[..filled])
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
