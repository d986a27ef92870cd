//! Defaults set while programs run. The tests use processes of their own, since defaults are read from
//! the environment and from a file of the user.

mod common;

use common::hear;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};
use weir::tune::{Ask, Settings, ask};
use weir::{Options, pipe};

/// The capacity and segment that a process gets with these variables.
fn under(variables: &[(&str, &str)]) -> String {
    let variables = variables.iter().map(|(name, value)| (*name, value.as_ref()));
    in_role("tells", &variables.collect::<Vec<_>>())
}

/// What a process says in a role with these variables.
fn in_role(role: &str, variables: &[(&str, &OsStr)]) -> String {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("sockets");
    let mut child = Command::new(std::env::current_exe().expect("a program"))
        .args(["--exact", common::ROLE_TEST, "--nocapture", "-q"])
        .env_clear()
        .env("WEIR_TEST_ROLE", role)
        .envs(variables.iter().copied())
        .stdin(theirs)
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    let said = String::from_utf8(hear(&ours)).expect("text");
    child.wait().expect("ended");
    said
}

#[test]
fn in_a_role() {
    let Some(role) = common::role() else { return };
    if role.starts_with("writes") {
        if role == "writes-nothing" {
            let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Fsize) };
            setrlimit(Resource::Fsize, limit).expect("set");
        }
        let written = Settings::default().write();
        let told = written.map_or_else(|error| error.to_string(), |()| "written".into());
        common::say(std::io::stdin(), &told.as_bytes()[..told.len().min(60)]);
        return;
    }
    if role == "asks" {
        let (writer, _reader) = pipe(&Options::new().capacity_bytes(4096)).expect("made");
        let wish = Ask { capacity_bytes: Some(64 << 20), ..Ask::default() };
        let asked = ask(writer.memory_descriptor().expect("here"), wish);
        let told = asked.map_or_else(|error| error.to_string(), |_| "asked".into());
        common::say(std::io::stdin(), &told.as_bytes()[..told.len().min(60)]);
        return;
    }
    let told = match pipe(&Options::new()).map(|(writer, _reader)| writer.sizes()) {
        Ok(sizes) => format!("{} {}", sizes.capacity_bytes, sizes.segment_bytes),
        Err(error) => error.to_string(),
    };
    common::say(std::io::stdin(), &told.as_bytes()[..told.len().min(60)]);
}

#[test]
fn the_environment_ranks_over_the_file_and_the_file_over_the_caches() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let file = state.join("weir/tune.toml");
    std::fs::create_dir_all(state.join("weir")).expect("made");
    let state = state.to_str().expect("text");
    let plain = under(&[("XDG_STATE_HOME", state)]);
    let capacity: u64 = plain.split(' ').next().expect("a word").parse().expect("a number");
    assert!((1 << 20..=4 << 20).contains(&capacity), "{plain}");
    std::fs::write(&file, "# mine\ncapacity_bytes = 524288\nsegment_bytes = 32768\n")
        .expect("written");
    assert_eq!(under(&[("XDG_STATE_HOME", state)]), "524288 32768");
    assert_eq!(under(&[("XDG_STATE_HOME", state), ("WEIR_PIPE_SIZE", "64K")]), "65536 32768");
    // The segment from the file no longer fits, and gives way.
    assert_eq!(under(&[("XDG_STATE_HOME", state), ("WEIR_PIPE_SIZE", "16K")]), "16384 4096");
    let both = [("XDG_STATE_HOME", state), ("WEIR_PIPE_SIZE", "1M"), ("WEIR_PIPE_SEGMENT", "8K")];
    assert_eq!(under(&both), "1048576 8192");
    let elsewhere = file.to_str().expect("text");
    assert_eq!(under(&[("WEIR_TUNE", elsewhere)]), "524288 32768");
    assert_eq!(under(&[]), plain, "no home: as without a file");
}

/// Each user had to set them, and nobody could for the whole host.
#[test]
fn what_is_set_for_the_host_holds_where_the_user_has_set_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [host, user] = ["host.toml", "user.toml"].map(|name| directory.path().join(name));
    std::fs::write(&host, "capacity_bytes = 524288\nsegment_shift = 2\n").expect("written");
    let host = ("WEIR_HOST_TUNE", host.to_str().expect("text"));
    assert_eq!(under(&[host]), "524288 131072");
    std::fs::write(&user, "segment_bytes = 8192\n").expect("written");
    let user = ("WEIR_TUNE", user.to_str().expect("text"));
    assert_eq!(under(&[host, user]), "524288 8192");
    assert_eq!(under(&[host, user, ("WEIR_PIPE_SIZE", "64K")]), "65536 8192");
}

/// A shift used to be stored as the bytes that it gave for one capacity.
#[test]
fn a_shift_is_a_part_of_each_pipes_capacity() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tune");
    std::fs::write(&file, "capacity_bytes = 1048576\nsegment_shift = 4\n").expect("written");
    let file = ("WEIR_TUNE", file.to_str().expect("text"));
    assert_eq!(under(&[file]), "1048576 65536");
    assert_eq!(under(&[file, ("WEIR_PIPE_SIZE", "16K")]), "16384 4096");
    assert_eq!(under(&[file, ("WEIR_PIPE_SIZE", "4M")]), "4194304 262144");
    assert_eq!(under(&[file, ("WEIR_PIPE_SEGMENT", "8K")]), "1048576 8192");
}

#[test]
fn what_is_no_size_is_named() {
    let said = under(&[("WEIR_PIPE_SIZE", "much")]);
    assert!(said.starts_with("cannot use WEIR_PIPE_SIZE: 'much' is not a size"), "{said}");
    // Of bytes that are not a text it was as if they were not there.
    let said = in_role("tells", &[("WEIR_PIPE_SIZE", OsStr::from_bytes(b"64K\xff"))]);
    assert!(said.starts_with("cannot use WEIR_PIPE_SIZE: '64K\u{fffd}' is not a size"), "{said}");
    let said = under(&[("WEIR_PIPE_SIZE", "4G")]);
    assert!(said.starts_with("cannot set the capacity of a pipe: 4294967296"), "{said}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("tune");
    std::fs::write(&file, "speed = 9\n").expect("written");
    let said = under(&[("WEIR_TUNE", file.to_str().expect("text"))]);
    assert!(said.starts_with("cannot read '/") && file.exists(), "{said}");
}

/// The file took the place of whatever was there: of a link, and, for root, of /dev/null.
#[test]
fn settings_take_the_place_of_regular_files_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let [file, link, fifo] = ["file", "link", "fifo"].map(|name| directory.path().join(name));
    std::fs::write(&file, "capacity_bytes = 524288\n").expect("written");
    std::os::unix::fs::symlink("file", &link).expect("a link");
    assert_eq!(in_role("writes", &[("WEIR_TUNE", link.as_os_str())]), "written");
    assert!(link.is_symlink(), "it still leads there");
    let text = std::fs::read_to_string(&file).expect("read");
    assert!(text.starts_with("# Defaults"), "{text}");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).expect("made");
    let said = in_role("writes", &[("WEIR_TUNE", fifo.as_os_str())]);
    assert!(said.starts_with("cannot write '/"), "{said}");
    assert!(fifo.symlink_metadata().is_ok_and(|found| found.file_type().is_fifo()));
}

/// It died of SIGXFSZ, and left an empty file beside.
#[test]
fn settings_that_may_not_be_so_long_are_an_error_and_no_signal() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("t");
    let said = in_role("writes-nothing", &[("WEIR_TUNE", file.as_os_str())]);
    assert!(said.starts_with("cannot write '/"), "{said:?}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("read").count(), 0);
}

/// Only what is measured, or the caches, counted as the default capacity.
#[test]
fn a_capacity_that_is_set_may_be_asked_of_any_pipe() {
    assert_eq!(in_role("asks", &[("WEIR_PIPE_SIZE", "64M".as_ref())]), "asked");
}

/// What was kept lay below whatever directory a program ran in.
#[test]
fn a_place_that_is_no_whole_path_is_ignored() {
    let directory = tempfile::tempdir().expect("a directory");
    let kept = directory.path().join(".local/state/weir");
    std::fs::create_dir_all(&kept).expect("made");
    std::fs::write(kept.join("tune.toml"), "capacity_bytes = 524288\n").expect("written");
    let home = ("HOME", directory.path().to_str().expect("text"));
    assert_eq!(under(&[home, ("XDG_STATE_HOME", "state")]), "524288 65536");
}
