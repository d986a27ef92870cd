//! Standard input and output: their kinds, and calls on them that never wait.
//!
//! `O_NONBLOCK` belongs to the open file description, which other processes share: setting it on
//! standard input would make the shell's next command fail. Therefore weir opens a pipe or a terminal
//! anew through `/proc`, and the new descriptor replaces the inherited one. If that is refused, each
//! call has a flag that it must not wait (`RWF_NOWAIT`). If the kernel does not know the flag, weir
//! calls `poll` first, and writes no more than a pipe then takes.

use crate::fault::Fault;
use crate::output::check_apart;
use crate::sys::closed_standard_descriptors;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, fcntl_getfl, fstat, open, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, splice};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};
use std::fmt::Display;
use std::io::{IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use weir_measure::pipe_room;
use weir_sys::proc::path_of_own;

/// Sizes to which pipes are enlarged; the first that this user may have.
const PIPE_BYTES: [usize; 3] = [1 << 20, 512 << 10, 256 << 10];
/// Bytes that a pipe takes without waiting once `poll` reports it writable.
const SURE_BYTES: usize = 4096;
/// Most bytes that one call of splice is asked to move.
const SPLICE_BYTES: u64 = 16 << 20;

/// The kind of file behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorKind {
    /// A pipe, with or without a name.
    Pipe,
    /// A socket of any kind.
    Socket,
    /// A regular file or a block device: it is always ready.
    File,
    /// A terminal.
    Terminal,
    /// A device, or anything else.
    Other,
}

/// How weir keeps a call from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallMode {
    /// By `O_NONBLOCK` on an open file description that only weir has.
    Own,
    Flag,
    /// By a flag for sockets.
    Socket,
    /// By calling `poll` first.
    Poll,
    /// Calls never wait.
    Plain,
}

impl DescriptorKind {
    fn of(stat: &Stat, is_terminal: bool) -> DescriptorKind {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => DescriptorKind::Pipe,
            FileType::Socket => DescriptorKind::Socket,
            FileType::RegularFile | FileType::BlockDevice => DescriptorKind::File,
            _ if is_terminal => DescriptorKind::Terminal,
            _ => DescriptorKind::Other,
        }
    }

    fn mode(self, opened_anew: bool) -> CallMode {
        match self {
            DescriptorKind::Pipe | DescriptorKind::Terminal if opened_anew => CallMode::Own,
            DescriptorKind::Pipe => CallMode::Flag,
            DescriptorKind::Socket => CallMode::Socket,
            DescriptorKind::File => CallMode::Plain,
            DescriptorKind::Terminal | DescriptorKind::Other => CallMode::Poll,
        }
    }
}

/// Replaces standard input by the file that was named.
pub fn take_input(input: Option<&Path>) -> Result<(), Fault> {
    if let Some(path) = input {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        file.and_then(dup2_stdin).map_err(|error| Fault::unreadable(input, error))?;
    }
    Ok(())
}

/// Replaces standard output by the file that was named.
pub fn take_output(output: Option<&Path>) -> Result<(), Fault> {
    if let Some(path) = output {
        check_not_input(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666));
        file.and_then(dup2_stdout).map_err(|error| Fault::unwritable(output, error))?;
    }
    Ok(())
}

/// Refuses an output that is the input, which opening it for writing would empty.
pub fn check_not_input(path: &Path) -> Result<(), Fault> {
    fstat(stdin()).map_or(Ok(()), |input| check_apart(path, (&input, "input")))
}

/// Refuses a file of `--json` that is the input or the output: each would be written over the other.
pub fn check_json(json: &Path, output: Option<&Path>) -> Result<(), Fault> {
    check_not_input(json)?;
    let output = output.map_or_else(|| fstat(stdout()), rustix::fs::stat);
    output.map_or(Ok(()), |output| check_apart(json, (&output, "output")))
}

/// Standard input.
#[derive(Debug)]
pub struct BufferInput {
    /// The file that replaces it, if one was named.
    file: Option<PathBuf>,
    /// The kind of the file.
    pub kind: DescriptorKind,
    mode: CallMode,
    /// Bytes of a file that are not read yet.
    pub remaining_bytes: Option<u64>,
}

impl BufferInput {
    /// Prepares standard input.
    pub fn new(file: Option<&Path>) -> Result<BufferInput, Fault> {
        let unreadable = |why: &dyn Display| Fault::unreadable(file, why);
        // A named file has replaced it.
        if closed_standard_descriptors()[0] && file.is_none() {
            return Err(unreadable(&"it is closed"));
        }
        let stat = fstat(stdin()).map_err(|error| unreadable(&error))?;
        let kind = DescriptorKind::of(&stat, rustix::termios::isatty(stdin()));
        let write_only = fcntl_getfl(stdin()).is_ok_and(|flags| flags.contains(OFlags::WRONLY));
        let opened = matches!(kind, DescriptorKind::Pipe | DescriptorKind::Terminal)
            && !write_only
            && reopen(stdin(), OFlags::RDONLY).and_then(dup2_stdin).is_ok();
        if kind == DescriptorKind::Pipe {
            enlarge(stdin());
        }
        let mut remaining_bytes = None;
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let at = seek(stdin(), SeekFrom::Current(0)).unwrap_or(0);
            // Files in /proc have the size 0.
            let size = u64::try_from(stat.st_size).ok().filter(|size| *size > 0);
            remaining_bytes = size.map(|size| size.saturating_sub(at));
        }
        Ok(BufferInput {
            file: file.map(Path::to_path_buf),
            kind,
            mode: kind.mode(opened),
            remaining_bytes,
        })
    }

    /// The error that it cannot be read.
    pub fn unreadable(&self, why: impl Display) -> Fault {
        Fault::unreadable(self.file.as_deref(), why)
    }

    /// Whether `poll` must report it readable before each call.
    pub fn must_ask(&self) -> bool {
        self.mode == CallMode::Poll
    }

    /// Whether `poll` must report it readable before each splice: of the inputs that may be empty,
    /// only a pipe obeys `SPLICE_F_NONBLOCK`.
    pub fn must_ask_to_splice(&self) -> bool {
        !matches!(self.kind, DescriptorKind::Pipe | DescriptorKind::File)
    }

    /// Reads what is there; `AGAIN` if there is nothing.
    pub fn read(&mut self, space: &mut [u8]) -> Result<usize, Errno> {
        let read = retry_on_intr(|| match self.mode {
            CallMode::Flag => {
                let mut one = [IoSliceMut::new(space)];
                preadv2(stdin(), &mut one, u64::MAX, ReadWriteFlags::NOWAIT)
            }
            CallMode::Socket => recv(stdin(), &mut *space, RecvFlags::DONTWAIT).map(|(_, got)| got),
            CallMode::Own | CallMode::Poll | CallMode::Plain => {
                rustix::io::read(stdin(), &mut *space)
            }
        });
        fall_back(&mut self.mode, read)
    }

    /// Closes it, so that a process that still writes learns that nobody reads.
    pub fn close(self) {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let _ = open("/dev/null", flags, Mode::empty()).and_then(dup2_stdin);
    }
}

/// Standard output.
#[derive(Debug)]
pub struct BufferOutput {
    /// The file that replaces it, if one was named.
    file: Option<PathBuf>,
    /// The kind of the file.
    pub kind: DescriptorKind,
    mode: CallMode,
}

impl BufferOutput {
    /// Prepares standard output.
    pub fn new(file: Option<&Path>) -> Result<BufferOutput, Fault> {
        let unwritable = |why: &dyn Display| Fault::unwritable(file, why);
        if closed_standard_descriptors()[1] && file.is_none() {
            return Err(unwritable(&"it is closed"));
        }
        let stat = fstat(stdout()).map_err(|error| unwritable(&error))?;
        let kind = DescriptorKind::of(&stat, rustix::termios::isatty(stdout()));
        let flags = fcntl_getfl(stdout()).map_err(|error| unwritable(&error))?;
        let read_only = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
        // A FIFO without a reader is refused here; the first write reports it.
        let opened = matches!(kind, DescriptorKind::Pipe | DescriptorKind::Terminal)
            && !read_only
            && reopen(stdout(), OFlags::WRONLY).and_then(dup2_stdout).is_ok();
        if kind == DescriptorKind::Pipe {
            enlarge(stdout());
        }
        let input = fstat(stdin()).ok();
        let same = input.is_some_and(|it| (it.st_dev, it.st_ino) == (stat.st_dev, stat.st_ino));
        if same && kind == DescriptorKind::File && flags.contains(OFlags::APPEND) {
            return Err(Fault::failed(
                "standard input is the same file that standard output appends to",
            ));
        }
        Ok(BufferOutput { file: file.map(Path::to_path_buf), kind, mode: kind.mode(opened) })
    }

    /// The error that it cannot be written.
    pub fn unwritable(&self, why: impl Display) -> Fault {
        Fault::unwritable(self.file.as_deref(), why)
    }

    /// Whether `poll` must report it writable before each call.
    pub fn must_ask(&self) -> bool {
        self.mode == CallMode::Poll
    }

    /// Writes as much as it takes at once; `AGAIN` if that is nothing.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        let written = retry_on_intr(|| match self.mode {
            CallMode::Flag => {
                pwritev2(stdout(), &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT)
            }
            CallMode::Socket => send(stdout(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            CallMode::Poll if self.kind != DescriptorKind::Other => {
                rustix::io::write(stdout(), &bytes[..bytes.len().min(SURE_BYTES)])
            }
            CallMode::Own | CallMode::Poll | CallMode::Plain => rustix::io::write(stdout(), bytes),
        });
        fall_back(&mut self.mode, written)
    }
}

/// Switches to `poll` if the kernel does not know the flag.
fn fall_back(mode: &mut CallMode, result: Result<usize, Errno>) -> Result<usize, Errno> {
    match result {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if *mode == CallMode::Flag => {
            *mode = CallMode::Poll;
            Err(Errno::AGAIN)
        }
        result => result,
    }
}

/// Whether the kernel can move bytes from one to the other without waiting.
pub fn can_splice(input: &BufferInput, output: &BufferOutput) -> bool {
    match (input.kind, output.kind) {
        (DescriptorKind::Terminal, _) | (_, DescriptorKind::Terminal) => false,
        (DescriptorKind::Pipe, DescriptorKind::Socket) => splices_to_sockets(),
        (DescriptorKind::Pipe, _) | (_, DescriptorKind::Pipe) => true,
        _ => false,
    }
}

/// Moves what is there, at most `most_bytes`; 0 at the end of the input.
pub fn move_on(most_bytes: u64) -> Result<u64, Errno> {
    let most = most_bytes.min(SPLICE_BYTES) as usize;
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    splice(stdin(), None, stdout(), None, most, flags).map(|moved| moved as u64)
}

/// Whether splice to a socket obeys its flags: Linux before 6.5 waits whatever they say.
fn splices_to_sockets() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = (numbers.next(), numbers.next());
    matches!(version, (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 5))
}

fn reopen(end: rustix::fd::BorrowedFd, access: OFlags) -> Result<rustix::fd::OwnedFd, Errno> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open(path_of_own(end), flags, Mode::empty())
}

/// Enlarges a pipe as far as `fs.pipe-max-size` allows, and this user's other pipes.
fn enlarge(pipe: rustix::fd::BorrowedFd<'_>) {
    let now = fcntl_getpipe_size(pipe).unwrap_or(0);
    let larger = PIPE_BYTES.iter().filter(|size| **size > now);
    let _ = larger.into_iter().find(|size| pipe_room::resize(pipe, **size as u64).is_ok());
}
