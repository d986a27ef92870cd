//! Kernels that do not sleep on several words at once: Linux before 5.16, and filters that forbid
//! futex_waitv (docs/contracts/wait.md, 8).

use crate::common;
use crate::common::{answer, hear, say, start};
use rustix::time::{ClockId, clock_gettime};
use seccompiler::SeccompAction;
use std::time::Duration;
use weir::{ErrorKind, Flags, Port, PortOptions, PortWriter, PortWriterOptions, Wait};

/// The CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What sleeps on several words sleeps, and hears of each.
fn works() {
    let (_directory, name) = common::place();
    let mut port = Port::create(&name, &PortOptions::new()).expect("a port");
    let flags = Flags::local();
    let idle = Duration::from_millis(500);
    let before = cpu_time();
    let (mut wait, mut ready) = (Wait::new(), Vec::new());
    wait.add_borrowed(0, &mut port).expect("few");
    wait.add_flags(1, &flags, 1).expect("few");
    let error = wait.wait_timeout(&mut ready, idle).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let used = cpu_time() - before;
    assert!(used < idle / 2, "{used:?} of CPU time in {idle:?} of sleep");
    let sending = std::thread::spawn(move || {
        let mut writer = PortWriter::connect(&name, &PortWriterOptions::new()).expect("a writer");
        writer.send(b"x").expect("sent");
        // Kept: its end would be an event of the port as well.
        writer
    });
    let time = Some(Duration::from_secs(20));
    wait.wait_timeout(&mut ready, time).expect("the port");
    assert_eq!(ready, [0]);
    drop(sending.join().expect("no panic"));
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    let error = role.parse().expect("an error");
    answer(&[libc::SYS_futex_waitv], SeccompAction::Errno(error));
    works();
    say(std::io::stdin(), b"works");
}

#[test]
fn without_futex_waitv_everything_works_and_sleeps() {
    // EACCES: what systemd can be told to answer. All at once, since they mostly sleep.
    let errors = [libc::ENOSYS, libc::EPERM, libc::EACCES];
    for (errno, (mut child, socket)) in errors.map(|errno| (errno, start(&errno.to_string()))) {
        assert_eq!(hear(&socket), b"works", "error {errno}");
        child.wait().expect("ended");
    }
}
