//! The file that a pool spills to: without a name, of one owner, and past the page cache if possible.

use crate::forks::ParentOnly;
use crate::may_reach;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

/// Blocks of the file are allocated ahead in steps of this size. A step that finds no room is halved.
const AHEAD_BYTES: u64 = 64 << 20;
/// The smallest step. Below it nothing is allocated ahead.
const LEAST_AHEAD_BYTES: u64 = 1 << 20;
/// The transfers in flight from which allocating ahead pays. Blocks that are allocated but not
/// written make each write a little dearer, and a lone write can just as well extend the file.
const COMPANY: usize = 3;
/// The most names that are tried if the file system has no files without a name.
const NAMES: usize = 64;
const FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file without a name, of mode 600, that disappears with the process.
#[derive(Debug)]
pub struct SpillFile {
    file: ParentOnly,
    direct: bool,
    align: u64,
    ahead_bytes: u64,
    remarks: Vec<String>,
}

impl SpillFile {
    /// Makes a file in a directory, past the page cache if `direct` is wanted and possible.
    ///
    /// # Errors
    /// Those of open(2): `ENOENT`, `ENOTDIR`, `EACCES`, `EROFS`, `ENOSPC` and others.
    pub fn open(directory: &Path, direct: bool) -> io::Result<SpillFile> {
        let mut remarks = Vec::new();
        let file = match rustix::fs::openat(CWD, directory, FLAGS | OFlags::TMPFILE, MODE) {
            Ok(file) => file,
            // A kernel that does not know the flag reports EISDIR or EINVAL.
            Err(cause @ (Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL)) => {
                remarks.push(format!("a file removed after it was opened (no O_TMPFILE: {cause})"));
                open_and_remove(directory, cause)?
            }
            Err(cause) => return Err(cause.into()),
        };
        let mut align = 1;
        let in_memory =
            rustix::fs::fstatfs(&file).is_ok_and(|about| about.f_type == libc::TMPFS_MAGIC);
        if in_memory {
            remarks.push("the directory is in memory (tmpfs)".into());
        }
        let direct = direct
            && match make_direct(&file) {
                Ok(found) => {
                    align = found;
                    true
                }
                Err(why) => {
                    remarks.push(format!("cached: {why}"));
                    false
                }
            };
        let file = ParentOnly::new(file)?;
        let ahead_bytes = if direct && !in_memory { AHEAD_BYTES } else { 0 };
        Ok(SpillFile { file, direct, align, ahead_bytes, remarks })
    }

    /// Takes a file with a name, open for reading and writing, whose length stays. It is opened once
    /// more, past the page cache, if its length is a multiple of what that takes.
    ///
    /// # Errors
    /// Those of fcntl(2) and fstat(2); `EBADF`: the file is not open for both.
    pub fn over(file: OwnedFd) -> io::Result<SpillFile> {
        let flags = rustix::fs::fcntl_getfl(&file)?;
        if !flags.contains(OFlags::RDWR) {
            return Err(Errno::BADF.into());
        }
        let bytes = rustix::fs::fstat(&file)?.st_size as u64;
        let again = crate::proc::path_of_own(&file);
        let again = rustix::fs::openat(CWD, again, FLAGS, Mode::empty());
        let direct = again.map_err(|cause| cause.to_string()).and_then(|again| {
            let align = make_direct(&again)?;
            let whole = bytes.is_multiple_of(align);
            whole
                .then_some((again, align))
                .ok_or_else(|| format!("its length is not a multiple of {align}"))
        });
        let (file, align, remarks) = match direct {
            Ok((again, align)) => (again, align, Vec::new()),
            Err(why) => (file, 1, vec![format!("cached: {why}")]),
        };
        let direct = remarks.is_empty();
        Ok(SpillFile { file: ParentOnly::new(file)?, direct, align, ahead_bytes: 0, remarks })
    }

    /// Sets the steps in which blocks are allocated before they are written: a power of two, or 0
    /// for never.
    pub fn take_ahead(self, ahead_bytes: u64) -> SpillFile {
        SpillFile { ahead_bytes, ..self }
    }

    /// Whether it is read and written past the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Remarks on what could be better, and why it is not.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// The alignment of transfers past the page cache. They begin and end at multiples of this.
    pub(super) fn align(&self) -> u64 {
        self.align
    }

    /// The file. `None` in a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        self.file.get()
    }
}

/// Makes a file with a name that nobody else has, and removes the name.
pub(super) fn open_and_remove(directory: &Path, first: Errno) -> io::Result<OwnedFd> {
    for _ in 0..NAMES {
        let random = RandomState::new().build_hasher().finish();
        let path = directory.join(format!(".weir-spill-{random:016x}"));
        let only = FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match rustix::fs::openat(CWD, &path, only, MODE) {
            Ok(file) => {
                rustix::fs::unlink(&path)?;
                return Ok(file);
            }
            Err(Errno::EXIST) => {}
            // The directory exists but takes no files, as /proc does.
            Err(Errno::NOENT) => return Err(first.into()),
            Err(cause) => return Err(cause.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Turns the page cache off. Returns the alignment of transfers, or why it could not.
fn make_direct(file: &OwnedFd) -> Result<u64, String> {
    let page = rustix::param::page_size() as u64;
    let mut align = page;
    // Kernels before 6.1 do not report the alignment; with them a page has always been enough.
    if let Ok(about) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && about.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let (memory, offset) = (about.stx_dio_mem_align, about.stx_dio_offset_align);
        if memory == 0 || offset == 0 {
            return Err("the file system has no O_DIRECT".into());
        }
        if u64::from(memory.max(offset)) > page {
            return Err(format!("O_DIRECT wants multiples of {} bytes", memory.max(offset)));
        }
        align = u64::from(memory.max(offset));
    }
    let flags = rustix::fs::fcntl_getfl(file).map_err(|cause| cause.to_string())?;
    rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)
        .map_err(|cause| format!("no O_DIRECT: {cause}"))?;
    Ok(align)
}

/// The part of a file that was allocated before it is written. Without that, a write past the page
/// cache that extends the file waits for all other transfers.
#[derive(Debug)]
pub(super) struct Ahead {
    step_bytes: u64,
    end: u64,
}

impl Ahead {
    pub(super) fn new(file: &SpillFile) -> Ahead {
        Ahead { step_bytes: file.ahead_bytes, end: 0 }
    }

    /// Allocates the blocks of a write from `start` to `end`, with `others` in flight. If there are
    /// none, the write will report it.
    pub(super) fn cover(&mut self, file: &SpillFile, (start, end): (u64, u64), others: usize) {
        if others < COMPANY {
            return;
        }
        while end > self.end && self.step_bytes >= LEAST_AHEAD_BYTES {
            let Some(descriptor) = file.get() else { return };
            let Some(aim) = end.checked_next_multiple_of(self.step_bytes) else { return };
            let from = self.end.max(start);
            let taken = may_reach(aim).then(|| {
                rustix::fs::fallocate(descriptor.as_fd(), FallocateFlags::empty(), from, aim - from)
            });
            match taken {
                Some(Ok(())) => self.end = aim,
                Some(Err(Errno::INTR)) => {}
                None | Some(Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => self.step_bytes /= 2,
                Some(Err(_)) => self.step_bytes = 0,
            }
        }
    }
}
