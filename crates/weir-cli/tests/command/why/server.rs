//! A server of files that does not answer any more: it holds up who reads, and nobody who looks.

use super::{Staged, directory};
use crate::common::{WEIR, have, schema};
use serde_json::Value;
use std::process::{Command, Stdio};

/// A server of FUSE in a mount namespace of its own, with a file `f` and a program `p`. A child looks up
/// `g`, which is never answered; two others become `p`, of which one sleeps and one computes. Then
/// another one reads `f`, and from then on nothing is answered. Their ids are printed.
const SERVER: &str = "
import ctypes, os, struct, sys, time
c = ctypes.CDLL(None)
where = sys.argv[1]
try: dev = os.open('/dev/fuse', os.O_RDWR)
except OSError: dev = -1
data = b'fd=%d,rootmode=40000,user_id=0,group_id=0' % dev
if dev < 0 or c.unshare(0x20000) or c.mount(None, b'/', None, 0x44000, None) \
        or c.mount(b'fuse', where.encode(), b'fuse', 0, data):
    print(0, 0, 0, 0, flush=True); sys.exit()
def child(do):
    pid = os.fork()
    # Who keeps the device open keeps its own request alive.
    if pid == 0: os.close(dev); do(); time.sleep(1000)
    return pid
program = open('/bin/bash', 'rb').read()
def file(pid, name): return open('/proc/%d/%s' % (pid, name)).read()
def is_p(pid): return file(pid, 'comm') == 'p\\n'
def read():
    while not (is_p(runs) and 'pipe_read' in file(runs, 'wchan')): time.sleep(.01)
    while not (is_p(busy) and int(file(busy, 'stat').split()[13]) > 20): time.sleep(.01)
    os.read(os.open(where + '/f', os.O_RDONLY), 1)
def attributes(node):
    mode = 0o40755 if node == 1 else 0o100755
    return struct.pack('<6Q10I', node, len(program) if node == 3 else 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)
def take():
    request = os.read(dev, 1 << 20)
    return request, *struct.unpack('<IIQQ', request[:24])[1:]
def answer(unique, reply, error=0):
    os.write(dev, struct.pack('<IiQ', 16 + len(reply), error, unique) + reply)
init = struct.pack('<4I2H2I', 7, 31, 65536, 1 << 18, 12, 9, 65536, 1)
answer(take()[2], init.ljust(64, b'\\0'))
opens = child(lambda: os.open(where + '/g', os.O_RDONLY))
line = os.pipe()
def run(text):
    os.dup2(os.open('/dev/null', os.O_WRONLY), 1)
    os.dup2(line[0], 0)
    os.execv(where + '/p', ['p', '-c', text])
runs = child(lambda: run('read -r x'))
busy = child(lambda: run('while :; do :; done'))
reads, dead = child(read), False
print(reads, opens, runs, busy, flush=True)
while True:
    request, code, unique, node = take()
    dead = dead or code == 15 and node == 2
    reply, error = None, 0
    names = {b'f\\0': 2, b'p\\0': 3}
    if code == 1 and request[40:] in names:
        node = names[request[40:]]
        reply = struct.pack('<4Q2I', node, 0, 1000, 0, 0, 0) + attributes(node)
    if code == 3: reply = struct.pack('<Q2I', 0, 0, 0) + attributes(node)
    if code == 14: reply = struct.pack('<Q2I', 0, 1 if node == 2 else 0, 0)
    if code == 15 and node == 3:
        at, size = struct.unpack('<QI', request[48:60])
        reply = program[at:at + size]
    # Attributes by name: this server has none.
    if code == 22: reply, error = b'', -38
    if reply is not None and not dead: answer(unique, reply, error)
";

/// Runs weir, which is killed if it hangs.
fn weir(args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", WEIR]).args(args).args(["--json", "-"]);
    let output = command.stdin(Stdio::null()).output().expect("timeout");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The look at a file that the process has open asked the server, and never ended; nor did a look at
/// any process of the host beside it.
#[test]
fn a_server_of_files_that_does_not_answer_holds_no_look_up() {
    if !have(&["timeout"]) {
        return;
    }
    let directory = directory();
    let mut command = Command::new(super::python());
    command.args(["-c", SERVER]).arg(directory.path()).stdout(Stdio::piped());
    let mut staged = Staged::new(command);
    let mut line = String::new();
    let output = staged.0.stdout.take().expect("its output");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
    let ids: Vec<&str> = line.split_whitespace().collect();
    let [reads, opens, runs, busy] = ids[..] else { panic!("{line:?}") };
    if reads == "0" {
        eprintln!("SKIPPED: no file system of FUSE can be mounted here");
        return;
    }
    let other = Staged::bash(directory.path(), "sleep 1000 | cat; :");
    let other = other.find("cat", "").to_string();
    for (pid, text) in [(reads, "/f (fuse"), (opens, "/g"), (&other, "a pipe of")] {
        let mut last = Value::Null;
        super::until("it waits", || {
            last = schema::check_text("weir.why/1", &weir(&["why", pid]));
            last["answer"].as_str().is_some_and(|said| said.contains(text))
        });
        let said = last["answer"].as_str().expect("an answer");
        assert!(!said.contains("FIFO") && !said.contains("disk"), "{said}");
    }
    let seen = schema::check_text("weir.run/1", &weir(&["watch", reads, "--for", "300ms"]));
    assert_eq!(seen["stages"].as_array().map(Vec::len), Some(3), "{seen:#}");
    weir(&["top", "--interval", "100ms"]);
    // The program itself is there.
    let seen = schema::check_text("weir.run/1", &weir(&["watch", runs, "--for", "300ms"]));
    let stages = seen["stages"].as_array().expect("a list");
    assert!(stages.iter().any(|stage| stage["program"] == "p"), "{seen:#}");
    weir(&["stat"]);
    // Its functions were looked for in that program.
    super::until("it computes", || {
        let seen = schema::check_text("weir.why/1", &weir(&["why", busy]));
        seen["chain"][0]["kind"] == "computes"
    });
    weir(&["watch", busy, "--profile", "--for", "300ms"]);
}
