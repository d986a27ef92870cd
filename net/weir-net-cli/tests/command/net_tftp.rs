//! `weir net tftpd` and `weir net tftp` with real clients, over a switch and over the kernel's
//! sockets (docs/contracts/tftp.md, docs/contracts/udp.md).

use crate::common::net::{Bed, HOST, KERNEL, Process, both};
use crate::common::tftp::{behind_switch, contents, read, script, served, tftpd, write};
use crate::common::{WEIR, bound, have, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Clients of others that are installed, and whether they can propose a block size.
fn clients() -> Vec<(&'static str, bool)> {
    let all = [("curl", true), ("atftp", true), ("busybox", true), ("tftp", false)];
    all.into_iter().filter(|(name, _)| have(&[name])).collect()
}

/// Fetches file.bin with a client of others.
fn fetch(bed: &Bed, client: &str, block: u16, to: &str, port: u16, out: &str) {
    if client == "atftp" {
        return atftp(bed, block, 16, to, port, out);
    }
    let line = match client {
        "curl" => format!("curl -sS --tftp-blksize {block} -o {out} tftp://{to}:{port}/file.bin"),
        "busybox" => format!("busybox tftp -g -b {block} -r file.bin -l {out} {to} {port}"),
        _ => format!("tftp -m binary {to} {port} -c get file.bin {out}"),
    };
    bed.ok(&line);
}

/// Fetches file.bin with atftp, whose options have a blank in them.
fn atftp(bed: &Bed, block: u16, window: u16, to: &str, port: u16, out: &str) {
    let mut command = bed.command("timeout");
    command.args(["30", "atftp", "--option", &format!("blksize {block}"), "--option"]);
    command.args([&format!("windowsize {window}"), "-g", "-r", "file.bin", "-l", out, to]);
    let output = command.arg(port.to_string()).output().expect("it starts");
    assert!(output.status.success(), "{out}: {}", both(&output));
}

/// The command that sends file.put with a client of others.
fn send(client: &str, block: u16, to: &str, port: u16, name: &str) -> String {
    match client {
        "curl" => format!("curl -sS --tftp-blksize {block} -T file.put tftp://{to}:{port}/{name}"),
        "atftp" => format!("atftp -p -l file.put -r {name} {to} {port}"),
        "busybox" => format!("busybox tftp -p -b {block} -l file.put -r {name} {to} {port}"),
        _ => format!("tftp -m binary {to} {port} -c put file.put {name}"),
    }
}

#[test]
fn real_clients_fetch_and_send_at_every_block_size() {
    let Some(bed) = Bed::new(&[]) else { return };
    let file = contents(300_001);
    let directory = served(&bed, file.len());
    fs::write(bed.directory.path().join("file.put"), &file).expect("written");
    let mut switch = bed.switch("--inline");
    let mut servers = [
        (HOST, 69, tftpd(&bed, "--tun weir0 --write")),
        ("127.0.0.1", 6969, tftpd(&bed, "--socket --port 6969 --write")),
    ];
    for (client, has_sizes) in clients() {
        for (to, port, _) in &servers {
            let sizes: &[u16] = if has_sizes { &[512, 1428, 8192, 65_464] } else { &[512] };
            for block in sizes {
                let out = format!("got-{client}-{port}-{block}");
                fetch(&bed, client, *block, to, *port, &out);
                assert!(read(&bed, &out) == file, "{out} differs");
                let name = format!("put-{client}-{port}-{block}");
                bed.ok(&send(client, *block, to, *port, &name));
                until("the file has its name", || directory.join(&name).exists());
                assert!(fs::read(directory.join(&name)).expect("there") == file, "{name}");
            }
        }
    }
    for (_, _, server) in &mut servers {
        server.end();
        server.said("tftpd ends: ");
    }
    switch.end();
}

#[test]
fn our_client_and_server_agree_over_sockets_and_switch() {
    let Some(bed) = Bed::new(&[]) else { return };
    let text = b"one\nline\r and CR\r\nNUL \0 end\r".repeat(4000);
    let directory = served(&bed, 2_000_000);
    write(&directory.join("text"), &text);
    let mut switch = bed.switch("--inline");
    let mut on_switch = tftpd(&bed, "--tun weir0 --write");
    let mut on_sockets = tftpd(&bed, "--socket --port 6969 --bind 127.0.0.1 --write");
    let ways = [
        (HOST, "--socket", ""),
        ("127.0.0.1", "--socket --port 6969", "s"),
        ("localhost", "--socket --port 6969 --no-options", "n"),
        ("127.0.0.1", "--socket --port 6969 --block 65464 --window 64", "l"),
    ];
    for (host, args, mark) in ways {
        bed.ok(&format!("{WEIR} net tftp get {args} {host} file.bin got{mark}"));
        assert!(read(&bed, &format!("got{mark}")) == contents(2_000_000), "{host} {args}");
        bed.ok(&format!("{WEIR} net tftp get {args} --mode netascii {host} text text{mark}"));
        assert!(read(&bed, &format!("text{mark}")) == text, "{host} {args}");
        bed.ok(&format!("{WEIR} net tftp put {args} {host} got{mark} up{mark}"));
        until("it has its name", || directory.join(format!("up{mark}")).exists());
        assert!(
            fs::read(directory.join(format!("up{mark}"))).expect("there") == contents(2_000_000)
        );
    }
    // From the host behind the switch to a server of the kernel that has the port on all addresses.
    let mut all = tftpd(&bed, "--socket --port 6970");
    let get = format!("{WEIR} net tftp get --tun weir0 --port 6970 {KERNEL} file.bin -");
    let output = bed.run(&get);
    assert!(output.stdout == contents(2_000_000), "{}", String::from_utf8_lossy(&output.stderr));
    let refused = bed.run(&format!("{WEIR} net tftp get --socket --port 6970 {KERNEL} absent x"));
    assert_eq!(refused.status.code(), Some(1));
    assert!(both(&refused).contains("it says: no such file (error 1)"), "{}", both(&refused));
    assert!(!bed.directory.path().join("x").exists());
    let refused = bed.run(&format!("{WEIR} net tftp put --socket --port 6970 {KERNEL} got up"));
    assert!(both(&refused).contains("this server is read-only (error 2)"), "{}", both(&refused));
    for server in [&mut all, &mut on_switch, &mut on_sockets] {
        server.end();
    }
    switch.end();
}

/// Two well-known servers stall here: a window has more bytes than the receiver's buffer.
#[test]
fn windows_longer_than_the_receivers_buffer_do_not_stall() {
    let Some(bed) = Bed::new(&["atftp"]) else { return };
    served(&bed, 8_000_000);
    let mut server = tftpd(&bed, "--socket --port 6969");
    for (block, window) in [(8192, 64), (65_464, 8), (65_464, 64), (512, 64)] {
        let out = format!("got{block}x{window}");
        atftp(&bed, block, window, "127.0.0.1", 6969, &out);
        assert!(read(&bed, &out) == contents(8_000_000), "{block}x{window}");
    }
    server.end();
}

#[test]
fn no_name_leads_out_of_the_directory() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = served(&bed, 10);
    write(&bed.directory.path().join("secret"), b"secret");
    symlink("../secret", directory.join("out")).expect("linked");
    symlink("file.bin", directory.join("within")).expect("linked");
    symlink("..", directory.join("up")).expect("linked");
    fs::create_dir(directory.join("dir")).expect("made");
    write(&directory.join("closed"), b"closed");
    fs::set_permissions(directory.join("closed"), fs::Permissions::from_mode(0o600)).expect("set");
    bed.ok(&format!("mkfifo -m 644 {}/pipe", directory.display()));
    let mut server = tftpd(&bed, "--socket --port 6969 --replace");
    let get = |name: &str| {
        bed.run(&format!("{WEIR} net tftp get --socket --port 6969 localhost {name} -"))
    };
    for name in ["file.bin", "/file.bin", "//dir/../file.bin", "within"] {
        assert_eq!(get(name).stdout, contents(10), "{name}: {}", both(&get(name)));
    }
    let refused = [
        "../secret",
        "/../secret",
        "dir/../../secret",
        "out",
        "up/secret",
        "closed",
        "pipe",
        "dir",
        ".",
        "/",
        "/proc/self/root/etc/passwd",
        "up/served/../secret",
    ];
    for name in refused {
        let output = get(name);
        assert!(output.stdout.is_empty() && output.status.code() == Some(1), "{name}");
        let said = both(&output);
        assert!(
            said.contains("no access to this file (error 2)") || said.contains("(error 1)"),
            "{said}"
        );
    }
    for name in ["../new", "out", "up/new", "dir", "dir/", "..", "pipe"] {
        let line = format!("{WEIR} net tftp put --socket --port 6969 localhost secret {name}");
        let output = bed.run(&line);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", both(&output));
    }
    assert_eq!(read(&bed, "secret"), b"secret");
    assert!(!bed.directory.path().join("new").exists());
    server.end();
}

#[test]
fn uploads_are_whole_or_not_there() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = served(&bed, 100);
    fs::write(bed.directory.path().join("big"), contents(200_000)).expect("written");
    let mut server = tftpd(&bed, "--socket --port 6969 --write --max-size 100000");
    let put = |file: &str, name: &str| {
        both(&bed.run(&format!("{WEIR} net tftp put --socket --port 6969 localhost {file} {name}")))
    };
    let said = put("big", "file.bin");
    assert!(said.contains("(error 3)") || said.contains("(error 6)"), "{said}");
    assert_eq!(fs::read(directory.join("file.bin")).expect("there"), contents(100), "as before");
    assert!(put("big", "new").contains("a file has at most 100000 bytes (error 3)"));
    // Without its length, it is refused where it becomes too long.
    let line = "net tftp put --socket --port 6969 --no-options localhost big new";
    let said = both(&bed.run(&format!("{WEIR} {line}")));
    assert!(said.contains("no room for the file (error 3)"), "{said}");
    server.said("failed to finish 'new' from");
    until("nothing is left", || fs::read_dir(&directory).expect("read").count() == 1);
    server.end();
}

#[test]
fn requests_that_nobody_means_keep_nobody_out() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 100_000);
    let mut server = tftpd(&bed, "--socket --port 6969 --transfers 16");
    let flood = bed.script("tftp.py flood 127.0.0.1 6969 400");
    assert_eq!(flood["asked"], 400);
    bed.ok(&format!("{WEIR} net tftp get --socket --port 6969 127.0.0.1 file.bin got"));
    assert!(read(&bed, "got") == contents(100_000));
    server.end();
}

#[test]
fn strangers_and_nonsense_disturb_no_transfer() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 5000);
    let mut switch = bed.switch("--inline");
    let mut servers =
        [tftpd(&bed, "--socket --port 6969 --bind 127.0.0.1"), tftpd(&bed, "--tun weir0")];
    for (host, port) in [("127.0.0.1", 6969), (HOST, 69)] {
        let game = bed.script(&format!("tftp.py strangers {host} {port}"));
        assert_eq!(game["stranger"], 5, "an error of code 5: {game}");
        assert_eq!(game["bytes"], 5000, "{game}");
        assert_eq!(game["nonsense_answers"], 4, "nonsense is answered with an error: {game}");
        assert_eq!(game["second_streams"], 0, "a request that comes twice has one answer: {game}");
    }
    servers.iter_mut().for_each(Process::end);
    switch.end();
}

#[test]
fn a_client_is_told_when_nobody_has_the_port() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    for server in [&format!("--tun weir0 --port 6999 {KERNEL}"), "--socket --port 6999 127.0.0.1"] {
        let output = bed.run(&format!("{WEIR} net tftp get {server} x"));
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        assert!(both(&output).contains("nobody is there"), "{server}: {}", both(&output));
    }
    switch.end();
}

#[test]
fn a_port_that_another_process_has_is_refused_by_name() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut first) = behind_switch(&bed, 10);
    let output = bed.run_net("tftpd served --tun weir0");
    let expected = format!("process {} has port 69 of protocol 17", first.pid());
    assert!(both(&output).contains(&expected), "{}", both(&output));
    let mut other = tftpd(&bed, "--tun weir0 --port 70");
    other.end();
    first.end();
    switch.end();
}

#[test]
fn damaged_datagrams_are_dropped_and_do_not_damage_the_file() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 100_000);
    let game = bed.script(&format!("tftp.py damaged {HOST} 69"));
    assert_eq!(game["answers"], 0, "requests with a wrong checksum: {game}");
    bed.ok(&format!("{WEIR} net tftp get --socket {HOST} file.bin got"));
    assert!(read(&bed, "got") == contents(100_000));
    let absent = bed.run(&format!("{WEIR} net tftp get --socket {HOST} absent x"));
    assert_eq!(absent.status.code(), Some(1), "{}", both(&absent));
    let log = bed.ok(&format!("{WEIR} net log --tun weir0 --kinds errors"));
    assert!(log.contains("bad checksum") && log.contains("transfer failed"), "{log}");
    // The last report comes a moment later.
    until("the switch knows of both", || bed.stat()["stations"][0]["figures"]["transfers"] == 2);
    let station = &bed.stat()["stations"][0];
    assert_eq!(station["service"], "tftp", "{station}");
    assert_eq!(
        (&station["figures"]["failed"], &station["figures"]["bytes"]),
        (&1.into(), &100_000.into()),
        "{station}"
    );
    let text = bed.ok(&format!("{WEIR} net stat --tun weir0"));
    assert!(text.contains("; tftp: transfers 2, failed 1, bytes 100000, "), "{text}");
    server.end();
    switch.end();
}

#[test]
fn a_client_that_asks_again_gets_no_second_transfer() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 600);
    script(
        &bed,
        "
for _ in range(5): s.sendto(ask(b'file.bin'), to)
ports, blocks, end = set(), {}, time.time() + 3
while time.time() < end and len(blocks) < 2:
    packet, sender = s.recvfrom(2000)
    ports.add(sender[1])
    kind, block = struct.unpack('!HH', packet[:4])
    assert kind == 3, packet
    blocks[block] = packet[4:]
    s.sendto(struct.pack('!HH', 4, block), sender)
assert len(ports) == 1 and len(blocks[1] + blocks[2]) == 600, (ports, blocks.keys())
",
    );
    server.said("sent 'file.bin' to");
    server.end();
    let ends = server.said("tftpd ends: ");
    assert!(ends.contains("1 transfers completed, 0 failed"), "{ends}");
    switch.end();
}

#[test]
fn what_is_sent_has_a_right_checksum() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 5);
    // A raw socket shows the headers. Ones' complement: the sum over all is 0xffff.
    script(
        &bed,
        "
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
raw.settimeout(20)
s.sendto(ask(b'file.bin'), to)
packet = raw.recv(2000)
udp = packet[20:]
assert packet[12:16] == bytes([10, 9, 0, 2]) and udp[6:8] != b'\\0\\0', packet
text = packet[12:20] + struct.pack('!BBH', 0, 17, len(udp)) + udp
text += b'\\0' * (len(text) % 2)
total = sum(struct.unpack('!%dH' % (len(text) // 2), text))
while total >> 16: total = (total & 0xffff) + (total >> 16)
assert total == 0xffff, hex(total)
",
    );
    server.end();
    switch.end();
}

#[test]
fn lines_about_failures_are_few_however_many_fail() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 5);
    let begun = std::time::Instant::now();
    script(
        &bed,
        "
for at in range(600):
    s.sendto(ask(b'absent-%d' % at), to)
    assert s.recv(2000)[:4] == b'\\0\\5\\0\\1'
",
    );
    let passed_s = begun.elapsed().as_secs() as usize + 1;
    server.end();
    server.said("tftpd ends: ");
    let said = server.printed();
    let lines = said.lines().filter(|line| line.contains("absent-")).count();
    // A hundred at once, and ten a second.
    assert!((100..=110 + 10 * passed_s).contains(&lines), "{lines} lines in {passed_s} s");
    switch.end();
}

/// It once ended with status 1, and spoke of "the file".
#[test]
fn an_output_that_nobody_reads_or_that_is_full_ends_a_fetch() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 300_000);
    let mut server = tftpd(&bed, "--socket --port 6969");
    let fetched = |output: Stdio| {
        let mut command = bed.command(WEIR);
        command.args(["net", "tftp", "get", "--socket", "--port", "6969", "127.0.0.1"]);
        command.args(["file.bin", "-"]).stdout(output).output().expect("it starts")
    };
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let gone = fetched(writer.into());
    assert_eq!((gone.status.signal(), both(&gone).as_str()), (Some(13), ""));
    server.said("failed to finish 'file.bin' to 127.0.0.1:");
    let full = fs::File::options().write(true).open("/dev/full").expect("opened");
    let full = fetched(full.into());
    let why = "weir: cannot write to standard output: No space left on device (os error 28)\n";
    assert_eq!((full.status.code(), both(&full).as_str()), (Some(1), why));
    // What went nowhere was said to have arrived.
    let mut shell = bed.command("sh");
    let line = "net tftp get --socket --port 6969 127.0.0.1 file.bin - >&-";
    let closed = shell.args(["-c", &format!("exec {WEIR} {line}")]).output().expect("it starts");
    let why = "weir: cannot write to standard output: it is closed\n";
    assert_eq!((closed.status.code(), both(&closed).as_str()), (Some(1), why));
    server.end();
}

/// The first ended with an error, and nothing but KILL ended the second.
#[test]
fn an_output_that_takes_nothing_for_a_while_is_waited_for_until_an_interrupt() {
    let Some(bed) = Bed::new(&[]) else { return };
    served(&bed, 3_000_000);
    let mut server = tftpd(&bed, "--socket --port 6969");
    let fetch = |output: std::io::PipeWriter| {
        let mut command = bed.command(WEIR);
        command.args(["net", "tftp", "get", "-q", "--socket", "--port", "6969", "127.0.0.1"]);
        let child = command.args(["file.bin", "-"]).stdout(output).spawn().expect("it starts");
        bound(&child);
        child
    };
    let is_full = |reader: &std::io::PipeReader| {
        rustix::io::ioctl_fionread(reader).is_ok_and(|bytes| bytes >= 32 << 10)
    };
    // Others may have made it so that writing to it does not wait.
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("set");
    let child = fetch(writer);
    until("the pipe is full", || is_full(&reader));
    let mut got = Vec::new();
    reader.read_to_end(&mut got).expect("read");
    let ended = child.wait_with_output().expect("ended");
    assert_eq!((ended.status.code(), both(&ended).as_str()), (Some(0), ""));
    assert!(got == contents(3_000_000), "{} bytes", got.len());
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let child = fetch(writer);
    // The server waits for the client, which waits for the reader.
    until("it is stalled", || {
        let text = bed.ok(&format!("{WEIR} net tftp list --socket --port 6969"));
        text.lines().any(|line| line.starts_with("running") && line.contains("stalls: "))
    });
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    let ended = child.wait_with_output().expect("ended");
    let why = "weir: cannot write to standard output: it was interrupted\n";
    assert_eq!((ended.status.code(), both(&ended).as_str()), (Some(1), why));
    server.said("failed to finish 'file.bin' to 127.0.0.1:");
    server.end();
}

/// Some clients ask for the length alone, and end the transfer. The line once said "refused".
#[test]
fn a_client_that_only_asks_for_the_length_was_not_refused() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut server) = behind_switch(&bed, 600);
    script(
        &bed,
        "
s.sendto(b'\\0\\1file.bin\\0octet\\0tsize\\x000\\0', to)
packet, sender = s.recvfrom(2000)
assert packet == b'\\0\\6tsize\\x00600\\0', packet
s.sendto(b'\\0\\5\\0\\0that is all\\0', sender)
",
    );
    let line = server.said("that is all");
    assert!(line.contains("failed to finish 'file.bin' to 10.9.0.1:"), "{line}");
    script(
        &bed,
        "
s.sendto(ask(b'absent'), to)
assert s.recv(2000)[:4] == b'\\0\\5\\0\\1'
",
    );
    server.said("refused 'absent' to 10.9.0.1:");
    server.end();
    switch.end();
}
