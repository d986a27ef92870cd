//! Files of programs and libraries of 64 bits, read in part.
//!
//! They are other people's: whatever a file says of its sizes, no more of it is read than the
//! limits here allow.

use object::elf::{
    ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, PN_XNUM, PT_LOAD, ProgramHeader64, SHT_NOTE,
    SectionHeader64, SectionType, Sym64,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{NativeEndian as Native, ReadCache, ReadRef, pod};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::path::Path;

/// Most bytes read of a table of symbols, of their names, and of notes.
const SECTION_BYTES: u64 = 64 << 20;
const NOTE_BYTES: u64 = 1 << 12;

pub type Symbol = Sym64<Native>;

/// A file, of which parts are read when they are asked for, and kept.
#[derive(Debug)]
pub struct Elf<'f> {
    text: &'f ReadCache<&'f File>,
    head: &'f FileHeader64<Native>,
    sections: &'f [SectionHeader64<Native>],
}

/// Opens a file; `None` for something else, which may wait for ever.
pub fn open(path: &Path) -> Option<(File, Stat)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| (File::from(file), stat))
}

/// Returns the name of a symbol, of the names that came with it. A linker keeps one name within the
/// end of another: `syscall` in `Perl_pp_syscall`.
pub fn name_of<'n>(symbol: &Symbol, names: &'n [u8]) -> Option<&'n [u8]> {
    names.get(symbol.st_name(Native) as usize..)?.split(|byte| *byte == 0).next()
}

impl<'f> Elf<'f> {
    /// Reads the head and the list of sections; `None` for what is no such file.
    pub fn read(text: &'f ReadCache<&'f File>) -> Option<Elf<'f>> {
        let head = FileHeader64::<Native>::parse(text).ok()?;
        let order = head.endian().ok()?;
        // No program has so many parts that their count stands elsewhere.
        if head.e_shnum(order) == 0 || head.e_phnum(order) == PN_XNUM {
            return None;
        }
        Some(Elf { text, head, sections: head.section_headers(order, text).ok()? })
    }

    /// Returns the parts that are loaded into memory.
    pub fn loaded(&self) -> impl Iterator<Item = &'f ProgramHeader64<Native>> {
        let parts = self.head.program_headers(Native, self.text).unwrap_or_default();
        parts.iter().filter(|part| part.p_type(Native) == PT_LOAD)
    }

    /// Returns the first table of symbols of this type, and their names.
    pub fn symbols(&self, of: SectionType) -> Option<(&'f [Symbol], &'f [u8])> {
        let table = self.sections.iter().find(|section| section.sh_type(Native) == of)?;
        let names = self.sections.get(table.link(Native).0)?;
        let symbols = self.content(table)?;
        let count = symbols.len() / size_of::<Symbol>();
        Some((pod::slice_from_bytes(symbols, count).ok()?.0, self.content(names)?))
    }

    fn content(&self, section: &SectionHeader64<Native>) -> Option<&'f [u8]> {
        let (at, bytes) = section.file_range(Native)?;
        self.text.read_bytes_at(at, bytes.min(SECTION_BYTES)).ok()
    }

    /// Returns the number that names the file with the symbols.
    pub fn build_id(&self) -> Option<&'f [u8]> {
        let of_notes = |section: &&SectionHeader64<Native>| {
            section.sh_type(Native) == SHT_NOTE && section.sh_size(Native) <= NOTE_BYTES
        };
        self.sections.iter().filter(of_notes).find_map(|section| {
            let mut notes = section.notes(Native, self.text).ok()??;
            std::iter::from_fn(|| notes.next().ok()?)
                .find(|note| note.name() == ELF_NOTE_GNU && note.n_type(Native) == NT_GNU_BUILD_ID)
                .map(|note| note.desc())
        })
    }
}
