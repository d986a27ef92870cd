//! Stages that wait for something outside the pipeline: a process of this host behind a socket,
//! another host behind a network, a file, a device.

use crate::common::killed::Killed;
use crate::common::net::{Bed, HOST, Process};
use crate::common::{Ran, WEIR, alone, among_sleepers, have, pipeline, python, schema, until};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a server that creates the file `ready` once it listens.
fn start(command: &mut Command, ready: &Path) -> Killed {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("it starts");
    let server = Killed(child);
    until("the server listens", || ready.exists());
    server
}

/// What a server does between the question and the answer. weir needs to see a peer 8 times to say what
/// it did. On a slow host it once saw it 7 times in one second.
const COMPUTES: &str =
    "\n    end = time.process_time() + 2\n    while time.process_time() < end: pass";
const SLEEPS: &str = "\n    time.sleep(2)";

/// A server in Python: on the socket at this place it accepts one connection, does its work, and
/// sends 100 bytes.
fn serve(directory: &Path, family: &str, place: &str, work: &str) -> (Killed, String) {
    let text = format!(
        "import socket, time\n\
         s = socket.socket(socket.{family})\n\
         s.bind({place})\n\
         s.listen()\n\
         open('ready.tmp', 'w').write(str(s.getsockname()[1]))\n\
         import os; os.rename('ready.tmp', 'ready')\n\
         while True:\n    c, _ = s.accept()\n    c.recv(1){work}\n    c.sendall(b'x' * 100)\n    c.close()\n"
    );
    std::fs::write(directory.join("server.py"), text).expect("written");
    let ready = directory.join("ready");
    let mut command = Command::new(python());
    let server = start(command.arg("server.py").current_dir(directory), &ready);
    (server, std::fs::read_to_string(ready).expect("said"))
}

/// A client in python that asks and prints the answer.
fn client(directory: &Path, family: &str, place: &str) -> String {
    let text = format!(
        "import socket, sys\n\
         s = socket.socket(socket.{family})\n\
         s.connect({place})\n\
         s.sendall(b'?')\n\
         while data := s.recv(4096): sys.stdout.write(data.decode())\n"
    );
    let path = directory.join("client.py");
    std::fs::write(&path, text).expect("written");
    format!("{} {}", python(), path.display())
}

fn verdict(ran: &Ran) -> &str {
    ran.json["verdict"]["text"].as_str().unwrap_or_default()
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

#[test]
fn a_server_on_this_host_is_named_with_what_it_does() {
    if !have(&["python3"]) {
        return;
    }
    let _alone = alone();
    // How it is found depends on the socket, and what it does is told of any.
    for (work, family, does, part) in
        [(COMPUTES, "AF_UNIX", "on CPU", "cpu_s"), (SLEEPS, "AF_INET", "asleep", "sleep_s")]
    {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path();
        let unix = format!("'{}'", here.join("socket").display());
        let place = if family == "AF_UNIX" { &unix } else { "('127.0.0.1', 0)" };
        let (server, port) = serve(here, family, place, work);
        let tcp = format!("('127.0.0.1', {port})");
        let place = if family == "AF_UNIX" { &unix } else { &tcp };
        let ran = pipeline(&format!("{} | cat", client(here, family, place)));
        assert_eq!(ran.stdout().len(), 100);
        let peer = &ran.json["stages"][0]["peer"];
        let (pid, process) = (server.0.id(), &peer["process"]);
        assert_eq!((&peer["limit"], &process["pid"]), (&"process".into(), &pid.into()), "{peer}");
        // On a busy host the stage may have to wait for a CPU.
        let busy = seconds(&process[part]) + seconds(&process["runq_s"]);
        assert!(busy > 0.5, "{peer}");
        let said = format!(" {pid}, outside the pipeline: ");
        assert!(verdict(&ran).contains(&said), "{}", verdict(&ran));
        let waits = verdict(&ran).contains("waiting for a CPU");
        assert!(verdict(&ran).contains(does) || waits, "{}", verdict(&ran));
        assert_eq!(ran.json["verdict"]["stage"], 1);
    }
}

#[test]
fn a_server_behind_a_server_is_followed() {
    if !have(&["python3"]) {
        return;
    }
    let _alone = alone();
    let (front, back) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    let place = |of: &tempfile::TempDir| format!("'{}'", of.path().join("socket").display());
    let (server, _) = serve(back.path(), "AF_UNIX", &place(&back), COMPUTES);
    let asks = format!(
        "\n    b = socket.socket(socket.AF_UNIX)\n    b.connect({})\n    b.sendall(b'?')\n    \
         b.recv(4096)",
        place(&back)
    );
    let (_middle, _) = serve(front.path(), "AF_UNIX", &place(&front), &asks);
    let ran = pipeline(&format!("{} | cat", client(front.path(), "AF_UNIX", &place(&front))));
    let said = format!(" {}, outside the pipeline: ", server.0.id());
    assert!(verdict(&ran).contains(&said), "{}: {}", verdict(&ran), ran.json["stages"][0]);
    assert!(verdict(&ran).contains(" through python3"), "{}", verdict(&ran));
}

#[test]
fn a_stage_is_not_outside() {
    if !have(&["python3"]) {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let here = directory.path();
    let place = format!("'{}'", here.join("socket").display());
    let text = format!(
        "import socket, time\ns = socket.socket(socket.AF_UNIX)\ns.bind({place})\ns.listen()\n\
         c, _ = s.accept()\ntime.sleep(1)\nc.sendall(b'x')\n"
    );
    std::fs::write(here.join("server.py"), text).expect("written");
    let client = client(here, "AF_UNIX", &place);
    let socket = here.join("socket");
    let wait = format!("until [ -S {} ]; do sleep .05; done", socket.display());
    let server = format!("{} {}", python(), here.join("server.py").display());
    let ran = pipeline(&format!("{server} | {{ {wait}; {client}; }}"));
    assert!(!verdict(&ran).contains("outside"), "{}", verdict(&ran));
    assert!(ran.json["stages"][1]["peer"]["process"].is_null(), "{}", ran.json["stages"][1]);
}

/// Runs a pipeline in the namespace of a bed and returns its report.
fn run_in(bed: &Bed, text: &str) -> Value {
    let script = bed.directory.path().join("pipeline");
    std::fs::write(&script, text).expect("written");
    let report = bed.directory.path().join("report.json");
    let mut command = bed.command("timeout");
    command.args(["-k", "5", "60", WEIR, "run", "--json"]).arg(&report).arg(text);
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let json = std::fs::read_to_string(&report).unwrap_or_default();
    let json: Value = serde_json::from_str(&json).unwrap_or(Value::Null);
    assert_eq!(json["schema"], "weir.run/1", "{}", String::from_utf8_lossy(&output.stderr));
    schema::check("weir.run/1", &json);
    json
}

/// A client and a host with a relay between them, and a server on the host.
struct Far {
    client: Bed,
    _host: Bed,
    _relay: Process,
    _server: Process,
}

impl Far {
    fn new(relay: &str, server: &str) -> Option<Far> {
        let (client, host) = (Bed::new(&[])?, Bed::new(&[])?);
        let right = format!("{}:host0:10.9.0.2/24", host.namespace().display());
        let relay = client.net(&format!("relay --left :weir0:10.9.0.1/24 --right {right} {relay}"));
        relay.said("relay is up: weir0");
        let text = format!(
            "import socket, time\ns = socket.create_server(('{HOST}', 9000))\nprint('ready', flush=True)\n\
             c, _ = s.accept()\n{server}\n"
        );
        let path = host.directory.path().join("server.py");
        std::fs::write(&path, text).expect("written");
        let mut command = host.command(python());
        command.arg(path);
        let server = Process::start(command);
        server.said("ready");
        Some(Far { client, _host: host, _relay: relay, _server: server })
    }

    fn run(&self, client: &str) -> Value {
        let path = self.client.directory.path().join("client.py");
        let text = format!(
            "import socket, sys\ns = socket.create_connection(('{HOST}', 9000))\n{client}\n"
        );
        std::fs::write(&path, text).expect("written");
        run_in(&self.client, &format!("{} {} | cat", python(), path.display()))
    }
}

const READS: &str = "while data := s.recv(65536): sys.stdout.write(str(len(data)))";
/// Writes for longer than the tenths of a second that a lost last segment of the other end takes: then
/// that seems to send nothing.
const WRITES: &str = "s.sendall(b'x' * 8000000)\ns.shutdown(1)\ns.recv(1)";

#[test]
fn another_host_that_sends_nothing_is_the_far_end() {
    let _among = among_sleepers();
    let Some(far) = Far::new("--delay 10ms", "time.sleep(2)\nc.sendall(b'x')") else { return };
    let json = far.run(READS);
    let peer = &json["stages"][0]["peer"];
    assert_eq!((&peer["kind"], &peer["limit"]), (&"remote".into(), &"far-end".into()), "{peer}");
    let text = json["verdict"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("held up by the far end, 10.9.0.2:9000: "), "{text}");
}

#[test]
fn questions_over_a_long_way_are_the_network_s() {
    let _among = among_sleepers();
    let answers = "while c.recv(1): c.sendall(b'y')";
    let Some(far) = Far::new("--delay 50ms", answers) else { return };
    let json = far.run("for _ in range(15): s.sendall(b'?'); s.recv(1)");
    let peer = &json["stages"][0]["peer"];
    assert_eq!(peer["limit"], "network", "{peer}");
    assert!(seconds(&peer["tcp"]["rtt_s"]) > 0.08, "{peer}");
    let text = json["verdict"]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("held up by the network to 10.9.0.2:9000: "), "{text}");
}

#[test]
fn another_host_that_reads_slowly_has_a_full_window() {
    let _among = among_sleepers();
    let reads = "c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)\n\
                 while c.recv(20000): time.sleep(0.03)";
    let Some(far) = Far::new("--delay 1ms", reads) else { return };
    let json = far.run("s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)\nfor _ in range(60): s.sendall(b'x' * 20000)");
    let peer = &json["stages"][0]["peer"];
    assert_eq!(peer["limit"], "far-window", "{peer}");
}

#[test]
fn segments_that_are_sent_again_are_a_loss() {
    let _alone = alone();
    let reads = "while c.recv(65536): pass";
    let Some(far) = Far::new("--delay 10ms --loss 5%", reads) else { return };
    let json = far.run(WRITES);
    let peer = &json["stages"][0]["peer"];
    assert_eq!(peer["limit"], "loss", "{peer}");
    assert!(seconds(&peer["tcp"]["resent_segments"]) > 0.0, "{peer}");
}
