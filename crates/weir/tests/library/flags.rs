//! The promises of docs/contracts/event-flags.md.

use crate::common;
use std::mem::offset_of;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;
use weir::{ErrorKind, Flags, Timeout, Waiting};
use weir_ring::cluster::Cluster;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn set_and_clear_return_what_was() {
    for flags in [Flags::local(), Flags::shared().expect("made")] {
        assert_eq!((flags.set(0b011), flags.set(0b110), flags.read()), (0, 0b011, 0b111));
        assert_eq!((flags.clear(0b010), flags.read()), (0b111, 0b101));
    }
}

#[test]
fn waiting_does_not_clear() {
    let flags = Flags::local();
    flags.set(0b1001);
    assert_eq!(flags.wait_any(0b0011).expect("set"), 0b0001);
    assert_eq!(flags.wait_all(0b1001).expect("set"), 0b1001);
    assert_eq!(flags.read(), 0b1001);
    let time = Some(Duration::from_millis(2));
    let error = flags.wait_all_timeout(0b0011, time).expect_err("not all");
    assert_eq!(error.to_string(), "cannot wait for flags: they were not set in time");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(flags.wait_any_timeout(0, time).expect_err("nothing").kind(), ErrorKind::Invalid);
}

#[test]
fn the_first_set_bit() {
    let flags = Flags::local();
    flags.set(1 << 63 | 1 << 40);
    assert_eq!(
        (flags.first(u64::MAX), flags.first(1 << 63), flags.first(1)),
        (Some(40), Some(63), None)
    );
}

#[test]
fn each_bit_is_taken_once() {
    let flags = Flags::shared().expect("made");
    let taken: Vec<u64> = std::thread::scope(|scope| {
        let takers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..100).map(|_| one(&flags)).sum())).collect();
        let mut set = 0;
        while set < 400 {
            set += u64::from(flags.set(1) & 1 == 0);
        }
        takers.into_iter().map(|taker| taker.join().expect("no panic")).collect()
    });
    assert_eq!(taken, [100; 4]);
    assert_eq!(flags.read(), 0);
}

fn one(flags: &Flags) -> u64 {
    flags.wait_and_clear(1).expect("set")
}

/// Two flags are needed at once, and each waiter gives them back one by one: a waiter that took one
/// and then waited for the other would stop both.
#[test]
fn all_bits_are_taken_by_one_or_none() {
    for waiting in [Waiting::Adaptive, Waiting::Sleep] {
        let flags = Flags::local().waiting(waiting);
        flags.set(0b11);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        assert_eq!(flags.wait_all_and_clear(0b11).expect("set"), 0b11);
                        assert_eq!(flags.set(0b01) & 0b11, 0, "nobody else has a part");
                        assert_eq!(flags.set(0b10) & 0b10, 0);
                    }
                });
            }
        });
        assert_eq!(flags.clear(0b10), 0b11);
        let error =
            flags.wait_all_and_clear_timeout(0b11, Timeout::Now).expect_err("one is missing");
        assert_eq!((error.kind(), flags.read()), (ErrorKind::WouldBlock, 0b01));
    }
}

#[test]
fn all_that_match_wake() {
    let flags = Flags::local();
    std::thread::scope(|scope| {
        let any: Vec<_> = (0..3).map(|_| scope.spawn(|| flags.wait_any(0b11))).collect();
        let all = scope.spawn(|| flags.wait_all(0b11));
        flags.set(0b01);
        for waiter in any {
            let found = waiter.join().expect("no panic").expect("set");
            assert!(found & 0b01 != 0);
        }
        assert!(!all.is_finished() || flags.read() == 0b11);
        flags.set(0b10);
        assert_eq!(all.join().expect("no panic").expect("set"), 0b11);
    });
}

#[test]
fn a_ping_pong_loses_no_wake_up() {
    let flags = Flags::shared().expect("made");
    let copy = Flags::open(
        flags.memory_descriptor().expect("shared").try_clone_to_owned().expect("copied"),
    );
    let copy = copy.expect("opened");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20_000 {
                copy.wait_and_clear(0b01).expect("set");
                copy.set(0b10);
            }
        });
        for _ in 0..20_000 {
            flags.set(0b01);
            flags.wait_and_clear(0b10).expect("set");
        }
    });
}

/// Runs in a thread with a filter: the kernel kills the process at the first futex call.
#[test]
fn no_call_when_nobody_sleeps() {
    let [local, shared] = [Flags::local(), Flags::shared().expect("made")];
    let futexes = [libc::SYS_futex, libc::SYS_futex_waitv];
    let guarded = std::thread::spawn(move || {
        common::answer(&futexes, seccompiler::SeccompAction::KillProcess);
        for flags in [&local, &shared] {
            for number in 0..1_000 {
                flags.set(1 << (number % 64));
                flags.wait_any(u64::MAX).expect("one is set");
                assert_ne!(flags.wait_and_clear(u64::MAX).expect("one is set"), 0);
            }
        }
    });
    guarded.join().expect("no panic");
}

#[test]
fn what_are_no_flags_is_refused() {
    let file = tempfile::tempfile().expect("a file");
    let error = Flags::open(file.into()).expect_err("refused");
    let text = "cannot use the memory received as a cluster of flags: it is not sealed memory";
    assert_eq!(error.to_string(), text);
    let (writer, _reader) = weir::pipe(&weir::Options::new()).expect("a pipe");
    let memory = writer.memory_descriptor().expect("here").try_clone_to_owned().expect("copied");
    let error = Flags::open(memory).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_name_is_one_cluster_for_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flags");
    // All open the name at once. Whichever makes the flags, all get the same.
    let threads: Vec<_> = (0..8)
        .map(|bit| {
            let path = path.clone();
            std::thread::spawn(move || Flags::named(&path).expect("opened").set(1 << bit))
        })
        .collect();
    threads.into_iter().for_each(|thread| {
        thread.join().expect("no panic");
    });
    let flags = Flags::named(&path).expect("opened");
    assert_eq!(flags.wait_all(0xff).expect("set"), 0xff, "it outlives who set it");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its maker alone");
    assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 1, "nothing else");
}

#[test]
fn who_waits_on_a_name_is_woken_by_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flags");
    let waiting = Flags::named(&path).expect("made");
    let setting = Flags::named(&path).expect("opened");
    let waiter = std::thread::spawn(move || waiting.wait_and_clear_timeout(0b10, Some(LONG)));
    setting.set(0b11);
    assert_eq!(waiter.join().expect("no panic").expect("woken"), 0b10);
    assert_eq!(setting.read(), 0b01);
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(Flags::named(&path).expect("made anew").read(), 0);
    assert_eq!(setting.read(), 0b01, "who had it keeps it");
}

#[test]
fn other_files_of_the_name_are_refused_and_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("short"), "text").expect("written");
    std::fs::write(at("page"), vec![b'x'; 4096]).expect("written");
    std::fs::create_dir(at("directory")).expect("made");
    std::os::unix::fs::symlink("page", at("link")).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), 0o600.into()).expect("made");
    for (name, kind) in [
        ("short", ErrorKind::Corrupt),
        ("page", ErrorKind::Corrupt),
        ("fifo", ErrorKind::Corrupt),
        ("directory", ErrorKind::Os),
        ("link", ErrorKind::Os),
        ("none/flags", ErrorKind::Os),
    ] {
        let error = Flags::named(at(name)).expect_err(name);
        assert_eq!(error.kind(), kind, "{error}");
        let wanted = format!("cannot open flags '{}'", at(name).display());
        assert!(error.to_string().starts_with(&wanted), "{error}");
    }
    assert_eq!(std::fs::read(at("short")).expect("kept"), b"text");
}

#[test]
fn a_file_of_another_version_is_refused_by_its_version() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("flags");
    let mut page = vec![0_u8; rustix::param::page_size()];
    page[..8].copy_from_slice(b"weirflag");
    page[8..12].copy_from_slice(&2_u32.to_ne_bytes());
    std::fs::write(&path, &page).expect("written");
    let error = Flags::named(&path).expect_err("another one").to_string();
    assert!(error.contains("of version 2") && error.contains("remove the file"), "{error}");
    assert_eq!(std::fs::read(&path).expect("kept"), page);
}

/// Sets that wake nobody, and waits that are over at once, are not counted.
#[test]
fn a_shared_cluster_is_seen_from_outside_with_its_sleeps_and_wakes() {
    use weir::stat::{FlagsStat, clusters};
    let flags = Flags::shared().expect("made");
    let inode =
        rustix::fs::fstat(flags.memory_descriptor().expect("shared")).expect("there").st_ino;
    let seen =
        || -> FlagsStat { clusters().into_iter().find(|stat| stat.inode == inode).expect("seen") };
    flags.set(0b101);
    flags.wait_any(1).expect("set");
    let before = seen();
    assert_eq!((before.bits, before.sleepers), (0b101, 0));
    // Others look at all memory too: for a moment they have a descriptor of it.
    assert!(!before.holders.is_empty(), "the cluster is here");
    assert_eq!((before.waits, before.slept, before.wakes_given, before.wakes_taken), (0, 0, 0, 0));
    let (says, said) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn({
        let flags = flags.clone();
        move || {
            says.send(rustix::thread::gettid()).expect("heard");
            flags.wait_any(0b10).expect("set")
        }
    });
    let stat = format!("/proc/self/task/{}/stat", said.recv().expect("said"));
    common::until("it has announced that it sleeps, and does", || {
        seen().sleepers > 0
            && std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") S "))
    });
    flags.set(0b10);
    assert_eq!(waiter.join().expect("no panic"), 0b10);
    let after = seen();
    assert_eq!((after.sleepers, after.waits, after.wakes_given), (0, 1, 1));
    assert!(after.slept >= 1 && after.wakes_taken <= after.slept, "{after:?}");
}

/// A wait for several things counted nothing, although its wake-up was counted as given.
#[test]
fn a_sleep_in_a_wait_for_several_things_is_counted_too() {
    let flags = Flags::shared().expect("made");
    let inode =
        rustix::fs::fstat(flags.memory_descriptor().expect("shared")).expect("there").st_ino;
    let mut wait = weir::Wait::new();
    wait.add_flags((), &flags, 1).expect("few");
    // So long that also a thread that waits for a CPU meanwhile sleeps for a part of it.
    let time = Duration::from_millis(200);
    for _ in 0..2 {
        wait.wait_timeout(&mut Vec::new(), time).expect_err("it is not set");
    }
    let stat = weir::stat::clusters().into_iter().find(|stat| stat.inode == inode).expect("seen");
    assert_eq!((stat.waits, stat.sleepers, stat.wakes_taken), (2, 0, 0));
    assert!(stat.slept >= 2 && stat.slept_ns > 40_000_000, "{stat:?}");
}

/// A process that is killed right behind its store wakes nobody, and neither did those that set the same
/// flag later: the flag is set already.
#[test]
fn a_flag_whose_setter_was_killed_before_it_woke_the_waiters_is_seen() {
    let waits: [fn(&Flags) -> weir::Result<()>; 2] = [
        |flags| flags.wait_any_timeout(1, LONG).map(drop),
        |flags| {
            let mut wait = weir::Wait::new();
            wait.add_flags((), flags, 1)?;
            wait.wait_timeout(&mut Vec::new(), LONG)
        },
    ];
    let waiting = waits.map(|wait| {
        let flags = Flags::shared().expect("made");
        let theirs = flags.clone();
        let waiter = std::thread::spawn(move || {
            let begun = std::time::Instant::now();
            wait(&theirs).map(|()| begun.elapsed())
        });
        let memory = flags.memory_descriptor().expect("shared");
        let sleepers = || {
            let mut word = [0; 4];
            let at = offset_of!(Cluster, sleepers) as u64;
            rustix::io::pread(memory, &mut word, at).expect("read");
            u32::from_ne_bytes(word)
        };
        common::until("it is about to sleep", || sleepers() == 1);
        // All that such a setter has done.
        let bits = offset_of!(Cluster, bits) as u64;
        rustix::io::pwrite(memory, &1_u64.to_ne_bytes(), bits).expect("written");
        waiter
    });
    for waiter in waiting {
        let time = waiter.join().expect("no panic").expect("it is seen");
        assert!(time < LONG / 2, "{time:?}");
    }
}
