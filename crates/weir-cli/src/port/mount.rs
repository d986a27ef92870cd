//! `weir port mount`: the ports of a directory as files, which any program may open and write.
//!
//! What a program writes between its open and the last close of that is one message. A thread for each
//! port sends them in the order in which they were closed, and answers an open once it has sent what was
//! closed before: a reader that is slow holds up who opens its port, and nobody else.

use super::asked;
use crate::args::PortMountOptions;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr, ReplyCreate, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};
use rustix::process::{getgid, getuid};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir::{ErrorKind, PortName, PortWriter, PortWriterOptions};
use weir_command::fault::{Fault, die, print_message};
use weir_command::signals::{CaughtSignals, ENDS};

/// How long the kernel may believe what it was told of a file. Ports come and go.
const VALID: Duration = Duration::ZERO;
/// How long an interrupted mount may take to end.
const PATIENCE: Duration = Duration::from_millis(500);

pub fn mount(options: &PortMountOptions) -> Result<ExitCode, Fault> {
    // Where there are none yet, there may be some later.
    PortName::list(options.of.as_deref()).map_err(asked)?;
    let ports = Ports::new(options.of.clone(), options.max_message);
    let mut config = Config::default();
    let name = MountOption::FSName(String::from("weir"));
    config.mount_options =
        vec![name, MountOption::Subtype(String::from("ports")), MountOption::NoExec];
    let at = options.directory.display();
    // The kernel would mount it over a file too.
    if options.directory.metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(Fault::usage(format!("cannot mount on '{at}': it is not a directory")));
    }
    let session = Session::new(ports, &options.directory, &config);
    let mut session =
        session.map_err(|error| Fault::failed(refusal(&options.directory, &error)))?;
    let unmounter = Mutex::new(session.unmount_callable());
    let heard = CaughtSignals::start(&ENDS, &[], PATIENCE, move || {
        let _ = unmounter.lock().unwrap_or_else(PoisonError::into_inner).unmount();
    })?;
    let ended = session.run();
    match heard.end() {
        Some(signal) => Ok(die(signal)),
        None => ended
            .map(|()| ExitCode::SUCCESS)
            .map_err(|error| Fault::failed(format!("cannot serve '{at}': {error}"))),
    }
}

fn refusal(directory: &Path, error: &std::io::Error) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::NotFound if directory.is_dir() => {
            " (mounting needs /dev/fuse and, unless root does it, fusermount3 of the package fuse3)"
        }
        _ => "",
    };
    format!("cannot mount on '{}': {error}{hint}", directory.display())
}

/// The ports as files.
struct Ports {
    /// The directory of their names; without one, that of names without a `/`.
    of: Option<PathBuf>,
    most_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The names that were looked up; that at `n` is file `n + FIRST`.
    names: Vec<OsString>,
    /// What sends to each.
    senders: HashMap<u64, Sender<Order>>,
    open: HashMap<u64, OpenFile>,
    opened: u64,
}

/// The number of the first file; 1 is the directory.
const FIRST: u64 = 2;

/// What a program has written so far.
#[derive(Default)]
struct OpenFile {
    file: u64,
    message: Vec<u8>,
    /// A write was refused: what there is of the message is not sent.
    spoiled: bool,
}

/// What the thread of a port is to do.
enum Order {
    /// Answer an open of this number.
    Open(FileHandle, ReplyOpen),
    /// Send what was written, and forget the open.
    Close(Vec<u8>),
}

impl Ports {
    fn new(of: Option<PathBuf>, most_bytes: u64) -> Ports {
        Ports { of, most_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of the ports that are there.
    fn names(&self) -> Vec<OsString> {
        let found = PortName::list(self.of.as_deref()).unwrap_or_default();
        found.iter().filter_map(|port| Some(port.path.file_name()?.to_owned())).collect()
    }

    /// The number of the file of a port that is there.
    fn file(&self, name: &OsStr) -> Option<u64> {
        self.names().iter().any(|port| port == name).then(|| self.state().file(name))
    }
}

impl State {
    fn file(&mut self, name: &OsStr) -> u64 {
        let known = self.names.iter().position(|port| port == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        at as u64 + FIRST
    }

    fn name(&self, file: u64) -> Option<&OsString> {
        self.names.get(usize::try_from(file.checked_sub(FIRST)?).ok()?)
    }
}

/// Opens, sends and closes for one port, in turn.
fn serve(name: &Path, orders: &Receiver<Order>) {
    let mut writer: Option<PortWriter> = None;
    let mut open = 0_u64;
    for order in orders {
        match order {
            Order::Open(number, reply) => {
                let connected = match writer.take() {
                    Some(writer) => Ok(writer),
                    None => PortWriter::connect(name, &PortWriterOptions::new()),
                };
                match connected {
                    Ok(connected) => {
                        writer = Some(connected);
                        open += 1;
                        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NONSEEKABLE;
                        reply.opened(number, flags);
                    }
                    Err(error) => reply.error(errno(&error)),
                }
            }
            Order::Close(message) => {
                open = open.saturating_sub(1);
                let sent = match &mut writer {
                    Some(writer) if !message.is_empty() => writer.send(&message),
                    _ => Ok(()),
                };
                if let Err(error) = sent {
                    print_message(&format!(
                        "a message of {} bytes is lost: {error}",
                        message.len()
                    ));
                    writer = None;
                }
                // Its reader may wait for the last writer to close.
                if open == 0 {
                    writer = None;
                }
            }
        }
    }
}

/// As the open of a FIFO without a reader fails.
fn errno(error: &weir::Error) -> Errno {
    match error.kind() {
        ErrorKind::NoReader | ErrorKind::Closed => Errno::ENXIO,
        ErrorKind::Refused => Errno::EBUSY,
        ErrorKind::Os => std::error::Error::source(error)
            .and_then(|cause| cause.downcast_ref::<std::io::Error>())
            .and_then(std::io::Error::raw_os_error)
            .map_or(Errno::EIO, Errno::from_i32),
        _ => Errno::EIO,
    }
}

/// What `ls -l` shows: a file that its user may write and nobody may read.
fn attributes(file: u64) -> FileAttr {
    let is_directory = file < FIRST;
    FileAttr {
        ino: INodeNo(file),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_directory { FileType::Directory } else { FileType::RegularFile },
        perm: if is_directory { 0o500 } else { 0o200 },
        nlink: 1,
        uid: getuid().as_raw(),
        gid: getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Filesystem for Ports {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.file(name) {
            Some(file) => reply.entry(&VALID, &attributes(file), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let is_known = ino.0 < FIRST || self.state().name(ino.0).is_some();
        if is_known { reply.attr(&VALID, &attributes(ino.0)) } else { reply.error(Errno::ENOENT) }
    }

    /// `>` sets the size to 0, and `touch` the times: neither means anything here.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.attr(&VALID, &attributes(ino.0));
    }

    /// A port is made by its reader: a name that is not there has none.
    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::ENXIO);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_WRONLY {
            return reply.error(Errno::EACCES);
        }
        let mut state = self.state();
        let Some(name) = state.name(ino.0).cloned() else { return reply.error(Errno::ENOENT) };
        let path = self.of.as_ref().map_or_else(|| PathBuf::from(&name), |of| of.join(&name));
        state.opened += 1;
        let number = state.opened;
        let of = OpenFile { file: ino.0, ..OpenFile::default() };
        state.open.insert(number, of);
        let sender = state.senders.entry(ino.0).or_insert_with(|| {
            let (sender, orders) = channel();
            std::thread::spawn(move || serve(&path, &orders));
            sender
        });
        // Its thread ends with its sender.
        let _ = sender.send(Order::Open(FileHandle(number), reply));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let Some(of) = state.open.get_mut(&fh.0) else { return reply.error(Errno::EBADF) };
        if of.message.len() as u64 + data.len() as u64 > self.most_bytes {
            of.spoiled = true;
            return reply.error(Errno::EMSGSIZE);
        }
        of.message.extend_from_slice(data);
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        if let Some(of) = state.open.remove(&fh.0) {
            let message = if of.spoiled { Vec::new() } else { of.message };
            if let Some(sender) = state.senders.get(&of.file) {
                let _ = sender.send(Order::Close(message));
            }
        }
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = self.names();
        let files = names.iter().map(|name| (FileType::RegularFile, name.as_os_str()));
        let dots = [".", ".."].map(|name| (FileType::Directory, OsStr::new(name)));
        let all = dots.into_iter().chain(files).zip(1_u64..).skip(offset as usize);
        for ((kind, name), next) in all {
            let file = if next <= 2 { 1 } else { self.state().file(name) };
            if reply.add(INodeNo(file), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
