//! `weir net`: packets that no host should send, devices that vanish, users without the right
//! (docs/contracts/net.md).

use crate::common::WEIR;
use crate::common::net::{ANSWERS, Answers, Bed, Host, both};
use crate::common::until;
use rustix::process::Signal;
use serde_json::json;

/// Checks that an honest request is answered: the switch survived.
fn lives(bed: &Bed, host: &mut Host) {
    assert!(host.switch.is_running(), "{}", host.switch.printed());
    assert!(host.icmpd.as_mut().is_none_or(|icmpd| icmpd.is_running()));
    let mut text = String::new();
    // A fragment that nonsense left behind may have the number of a datagram of ping's.
    let answered = (0..3).any(|_| {
        text = bed.ok("ping -n -c 3 -l 3 -s 4000 10.9.0.2");
        text.contains("3 received, 0% packet loss")
    });
    assert!(answered, "{text}");
}

#[test]
fn malformed_packets_are_dropped_and_counted_by_reason() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let mut host = bed.host(answers, "", "");
        let outcome = bed.script("hostile.py malformed");
        for (kind, told) in outcome.as_object().expect("kinds") {
            assert_eq!(bed.drops(kind), told["sent"].as_u64().expect("a count"), "{kind}");
            if kind != "bad-options" {
                assert_eq!(told["answers"], json!([]), "{kind}");
                continue;
            }
            // An error says what is wrong with options (RFC 1122, 3.2.2.5), no more often than any
            // other error.
            let problem = &told["answers"][0];
            assert_eq!((&problem["type"], &problem["code"]), (&12.into(), &0.into()), "{told}");
            assert!(problem["times"].as_u64() <= Some(7), "{told}");
            assert_eq!(told["answers"].as_array().map(Vec::len), Some(1), "{told}");
        }
        lives(&bed, &mut host);
        host.end_after_nonsense();
    }
}

#[test]
fn odd_packets_that_are_right_are_answered() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        for (kind, told) in bed.script("hostile.py sound").as_object().expect("kinds") {
            let reply = &told["answers"][0];
            assert_eq!((&reply["type"], &reply["times"]), (&0.into(), &told["sent"]), "{kind}");
            // The answer has the data and nothing behind it.
            assert_eq!(reply["bytes"], 24, "{kind}: {told}");
        }
        assert_eq!(bed.stat()["drops"], json!({}));
        host.end();
    }
}

#[test]
fn garbage_harms_nothing() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let mut host = bed.host(answers, "", "--ggp");
        let before = bed.stat()["packets_in"].as_u64();
        assert_eq!(bed.script("hostile.py garbage 20000")["sent"], 20_000);
        let stat = bed.stat();
        // After every hundred packets comes a request whose answer shows that they were dealt with.
        let came = stat["packets_in"].as_u64().zip(before).map(|(after, before)| after - before);
        // The kernel sends errors about some of the answers.
        assert!(came.is_some_and(|came| (20_200..20_400).contains(&came)), "{stat}");
        lives(&bed, &mut host);
        host.end_after_nonsense();
    }
}

#[test]
fn packets_longer_than_the_device_was_made_for_are_taken() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        bed.ok("ip link set weir0 mtu 65535");
        for size in [1473, 9000, 40_000, 65_507] {
            let text = bed.ok(&format!("ping -n -c 2 -l 2 -M do -s {size} 10.9.0.2"));
            assert!(text.contains("2 received, 0% packet loss"), "{text}");
        }
        assert_eq!(bed.stat()["drops"], json!({}));
        host.end();
    }
}

#[test]
fn a_switch_whose_device_is_deleted_ends_and_says_so() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let mut host = bed.host(answers, "", "");
        bed.ok("ip link del weir0");
        let status = host.switch.ended();
        assert_eq!(status.code(), Some(1), "{}", host.switch.printed());
        host.switch.said("weir: cannot read from device 'weir0': it is gone");
        if let Some(icmpd) = &mut host.icmpd {
            assert_eq!(icmpd.ended().code(), Some(1), "{}", icmpd.printed());
            icmpd.said("weir: cannot go on without the switch");
        }
        // Its name is free at once.
        bed.switch("").end();
    }
}

#[test]
fn a_daemon_that_takes_nothing_for_a_while_harms_only_itself() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let mut host = bed.host(Answers::Daemon, "", "");
    let icmpd = host.icmpd.take().expect("a daemon");
    icmpd.kill(Signal::STOP);
    until("its ring is full", || {
        bed.script("errors.py pour 2000");
        bed.drops("station-full") > 0
    });
    // The same switch serves another station meanwhile: the kernel answers it.
    let output = bed.run_net("ping -q -c 3 -i 2ms -W 20s 10.9.0.1");
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    icmpd.kill(Signal::CONT);
    host.icmpd = Some(icmpd);
    // The requests in its ring are all answered, and then the later ones.
    until("it has answered", || {
        let stat = bed.stat();
        stat["datagrams_sent"].as_u64() >= stat["datagrams_delivered"].as_u64()
    });
    lives(&bed, &mut host);
    host.end();
}

#[test]
fn a_device_that_is_down_for_a_while_is_no_end() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let mut host = bed.host(answers, "", "");
        bed.ok("ip link set weir0 down");
        let output = bed.run_net("ping -c 2 -i 2ms -W 50ms 10.9.0.1");
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        bed.ok("ip link set weir0 up");
        lives(&bed, &mut host);
        assert_eq!(bed.drops("device"), 2, "what could not be sent is counted");
        host.end();
    }
}

#[test]
fn a_second_switch_is_told_who_has_the_device() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let mut host = bed.host(Answers::Daemon, "", "");
    let args = "up --tun weir0 --addr 10.9.0.2/24 --peer 10.9.0.1";
    let output = bed.run_net(args);
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let holder = format!("process {}", host.switch.pid());
    assert!(both(&output).starts_with("weir: cannot start the switch of 'weir0': "));
    assert!(both(&output).contains(&holder), "{}", both(&output));
    // With another directory for names, it is the kernel that refuses.
    let elsewhere = bed.directory.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("made");
    let line = format!("env XDG_RUNTIME_DIR={} {WEIR} net {args}", elsewhere.display());
    let output = bed.run(&line);
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let said = "weir: cannot make device 'weir0': another process has it\n";
    assert_eq!(both(&output), said);
    lives(&bed, &mut host);
    host.end();
}

/// A daemon ended where it could not publish its profile.
#[test]
fn a_directory_that_is_full_keeps_nobody_from_work() {
    let Some(bed) = Bed::new(&["mount", "ping"]) else { return };
    let names = bed.directory.path().join("names");
    std::fs::create_dir(&names).expect("made");
    let mount = format!("mount -t tmpfs -o size=256k none {}", names.display());
    if !bed.run(&format!("unshare -m {mount}")).status.success() {
        eprintln!("SKIPPED: no privilege to mount");
        return;
    }
    // The log and the profile of the switch find room there, and that of the daemon does not.
    let up = "up --addr 10.9.0.2/24 --peer 10.9.0.1 --log-size 64K --icmpd -- ping -c 1 10.9.0.2";
    let run = format!("export XDG_RUNTIME_DIR={}; exec {WEIR} net {up}", names.display());
    let mut command = bed.command("unshare");
    command.args(["-m", "sh", "-c", &format!("{mount} && {run}")]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", both(&output));
    assert!(both(&output).contains("icmpd has no profile at '"), "{}", both(&output));
}

#[test]
fn who_may_not_make_devices_is_told_so() {
    let Some(bed) = Bed::new(&[]) else { return };
    let directory = bed.directory.path();
    // The user nobody may not be able to reach another user's target directory.
    let weir = directory.join("weir-net.copy");
    crate::common::copy_program(env!("CARGO_BIN_EXE_weir-net"), &weir);
    let runtime = directory.join("nobody");
    std::fs::create_dir(&runtime).expect("made");
    bed.ok(&format!("chmod 755 {} {}", directory.display(), weir.display()));
    bed.ok(&format!("chown 65534 {}", runtime.display()));
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all";
    let (weir, runtime) = (weir.display(), runtime.display());
    // The relay once gave the kernel's "Permission denied" alone.
    for (args, device) in [
        ("up --tun weir0 --addr 10.9.0.2/24 --peer 10.9.0.1", "weir0"),
        ("relay --left :a:10.8.0.1/24 --right :b:10.8.0.2/24", "a"),
    ] {
        let output = bed.run(&format!("{nobody} env XDG_RUNTIME_DIR={runtime} {weir} {args}"));
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        let why = "that needs CAP_NET_ADMIN (root has it)";
        assert_eq!(both(&output), format!("weir: cannot make device '{device}': {why}\n"));
    }
}

#[test]
fn who_asks_where_no_switch_is_hears_that() {
    let Some(bed) = Bed::new(&[]) else { return };
    for args in ["icmpd", "stat", "ping -c 1 10.9.0.1"] {
        let output = bed.run_net(args);
        assert_eq!(output.status.code(), Some(1), "{args}: {}", both(&output));
        let said = "weir: cannot attach to the switch of 'weir0': it is not up \
                    (none is up; weir net up starts one)\n";
        assert_eq!(both(&output), said, "{args}");
    }
    // It may not do so after the switch has ended, or died, either.
    bed.switch("").end();
    // This said only that no process of the switch has a profile.
    let output = bed.run_net("profile");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let why = "none of its processes has published one (none is up; weir net up starts one)";
    assert_eq!(both(&output), format!("weir: cannot find profiles of 'weir0': {why}\n"));
    drop(bed.switch(""));
    let is_down = || both(&bed.run_net("stat")).contains("of 'weir0': it is not up");
    until("it is known to be dead", is_down);
    bed.switch("").end();
}

#[test]
fn nonsense_settings_are_wrong_usage() {
    let Some(bed) = Bed::new(&[]) else { return };
    for args in [
        "--addr 10.9.0.2 --peer 10.9.0.1",
        "--addr 10.9.0.2/33 --peer 10.9.0.1",
        "--addr 10.9.0.2/24 --peer 10.9.1.1",
        "--addr 10.9.0.2/24 --peer 10.9.0.2",
        "--addr 10.9.0.255/24 --peer 10.9.0.1",
        "--addr 127.0.0.2/24 --peer 127.0.0.1",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --mtu 67",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --gateway 192.0.2.1",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --tun a-name-of-16-byte",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --tun ../weir0",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --ggp",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --reassembly-memory 1K",
        "--addr 10.9.0.2/24 --peer 10.9.0.1 --log nonsense",
    ] {
        let output = bed.run_net(&format!("up {args}"));
        assert_eq!(output.status.code(), Some(2), "{args}: {}", both(&output));
        assert!(!both(&output).contains("panicked"), "{}", both(&output));
    }
}
