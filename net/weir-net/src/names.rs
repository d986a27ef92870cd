//! Paths of a switch's files: one directory for each device, private to this user.
//!
//! In `net/DEVICE` below the directory of names (that of `weir port`): `switch` (the port for
//! packets and requests), `log`, `profile.WHO.PID`, and the ports of stations.

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Longest name of a device (IFNAMSIZ of the kernel's `if.h`, less the NUL), and of the writer of a
/// profile.
pub const MOST_NAME_BYTES: usize = 15;

/// Returns the directory of the switch on device `tun`; creates it, mode 700, if it is missing.
///
/// # Errors
/// `Invalid`: not a device name. `Denied`: another user owns it, or others may write it. Else the
/// kernel's error.
pub fn directory(tun: &str) -> Result<PathBuf> {
    check(tun)?;
    let net = root()?.join("net");
    own(&net)?;
    let directory = net.join(tun);
    own(&directory)?;
    Ok(directory)
}

/// Returns the directory of a switch that has run before; creates nothing.
///
/// # Errors
/// Those of [`directory`], and `NoSwitch` where it is missing.
pub fn find(tun: &str) -> Result<PathBuf> {
    check(tun)?;
    let net = root()?.join("net");
    let directory = net.join(tun);
    for path in [&net, &directory] {
        if !is_ours(path)? {
            return Err(none(tun));
        }
    }
    Ok(directory)
}

/// Lists the devices on which this user runs a switch, in order; creates nothing.
///
/// # Errors
/// Another user owns the directory, others may write it, or it cannot be read.
pub fn up() -> Result<Vec<String>> {
    known(is_up)
}

/// Lists the devices that have a log of this user, in order; creates nothing.
pub fn logged() -> Result<Vec<String>> {
    known(|tun| find_log(tun).is_ok())
}

/// Lists the devices that pass the test, among those on which this user ever ran a switch.
fn known(holds: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let net = root()?.join("net");
    if !is_ours(&net)? {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(&net).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = entries.map_err(|cause| Error::os("read", object(&net), cause))?;
    let names = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok());
    let mut known: Vec<String> = names.filter(|name| is_name(name) && holds(name)).collect();
    known.sort();
    Ok(known)
}

/// Whether this user runs a switch on a device.
pub fn is_up(tun: &str) -> bool {
    let Ok(directory) = find(tun) else { return false };
    let ports = weir::PortName::list(Some(&directory)).unwrap_or_default();
    ports.iter().any(|port| port.path.ends_with("switch") && port.reader.is_some())
}

/// Makes the error that no switch has created this path.
fn none(tun: &str) -> Error {
    let why = format!("no switch has ever run on '{tun}'");
    Error::new(ErrorKind::NoSwitch, "find", format!("the switch of '{tun}'"), why)
}

/// Returns the log of the switch on `tun`, if there is one; creates nothing.
pub fn find_log(tun: &str) -> Result<PathBuf> {
    let path = find(tun)?.join(LOG);
    match rustix::fs::lstat(&path) {
        Err(Errno::NOENT) => Err(none(tun)),
        _ => Ok(path),
    }
}

/// Returns the path of the log of the switch and its daemons ([`mod@crate::log`]).
pub fn log(tun: &str) -> Result<PathBuf> {
    Ok(directory(tun)?.join(LOG))
}

/// File name of the log in the directory of a switch.
pub const LOG: &str = "log";

/// File name of the switch's port in its directory.
pub const SWITCH: &str = "switch";

/// Returns the path of the switch's port.
pub fn switch_port(tun: &str) -> Result<PathBuf> {
    Ok(directory(tun)?.join(SWITCH))
}

/// Returns the path of the profile of process `pid`, named `who` (the rules of device names).
pub fn profile(tun: &str, who: &str, pid: u32) -> Result<PathBuf> {
    if !is_name(who) {
        return Err(invalid("a profile", who));
    }
    Ok(directory(tun)?.join(format!("profile.{who}.{pid}")))
}

/// Returns the path where the server of TFTP at `port` takes requests of local programs; `tun` is the
/// device of its switch, `None` on the kernel's sockets. No device has a name like this.
pub fn tftpd(tun: Option<&str>, port: u16) -> Result<PathBuf> {
    let directory = match tun {
        Some(tun) => directory(tun)?,
        None => {
            let net = root()?.join("net");
            own(&net)?;
            net
        }
    };
    Ok(directory.join(format!("{TFTPD}{port}")))
}

/// Returns the paths where servers of TFTP behind the switch on `tun` take requests.
pub fn tftpds(tun: &str) -> Vec<PathBuf> {
    let entries = find(tun).ok().and_then(|directory| std::fs::read_dir(directory).ok());
    let entries = entries.into_iter().flatten().flatten();
    let is_one = |name: &str| name.strip_prefix(TFTPD).is_some_and(|n| n.parse::<u16>().is_ok());
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_one));
    let mut paths: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Returns the path where the icmpd behind the switch on `tun` takes requests of local programs.
pub fn icmpd(tun: &str) -> Result<PathBuf> {
    Ok(directory(tun)?.join("icmpd:requests"))
}

/// How the names of those paths begin.
const TFTPD: &str = "tftpd:";

/// Checks a device name: 1 to 15 of `[A-Za-z0-9_.-]`, not `.` or `..`.
pub fn check(tun: &str) -> Result<()> {
    if is_name(tun) { Ok(()) } else { Err(invalid("a device", tun)) }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let length = 1..=MOST_NAME_BYTES;
    length.contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
}

fn invalid(what: &str, name: &str) -> Error {
    // The name is not printed: it may hold anything.
    let object = format!("the name of {what}, {name:?}");
    let why = format!("a name is 1 to {MOST_NAME_BYTES} of A-Z a-z 0-9 _ . - (not . or ..)");
    Error::new(ErrorKind::Invalid, "use", object, why)
}

/// Returns the directory of names, created and checked where ports are named.
fn root() -> Result<PathBuf> {
    let beside = weir::PortName::path_of("x").map_err(|error| {
        let why = error.to_string();
        Error::new(ErrorKind::Denied, "use", "the directory of names", why)
    })?;
    Ok(beside.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Creates a private directory, or checks an existing one.
fn own(path: &Path) -> Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(cause) => return Err(Error::os("make", object(path), cause)),
    }
    if is_ours(path)? { Ok(()) } else { Err(Error::os("use", object(path), Errno::NOENT)) }
}

/// Whether it exists; an error if it exists and is not private to this user.
fn is_ours(path: &Path) -> Result<bool> {
    let found = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(false),
        found => found.map_err(|cause| Error::os("use", object(path), cause))?,
    };
    let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let own = found.st_uid == rustix::process::getuid().as_raw();
    if !is_directory || !own || found.st_mode & 0o022 != 0 {
        let why =
            "it is not a directory that belongs to this user and that only this user may write";
        return Err(Error::new(ErrorKind::Denied, "use", object(path), why));
    }
    Ok(true)
}

fn object(path: &Path) -> String {
    format!("the directory '{}'", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_checked() {
        for name in ["weir0", "a", "tun-1.2_3", "...", "exactly15bytes_"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a/b", "../x", "sixteen_bytes_xx", "a b", "a\0", "\u{e9}"] {
            let refused = check(name).expect_err(name);
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(!refused.to_string().contains('\0'));
        }
        assert!(profile("weir0", "../icmpd", 1).is_err());
    }

    #[test]
    fn a_directory_of_others_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("net");
        assert!(!is_ours(&path).expect("looked"), "it is not there");
        own(&path).expect("made");
        own(&path).expect("taken");
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o777)).expect("opened to all");
        assert_eq!(own(&path).expect_err("refused").kind(), ErrorKind::Denied);
        let link = place.path().join("link");
        std::os::unix::fs::symlink(place.path(), &link).expect("linked");
        assert_eq!(own(&link).expect_err("refused").kind(), ErrorKind::Denied);
    }
}
