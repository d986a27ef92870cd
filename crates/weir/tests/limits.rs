//! Limits of the kernel, and sizes out of range: making the pipe fails with an error that names the
//! cause.

mod common;

use common::{goes_well, hear, say, say_outcome, start};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use weir::{
    ErrorKind, Handle, Options, Pool, PoolOptions, Reader, RecordWriter, Wait, Waiting, Writer,
    pipe, records,
};

fn large() -> Options {
    Options::new().capacity_bytes(64 << 20)
}

#[test]
fn sizes_out_of_range_are_refused_with_the_range() {
    let error = |options: Options| pipe(&options).map(drop).expect_err("refused").to_string();
    assert_eq!(
        error(Options::new().capacity_bytes(2 << 30)),
        "cannot set the capacity of a pipe: 2147483648 bytes are out of range: 1 to 1073741824"
    );
    assert_eq!(
        error(Options::new().capacity_bytes(65_536).segment_bytes(100)),
        "cannot set the segment of a pipe: 100 bytes are out of range: 256 to 65536"
    );
    assert_eq!(
        error(Options::new().capacity_bytes(65_536).atomic_bytes(0)),
        "cannot set the atomic bound of a pipe: 0 bytes are out of range: 1 to 65536"
    );
}

#[test]
fn a_handle_of_another_kind_is_refused() {
    let options = Options::new().capacity_bytes(4096);
    let (writer, reader) = Handle::stream_pair(&options).expect("made");
    assert_eq!(
        Reader::open(writer).map(drop).expect_err("refused").to_string(),
        "cannot open a reader: the handle is a writer's"
    );
    assert_eq!(
        Writer::open(reader).map(drop).expect_err("refused").to_string(),
        "cannot open a writer: the handle is a reader's"
    );
    let (writer, _reader) = Handle::stream_pair(&options).expect("made");
    assert_eq!(
        RecordWriter::open(writer).map(drop).expect_err("refused").to_string(),
        "cannot open a record pipe: the memory is of another kind"
    );
}

#[test]
fn foreign_memory_is_refused() {
    let (_, socket) = Handle::stream_pair(&large()).expect("made").0.into_descriptors();
    let file = tempfile::tempfile().expect("a file").into();
    let error = Reader::open(Handle::reader(file, socket)).map(drop);
    assert_eq!(error.expect_err("refused").kind(), ErrorKind::Corrupt);
}

/// The error that a process under a limit gets when it makes a pipe.
fn under(role: &str) -> String {
    let (mut child, socket) = start(role);
    let said = String::from_utf8(hear(&socket)).expect("text");
    child.wait().expect("ended");
    said
}

#[test]
fn a_lack_of_memory_is_an_error_when_the_pipe_is_made() {
    assert!(
        under("little-space").starts_with("Cannot allocate memory"),
        "{}",
        under("little-space")
    );
    assert!(under("short-files").starts_with("File too large"), "{}", under("short-files"));
    assert!(under("few-files").starts_with("Too many open files"), "{}", under("few-files"));
}

fn limit(resource: Resource, at_most: u64) {
    let wanted = Rlimit { current: Some(at_most), maximum: Some(at_most) };
    setrlimit(resource, wanted).expect("limited");
}

/// A reader took the pipe's next memory, could not map it, and dropped it: all that was in it was lost,
/// though memory lacked only for a moment.
#[test]
fn a_lack_of_memory_for_now_does_not_end_a_pipe() {
    goes_well("next-memory");
}

/// Such a reader was handed on with its last memory, and without the next one, which it had taken.
#[test]
fn a_reader_that_could_not_follow_is_handed_on_where_its_pipe_continues() {
    goes_well("next-memory-elsewhere");
}

/// `elsewhere`: the reader is handed on before there is memory again.
fn next_memory(elsewhere: bool) -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?;
    writer.write(b"before").map_err(failed)?;
    reader.read(&mut [0; 64]).map_err(failed)?;
    writer.resize(64 << 20).map_err(failed)?;
    writer.write(b"in the new memory").map_err(failed)?;
    let now = leave_space(32 << 20)?;
    let mut buffer = [0; 64];
    let first = reader.try_read(&mut buffer).expect_err("there is no memory").kind();
    let mut handle = None;
    if elsewhere {
        handle = Some(reader.into_handle().map_err(failed)?);
        reader = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?.1;
    }
    setrlimit(Resource::As, now).map_err(|why| why.to_string())?;
    if let Some(handle) = handle {
        reader = Reader::open(handle).map_err(failed)?;
    }
    let second = reader.try_read(&mut buffer).map_err(failed)?;
    let counted = reader.account().map_err(failed)?.bytes;
    match (first, &buffer[..second], counted) {
        (ErrorKind::Os, b"in the new memory", 23) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Limits the address space to so many bytes more than are used. Returns the limit before.
fn leave_space(bytes: u64) -> Result<Rlimit, String> {
    let now = getrlimit(Resource::As);
    let of_this = std::fs::read_to_string("/proc/self/statm").map_err(|why| why.to_string())?;
    let pages: u64 = of_this.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let little = Rlimit { current: Some(pages * 4096 + bytes), ..now };
    setrlimit(Resource::As, little).map_err(|why| why.to_string())?;
    Ok(now)
}

/// A reader that had no descriptor for the pipe's next memory said that its writer had broken the
/// protocol, and an elastic one ended.
#[test]
fn a_lack_of_descriptors_for_now_does_not_end_a_pipe() {
    goes_well("next-memory-few-files");
}

fn next_memory_without_files() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?;
    writer.resize(16_384).map_err(failed)?;
    writer.write(b"in the new memory").map_err(failed)?;
    let all = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(0), ..all };
    setrlimit(Resource::Nofile, none).map_err(|why| why.to_string())?;
    let mut buffer = [0; 64];
    let first = reader.read(&mut buffer).expect_err("there are no descriptors").to_string();
    setrlimit(Resource::Nofile, all).map_err(|why| why.to_string())?;
    let count = reader.read(&mut buffer).map_err(failed)?;
    match (first.as_str(), &buffer[..count]) {
        ("cannot read from the pipe: Too many open files (os error 24)", b"in the new memory") => {
            Ok(())
        }
        other => Err(format!("{other:?}")),
    }
}

/// A reader in poll that could not follow had taken the message that made its descriptor readable,
/// and was told of nothing more.
#[test]
fn a_polled_reader_that_cannot_follow_for_now_is_to_try_again() {
    goes_well("next-memory-polled");
}

fn next_memory_polled() -> Result<(), String> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?;
    let descriptor = reader.poll_descriptor().map_err(failed)?.try_clone_to_owned();
    let descriptor = descriptor.map_err(|why| why.to_string())?;
    reader.try_read(&mut [0; 64]).expect_err("it is empty");
    writer.resize(64 << 20).map_err(failed)?;
    writer.write(b"in the new memory").map_err(failed)?;
    let now = leave_space(32 << 20)?;
    let first = reader.try_read(&mut [0; 64]).expect_err("there is no memory").kind();
    setrlimit(Resource::As, now).map_err(|why| why.to_string())?;
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let told = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&at_once));
    let count = reader.try_read(&mut [0; 64]).map_err(failed)?;
    match (first, told, count) {
        (ErrorKind::Os, Ok(1), 17) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Whatever the cause was, it was said to be something that passes by itself.
#[test]
fn a_lack_of_memory_is_an_error_when_the_first_thread_starts() {
    goes_well("no-thread");
}

fn no_thread() -> Result<(), String> {
    leave_space(1 << 20)?;
    let error = pipe(&Options::new().capacity_bytes(4096)).map(drop).expect_err("no thread");
    match error.to_string().as_str() {
        "cannot start the watcher of peers: Cannot allocate memory (os error 12)" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// A thread that had room for its stack, and for no second one, ended the process.
#[test]
fn a_lack_of_memory_is_an_error_and_ends_no_process_that_closes() {
    for kib in (60..=124).step_by(4) {
        goes_well(&format!("close-in-{kib}"));
    }
}

fn close_in(bytes: u64) -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?;
    reader.poll_descriptor().map_err(failed)?;
    reader.try_read(&mut [0; 64]).expect_err("it is empty");
    // A doorbell is left in the socket.
    writer.write(b"x").map_err(failed)?;
    let now = leave_space(bytes)?;
    drop(reader);
    // sleep: until a thread that was started has ended the process, of which nothing else is to be
    // seen.
    std::thread::sleep(Duration::from_millis(30));
    setrlimit(Resource::As, now).map_err(|why| why.to_string())
}

/// poll(2) takes no more descriptors than a process may have. Threads that poll then did so all the
/// time.
#[test]
fn a_process_that_may_have_no_descriptors_spins_for_none() {
    goes_well("no-files");
}

fn no_files() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(64 << 10)).map_err(failed)?;
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).map_err(failed)?;
    let mut reader = reader.elastic(&pool).map_err(failed)?;
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|why| why.to_string())?;
    let is_pools = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "weir-pool")
    };
    let task = tasks.flatten().map(|task| task.path()).find(is_pools).ok_or("no thread")?;
    let status = File::open(task.join("status")).map_err(|why| why.to_string())?;
    limit(Resource::Nofile, 0);
    let (mut left, mut buffer) = (4 << 20, vec![0; 1 << 20]);
    writer.write(&vec![7; left]).map_err(failed)?;
    while left > 0 {
        left -= reader.read(&mut buffer).map_err(failed)?;
    }
    // A thread that spins never gives its CPU up by itself.
    let before = switches(&status)?;
    let begun = Instant::now();
    while switches(&status)? < before + 3 {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("it spins".into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// How often a thread has given its CPU up by itself.
fn switches(status: &File) -> Result<u64, String> {
    let mut text = [0; 4096];
    let count = status.read_at(&mut text, 0).map_err(|why| why.to_string())?;
    let text = String::from_utf8_lossy(&text[..count]);
    let number = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| "no number".into())
}

/// The trait says that an error means that nothing was written. A writer whose reader could not spill
/// got that error behind bytes that it had written, and wrote them again.
#[test]
fn an_error_of_the_trait_write_means_that_nothing_was_written() {
    goes_well("trait-write");
}

fn trait_write() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(64 << 10)).map_err(failed)?;
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).map_err(failed)?;
    let mut reader = reader.elastic(&pool).map_err(failed)?;
    limit(Resource::Fsize, 0);
    let bytes = vec![7; 4 << 20];
    let first = std::io::Write::write(&mut writer, &bytes).map_err(|why| why.to_string())?;
    let error = std::io::Write::write(&mut writer, &bytes[first..]);
    let error = error.expect_err("it cannot spill").to_string();
    drop(writer);
    let (mut came, mut buffer) = (0, vec![0; 1 << 20]);
    while let count @ 1.. = reader.read(&mut buffer).map_err(failed)? {
        came += count;
    }
    match came == first && error.starts_with("cannot spill the backlog of the pipe") {
        true => Ok(()),
        false => Err(format!("{first} were written, {came} came; {error}")),
    }
}

/// The first pipe of a process starts the thread that sees peers die. Where that found no descriptor, its
/// error was kept, and the process could never make a pipe.
#[test]
fn a_lack_of_descriptors_for_now_does_not_keep_a_process_from_pipes() {
    goes_well("few-files-at-first");
}

fn few_files_at_first() -> Result<(), String> {
    let held = std::fs::read_dir("/proc/self/fd").map_err(|why| why.to_string())?.count() as u64;
    let (all, mut last) = (getrlimit(Resource::Nofile), String::new());
    let begun = Instant::now();
    for more in 0.. {
        let few = Rlimit { current: Some(held + more.min(20)), ..all };
        setrlimit(Resource::Nofile, few).map_err(|why| why.to_string())?;
        match pipe(&Options::new().capacity_bytes(4096)) {
            Ok(_) if last.is_empty() => return Err("there were descriptors from the start".into()),
            Ok(_) => break,
            Err(error) => last = error.to_string(),
        }
        // A thread of its own closes what a pipe that failed leaves, and may not have run yet.
        if begun.elapsed() > Duration::from_secs(20) {
            return Err(format!("with 20 more: {last}"));
        }
    }
    Ok(())
}

/// A writer that only spins looked for room alone, and waited for ever where its reader could not spill.
#[test]
fn a_writer_that_spins_hears_that_its_reader_cannot_spill() {
    goes_well("no-spill-for-one-that-spins");
}

fn no_spill_for_one_that_spins() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let spins = Options::new().capacity_bytes(64 << 10).waiting(Waiting::Spin);
    let (mut writer, reader) = pipe(&spins).map_err(failed)?;
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).map_err(failed)?;
    let _reader = reader.elastic(&pool).map_err(failed)?;
    limit(Resource::Fsize, 0);
    let (begun, time) = (Instant::now(), Duration::from_secs(20));
    let error = writer.write_timeout(&vec![7; 4 << 20], time).expect_err("it cannot spill");
    match error.kind() == ErrorKind::Os && begun.elapsed() < time / 2 {
        true => Ok(()),
        false => Err(format!("{error} after {:?}", begun.elapsed())),
    }
}

/// A writer in a `Wait` was woken for that error, and then not told as ready: it waited for ever.
#[test]
fn a_writer_in_a_wait_hears_that_its_reader_cannot_spill() {
    goes_well("no-spill-for-one-in-a-wait");
}

fn no_spill_for_one_in_a_wait() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (writer, reader) = pipe(&Options::new().capacity_bytes(64 << 10)).map_err(failed)?;
    let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20)).map_err(failed)?;
    let _reader = reader.elastic(&pool).map_err(failed)?;
    limit(Resource::Fsize, 0);
    let mut wait = Wait::new();
    let key = wait.add((), writer).map_err(failed)?;
    loop {
        match wait[key].try_write(&[7; 64 << 10]).map_err(|error| error.kind()) {
            Ok(_) => {}
            Err(ErrorKind::WouldBlock) => {
                wait.wait_timeout(&mut Vec::new(), Duration::from_secs(10)).map_err(failed)?;
            }
            Err(ErrorKind::Os) => return Ok(()),
            Err(other) => return Err(format!("{other:?}")),
        }
    }
}

/// A handle that found no room for its descriptors was lost, and its pipe ended.
#[test]
fn a_handle_that_finds_no_descriptors_can_be_received_later() {
    goes_well("few-files-for-a-handle");
}

fn few_files_for_a_handle() -> Result<(), String> {
    let failed = |error: weir::Error| error.to_string();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|why| why.to_string())?;
    let (mut writer, reader) = pipe(&Options::new().capacity_bytes(4096)).map_err(failed)?;
    reader.into_handle().map_err(failed)?.send(&theirs).map_err(failed)?;
    writer.write(b"kept").map_err(failed)?;
    let all = getrlimit(Resource::Nofile);
    for room in 0..2 {
        let spare = std::fs::File::open("/dev/null").map_err(|why| why.to_string())?;
        let next = std::os::fd::AsRawFd::as_raw_fd(&spare) as u64;
        let few = Rlimit { current: Some(next + room), ..all };
        drop(spare);
        setrlimit(Resource::Nofile, few).map_err(|why| why.to_string())?;
        let error = Handle::receive(&ours).map(drop).expect_err("no room").to_string();
        setrlimit(Resource::Nofile, all).map_err(|why| why.to_string())?;
        if error != "cannot receive a handle: Too many open files (os error 24)" {
            return Err(format!("with room for {room}: {error}"));
        }
    }
    let mut reader = Reader::open(Handle::receive(&ours).map_err(failed)?).map_err(failed)?;
    let mut buffer = [0; 64];
    let count = reader.read(&mut buffer).map_err(failed)?;
    if &buffer[..count] == b"kept" { Ok(()) } else { Err(format!("{:?}", &buffer[..count])) }
}

/// Until lately a signal ended the allocation of a memory, and the kernel gave back all that was allocated by
/// then: a program with a timer could make no large pipe. Here each allocation of more than 1 MiB meets a
/// signal.
#[test]
fn signals_keep_no_memory_from_being_made() {
    use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp};
    let making = std::thread::spawn(|| {
        let is_long = (SeccompCmpArgLen::Qword, SeccompCmpOp::Gt, 1 << 20);
        let interrupted = SeccompAction::Errno(libc::EINTR as u32);
        common::answer_where(libc::SYS_fallocate, 3, is_long, interrupted);
        let (mut writer, _reader) = pipe(&large())?;
        writer.write(&vec![7; 64 << 20])
    });
    assert_eq!(making.join().expect("no panic").expect("it is made"), 64 << 20);
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    if let Some(kib) = role.strip_prefix("close-in-") {
        return say_outcome(close_in(kib.parse::<u64>().expect("a number") << 10));
    }
    match role.as_str() {
        "next-memory" => return say_outcome(next_memory(false)),
        "next-memory-elsewhere" => return say_outcome(next_memory(true)),
        "next-memory-few-files" => return say_outcome(next_memory_without_files()),
        "next-memory-polled" => return say_outcome(next_memory_polled()),
        "no-thread" => return say_outcome(no_thread()),
        "no-files" => return say_outcome(no_files()),
        "few-files-for-a-handle" => return say_outcome(few_files_for_a_handle()),
        "trait-write" => return say_outcome(trait_write()),
        "no-spill-for-one-in-a-wait" => return say_outcome(no_spill_for_one_in_a_wait()),
        "no-spill-for-one-that-spins" => return say_outcome(no_spill_for_one_that_spins()),
        "few-files-at-first" => return say_outcome(few_files_at_first()),
        "little-space" => limit(Resource::As, 600 << 20),
        "short-files" => limit(Resource::Fsize, 1 << 20),
        _ => limit(Resource::Nofile, 12),
    }
    let mut kept = Vec::new();
    let error = loop {
        match pipe(&large()).map(|pipe| kept.push(pipe)) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    // The pipes that exist continue working.
    for (writer, reader) in &mut kept {
        writer.write(b"x").expect("written");
        reader.read(&mut [0]).expect("read");
    }
    say(std::io::stdin(), cause.as_bytes());
    drop(records(&Options::new().capacity_bytes(4096)));
}
