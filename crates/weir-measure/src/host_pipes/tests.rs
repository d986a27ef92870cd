//! Real pipes between real processes.

use super::*;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weir_sys::proc::FileKind;

/// A child that is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks until a pipe between two processes is as wanted.
fn look_until(writer: Pid, reader: Pid, mut is: impl FnMut(&HostPipe) -> bool) -> HostPipe {
    let mut looks = HostPipes::new();
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let look = looks.snapshot(false);
        let has = |holders: &[Holder], pid: Pid| holders.iter().any(|holder| holder.pid == pid);
        let found =
            look.pipes.into_iter().find(|it| has(&it.writers, writer) && has(&it.readers, reader));
        if let Some(pipe) = &found
            && is(pipe)
        {
            return found.expect("found");
        }
        assert!(Instant::now() < until, "{found:?}");
        // sleep: a rate needs time between two looks.
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn piped(from: &mut Command, to: &mut Command) -> (Killed, Killed) {
    let mut writer = from.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
    let output = writer.stdout.take().expect("its output");
    let reader = to.stdin(output).stdout(Stdio::null()).spawn().expect("starts");
    (Killed(writer), Killed(reader))
}

fn pid(child: &Killed) -> Pid {
    child.0.id() as Pid
}

#[test]
fn a_writer_of_a_full_pipe_waits_for_its_reader() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("60"));
    let is_stuck = |pipe: &HostPipe| {
        let waits = |holders: &[Holder]| holders.iter().any(|holder| holder.waits == Some(true));
        pipe.fill.is_some_and(|fill| fill.full) && waits(&pipe.writers) && !waits(&pipe.readers)
    };
    let found = look_until(pid(&writer), pid(&reader), is_stuck);
    assert_eq!(found.path, None);
    assert!(found.joins_processes());
}

#[test]
fn a_reader_of_an_empty_pipe_waits_for_its_writer() {
    let (writer, reader) = piped(Command::new("sleep").arg("60"), Command::new("wc").arg("-l"));
    let is_idle = |pipe: &HostPipe| {
        let waits = |holders: &[Holder]| holders.iter().any(|holder| holder.waits == Some(true));
        pipe.fill.is_some_and(|fill| fill.bytes == 0)
            && waits(&pipe.readers)
            && !waits(&pipe.writers)
            && pipe.rate.is_some_and(|rate| rate.bytes_per_s == 0.0)
    };
    look_until(pid(&writer), pid(&reader), is_idle);
}

#[test]
fn a_pipe_that_flows_has_a_rate() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("tr").args(["y", "n"]));
    let flows = |pipe: &HostPipe| {
        let counted = |rate: Rate| rate.quality == RateQuality::Counted && rate.bytes_per_s > 1e5;
        pipe.rate.is_some_and(counted)
    };
    look_until(pid(&writer), pid(&reader), flows);
}

#[test]
fn a_pipe_of_one_process_joins_nobody() {
    let holder = |pid| Holder { pid, fd: 3, waits: None, only: false, quota: None };
    let pipe = |writers: &[Pid], readers: &[Pid]| HostPipe {
        identity: Descriptor { device: 1, inode: 2, kind: FileKind::Pipe },
        path: None,
        writers: writers.iter().copied().map(holder).collect(),
        readers: readers.iter().copied().map(holder).collect(),
        fill: None,
        rate: None,
    };
    assert!(!pipe(&[7], &[7]).joins_processes() && !pipe(&[7], &[]).joins_processes());
    assert!(pipe(&[7], &[8]).joins_processes() && pipe(&[7, 8], &[7, 8]).joins_processes());
}

#[test]
fn a_fifo_has_its_path() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("joint");
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo starts");
    assert!(made.success());
    let script = |text: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", text]).env("FIFO", &path);
        Killed(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("starts"))
    };
    let writer = script("exec sleep 60 > \"$FIFO\"");
    let reader = script("exec sleep 60 < \"$FIFO\"");
    let found = look_until(pid(&writer), pid(&reader), |_| true);
    assert_eq!(found.path.as_deref(), path.to_str());
}

/// What a process read of its timers was called the exact rate of its pipe.
#[test]
fn a_timer_that_a_process_reads_may_be_what_it_moved() {
    use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
    use std::os::fd::AsRawFd;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("a timer");
    let set = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC);
    let set = set.expect("a set");
    let is_written = |fd: &dyn AsRawFd| {
        find(std::process::id() as Pid, fd.as_raw_fd()).map(|found| found.is_written)
    };
    assert_eq!(is_written(&timer), Some(false));
    assert_eq!(is_written(&set), None, "nobody reads it");
}
