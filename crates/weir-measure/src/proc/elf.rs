//! What a program's file shows of the calls it can make.

use rustix::fs::{Mode, OFlags};
use rustix::io::pread;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use weir_sys::Pid;
use weir_sys::proc::refuse_foreign;

/// Functions that move bytes through pipes without counting them, and `syscall`, which can make any
/// call.
const UNCOUNTED: [&[u8]; 6] =
    [b"splice", b"tee", b"vmsplice", b"syscall", b"io_uring_setup", b"io_uring_queue_init"];
/// Most bytes read of a table of sections, and of one of names.
const TABLE_BYTES: usize = 1 << 16;
const NAMES_BYTES: usize = 1 << 22;
/// The type of a section that lists the symbols shared with libraries.
const DYNAMIC_SYMBOLS: u32 = 11;

/// Whether the program of process `pid` can move bytes by calls that the kernel does not count:
/// `true` where its file does not rule it out (it is linked statically, for example), `None` where
/// the file cannot be read. With `libraries` those that it has mapped count too.
pub fn may_move_uncounted(pid: Pid, libraries: bool) -> Option<bool> {
    let path = format!("/proc/{pid}/exe");
    refuse_foreign(&path).ok()?;
    let may = file_may(&path)?;
    if may || !libraries {
        return Some(may);
    }
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let in_library = |path: &str| file_may(&format!("/proc/{pid}/root{path}")) == Some(true);
    Some(mapped(&String::from_utf8_lossy(&maps)).any(in_library))
}

/// Returns the libraries that are mapped, without the one that offers these functions.
fn mapped(maps: &str) -> impl Iterator<Item = &str> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut last = "";
    maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).filter(move |path| {
        let is_new = *path != std::mem::replace(&mut last, path);
        let name = name(path);
        let offers = ["libc.", "libc-", "ld-", "ld.", "libpthread"];
        is_new && name.contains(".so") && !offers.iter().any(|start| name.starts_with(start))
    })
}

/// Whether what stands in a program or library can make such calls.
fn file_may(path: &str) -> Option<bool> {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<(u64, u64), bool>> = const { RefCell::new(BTreeMap::new()) };
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let key = (stat.st_dev, stat.st_ino);
    let known = KNOWN.with_borrow(|known| known.get(&key).copied());
    Some(known.unwrap_or_else(|| {
        let may = imports(&file).is_none_or(|names| can(&names));
        KNOWN.with_borrow_mut(|known| known.insert(key, may));
        may
    }))
}

fn can(names: &[u8]) -> bool {
    names.split(|byte| *byte == 0).any(|name| UNCOUNTED.contains(&name))
}

/// Reads the names of the functions that a 64-bit program takes from libraries.
fn imports(file: &OwnedFd) -> Option<Vec<u8>> {
    let head = read_at(file, 0, 64)?;
    if head.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (size, count) = (usize::from(half(&head, 58)?), usize::from(half(&head, 60)?));
    let table = read_at(file, long(&head, 40)?, (size * count).min(TABLE_BYTES))?;
    let section = |at: usize| table.get(at.checked_mul(size)?..(at + 1).checked_mul(size)?);
    let symbols =
        (0..count).filter_map(section).find(|section| word(section, 4) == Some(DYNAMIC_SYMBOLS))?;
    let names = section(word(symbols, 40)? as usize)?;
    read_at(file, long(names, 24)?, usize::try_from(long(names, 32)?).ok()?.min(NAMES_BYTES))
}

pub(crate) fn read_at(file: &OwnedFd, mut at: u64, bytes: usize) -> Option<Vec<u8>> {
    let (mut buffer, mut filled) = (vec![0; bytes], 0);
    while filled < bytes {
        match pread(file, &mut buffer[filled..], at).ok()? {
            0 => return None,
            n => (filled, at) = (filled + n, at + n as u64),
        }
    }
    Some(buffer)
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Option<Vec<u8>> {
        let file = tempfile::tempfile().expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&file, text, 0).expect("written");
        imports(&OwnedFd::from(file))
    }

    #[test]
    fn a_program_that_calls_splice_is_told_from_one_that_cannot() {
        // Rust's own library imports `syscall`.
        assert_eq!(may_move_uncounted(std::process::id() as Pid, true), Some(true));
        let mut sleep = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let may = may_move_uncounted(sleep.id() as Pid, true);
        sleep.kill().expect("killed");
        sleep.wait().expect("waited");
        let text = std::fs::read("/bin/sleep").expect("readable");
        let rust = text.windows(9).any(|part| part == b"\0syscall\0");
        assert_eq!(may, Some(rust));
        assert!(can(b"\0read\0splice\0") && !can(b"\0read\0splice_it\0"));
    }

    #[test]
    fn what_is_no_program_rules_nothing_out() {
        let mut huge = b"\x7fELF\x02".to_vec();
        huge.resize(64, 0xff);
        let texts: [&[u8]; 4] = [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", &huge];
        texts.iter().for_each(|text| assert_eq!(of(text), None));
    }
}
