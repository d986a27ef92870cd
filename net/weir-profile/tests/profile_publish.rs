//! Where a profile may be published, what forked children have of it, and how observers treat files
//! that are not profiles.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_profile::{LEASE, Observed, ProfileReport, Subroutine};
use weir_sys::proc::{ProcContents, Stat};

static WORK: Subroutine = Subroutine::new("work");

/// Runs one test at a time: a process has one profile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work_calls(report: &ProfileReport) -> u64 {
    report.subroutine("work").map_or(0, |row| row.calls)
}

#[test]
fn a_place_that_is_taken_is_refused_and_left_alone() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("foreign"), "a letter").expect("written");
    symlink(path("nowhere"), path("link")).expect("linked");
    fs::create_dir(path("directory")).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).expect("made");
    for name in ["foreign", "link", "directory", "fifo"] {
        let refused = weir_profile::publish(&path(name), "test").expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{name}: {refused}");
    }
    assert_eq!(fs::read_to_string(path("foreign")).expect("there"), "a letter");
    assert!(!path("nowhere").exists());
    let refused = weir_profile::publish(&path("none/there"), "test").expect_err("no directory");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    for name in ["", "a\nb", "a name that is longer than thirty-two"] {
        let refused = weir_profile::publish(&path("new"), name).expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
    assert!(!path("new").exists());
}

#[test]
fn a_process_publishes_once_at_a_time_and_replaces_what_is_stale() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("profile");
    let published = weir_profile::publish(&path, "first").expect("published");
    let again =
        weir_profile::publish(&directory.path().join("other"), "second").expect_err("refused");
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let kept = directory.path().join("kept");
    fs::hard_link(&path, &kept).expect("linked");
    drop(published);
    assert!(!path.exists(), "it goes with its guard");
    // A file that this process left, as one that executes another program does.
    fs::rename(&kept, &path).expect("renamed");
    let published = weir_profile::publish(&path, "second").expect("it was stale");
    assert_eq!(
        Observed::open(&path).expect("opened").snapshot().expect("looked").process(),
        "second"
    );
    // The file of another process that lives: process 1, by its number and start.
    let other = directory.path().join("other");
    fs::copy(&path, &other).expect("copied");
    drop(published);
    let file = fs::File::options().write(true).open(&other).expect("opened");
    let started = Stat::of(1).expect("there").started_ticks;
    for (word, value) in [(2, 1), (3, started)] {
        file.write_all_at(&u64::to_ne_bytes(value), word * 8).expect("written");
    }
    let refused = weir_profile::publish(&other, "test").expect_err("it lives");
    assert!(refused.to_string().contains("process 1 has it"), "{refused}");
    // The same number, but not the same process.
    file.write_all_at(&u64::to_ne_bytes(started + 1), 24).expect("written");
    let published = weir_profile::publish(&other, "test").expect("it was stale");
    fs::remove_file(published.path()).expect("removed");
    fs::write(&other, "somebody else's").expect("written");
    drop(published);
    assert!(other.exists(), "what took its place is left alone");
}

/// Two processes that found the same stale file: the slower one removed the new file of the other.
#[test]
fn a_stale_file_is_removed_by_one_process_only() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("profile");
    let published = weir_profile::publish(&path, "first").expect("published");
    let kept = directory.path().join("kept");
    fs::hard_link(&path, &kept).expect("linked");
    drop(published);
    fs::rename(&kept, &path).expect("renamed");
    // This is the other process: it has the stale file to itself, and is about to replace it.
    let stale = fs::File::open(&path).expect("opened");
    rustix::fs::flock(&stale, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let refused = weir_profile::publish(&path, "late").expect_err("another one replaces it");
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists, "{refused}");
    assert!(path.exists(), "what the other process has is left alone");
    drop(stale);
    drop(weir_profile::publish(&path, "late").expect("nobody replaces it any more"));
}

#[test]
fn what_this_process_wants_lasts_beside_an_observer() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("profile");
    weir_profile::switch(true).expect("on");
    WORK.run(|| ());
    let _published = weir_profile::publish(&path, "test").expect("published");
    WORK.run(|| ());
    assert_eq!(work_calls(&weir_profile::report().expect("on")), 2, "counts go into the file");
    let mut observed = Observed::open(&path).expect("opened");
    observed.renew().expect("on");
    let before = observed.snapshot().expect("looked");
    WORK.run(|| ());
    let report =
        ProfileReport::between(&before, &observed.snapshot().expect("looked")).expect("in order");
    assert_eq!(work_calls(&report), 1);
    // The lease of an observer, which ended long ago, does not end what this process wants.
    let file = fs::File::options().write(true).open(&path).expect("opened");
    file.write_all_at(&1_u64.to_ne_bytes(), 16 * 8).expect("written");
    WORK.run(|| ());
    assert!(weir_profile::is_on());
    weir_profile::switch(false).expect("off");
    let before = observed.snapshot().expect("looked");
    WORK.run(|| ());
    observed.renew().expect("on");
    let report =
        ProfileReport::between(&before, &observed.snapshot().expect("looked")).expect("in order");
    assert_eq!((work_calls(&report), report.notes.len()), (1, 0), "the observer still wants it");
    drop(observed);
    assert_eq!(work_calls(&weir_profile::report().expect("it was on")), 4);
    let begun = std::time::Instant::now();
    while weir_profile::is_on() {
        WORK.run(|| ());
        assert!(begun.elapsed() < 10 * LEASE, "nobody wants it any more");
    }
    assert_eq!(work_calls(&weir_profile::report().expect("it was on")), 4, "those are not its own");
}

#[test]
fn a_forked_child_is_off_and_has_a_profile_of_its_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let published = weir_profile::publish(&path("parent"), "parent").expect("published");
    weir_profile::switch(true).expect("on");
    // Both processes drop these: the child as if main had returned there.
    let (published, open) = (RefCell::new(Some(published)), RefCell::new(Some(WORK.enter())));
    let body = || {
        if weir_profile::is_on() {
            return 1;
        }
        // It has not switched its own on: there is nothing to report, or to end.
        if weir_profile::report().is_some() || weir_profile::switch(false).is_err() {
            return 4;
        }
        // The parent's span ends here too, and counts nothing.
        drop(open.take());
        let Ok(own) = weir_profile::publish(&path("child"), "child") else { return 2 };
        let mut observed = Observed::open(own.path()).expect("opened");
        observed.renew().expect("on");
        WORK.run(|| ());
        WORK.run(|| ());
        let report = ProfileReport::whole(&observed.snapshot().expect("looked")).expect("sound");
        drop(own);
        drop(published.take());
        let right = (work_calls(&report), report.process.as_str()) == (2, "child");
        u8::from(!right || path("child").exists()) * 3
    };
    // SAFETY: other threads of the test have nothing locked that the body needs.
    let child = unsafe { weir_measure::sys::fork::copy(body) };
    let ended = child.expect("forked").wait().expect("reaped");
    assert!(ended.status.success());
    let parent = Observed::open(&path("parent")).expect("it is still there");
    let report = ProfileReport::whole(&parent.snapshot().expect("looked")).expect("sound");
    assert_eq!(report.process, "parent");
    let own = weir_profile::report().expect("on");
    assert_eq!(work_calls(&own), 1, "what a child counts is not its parent's");
    weir_profile::switch(false).expect("off");
}

#[test]
fn files_that_are_no_profiles_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, bytes: &[u8]| {
        fs::File::create(path(name)).and_then(|mut file| file.write_all(bytes)).expect("written");
    };
    write("empty", b"");
    write("short", b"weirprof");
    write("zeros", &[0; 200_000]);
    write("noise", &[0xa5; 200_000]);
    symlink(path("zeros"), path("link")).expect("linked");
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RWXU).expect("made");
    for name in ["empty", "short", "zeros", "noise", "fifo"] {
        let refused = Observed::open(&path(name)).expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::InvalidData, "{name}: {refused}");
    }
    assert!(Observed::open(&path("link")).is_err() && Observed::open(&path("none")).is_err());
    assert!(Observed::open(Path::new("/dev/zero")).is_err());
}

#[test]
fn a_file_that_is_shortened_while_it_is_looked_at_is_an_error() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("profile");
    let published = weir_profile::publish(&path, "test").expect("published");
    let copy = directory.path().join("copy");
    fs::copy(&path, &copy).expect("copied");
    drop(published);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).expect("set");
    let mut observed = Observed::open(&copy).expect("opened");
    observed.renew().expect("on");
    fs::File::options().write(true).open(&copy).and_then(|file| file.set_len(4096)).expect("cut");
    assert_eq!(observed.snapshot().expect_err("cut").kind(), ErrorKind::InvalidData);
    assert_eq!(observed.renew().expect_err("cut").kind(), ErrorKind::InvalidData);
}
