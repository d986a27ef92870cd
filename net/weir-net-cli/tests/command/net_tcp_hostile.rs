//! TCP of `weir net serve` under load and against forgers (docs/contracts/tcp.md). What no real network does is
//! in `weir-net/tests/tcp_hostile.rs`.

use crate::common::net::{Answers, Bed, HOST, KERNEL, Process, both};
use crate::common::{WEIR, bound, python, until};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

/// The figures that the server told the switch last.
fn figures(bed: &Bed) -> serde_json::Value {
    let stat = bed.stat();
    let stations = stat["stations"].as_array().expect("stations").clone();
    let served = stations.into_iter().find(|station| station["service"] == "tcp");
    served.expect("a server of TCP")["figures"].clone()
}

#[test]
fn a_thousand_connections_are_served_at_once() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.net("serve --echo --quiet --tun weir0");
    server.said("serve is up at");
    let crowd = bed.script("crowd.py echo 1000 3000");
    assert_eq!((&crowd["right"], &crowd["wrong"]), (&1000.into(), &0.into()), "{crowd}");
    server.end();
    let told = server.said("serve ends: ");
    assert!(told.contains("serve ends: 1000 connections"), "{told}");
    switch.end();
}

/// 2,048 clients of one host that had sent half a request kept everybody out.
#[test]
fn clients_of_http_that_send_half_a_request_keep_nobody_out() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = bed.directory.path().join("served");
    std::fs::create_dir(&directory).expect("made");
    let file = directory.join("f");
    std::fs::write(&file, b"contents").expect("written");
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, readable).expect("set");
    let mut switch = bed.switch("--inline");
    let mut server = bed.net(&format!("serve --http {} --quiet --tun weir0", directory.display()));
    server.said("serve is up at");
    let crowd = bed.script("crowd.py slow 2048 20");
    assert_eq!(crowd["served"], 20, "{crowd}");
    server.end();
    switch.end();
}

#[test]
fn clients_that_never_read_hold_up_nobody_and_are_told_apart() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.net("serve --echo --chargen --quiet --tun weir0");
    server.said("serve is up at");
    let mute = bed.script("crowd.py mute 50 1");
    assert_eq!((&mute["echo"], &mute["open"]), (&"same".into(), &50.into()), "{mute}");
    let told = figures(&bed);
    let count = |name: &str| told[name].as_u64().unwrap_or_else(|| panic!("{name}: {told}"));
    assert!(count("other_side_stalls") >= 50, "each of the mute is one: {told}");
    let (other, network) = (count("other_side_ns"), count("network_ns"));
    assert!(other > 10 * network, "they wait for the other side: {told}");
    server.end();
    switch.end();
}

#[test]
fn whom_a_connection_waits_for_is_shown_while_it_lasts() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.net("serve --chargen --quiet --tun weir0");
    server.said("serve is up at");
    // sleep reads nothing: first the pipe is full, then nc's window.
    let mut nc = bed.command("sh");
    nc.args(["-c", &format!("nc -d {HOST} 19 | sleep 1000")]);
    let slow = Process::start(nc);
    let connections = || bed.stat()["stations"][0]["connections"].clone();
    until("the connection waits for the other side", || {
        connections()[0]["waits_for"] == "the other side"
    });
    let told = connections();
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    assert_eq!(told[0]["local_port"], 19, "{told}");
    assert!(told[0]["remote"].as_str().is_some_and(|it| it.starts_with("10.9.0.1:")), "{told}");
    assert!(told[0]["own_window_bytes"].as_u64() > Some(60_000), "{told}");
    let text = bed.ok(&format!("{WEIR} net stat --tun weir0"));
    assert!(text.contains("waits for the other side"), "{text}");
    // The log tells the same, and of its end.
    let log = || bed.ok(&format!("{WEIR} net log --tun weir0 --kinds flows"));
    // It is a stall only after a while.
    until("the stall is logged", || log().contains("stalled, waits for the other side"));
    assert!(log().contains("began"), "{}", log());
    // Kills all three of them: after the shell alone, nc would continue.
    drop(slow);
    // What the kernel says on its behalf, a FIN or a reset, depends on what it has read.
    until("its end is logged", || log().contains("failed after") || log().contains("ended, "));
    server.end();
    switch.end();
}

#[test]
fn forged_segments_neither_end_nor_change_a_connection() {
    let Some(bed) = Bed::new(&[]) else { return };
    for options in ["--inline", "--inline --no-vnet-header"] {
        let mut switch = bed.switch(options);
        let mut server = bed.net("serve --echo --quiet --tun weir0");
        server.said("serve is up at");
        let forged = bed.script("forge.py");
        assert_eq!(forged["goes_on"], true, "{forged}");
        assert_eq!(forged["answer"], 16, "the next number is told: {forged}");
        server.end();
        let told = server.said("serve ends: ");
        // All but those whose flags make no sense: three resets, three requests, one
        // acknowledgement of what was never sent.
        assert!(told.contains(" 7 disbelieved"), "{told}");
        switch.end();
    }
}

#[test]
fn wget_and_many_streams_of_curl_get_every_byte_and_nothing_is_malformed() {
    let Some(bed) = Bed::new(&["curl", "wget"]) else { return };
    let directory = bed.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    // Lines: tshark takes some other bytes for a protocol that is damaged.
    let lines = (0..100_000_u32).flat_map(|line| format!("line {line}\n").into_bytes());
    let file: Vec<u8> = lines.collect();
    let path = directory.join("file.txt");
    fs::write(&path, &file).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("opened to all");
    // Without a header before each packet the host itself makes every checksum.
    let host = bed.host(Answers::Inline, "--no-vnet-header", "");
    let mut server = bed.net(&format!("serve --quiet --tun weir0 --http {}", directory.display()));
    server.said("serve is up at");
    bed.ok(&format!("wget -q -O by-wget http://{HOST}/file.txt"));
    let streams: Vec<String> =
        (0..8).map(|at| format!("-o by-curl-{at} http://{HOST}/file.txt")).collect();
    bed.ok(&format!("curl -sS --parallel --parallel-immediate {}", streams.join(" ")));
    let names = (0..8).map(|at| format!("by-curl-{at}")).chain([String::from("by-wget")]);
    for name in names {
        let got = fs::read(bed.directory.path().join(&name)).expect("there");
        assert!(got == file, "{name} differs: {} bytes", got.len());
    }
    server.end();
    host.end_with_checksums_of_tcp();
}

/// Such connections stayed for ever, with the memory of their terminals, until nobody was served.
#[test]
fn clients_that_reset_with_bytes_unread_leave_nothing_behind() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = bed.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    let large = directory.join("large");
    fs::write(&large, vec![b'x'; 1 << 20]).expect("written");
    fs::set_permissions(&large, fs::Permissions::from_mode(0o644)).expect("opened to all");
    let mut switch = bed.switch("--inline");
    let services = format!("--echo --http {} --telnet sleep${{IFS}}1000", directory.display());
    let mut server = bed.net(&format!("serve {services} --quiet --tun weir0"));
    server.said("serve is up at");
    let mut accepted = 0;
    for (service, clients) in [("echo", 40), ("http", 40), ("telnet", 5)] {
        let left = bed.script(&format!("gone.py {service} {clients}"));
        assert_eq!(left["left"], clients, "{left}");
        accepted += clients;
        until(&format!("all clients of {service} are forgotten"), || {
            let told = figures(&bed);
            told["connections"] == accepted && told["running"] == 0
        });
    }
    let children = format!("/proc/{0}/task/{0}/children", server.pid());
    assert_eq!(fs::read_to_string(children).unwrap_or_default(), "", "their commands have ended");
    server.end();
    switch.end();
}

/// Ends its half at once, reads nothing, and resets the connection once it is told to.
const LEAVER: &str = "
import os, socket, struct, sys, time
server = socket.create_server((sys.argv[1], 7000))
print('open', flush=True)
came, _ = server.accept()
came.shutdown(socket.SHUT_WR)
while not os.path.exists('leave'):
    time.sleep(0.01)
came.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
came.close()
print('left', flush=True)
";

/// The end of what the other side sent once counted as the end of what it took.
#[test]
fn a_reset_behind_the_other_sides_last_byte_loses_input_and_is_no_success() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.command(python());
    server.args(["-u", "-c", LEAVER, KERNEL]);
    let mut server = Process::start(server);
    server.said("open");
    let (input, mut writer) = std::io::pipe().expect("a pipe");
    let unread = input.try_clone().expect("duplicated");
    let mut command = bed.command(WEIR);
    command.args(["net", "connect", "--tun", "weir0", KERNEL, "7000"]);
    let child = command.stdin(input).spawn().expect("it starts");
    bound(&child);
    drop(command);
    // More than the server's side holds, and less than both sides do.
    writer.write_all(&[7; 300_000]).expect("written");
    drop(writer);
    until("all of the input is read", || rustix::io::ioctl_fionread(&unread) == Ok(0));
    fs::write(bed.directory.path().join("leave"), "").expect("written");
    server.said("left");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    assert!(both(&output).contains("lost the connection to 10.9.0.1:7000"), "{}", both(&output));
    server.ended();
    switch.end();
}
