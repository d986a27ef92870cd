//! Parsers of `io`, of the peak in `status`, and of other files of names and values.

use weir_doctor::facts::Io;
use weir_sys::Pid;
use weir_sys::proc::{read_small, refuse_foreign};

/// The room to begin with for a file whose length nobody knows.
const FIRST_BYTES: usize = 8192;

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
    let text = String::from_utf8_lossy(status);
    let peak = field(&text, "VmHWM")?;
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

/// Reads a file of `/proc` that may be longer than one read returns: its first `most_bytes`; `None`
/// where it is hidden or gone.
pub fn read_whole(path: &str, most_bytes: usize) -> Option<Vec<u8>> {
    use std::io::Read;
    refuse_foreign(path).ok()?;
    let file = std::fs::File::open(path).ok()?;
    let mut text = Vec::with_capacity(most_bytes.min(FIRST_BYTES));
    // What was read before the process ended counts.
    let _ = file.take(most_bytes as u64).read_to_end(&mut text);
    Some(text)
}

/// Returns the words of the command of process `pid`, from the first `most_bytes` of them; none
/// where it has ended, or is hidden, or is a thread of the kernel. A process that wrote its title
/// over its words has empty ones.
pub fn words(pid: Pid, most_bytes: usize) -> Vec<String> {
    let mut buffer = vec![0; most_bytes];
    // One read returns as much of this file as there is room for.
    let text = read_small(&format!("/proc/{pid}/cmdline"), &mut buffer);
    words_in(text.unwrap_or_default())
}

/// Splits a text into its words, which end with a byte of zero, as in `cmdline` and `environ`.
pub fn words_in(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).split_terminator('\0').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernel_s_own_files() {
        let mut buffer = [0; 4096];
        let text = read_small("/proc/self/io", &mut buffer).expect("io");
        assert!(parse_io(text).expect("parses").read_calls > 0);
        let text = read_small("/proc/self/status", &mut buffer).expect("status");
        assert!(peak_rss_bytes(text).expect("parses") > 100_000);
    }

    #[test]
    fn a_file_is_read_whole_or_as_far_as_there_is_room() {
        let whole = std::fs::read("/proc/self/maps").expect("maps");
        assert!(read_whole("/proc/self/maps", 1 << 20).expect("maps").len() > whole.len() / 2);
        assert_eq!(read_whole("/proc/self/maps", 5).expect("maps"), whole[..5]);
        assert_eq!(read_whole("/proc/self/nothing", 5), None);
    }

    #[test]
    fn the_words_of_a_command_are_those_that_started_it() {
        let own: Vec<String> = std::env::args().collect();
        let me = std::process::id() as Pid;
        assert_eq!(words(me, 1 << 16), own);
        assert_eq!(words(me, 3), [own[0][..3].to_owned()]);
        assert_eq!(words(Pid::MAX, 100), [] as [&str; 0]);
        assert_eq!(words_in(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(words_in(b"cut\0of"), ["cut", "of"]);
    }

    /// The kernel cuts a name after 15 bytes, within a character as well. The peak of its process was
    /// not known then.
    #[test]
    fn a_name_that_is_no_text_hides_no_peak() {
        assert_eq!(peak_rss_bytes(b"Name:\t\xc3\nVmHWM:\t      12 kB\n"), Some(12 * 1024));
    }

    #[test]
    fn nonsense_is_none() {
        assert_eq!(parse_io(b"rchar: x"), None);
        assert_eq!(peak_rss_bytes(b"VmRSS: 1 kB"), None);
    }
}
