//! `weir net profile` over processes that have a profile (docs/contracts/profile.md). This program
//! itself takes the place of a switch.

use crate::common::port::{Place, Running, refused};
use crate::common::schema;
use crate::common::{WEIR, alone};
use rustix::process::Signal;
use serde_json::json;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_profile::Subroutine;

static TURN: Subroutine = Subroutine::new("ip.verify");
static LAST: Subroutine = Subroutine::new("last");
/// How many turns the switches have made so far.
static TURNS: AtomicU64 = AtomicU64::new(0);
static READ: Subroutine = Subroutine::new("tun.read");

/// The directory of a switch on weir0.
fn of_switch(place: &Place) -> PathBuf {
    use std::os::unix::fs::DirBuilderExt;
    let directory = place.path("net/weir0");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).expect("made");
    directory
}

/// A switch that reads one packet after another from a device that always has one, until `done`.
fn switches_until(done: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let other = scope.spawn(done);
        let mut zeros = std::fs::File::open("/dev/zero").expect("opened");
        while !other.is_finished() {
            TURNS.fetch_add(1, Ordering::Relaxed);
            let _turn = TURN.enter();
            let mut packet = [0; 64];
            weir_profile::wait(&READ, || zeros.read_exact(&mut packet)).expect("read");
        }
    });
}

fn net_profile(place: &Place, args: &str) -> Command {
    let mut command = place.command(WEIR);
    command.args(["net", "profile"]).args(args.split_whitespace());
    command
}

fn ended(mut running: Running) -> String {
    let mut text = String::new();
    running.output.read_to_string(&mut text).expect("text");
    let status = running.child.wait().expect("reaped");
    assert!(status.success(), "{status:?}: {text}");
    text
}

#[test]
fn a_packet_s_time_is_what_all_processes_of_the_switch_used() {
    let (_alone, place) = (alone(), Place::new());
    let me = std::process::id();
    let path = of_switch(&place).join(format!("profile.switch.{me}"));
    let _published = weir_profile::publish(&path, "switch").expect("published");
    switches_until(|| {
        let text = ended(place.start(net_profile(&place, "--seconds 0.3 --json -")));
        let json = schema::check_text("weir.net.profile/1", text.as_bytes());
        assert_eq!(json["gone"], json!([]));
        let switch = &json["processes"][0];
        assert_eq!((switch["process"].as_str(), &switch["pid"]), (Some("switch"), &json!(me)));
        let reads = switch["system_calls"][0]["calls"].as_u64().expect("calls");
        let packets = switch["subroutines"][0]["calls"].as_u64().expect("calls");
        assert!(packets > 0 && packets.abs_diff(reads) <= 1, "{text}");
        assert_eq!(json["sum"]["unit"], json!({"name": "packet", "count": packets}));
        let cpu_s = switch["cpu"]["cpu_s"].as_f64().expect("known");
        let packet = ["cpu_s", "profile_s"].map(|key| json["packet"][key].as_f64());
        let took_s = packet[0].zip(packet[1]).map(|(one, other)| (one + other) * packets as f64);
        assert!(took_s.is_some_and(|s| (s - cpu_s).abs() < 1e-6 * cpu_s), "{text}");
        assert!(packet[1] > Some(0.0), "{text}");
        // One process is named by its number and one by its file. Each prints one line per
        // interval.
        let by_number = ended(place.start(net_profile(&place, &format!("-s 0.1 {me}"))));
        assert!(by_number.starts_with(&format!("switch (process {me}), 0.1")), "{by_number}");
        assert!(by_number.contains("\ntime per packet: "), "{by_number}");
        let file = format!("-i 0.1 --json - {}", path.display());
        let mut lines = place.start(net_profile(&place, &file));
        for _ in 0..2 {
            let line = schema::check_text("weir.net.profile/1", lines.line().as_bytes());
            assert_eq!(line["processes"][0]["pid"], json!(me));
        }
        lines.kill(Signal::INT);
        ended(lines);
    });
}

#[test]
fn an_interrupt_prints_what_was_counted() {
    let (_alone, place) = (alone(), Place::new());
    let path = of_switch(&place).join("profile.icmpd.1");
    let _published = weir_profile::publish(&path, "icmpd").expect("published");
    // An observer of another test may have left counting on. That runs out.
    while weir_profile::is_on() {
        TURN.run(|| ());
    }
    switches_until(|| {
        let mut text = String::new();
        // It may be interrupted before it has looked for the first time.
        for turns in (0..12).map(|power| 1000 << power) {
            let running = place.start(net_profile(&place, "--seconds 100"));
            // Once counting is on, the process also listens for interrupts.
            while !weir_profile::is_on() {
                std::thread::yield_now();
            }
            let begun = TURNS.load(Ordering::Relaxed);
            while TURNS.load(Ordering::Relaxed) < begun + turns {
                std::thread::yield_now();
            }
            running.kill(Signal::INT);
            text = ended(running);
            if text.contains("\nip.verify ") {
                break;
            }
            while weir_profile::is_on() {
                std::thread::yield_now();
            }
        }
        assert!(text.contains("\nip.verify "), "{text}");
        assert!(!text.contains("time per packet"), "it is no switch\n{text}");
    });
}

/// What nohup starts once died of HUP, since weir listened to it although it was ignored.
#[test]
fn it_continues_at_a_hangup_that_was_ignored_and_ends_at_an_interrupt() {
    let (_alone, place) = (alone(), Place::new());
    let path = of_switch(&place).join("profile.switch.1");
    let _published = weir_profile::publish(&path, "switch").expect("published");
    switches_until(|| {
        let script = "trap '' HUP; exec \"$WEIR\" net profile --interval 0.05 --json -";
        let mut command = place.command("sh");
        command.args(["-c", script]);
        let mut lines = place.start(command);
        assert!(!lines.line().is_empty(), "weir listens to signals before its first report");
        lines.kill(Signal::HUP);
        // At a signal that it heeds, weir prints the report at hand and ends.
        let goes_on = (0..5).all(|_| !lines.line().is_empty());
        lines.kill(Signal::INT);
        ended(lines);
        assert!(goes_on);
    });
}

#[test]
fn what_died_is_shown_as_it_was_and_what_is_no_profile_is_named() {
    let (_alone, place) = (alone(), Place::new());
    let directory = of_switch(&place);
    let none = net_profile(&place, "").output().expect("it starts");
    refused(&none, 1, "cannot find profiles of 'weir0': none of its processes has published one");
    let by_number = net_profile(&place, "4194304").output().expect("it starts");
    refused(&by_number, 1, "cannot find a profile of process 4194304 of 'weir0'");
    let path = directory.join("profile.dead.1");
    let published = weir_profile::publish(&path, "dead").expect("published");
    weir_profile::switch(true).expect("on");
    LAST.run(|| ());
    std::fs::copy(&path, directory.join("copy")).expect("copied");
    weir_profile::switch(false).expect("off");
    drop(published);
    // This file says that it began at time 0.
    let file = std::fs::File::options().write(true).open(directory.join("copy")).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8], 24).expect("written");
    std::fs::rename(directory.join("copy"), &path).expect("renamed");
    std::fs::write(directory.join("profile.noise.2"), "noise").expect("written");
    let output = net_profile(&place, "--seconds 0.05").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("everything counted so far"), "{text}");
    assert!(text.contains("\nlast                        1 "), "{text}");
    assert!(text.contains(&format!("\nnote: process {} is gone\n", std::process::id())), "{text}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("profile.noise.2': it is too short for a profile"), "{error}");
    let mut asked = net_profile(&place, "net/weir0/profile.noise.2");
    asked.current_dir(place.path("")).stdin(Stdio::null());
    refused(&asked.output().expect("it starts"), 1, "it is too short for a profile");
}

/// Killed processes leave their profiles. There were so many that one of a living process was left out.
#[test]
fn many_that_died_keep_no_living_one_out() {
    let (_alone, place) = (alone(), Place::new());
    let directory = of_switch(&place);
    for number in 0..300 {
        // Beyond the largest number of a process.
        let path = directory.join(format!("profile.dead.{}", 5_000_000 + number));
        std::fs::write(path, "noise").expect("written");
    }
    let me = std::process::id();
    let path = directory.join(format!("profile.switch.{me}"));
    let _published = weir_profile::publish(&path, "switch").expect("published");
    let output = net_profile(&place, "--seconds 0.05").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("switch (process {me}), ")), "{text}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("45 of 301 profiles are left out"), "{error}");
}

#[test]
fn wrong_usage_is_reported_with_status_2() {
    let place = Place::new();
    for (args, why) in [
        ("--seconds 0", "too short: at least 50ms"),
        ("--seconds 1 --interval 1", "cannot be used with"),
        ("--tun ../x", "the name of a device"),
    ] {
        refused(&net_profile(&place, args).output().expect("it starts"), 2, why);
    }
}

/// The profile was emptied, which ends its process by SIGBUS when that counts next.
#[test]
fn a_profile_is_not_emptied_for_its_own_json() {
    let (_alone, place) = (alone(), Place::new());
    let path = of_switch(&place).join(format!("profile.switch.{}", std::process::id()));
    let _published = weir_profile::publish(&path, "switch").expect("published");
    let (name, length) = (path.display(), std::fs::metadata(&path).expect("there").len());
    for which in [&*path.to_string_lossy(), ""] {
        let args = format!("--seconds 0.1 --json {name} {which}");
        let output = net_profile(&place, &args).output().expect("weir starts");
        refused(&output, 1, &format!("cannot write '{name}': it is also the input"));
        assert_eq!(std::fs::metadata(&path).expect("there").len(), length, "{args}");
    }
}
