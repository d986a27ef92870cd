//! `weir net ping --by-daemon`: icmpd asks for local programs, and the log tells their requests from
//! those of hosts (docs/contracts/net-icmp.md, docs/contracts/log.md).

use crate::common::net::{Bed, HOST, KERNEL, both};
use crate::common::{WEIR, schema, until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::Duration;
use weir::{Options, RecordDuplex};

/// Has the daemon ask, and returns the summary.
fn ask(bed: &Bed, args: &str) -> Value {
    let output = bed.run_net(&format!("ping --by-daemon --tun weir0 -q --json - {args}"));
    schema::check_text("weir.net.ping/1", &output.stdout)
}

/// The requests in the log of the switch.
fn requests(bed: &Bed) -> Vec<Value> {
    let kinds = "--kinds local-requests,foreign-requests";
    let text = bed.ok(&format!("{WEIR} net log --tun weir0 --json - {kinds}"));
    let lines = text.lines().map(|line| schema::check_text("weir.net.log/1", line.as_bytes()));
    lines.filter(|event| event["kind"] != "missing").collect()
}

/// How many stations are attached.
fn stations(bed: &Bed) -> usize {
    bed.stat()["stations"].as_array().map_or(0, Vec::len)
}

#[test]
fn the_daemon_asks_for_local_programs_and_hands_over_the_answers() {
    let Some(bed) = Bed::new(&[]) else { return };
    for division in ["later", "allen"] {
        let mut switch = bed.switch(&format!("--division {division}"));
        let mut icmpd = bed.icmpd("--ggp");
        // The kernel, and this host itself, which the daemon answers.
        for host in [KERNEL, HOST] {
            for args in ["-c 3 -i 1ms", "-c 3 -i 1ms --timestamp", "-c 2 -i 1ms -s 65507"] {
                let summary = ask(&bed, &format!("{args} {host}"));
                let requests = &summary["requests"];
                assert_eq!((&summary["replies"], &summary["by_daemon"]), (requests, &true.into()));
                assert_eq!(summary["clock"].is_object(), args.contains("timestamp"), "{summary}");
            }
        }
        let summary = ask(&bed, &format!("-c 3 -i 1ms --ggp -s 100 {HOST}"));
        assert_eq!(
            (&summary["replies"], &summary["probe"]["kind"], &summary["probe"]["data_bytes"]),
            (&3.into(), &"ggp-echo".into(), &100.into())
        );
        // No kernel speaks GGP: it says so, and the program hears that.
        let summary = ask(&bed, &format!("-c 1 -W 5s --ggp {KERNEL}"));
        assert_eq!(
            (&summary["replies"], &summary["errors"]["unreachable"]),
            (&0.into(), &1.into())
        );
        until("their stations are gone", || stations(&bed) == 1);
        icmpd.end();
        switch.end();
    }
}

#[test]
fn the_log_tells_local_requests_from_foreign_ones() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let mut switch = bed.switch("--log all");
    let mut icmpd = bed.icmpd("--ggp");
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    let mut program = bed.net(&format!("ping --by-daemon --tun weir0 -c 1 --ggp {HOST}"));
    assert!(program.ended().success(), "{}", program.printed());
    ask(&bed, &format!("-c 1 --timestamp {KERNEL}"));
    let told = requests(&bed);
    let of = |event: &Value, names: [&str; 4]| json!(names.map(|name| event[name].clone()));
    let foreign = ["kind", "source", "icmp_name", "length_bytes"];
    let expected = json!(["foreign-requests", KERNEL, "echo request", 64]);
    assert_eq!(of(&told[0], foreign), expected);
    let expected = json!(["local-requests", program.pid(), HOST, "echo"]);
    assert_eq!(of(&told[1], ["kind", "pid", "target", "ggp_name"]), expected);
    // What it asks of this host comes back as a datagram, and asks the daemon.
    assert_eq!(of(&told[2], foreign), json!(["foreign-requests", HOST, null, 64]));
    let expected = json!(["local-requests", KERNEL, "timestamp request", 20]);
    assert_eq!(of(&told[3], ["kind", "target", "icmp_name", "length_bytes"]), expected);
    assert_eq!(told.len(), 4, "{told:#?}");
    let text = bed.ok(&format!("{WEIR} net log --tun weir0 --kinds local-requests"));
    let expected = format!("request  local: process {} > {HOST} ggp echo, 64 bytes", program.pid());
    assert!(text.contains(&expected), "{text}");
    icmpd.end();
    switch.end();
    // By default local requests are logged, and those of hosts are not.
    let mut switch = bed.switch("");
    let mut icmpd = bed.icmpd("");
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    ask(&bed, &format!("-c 1 {KERNEL}"));
    let told = requests(&bed);
    assert_eq!((told.len(), &told[0]["kind"]), (1, &"local-requests".into()), "{told:#?}");
    icmpd.end();
    switch.end();
    let mut switch = bed.switch("--inline --log foreign-requests");
    bed.ok(&format!("ping -n -c 1 {HOST}"));
    let told = requests(&bed);
    assert_eq!((told.len(), &told[0]["source"]), (1, &KERNEL.into()), "{told:#?}");
    switch.end();
}

#[test]
fn a_daemon_that_is_not_there_or_cannot_is_said() {
    let Some(bed) = Bed::new(&[]) else { return };
    let refused = |args: &str, status, why: &str| {
        let output = bed.run_net(&format!("ping -c 1 {args} {KERNEL}"));
        assert_eq!(output.status.code(), Some(status), "{}", both(&output));
        assert!(both(&output).contains(why), "{why}: {}", both(&output));
    };
    refused("--ggp", 2, "--by-daemon");
    refused("--ggp --by-daemon --timestamp", 2, "cannot be used with");
    let mut switch = bed.switch("");
    refused("--by-daemon", 1, "no icmpd takes requests there");
    let mut icmpd = bed.icmpd("");
    refused("--by-daemon --ggp", 1, "this icmpd does not speak GGP (icmpd --ggp does)");
    icmpd.end();
    switch.end();
}

#[test]
fn a_program_or_a_daemon_that_goes_away_leaves_nothing() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("");
    let mut icmpd = bed.icmpd("");
    let line = format!("ping --by-daemon --tun weir0 -i 1ms {KERNEL}");
    let program = bed.net(&line);
    program.said("sequence 3,");
    assert_eq!(stations(&bed), 2);
    program.kill(Signal::KILL);
    until("its station goes", || stations(&bed) == 1);
    let mut program = bed.net(&line);
    program.said("sequence 3,");
    icmpd.end();
    assert_eq!(program.ended().code(), Some(1), "{}", program.printed());
    assert!(program.printed().contains("icmpd has ended"), "{}", program.printed());
    // A daemon that dies, and one whose switch ends, do so too.
    for kills_daemon in [true, false] {
        let mut icmpd = bed.icmpd("");
        let mut program = bed.net(&line);
        program.said("sequence 3,");
        if kills_daemon {
            icmpd.kill(Signal::KILL)
        } else {
            switch.end()
        }
        assert_eq!(program.ended().code(), Some(1), "{}", program.printed());
        icmpd.ended();
    }
}

#[test]
fn many_programs_at_once_are_served_or_refused() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("");
    let mut icmpd = bed.icmpd("");
    let line = format!("ping --by-daemon --tun weir0 -i 10ms {KERNEL}");
    // Each asks until it is ended, so that exactly 16 are served at a time.
    let mut programs: Vec<_> = (0..16).map(|_| bed.net(&line)).collect();
    programs.iter().for_each(|program| drop(program.said("sequence 2,")));
    let output = bed.run_net(&format!("ping --by-daemon --tun weir0 -c 1 {KERNEL}"));
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    assert!(both(&output).contains("too many requests at a time"), "{}", both(&output));
    programs.iter_mut().for_each(crate::common::net::Process::end);
    until("there is room again", || stations(&bed) == 1);
    assert_eq!(ask(&bed, &format!("-c 2 -i 1ms {KERNEL}"))["replies"], 2);
    icmpd.end();
    switch.end();
}

/// Says this to the daemon, and returns its last word.
fn say(bed: &Bed, records: &[&[u8]]) -> String {
    let path = bed.directory.path().join("weir/net/weir0/icmpd:requests");
    let channel = RecordDuplex::connect(path, &Options::new());
    let RecordDuplex { mut writer, mut reader } = channel.expect("a daemon");
    let (mut last, mut reply) = (String::new(), vec![0; 70_000]);
    for record in records {
        // It may have refused the one before.
        let _ = writer.send(record);
        let got = reader.receive_timeout(&mut reply, Duration::from_secs(20)).expect("a word");
        let Some(bytes) = got else { return last };
        last = String::from_utf8_lossy(&reply[..bytes]).into_owned();
    }
    last
}

#[test]
fn what_is_no_request_is_refused_and_harms_nobody() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("");
    let mut icmpd = bed.icmpd("--ggp");
    let deep = "[".repeat(10_000);
    let other = r#"{"pid":1,"destination":"10.9.0.1","ggp":0}"#;
    let long = format!("{}\0more", r#"{"pid":1,"destination":"10.9.0.1","ggp":false}"#);
    for nonsense in ["", "{}", "\0", "null", &deep, other, &long] {
        let said = say(&bed, &[nonsense.as_bytes()]);
        assert!(said.contains("the request cannot be understood"), "{nonsense:.50}: {said}");
    }
    let good = |ggp| format!(r#"{{"pid":1,"destination":"{KERNEL}","ggp":{ggp}}}"#);
    for ggp in [false, true] {
        let good = good(ggp);
        // A reply, somebody else's identifier, nothing at all: nothing of it is sent.
        for wrong in [&[0_u8; 28][..], &[8; 28], &[], &[8; 60_000]] {
            let said = say(&bed, &[good.as_bytes(), wrong]);
            assert!(said.contains("that is not a request"), "{ggp} {:?}: {said}", wrong.len());
        }
    }
    until("nothing of it is left", || stations(&bed) == 1);
    assert_eq!(bed.stat()["datagrams_sent"], 0);
    assert_eq!(ask(&bed, &format!("-c 2 -i 1ms {HOST}"))["replies"], 2);
    icmpd.end();
    switch.end();
}
