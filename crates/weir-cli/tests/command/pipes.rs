//! `weir tune` and `weir stat`: what they set, show and refuse.

use crate::common::killed::Killed;
use crate::common::port::{refused, said};
use crate::common::{WEIR, schema};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use weir::{Options, pipe, records};

/// A user who has no rights.
const NOBODY: u32 = 65_534;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        Place { directory: tempfile::tempdir().expect("a directory") }
    }

    fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(WEIR);
        command.args(args).env("WEIR_TUNE", self.directory.path().join("state/tune.toml"));
        command.env("WEIR_HOST_TUNE", self.directory.path().join("etc/weir/tune.toml"));
        command.env_remove("WEIR_PIPE_SIZE").env_remove("WEIR_PIPE_SEGMENT");
        command.stdin(Stdio::null()).output().expect("weir starts")
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.weir(args);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

#[test]
fn defaults_are_set_shown_and_forgotten() {
    let place = Place::new();
    let plain = place.json(&["tune", "--json", "-"]);
    schema::check("weir.tune/1", &plain);
    assert_eq!(plain["from"]["capacity"], "caches");
    let set = place.json(&["tune", "--order", "8", "--shift", "4", "--json", "-"]);
    let page = set["page_bytes"].as_u64().expect("a number");
    assert_eq!(
        (set["capacity_bytes"].as_u64(), set["segment_bytes"].as_u64()),
        (Some(page << 8), Some(page << 4))
    );
    assert_eq!(set["from"]["segment"], "set");
    // The size becomes smaller later. The shift that is set holds for it too.
    let smaller = place.json(&["tune", "--size", "16K", "--json", "-"]);
    assert_eq!(smaller["segment_bytes"], 4096);
    let text = String::from_utf8(place.weir(&["tune"]).stdout).expect("text");
    assert!(text.contains("size       16 KiB  page << 2   set"), "{text}");
    // A segment in bytes that a later size does not fit gives way to it, a smaller one too.
    place.json(&["tune", "--size", "256K", "--segment", "1K", "--json", "-"]);
    let larger = place.json(&["tune", "--size", "64M", "--json", "-"]);
    assert_eq!(larger["segment_bytes"], 8 << 20);
    assert_eq!(
        place.json(&["tune", "--reset", "--json", "-"])["capacity_bytes"],
        plain["capacity_bytes"]
    );
}

/// Each user had to set them.
#[test]
fn what_is_set_for_the_host_holds_until_a_user_sets_another() {
    let place = Place::new();
    let host = place.json(&["tune", "--host", "--size", "512K", "--shift", "2", "--json", "-"]);
    assert!(host["file"].as_str().is_some_and(|file| file.ends_with("/etc/weir/tune.toml")));
    let user = place.json(&["tune", "--json", "-"]);
    schema::check("weir.tune/1", &user);
    assert_eq!(
        (user["capacity_bytes"].as_u64(), &user["from"]["capacity"]),
        (Some(512 << 10), &"host".into())
    );
    let user = place.json(&["tune", "--segment", "64K", "--json", "-"]);
    assert_eq!(user["segment_bytes"], 64 << 10);
    assert_eq!(
        (&user["from"]["capacity"], &user["from"]["segment"]),
        (&"host".into(), &"set".into())
    );
    let text = String::from_utf8(place.weir(&["tune"]).stdout).expect("text");
    assert!(text.contains("512 KiB  page << 7   set in /"), "{text}");
    place.json(&["tune", "--host", "--reset", "--json", "-"]);
    assert_eq!(place.json(&["tune", "--json", "-"])["from"]["capacity"], "caches");
}

#[test]
fn sizes_out_of_range_are_refused_with_the_range() {
    let place = Place::new();
    refused(&place.weir(&["tune", "--size", "2G"]), 2, "out of range: 1 to 1073741824");
    refused(&place.weir(&["tune", "--size", "64K", "--segment", "1M"]), 2, "256 to 65536");
    refused(&place.weir(&["tune", "--atomic", "0"]), 2, "the atomic bound of a pipe: 0 bytes");
    refused(&place.weir(&["tune", "--size", "much"]), 2, "not a size");
    refused(&place.weir(&["tune", "--order", "19"]), 2, "from 0 to 18");
    refused(&place.weir(&["tune", "--pipe", "12/3"]), 2, "required");
    refused(&place.weir(&["tune", "--pipe", "x/y", "--size", "1M"]), 2, "write PID/FD");
    assert!(!place.directory.path().join("state/tune").exists(), "nothing was kept");
}

#[test]
fn a_pipe_in_use_is_shown_and_set() {
    let place = Place::new();
    let options = Options::new().capacity_bytes(65_536);
    let (mut writer, mut reader) = pipe(&options).expect("made");
    writer.write(&[1; 5000]).expect("written");
    reader.read(&mut [0; 2000]).expect("read");
    let own = std::process::id().to_string();
    let seen = place.json(&["stat", &own, "--json", "-"]);
    schema::check("weir.stat/1", &seen);
    let with = |bytes: u64, seen: &Value| {
        let all = seen["pipes"].as_array().expect("a list").clone();
        all.into_iter().find(|pipe| pipe["writer"]["bytes_out"] == bytes).expect("found")
    };
    let mine = |seen: &Value| with(5000, seen);
    let ours = mine(&seen);
    assert_eq!((&ours["kind"], &ours["fill_bytes"]), (&"stream".into(), &3000.into()));
    assert_eq!(
        (&ours["reader"]["bytes_in"], &ours["reader"]["records"]),
        (&2000.into(), &1.into())
    );
    let uid = rustix::process::geteuid().as_raw();
    let of = &ours["writer"];
    assert_eq!((&of["pid"], &of["uid"]), (&std::process::id().into(), &uid.into()));
    let name = format!("{own}/{}", ours["holders"][1]["fd"]);
    let asked = place.weir(&["tune", "--pipe", &name, "--segment", "16K"]);
    assert!(said(&asked).contains("asked for 64 KiB, segments of 16 KiB"), "{}", said(&asked));
    assert_eq!(mine(&place.json(&["stat", "--json", "-"]))["segment_bytes"], 16_384);
    let asked = place.json(&["tune", "--pipe", &name, "--atomic", "2K", "--json", "-"]);
    schema::check("weir.tune.pipe/1", &asked);
    assert_eq!(
        (&asked["pipe"]["pid"], &asked["asked"]["atomic_bytes"]),
        (&std::process::id().into(), &2048.into())
    );
    refused(&place.weir(&["tune", "--pipe", &name, "--size", "4G"]), 2, "out of range");
    writer.write(&[1; 50_000]).expect("written");
    let shrunk = place.weir(&["tune", "--pipe", &name, "--size", "32K"]);
    refused(&shrunk, 2, "cannot shrink a pipe to 32768 bytes: 53000 bytes are in it");
    drop(writer);
    // Which of the two descriptors is the writer's depends on what other tests have open.
    let left = with(55_000, &place.json(&["stat", &own, "--json", "-"]));
    let name = format!("{own}/{}", left["holders"][0]["fd"]);
    refused(&place.weir(&["tune", "--pipe", &name, "--size", "1M"]), 1, "it is closed");
}

#[test]
fn the_table_names_both_ends() {
    let place = Place::new();
    let (mut sender, mut receiver) = records(&Options::new().capacity_bytes(65_536)).expect("made");
    sender.send(&[1; 1234]).expect("sent");
    receiver.receive(&mut [0; 2000]).expect("received");
    let own = std::process::id().to_string();
    let text = String::from_utf8(place.weir(&["stat", &own]).stdout).expect("text");
    let line = |end: &str| {
        let found = text.lines().find(|line| line.contains(end) && line.contains("1.2 kB"));
        found.map(str::to_owned).unwrap_or_else(|| panic!("{end} in {text}"))
    };
    assert!(line("writer").contains(&own) && line("reader").contains("records, 64 KiB"));
}

/// "No pipe of weir is in use" was the answer for any one process without one, and for processes of others.
#[test]
fn a_process_without_a_pipe_is_no_host_without_one() {
    let place = Place::new();
    let (_writer, _reader) = records(&Options::new().capacity_bytes(65_536)).expect("made");
    let mut sleeper = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
    let pid = sleeper.id().to_string();
    let said = String::from_utf8(place.weir(&["stat", &pid]).stderr).expect("text");
    assert_eq!(said, format!("weir: process {pid} uses no pipe of weir\n"));
    drop(sleeper.stdin.take());
    assert!(sleeper.wait().expect("ends").success());
    let mut stat = Command::new(WEIR);
    stat.args(["stat", "1"]);
    if rustix::process::geteuid().is_root() {
        stat.uid(NOBODY);
    }
    match stat.output() {
        Ok(ended) => refused(&ended, 1, "cannot inspect process 1: Permission denied"),
        Err(error) => eprintln!("SKIPPED: {NOBODY} may not start weir: {error}"),
    }
}

#[test]
fn runs_and_buffers_at_work_are_listed() {
    let place = Place::new();
    let mut buffer = Command::new(WEIR);
    buffer.args(["buffer", "--name", "a\u{1b}b"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut buffer = buffer.spawn().expect("weir starts");
    let pid = buffer.id().to_string();
    let text = || String::from_utf8(place.weir(&["stat", &pid]).stdout).expect("text");
    // The child may not have become weir yet.
    crate::common::until("it is listed", || !text().is_empty());
    assert_eq!(
        text(),
        format!("process {pid} uses no pipe of weir\nrunning: {pid} weir buffer --name a?b\n")
    );
    let json = place.json(&["stat", &pid, "--json", "-"]);
    assert_eq!(json["running"][0]["command"], "weir buffer --name a\u{1b}b");
    drop(buffer.stdin.take());
    assert!(buffer.wait().expect("ends").success());
}

#[test]
fn a_terminal_is_redrawn_in_place_and_nothing_is_wider() {
    if !crate::common::have(&["script"]) {
        return;
    }
    let place = Place::new();
    let (mut writer, _reader) = pipe(&Options::new().capacity_bytes(65_536)).expect("made");
    writer.write(&[1; 1000]).expect("written");
    // Its lines were once wider than the terminal.
    let options = weir_region::RegionOptions::new().memory_bytes(64 << 10);
    let _region = weir_region::Region::new(3 << 20, &options).expect("made");
    // It ends once some screens are there. The first line of the file may have the command.
    let inner = format!(
        "stty cols 80; {WEIR} stat {} --watch=100ms & \
         until [ $(grep -c '\\[H' shown) -ge 8 ]; do sleep 0.1; done; kill $!; wait",
        std::process::id()
    );
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qefc", &inner, "shown"]).stdin(Stdio::null());
    command.env("WEIR_TUNE", place.directory.path().join("tune"));
    command.current_dir(place.directory.path());
    let output = command.output().expect("script starts");
    let shown = String::from_utf8(output.stdout).expect("text");
    let screens: Vec<&str> = shown.split("\u{1b}[H").skip(1).collect();
    assert!(screens.len() >= 2, "{shown:?}");
    for screen in &screens[..screens.len() - 1] {
        assert_eq!(screen.matches("process").count(), 1, "one header a screen: {screen:?}");
        assert!(screen.ends_with("\u{1b}[J"), "{screen:?}");
        for line in screen.trim_end_matches("\u{1b}[J").lines() {
            let line = line.strip_prefix("\u{1b}[K").expect("what was there is erased first");
            assert!(line.chars().count() <= 80, "{line:?}");
        }
    }
    // What other tests of this process have in use may leave no room for it.
    assert!(screens[1..].iter().any(|screen| screen.contains("rate")), "{shown:?}");
}

/// `htop` and `ps -L` show the numbers of threads. Of one it was said that it uses no pipe of weir.
#[test]
fn the_number_of_a_thread_is_that_of_its_process() {
    let place = Place::new();
    let (_writer, _reader) = pipe(&Options::new()).expect("made");
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    assert_ne!(thread, std::process::id().to_string(), "tests run in threads");
    let found = place.json(&["stat", &thread, "--json", "-"]);
    assert!(!found["pipes"].as_array().expect("pipes").is_empty(), "{found}");
}

/// It has no descriptor of its writers' memory, and was said to use no pipe of weir.
#[test]
fn the_reader_of_a_port_has_the_pipes_of_its_writers() {
    let place = Place::new();
    let name = place.directory.path().join("log");
    let mut reader = Command::new(WEIR);
    reader.args(["port", "read"]).arg(&name).stdout(Stdio::null());
    let reader = Killed(reader.spawn().expect("weir starts"));
    let options = weir::PortWriterOptions::new().connect_timeout(Duration::from_secs(60));
    let mut writer = weir::PortWriter::connect(&name, &options).expect("opened");
    crate::common::until("it is let in", || writer.is_let_in().expect("mine"));
    let pid = reader.0.id();
    let seen = place.json(&["stat", &pid.to_string(), "--json", "-"]);
    let pipes = seen["pipes"].as_array().expect("a list");
    assert!(pipes.len() == 1 && pipes[0]["reader"]["pid"] == pid, "{seen}");
}

#[test]
fn what_is_not_there_is_reported() {
    let place = Place::new();
    refused(&place.weir(&["stat", "999999999"]), 1, "cannot inspect process 999999999");
    refused(&place.weir(&["stat", "0"]), 2, "'0' is not a process id");
    let nowhere = place.weir(&["tune", "--pipe", "999999999/3", "--size", "1M"]);
    refused(&nowhere, 1, "cannot open /proc/999999999/fd/3: No such file");
    let own = format!("{}/1", std::process::id());
    let other = place.weir(&["tune", "--pipe", &own, "--size", "1M"]);
    refused(&other, 1, &format!("weir: cannot set {own}: it is not a pipe of weir"));
    refused(&place.weir(&["stat", "--watch=0"]), 2, "too short: at least 50ms");
}

#[test]
fn watching_shows_rates_until_nobody_reads() {
    use std::io::BufRead;
    let place = Place::new();
    let (mut writer, mut reader) = pipe(&Options::new().capacity_bytes(65_536)).expect("made");
    let mut child = Command::new(WEIR)
        .args(["stat", &std::process::id().to_string(), "--watch=0.05", "--json", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("weir starts");
    let output = child.stdout.take().expect("piped");
    let mut lines = std::io::BufReader::new(output).lines();
    let mut rates = Vec::new();
    for _ in 0..4 {
        writer.write(&[1; 1000]).expect("written");
        reader.read(&mut [0; 1000]).expect("read");
        let line = lines.next().expect("a line").expect("text");
        let seen: Value = serde_json::from_str(&line).expect("JSON");
        schema::check("weir.stat/1", &seen);
        rates.push(seen["pipes"][0]["bytes_per_s"].clone());
    }
    assert!(rates[0].is_null() && rates[3].as_f64().is_some(), "{rates:?}");
    drop(lines);
    child.wait().expect("it ends when nobody reads");
    drop(place);
}

/// It was noticed when the next look was written.
#[test]
fn watching_ends_once_nobody_reads_whenever_the_next_look_is() {
    use std::io::BufRead;
    let mut weir = Command::new(WEIR);
    weir.args(["stat", "--watch=10m", "--json", "-"]).stdout(Stdio::piped());
    let mut child = weir.spawn().expect("weir starts");
    crate::common::bound(&child);
    let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
    lines.next().expect("a line").expect("text");
    drop(lines);
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_live_mpx_and_flags_are_shown() {
    let place = Place::new();
    let name = place.directory.path().join("exchange");
    let mut owner = weir_mpx::Mpx::create(&name, &weir_mpx::MpxOptions::new()).expect("made");
    let mut peer =
        weir_mpx::MpxPeer::connect(&name, &weir_mpx::MpxPeerOptions::new()).expect("connected");
    let channel = peer.open(b"shown").expect("opened");
    let mut asking = None;
    owner.receive_each(&mut [0; 64], |record| asking = Some(record.channel)).expect("received");
    owner.accept(asking.expect("an open")).expect("accepted");
    for _ in 0..3 {
        peer.send(channel, b"seven b").expect("sent");
        owner.receive_each(&mut [0; 64], |_| {}).expect("received");
    }
    let flags = weir::Flags::shared().expect("made");
    flags.set(1 << 63 | 1);
    let own = std::process::id().to_string();
    let seen = place.json(&["stat", &own, "--json", "-"]);
    schema::check("weir.stat/1", &seen);
    let socket = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&name).expect("there"));
    let of = |role: &str| {
        let all = seen["mpx"].as_array().expect("a list");
        let is_mine = |one: &&Value| one["role"] == role && one["socket_inode"] == socket;
        all.iter().find(is_mine).expect("shown").clone()
    };
    let (ours, theirs) = (of("owner"), of("peer"));
    assert_eq!((&ours["records_in"], &ours["bytes_in"]), (&3.into(), &21.into()));
    assert_eq!((&theirs["records_out"], &theirs["bytes_out"]), (&3.into(), &21.into()));
    assert_eq!((&ours["peers"], &ours["channels"]), (&1.into(), &1.into()));
    assert_eq!(ours["pid"], std::process::id());
    let all = seen["flags"].as_array().expect("a list");
    assert!(all.iter().any(|one| one["set"] == serde_json::json!([0, 63])), "{all:?}");
    let text = String::from_utf8(place.weir(&["stat", &own]).stdout).expect("text");
    for wanted in
        ["owner in", "owner out", "peer in", "mpx, 1 channels", "flags 0x8000000000000001"]
    {
        assert!(text.contains(wanted), "no '{wanted}' in {text}");
    }
}

#[test]
fn stat_shows_the_accounts_of_regions() {
    let place = Place::new();
    let options = weir_region::RegionOptions::new().memory_bytes(64 << 10);
    let region = weir_region::Region::new(1 << 20, &options).expect("made");
    for at in (0..1 << 20).step_by(4096) {
        region.write_at(at, b"abc").expect("written");
    }
    let own = std::process::id().to_string();
    let seen = place.json(&["stat", &own, "--json", "-"]);
    schema::check("weir.stat/1", &seen);
    let account = region.account();
    let all = seen["regions"].as_array().expect("a list");
    let mine = all.iter().find(|one| one["region_bytes"] == 1 << 20).expect("shown");
    assert_eq!(
        (&mine["budget_bytes"], &mine["pid"]),
        (&(64 << 10).into(), &std::process::id().into())
    );
    assert_eq!(mine["hard_faults"], account.hard_faults);
    assert_eq!(mine["written_bytes"], account.written_bytes);
    assert!(account.written_bytes > 0, "{account:?}");
    let text = String::from_utf8(place.weir(&["stat", &own]).stdout).expect("text");
    assert!(text.contains("1.0 MB, of which 66 kB are in memory; it may use 66 kB"), "{text}");
}
