//! The functions of programs and libraries, from the symbol tables of their files.
//!
//! A table is read in part: the sections with symbols and names, each up to a limit. A stripped
//! file has only the names that it shares with others; its table may lie in a file of its own, which
//! its build id names.

use crate::proc::elf::{half, long, read_at, word};
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::OwnedFd;
use weir_sys::Pid;
use weir_sys::proc::refuse_foreign;

/// Most bytes read of a section, and of the list of sections.
const SECTION_BYTES: u64 = 64 << 20;
const LIST_BYTES: usize = 1 << 16;
const NOTE_BYTES: u64 = 1 << 12;
/// Types of sections: all symbols, notes, and the symbols shared with others.
const SYMBOLS: u32 = 2;
const NOTES: u32 = 7;
const SHARED_SYMBOLS: u32 = 11;
/// Types of symbols: a function, and one that is chosen when the program is loaded.
const FUNCTIONS: [u8; 2] = [2, 10];
/// Length of a symbol, and of an entry of the list of loaded parts.
const SYMBOL: usize = 24;
const PART: usize = 56;
/// Most characters of a name.
const NAME: usize = 200;

/// A program's or library's file.
#[derive(Debug)]
pub struct CodeFile {
    file: OwnedFd,
    head: Vec<u8>,
}

/// A table of functions, in order of their addresses.
#[derive(Debug, Default)]
pub struct Functions {
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    address: u64,
    bytes: u64,
    name: u32,
}

impl CodeFile {
    /// Opens the file that a process has mapped under this path; `None` where another file has
    /// taken its place, or where it is no program of 64 bits.
    pub fn open(pid: Pid, path: &str, inode: u64) -> Option<CodeFile> {
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let of_process = |path: String| {
            refuse_foreign(&path).ok()?;
            open(&path, Some(inode))
        };
        of_process(format!("/proc/{pid}/root{path}"))
            // A program that was removed is still there for its process.
            .or_else(|| of_process(format!("/proc/{pid}/exe")))
            .or_else(|| open(path, Some(inode)))
    }

    /// Returns the address that the program's file gives to the byte at this offset.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let list = usize::from(half(&self.head, 54)?) * usize::from(half(&self.head, 56)?);
        let list = read_at(&self.file, long(&self.head, 32)?, list.min(LIST_BYTES))?;
        list.chunks_exact(PART).find_map(|part| {
            let loaded = word(part, 0)? == 1;
            let within = offset.checked_sub(long(part, 8)?)?;
            (loaded && within < long(part, 32)?).then_some(long(part, 16)?.checked_add(within)?)
        })
    }

    /// Reads its functions, or else those of the file with its symbols.
    pub fn functions(&self) -> Functions {
        let own = self.table(SYMBOLS);
        let apart = || self.build_id().and_then(|id| open(&debug_path(&id)?, None)?.table(SYMBOLS));
        own.or_else(apart).or_else(|| self.table(SHARED_SYMBOLS)).unwrap_or_default()
    }

    fn sections(&self) -> Option<Vec<Vec<u8>>> {
        let (size, count) = (usize::from(half(&self.head, 58)?), half(&self.head, 60)?);
        let list = (size * usize::from(count)).min(LIST_BYTES);
        let list = read_at(&self.file, long(&self.head, 40)?, list)?;
        (size >= 64).then(|| list.chunks_exact(size).map(<[u8]>::to_vec).collect())
    }

    fn content(&self, section: &[u8], most: u64) -> Option<Vec<u8>> {
        let bytes = long(section, 32)?.min(most);
        let length = rustix::fs::fstat(&self.file).ok()?.st_size as u64;
        // No memory for what the file does not have.
        let fits = long(section, 24)?.checked_add(bytes).is_some_and(|end| end <= length);
        fits.then(|| read_at(&self.file, long(section, 24)?, bytes as usize))?
    }

    fn table(&self, kind: u32) -> Option<Functions> {
        let sections = self.sections()?;
        let section = sections.iter().find(|section| word(section, 4) == Some(kind))?;
        let names = sections.get(word(section, 40)? as usize)?;
        let table = self.content(section, SECTION_BYTES)?;
        let names = self.content(names, SECTION_BYTES)?;
        let symbol = |entry: &[u8]| {
            let is = FUNCTIONS.contains(&(entry.get(4)? & 0xf)) && half(entry, 6)? != 0;
            let (address, bytes) = (long(entry, 8)?, long(entry, 16)?);
            is.then_some(Symbol { address, bytes, name: word(entry, 0)? })
        };
        let mut symbols: Vec<Symbol> = table.chunks_exact(SYMBOL).filter_map(symbol).collect();
        weir_doctor::sort::by_key(&mut symbols, |symbol| (symbol.address, symbol.bytes));
        (!symbols.is_empty()).then_some(Functions { symbols, names })
    }

    /// Returns the number that names the file with the symbols.
    fn build_id(&self) -> Option<Vec<u8>> {
        let sections = self.sections()?;
        let notes = sections.iter().filter(|section| word(section, 4) == Some(NOTES));
        notes.filter_map(|section| self.content(section, NOTE_BYTES)).find_map(|note| {
            // Length of the name, length of the number, type 3, name "GNU".
            let gnu = word(&note, 0)? == 4 && word(&note, 8)? == 3 && note.get(12..16)? == b"GNU\0";
            let bytes = word(&note, 4)? as usize;
            gnu.then(|| note.get(16..16 + bytes.min(64)).map(<[u8]>::to_vec))?
        })
    }
}

impl Functions {
    /// Returns the name of the function at an address.
    pub fn at(&self, address: u64) -> Option<String> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols[..after].last()?;
        // One without a length, as assemblers write it, ends where the next begins.
        let next = self.symbols.get(after).map_or(u64::MAX, |next| next.address);
        let end = symbol.address.saturating_add(symbol.bytes);
        let within = if symbol.bytes == 0 { address < next } else { address < end };
        let name = self.names.get(symbol.name as usize..).filter(|_| within)?;
        let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        Some(readable(&String::from_utf8_lossy(&name[..name.len().min(4096)])))
    }
}

/// Returns a name as people write it; names of Rust are decoded.
pub fn readable(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    name.chars().take(NAME).collect()
}

fn debug_path(id: &[u8]) -> Option<String> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug"))
}

fn open(path: &str, inode: Option<u64>) -> Option<CodeFile> {
    // Something else than a file may wait for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !is_file || inode.is_some_and(|inode| inode != stat.st_ino) {
        return None;
    }
    let head = read_at(&file, 0, 64)?;
    let is_program = head.get(..6)? == b"\x7fELF\x02\x01";
    is_program.then_some(CodeFile { file, head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn here() -> usize {
        std::hint::black_box(here as fn() -> usize as usize)
    }

    #[test]
    fn a_function_of_this_program_is_found_by_its_place_in_the_file() {
        let mut memory = super::super::memory::Memory::default();
        let own = std::process::id() as Pid;
        let address = here() as u64 + 1;
        let part = memory.at(own, address).expect("mapped");
        let file = CodeFile::open(own, &part.path, part.inode).expect("this program");
        let at = file.address(address - part.address + part.offset).expect("loaded");
        let name = file.functions().at(at).expect("a name");
        assert!(name.ends_with("symbols::tests::here"), "{name}");
        assert!(CodeFile::open(own, &part.path, part.inode + 1).is_none());
    }

    #[test]
    fn what_is_no_program_has_no_functions_and_does_no_harm() {
        let mut huge = b"\x7fELF\x02\x01".to_vec();
        huge.resize(4096, 0xff);
        let mut short = std::fs::read("/proc/self/exe").expect("this program");
        short.truncate(70);
        for text in [huge, short, b"\x7fELF".to_vec(), Vec::new()] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("written");
            let Some(file) = open(&file.path().to_string_lossy(), None) else { continue };
            assert_eq!(file.functions().at(0), None);
            assert_eq!(file.address(0), None);
        }
    }
}
