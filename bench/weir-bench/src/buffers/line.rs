//! A writer, possibly a program, and a reader, each a process: one run from the first byte to the
//! last.
//!
//! The writer sends some chunks ahead, and begins when the reader has seen some of them, so the
//! start of the program is not measured. The reader checks all that it counts.

use super::flow::{Bursts, CHUNK_BYTES, READ_BYTES, Sequence, Taking, sleep_until};
use super::way::RelayCommand;
use crate::engine::case::CaseError;
use crate::sys::shared::{LINE_BYTES, SharedPages};
use crate::tools::channel::set_pipe_bytes;
use crate::tools::now_ns;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::Ordering;
use weir_measure::sys::fork::{self, Child};
use weir_measure::sys::wait::{Reaped, reap_blocking};

/// Number of chunks sent ahead: mbuffer passes a block (128 KiB) on once it has the next one. With
/// a large memory its blocks are larger, so the number is a part of all chunks where that is more.
const AHEAD_CHUNKS: u64 = 4;
const AHEAD_PART: u64 = 128;
const BEGUN: usize = 0;
const WRITTEN: usize = 1;
const HELD: usize = 2;
const ENDED: usize = 3;
const DRAINED: usize = 4;
const WORDS: usize = 5;

#[derive(Clone, Copy, Debug)]
pub struct BufferFigures {
    /// From the first byte of the first burst to the last byte at the reader.
    pub all_ns: u64,
    /// From the same moment until the writer had written its last byte.
    pub fill_ns: u64,
    /// From then to the last byte at the reader.
    pub drain_ns: u64,
    /// The bytes that the reader took in that time, if it had waited for the writer.
    pub drained_bytes: u64,
    /// The time from when a burst was due until the writer had written it, summed over all bursts.
    pub held_ns: u64,
    pub cpu_ns: u64,
    /// CPU time and peak memory of the program, if there is one.
    pub relay: Option<Reaped>,
}

/// The descriptors of a run. Each process keeps its own and closes the others.
#[derive(Debug, Default)]
struct RunEnds {
    writer: Option<WriterEnds>,
    /// The program's input and output, if there is a program.
    relay: Option<(OwnedFd, OwnedFd)>,
    reader: Option<ReaderEnds>,
}

#[derive(Debug)]
struct WriterEnds {
    write: OwnedFd,
    /// The reader writes here once it has seen some bytes.
    hear_seen: OwnedFd,
    /// Closed when the writer is done.
    _say_done: OwnedFd,
}

#[derive(Debug)]
struct ReaderEnds {
    read: OwnedFd,
    say_seen: OwnedFd,
    hear_done: OwnedFd,
}

impl RunEnds {
    fn new(pipe_bytes: u64, with_relay: bool) -> Result<RunEnds, CaseError> {
        let sized = || -> Result<(OwnedFd, OwnedFd), CaseError> {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
            if pipe_bytes > 0 {
                set_pipe_bytes(&write, pipe_bytes)?;
            }
            Ok((read, write))
        };
        let (first, write) = sized()?;
        let (hear_seen, say_seen) = pipe_with(PipeFlags::CLOEXEC)?;
        let (hear_done, _say_done) = pipe_with(PipeFlags::CLOEXEC)?;
        let (read, relay) = if with_relay {
            let (read, output) = sized()?;
            (read, Some((first, output)))
        } else {
            (first, None)
        };
        let writer = Some(WriterEnds { write, hear_seen, _say_done });
        Ok(RunEnds { writer, relay, reader: Some(ReaderEnds { read, say_seen, hear_done }) })
    }

    /// Keeps the descriptors of one process and closes the others.
    fn keep<T>(&mut self, of: impl FnOnce(&mut RunEnds) -> Option<T>) -> Result<T, CaseError> {
        of(&mut std::mem::take(self)).ok_or_else(|| CaseError::failed("a descriptor is missing"))
    }
}

pub fn run(
    relay: Option<&RelayCommand>,
    pipe_bytes: u64,
    bursts: Bursts,
    taking: Taking,
) -> Result<BufferFigures, CaseError> {
    let times = SharedPages::new(WORDS * LINE_BYTES)?;
    let complaints = complaints()?;
    let mut ends = RunEnds::new(pipe_bytes, relay.is_some())?;
    // In a child, `ends` belongs to the child, which takes what it needs and drops the rest.
    let mut writer =
        side(&complaints, || write_all(&ends.keep(|ends| ends.writer.take())?, bursts, &times))?;
    let mut reader = side(&complaints, || {
        read_all(&ends.keep(|ends| ends.reader.take())?, bursts.bytes(), taking, &times)
    })?;
    let program = match (relay, ends.relay.take()) {
        (Some(relay), Some((input, output))) => Some(start(relay, input, output, &complaints)?),
        _ => None,
    };
    drop(ends);
    let written = writer.wait()?;
    let relayed = program.map(reap_blocking).transpose()?;
    let read = reader.wait()?;
    let all = [Some(written), relayed, Some(read)];
    if all.iter().flatten().any(|ended| !ended.status.success()) {
        return Err(why(&complaints, relayed));
    }
    // Acquire pairs with the releases of the two sides, which have ended.
    let time = |word| times.word(word).load(Ordering::Acquire);
    let cpu_ns = |ended: &Reaped| ended.user_ns + ended.system_ns;
    Ok(BufferFigures {
        all_ns: time(ENDED).saturating_sub(time(BEGUN)),
        fill_ns: time(WRITTEN).saturating_sub(time(BEGUN)),
        drain_ns: time(ENDED).saturating_sub(time(WRITTEN)),
        drained_bytes: time(DRAINED),
        held_ns: time(HELD),
        cpu_ns: all.iter().flatten().map(cpu_ns).sum(),
        relay: relayed,
    })
}

/// Makes a file in memory into which the children of a run write why they failed.
pub fn complaints() -> Result<File, CaseError> {
    Ok(File::from(memfd_create("complaints", MemfdFlags::CLOEXEC)?))
}

/// Returns the beginning of what they wrote.
pub fn complaint(complaints: &File) -> String {
    let mut said = [0; 512];
    let count = complaints.read_at(&mut said, 0).unwrap_or(0);
    String::from_utf8_lossy(&said[..count]).into_owned()
}

/// Starts a child that writes its error to `complaints`.
pub fn side(
    mut complaints: &File,
    body: impl FnOnce() -> Result<(), CaseError>,
) -> Result<Child, CaseError> {
    Ok(fork::child(|| match body() {
        Ok(()) => 0,
        Err(trouble) => {
            let _ = writeln!(complaints, "{trouble}");
            1
        }
    })?)
}

/// Starts the program. The command is dropped on return, and with it our ends of the pipes.
fn start(
    relay: &RelayCommand,
    input: OwnedFd,
    output: OwnedFd,
    complaints: &File,
) -> Result<weir_sys::Pid, CaseError> {
    let name = relay.program.display();
    let mut command = Command::new(&relay.program);
    command.args(&relay.words).stdin(input).stdout(output).stderr(complaints.try_clone()?);
    // The process is reaped by its number, together with its usage.
    let child = command
        .spawn()
        .map_err(|error| CaseError::failed(format!("cannot run {name}: {error}")))?;
    Ok(child.id() as weir_sys::Pid)
}

/// Explains a failure: by the first complaint, or by how the program ended.
fn why(complaints: &File, relay: Option<Reaped>) -> CaseError {
    match (complaint(complaints).lines().next(), relay) {
        (Some(line), _) => CaseError::failed(line),
        (None, Some(relay)) => CaseError::failed(format!("the program ended: {}", relay.status)),
        (None, None) => CaseError::failed("a side died"),
    }
}

fn ahead_chunks(bytes: u64) -> u64 {
    AHEAD_CHUNKS.max(bytes / AHEAD_PART / CHUNK_BYTES as u64)
}

fn write_all(ends: &WriterEnds, bursts: Bursts, times: &SharedPages) -> Result<(), CaseError> {
    let mut out = File::from(ends.write.try_clone()?);
    let mut sequence = Sequence::new();
    for _ in 0..ahead_chunks(bursts.bytes()) {
        out.write_all(sequence.next_chunk())?;
    }
    if retry_on_intr(|| rustix::io::read(&ends.hear_seen, &mut [0; 1]))? == 0 {
        return Err(CaseError::failed("the reader ended"));
    }
    let begun = now_ns();
    let mut held = 0;
    for burst in 0..bursts.count {
        let due = begun + burst * bursts.every_ns;
        sleep_until(due)?;
        for _ in 0..bursts.chunks {
            out.write_all(sequence.next_chunk())?;
        }
        held += now_ns().saturating_sub(due);
    }
    // Release pairs with acquire in `run`, after this process has ended.
    times.word(WRITTEN).store(now_ns(), Ordering::Release);
    times.word(BEGUN).store(begun, Ordering::Release);
    times.word(HELD).store(held, Ordering::Release);
    Ok(())
}

fn read_all(
    ends: &ReaderEnds,
    bytes: u64,
    taking: Taking,
    times: &SharedPages,
) -> Result<(), CaseError> {
    let (mut buffer, mut sequence) = (vec![0; READ_BYTES], Sequence::new());
    let ahead = ahead_chunks(bytes) * CHUNK_BYTES as u64;
    let (all, mut begun) = (ahead + bytes, None);
    loop {
        let position = sequence.position();
        let most = match (position.checked_sub(ahead), begun) {
            // The chunks ahead are read at once, and so are the first bytes after them.
            (None | Some(0), _) | (_, None) => READ_BYTES as u64,
            (Some(taken), Some(begun)) => {
                let allowance = taking.allowance(now_ns().saturating_sub(begun));
                if taken >= allowance {
                    sleep_until(begun + taking.next_ns(taken))?;
                    continue;
                }
                allowance - taken
            }
        };
        let most = most.min(READ_BYTES as u64) as usize;
        match retry_on_intr(|| rustix::io::read(&ends.read, &mut buffer[..most]))? {
            0 => break,
            count => sequence.check(&buffer[..count])?,
        }
        if position == 0 {
            rustix::io::write(&ends.say_seen, b".")?;
            if taking == Taking::AfterAll {
                // The writer sends nothing here; it closes the pipe.
                retry_on_intr(|| rustix::io::read(&ends.hear_done, &mut [0; 1]))?;
                times.word(DRAINED).store(all - sequence.position(), Ordering::Release);
            }
        }
        if sequence.position() > ahead {
            begun.get_or_insert_with(now_ns);
        }
        if sequence.position() == all {
            // Release pairs with acquire in `run`, after this process has ended.
            times.word(ENDED).store(now_ns(), Ordering::Release);
        }
    }
    match sequence.position() {
        position if position == all => Ok(()),
        position => Err(CaseError::failed(format!("{position} bytes of {all} arrived"))),
    }
}
