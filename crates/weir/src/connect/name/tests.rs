//! Tests of names and their locks.

use super::*;
use rustix::net::sockopt::{Timeout, socket_timeout};
use std::sync::Barrier;

const WHAT: Subject = Subject { operation: "open", noun: "port" };

/// Whoever had 20 ms to connect waited a second in a full queue.
#[test]
fn a_full_queue_is_waited_for_no_longer_than_there_is_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("full");
    let (listening, address) = unix_socket(&WHAT, &path).expect("a socket");
    let listening = listening.here().expect("mine");
    bind(listening, &address).and_then(|()| listen(listening, 0)).expect("it listens");
    let waiting = unix_socket(&WHAT, &path).expect("a socket").0;
    connect(waiting.here().expect("mine"), &address).expect("the queue has one place");
    let late = unix_socket(&WHAT, &path).expect("a socket").0;
    let late = late.here().expect("mine");
    let until = Instant::now() + Duration::from_millis(20);
    assert_eq!(connect_in_time(late, &address, Some(until)), Err(Errno::AGAIN));
    let waited = socket_timeout(late, Timeout::Send).expect("a time").expect("a limit");
    assert!(waited <= Duration::from_millis(100), "{waited:?}");
}

fn bound(path: &Path) -> Result<BoundName> {
    BoundName::new(&WHAT, path, Mode::RUSR | Mode::WUSR, 4)
}

/// Writes the lock of a holder that is dead, and returns it open.
fn dead_lock(path: &Path) -> ParentOnly {
    let how = LOCK_FLAGS | OFlags::RDWR | OFlags::CREATE;
    let file = open(&lock_path(path), how, Mode::RUSR | Mode::WUSR).expect("made");
    NameHolder::record_own(file.here().expect("mine"), "port").expect("recorded");
    let text = std::fs::read_to_string(lock_path(path)).expect("recorded");
    let own = format!("weir {} ", std::process::id());
    let dead = text.replace(&own, &format!("weir {} ", i32::MAX));
    std::fs::write(lock_path(path), dead).expect("written");
    file
}

/// A process that was killed after it had removed the lock, which a child of a dead holder kept, left
/// the holder's socket behind. Nothing said any more whose that was, and nobody got the name.
#[test]
fn one_that_is_killed_while_it_takes_a_name_keeps_nobody_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kept");
    let lock = dead_lock(&path);
    let kept = lock.here().expect("mine");
    rustix::fs::flock(kept, FlockOperation::NonBlockingLockExclusive).expect("as by a child");
    let (listening, address) = unix_socket(&WHAT, &path).expect("a socket");
    let listening = listening.here().expect("mine");
    bind(listening, &address).and_then(|()| listen(listening, 4)).expect("as by a child");
    take_away(&path, &lock_path(&path)).expect("taken away, and then it is killed");
    drop(bound(&path).expect("nothing is left of either"));
}

/// One that had just taken the lock of a dead holder was not recorded yet, and counted as a child of
/// that: another one took the lock away, and both had the name.
#[test]
fn of_those_that_want_a_dead_holders_name_one_gets_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("wanted");
    for round in 0..2000 {
        drop(dead_lock(&path));
        let barrier = Barrier::new(8);
        let take = || {
            barrier.wait();
            bound(&path)
        };
        let got = std::thread::scope(|scope| {
            let all = [(); 8].map(|()| scope.spawn(take));
            all.map(|one| one.join().expect("no panic"))
        });
        let have = got.iter().filter(|one| one.is_ok()).count();
        assert_eq!(have, 1, "in round {round}: {got:?}");
    }
}

/// A holder whose files somebody had removed took those of the next one along when it went: nobody
/// could connect to that one any more, and a third one got the name.
#[test]
fn a_holder_whose_files_were_removed_leaves_those_of_the_next_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("removed");
    let first = bound(&path).expect("bound");
    for file in [&path, &lock_path(&path)] {
        std::fs::remove_file(file).expect("there");
    }
    let next = bound(&path).expect("nobody has the name");
    drop(first);
    bound(&path).expect_err("the next one has it");
    assert!(socket_id(&path).is_some(), "its socket is there");
    drop(next);
    assert!(socket_id(&path).is_none() && !lock_path(&path).exists());
    // One that lost its lock alone leaves no socket.
    let last = bound(&path).expect("bound");
    std::fs::remove_file(lock_path(&path)).expect("there");
    drop(last);
    drop(bound(&path).expect("no socket has the name"));
}
