//! How a file of `/proc` is found, opened and read.

use super::text::field;
use crate::Pid;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Most bytes of a small file. A longer one is cut.
const SMALL_BYTES: usize = 4096;
/// The room to begin with for a file whose length nobody knows.
const FIRST_BYTES: usize = 8192;

/// A directory of `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcDir {
    /// `/proc` itself, with the files about the whole host.
    Host,
    /// That of this process. It is there even if `/proc` shows another pid namespace.
    This,
    /// That of a thread of this process.
    ThreadOfThis(Pid),
    /// That of a process.
    Process(Pid),
    /// That of a thread, the second number, of a process, the first.
    Thread(Pid, Pid),
}

impl From<Pid> for ProcDir {
    fn from(pid: Pid) -> ProcDir {
        ProcDir::Process(pid)
    }
}

impl Display for ProcDir {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ProcDir::Host => f.write_str("/proc"),
            ProcDir::This => f.write_str("/proc/self"),
            ProcDir::ThreadOfThis(thread) => write!(f, "/proc/self/task/{thread}"),
            ProcDir::Process(pid) => write!(f, "/proc/{pid}"),
            ProcDir::Thread(pid, thread) => write!(f, "/proc/{pid}/task/{thread}"),
        }
    }
}

impl ProcDir {
    /// Returns the path of a file in it; `ENOENT` where `/proc` shows another pid namespace, because
    /// the file would belong to another process than the one that is meant.
    pub(super) fn path(self, file: impl Display) -> Result<String, Errno> {
        let is_of_other = matches!(self, ProcDir::Process(_) | ProcDir::Thread(..));
        if is_of_other && !is_own() { Err(Errno::NOENT) } else { Ok(format!("{self}/{file}")) }
    }

    pub(super) fn open(self, file: impl Display, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self.path(file)?, flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Follows a link in it.
    pub(super) fn link(self, name: impl Display) -> Option<PathBuf> {
        std::fs::read_link(self.path(name).ok()?).ok()
    }

    /// Lists the entries whose names are numbers; none where they are hidden.
    pub(super) fn numbers(self, directory: &str) -> Option<impl Iterator<Item = Pid>> {
        let dir = Dir::new(self.open(directory, OFlags::RDONLY | OFlags::DIRECTORY).ok()?).ok()?;
        Some(dir.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok()))
    }

    /// Opens, reads and closes a small file, and hands its text on.
    pub(super) fn read<T>(
        self,
        file: impl Display,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, Errno> {
        read_small(self.open(file, OFlags::RDONLY)?, parse)
    }

    /// Opens a file, reads at most so many bytes of it at once, and closes it.
    pub(super) fn read_once(self, file: impl Display, most_bytes: usize) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(most_bytes);
        let fd = self.open(file, OFlags::RDONLY).ok()?;
        rustix::io::pread(fd, rustix::buffer::spare_capacity(&mut text), 0).ok()?;
        Some(text)
    }

    /// Reads a file that may be longer than one read returns: its first `most_bytes`; `None` where it
    /// is hidden or gone.
    pub(super) fn read_whole(self, file: impl Display, most_bytes: usize) -> Option<String> {
        use std::io::Read;
        let file = std::fs::File::from(self.open(file, OFlags::RDONLY).ok()?);
        let mut text = Vec::with_capacity(most_bytes.min(FIRST_BYTES));
        // What was read before the process ended counts.
        let _ = file.take(most_bytes as u64).read_to_end(&mut text);
        let text = String::from_utf8(text);
        Some(text.unwrap_or_else(|cut| String::from_utf8_lossy(cut.as_bytes()).into_owned()))
    }
}

fn read_small<T>(fd: impl AsFd, parse: impl FnOnce(&[u8]) -> Option<T>) -> Result<T, Errno> {
    let mut buffer = [MaybeUninit::uninit(); SMALL_BYTES];
    let (text, _) = rustix::io::pread(fd, &mut buffer[..], 0)?;
    parse(text).ok_or(Errno::INVAL)
}

/// What a small file says.
pub trait ProcContents: Sized {
    /// Its name.
    const FILE: &'static str;

    /// Parses its text; `None` for one of another form.
    fn parse(text: &[u8]) -> Option<Self>;

    /// Opens, reads and closes that of a process or a thread; `None` where it is gone or hidden.
    fn of(dir: impl Into<ProcDir>) -> Option<Self> {
        dir.into().read(Self::FILE, Self::parse).ok()
    }
}

/// A small file that is kept open and can be read repeatedly. One that was opened while a process
/// lived can still be read when it is a zombie, even if it could not be opened any more.
#[derive(Debug)]
pub struct ProcFile<T> {
    fd: OwnedFd,
    contents: PhantomData<T>,
}

impl<T: ProcContents> ProcFile<T> {
    /// Opens that of a process or a thread.
    ///
    /// # Errors
    /// `ENOENT`: it is gone. `EACCES`: `/proc` hides it.
    pub fn open(dir: impl Into<ProcDir>) -> Result<ProcFile<T>, Errno> {
        let fd = dir.into().open(T::FILE, OFlags::RDONLY)?;
        Ok(ProcFile { fd, contents: PhantomData })
    }

    /// Reads it from its start.
    ///
    /// # Errors
    /// `ESRCH`: the process is gone. `EPERM` or `EACCES`: no permission. `EINVAL`: it has another form.
    pub fn read(&self) -> Result<T, Errno> {
        read_small(&self.fd, T::parse)
    }
}

/// Whether `/proc` shows the pid namespace of this process. If it shows another one (`unshare --pid
/// --fork` without `--mount-proc`), its numbers mean other processes.
pub fn is_own() -> bool {
    static OWN: OnceLock<bool> = OnceLock::new();
    *crate::forks::get_or_make(&OWN, || {
        let is =
            |text: &[u8]| Some(is_of_namespace(&String::from_utf8_lossy(text), std::process::id()));
        ProcDir::This.read("status", is).unwrap_or(false)
    })
}

/// Whether a process with this status sees itself by the number `pid`, and `/proc` shows no further
/// number. Processes of inner namespaces have more than one.
fn is_of_namespace(status: &str, pid: u32) -> bool {
    let Some(numbers) = field(status, "NSpid").or_else(|| field(status, "Pid")) else {
        return false;
    };
    let mut numbers = numbers.split_ascii_whitespace().map(str::parse);
    numbers.next() == Some(Ok(pid)) && numbers.next().is_none()
}

/// Whether there is a `/proc` at all.
pub fn is_mounted() -> bool {
    std::path::Path::new("/proc/self/stat").exists()
}

/// Lists the ids of all visible processes.
pub fn processes() -> Vec<Pid> {
    let all = || is_own().then(|| ProcDir::Host.numbers("."))?;
    all().map_or_else(Vec::new, Iterator::collect)
}

/// Lists the ids of the threads of a process. Empty if it is gone or hidden.
pub fn tasks(process: impl Into<ProcDir>) -> Vec<Pid> {
    process.into().numbers("task").map_or_else(Vec::new, Iterator::collect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_told_by_the_numbers_it_gives() {
        let me = std::process::id() as Pid;
        assert!(processes().contains(&me) && !tasks(me).is_empty());
        assert!(is_own(), "tests run where /proc is their own");
        let is = |status: &str| is_of_namespace(status, 7);
        assert!(is("Name:\tx\nPid:\t7\nNSpid:\t7\n"));
        for status in ["NSpid:\t700\t7\n", "NSpid:\t7\t7\n", "NSpid:\t8\n", ""] {
            assert!(!is(status), "{status:?}");
        }
        assert!(is("Pid:\t7\n"), "a kernel without namespaces");
    }

    #[test]
    fn a_file_is_read_whole_or_as_far_as_there_is_room() {
        let whole = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let read = |most| ProcDir::This.read_whole("maps", most).expect("maps");
        assert!(read(1 << 20).len() > whole.len() / 2);
        assert_eq!(read(5), whole[..5]);
        assert_eq!(ProcDir::This.read_whole("nothing", 5), None);
    }
}
