//! What a program's file shows of the calls it can make.

use super::elf::{self, Elf};
use object::ReadCache;
use object::elf::SHT_DYNSYM;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use weir_sys::Pid;
use weir_sys::proc::{Mapping, Mappings, Mount, Mounts, program_file, program_path, seen_by};

/// Functions that move bytes through pipes without counting them, and `syscall`, which can make any
/// call.
const UNCOUNTED: [&[u8]; 6] =
    [b"splice", b"tee", b"vmsplice", b"syscall", b"io_uring_setup", b"io_uring_queue_init"];

/// Whether the program of process `pid` can move bytes by calls that the kernel does not count:
/// `true` where its file does not rule it out (it is linked statically, for example), `None` where
/// the file cannot be read. With `libraries` those that it has mapped count too.
pub fn may_move_uncounted(pid: Pid, libraries: bool) -> Option<bool> {
    let (device, ..) = program_file(pid).filter(|(device, ..)| !is_served(pid, *device))?;
    let may = file_may(program_path(pid)?.as_ref())?;
    if may || !libraries {
        return Some(may);
    }
    let in_library = |part: Mapping| {
        let is_there = part.device == device || !is_served(pid, part.device);
        is_there && seen_by(pid, part.path).is_some_and(|path| file_may(&path) == Some(true))
    };
    Some(libraries_in(&Mappings::of(pid)).any(in_library))
}

/// Whether a server in user space has the file system of this device, as process `pid` has mounted it.
/// It may not answer, and then nobody gets on who opens a file there.
pub fn is_served(pid: Pid, device: u64) -> bool {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<u64, bool>> = const { RefCell::new(BTreeMap::new()) };
    }
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&device).copied()) {
        return known;
    }
    let is = |mount: Mount| mount.device == device && mount.kind.starts_with("fuse");
    let served = Mounts::of(pid).iter().any(is);
    KNOWN.with_borrow_mut(|known| known.insert(device, served));
    served
}

/// Returns the libraries that are mapped, without the one that offers these functions.
fn libraries_in(maps: &Mappings) -> impl Iterator<Item = Mapping<'_>> {
    let mut last = "";
    maps.iter().filter(move |part| {
        let is_new = part.path != std::mem::replace(&mut last, part.path);
        let name = part.path.rsplit('/').next().unwrap_or_default();
        let offers = ["libc.", "libc-", "ld-", "ld.", "libpthread"];
        let is_library = part.path.starts_with('/') && name.contains(".so");
        is_new && is_library && !offers.iter().any(|start| name.starts_with(start))
    })
}

/// Whether what is in a program or library can make such calls.
fn file_may(path: &Path) -> Option<bool> {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<(u64, u64), bool>> = const { RefCell::new(BTreeMap::new()) };
    }
    let (file, stat) = elf::open(path)?;
    let key = (stat.st_dev, stat.st_ino);
    let known = KNOWN.with_borrow(|known| known.get(&key).copied());
    Some(known.unwrap_or_else(|| {
        let may = names_uncounted(&file).unwrap_or(true);
        KNOWN.with_borrow_mut(|known| known.insert(key, may));
        may
    }))
}

/// Whether a program shares one of these names with libraries; `None` where it tells no names.
fn names_uncounted(file: &File) -> Option<bool> {
    let text = ReadCache::new(file);
    let (symbols, names) = Elf::read(&text)?.symbols(SHT_DYNSYM)?;
    let mut shared = symbols.iter().filter_map(|symbol| elf::name_of(symbol, names));
    Some(shared.any(|name| UNCOUNTED.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Option<bool> {
        let file = tempfile::tempfile().expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&file, text, 0).expect("written");
        names_uncounted(&file)
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
    }

    /// Perl imports `syscall`, and has a `Perl_pp_syscall` of its own. Names like these were once
    /// looked for whole, and perl was taken for a program that could not call `splice`.
    #[test]
    fn a_name_within_the_end_of_another_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let may = |name: &str| {
            let text =
                format!("extern int {name}(void); int my_{name}(void) {{ return {name}(); }}");
            let (source, made) = (directory.path().join("a.c"), directory.path().join("a.so"));
            std::fs::write(&source, text).expect("written");
            let mut compile = std::process::Command::new("cc");
            compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&made).arg(&source);
            assert!(compile.status().expect("a C compiler, as Rust needs it").success());
            of(&std::fs::read(&made).expect("made"))
        };
        assert_eq!((may("splice"), may("splice_it")), (Some(true), Some(false)));
    }

    #[test]
    fn what_is_no_program_rules_nothing_out() {
        let mut huge = b"\x7fELF\x02".to_vec();
        huge.resize(64, 0xff);
        let texts: [&[u8]; 4] = [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01", &huge];
        texts.iter().for_each(|text| assert_eq!(of(text), None));
    }
}
