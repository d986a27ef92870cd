//! Output that a program has produced and not written yet.
//!
//! The C library gathers output in the buffer of `stdout` while that is not a terminal. How much is
//! in there can be read from the process's memory: the structure `FILE` of glibc, whose first
//! members have kept their places since 1997 (glibc: `libio/bits/types/struct_FILE.h`).

use crate::bytes::{long, word};
use crate::program::elf::{self, Elf, Symbol};
use crate::program::is_served;
use crate::sys::memory::read_remote;
use object::elf::SHT_DYNSYM;
use object::read::elf::Sym;
use object::{NativeEndian as Native, ReadCache};
use weir_doctor::programs::has_own_buffer;
use weir_doctor::why::HeldBack;
use weir_sys::Pid;
use weir_sys::proc::{FileKind, Io, Mapping, Mappings, ProcContents, descriptor, seen_by};

/// The symbol of the structure behind `stdout`, and the end of its name.
const STDOUT: &[u8] = b"_IO_2_1_stdout_";
/// The upper half of the flags of every `FILE`.
const MAGIC: u32 = 0xfbad_0000;
/// Places of members in `FILE`.
const WRITE_BASE: usize = 32;
const WRITE_POINTER: usize = 40;
const WRITE_END: usize = 48;
const DESCRIPTOR: usize = 112;
/// More than this in a buffer is not a buffer.
const MOST_BYTES: u64 = 1 << 30;

/// Returns what a process keeps back of its standard output.
pub fn back(pid: Pid, name: &str) -> Option<HeldBack> {
    let output = descriptor(pid, 1)?;
    if !matches!(output.kind, FileKind::Pipe | FileKind::Socket | FileKind::Storage) {
        return None;
    }
    match in_stdio(pid) {
        Some(0) | None => perhaps(pid, name),
        Some(bytes) => Some(HeldBack::Bytes(bytes)),
    }
}

fn perhaps(pid: Pid, name: &str) -> Option<HeldBack> {
    let io = Io::of(pid)?;
    (has_own_buffer(name) && io.write_bytes == 0).then_some(HeldBack::Perhaps)
}

/// Returns the bytes in the buffer of `stdout`; `None` where it cannot be found.
fn in_stdio(pid: Pid) -> Option<u64> {
    let maps = Mappings::of(pid);
    let library = maps.iter().find(is_library)?;
    if is_served(pid, library.device) {
        return None;
    }
    let (file, _) = elf::open(&seen_by(pid, library.path)?)?;
    let text = ReadCache::new(&file);
    let (symbols, names) = Elf::read(&text)?.symbols(SHT_DYNSYM)?;
    let is = |symbol: &&Symbol| elf::name_of(symbol, names) == Some(STDOUT);
    let address = library.start.checked_add(symbols.iter().find(is)?.st_value(Native))?;
    let mut bytes = [0; DESCRIPTOR + 4];
    let got = read_remote(pid, address, &mut bytes).ok()?;
    if got < bytes.len() {
        return None;
    }
    pending(&bytes)
}

/// Whether this is the first page of the C library.
fn is_library(part: &Mapping) -> bool {
    let name = part.path.rsplit('/').next().unwrap_or_default();
    part.offset == 0 && (name == "libc.so.6" || name.starts_with("libc-2"))
}

/// Returns what a `FILE` holds back; `None` for something else.
fn pending(file: &[u8; DESCRIPTOR + 4]) -> Option<u64> {
    let long = |at: usize| long(file, at);
    let (base, at, end) = (long(WRITE_BASE)?, long(WRITE_POINTER)?, long(WRITE_END)?);
    let sound = word(file, 0)? & 0xffff_0000 == MAGIC && word(file, DESCRIPTOR)? == 1 && base <= at;
    // A stream that is buffered by line has its end at its beginning.
    let bounded = at <= end || end <= base;
    (sound && bounded).then(|| at - base).filter(|bytes| *bytes < MOST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::io::Write;
    use std::os::unix::ffi::OsStrExt;
    use std::process::{Command, Stdio};

    #[test]
    fn the_first_page_of_the_library_is_found() {
        let line = "7f3000000000-7f3000028000 r--p 00000000 fd:00 17 /usr/lib/libc.so.6";
        let is = |line: &str| Mapping::parse(line).is_some_and(|part| is_library(&part));
        assert!(is(line));
        assert!(!is(&line.replace("00000000 fd", "00028000 fd")));
        assert!(!is(&line.replace("libc.so.6", "libcap.so.2")));
        assert!(!is("7f30-7f40 rw-p 00000000 00:00 0"));
    }

    #[test]
    fn something_else_is_no_file() {
        let mut file = [0; DESCRIPTOR + 4];
        assert_eq!(pending(&file), None);
        file[..4].copy_from_slice(&0xfbad_2a84_u32.to_ne_bytes());
        file[DESCRIPTOR] = 1;
        file[WRITE_POINTER] = 7;
        file[WRITE_END] = 100;
        assert_eq!(pending(&file), Some(7));
        file[WRITE_BASE] = 8;
        assert_eq!(pending(&file), None, "more was written than put in");
        file[WRITE_BASE] = 0;
        file[DESCRIPTOR] = 2;
        assert_eq!(pending(&file), None, "another stream");
    }

    /// node was taken for one that gathers, and `stdbuf` advised, which changes nothing about it.
    #[test]
    fn who_gathers_output_itself_is_known_by_name() {
        let mut sleeps = Command::new("sleep");
        sleeps.arg("100").stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sleeps = sleeps.spawn().expect("sleep");
        let found = ["python3", "php", "node"].map(|name| back(sleeps.id() as Pid, name));
        sleeps.kill().and_then(|()| sleeps.wait()).expect("ended");
        assert_eq!(found, [Some(HeldBack::Perhaps), Some(HeldBack::Perhaps), None]);
    }

    #[test]
    fn what_grep_holds_back_is_counted() {
        // A name of a mapped file that is not a text hid all.
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join(OsStr::from_bytes(b"gr\xffp"));
        let found = crate::programs::find_program("grep".as_ref());
        if found.is_none_or(|grep| std::fs::copy(grep, &program).is_err()) {
            eprintln!("SKIPPED: grep is not installed");
            return;
        }
        let mut command = Command::new(&program);
        command.arg("a").stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED: grep is not installed");
            return;
        };
        let mut input = child.stdin.take().expect("its input");
        input.write_all(b"abc\nxyz\nan\n").expect("written");
        let pid = child.id() as Pid;
        let has_library = Mappings::of(pid).iter().any(|part| is_library(&part));
        // It may not have read yet.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let mut seen = None;
        while seen.is_none() && std::time::Instant::now() < until {
            seen = back(pid, "grep");
            std::thread::yield_now();
        }
        drop(input);
        child.wait().expect("waited");
        if has_library || seen.is_some() {
            assert_eq!(seen, Some(HeldBack::Bytes(7)));
        }
    }
}
