//! Servers of TFTP for tests, and the files that they serve.

use super::net::{Bed, Process, both};
use super::python;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The directory that is served, with a file of this many bytes that are not alike.
pub fn served(bed: &Bed, bytes: usize) -> PathBuf {
    let directory = bed.directory.path().join("served");
    fs::create_dir_all(&directory).expect("made");
    write(&directory.join("file.bin"), &contents(bytes));
    directory
}

pub fn contents(bytes: usize) -> Vec<u8> {
    let mut state = bytes as u64 | 1;
    let mut next = || {
        // A linear congruential generator of 64 bits (Knuth).
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// Writes a file that all may read.
pub fn write(path: &PathBuf, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("opened to all");
}

pub fn read(bed: &Bed, name: &str) -> Vec<u8> {
    fs::read(bed.directory.path().join(name)).expect("it is there")
}

/// Starts a server, on the switch or on the kernel's sockets, and waits until it serves.
pub fn tftpd(bed: &Bed, args: &str) -> Process {
    let server = bed.net(&format!("tftpd {}/served {args}", bed.directory.path().display()));
    server.said("tftpd serves");
    server
}

/// A switch that answers ICMP itself, and behind it a server of a file of this many bytes.
pub fn behind_switch(bed: &Bed, bytes: usize) -> (Process, Process) {
    served(bed, bytes);
    let switch = bed.switch("--inline");
    (switch, tftpd(bed, "--tun weir0"))
}

/// What the clients below share: a socket, and the packets of TFTP.
const PYTHON: &str = "
import socket, struct, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(20)
to = ('10.9.0.2', 69)
ask = lambda name: b'\\0\\1' + name + b'\\0octet\\0'
";

/// Runs a script of Python in the bed, after `PYTHON`; it must succeed.
pub fn script(bed: &Bed, text: &str) {
    let mut command = bed.command("timeout");
    command.args(["50", python(), "-c", &format!("{PYTHON}{text}")]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", both(&output));
}
