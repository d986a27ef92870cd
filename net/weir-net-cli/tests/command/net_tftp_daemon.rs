//! Requests of local programs to `weir net tftpd`, what it shows of its transfers, and its limits
//! (docs/contracts/tftp.md).

use crate::common::net::{Bed, HOST, KERNEL, both};
use crate::common::tftp::{behind_switch, contents, read, script, served, tftpd, write};
use crate::common::{WEIR, schema, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// The transfers of the server on the kernel's sockets at this port.
fn list(bed: &Bed, port: u16) -> Vec<Value> {
    let text = bed.ok(&format!("{WEIR} net tftp list --socket --port {port} --json -"));
    let list = schema::check_text("weir.net.tftp.list/1", text.as_bytes());
    list["transfers"].as_array().expect("a list").clone()
}

fn is(row: &Value, state: &str, name: &str, is_asked: bool) -> bool {
    row["state"] == state && row["name"] == name && row["pid"].is_number() == is_asked
}

#[test]
fn local_programs_have_it_fetch_and_send() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = served(&bed, 700_000);
    let mut switch = bed.switch("--inline");
    let mut far = tftpd(&bed, "--socket --port 6970 --write");
    let mut near = [tftpd(&bed, "--socket --port 6969"), tftpd(&bed, "--tun weir0")];
    for (way, host) in [("--socket --daemon=6969", "localhost"), ("--tun weir0 --daemon", KERNEL)] {
        let at = format!("{way} --port 6970");
        bed.ok(&format!("{WEIR} net tftp get {at} {host} file.bin got"));
        assert!(read(&bed, "got") == contents(700_000), "{way}");
        let up = format!("up{}", way.len());
        bed.ok(&format!("{WEIR} net tftp put {at} {host} got {up}"));
        until("it has its name", || directory.join(&up).exists());
        assert!(fs::read(directory.join(&up)).expect("there") == contents(700_000), "{way}");
        let again = bed.run(&format!("{WEIR} net tftp put {at} {host} got {up}"));
        assert_eq!(again.status.code(), Some(1));
        assert!(both(&again).contains("the file is there already (error 6)"), "{}", both(&again));
        let none = bed.run(&format!("{WEIR} net tftp get {at} {host} absent none"));
        assert!(both(&none).contains("no such file (error 1)"), "{}", both(&none));
        assert!(!bed.directory.path().join("none").exists());
        let nowhere = bed.run(&format!("{WEIR} net tftp get {at} {host} file.bin nowhere/x"));
        assert!(both(&nowhere).contains("nowhere': No such file"), "{}", both(&nowhere));
        bed.ok("mkfifo pipe");
        let pipe = bed.run(&format!("{WEIR} net tftp put {at} {host} pipe x"));
        assert!(both(&pipe).contains("it is not a plain file"), "{}", both(&pipe));
        bed.ok("rm got pipe");
    }
    let rows = list(&bed, 6969);
    assert!(rows.iter().any(|row| is(row, "completed", "file.bin", true)), "{rows:?}");
    assert!(rows.iter().any(|row| is(row, "failed", "absent", true)), "{rows:?}");
    let whole = rows.iter().find(|row| row["state"] == "completed").expect("one");
    assert_eq!((&whole["bytes"], &whole["receives"]), (&700_000.into(), &false.into()), "{whole}");
    // The server that was asked has seen clients only.
    assert!(list(&bed, 6970).iter().all(|row| row["pid"].is_null()));
    // The switch knows nothing of files; its report asks the server.
    let stat = bed.stat();
    let rows = stat["transfers"].as_array().expect("rows");
    assert!(rows.iter().any(|row| is(row, "completed", "file.bin", true)), "{stat}");
    let text = bed.ok(&format!("{WEIR} net stat --tun weir0"));
    assert!(
        text.contains("transfer      completed receives 'file.bin' from 10.9.0.1:6970"),
        "{text}"
    );
    let nobody = bed.run(&format!("{WEIR} net tftp get --socket --daemon=7000 {KERNEL} x"));
    assert_eq!(nobody.status.code(), Some(1));
    assert!(both(&nobody).contains("no tftpd takes requests there"), "{}", both(&nobody));
    let output = bed.run(&format!("{WEIR} net tftp get --socket --daemon=6969 {KERNEL} x -"));
    assert_eq!(output.status.code(), Some(2), "{}", both(&output));
    near.iter_mut().for_each(|server| server.end());
    far.end();
    switch.end();
}

#[test]
fn a_program_or_a_server_that_goes_away_leaves_no_half_file() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 1_000_000);
    fs::create_dir(bed.directory.path().join("in")).expect("made");
    let incoming = || fs::read_dir(bed.directory.path().join("in")).expect("read").count();
    // So slow that the transfer runs until something ends it.
    let mut far = tftpd(&bed, "--socket --port 6970 --rate 20K");
    let mut near = tftpd(&bed, "--socket --port 6969");
    let line = "tftp get --socket --daemon=6969 --port 6970 localhost file.bin in/file";
    let runs = || {
        let rows = list(&bed, 6969);
        rows.iter().any(|row| is(row, "running", "file.bin", true) && row["bytes"] != 0)
    };
    let program = bed.net(line);
    until("it runs", runs);
    assert_eq!(incoming(), 1, "the part that has come");
    program.kill(Signal::KILL);
    until("it is given up", || {
        list(&bed, 6969).iter().any(|row| is(row, "failed", "file.bin", true))
    });
    until("nothing is left", || incoming() == 0);
    let mut program = bed.net(line);
    until("it runs", runs);
    near.end();
    assert_eq!(program.ended().code(), Some(1), "{}", program.printed());
    assert!(program.printed().contains("it was interrupted"), "{}", program.printed());
    assert_eq!(incoming(), 0);
    far.end();
}

#[test]
fn many_local_programs_at_once_are_served_or_refused() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 60_000);
    let mut far = tftpd(&bed, "--socket --port 6970 --rate 100K");
    let mut near = tftpd(&bed, "--socket --port 6969");
    let mut programs: Vec<_> = (0..24)
        .map(|number| {
            let at = "--socket --daemon=6969 --port 6970";
            bed.net(&format!("tftp get {at} localhost file.bin got{number}"))
        })
        .collect();
    let mut whole = 0;
    for (number, program) in programs.iter_mut().enumerate() {
        if program.ended().success() {
            whole += 1;
            assert!(read(&bed, &format!("got{number}")) == contents(60_000), "{number}");
        } else {
            let said = program.printed();
            assert!(said.contains("too many requests at a time"), "{said}");
        }
    }
    assert!(whole >= 16, "{whole} of 24");
    near.end();
    far.end();
}

/// Only a lower bound of the time is promised: a machine may always be slower.
#[test]
fn the_rate_is_not_exceeded_either_way() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = served(&bed, 300_000);
    write(&bed.directory.path().join("up"), &contents(300_000));
    let mut server = tftpd(&bed, "--socket --port 6969 --write --rate 200K");
    let proposals = ["", "--block 512 --window 1", "--block 65464 --window 64"];
    for (number, proposal) in proposals.into_iter().enumerate() {
        let at = format!("--socket --port 6969 {proposal} localhost");
        let begun = Instant::now();
        bed.ok(&format!("{WEIR} net tftp get {at} file.bin got"));
        assert!(begun.elapsed() > Duration::from_millis(1100), "{proposal}: {:?}", begun.elapsed());
        assert!(read(&bed, "got") == contents(300_000), "{proposal}");
        let begun = Instant::now();
        bed.ok(&format!("{WEIR} net tftp put {at} up up{number}"));
        assert!(begun.elapsed() > Duration::from_millis(1100), "{proposal}: {:?}", begun.elapsed());
        let path = directory.join(format!("up{number}"));
        until("it has its name", || path.exists());
        assert!(fs::read(path).expect("there") == contents(300_000), "{proposal}");
    }
    server.end();
    let usage = bed.run_net("tftpd served --socket --rate 10");
    assert_eq!(usage.status.code(), Some(2), "{}", both(&usage));
}

#[test]
fn a_file_of_more_than_65535_blocks_arrives() {
    let Some(bed) = Bed::new(&["curl"]) else { return };
    // 32 MiB and a little, in blocks of 512 bytes: the numbers continue from 0.
    let length = 65_536 * 512 + 700;
    served(&bed, length);
    let mut server = tftpd(&bed, "--socket --port 6969");
    bed.ok("curl -sS --tftp-blksize 512 -o got tftp://127.0.0.1:6969/file.bin");
    assert!(read(&bed, "got") == contents(length));
    bed.ok(&format!("{WEIR} net tftp get --socket --port 6969 --block 512 localhost file.bin got"));
    assert!(read(&bed, "got") == contents(length));
    server.end();
}

#[test]
fn a_full_disk_ends_an_upload_and_leaves_nothing() {
    let Some(bed) = Bed::new(&["mount"]) else { return };
    served(&bed, 10);
    write(&bed.directory.path().join("big"), &contents(900_000));
    let path = bed.directory.path().display().to_string();
    let mount = format!("mount -t tmpfs -o size=256k none {path}/served");
    let probe = bed.run(&format!("unshare -m {mount}"));
    if !probe.status.success() {
        eprintln!("SKIPPED: no privilege to mount");
        return;
    }
    let mut command = bed.command("unshare");
    let serve = format!("exec {WEIR} net tftpd {path}/served --socket --port 6969 --write");
    command.args(["-m", "sh", "-c", &format!("{mount} && {serve}")]);
    let mut server = crate::common::net::Process::start(command);
    server.said("tftpd serves");
    for args in ["", "--no-options", "--block 65464"] {
        let line = format!("net tftp put --socket --port 6969 {args} localhost big new");
        let output = bed.run(&format!("{WEIR} {line}"));
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        assert!(both(&output).contains("no room for the file (error 3)"), "{}", both(&output));
        let seen = format!("/proc/{}/root{path}/served", server.pid());
        until("nothing is left", || fs::read_dir(&seen).expect("read").count() == 0);
    }
    // What fits is taken afterwards.
    write(&bed.directory.path().join("small"), &contents(100_000));
    bed.ok(&format!("{WEIR} net tftp put --socket --port 6969 localhost small new"));
    server.end();
}

/// It died of SIGXFSZ, and all of its transfers with it.
#[test]
fn a_limit_of_file_sizes_ends_an_upload_and_not_the_server() {
    let Some(bed) = Bed::new(&["bash"]) else { return };
    let directory = served(&bed, 10);
    write(&bed.directory.path().join("big"), &contents(900_000));
    let mut command = bed.command("bash");
    let serve = format!("exec {WEIR} net tftpd served --socket --port 6969 --write");
    command.args(["-c", &format!("ulimit -f 100; {serve}")]);
    let mut server = crate::common::net::Process::start(command);
    server.said("tftpd serves");
    let put = bed.run_net("tftp put --socket --port 6969 localhost big new");
    assert!(both(&put).contains("no room for the file (error 3)"), "{}", both(&put));
    until("nothing is left", || fs::read_dir(&directory).expect("read").count() == 1);
    server.end();
}

#[test]
fn the_log_and_the_rows_say_who_holds_a_transfer_up() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 1500);
    // The client sleeps over its second block, and then answers each copy of it: none was lost.
    script(
        &bed,
        "
s.sendto(ask(b'file.bin'), to)
for block in (1, 2, 3):
    packet, sender = s.recvfrom(2000)
    if block == 2:
        time.sleep(1.5) # sleep: the client is to be slow
        copies = 1
        s.settimeout(0.2)
        try:
            while True:
                copies += s.recv(2000)[:4] == packet[:4]
        except TimeoutError: pass
        s.settimeout(20)
        assert copies > 2, copies
        for _ in range(copies): s.sendto(struct.pack('!HH', 4, block), sender)
    else:
        s.sendto(struct.pack('!HH', 4, block), sender)
",
    );
    server.said("sent 'file.bin' to");
    until("the switch knows of it", || {
        let figures = &bed.stat()["stations"][0]["figures"];
        figures["transfers"] == 1 && figures["running"] == 0
    });
    let stat = bed.stat();
    let row = &stat["transfers"][0];
    assert!(is(row, "completed", "file.bin", false), "{stat}");
    // A busy host may hold up other packets as well.
    assert!(row["other_side_stalls"].as_u64() > Some(0), "{row}");
    assert!(row["other_ns"].as_u64() > Some(1_400_000_000), "{row}");
    assert!(stat["stations"][0]["figures"]["other_side_stalls"].as_u64() > Some(0), "{stat}");
    let log = bed.ok(&format!("{WEIR} net log --tun weir0 --kinds flows"));
    let events: Vec<&str> = log.lines().filter(|line| line.contains(" flow ")).collect();
    assert!(events.len() >= 4, "{log}");
    assert!(events[0].contains(&format!(" with {KERNEL}:")), "{log}");
    assert!(events[0].contains("began, blocks of 512 bytes in windows of 1"), "{log}");
    assert!(events.iter().any(|line| line.contains("sends again from 2")), "{log}");
    assert!(events.iter().any(|line| line.contains("stalled, waits for the network")), "{log}");
    assert!(events.last().expect("one").contains("ended, 1500 bytes"), "{log}");
    let silent = bed.run(&format!("{WEIR} net tftp get --socket {HOST} absent x"));
    assert_eq!(silent.status.code(), Some(1));
    assert_eq!(bed.stat()["transfers"].as_array().map(Vec::len), Some(1), "a refusal is no row");
    server.end();
    switch.end();
}
