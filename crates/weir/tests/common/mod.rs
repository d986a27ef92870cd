//! Other processes for tests: this program again, in a role.

#![allow(dead_code, reason = "each test program uses a part")]

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir::{Handle, Pool, PoolOptions};

/// The name of the test that plays a role, in each program that has roles.
pub const ROLE_TEST: &str = "in_a_role";
const ROLE: &str = "WEIR_TEST_ROLE";

/// The test that plays the roles of the file from which this is called: in a program of several files each
/// has one.
#[track_caller]
pub fn role_test() -> String {
    let file = Path::new(std::panic::Location::caller().file());
    // What programs share is called from one file each.
    let is_alone = file.parent().is_some_and(|at| at.ends_with("tests") || at.ends_with("common"));
    let module = file.file_stem().filter(|_| !is_alone).and_then(|stem| stem.to_str());
    module.map_or_else(|| ROLE_TEST.to_owned(), |module| format!("{module}::{ROLE_TEST}"))
}

/// Starts this program again in a role, with a socket as its standard input and standard output.
#[track_caller]
pub fn start(role: &str) -> (Child, OwnedFd) {
    start_command(role, Command::new(program()))
}

/// Starts this program as another user, from a copy in a directory that the user can see. Needs
/// root.
#[track_caller]
pub fn start_as(role: &str, uid: u32, directory: &Path) -> (Child, OwnedFd) {
    use std::os::unix::process::CommandExt;
    let copy = directory.join("program");
    if !copy.exists() {
        // By another process: no child of another test may have it open for writing.
        assert!(Command::new("cp").arg(program()).arg(&copy).status().expect("cp").success());
    }
    let mut command = Command::new(copy);
    command.uid(uid);
    start_command(role, command)
}

/// Starts this program by another program, which gets this one and its arguments. Returns `None` if
/// that program is missing or may not do its work.
#[track_caller]
pub fn start_by(role: &str, by: &[&str]) -> Option<(Child, OwnedFd)> {
    let (first, rest) = by.split_first()?;
    let able = Command::new(first).args(rest).arg("true").stderr(Stdio::null()).status();
    if !able.is_ok_and(|status| status.success()) {
        println!("SKIPPED: '{}' does not work here", by.join(" "));
        return None;
    }
    let mut command = Command::new(first);
    command.args(rest).arg(program());
    Some(start_command(role, command))
}

fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("a program")
}

#[track_caller]
fn start_command(role: &str, mut command: Command) -> (Child, OwnedFd) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let kind = SocketType::SEQPACKET;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("sockets");
    let child = command
        .args(["--exact", &role_test(), "--nocapture", "--test-threads=1", "-q"])
        .env(ROLE, role)
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    (child, ours)
}

/// The role in which this process was started. The process dies with the thread that started it, so
/// a test that fails or is killed leaves no process that waits for ever.
pub fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    let signal = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(signal).expect("set");
    Some(role)
}

/// An end that was sent to this process.
pub fn receive_handle() -> Handle {
    Handle::receive(std::io::stdin().as_fd()).expect("a handle")
}

/// Sends a word over the socket.
pub fn say(socket: impl AsFd, text: &[u8]) -> bool {
    let flags = rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(socket, text, flags) == Ok(text.len())
}

/// Waits for the next word. Returns no bytes if the other side is gone.
pub fn hear(socket: impl AsFd) -> Vec<u8> {
    let mut text = [0; 64];
    let flags = rustix::net::RecvFlags::empty();
    let count = rustix::net::recv(socket, &mut text, flags).map_or(0, |(_, count)| count);
    text[..count].to_vec()
}

/// Returns the next word if it is already there.
pub fn hears(socket: impl AsFd) -> Option<Vec<u8>> {
    let mut text = [0; 64];
    let flags = rustix::net::RecvFlags::DONTWAIT;
    let (_, count) = rustix::net::recv(socket, &mut text, flags).ok()?;
    Some(text[..count].to_vec())
}

/// The last number that a killed writer reported as written, of those that still arrive.
pub fn last_said(socket: impl AsFd) -> Option<u64> {
    let words = std::iter::from_fn(|| <[u8; 8]>::try_from(hear(&socket)).ok());
    words.last().map(u64::from_le_bytes)
}

/// Kills a child and waits for it.
pub fn kill(child: &mut Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// Hears so many numbers of a writer, then kills it. Returns the last that it said.
pub fn hear_and_kill(child: &mut Child, socket: &OwnedFd, numbers: u64) -> u64 {
    let number = |_| <[u8; 8]>::try_from(hear(socket)).map(u64::from_le_bytes).expect("it goes on");
    let said = (0..numbers).map(number).fold(0, |_, number| number);
    kill(child);
    last_said(socket).unwrap_or(said)
}

/// A directory for the name of a port, removed on drop.
pub fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("port");
    (directory, name)
}

/// Tells the process that started this one how its role went.
pub fn say_outcome(outcome: Result<(), String>) {
    say(std::io::stdin(), outcome.err().as_deref().unwrap_or("well").as_bytes());
}

/// Starts a role, and fails unless it goes well, or cannot be played here.
#[track_caller]
pub fn goes_well(role: &str) {
    let (mut child, socket) = start(role);
    let said = hear(&socket);
    let _ = child.wait();
    match String::from_utf8_lossy(&said).as_ref() {
        "well" => {}
        why if why.starts_with("SKIPPED") => eprintln!("{why}"),
        why => panic!("{why}"),
    }
}

/// A pool of little memory, and its directory: a file system that is soon full, and that only this
/// thread and those that it starts see.
pub fn pool_soon_full() -> Result<(tempfile::TempDir, Pool), String> {
    let fail = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
    weir_sys::namespace::new_mounts().map_err(|why| fail("SKIPPED", &why))?;
    let directory = tempfile::tempdir().map_err(|why| fail("directory", &why))?;
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", directory.path(), "tmpfs", flags, c"size=1m")
        .map_err(|why| fail("SKIPPED", &why))?;
    let options = PoolOptions::new().memory_bytes(1 << 20).spill_directory(directory.path());
    let pool = Pool::new(&options).map_err(|why| fail("pool", &why))?;
    Ok((directory, pool))
}

/// From here on these calls of this thread get this answer.
pub fn answer(calls: &[i64], answer: SeccompAction) {
    answer_some(calls.iter().map(|call| (*call, Vec::new())), answer);
}

/// Lets this thread add nothing to an epoll any more.
pub fn add_nothing_to(epoll: i32) {
    let no_room = SeccompAction::Errno(libc::ENOSPC as u32);
    let is_it = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, epoll as u64);
    answer_where(libc::SYS_epoll_ctl, 0, is_it, no_room);
}

/// From here on a call of this thread gets this answer where one of its arguments compares so.
pub fn answer_where(
    call: i64,
    argument: u8,
    (length, how, value): (SeccompCmpArgLen, SeccompCmpOp, u64),
    answer: SeccompAction,
) {
    let condition = SeccompCondition::new(argument, length, how, value);
    let rule = SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule");
    answer_some([(call, vec![rule])], answer);
}

fn answer_some(calls: impl IntoIterator<Item = (i64, Vec<SeccompRule>)>, answer: SeccompAction) {
    let filter = SeccompFilter::new(
        calls.into_iter().collect(),
        SeccompAction::Allow,
        answer,
        std::env::consts::ARCH.try_into().expect("an architecture"),
    );
    let program: BpfProgram = filter.and_then(|filter| filter.try_into()).expect("a filter");
    seccompiler::apply_filter(&program).expect("filtered");
}

/// How many processes a test kills: as many as usual, or what `WEIR_KILLS` says.
pub fn kills(usual: u64) -> u64 {
    std::env::var("WEIR_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The bytes of this process's heap, and of the rest of its private memory. What it has freed does
/// not count: how much of that the heap keeps depends on what ran before.
pub fn private_bytes() -> usize {
    // SAFETY: it only gives free memory back to the kernel.
    unsafe { libc::malloc_trim(0) };
    let text = std::fs::read_to_string("/proc/self/status").expect("there");
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).expect("told");
    let number = line.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    number.expect("a number") * 1024
}

/// Makes a call that forks in its midst, when it calls what it is given. The child continues in the
/// call, and has to be told that it is one. Returns the call's result in the parent.
pub fn fork_within<T>(call: impl FnOnce(&mut dyn FnMut()) -> weir::Result<T>) -> T {
    let mut child = -1;
    // SAFETY: the child continues in this call and exits right behind it. It needs nothing that
    // other threads of the test may hold.
    let mut fork = || child = unsafe { libc::fork() };
    // A child that panics would end well: the thread that it has would be over.
    let result = catch_unwind(AssertUnwindSafe(|| call(&mut fork)));
    if child == 0 {
        let is_forked = |error: weir::Error| error.kind() == weir::ErrorKind::Forked;
        let is_told = result.is_ok_and(|result| result.err().is_some_and(is_forked));
        // SAFETY: _exit(2) has no preconditions.
        unsafe { libc::_exit(i32::from(!is_told)) };
    }
    assert!(child > 0, "forked");
    let mut status = 0;
    // SAFETY: the pointer is to a live local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child was told that it is one");
    result.expect("no panic").expect("no error")
}

/// A lock: tests that count what the process holds run one after the other.
pub fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until something holds, for at most half a minute.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} in half a minute");
        std::thread::yield_now();
    }
}

/// Stops all threads of a process. A thread that has not seen the signal yet continues for a while.
pub fn stop(pid: rustix::process::Pid) {
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("sent");
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    until("all its threads are stopped", || {
        std::fs::read_dir(&tasks).expect("it lives").flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    });
}

/// The CPU time that this thread has used. It bounds what a call may cost; the time on the clock
/// does not, since beside other tests a thread may wait long for a CPU.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The record or write of a number: the number, and bytes that are computed from it.
pub fn body(number: u64) -> Vec<u8> {
    let count = 8 + (number * 37 % 3000) as usize;
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(count, number as u8);
    bytes
}

/// Opens the memory with this inode, of those who hold it. Whoever looks at all memory has a
/// descriptor of it for a moment too, so that one in the list may be gone by now.
pub fn open_memory(inode: u64, holders: &[(i32, i32)], for_writing: bool) -> OwnedFd {
    let is_it = |memory: &OwnedFd| rustix::fs::fstat(memory).is_ok_and(|it| it.st_ino == inode);
    let open = |(pid, descriptor): &(i32, i32)| {
        weir::stat::open(*pid, *descriptor, for_writing).ok().filter(is_it)
    };
    holders.iter().find_map(open).expect("somebody holds it")
}

/// Bytes that depend on the seed and on their position.
pub fn patterned(count: usize, seed: usize) -> Vec<u8> {
    (0..count).map(|at| (((at + seed) * 167) >> 3) as u8).collect()
}

/// A generator of pseudo-random numbers.
pub struct Random(pub u64);

impl Random {
    /// The next number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Marsaglia's xorshift64*.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % bound
    }
}
