//! `weir net`: what a host behind the switch answers to common clients, and that nothing answers if
//! there is no daemon (docs/contracts/net.md).

use crate::common::net::{ANSWERS, Answers, Bed, HOST, KERNEL, both};
use crate::common::{WEIR, bound, schema, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;

/// Runs ping and checks that every answer comes and is right. Requests are sent at once: ping waits
/// for the last answers as long as between two requests, and that is then a second.
fn all_answered(bed: &Bed, requests: u32, args: &str) -> String {
    let text = bed.ok(&format!("ping -n -c {requests} -l {requests} {args} {HOST}"));
    assert!(text.contains(&format!("{requests} received, 0% packet loss")), "{args}: {text}");
    is_right(&text);
    text
}

fn is_right(text: &str) {
    for wrong in ["wrong data byte", "DUP!", "BAD CHECKSUM", "truncated", "corrupted"] {
        assert!(!text.contains(wrong), "{text}");
    }
}

#[test]
fn echoes_of_every_size_come_back_with_their_data() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        for (mtu, most) in [("1500", 65_507), ("576", 65_507), ("68", 8000), ("65535", 65_507)] {
            let host = bed.host(answers, &format!("--mtu {mtu}"), "");
            all_answered(&bed, 5, "");
            let sizes = [0, 1, 8, 56, 1472, 1473, 4000, 8000, 65_507];
            for size in sizes.into_iter().filter(|size| *size <= most) {
                // -S: ping's own buffer is too small for that many fragments.
                all_answered(&bed, 1, &format!("-p a5c3960f -s {size} -S 200000"));
            }
            host.end();
        }
    }
}

#[test]
fn a_flood_is_answered_to_the_last() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let text = bed.ok(&format!("ping -n -q -f -c 2000 {HOST}"));
        is_right(&text);
        // Here ping waits for the last answer for as long as two of them took, which may be too
        // short. The switch's counters decide.
        until("all are answered", || bed.stat()["datagrams_sent"] == 2000);
        assert_eq!(
            (&bed.stat()["datagrams_delivered"], &bed.stat()["drops"]),
            (&2000.into(), &json!({}))
        );
        assert!(text.contains("2000 packets transmitted, "), "{text}");
        let received = text.split(", ").find_map(|part| part.strip_suffix(" received"));
        let received: Option<u32> = received.and_then(|count| count.parse().ok());
        assert!(received.is_some_and(|received| received > 1900), "{text}");
        host.end();
    }
}

#[test]
fn routes_are_recorded_and_times_stamped() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let text = all_answered(&bed, 1, "-R");
        let hops: Vec<_> = text.lines().skip_while(|line| !line.starts_with("RR:")).collect();
        let hops = hops[..3].iter().map(|hop| hop.trim_start_matches("RR:").trim());
        assert!(hops.eq([KERNEL, HOST, KERNEL]), "{text}");
        let text = all_answered(&bed, 1, "-T tsandaddr");
        let stamps = text.lines().skip_while(|line| !line.starts_with("TS:")).take(3);
        let places = stamps.map(|stamp| stamp.trim_start_matches("TS:").split_whitespace().next());
        assert!(places.eq([Some(KERNEL), Some(HOST), Some(KERNEL)]), "{text}");
        // ping shows this time as the difference from the one before, which the same clock gave.
        let own = text.lines().find(|line| line.trim_start().starts_with(HOST));
        let passed = own.and_then(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok());
        assert!(passed.is_some_and(|passed| (0..10_000).contains(&passed)), "{text}");
        all_answered(&bed, 1, "-T tsonly");
        all_answered(&bed, 1, &format!("-T tsprespec {KERNEL} {HOST}"));
        host.end();
    }
}

#[test]
fn what_is_for_all_hosts_is_not_answered() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Daemon, "", "");
    let output = bed.run("ping -n -b -c 3 -i 0.002 -W 0.2 10.9.0.255");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    assert!(both(&output).contains("3 packets transmitted, 0 received"), "{}", both(&output));
    assert_eq!(bed.drops("broadcast"), 3);
    all_answered(&bed, 1, "");
    host.end();
}

/// Nothing answers: the requests were dropped because no station has their protocol.
fn nobody_answers(bed: &Bed) {
    let before = bed.drops("no-protocol");
    assert_eq!(bed.script("errors.py silence")["answered"], false);
    assert_eq!(bed.drops("no-protocol"), before + 5);
}

#[test]
fn nobody_answers_but_a_daemon_that_lives() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let mut switch = bed.switch("");
    nobody_answers(&bed);
    let mut icmpd = bed.icmpd("");
    all_answered(&bed, 2, "");
    icmpd.end();
    until("the switch sees it go", || bed.stat()["stations"].as_array().map(Vec::len) == Some(0));
    nobody_answers(&bed);
    let mut icmpd = bed.icmpd("");
    all_answered(&bed, 2, "");
    icmpd.kill(Signal::KILL);
    icmpd.ended();
    until("the switch sees it die", || bed.stat()["stations"].as_array().map(Vec::len) == Some(0));
    // Nobody else would remove the name of its port.
    let (place, own) = ("weir/net/weir0", format!("station-{}-", icmpd.pid()));
    let is_left = || {
        let names = std::fs::read_dir(bed.directory.path().join(place)).expect("there");
        names.flatten().any(|name| name.file_name().to_string_lossy().starts_with(&own))
    };
    until("its name goes when others come", || bed.stat().is_object() && !is_left());
    nobody_answers(&bed);
    let mut icmpd = bed.icmpd("");
    all_answered(&bed, 2, "");
    // A second daemon is refused, and the error names the first.
    let output = bed.run_net("icmpd --tun weir0");
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    let expected = format!("process {} has protocol 1", icmpd.pid());
    assert!(both(&output).contains(&expected), "{}", both(&output));
    // A stopped daemon does not answer. It answers once it continues: only time was lost.
    icmpd.kill(Signal::STOP);
    assert_eq!(bed.script("errors.py silence")["answered"], false);
    icmpd.kill(Signal::CONT);
    all_answered(&bed, 2, "");
    icmpd.end();
    switch.end();
}

#[test]
fn a_daemon_whose_switch_goes_ends_and_says_so() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (switch, mut icmpd) = (bed.switch(""), bed.icmpd(""));
    switch.kill(Signal::KILL);
    assert_eq!(icmpd.ended().code(), Some(1), "{}", icmpd.printed());
    icmpd.said("weir: cannot go on without the switch: it has closed or died");
}

/// Checks the times that hping3 and nping show: milliseconds since midnight UT, today.
fn is_now(text: &str) -> bool {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = since.expect("after 1970").as_millis() as i64 % 86_400_000;
    let time: Option<i64> = text.parse().ok();
    // They differ by half a minute at most, around midnight as well.
    time.is_some_and(|time| (time - now_ms + 30_000).rem_euclid(86_400_000) < 60_000)
}

#[test]
fn requests_for_the_time_are_answered_with_the_time() {
    let Some(bed) = Bed::new(&["hping3", "nping"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let output = bed.run(&format!("hping3 -n --icmp-ts -c 3 -i u2000 {HOST}"));
        let text = both(&output);
        // Both clients listen by a capture, which misses some packets while the machine is busy.
        // What they saw must be right, and the switch's counters must show that all was answered.
        until("all are answered", || bed.stat()["datagrams_sent"] == 3);
        let stamps: Vec<_> = text.lines().filter(|line| line.contains("Originate=")).collect();
        assert!(!stamps.is_empty(), "{text}");
        for stamp in stamps {
            let times = stamp.split(['=', ' ']).filter(|part| is_now(part)).count();
            assert_eq!(times, 3, "{stamp}");
        }
        let words = "--icmp --icmp-type timestamp -c 3 --delay 2ms";
        let text = bed.ok(&format!("nping {words} {HOST}"));
        let replies: Vec<_> = text.lines().filter(|line| line.contains("RCVD")).collect();
        until("all are answered", || bed.stat()["datagrams_sent"] == 6);
        assert!(!replies.is_empty(), "{text}");
        for reply in replies {
            assert!(reply.contains("type=14/code=0"), "{reply}");
            let times = reply.split(['=', ' ', ']']).filter(|part| is_now(part)).count();
            assert!(times >= 2, "received and transmitted: {reply}");
        }
        host.end();
    }
}

#[test]
fn the_host_is_found_by_traceroute() {
    let Some(bed) = Bed::new(&["traceroute"]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        for args in ["-I", "", "-U -p 9"] {
            let text = bed.ok(&format!("traceroute -n -q 1 -N 1 -w 5 -m 3 {args} {HOST}"));
            let hops: Vec<_> = text.lines().skip(1).collect();
            assert_eq!(hops.len(), 1, "{text}");
            assert!(hops[0].trim_start().starts_with(&format!("1  {HOST}  ")), "{text}");
            // traceroute marks every answer that is not simply "reached" with a !, such as !P for
            // an unreachable protocol.
            assert!(!hops[0].contains('!'), "{text}");
        }
        host.end();
    }
}

#[test]
fn the_host_asks_the_kernel_and_itself() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        for args in ["", "--size 4000", "--size 0", "--timestamp"] {
            for whom in [KERNEL, HOST] {
                let output =
                    bed.run_net(&format!("ping --json - -c 5 -i 2ms -W 20s {args} {whom}"));
                let text = both(&output);
                assert_eq!(output.status.code(), Some(0), "{whom} {args}: {text}");
                let said = schema::check_text("weir.net.ping/1", text.as_bytes());
                let counts = [&said["requests"], &said["replies"]];
                assert_eq!(counts, [&Value::from(5); 2], "{said}");
                let none = [&said["changed_replies"], &said["lost_requests"]];
                assert_eq!(none, [&Value::from(0); 2], "{said}");
            }
        }
        // No host has this address: the command has a status of its own for that, within the time
        // asked for.
        let output = bed.run_net("ping -c 2 -i 2ms -W 100ms 10.9.0.77");
        assert_eq!(output.status.code(), Some(1), "{}", both(&output));
        assert!(both(&output).contains("2 sent, 0 received"), "{}", both(&output));
        host.end();
    }
}

/// It once asked on for ever, as behind `| head -1`.
#[test]
fn an_endless_ping_ends_with_whoever_reads_it() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    for (whom, interval) in [(KERNEL, "20ms"), ("10.9.0.77", "20ms"), (KERNEL, "0")] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut command = bed.command(WEIR);
        let child = command.args(["net", "ping", "-i", interval, whom]).stdout(writer).spawn();
        let child = child.expect("it starts");
        bound(&child);
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((output.status.signal(), both(&output).as_str()), (Some(13), ""), "{whom}");
    }
    switch.end();
}

/// It waited for room in the pipe, and heard no signal but KILL.
#[test]
fn a_ping_that_nobody_reads_hears_a_signal() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("set");
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("set");
    let mut command = bed.command(WEIR);
    let child = command.args(["net", "ping", "-i", "10ms", KERNEL]).stdout(writer).spawn();
    let mut child = child.expect("it starts");
    bound(&child);
    until("a reply has come", || {
        bed.stat()["stations"][0]["datagrams_delivered"].as_u64() > Some(0)
    });
    kill_process(Pid::from_child(&child), Signal::TERM).expect("sent");
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    switch.end();
}

/// It only asked, and said in the end that all requests were lost.
#[test]
fn a_ping_without_a_pause_hears_the_replies() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let mut ping = bed.net(&format!("ping -i 0 {KERNEL}"));
    ping.said("bytes from 10.9.0.1: sequence ");
    ping.kill(Signal::INT);
    assert_eq!(ping.ended().code(), Some(0), "{}", ping.said("-- 10.9.0.1"));
    switch.end();
}

/// The end of the wait was a time that does not exist: it panicked.
#[test]
fn a_time_of_more_than_a_day_is_refused() {
    for option in ["-W", "-i"] {
        let args = ["net", "ping", option, "10000000000000000000", KERNEL];
        let output = std::process::Command::new(WEIR).args(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{option}: {}", both(&output));
        assert!(both(&output).contains("longer than a day"), "{option}: {}", both(&output));
    }
}
