//! The functions of programs and libraries, from the symbol tables of their files.
//!
//! A table is read in part: the sections with symbols and names, each up to a limit. A stripped
//! file has only the names that it shares with others; its table may be in a file of its own, which
//! its build id names.

use super::records::Mapped;
use crate::program::elf::{self, Elf, Symbol};
use crate::program::is_served;
use object::elf::{SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC, SectionType};
use object::read::elf::{ProgramHeader, Sym};
use object::{NativeEndian as Native, ReadCache};
use std::fs::File;
use std::ops::Range;
use std::path::Path;
use weir_sys::Pid;
use weir_sys::proc::{program_path, seen_by};

/// Most characters of a name.
const NAME: usize = 200;

/// A program's or library's file.
#[derive(Debug)]
pub struct CodeFile(File);

/// The functions of a file, in order of their addresses.
#[derive(Debug, Default)]
pub struct Functions {
    /// What is loaded of the file, by places in it, and the addresses to which it is loaded.
    loaded: Vec<(Range<u64>, u64)>,
    table: Table,
}

#[derive(Debug, Default)]
struct Table {
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

impl CodeFile {
    /// Opens a file that a process has mapped; `None` where another file has taken its place, and
    /// where a server has it that may not answer.
    pub fn open(pid: Pid, part: &Mapped) -> Option<CodeFile> {
        if is_served(pid, part.device) {
            return None;
        }
        let (path, inode) = (part.path.as_str(), part.inode);
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let of_process = || open(&seen_by(pid, path)?, Some(inode));
        // A program that was removed is still there for its process.
        let program = || open(program_path(pid)?.as_ref(), Some(inode));
        of_process().or_else(program).or_else(|| open(path.as_ref(), Some(inode)))
    }

    /// Reads its functions, or else those of the file with its symbols; none if it is not a
    /// program.
    pub fn functions(&self) -> Functions {
        let text = ReadCache::new(&self.0);
        let Some(own) = Elf::read(&text) else { return Functions::default() };
        let apart = || {
            let CodeFile(file) = open(debug_path(own.build_id()?)?.as_ref(), None)?;
            Table::read(&Elf::read(&ReadCache::new(&file))?, SHT_SYMTAB)
        };
        let table = Table::read(&own, SHT_SYMTAB).or_else(apart);
        let loaded = own.loaded().map(|part| {
            let (at, bytes) = part.file_range(Native);
            (at..at.saturating_add(bytes), part.p_vaddr(Native))
        });
        Functions {
            loaded: loaded.collect(),
            table: table.or_else(|| Table::read(&own, SHT_DYNSYM)).unwrap_or_default(),
        }
    }
}

impl Table {
    fn read(file: &Elf, of: SectionType) -> Option<Table> {
        let (symbols, names) = file.symbols(of)?;
        let is = |symbol: &&Symbol| {
            [STT_FUNC, STT_GNU_IFUNC].contains(&symbol.st_type()) && !symbol.is_undefined(Native)
        };
        let mut symbols: Vec<Symbol> = symbols.iter().filter(is).copied().collect();
        let place = |symbol: &Symbol| (symbol.st_value(Native), symbol.st_size(Native));
        symbols.sort_by_key(place);
        (!symbols.is_empty()).then(|| Table { symbols, names: names.to_vec() })
    }

    fn at(&self, address: u64) -> Option<String> {
        let after = self.symbols.partition_point(|symbol| symbol.st_value(Native) <= address);
        let symbol = self.symbols[..after].last()?;
        // One without a length, as assemblers write it, ends where the next begins.
        let next = self.symbols.get(after).map_or(u64::MAX, |next| next.st_value(Native));
        let end = match symbol.st_size(Native) {
            0 => next,
            bytes => symbol.st_value(Native).saturating_add(bytes),
        };
        let name =
            elf::name_of(symbol, &self.names).filter(|name| address < end && !name.is_empty())?;
        Some(readable(&String::from_utf8_lossy(&name[..name.len().min(4096)])))
    }
}

impl Functions {
    /// Returns the name of the function of which the byte at this place of the file is a part.
    pub fn at(&self, place: u64) -> Option<String> {
        let (part, address) = self.loaded.iter().find(|(part, _)| part.contains(&place))?;
        self.table.at(address.checked_add(place - part.start)?)
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

fn open(path: &Path, inode: Option<u64>) -> Option<CodeFile> {
    let (file, stat) = elf::open(path)?;
    inode.is_none_or(|inode| inode == stat.st_ino).then_some(CodeFile(file))
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
        let file = CodeFile::open(own, &part).expect("this program");
        let at = address - part.address + part.offset;
        let name = file.functions().at(at).expect("a name");
        assert!(name.ends_with("symbols::tests::here"), "{name}");
        let other = Mapped { inode: part.inode + 1, ..(*part).clone() };
        assert!(CodeFile::open(own, &other).is_none());
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
            let Some(file) = open(file.path(), None) else { continue };
            assert_eq!(file.functions().at(0), None);
        }
    }
}
