//! The ways from the writer to the reader: a plain pipe, or a program between two.

use super::flow::CHUNK_BYTES;
use crate::tools::program::{find, weir};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_measure::bench::case::{CaseError, Site};

/// What the buffers of a backlog keep in memory.
const MEMORY_BYTES: u64 = 256 << 20;
/// A backlog is larger than that by as much, however small it is made.
const MEMORY_PART: u64 = 8;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// One pipe of so many bytes, 0 for the kernel's own size, and nothing else.
    Pipe(u64),
    /// `weir buffer`, as it is.
    Weir,
    /// `weir buffer` with little memory and a directory.
    WeirSpilling,
    /// `pv`, with a buffer of this size or its own.
    Pv(Option<&'static str>),
    /// `mbuffer` with so much memory.
    Mbuffer(&'static str),
    /// `mbuffer` with a file for all.
    MbufferFile,
}

/// A program and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayCommand {
    /// Where it is.
    pub program: PathBuf,
    /// What it is told.
    pub words: Vec<OsString>,
}

impl BufferKind {
    /// What it is called.
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

    /// What moves the bytes.
    pub fn mechanism(self) -> &'static str {
        match self {
            BufferKind::Pipe(_) => "kernel-pipe",
            BufferKind::Weir | BufferKind::WeirSpilling => "weir-buffer",
            BufferKind::Pv(_) => "pv",
            BufferKind::Mbuffer(_) | BufferKind::MbufferFile => "mbuffer",
        }
    }

    /// Size of the pipe, or of the two of them.
    pub fn pipe_bytes(self) -> u64 {
        if let BufferKind::Pipe(bytes) = self { bytes } else { 0 }
    }

    /// The program in between, which is to hold `bytes` if it keeps them in a file.
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
                // It makes the file and takes its name away at once; a quarter is to spare.
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

/// What `weir buffer` may keep in memory of a backlog.
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
