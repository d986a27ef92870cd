//! `weir net serve` and `weir net connect` with real clients and servers of the kernel
//! (docs/contracts/tcp.md).

use crate::common::net::{Bed, HOST, KERNEL, Process, both};
use crate::common::{WEIR, bound, have, until};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Output, Stdio};

/// Bytes of which no two stretches are alike.
fn contents(count: usize) -> Vec<u8> {
    (0..count as u64)
        .flat_map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7).to_le_bytes())
        .take(count)
        .collect()
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("opened to all");
}

fn serve(bed: &Bed, args: &str) -> Process {
    let server = bed.net(&format!("serve {args}"));
    server.said("serve is up at");
    server
}

/// Runs `weir net connect` with this input.
fn connect(bed: &Bed, to: &str, input: &[u8]) -> Output {
    let mut command = bed.command("timeout");
    command.args(["60", WEIR, "net", "connect", "--tun", "weir0"]).args(to.split(' '));
    run_with(command, input)
}

fn run_with(mut command: std::process::Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let (mut stdin, input) = (child.stdin.take().expect("piped"), input.to_vec());
    let writing = std::thread::spawn(move || {
        // A command that ends early does not read all of it.
        let _ = std::io::Write::write_all(&mut stdin, &input);
    });
    let output = child.wait_with_output().expect("ended");
    writing.join().expect("written");
    output
}

#[test]
fn curl_fetches_the_same_file_by_tftp_and_http() {
    // Lines, and fewer blocks than 496: tshark takes block 496 for a message of STUN.
    let text = || -> Vec<u8> {
        (0..20_000_u32).flat_map(|line| format!("line {line}\n").into_bytes()).collect()
    };
    let Some(bed) = Bed::new(&["curl"]) else { return };
    let directory = bed.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    write(&directory.join("file.bin"), &text());
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let mut tftpd = bed.net(&format!("tftpd {} --tun weir0", directory.display()));
    tftpd.said("tftpd serves");
    let mut server = serve(&bed, &format!("--http {} --tun weir0", directory.display()));
    bed.ok(&format!("curl -sS -o by-tftp tftp://{HOST}/file.bin"));
    bed.ok(&format!("curl -sS -o by-http http://{HOST}/file.bin"));
    for name in ["by-tftp", "by-http"] {
        let got = fs::read(bed.directory.path().join(name)).expect("there");
        assert!(got == text(), "{name} differs");
    }
    server.said("GET /file.bin: 200");
    tftpd.said("sent 'file.bin' to");
    server.end();
    tftpd.end();
    host.end();
}

#[test]
fn http_refuses_what_it_should() {
    let Some(bed) = Bed::new(&["curl", "nc"]) else { return };
    let directory = bed.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    write(&directory.join("a b.txt"), b"blank");
    write(&directory.join("index.html"), b"<p>hello");
    write(&bed.directory.path().join("secret"), b"secret");
    symlink("../secret", directory.join("out")).expect("linked");
    write(&directory.join("closed"), b"closed");
    fs::set_permissions(directory.join("closed"), fs::Permissions::from_mode(0o600)).expect("set");
    let mut switch = bed.switch("--inline");
    let mut server = serve(&bed, &format!("--http {} --http-port 8080", directory.display()));
    let status = |args: &str, path: &str| {
        let format = "%{http_code}:%{size_download}:%{content_type}";
        bed.ok(&format!(
            "curl -sS --path-as-is -o body {args} -w {format} http://{HOST}:8080{path}"
        ))
    };
    assert_eq!(status("", "/a%20b.txt"), "200:5:text/plain");
    assert_eq!(status("", "/?query"), "200:8:text/html");
    assert_eq!(status("-I", "/index.html"), "200:0:text/html");
    for (path, expected) in [
        ("/absent", "404"),
        ("/../secret", "403"),
        ("/%2e%2e/secret", "403"),
        ("/out", "403"),
        ("/closed", "403"),
        ("/a%00b", "404"),
        ("/index.html/x", "404"),
        ("//../../etc/passwd", "403"),
    ] {
        assert!(status("", path).starts_with(expected), "{path}: {}", status("", path));
    }
    assert!(status("-X DELETE", "/index.html").starts_with("405"));
    assert!(status("-d x=1", "/index.html").starts_with("405"));
    // Two requests on one connection; then what is none.
    let two = bed.ok(&format!(
        "curl -sS -w %{{num_connects}} -o b1 http://{HOST}:8080/ --next -sS -w %{{num_connects}} \
         -o b2 http://{HOST}:8080/index.html"
    ));
    assert!(two == "10" || two == "11", "{two}");
    let answer = |request: &[u8]| {
        let mut nc = bed.command("nc");
        nc.args(["-N", "-w", "20", HOST, "8080"]);
        both(&run_with(nc, request))
    };
    let nonsense = answer(b"\0\x01\x02 nonsense\r\n\r\n");
    assert!(nonsense.starts_with("HTTP/1.1 400 Bad Request"), "{nonsense}");
    let long = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &[b'a'; 20_000]].concat();
    assert!(answer(&long).starts_with("HTTP/1.1 431"));
    // So many fields that they are taken, one more, and as many as make a long head.
    for (fields, status) in [(64, "200"), (65, "431"), (6_000, "431")] {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "x: 12345\r\n".repeat(fields));
        let told = answer(head.as_bytes());
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{fields} fields: {told}");
    }
    // A target may be a whole address (RFC 9112, 3.2.2), as a proxy's clients write it.
    assert_eq!(status(&format!("-x http://{HOST}:8080"), "/index.html"), "200:8:text/html");
    for (target, status) in [("http://a", "200"), ("HTTP://a?/b", "200"), ("ftp://a/", "400")] {
        let told = answer(format!("GET {target} HTTP/1.1\r\n\r\n").as_bytes());
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {told}");
    }
    // Who speaks HTTP/1.0 is told whether the connection stays, which others take for granted.
    for (asked, connection) in [
        ("1.0\r\nConnection: keep-alive", Some("keep-alive")),
        ("1.0", Some("close")),
        ("1.1", None),
        ("1.1\r\nConnection: close", Some("close")),
    ] {
        let told = answer(format!("GET / HTTP/{asked}\r\n\r\n").as_bytes());
        let said = told.lines().find_map(|line| line.strip_prefix("Connection: "));
        assert_eq!(said, connection, "{asked}: {told}");
    }
    server.end();
    switch.end();
}

#[test]
fn echo_discard_and_chargen_do_what_their_documents_say() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let mut server = serve(&bed, "--echo --discard=99 --chargen");
    let nc = |port: &str| {
        let mut nc = bed.command("timeout");
        nc.args(["50", "nc", "-N", HOST, port]);
        nc
    };
    let sent = contents(5_000_000);
    assert!(run_with(nc("7"), &sent).stdout == sent, "the echo differs");
    assert!(run_with(nc("99"), &sent).stdout.is_empty());
    server.said("has left discard: 5");
    let log = bed.ok(&format!("{WEIR} net log --tun weir0 --kinds flows"));
    let ended = log.lines().filter(|line| line.contains(": ended, ")).count();
    assert_eq!((ended, log.contains("failed")), (2, false), "{log}");
    let lines = bed.ok(&format!("sh -c nc${{IFS}}-d${{IFS}}{HOST}${{IFS}}19|head${{IFS}}-c7030"));
    let lines: Vec<&str> = lines.split("\r\n").collect();
    assert_eq!((lines.len(), lines[0].len()), (96, 72));
    assert!(lines[0].starts_with(" !\"#$%&'()*+") && lines[1].starts_with("!\"#$"), "{}", lines[0]);
    assert_eq!(lines[94].as_bytes()[..2], *b"~ ");
    server.end();
    host.end();
}

#[test]
fn connect_talks_to_a_server_of_the_kernel() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let mut switch = bed.switch("--inline");
    let sent = contents(2_000_000);
    let game = bed.command("sh");
    let mut game = game;
    game.args(["-c", &format!("echo ready; exec nc -N -l {KERNEL} 7000 < sent > got")]);
    fs::write(bed.directory.path().join("sent"), &sent).expect("written");
    let mut kernel = Process::start(game);
    kernel.said("ready");
    // nc listens a moment after it has said so: a connection that is refused is tried again.
    let mut output = connect(&bed, &format!("{KERNEL} 7000"), &sent);
    let mut tries = 0;
    while both(&output).contains("cannot connect") && tries < 100 {
        output = connect(&bed, &format!("{KERNEL} 7000"), &sent);
        tries += 1;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == sent, "{} bytes came", output.stdout.len());
    kernel.ended();
    assert!(fs::read(bed.directory.path().join("got")).expect("there") == sent);
    let refused = connect(&bed, &format!("{KERNEL} 7001"), b"");
    assert_eq!(refused.status.code(), Some(1));
    assert!(both(&refused).contains("cannot connect to 10.9.0.1:7001"), "{}", both(&refused));
    switch.end();
}

/// Sends its last, ends its half, and prints what comes then.
const LAST: &str = "
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print('open', flush=True)
came, _ = server.accept()
came.sendall(b'the last')
came.shutdown(socket.SHUT_WR)
print(came.makefile().read(), flush=True)
";

/// A reader of `weir net connect` waited for more as long as there was input to send, whatever the
/// other side had ended. iperf3 did so, once in some runs.
#[test]
fn whoever_reads_from_connect_learns_of_the_other_sides_last_byte() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.command(crate::common::python());
    server.args(["-u", "-c", LAST, KERNEL]);
    let mut server = Process::start(server);
    server.said("open");
    let mut command = bed.command(WEIR);
    command.args(["net", "connect", "--tun", "weir0", KERNEL, "7000"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    bound(&child);
    let mut came = String::new();
    let mut output = child.stdout.take().expect("piped");
    output.read_to_string(&mut came).expect("it ends");
    assert_eq!(came, "the last");
    // The other half works on.
    let mut input = child.stdin.take().expect("piped");
    input.write_all(b"thanks").expect("written");
    drop(input);
    server.said("thanks");
    server.ended();
    assert!(child.wait().expect("it ends").success());
    switch.end();
}

/// Sends until that fails, and says how.
const TALKER: &str = "
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print('open', flush=True)
came, _ = server.accept()
came.settimeout(50)
try:
    while True:
        came.sendall(b'x' * 65536)
except OSError as error:
    print('failed', type(error).__name__, flush=True)
";

/// It was left with a connection that nobody answered on.
#[test]
fn a_server_is_told_that_its_bytes_cannot_be_written() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = bed.command(crate::common::python());
    server.args(["-u", "-c", TALKER, KERNEL]);
    let mut server = Process::start(server);
    server.said("open");
    let mut command = bed.command(WEIR);
    command.args(["net", "connect", "--tun", "weir0", KERNEL, "7000"]).stdin(Stdio::null());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
    let output = command.stdout(full).stderr(Stdio::piped()).output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(both(&output).contains("cannot write to standard output"), "{}", both(&output));
    let failed = server.said("failed ");
    assert!(failed.contains("Reset") || failed.contains("Broken"), "{failed}");
    server.ended();
    switch.end();
}

/// Sends more than anything holds that lies between, until it hears something; then says how much.
const CHATTER: &str = "
import select, socket, sys
server = socket.create_server((sys.argv[1], 7000))
print('open', flush=True)
came, _ = server.accept()
came.setblocking(False)
sent = 0
while not select.select([came], [], [], 0)[0]:
    if select.select([came], [came], [])[1]:
        sent += came.send(b'x' * 65536)
came.setblocking(True)
print('heard', came.makefile().read(), flush=True)
came.shutdown(socket.SHUT_WR)
print('sent', sent, 'in all', flush=True)
";

/// It once waited in its write to standard output, and neither sent nor answered anything meanwhile.
#[test]
fn a_connection_is_served_while_nobody_reads_what_came() {
    for verb in ["connect", "telnet"] {
        let Some(bed) = Bed::new(&[]) else { return };
        let mut switch = bed.switch("--inline");
        let mut server = bed.command(crate::common::python());
        server.args(["-u", "-c", CHATTER, KERNEL]);
        let mut server = Process::start(server);
        server.said("open");
        let mut command = bed.command(WEIR);
        command.args(["net", verb, "--tun", "weir0", KERNEL, "7000"]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().expect("started");
        bound(&child);
        let mut output = child.stdout.take().expect("piped");
        // Until its standard output is full: what is on its way stands still then.
        until("the window is closed", || {
            let stat = bed.stat();
            let sent = stat["datagrams_sent"].as_u64().expect("counted");
            let pipe = rustix::io::ioctl_fionread(&output).expect("a pipe");
            pipe > 60_000 && sent > 20
        });
        let mut input = child.stdin.take().expect("piped");
        input.write_all(b"still here").expect("written");
        drop(input);
        server.said("heard still here");
        let mut came = Vec::new();
        output.read_to_end(&mut came).expect("it ends");
        server.said(&format!("sent {} in all", came.len()));
        server.ended();
        assert!(child.wait().expect("it ends").success(), "{verb}");
        switch.end();
    }
}

/// Gives each connection to the port 5202 of loopback a `weir net connect` of its own to iperf3.
const DOOR: &str = "
import socket, subprocess, sys
door = socket.create_server(('127.0.0.1', 5202))
print('open', flush=True)
while True:
    came, _ = door.accept()
    subprocess.Popen(sys.argv[1:], stdin=came, stdout=came, close_fds=True)
    came.close()
";

#[test]
fn iperf3_carries_its_load_over_our_connections_both_ways() {
    const LOAD_BYTES: u64 = 40_000_000;
    let Some(bed) = Bed::new(&["iperf3"]) else { return };
    let mut switch = bed.switch("--inline");
    let mut door = bed.command(crate::common::python());
    let ours = [WEIR, "net", "connect", "--tun", "weir0", KERNEL, "5201"];
    door.args(["-u", "-c", DOOR]).args(ours);
    let door = Process::start(door);
    door.said("open");
    let mut server = bed.command("iperf3");
    server.args(["-s", "-B", KERNEL, "-p", "5201", "--forceflush"]);
    let server = Process::start(server);
    server.said("Server listening");
    // Three streams and the connection that speaks of them. The client ends the test when it has
    // sent all; what buffers still hold then, some 6 MB, is not counted by the receiver.
    for way in ["", "--reverse"] {
        let ask = format!("iperf3 -J -c 127.0.0.1 -p 5202 -P 3 -w 64K -n {LOAD_BYTES} {way}");
        let said = bed.ok(ask.trim_end());
        let said: serde_json::Value = serde_json::from_str(&said).expect("a report");
        assert!(said.get("error").is_none(), "{said}");
        let received = said["end"]["sum_received"]["bytes"].as_u64().expect("counted");
        assert!(received >= LOAD_BYTES / 2, "{received} bytes by {ask}");
        assert_eq!(said["end"]["streams"].as_array().map(Vec::len), Some(3));
    }
    drop((server, door));
    switch.end();
}

#[test]
fn a_closed_port_refuses() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = serve(&bed, "--echo");
    let output = bed.run(&format!("nc -v -z -w 10 {HOST} 4321"));
    assert!(both(&output).contains("refused"), "{}", both(&output));
    // A second process has ports, though not the rest of TCP.
    let mut second = serve(&bed, "--discard");
    let output = bed.run(&format!("nc -v -z -w 10 {HOST} 9"));
    assert!(output.status.success(), "{}", both(&output));
    second.end();
    server.end();
    switch.end();
}

#[test]
fn a_flood_of_half_open_connections_keeps_nobody_out() {
    let Some(bed) = Bed::new(&["nc"]) else { return };
    let mut switch = bed.switch("--inline");
    let mut server = serve(&bed, "--echo --quiet");
    let flood = bed.script("syn.py 3000");
    assert_eq!(flood["sent"], 3000);
    let mut nc = bed.command("timeout");
    nc.args(["50", "nc", "-N", HOST, "7"]);
    assert_eq!(run_with(nc, b"still here").stdout, b"still here");
    server.end();
    switch.end();
}

/// A host behind another kernel that forwards, with a relay between that loses and corrupts.
#[test]
fn bytes_come_back_as_they_were_through_a_bad_network() {
    let (Some(client), Some(host)) = (Bed::new(&["nc"]), Bed::new(&[])) else { return };
    if !have(&["sysctl"]) {
        return;
    }
    let right = format!("{}:host0:10.9.0.2/24", host.namespace().display());
    let relay = "--loss 2% --duplicate 2% --reorder 2% --corrupt 1% --seed 5";
    let relay = client.net(&format!("relay --left :near0:10.9.0.1/24 --right {right} {relay}"));
    relay.said("relay is up");
    let mut switch = host.net("up --tun far0 --addr 10.8.0.2/24 --peer 10.8.0.1 --inline");
    switch.said("far0 is up");
    host.ok("sysctl -qw net.ipv4.ip_forward=1");
    client.ok("ip route add 10.8.0.0/24 via 10.9.0.2");
    let mut server = serve(&host, "--echo --tun far0");
    let mut nc = client.command("timeout");
    nc.args(["55", "nc", "-N", "10.8.0.2", "7"]);
    let sent = contents(150_000);
    let output = run_with(nc, &sent);
    assert!(output.stdout == sent, "{} bytes came back", output.stdout.len());
    server.end();
    let again = server.said("serve ends: ");
    assert!(!again.contains(" 0 sent again"), "the relay loses some: {again}");
    switch.end();
}

#[test]
fn segments_are_cut_by_the_device() {
    let Some(bed) = Bed::new(&["curl"]) else { return };
    let directory = bed.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    // Lines: tshark takes some other bytes for a protocol that is damaged.
    let lines = (0..400_000_u32).flat_map(|line| format!("line {line}\n").into_bytes());
    let file: Vec<u8> = lines.collect();
    write(&directory.join("file.bin"), &file);
    // With a header before each packet, most leave longer than the MTU, and are cut on their way.
    for (switch, is_cut) in [("", true), ("--no-vnet-header", false)] {
        let host = bed.host(crate::common::net::Answers::Inline, switch, "");
        let mut server = serve(&bed, &format!("--tun weir0 --http {}", directory.display()));
        bed.ok(&format!("curl -sS -o got http://{HOST}/file.bin"));
        let got = fs::read(bed.directory.path().join("got")).expect("there");
        assert!(got == file, "it differs, switch {switch}");
        let stat = bed.stat();
        let count = |name: &str| stat[name].as_u64().unwrap_or_else(|| panic!("{name}: {stat}"));
        let (packets, bytes) = (count("packets_out"), count("bytes_out"));
        assert!(bytes > 4_000_000, "{stat}");
        assert_eq!(bytes / packets > 1_500, is_cut, "{packets} packets, {bytes} bytes");
        server.end();
        host.end();
    }
}
