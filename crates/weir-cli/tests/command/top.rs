//! `weir top`: pipes between processes, and the terminal (docs/contracts/top.md).

use crate::common::killed::Killed;
use crate::common::{WEIR, python, quota, schema, until};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// A group of processes that is killed with the test.
struct Staged(std::process::Child);

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Two programs with a pipe between them.
fn piped(from: &mut Command, to: &mut Command) -> (Killed, Killed) {
    let mut writer = from.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("starts");
    let output = writer.stdout.take().expect("its output");
    let reader = to.stdin(output).stdout(Stdio::null()).spawn().expect("starts");
    (Killed(writer), Killed(reader))
}

/// The document of one look.
fn top(args: &[&str]) -> Value {
    let mut command = Command::new(WEIR);
    command.args(["top", "--json", "-"]).args(args);
    if !args.contains(&"--interval") {
        command.args(["--interval", "100ms"]);
    }
    let output = command.stdin(Stdio::null()).output().expect("weir starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    schema::check_text("weir.top/1", &output.stdout)
}

/// The channel between two processes.
fn between(document: &Value, writer: u32, reader: u32) -> Option<Value> {
    let has = |channel: &Value, side: &str, pid: u32| {
        channel[side].as_array().is_some_and(|ends| ends.iter().any(|end| end["pid"] == pid))
    };
    let channels = document["channels"].as_array()?;
    let found = channels.iter().find(|it| has(it, "writers", writer) && has(it, "readers", reader));
    found.cloned()
}

#[test]
fn a_full_pipe_says_who_waits_for_whom() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let (from, to) = (writer.0.id(), reader.0.id());
    until("the pipe is full", || {
        let found = between(&top(&[]), from, to);
        found.is_some_and(|pipe| {
            let end = &pipe["writers"][0];
            pipe["kind"] == "pipe"
                && pipe["full"] == true
                && pipe["capacity_bytes"].as_u64() >= pipe["fill_bytes"].as_u64()
                && end["command"] == "yes"
                && end["waiting"] == true
                && end["waits_for_pids"] == serde_json::json!([to])
                && pipe["readers"][0]["waiting"] == false
                && pipe["bytes_per_s"] == 0.0
        })
    });
    let name = format!("{from} yes");
    assert!(between(&top(&["--filter", &name]), from, to).is_some());
    assert!(top(&["--filter", "nothing has this name"])["channels"] == serde_json::json!([]));
}

/// A pipe of 16 packets of a byte was not full, beside a writer that waited for room.
#[test]
fn a_pipe_that_takes_no_more_is_full_however_few_bytes_it_holds() {
    let text = "import os, time\nr, w = os.pipe2(os.O_DIRECT)\nif os.fork() == 0:\n os.close(r)\n \
                while True: os.write(w, b'x')\nos.close(w); time.sleep(120)\n";
    let mut command = Command::new(python());
    command.args(["-c", text]).stdin(Stdio::null()).process_group(0);
    let staged = Staged(command.spawn().expect("python3"));
    let (pid, mut found) = (staged.0.id(), None);
    until("the writer waits", || {
        let document = top(&[]);
        let channels = document["channels"].as_array().cloned().unwrap_or_default();
        let is = |it: &&Value| {
            it["readers"].as_array().is_some_and(|ends| ends.iter().any(|end| end["pid"] == pid))
        };
        found = channels.iter().find(is).cloned();
        found.as_ref().is_some_and(|it| it["writers"][0]["waiting"] == true)
    });
    let found = found.expect("seen");
    assert_eq!((&found["full"], &found["fill_bytes"]), (&true.into(), &16.into()), "{found:#}");
}

/// Pipes that only wake a loop filled the screen.
#[test]
fn idle_pipes_are_shown_to_who_asks_for_them() {
    let text = "import os, select, time\nr, w = os.pipe()\nother, _ = os.pipe()\nif os.fork() == 0:\n \
                p = select.poll(); p.register(r, 1); p.register(other, 1); p.poll()\ntime.sleep(120)\n";
    let mut command = Command::new(python());
    command.args(["-c", text]).stdin(Stdio::null()).process_group(0);
    let staged = Staged(command.spawn().expect("python3"));
    let pid = staged.0.id();
    let has = |args: &[&str]| {
        let document = top(args);
        // Pipes that the tests were started with have one end there only.
        let has = |ends: &Value| {
            ends.as_array().is_some_and(|ends| ends.iter().any(|end| end["pid"] == pid))
        };
        let is = |it: &Value| has(&it["writers"]) && has(&it["readers"]);
        let shown = document["channels"].as_array().is_some_and(|all| all.iter().any(is));
        (shown, document["hidden_idle"].as_u64().expect("a number"))
    };
    until("both are seen", || has(&["--all"]).0);
    // What a new process moved is not known at first.
    until("they are hidden", || {
        let (shown, hidden) = has(&[]);
        !shown && hidden >= 2
    });
    assert!(has(&["--filter", &pid.to_string()]).0);
}

#[test]
fn a_batch_ends_after_so_many_tables() {
    let (writer, _reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let pid = writer.0.id().to_string();
    let mut command = Command::new(WEIR);
    command.args(["top", "-n", "3", "-i", "100ms", "--filter", &pid, "--json", "-"]);
    let output = command.stdin(Stdio::null()).output().expect("weir starts");
    let lines: Vec<&[u8]> = output.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 3, "{}", String::from_utf8_lossy(&output.stdout));
    lines.iter().for_each(|line| drop(schema::check_text("weir.top/1", line)));
}

#[test]
fn who_is_throttled_by_a_quota_is_named() {
    let Some(group) = quota::Group::make() else {
        eprintln!("SKIPPED: no control group can be made here");
        return;
    };
    // It gets more than its quota whatever else runs here.
    let mut busy = Command::new("nice");
    let busy = busy.args(["-n", "-20", "perl", "-e", "1 while 1"]);
    let (writer, reader) = piped(busy, &mut Command::new("cat"));
    group.add(writer.0.id() as i32);
    let (from, to) = (writer.0.id(), reader.0.id());
    until("the quota", || {
        let found = between(&top(&["--all", "--interval", "500ms"]), from, to);
        found.is_some_and(|it| it["writers"][0]["quota_cpus"] == 0.2)
    });
}

#[test]
fn looking_keeps_no_end_open() {
    let (mut writer, mut reader) =
        piped(Command::new("sleep").arg("120"), &mut Command::new("cat"));
    for _ in 0..3 {
        top(&[]);
    }
    writer.0.kill().expect("killed");
    writer.0.wait().expect("waited");
    assert!(reader.0.wait().expect("it has seen the end of its input").success());
}

#[test]
fn an_mpx_flags_and_a_region_are_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let name = directory.path().join("exchange");
    let mut owner = weir_mpx::Mpx::create(&name, &weir_mpx::MpxOptions::new()).expect("made");
    let mut peer =
        weir_mpx::MpxPeer::connect(&name, &weir_mpx::MpxPeerOptions::new()).expect("connected");
    peer.open(b"shown").expect("opened");
    owner.receive_each(&mut [0; 64], |_| {}).expect("received");
    let flags = weir::Flags::shared().expect("made");
    flags.set(1 << 62 | 1);
    let options = weir_region::RegionOptions::new().memory_bytes(64 << 10);
    let region = weir_region::Region::new(1 << 20, &options).expect("made");
    region.write_at(0, b"abc").expect("written");
    let document = top(&["--filter", &format!("{} ", std::process::id())]);
    let rows = document["channels"].as_array().expect("rows");
    let own = std::process::id();
    let named = |kind: &str, text: &str| {
        let is = |row: &&Value| {
            row["kind"] == kind && row["name"].as_str().is_some_and(|name| name.contains(text))
        };
        rows.iter().find(is).unwrap_or_else(|| panic!("no {kind} {text}: {rows:#?}")).clone()
    };
    for role in ["owner, ", "peer, "] {
        let row = named("mpx", role);
        assert_eq!(
            (&row["writers"][0]["pid"], &row["readers"][0]["pid"]),
            (&own.into(), &own.into())
        );
    }
    let row = named("flags", "0x4000000000000001, 0 wait");
    assert_eq!(row["readers"][0]["waiting"], false);
    let row = named("region", "1 faults");
    assert_eq!(row["capacity_bytes"], 64 << 10);
    assert_eq!((&row["fill_bytes"], &row["writers"][0]["pid"]), (&16_384.into(), &own.into()));
}

#[test]
fn a_channel_of_the_library_is_a_row() {
    let (mut writer, reader) = weir::pipe(&weir::Options::new()).expect("a pipe");
    writer.write(b"seven b").expect("room");
    let document = top(&["--filter", "stream"]);
    let own = std::process::id();
    let row = between(&document, own, own);
    // Both ends are in this process, and the account says so; a reader that never came is not open.
    let rows = document["channels"].as_array().expect("rows");
    let row = row.or_else(|| {
        let is = |row: &&Value| row["fill_bytes"] == 7 && row["writers"][0]["pid"] == own;
        rows.iter().find(is).cloned()
    });
    let row = row.expect("the pipe of this test");
    assert_eq!(
        (&row["kind"], &row["fill_bytes"], &row["full"]),
        (&"stream".into(), &7.into(), &false.into())
    );
    assert_eq!((&row["rate_is"], row["bytes_per_s"].as_f64()), (&"counted".into(), Some(0.0)));
    drop(reader);
}

#[test]
fn an_output_that_is_no_terminal_gets_one_table() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    for columns in ["20", "80", "200"] {
        let mut command = Command::new(WEIR);
        command.args(["top", "--sort", "waits", "--interval", "50ms"]).env("COLUMNS", columns);
        let output = command.stdin(Stdio::null()).output().expect("weir starts");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && !text.contains('\u{1b}'), "{text}");
        let is_note = |line: &&str| line.contains("of other users") || line.contains("not shown");
        let table = text.lines().filter(|line| !is_note(line));
        let columns: usize = columns.parse().expect("a number");
        assert!(table.clone().all(|line| line.chars().count() <= columns), "{text}");
        assert!(table.clone().any(|line| line.contains("yes")), "{text}");
    }
    drop((writer, reader));
}

/// `weir top` on a pseudo-terminal.
struct OnTerminal {
    child: Killed,
    master: File,
    terminal: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    fn new(columns: u16, rows: u16, args: &[&str]) -> OnTerminal {
        let mut command = Command::new(WEIR);
        command.arg("top").args(args);
        OnTerminal::of(columns, rows, command)
    }

    fn of(columns: u16, rows: u16, mut command: Command) -> OnTerminal {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(&name, flags, Mode::empty()).expect("opened");
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).expect("sized");
        let end = || Stdio::from(terminal.try_clone().expect("another"));
        // In a group of its own, whose parent is in the same session, it may be stopped.
        command.env("TERM", "xterm").process_group(0);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("starts");
        let master = File::from(master);
        let (mut reads, shown) = (master.try_clone().expect("another"), Arc::default());
        let into: Arc<Mutex<Vec<u8>>> = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = reads.read(&mut bytes) {
                into.lock().expect("sound").extend_from_slice(&bytes[..n]);
            }
        });
        OnTerminal { child: Killed(child), master, terminal, shown }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("sound")).into_owned()
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("typed");
    }

    fn shows(&self, text: &str) {
        until(text, || self.text().contains(text));
    }

    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("settings").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child.0);
        rustix::process::kill_process(pid, signal).expect("sent");
    }

    /// Waits for the end, and asserts that the terminal is as it was.
    fn ended(&mut self) -> ExitStatus {
        let status = self.child.0.wait().expect("waited");
        assert!(self.is_cooked());
        until("the other screen is left", || self.text().ends_with("\x1b[?25h\x1b[?1049l"));
        status
    }
}

#[test]
fn keys_act_and_the_terminal_is_set_back() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let mut on = OnTerminal::new(100, 24, &["--interval", "100ms"]);
    on.shows("WRITER");
    assert!(!on.is_cooked());
    on.press("h");
    on.shows("PgDn");
    on.press("x/no such process");
    on.shows("nothing matches");
    on.press("\x1b");
    until("escape", || on.text().rfind("q Quit") > on.text().rfind("nothing matches"));
    on.press(&format!("/{} yes\r", writer.0.id()));
    on.shows(&format!("filter: {} yes", writer.0.id()));
    on.press("w");
    on.shows("waits for room");
    on.press("xq");
    assert!(on.ended().success());
    drop(reader);
}

/// A click on a heading sorts by it, the wheel moves, and a click on a key at the bottom presses it.
#[test]
fn the_mouse_sorts_moves_and_presses() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let mut on = OnTerminal::new(100, 24, &["--interval", "10s"]);
    on.shows("Quit");
    let text = on.text();
    let frame = text.rsplit("\x1b[H").next().unwrap_or_default().to_owned();
    let bare = |line: &str| {
        let (mut text, mut inside) = (String::new(), false);
        for c in line.chars() {
            match c {
                '\x1b' => inside = true,
                c if inside => inside = !c.is_ascii_alphabetic(),
                '\r' => {}
                c => text.push(c),
            }
        }
        text
    };
    let lines: Vec<String> = frame.lines().map(bare).collect();
    let heading = lines.iter().position(|line| line.contains("WRITER")).expect("headings");
    let column = lines[heading].find("WRITER").expect("a heading") + 2;
    on.press(&format!("\x1b[<0;{column};{}M", heading + 1));
    until("the heading is marked", || {
        let text = on.text();
        let last = text.rsplit("\x1b[H").next().unwrap_or_default().to_owned();
        let line = last.lines().map(bare).find(|line| line.contains("WRITER"));
        line.is_some_and(|line| line != lines[heading])
    });
    on.press("\x1b[<65;5;8M\x1b[<64;5;8M");
    let bottom = lines.iter().rposition(|line| line.contains("Quit")).expect("keys");
    let quit = lines[bottom].find("Quit").expect("a key") + 2;
    on.press(&format!("\x1b[<0;{quit};{}M", bottom + 1));
    assert!(on.ended().success());
    drop((writer, reader));
}

#[test]
fn signals_set_the_terminal_back() {
    use rustix::process::Signal;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut on = OnTerminal::new(60, 12, &[]);
        on.shows("WRITER");
        on.signal(signal);
        assert_eq!(on.ended().signal(), Some(signal.as_raw()));
    }
    let mut on = OnTerminal::new(60, 12, &[]);
    on.shows("WRITER");
    on.press("\u{3}");
    assert!(on.ended().success());
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let (writer, reader) = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let mut on = OnTerminal::new(100, 24, &["--interval", "10s"]);
    on.shows("KIND");
    let size = Winsize { ws_col: 20, ws_row: 6, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&on.terminal, size).expect("sized");
    // The terminal is nobody's controlling one here, so the kernel tells nobody.
    on.signal(rustix::process::Signal::WINCH);
    let narrow = |text: &str| {
        let frame = text.rsplit("\x1b[H").next().unwrap_or_default().to_owned();
        frame.contains("weir top") && frame.ends_with("\x1b[0m") && frame.lines().count() == 6
    };
    until("a frame of six lines", || narrow(&on.text()));
    on.press("q");
    assert!(on.ended().success());
    drop((writer, reader));
}

#[test]
fn a_stop_sets_the_terminal_back_and_a_continuation_continues() {
    use rustix::process::Signal;
    let mut on = OnTerminal::new(60, 12, &["--interval", "100ms"]);
    let stat = format!("/proc/{}/stat", on.child.0.id());
    let is_stopped = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "));
    on.shows("WRITER");
    // The continuation may be noticed twice, and the screen then entered twice.
    for (at, key) in ["", "\u{1a}"].into_iter().enumerate() {
        let entered = || on.text().matches("\x1b[?1049h").count();
        until("the screen is entered", || entered() > at && !on.is_cooked());
        if key.is_empty() {
            on.signal(Signal::TSTP);
        } else {
            on.press(key);
        }
        until("it is stopped", is_stopped);
        assert!(on.is_cooked());
        until("the screen is left", || on.text().ends_with("\x1b[?1049l"));
        on.signal(Signal::CONT);
    }
    until("it goes on", || on.text().matches("\x1b[?1049h").count() >= 3 && !on.is_cooked());
    on.press("q");
    assert!(on.ended().success());
}

/// The leaders of group and session have no id here: a container's first process is in this place.
#[test]
fn a_stop_does_nothing_where_the_leader_of_the_group_is_in_another_namespace() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        println!("SKIPPED: needs the right to make a PID namespace");
        return;
    }
    let mut command = unshare();
    command.args([WEIR, "top", "--interval", "100ms"]);
    let mut on = OnTerminal::of(60, 12, command);
    on.shows("WRITER");
    on.press("\u{1a}h");
    on.shows("PgDn");
    on.press("xq");
    assert!(on.ended().success());
}

/// A row was filled up to the width, for which there was not enough memory.
#[test]
fn a_width_that_no_terminal_has_is_none() {
    let _both = piped(&mut Command::new("yes"), Command::new("sleep").arg("120"));
    let mut weir = Command::new(WEIR);
    weir.args(["top", "--once", "--all", "--interval", "50ms"]).env("COLUMNS", "99999999999999");
    let output = weir.stdin(Stdio::null()).output().expect("weir");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
