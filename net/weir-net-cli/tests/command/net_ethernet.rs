//! `weir net up --ethernet`: hosts of weir and of the kernel on one wire (docs/contracts/net.md).

use crate::common::net::{Bed, HOST, KERNEL, Process, both};
use crate::common::until;
use std::fs;

const SECOND: &str = "10.9.0.3";

/// A bridge with the kernel of one namespace on it, and two namespaces whose device weir0 is an end
/// of a wire to it.
struct Wire {
    kernel: Bed,
    hosts: [Bed; 2],
}

impl Wire {
    fn new(programs: &[&str]) -> Option<Wire> {
        let (kernel, one, other) = (Bed::new(programs)?, Bed::new(&[])?, Bed::new(&[])?);
        let made = kernel.run("ip link add wire type bridge");
        if !made.status.success() {
            eprintln!("SKIPPED: no bridge: {}", both(&made));
            return None;
        }
        kernel.ok(&format!("ip addr add {KERNEL}/16 dev wire"));
        let hosts = [one, other];
        for (number, host) in hosts.iter().enumerate() {
            let place = host.namespace();
            let pid = place.iter().nth(2).expect("/proc/PID").to_str().expect("a number");
            kernel.ok(&format!("ip link add end{number} type veth peer name weir0 netns {pid}"));
            kernel.ok(&format!("ip link set end{number} master wire up"));
            host.ok("ip link set weir0 up");
        }
        kernel.ok("ip link set wire up");
        Some(Wire { kernel, hosts })
    }
}

fn up(bed: &Bed, address: &str, options: &str) -> Process {
    let switch = bed.net(&format!("up --ethernet weir0 --addr {address}/16 {options}"));
    switch.said(&format!("weir0 is up: {address}/16, on an Ethernet"));
    until("it answers", || !bed.stat()["ethernet"].is_null());
    switch
}

/// Bytes of which no two stretches are alike.
fn contents() -> Vec<u8> {
    (0..80_000_u64)
        .flat_map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7).to_le_bytes())
        .collect()
}

#[test]
fn hosts_of_weir_and_of_the_kernel_are_on_one_wire() {
    let Some(wire) = Wire::new(&["ping", "curl"]) else { return };
    let Wire { kernel, hosts: [one, other] } = &wire;
    let mut switches = [up(one, HOST, "--icmpd"), up(other, SECOND, "--inline")];
    switches[0].said("icmpd answers");
    for host in [HOST, SECOND] {
        for size in ["56", "4000", "20000"] {
            let text = kernel.ok(&format!("ping -n -c 2 -i 0.01 -s {size} {host}"));
            assert!(text.contains("2 received, 0% packet loss"), "{text}");
        }
    }
    for (from, to) in [(one, KERNEL), (other, KERNEL), (one, SECOND), (other, HOST)] {
        let ran = from.run_net(&format!("ping -c 2 -i 10ms -s 4000 {to}"));
        assert!(both(&ran).contains("2 sent, 2 received"), "to {to}: {}", both(&ran));
    }

    let directory = one.directory.path().join("served");
    fs::create_dir(&directory).expect("made");
    fs::write(directory.join("file"), contents()).expect("written");
    let serves = directory.display();
    let tftpd = one.net(&format!("tftpd {serves}"));
    tftpd.said("tftpd serves");
    let server = one.net(&format!("serve --http {serves}"));
    server.said("serve is up at");
    kernel.ok(&format!("curl -sS -o by-tftp tftp://{HOST}/file"));
    kernel.ok(&format!("curl -sS -o by-http http://{HOST}/file"));
    other.ok(&format!("{} net tftp get {HOST} file by-weir --window 16", crate::common::WEIR));
    let got = [kernel.directory.path().join("by-tftp"), kernel.directory.path().join("by-http")];
    for path in got.into_iter().chain([other.directory.path().join("by-weir")]) {
        assert!(fs::read(&path).expect("there") == contents(), "{} differs", path.display());
    }
    // A window of the kernel's side comes as one long segment, which the switch has to cut.
    let of_the_kernel = kernel.net(&format!("tftpd {serves} --socket --port 6969"));
    of_the_kernel.said("tftpd serves");
    let from = format!("tftp get {KERNEL} file by-window --window 16 --port 6969");
    let ran = other.run_net(&from);
    assert!(ran.status.success(), "{}", both(&ran));
    let path = other.directory.path().join("by-window");
    assert!(fs::read(path).expect("there") == contents(), "by-window differs");
    for host in [one, other] {
        // The bridge asks all who is in which group.
        let drops = host.stat()["drops"].clone();
        let drops = drops.as_object().expect("counts");
        assert!(drops.keys().all(|why| why == "broadcast"), "{drops:?}");
    }
    [tftpd, server, of_the_kernel].iter_mut().for_each(Process::end);
    switches.iter_mut().for_each(Process::end);
}

#[test]
fn a_hostile_wire_is_told_one_address_and_changes_nothing() {
    let Some(wire) = Wire::new(&["ping"]) else { return };
    let Wire { kernel, hosts: [one, _] } = &wire;
    let mut switch = up(one, HOST, "--inline");
    let lives = || {
        let text = kernel.ok(&format!("ping -n -c 2 -i 0.01 {HOST}"));
        assert!(text.contains("2 received, 0% packet loss"), "{text}");
    };
    lives();
    let of_kernel = || {
        let stat = one.stat();
        let neighbours = stat["ethernet"]["neighbours"].as_array().expect("a list").clone();
        assert!(neighbours.len() <= 256, "{}", neighbours.len());
        let known = neighbours.iter().find(|it| it["address"] == KERNEL).expect("known");
        known["at"].as_str().expect("told").to_owned()
    };
    let at = of_kernel();
    let crowd = kernel.script("arp.py wire crowd");
    assert_eq!(crowd["told"], serde_json::json!([HOST]), "{crowd}");
    assert_eq!(of_kernel(), at);
    lives();
    let garbage = kernel.script("arp.py wire garbage 2000 7");
    assert!(garbage["told"].as_array().is_some_and(|told| told.len() <= 1), "{garbage}");
    assert!(one.stat()["ethernet"]["disbelieved"].as_u64() > Some(1000));
    assert_eq!(of_kernel(), at);
    lives();
    switch.end();
}

#[test]
fn who_does_not_answer_is_dropped_with_the_reason() {
    let Some(wire) = Wire::new(&[]) else { return };
    let [one, _] = &wire.hosts;
    let mut switch = up(one, HOST, "--icmpd");
    let ran = one.run_net("ping -c 3 -i 10ms -W 10ms 10.9.0.77");
    assert_eq!(ran.status.code(), Some(1), "{}", both(&ran));
    until("its packets are dropped", || one.drops("no-neighbour") == 3);
    assert_eq!(one.stat()["ethernet"]["questions_out"], 3);
    // Without a gateway, another net is nowhere.
    let ran = one.run_net("ping -c 1 -W 10ms 192.0.2.1");
    assert_eq!(ran.status.code(), Some(1), "{}", both(&ran));
    assert_eq!(one.drops("no-route"), 1);
    // Nor is there a kernel on the other side whose users might have a terminal.
    let ran = one.run_net("serve --telnet true");
    assert!(both(&ran).contains("cannot serve a terminal on an Ethernet"), "{}", both(&ran));
    switch.end();
}

#[test]
fn a_device_that_cannot_be_used_is_named_with_the_reason() {
    let Some(wire) = Wire::new(&[]) else { return };
    let [one, _] = &wire.hosts;
    let refused = |options: &str, why: &str| {
        let ran = one.run_net(&format!("up --addr {HOST}/16 {options}"));
        assert!(matches!(ran.status.code(), Some(1 | 2)), "{}", both(&ran));
        assert!(both(&ran).contains(why), "{why}: {}", both(&ran));
    };
    refused("--ethernet lo", "cannot use device 'lo': it is not an Ethernet device");
    refused("--ethernet nowhere", "cannot use device 'nowhere': there is none of that name");
    refused("--ethernet weir0 --mtu 9000", "it takes packets of 1500 bytes at most");
    refused("--ethernet weir0 --peer 10.9.0.1", "cannot be used with");
    refused("", "--peer");
    one.ok("ip link set weir0 down");
    refused("--ethernet weir0", "cannot use device 'weir0': it is switched off");
    one.ok("ip link set weir0 up");
    for options in ["--icmpd", "--inline"] {
        let mut switch = up(one, HOST, options);
        one.ok("ip link set weir0 down");
        one.ok("ip link set weir0 up");
        let ran = one.run_net(&format!("ping -c 1 -i 10ms {KERNEL}"));
        assert!(both(&ran).contains("1 sent, 1 received"), "{}", both(&ran));
        if options == "--icmpd" {
            switch.end();
            continue;
        }
        one.ok("ip link del weir0");
        assert_eq!(switch.ended().code(), Some(1), "{}", switch.printed());
        switch.said("cannot read from device 'weir0': it is gone");
    }
}
