//! Kernels that do not sleep on several words at once: Linux before 5.16, and filters that forbid
//! futex_waitv (docs/contracts/wait.md, 8).

use crate::common;
use crate::common::{answer, hear, say, start};
use rustix::time::{ClockId, clock_gettime};
use seccompiler::SeccompAction;
use std::time::{Duration, Instant};
use weir::ErrorKind;
use weir_mpx::{Mpx, MpxOptions, MpxPeer, MpxPeerOptions};

/// The CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// An owner to which another is joined sleeps, and hears of both.
fn works() {
    let (_directory, name) = common::place();
    let third = name.with_extension("third");
    let mut owner = Mpx::create(&name, &MpxOptions::new()).expect("an owner");
    owner.join(Mpx::create(&third, &MpxOptions::new()).expect("another"), 1).expect("joined");
    let idle = Duration::from_millis(500);
    let before = cpu_time();
    let error = owner.receive_each_timeout(&mut [0; 64], idle, |_| {}).expect_err("nothing");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let used = cpu_time() - before;
    assert!(used < idle / 2, "{used:?} of CPU time in {idle:?} of sleep");
    let calling = std::thread::spawn(move || {
        let mut peer = MpxPeer::connect(&third, &MpxPeerOptions::new()).expect("connected");
        peer.open(b"third").expect("opened");
        peer
    });
    let begun = Instant::now();
    owner.receive_each_timeout(&mut [0; 64], Duration::from_secs(20), |_| {}).expect("it opened");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    drop(calling.join().expect("no panic"));
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
