//! What lies between the writer and the reader: a plain pipe, or a program.

use super::flow::CHUNK_BYTES;
use crate::engine::case::{CaseError, Site};
use crate::tools::program::{find, weir};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// The memory that the buffers of a backlog may use.
const MEMORY_BYTES: u64 = 256 << 20;
/// A backlog is at least this many times as large as the memory, however small it is.
const MEMORY_PART: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// One pipe with this capacity, 0 for the kernel's default, and nothing else.
    Pipe(u64),
    /// `weir buffer` with its defaults.
    Weir,
    /// `weir buffer` with little memory and a directory.
    WeirSpilling,
    /// `pv` with a buffer of this size, or its default.
    Pv(Option<&'static str>),
    /// `mbuffer` with this much memory.
    Mbuffer(&'static str),
    /// `mbuffer` with a file for everything.
    MbufferFile,
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayCommand {
    pub program: PathBuf,
    pub words: Vec<OsString>,
}

impl BufferKind {
    pub fn title(self) -> String {
        match self {
            BufferKind::Pipe(0) => "pipe".into(),
            BufferKind::Pipe(bytes) => format!("pipe of {}", crate::tools::size(bytes)),
            BufferKind::Weir => "weir buffer".into(),
            BufferKind::WeirSpilling => "weir buffer --spill".into(),
            BufferKind::Pv(None) => "pv".into(),
            BufferKind::Pv(Some(size)) => format!("pv -B {size}"),
            BufferKind::Mbuffer(size) => format!("mbuffer -m {size}"),
            BufferKind::MbufferFile => "mbuffer -T".into(),
        }
    }

    pub fn mechanism(self) -> &'static str {
        match self {
            BufferKind::Pipe(_) => "kernel-pipe",
            BufferKind::Weir | BufferKind::WeirSpilling => "weir-buffer",
            BufferKind::Pv(_) => "pv",
            BufferKind::Mbuffer(_) | BufferKind::MbufferFile => "mbuffer",
        }
    }

    /// Returns the capacity of the pipe, or of both pipes.
    pub fn pipe_bytes(self) -> u64 {
        if let BufferKind::Pipe(bytes) = self { bytes } else { 0 }
    }

    /// Returns the program between the two sides. It has to hold `bytes` if it keeps them in a
    /// file.
    pub fn relay(self, site: &Site, bytes: u64) -> Result<Option<RelayCommand>, CaseError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let program = match self {
            BufferKind::Pipe(_) => return Ok(None),
            BufferKind::Weir | BufferKind::WeirSpilling => weir()?,
            BufferKind::Pv(_) => find("pv")?,
            BufferKind::Mbuffer(_) | BufferKind::MbufferFile => find("mbuffer")?,
        };
        let mut words: Vec<OsString> = match self {
            BufferKind::Weir | BufferKind::WeirSpilling => vec!["buffer".into(), "-q".into()],
            _ => vec!["-q".into()],
        };
        match self {
            BufferKind::WeirSpilling => {
                words.extend(["--memory".into(), memory_bytes(bytes).to_string().into()]);
                words.extend(["--spill".into(), site.directory.clone().into()]);
            }
            BufferKind::Pv(Some(size)) => words.extend(["-B".into(), size.into()]),
            BufferKind::Mbuffer(size) => words.extend(["-m".into(), size.into()]),
            BufferKind::MbufferFile => {
                // mbuffer makes the file and removes its name at once. A quarter of it is spare.
                let mib = (bytes + bytes / 4).div_ceil(1 << 20);
                // Relaxed: only the numbers must differ.
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let name = format!(".weir-bench-{}-mbuffer-{number}", std::process::id());
                words.extend(["-m".into(), format!("{mib}M").into()]);
                words.extend(["-T".into(), site.directory.join(name).into()]);
            }
            _ => {}
        }
        Ok(Some(RelayCommand { program, words }))
    }
}

/// Returns how much of a backlog `weir buffer` may keep in memory.
pub fn memory_bytes(backlog_bytes: u64) -> u64 {
    MEMORY_BYTES.min(backlog_bytes / MEMORY_PART).next_multiple_of(CHUNK_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_much_larger_than_the_memory() {
        assert_eq!(memory_bytes(4_000_000_000), 256 << 20);
        assert_eq!(memory_bytes(64 << 20), 8 << 20);
    }
}
