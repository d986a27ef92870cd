//! Tests with directories and kernels that refuse some operations, and with forked children.

use super::*;
use crate::memory::tests::in_forked_child;
use rustix::mount::{MountFlags, mount};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::ffi::CString;

/// Runs `then` in a thread that has a file system of its own mounted at the path it is given.
fn mounted(kind: &str, (flags, data): (MountFlags, &str), then: impl FnOnce(&Path) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let directory = tempfile::tempdir().expect("a directory");
            let data = CString::new(data).expect("no zeros");
            let made = weir_sys::namespace::new_mounts()
                .and_then(|()| Ok(mount("none", directory.path(), kind, flags, data.as_c_str())?));
            if let Err(error) = made {
                eprintln!("SKIPPED: no mounting of {kind}: {error}");
                return;
            }
            then(directory.path());
            // Unmounted, so that the directory can be removed.
            let _ = rustix::mount::unmount(directory.path(), rustix::mount::UnmountFlags::DETACH);
        });
    });
}

fn refusal(directory: &Path) -> (Option<Errno>, String) {
    let error = FrameTransfers::open_as(directory, EngineChoice::Best).expect_err("refused");
    let cause = std::error::Error::source(&error)
        .and_then(|cause| cause.downcast_ref::<std::io::Error>())
        .and_then(Errno::from_io_error);
    (cause, error.to_string())
}

#[test]
fn directories_that_do_not_serve_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing");
    let text = format!("cannot spill to '{}': No such file or directory", missing.display());
    let (cause, said) = refusal(&missing);
    assert_eq!(cause, Some(Errno::NOENT));
    assert!(said.starts_with(&text), "{said}");
    let file = directory.path().join("file");
    std::fs::write(&file, b"").expect("written");
    assert_eq!(refusal(&file).0, Some(Errno::NOTDIR));
    let (_, said) = refusal(Path::new("/proc/self"));
    assert!(said.starts_with("cannot spill to '/proc/self': "), "{said}");
    mounted("tmpfs", (MountFlags::RDONLY, ""), |read_only| {
        assert_eq!(refusal(read_only).0, Some(Errno::ROFS));
    });
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: root may write everywhere");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mode = std::fs::Permissions::from_mode(0o555);
    std::fs::set_permissions(directory.path(), mode).expect("set");
    assert_eq!(refusal(directory.path()).0, Some(Errno::ACCESS));
}

#[test]
fn a_directory_that_is_removed_afterwards_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let engines = engines(directory.path());
    assert_eq!(directory.path().read_dir().expect("listed").count(), 0, "there is no name");
    drop(directory);
    for mut transfers in engines {
        let frames = frames(1);
        fill(&frames, 0, 3);
        one(&mut transfers, 0, lend(&frames, TransferDirection::ToDisk, &[0])).expect("written");
        one(&mut transfers, 0, lend(&frames, TransferDirection::FromDisk, &[0])).expect("read");
        assert!(holds(&frames, 0, 3));
    }
}

#[test]
fn a_device_that_fills_says_so_and_loses_nothing() {
    mounted("tmpfs", (MountFlags::empty(), "size=1m"), |directory| {
        // One after the other: each has the device to itself.
        for wanted in [EngineChoice::Threads, EngineChoice::Best] {
            let mut transfers = FrameTransfers::open_as(directory, wanted).expect("opened");
            fills(&mut transfers);
        }
    });
}

fn fills(transfers: &mut FrameTransfers) {
    let frames = frames(97);
    (0..96).for_each(|frame| fill(&frames, frame, frame.into()));
    let offset = |number: u64| number * 12 * FRAME_BYTES as u64;
    for number in 0..8 {
        let which: Vec<u32> = (0..12).map(|at| number * 12 + at).collect();
        let mut loans = lend(&frames, TransferDirection::ToDisk, &which);
        assert!(transfers.start(number.into(), offset(number.into()), &mut loans));
    }
    transfers.submit();
    let done = all(transfers);
    let full = done.iter().filter(|(_, result)| *result == Err(Errno::NOSPC)).count();
    let written = done.iter().filter(|(_, result)| result.is_ok()).count();
    assert!(full >= 3 && full + written == 8, "1.5 MiB in 1 MiB: {done:?}");
    for (number, result) in done {
        let first = number as u32 * 12;
        assert!((first..first + 12).all(|frame| holds(&frames, frame, frame.into())));
        if result.is_ok() {
            one(transfers, offset(number), lend(&frames, TransferDirection::FromDisk, &[96]))
                .expect("read");
            assert!(holds(&frames, 96, first.into()));
        }
    }
}

#[test]
fn without_o_direct_the_page_cache_is_used_and_that_is_reported() {
    mounted("ramfs", (MountFlags::empty(), ""), |directory| {
        for mut transfers in engines(directory) {
            let remark = transfers.remarks().iter().any(|remark| remark.contains("cached"));
            assert!(remark && !transfers.is_direct(), "{transfers:?}");
            let frames = frames(2);
            (0..2).for_each(|frame| fill(&frames, frame, frame.into()));
            one(&mut transfers, 0, lend(&frames, TransferDirection::ToDisk, &[1, 0]))
                .expect("written");
            one(&mut transfers, 0, lend(&frames, TransferDirection::FromDisk, &[0, 1]))
                .expect("read");
            assert!(holds(&frames, 0, 1) && holds(&frames, 1, 0));
        }
    });
}

/// Lets these calls fail in this thread from now on.
fn forbid(calls: &[i64], cause: Errno) {
    let filter = SeccompFilter::new(
        calls.iter().map(|call| (*call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Errno(cause.raw_os_error() as u32),
        std::env::consts::ARCH.try_into().expect("an architecture"),
    );
    let program: BpfProgram = filter.and_then(|filter| filter.try_into()).expect("a filter");
    seccompiler::apply_filter(&program).expect("filtered");
}

#[test]
fn without_io_uring_threads_do_it_and_that_is_reported() {
    for (call, cause) in [
        (libc::SYS_io_uring_setup, Errno::PERM),
        (libc::SYS_io_uring_setup, Errno::NOSYS),
        (libc::SYS_io_uring_enter, Errno::PERM),
        (libc::SYS_io_uring_register, Errno::PERM),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let guarded = std::thread::spawn(move || {
            forbid(&[call], cause);
            let path = directory.path();
            let mut transfers = FrameTransfers::open_as(path, EngineChoice::Best).expect("threads");
            assert_eq!(transfers.engine(), "threads");
            let said = transfers.remarks().join("; ");
            let why = format!("no io_uring: {}", std::io::Error::from(cause));
            assert!(said.contains(&why), "{said}");
            let frames = frames(1);
            fill(&frames, 0, 9);
            one(&mut transfers, 0, lend(&frames, TransferDirection::ToDisk, &[0]))
                .expect("written");
            let error =
                FrameTransfers::open_as(path, EngineChoice::Uring).expect_err("it was wanted");
            assert!(error.to_string().starts_with("cannot start the engine of a pool: "));
        });
        guarded.join().expect("no panic");
    }
}

#[test]
fn a_filter_that_comes_later_is_an_error_of_each_transfer() {
    let directory = tempfile::tempdir().expect("a directory");
    let Ok(mut transfers) = FrameTransfers::open_as(directory.path(), EngineChoice::Uring) else {
        eprintln!("SKIPPED: no io_uring");
        return;
    };
    let guarded = std::thread::spawn(move || {
        let frames = frames(8);
        (0..8).for_each(|frame| fill(&frames, frame, frame.into()));
        let write = |transfers: &mut FrameTransfers, token: u32| {
            let mut loans = lend(&frames, TransferDirection::ToDisk, &[token]);
            assert!(transfers.start(token.into(), u64::from(token) << 20, &mut loans));
            transfers.submit();
        };
        write(&mut transfers, 0);
        forbid(&[libc::SYS_io_uring_enter], Errno::PERM);
        (1..4).for_each(|token| write(&mut transfers, token));
        let done = all(&mut transfers);
        assert_eq!(done[0], (0, Ok(())));
        assert!(done[1..].iter().all(|(_, result)| *result == Err(Errno::PERM)), "{done:?}");
        write(&mut transfers, 4);
        drop(transfers);
        assert!((0..8).all(|frame| frames.writer(frame).is_some()));
    });
    guarded.join().expect("no panic");
}

#[test]
fn a_file_that_may_not_be_longer_is_an_error_and_no_signal() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let directory = tempfile::tempdir().expect("a directory");
    assert!(in_forked_child(|| {
        let mut right = Vec::new();
        for mut transfers in engines(directory.path()) {
            let frames = frames(2);
            (0..2).for_each(|frame| fill(&frames, frame, 1));
            let both = FRAME_BYTES as u64 * 2;
            let limited = Rlimit { current: Some(both), maximum: None };
            right.push(setrlimit(Resource::Fsize, limited).is_ok());
            let fits = one(&mut transfers, 0, lend(&frames, TransferDirection::ToDisk, &[0, 1]));
            let long = one(&mut transfers, both, lend(&frames, TransferDirection::ToDisk, &[0]));
            right.extend([fits.is_ok(), long == Err(Errno::FBIG)]);
            right.push(Frames::new(FRAME_BYTES, 3).is_err());
            let unlimited = Rlimit { current: None, maximum: None };
            right.push(setrlimit(Resource::Fsize, unlimited).is_ok());
        }
        right.iter().all(|right| *right)
    }));
}

#[test]
fn a_forked_child_has_neither_frames_nor_transfers_of_its_parent_s() {
    let directory = tempfile::tempdir().expect("a directory");
    for mut transfers in engines(directory.path()) {
        let frames = frames(2);
        (0..2).for_each(|frame| fill(&frames, frame, frame.into()));
        let mut started = lend(&frames, TransferDirection::ToDisk, &[0]);
        let mut more = lend(&frames, TransferDirection::ToDisk, &[1]);
        assert!(transfers.start(0, 0, &mut started));
        let mut parents = Some(transfers);
        assert!(in_forked_child(|| {
            let Some(mut transfers) = parents.take() else { return false };
            let none = frames.writer(0).is_none() && frames.reader(0).is_none();
            let refused = !transfers.start(1, 1 << 20, &mut more);
            transfers.submit();
            transfers.completed(|_, _| {});
            let deaf = transfers.descriptor().is_none();
            drop(transfers);
            none && refused && deaf && !frames.is_here()
        }));
        // Neither the child nor its exit has touched them.
        let mut transfers = parents.take().expect("the parent's");
        assert!(transfers.start(1, 1 << 20, &mut more));
        transfers.submit();
        assert_eq!(all(&mut transfers), [(0, Ok(())), (1, Ok(()))]);
    }
}

/// Prints the engine that the environment chooses. The test below runs it in processes of its own.
#[test]
fn the_engine_of_this_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    match FrameTransfers::open(directory.path()) {
        Ok(transfers) => println!("engine: {}", transfers.engine()),
        Err(error) => println!("engine: {error}"),
    }
}

#[test]
fn the_environment_chooses_the_engine() {
    let own = std::env::current_exe().expect("this program");
    let said = |wanted: &str| {
        let test = "memory::transfers::tests::places::the_engine_of_this_environment";
        let mut command = std::process::Command::new(&own);
        command.args([test, "--exact", "--nocapture"]).env(WANTED, wanted);
        let output = command.output().expect("run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split("engine: ").nth(1).and_then(|text| text.lines().next()).map(str::to_owned)
    };
    assert_eq!(said("threads").as_deref(), Some("threads"));
    let wrong = "cannot use WEIR_SPILL_ENGINE: engine 'aio' is neither uring nor threads";
    assert_eq!(said("aio").as_deref(), Some(wrong));
    let uring = said("uring").expect("said");
    assert!(uring == "io_uring" || uring.starts_with("cannot start"), "{uring}");
}
