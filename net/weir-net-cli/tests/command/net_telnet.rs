//! `weir net serve --telnet` and `weir net telnet` with a real client and raw bytes
//! (docs/contracts/tcp.md).

use crate::common::net::{Bed, HOST, KERNEL, Process};
use crate::common::{WEIR, python};
use std::io::{Read, Write};
use std::process::Stdio;

fn serve(bed: &Bed, args: &str) -> Process {
    let server = bed.net(&format!("serve --tun weir0 {args}"));
    server.said("serve is up at");
    server
}

/// A client in Python: connects, sends each of the given bytes (hexadecimal), and prints all that
/// comes until the text `until` came, or the other side closed.
const RAW: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)
s.settimeout(20)
s.sendall(bytes.fromhex(sys.argv[3]))
got = b''
while sys.argv[4].encode() not in got:
    try: more = s.recv(4096)
    except ConnectionResetError: more = b''
    if not more: break
    got += more
print(got.hex())
";

fn raw(bed: &Bed, port: &str, bytes: &[u8], until: &str) -> Vec<u8> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut command = bed.command("timeout");
    command.args(["50", python(), "-c", RAW, HOST, port, &hex, until]);
    let output = command.output().expect("it starts");
    let text = String::from_utf8(output.stdout).expect("text");
    let digits: Vec<u8> = text.trim().bytes().collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).expect("hex"), 16);
    digits.chunks(2).map(|two| byte(two).expect("hex")).collect()
}

fn contains(all: &[u8], part: &[u8]) -> bool {
    all.windows(part.len()).any(|window| window == part)
}

#[test]
fn raw_bytes_get_a_terminal_and_what_is_not_known_is_declined() {
    let Some(bed) = Bed::new(&["stty"]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let mut server = serve(&bed, "--telnet sh");
    // WILL NAWS and 132 by 43, DO 99, then lines of the shell. IAC IAC is one byte of 255.
    let mut bytes = b"\xff\xfb\x1f\xff\xfa\x1f\0\x84\0\x2b\xff\xf0\xff\xfd\x63".to_vec();
    bytes.extend_from_slice(b"stty size; tty\r\n");
    bytes.extend_from_slice(b"stty -echo; printf '\\377' ; echo it is o''ver\r\0");
    let got = raw(&bed, "23", &bytes, "it is over");
    assert!(got.starts_with(b"\xff\xfb\x01\xff\xfb\x03\xff\xfd\x1f"), "{got:?}");
    assert!(contains(&got, b"43 132\r\n/dev/pts/"), "{}", String::from_utf8_lossy(&got));
    assert!(contains(&got, b"\xff\xfc\x63") && contains(&got, b"\xff\xffit is over"), "{got:?}");
    server.said("has left telnet");
    server.end();
    host.end();
}

#[test]
fn a_real_client_works_with_the_command() {
    let Some(bed) = Bed::new(&["telnet"]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let mut server = serve(&bed, "--telnet-port 2323 --telnet sh");
    // The client ends once the command has ended, which says something before.
    let script = format!(
        "(sleep 1; echo 'expr 6000 + 66'; sleep 1; echo exit) | timeout 40 telnet {HOST} 2323"
    );
    let output = bed.command("sh").args(["-c", &script]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Connected to") && said.contains("6066"), "{said}");
    server.said("has left telnet");
    server.end();
    host.end();
}

/// A server in the background of a script ignores INT and QUIT. So did its commands: ^C did nothing.
#[test]
fn a_command_heeds_its_terminal_whatever_the_server_ignores() {
    let Some(bed) = Bed::new(&["grep"]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let serve = format!("exec {WEIR} net serve --tun weir0 --telnet \"$1\"");
    let mut command = bed.command("sh");
    command.args(["-c", &format!("trap '' INT QUIT HUP TSTP; {serve}"), "sh"]);
    command.arg("grep SigIgn /proc/self/status");
    let mut server = Process::start(command);
    server.said("serve is up at");
    let got = raw(&bed, "23", b"", "never");
    let text = String::from_utf8_lossy(&got);
    let ignored = text.split("SigIgn:").nth(1).expect("the line").trim();
    let ignored = u64::from_str_radix(ignored, 16).expect("a number");
    // Those that the shell above ignores: HUP, INT, QUIT, TSTP.
    assert_eq!(ignored & 0x8_0007, 0, "{text}");
    server.end();
    host.end();
}

#[test]
fn only_the_kernel_beside_the_device_is_served_and_a_client_that_leaves_ends_its_command() {
    let Some(bed) = Bed::new(&[]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    let mut server = serve(&bed, "--telnet cat");
    bed.ok("ip addr add 10.9.0.77/24 dev weir0");
    // The reset may come before the connection is seen to be made.
    let other = "import socket, sys\n\
                 try:\n\
                 \x20   s = socket.create_connection(('10.9.0.2', 23), 20, ('10.9.0.77', 0))\n\
                 \x20   got = s.recv(100)\n\
                 except ConnectionError: got = b''\n\
                 sys.exit(len(got))";
    let mut command = bed.command(python());
    let output = command.args(["-c", other]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    server.said("is refused: only 10.9.0.1 is served");
    let got = raw(&bed, "23", b"one\r\n", "one");
    assert!(contains(&got, b"one"), "{got:?}");
    server.said("has left telnet");
    server.end();
    host.end();
}

#[test]
fn our_client_negotiates_and_passes_lines() {
    let Some(bed) = Bed::new(&[]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    // A server of the kernel: asks for what nobody has, sends a command amid data, and prints what
    // it got once the client has sent its last.
    let server = "import socket\n\
                  l = socket.create_server(('10.9.0.1', 2300))\n\
                  print('listens', flush=True)\n\
                  c, _ = l.accept()\n\
                  c.settimeout(20)\n\
                  c.sendall(b'\\xff\\xfd\\x18\\xff\\xfb\\x01hel\\xff\\xf1lo\\xff\\xff\\r\\n')\n\
                  got = b''\n\
                  while True:\n\
                  \x20   more = c.recv(4096)\n\
                  \x20   if not more: break\n\
                  \x20   got += more\n\
                  print(got.hex(), flush=True)\n\
                  c.close()";
    let script = bed.directory.path().join("server.py");
    std::fs::write(&script, server).expect("written");
    let mut listening = bed.command(python());
    let mut listening = listening.arg(&script).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(listening.stdout.take().expect("piped")));
    assert_eq!(lines.next().expect("a line").expect("read"), "listens");
    let mut client = bed.command("timeout");
    client.args(["50", WEIR, "net", "telnet", "--tun", "weir0", KERNEL, "2300"]);
    let mut client =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    // What the server asks for is answered before the client sends its last.
    let mut said = [0; 8];
    client.stdout.take().expect("piped").read_exact(&mut said).expect("read");
    assert_eq!(&said, b"hello\xff\r\n");
    client.stdin.take().expect("piped").write_all(b"a line\n\xff").expect("written");
    assert!(client.wait().expect("ended").success());
    let got = lines.next().expect("a line").expect("read");
    // WONT TERMINAL-TYPE, DO ECHO, and the line; in whatever order they came.
    for part in ["fffc18", "fffd01", "61206c696e650d0a", "ffff"] {
        assert!(got.contains(part), "{part} is not in {got}");
    }
    assert!(listening.wait().expect("ended").success());
    host.end();
}

/// The client once waited for ever: it heard nothing more until its answers were taken.
#[test]
fn a_client_whose_server_takes_no_answers_and_resets_ends() {
    let Some(bed) = Bed::new(&[]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    // Asks for what nobody has until the answers fill all there is, and resets once all of it came.
    let server = "import array, fcntl, socket, struct, termios\n\
                  l = socket.socket()\n\
                  l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n\
                  l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                  l.bind(('10.9.0.1', 2300))\n\
                  l.listen()\n\
                  print('listens', flush=True)\n\
                  c, _ = l.accept()\n\
                  c.settimeout(40)\n\
                  c.sendall(b'\\xff\\xfd\\x63' * 185000)\n\
                  left = array.array('i', [1])\n\
                  while left[0]:\n\
                  \x20   fcntl.ioctl(c, termios.TIOCOUTQ, left)\n\
                  c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
                  c.close()";
    let mut listening = bed.command(python());
    let mut listening =
        listening.args(["-c", server]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(listening.stdout.take().expect("piped")));
    assert_eq!(lines.next().expect("a line").expect("read"), "listens");
    let mut client = bed.command("timeout");
    client.args(["50", WEIR, "net", "telnet", "--tun", "weir0", KERNEL, "2300"]);
    let client = client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    let mut said = String::new();
    client.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(client.wait().expect("ended").code(), Some(1), "{said}");
    assert!(said.contains("lost the connection to 10.9.0.1:2300: it was reset"), "{said}");
    assert!(listening.wait().expect("ended").success());
    host.end();
}

/// A server that took no answers kept a terminal that sends each character at once: neither ^] nor ^C
/// ended it.
#[test]
fn the_character_that_ends_it_is_heard_while_the_server_takes_nothing() {
    let Some(bed) = Bed::new(&[]) else { return };
    let host = bed.host(crate::common::net::Answers::Inline, "", "");
    // A server that echoes, and asks for what nobody has until the answers fill all there is; and a
    // terminal whose user then types ^].
    let script = "import array, fcntl, os, pty, select, socket, sys, termios\n\
                  l = socket.socket()\n\
                  l.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n\
                  l.bind(('10.9.0.1', 2301))\n\
                  l.listen()\n\
                  pid, terminal = pty.fork()\n\
                  if pid == 0: os.execvp(sys.argv[1], sys.argv[1:])\n\
                  c, _ = l.accept()\n\
                  c.settimeout(40)\n\
                  c.sendall(b'\\xff\\xfb\\x01' + b'\\xff\\xfd\\x63' * 185000 + b'all asked')\n\
                  left = array.array('i', [1])\n\
                  while left[0]: fcntl.ioctl(c, termios.TIOCOUTQ, left)\n\
                  os.write(terminal, b'\\x1d')\n\
                  try:\n\
                  \x20   while os.read(terminal, 4096): pass\n\
                  except OSError: pass\n\
                  print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))";
    let mut client = bed.command("timeout");
    client.args(["50", python(), "-c", script, WEIR, "net", "telnet", "--tun", "weir0"]);
    let output = client.args([KERNEL, "2301"]).output().expect("it starts");
    assert_eq!(crate::common::net::both(&output), "0\n");
    host.end();
}
