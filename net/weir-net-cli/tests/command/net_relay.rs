//! `weir net relay`: what it passes on, what it does not, and how it ends; and the switch behind it
//! (docs/contracts/net.md).

use crate::common::net::{Answers, Bed, HOST, Process, both};
use crate::common::schema;
use crate::common::until;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Two namespaces with a relay between them: the client's, whose device is set up as a switch's
/// device is, and the host's.
struct Between {
    client: Bed,
    host: Bed,
}

impl Between {
    fn new(programs: &[&str]) -> Option<Between> {
        Some(Between { client: Bed::new(programs)?, host: Bed::new(programs)? })
    }

    /// Starts a relay from the client at 10.9.0.1 to a kernel at 10.9.0.2.
    fn relay(&self, args: &str) -> Process {
        self.relay_at("10.9.0", args)
    }

    fn relay_at(&self, net: &str, args: &str) -> Process {
        let host = self.host.namespace();
        let right = format!("{}:host0:{net}.2/24", host.display());
        let line = format!("relay --left :weir0:{net}.1/24 --right {right} {args}");
        let relay = self.client.net(line.trim_end());
        relay.said("relay is up: weir0");
        relay
    }
}

/// Ends a relay, and returns its counts of both directions.
fn counts(mut relay: Process) -> [Value; 2] {
    relay.end();
    let document = || -> Option<Value> {
        let text = relay.printed();
        serde_json::from_str(&text[text.find('{')?..]).ok()
    };
    until("it has said what it counted", || document().is_some());
    let counts = document().expect("said");
    schema::check("weir.net.relay/1", &counts);
    [counts["to_right"].clone(), counts["to_left"].clone()]
}

fn number(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counts}"))
}

#[test]
fn a_relay_that_does_nothing_passes_everything() {
    let Some(between) = Between::new(&["ping"]) else { return };
    let relay = between.relay("--json -");
    for args in ["-c 100 -l 100 -q", "-c 2 -l 2 -s 60000 -p a5c3"] {
        let text = between.client.ok(&format!("ping -n {args} {HOST}"));
        assert!(text.contains(" 0% packet loss"), "{text}");
    }
    let [right, left] = counts(relay);
    assert_eq!(right, left);
    assert_eq!(number(&right, "packets_in"), 100 + 2 * 41);
    assert_eq!(number(&right, "packets_out"), number(&right, "packets_in"));
    for nothing in ["lost", "duplicated", "corrupted", "held_back", "overflowed", "refused"]
        .map(|what| format!("packets_{what}"))
    {
        assert_eq!(number(&right, &nothing), 0, "{nothing}");
    }
}

/// What the kernel of a namespace has counted of ICMP since the namespace was made.
fn icmp(bed: &Bed, name: &str) -> u64 {
    let text = bed.ok("cat /proc/net/snmp");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Icmp: "));
    let names = lines.next().expect("names").split(' ');
    let values = lines.next().expect("values").split(' ');
    let value = names.zip(values).find_map(|(known, value)| (known == name).then_some(value));
    value.expect("a name").parse().expect("a count")
}

#[test]
fn what_the_relay_counts_is_what_became_of_the_packets() {
    let run = || {
        let between = Between::new(&["ping"])?;
        let relay = between.relay("--loss 20% --duplicate 10% --seed 11 --json -");
        between.client.run(&format!("ping -n -q -c 300 -l 300 -W 1 {HOST}"));
        let [right, left] = counts(relay);
        assert_eq!(icmp(&between.host, "InEchos"), number(&right, "packets_out"));
        assert_eq!(icmp(&between.client, "InEchoReps"), number(&left, "packets_out"));
        Some([right, left])
    };
    let Some([right, left]) = run() else { return };
    assert_eq!(number(&right, "packets_in"), 300);
    let (lost, doubled) = (number(&right, "packets_lost"), number(&right, "packets_duplicated"));
    assert_eq!(number(&left, "packets_in"), 300 - lost + doubled);
    assert!((30..=90).contains(&lost) && (10..=60).contains(&doubled), "{right}");
    // The same seed and packets give the same losses.
    assert_eq!(run(), Some([right, left]));
}

#[test]
fn packets_overtake_each_other_and_take_their_time() {
    let Some(between) = Between::new(&["ping"]) else { return };
    let relay = between.relay("--reorder 20% --behind 2 --delay 20ms --seed 5 --json -");
    let text = between.client.ok(&format!("ping -n -c 100 -l 100 {HOST}"));
    assert!(text.contains("100 received, 0% packet loss"), "{text}");
    let figure = |line: &str, name: &str| -> Option<f64> {
        line.split(' ').find_map(|word| word.strip_prefix(name))?.parse().ok()
    };
    let replies: Vec<_> = text.lines().filter(|line| line.contains("icmp_seq=")).collect();
    let orders: Vec<_> = replies.iter().filter_map(|line| figure(line, "icmp_seq=")).collect();
    assert!(orders.windows(2).any(|two| two[1] < two[0]), "{text}");
    let times = replies.iter().filter_map(|line| figure(line, "time="));
    // The delay of both ways, within the precision of the waiting side's clock.
    assert!(times.clone().count() == 100 && times.clone().all(|ms| ms >= 39.0), "{text}");
    let [right, left] = counts(relay);
    assert!(
        number(&right, "packets_held_back") > 5 && number(&left, "packets_held_back") > 5,
        "{right}"
    );
}

#[test]
fn a_relay_ends_when_told_to_and_when_a_device_goes() {
    let Some(between) = Between::new(&["ping"]) else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut relay = between.relay("--seed 3");
        relay.kill(signal);
        assert_eq!(relay.ended().code(), Some(0), "{}", relay.printed());
        for line in ["to the right", "taken", "held back", "refused", "seed 3"] {
            relay.said(line);
        }
        // Its devices are gone as well.
        assert!(!between.host.run("ip link show host0").status.success());
    }
    let mut relay = between.relay("");
    between.host.ok("ip link del host0");
    assert_eq!(relay.ended().code(), Some(1), "{}", relay.printed());
    relay.said("weir: cannot use 'host0': the device was removed");
}

#[test]
fn wrong_ends_are_reported() {
    let Some(bed) = Bed::new(&[]) else { return };
    let relay = |ends: &str, status: i32, why: &str| {
        let output = bed.run_net(&format!("relay {ends}"));
        assert_eq!(output.status.code(), Some(status), "{}", both(&output));
        assert!(both(&output).contains(why), "{why}: {}", both(&output));
    };
    let right = "--right :b:10.8.0.2/24";
    relay(right, 2, "--left");
    relay(&format!("--left a:10.8.0.1/24 {right}"), 2, "write NETNS:DEVICE:ADDRESS/BITS");
    relay(&format!("--left :a:10.8.0.1/24 {right} --loss 5"), 2, "write 5%, 0.1% or 100%");
    relay(&format!("--left :a:10.8.0.1/24 {right} --loss 101%"), 2, "more than 100%");
    relay(&format!("--left :a:10.8.0.1/24 {right} --delay 5ms-1ms"), 2, "shorter");
    let nowhere = format!("--left /nowhere/net:a:10.8.0.1/24 {right}");
    relay(&nowhere, 1, "weir: cannot enter network namespace '/nowhere/net': No such file");
    let twice = "--left :a:10.8.0.1/24 --right :a:10.8.0.2/24";
    relay(twice, 1, "weir: cannot make device 'a': another process has it");
    let other = format!("--left :lo:10.8.0.1/24 {right}");
    relay(&other, 2, "weir: cannot make device 'lo': a device of another kind has that name");
}

/// The kernel of the host's namespace passes packets on to the switch there.
fn forwards(between: &Between) {
    between.host.ok("sysctl -qw net.ipv4.ip_forward=1");
    between.client.ok("ip route add 10.9.0.0/24 via 10.8.0.2");
}

#[test]
fn a_host_behind_a_bad_net_answers_right_or_not_at_all() {
    let Some(between) = Between::new(&["ping"]) else { return };
    let host = between.host.host(Answers::Daemon, "--reassembly-timeout 500ms", "");
    let relay = between.relay_at(
        "10.8.0",
        "--loss 10% --duplicate 5% --reorder 10% --corrupt 5% --delay 100us-2ms --seed 20 --json -",
    );
    forwards(&between);
    for size in [56, 1473, 4000] {
        let args = format!("ping -n -q -c 150 -l 150 -W 1 -s {size} -p a5c3960f {HOST}");
        let text = both(&between.client.run(&args));
        let came = text.split(", ").find_map(|part| part.strip_suffix(" received"));
        let came: u64 = came.and_then(|count| count.parse().ok()).expect("a count");
        // At 4000 bytes all six fragments must get through undamaged: a fifth of the datagrams do.
        assert!((5..150).contains(&came), "{text}");
        for wrong in ["wrong data byte", "BAD CHECKSUM"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }
    // Incomplete datagrams are given up in time, and nothing waits for ever.
    until("all is given up", || between.host.stat()["reassembly"]["datagrams"] == 0);
    let stat = between.host.stat();
    let known = ["reassembly_timeout", "duplicate_fragment", "overlap", "bad_fragment"];
    let drops = stat["drops"].as_object().expect("drops");
    let other: Vec<_> = drops.keys().filter(|why| !known.contains(&why.as_str())).collect();
    assert_eq!(other, Vec::<&String>::new(), "what came through the kernel has a sound header");
    let [right, left] = counts(relay);
    // The kernel drops packets with a bad header. All others arrived and are accounted for.
    let delivered = number(&right, "packets_out");
    assert!(number(&stat, "packets_in") <= delivered, "{stat} {right}");
    assert!(
        number(&right, "packets_corrupted") > 20 && number(&right, "packets_lost") > 50,
        "{right}"
    );
    assert!(number(&left, "packets_in") <= number(&stat, "packets_out") + 100, "{left}");
    host.end();
}

/// Checks the bed itself: Linux plays the same games and does what it is known to do
/// (ip_fragment.c: an overlap drops the whole datagram, except for a fragment that has already come
/// in full, whatever it holds).
#[test]
fn the_games_find_in_linux_what_is_known_of_it() {
    let Some(between) = Between::new(&[]) else { return };
    let mut relay = between.relay("");
    for (game, outcome) in between.client.script("fragments.py orders").as_object().expect("games")
    {
        let right = json!({"answered": 1, "right": 1, "others": [], "honest": 1});
        assert_eq!(*outcome, right, "{game}");
    }
    let outcomes = between.client.script("fragments.py overlaps");
    for (game, outcome) in outcomes.as_object().expect("games") {
        // The forged fragment came first, and the kernel believes it. That can be seen from here.
        let deceived = game == "the same, forged first";
        let first = deceived || game == "the same, forged second" || game == "one within another";
        assert_eq!(outcome["answered"], u64::from(first), "{game}");
        assert_eq!(outcome["right"], u64::from(first && !deceived), "{game}");
    }
    relay.end();
}
