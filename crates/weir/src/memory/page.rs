//! One page of shared words: a cluster of flags or a board, in sealed memory or a named file.

use super::mapping::{AtomicWords, MapAccess, Mapping, page_bytes};
use super::sealed::SealedMemory;
use crate::error::{Error, ErrorKind, Result, Text};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::marker::PhantomData;
use std::path::Path;
use weir_ring::board::{self, Board};
use weir_ring::cluster::{self, Cluster};
use weir_ring::primitive::{AtomicU32, AtomicU64, Ordering};
use weir_sys::forks::ParentOnly;
use weir_sys::may_reach;

/// The words that can be on a page.
pub trait PageContent: AtomicWords {
    /// The name of its files in /proc.
    const FILE: &'static str;
    /// Its name in errors.
    const WHAT: &'static str;
    /// The magic number with which it begins.
    const MAGIC: u64;
    /// The version of its layout.
    const VERSION: u32;
    /// The words of the magic number and the version.
    fn beginning(&self) -> (&AtomicU64, &AtomicU32);
}

impl PageContent for Cluster {
    const FILE: &'static str = FLAGS;
    const WHAT: &'static str = "a cluster of flags";
    const MAGIC: u64 = cluster::MAGIC;
    const VERSION: u32 = cluster::VERSION;
    fn beginning(&self) -> (&AtomicU64, &AtomicU32) {
        (&self.magic, &self.version)
    }
}

impl PageContent for Board {
    const FILE: &'static str = BOARD;
    const WHAT: &'static str = "a board";
    const MAGIC: u64 = board::MAGIC;
    const VERSION: u32 = board::VERSION;
    fn beginning(&self) -> (&AtomicU64, &AtomicU32) {
        (&self.magic, &self.version)
    }
}

/// The name of the file of a cluster of flags in /proc.
pub const FLAGS: &str = "weir-flags";
/// The name of the file of a board in /proc.
pub const BOARD: &str = "weir-board";

/// A mapping of such a page. Forked children have it too.
#[derive(Debug)]
pub struct SharedPage<C: PageContent> {
    mapping: Mapping,
    content: PhantomData<fn() -> C>,
}

impl<C: PageContent> SharedPage<C> {
    /// Makes a page and its file. It is sealed against further seals as well: any number of
    /// processes may map it, and none can keep others from it.
    pub fn create() -> Result<(ParentOnly, SharedPage<C>)> {
        let failed = |cause: Errno| Error::os("make", C::WHAT, cause);
        let made = SealedMemory::make(C::FILE, page_bytes(), SealFlags::SEAL).map_err(failed)?;
        let page = Self::map(made.here().map_err(failed)?)?;
        let (magic, version) = page.words().beginning();
        version.store(C::VERSION, Ordering::Relaxed);
        // Release: pairs with the Acquire in `is_sound`.
        magic.store(C::MAGIC, Ordering::Release);
        Ok((made, page))
    }

    /// Checks and maps a page that another process made.
    pub fn open(file: BorrowedFd) -> Result<SharedPage<C>> {
        let refused = |why| {
            Error::new(
                ErrorKind::Corrupt,
                "use",
                format!("the memory received as {}", C::WHAT),
                why,
            )
        };
        match SealedMemory::received(file) {
            Ok(memory) if memory.bytes() == page_bytes() => {}
            Ok(_) => return Err(refused("it is not one page")),
            Err(_) => return Err(refused("it is not sealed memory")),
        }
        let page = SharedPage::map(file)?;
        let why = "its content is something else, or of another version";
        if page.is_sound() { Ok(page) } else { Err(refused(why)) }
    }

    fn is_sound(&self) -> bool {
        let (magic, version) = self.words().beginning();
        // Acquire: pairs with the release of the maker, which stores the magic last.
        magic.load(Ordering::Acquire) == C::MAGIC && version.load(Ordering::Relaxed) == C::VERSION
    }

    fn map(file: BorrowedFd) -> Result<SharedPage<C>> {
        let mapping = Mapping::of_file(file, page_bytes() as usize, MapAccess::Inherited)
            .map_err(|cause| Error::os("map", C::WHAT, cause))?;
        Ok(SharedPage { mapping, content: PhantomData })
    }

    /// The words on the page.
    pub fn words(&self) -> &C {
        self.mapping.first()
    }
}

impl SharedPage<Cluster> {
    /// Opens the file of this name, or makes it so that only this user may open it.
    pub fn named(path: &Path) -> Result<(OwnedFd, SharedPage<Cluster>)> {
        let object = || format!("flags '{}'", path.display());
        let failed = |cause: Errno| Error::os("open", object(), cause);
        // Twice, in case the file comes or goes between the two calls.
        for _ in 0..2 {
            match SharedPage::find(path) {
                Err(Errno::NOENT) => {}
                Err(cause) => return Err(failed(cause)),
                Ok(file) => {
                    return SharedPage::check_named(&file, &object).map(|page| (file, page));
                }
            }
            match SharedPage::make(path) {
                Err(Errno::EXIST) => {}
                made => {
                    let file = made.map_err(failed)?;
                    return SharedPage::map(file.as_fd()).map(|page| (file, page));
                }
            }
        }
        Err(failed(Errno::AGAIN))
    }

    fn find(path: &Path) -> rustix::io::Result<OwnedFd> {
        // NONBLOCK: a FIFO of that name must not block this call.
        let how = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        rustix::fs::open(path, how, Mode::empty())
    }

    fn check_named(file: &OwnedFd, object: &dyn Fn() -> String) -> Result<SharedPage<Cluster>> {
        let refused = |why: Text| Error::new(ErrorKind::Corrupt, "open", object(), why);
        let found = rustix::fs::fstat(file).map_err(|cause| Error::os("open", object(), cause))?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_size as u64 != page_bytes() {
            return Err(refused("it is another file, not a cluster of flags".into()));
        }
        let page: SharedPage<Cluster> = SharedPage::map(file.as_fd())?;
        if page.is_sound() {
            return Ok(page);
        }
        let (magic, version) = page.words().beginning();
        if magic.load(Ordering::Relaxed) != cluster::MAGIC {
            return Err(refused("it is another file, not a cluster of flags".into()));
        }
        let (version, own) = (version.load(Ordering::Relaxed), cluster::VERSION);
        Err(refused(format!(
            "it is a cluster of version {version}, and this weir uses version {own}: remove the \
             file once nobody uses it"
        ).into()))
    }

    /// Makes the file complete before it gets its name, so that nobody finds half of it.
    fn make(path: &Path) -> rustix::io::Result<OwnedFd> {
        if !may_reach(page_bytes()) {
            return Err(Errno::FBIG);
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let owner = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::open(directory.unwrap_or(Path::new(".")), how, owner)?;
        let mut bytes = vec![0; page_bytes() as usize];
        bytes[..8].copy_from_slice(&cluster::MAGIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&cluster::VERSION.to_ne_bytes());
        let mut left = &bytes[..];
        while !left.is_empty() {
            left = &left[rustix::io::write(&file, left)?..];
        }
        let own = weir_sys::proc::path_of_own(&file);
        rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }
}
