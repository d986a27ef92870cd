//! `weir port mount`: programs that know nothing of weir write to ports as to files (docs/contracts/port.md).

use crate::common::port::{Place, said};
use crate::common::{WEIR, have, until};
use std::process::{Child, Command, Stdio};

/// Ports mounted on a directory, until it is dropped.
struct Mounted(Child);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Mounts the ports of `place` on `ports` there; `None` where that is not allowed.
fn mounted(place: &Place) -> Option<Mounted> {
    let at = place.directory.path().join("ports");
    std::fs::create_dir(&at).expect("made");
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("SKIPPED: /dev/fuse cannot be opened");
        return None;
    }
    if !rustix::process::geteuid().is_root() && !have(&["fusermount3"]) {
        return None;
    }
    let mut command = place.command(WEIR);
    command.args(["port", "mount", "ports"]).stderr(Stdio::piped());
    let mut mount = Mounted(command.spawn().expect("weir starts"));
    let is_there = || {
        std::fs::read_to_string("/proc/self/mounts")
            .is_ok_and(|all| all.lines().any(|line| line.split(' ').nth(1) == at.to_str()))
    };
    let mut refused = false;
    until("they are mounted", || {
        refused = mount.0.try_wait().expect("known").is_some();
        refused || is_there()
    });
    if refused {
        eprintln!("SKIPPED: nothing may be mounted here");
    }
    (!refused).then_some(mount)
}

/// A port could be written by its own filter alone.
#[test]
fn what_a_program_writes_until_it_closes_is_one_message() {
    let place = Place::new();
    let Some(_mount) = mounted(&place) else { return };
    let script = "$WEIR port read log --raw > got & reader=$!
        until [ -e ports/log ]; do sleep 0.01; done
        echo 'backup done' > ports/log
        (echo a; /bin/echo b) > ports/log
        writers=
        for i in {1..40}; do (echo $i one; /bin/echo $i two) > ports/log & writers=\"$writers $!\"; done
        wait $writers; printf end > ports/log
        until [ \"$(tail -c 3 got)\" = end ]; do sleep 0.01; done; kill $reader; wait $reader
        true";
    let output = place.bash(script);
    assert!(output.status.success(), "{}", said(&output));
    let got = std::fs::read_to_string(place.directory.path().join("got")).expect("read");
    let lines: Vec<&str> = got.lines().collect();
    assert_eq!((lines.len(), &lines[..3]), (84, &["backup done", "a", "b"][..]), "{got}");
    for pair in lines[3..83].chunks(2) {
        let number = pair[0].strip_suffix(" one").expect("a message is whole");
        assert_eq!(pair[1].strip_suffix(" two"), Some(number), "{got}");
    }
}

#[test]
fn a_port_without_a_reader_is_as_a_fifo_without_one_and_nothing_can_be_read() {
    let place = Place::new();
    let Some(_mount) = mounted(&place) else { return };
    let output = place.bash("echo x > ports/none");
    assert!(said(&output).contains("No such device or address"), "{}", said(&output));
    let script = "$WEIR port read log --max-message 1K > got & reader=$!
        until [ -e ports/log ]; do sleep 0.01; done
        cat ports/log; ls ports
        head -c 17M /dev/zero > ports/log
        kill $reader; wait $reader; ls ports | wc -l; echo late > ports/log";
    let output = place.bash(script);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "log\n0\n");
    for why in ["Permission denied", "Message too long", "No such device or address"] {
        assert!(said(&output).contains(why), "{why}: {}", said(&output));
    }
}
