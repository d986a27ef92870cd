//! `weir net`: which switch it means if none is named, what it says if none is up, what the kernel
//! sends by itself, and what a killed switch leaves behind (docs/contracts/net.md).

use crate::common::net::{Bed, HOST, KERNEL, Process, both};
use crate::common::{WEIR, until};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};

#[test]
fn the_only_switch_that_is_up_is_meant() {
    let Some(bed) = Bed::new(&[]) else { return };
    bed.switch("").end();
    // The log of another device, while weir0 has its own.
    let mut other = bed.net("up --tun other1 --addr 10.8.0.2/24 --peer 10.8.0.1 --inline");
    other.said("other1 is up");
    assert!(
        bed.ok(&format!("{} net stat", crate::common::WEIR))
            .contains("switch        other1: 10.8.0.2/24")
    );
    let ping = bed.ok(&format!("{} net ping -c 3 -i 10ms 10.8.0.1", crate::common::WEIR));
    assert!(ping.contains("3 sent, 3 received, 0% loss\nrtt min/mean/p50/max = "), "{ping}");
    let named = both(&bed.run_net("stat --tun weir0"));
    assert!(named.contains("of 'weir0': it is not up (up: other1)"), "{named}");
    let mut third = bed.net("up --tun third1 --addr 10.7.0.2/24 --peer 10.7.0.1 --inline");
    third.said("third1 is up");
    let output = bed.run_net("stat");
    assert_eq!(output.status.code(), Some(2), "{}", both(&output));
    assert!(
        both(&output).contains("several switches are up (other1, third1): name one with --tun")
    );
    third.end();
    other.end();
    let log = bed.run_net("log");
    let said = String::from_utf8_lossy(&log.stderr).into_owned();
    assert!(log.status.success(), "{said}");
    let told = "weir: the switch on 'weir0' has ended (none is up; weir net up starts one); \
                this is its log, last written 20";
    assert!(said.starts_with(told) && said.lines().count() == 1, "{said}");
}

#[test]
fn the_only_log_there_is_is_meant() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut other = bed.net("up --tun other1 --addr 10.8.0.2/24 --peer 10.8.0.1 --inline");
    other.said("other1 is up");
    other.end();
    let log = bed.run_net("log");
    assert!(log.status.success(), "{}", both(&log));
    assert!(both(&log).contains("weir: the switch on 'other1' has ended"), "{}", both(&log));
}

/// A daemon that weir started through /proc/self/exe was once called "exe" in the list of stations.
#[test]
fn a_daemon_that_the_switch_starts_is_called_weir() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--icmpd");
    switch.said("icmpd answers");
    let stat = bed.run_net("stat --json -");
    let stat: serde_json::Value = serde_json::from_slice(&stat.stdout).expect("JSON");
    assert_eq!(stat["stations"][0]["command"], "weir-net", "{stat}");
    switch.end();
}

#[test]
fn a_log_of_a_switch_that_is_up_is_printed_without_a_word() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("");
    let log = bed.run_net("log");
    assert_eq!((log.status.code(), log.stderr.as_slice()), (Some(0), &b""[..]), "{}", both(&log));
    switch.end();
}

#[test]
fn ipv6_of_the_kernel_is_told_apart() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let mut switch = bed.switch("--inline");
    bed.run("sysctl -qw net.ipv6.conf.weir0.disable_ipv6=0");
    // The kernel asks for routers by itself, or else for this address.
    bed.run("ip -6 address add fd00::1/64 dev weir0 nodad");
    bed.run("ping -6 -n -c 1 -W 1 fd00::2");
    if bed.drops("ipv6") == 0 {
        eprintln!("SKIPPED: this kernel sends no IPv6");
        return;
    }
    assert_eq!(bed.drops("version"), 0);
    let stat = bed.ok(&format!("{} net stat", crate::common::WEIR));
    assert!(stat.contains("dropped       nothing\n"), "{stat}");
    assert!(stat.contains(" packets dropped: not supported"), "{stat}");
    let log = bed.ok(&format!("{} net log", crate::common::WEIR));
    assert!(log.contains(" drop     IPv6, ") && log.contains(" bytes: not supported"), "{log}");
    let refused = bed.run_net("up --addr fd00::2/64 --peer 10.9.0.1");
    assert!(both(&refused).contains("only IPv4 is supported"), "{}", both(&refused));
    switch.end();
}

#[test]
fn who_asks_for_the_counts_is_no_station() {
    let Some(bed) = Bed::new(&[]) else { return };
    let (mut switch, mut icmpd) = (bed.switch(""), bed.icmpd(""));
    let stat = bed.stat();
    assert_eq!(stat["stations"].as_array().map(Vec::len), Some(1), "{stat}");
    let text = bed.ok(&format!("{} net stat", crate::common::WEIR));
    assert!(text.contains(" receives ICMP: ") && !text.contains("receives nothing"), "{text}");
    icmpd.end();
    switch.end();
}

/// The first processes of two containers that share the directory of the switch have the same number:
/// the second one was refused. And who asks for the counts was a station there.
#[test]
fn processes_of_several_pid_namespaces_attach() {
    let Some(bed) = Bed::new(&[]) else { return };
    let mut switch = bed.switch("--inline");
    let apart = |args: &str| {
        let mut command = bed.command("unshare");
        command.args(["-p", "-f", "--kill-child", WEIR, "net"]).args(args.split(' '));
        Process::start(command)
    };
    let first = apart("ping -i 10ms 10.9.0.1");
    first.said("bytes from 10.9.0.1");
    apart("ping -c 1 10.9.0.1").said("1 sent, 1 received");
    let mut stat = apart("stat");
    stat.said("redirects");
    assert_eq!(stat.ended().code(), Some(0));
    let said = stat.printed();
    assert!(said.contains(" receives ICMP port ") && !said.contains("receives nothing"), "{said}");
    drop(first);
    switch.end();
}

/// Whether the kernel still has a namespace mounted there.
fn is_there(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

#[test]
fn what_a_killed_switch_has_left_gives_way_and_nothing_else() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let name = format!("weir-kill-{}", std::process::id());
    let up = format!("up --addr {HOST}/24 --peer {KERNEL} --netns {name} --inline");
    let killed = bed.net(&up);
    killed.said("weir0 is up");
    // A switch that lives keeps its namespace.
    let output = bed.run_net(&format!("{up} -- true"));
    assert!(both(&output).contains("the switch that made it is up"), "{}", both(&output));
    assert!(is_there(&name));
    let pid = Pid::from_raw(killed.pid().cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
    until("it is dead", || {
        let output = bed.run_net(&format!("{up} -- ping -n -c 1 {HOST}"));
        if !output.status.success() {
            assert!(both(&output).contains("the switch that made it is up"), "{}", both(&output));
            return false;
        }
        assert!(both(&output).contains("was left by a switch that died"), "{}", both(&output));
        true
    });
    assert!(!is_there(&name) && !PathBuf::from("/run/weir-netns").join(&name).exists());
    // A namespace that another program made is left alone.
    bed.ok(&format!("ip netns add {name}"));
    let output = bed.run_net(&format!("{up} -- true"));
    assert!(both(&output).contains("it exists already"), "{}", both(&output));
    assert!(is_there(&name));
    bed.ok(&format!("ip netns delete {name}"));
}
