//! `weir net`: what errors the host sends about datagrams it cannot use, when it sends none, and
//! which errors it believes (docs/contracts/net.md, RFC 792, 823, 1122).

use crate::common::WEIR;
use crate::common::net::{ANSWERS, Answers, Bed};
use serde_json::{Value, json};

#[test]
fn protocols_and_ports_that_nobody_has_are_reported_to_be_unreachable() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("errors.py unreachable");
        let error = |name: &str, code: u64| {
            let error = &outcome[name];
            let seen = (&error["type"], &error["code"], &error["quotes"]);
            assert_eq!(seen, (&3.into(), &code.into(), &true.into()), "{name}: {outcome}");
        };
        error("protocol 253", 2);
        error("port 9", 3);
        assert_eq!(bed.script("errors.py refused"), "ECONNREFUSED");
        assert_eq!(bed.stat()["drops"], json!({"no_port": 2, "no_protocol": 1}));
        host.end();
    }
}

#[test]
fn errors_are_few_however_many_datagrams_come() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("errors.py flood 10000");
        let (errors, took_s) = (outcome["errors"].as_u64(), outcome["took_s"].as_f64());
        let (errors, took_s) = errors.zip(took_s).expect("both");
        // One host gets six at once, and then ten a second.
        assert!(errors >= 6 && errors as f64 <= 7.0 + 10.0 * took_s, "{outcome}");
        assert_eq!(bed.drops("no-port"), 10_000);
        host.end();
    }
}

/// For each kind: how many were sent, and the answers that came.
fn kinds(outcome: &Value) -> impl Iterator<Item = (&str, u64, &Value)> {
    let outcome = outcome.as_object().expect("kinds");
    outcome.iter().map(|(kind, said)| {
        (kind.as_str(), said["sent"].as_u64().expect("a count"), &said["answers"])
    })
}

/// How many were sent in all. None may be answered.
fn silent(outcome: &Value) -> u64 {
    kinds(outcome)
        .map(|(kind, sent, answers)| {
            assert_eq!(*answers, json!([]), "{kind}");
            sent
        })
        .sum()
}

#[test]
fn nothing_is_sent_to_who_cannot_have_asked() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let sent = silent(&bed.script("hostile.py sources"));
        assert_eq!((sent, &bed.stat()["drops"]), (90, &json!({"source": 90})));
        host.end();
    }
}

#[test]
fn what_is_not_for_this_host_alone_is_not_answered() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        assert_eq!(silent(&bed.script("hostile.py destinations")), 63);
        assert_eq!(bed.stat()["drops"], json!({"broadcast": 45, "not_for_us": 18}));
        host.end();
    }
}

#[test]
fn errors_and_messages_that_cannot_be_are_not_answered() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        assert_eq!(silent(&bed.script("hostile.py icmp")), 42);
        host.end();
    }
}

#[test]
fn source_routes_are_refused_with_the_reason() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("hostile.py routes");
        for (kind, _, told) in kinds(&outcome) {
            let error = &told[0];
            assert_eq!((&error["type"], &error["code"]), (&3.into(), &5.into()), "{kind}: {told}");
            assert_eq!(told.as_array().map(Vec::len), Some(1), "{kind}: {told}");
        }
        assert_eq!(bed.stat()["drops"], json!({"source_route": 3}));
        host.end_after_nonsense();
    }
}

#[test]
fn a_redirect_counts_only_from_the_gateway_in_use_to_a_neighbour() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let outcome = bed.script("errors.py redirect");
        let outcome = outcome.as_object().expect("cases");
        assert_eq!(outcome.len(), 7);
        assert!(outcome.values().all(|told| *told == json!([])), "{outcome:?}");
        let stat = bed.stat();
        assert_eq!((&stat["redirects_taken"], &stat["gateways"]), (&0.into(), &json!([])));
        assert_eq!(bed.script("errors.py redirect good"), json!({"good": []}));
        let stat = bed.stat();
        assert_eq!(stat["redirects_taken"], 1);
        let gateway = &stat["gateways"][0];
        let seen = (&gateway["destination"], &gateway["gateway"]);
        assert_eq!(seen, (&"192.0.2.5".into(), &"10.9.0.7".into()), "{stat}");
        // For that host, and for no other, the new gateway has replaced the old one.
        assert_eq!(bed.script("errors.py redirect good"), json!({"good": []}));
        let after = bed.stat();
        assert_eq!(
            (&after["redirects_taken"], after["gateways"].as_array().map(Vec::len)),
            (&1.into(), Some(1))
        );
        host.end();
    }
}

/// The announced routes that are in use: net, gateway, distance.
fn announced(stat: &Value) -> Vec<Value> {
    let routes = stat["announced"].as_array().expect("routes");
    let names = ["network", "gateway", "distance"];
    routes.iter().map(|route| json!(names.map(|name| route[name].clone()))).collect()
}

#[test]
fn routes_that_gateways_announce_are_used_and_shown() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "--ggp");
        let told = bed.script("errors.py routes");
        let answer = |to| json!([{"proto": 3, "dst": to, "bytes": 4}]);
        let expected = json!({
            "far": answer("10.9.0.7"), "near": answer("10.9.0.8"), "old": answer("10.9.0.7"),
            "stranger": [], "host itself": [], "cut": [], "redirects": [[], [], []],
        });
        assert_eq!(told, expected);
        let stat = bed.stat();
        let expected = [json!(["128.5.0.0", "10.9.0.8", 0]), json!(["192.5.7.0", "10.9.0.7", 3])];
        assert_eq!(announced(&stat), expected);
        assert_eq!(stat["announced_networks"], 2);
        // Of three redirects about a host of that net, the one of the gateway in use counts.
        assert_eq!(stat["redirects_taken"], 1);
        assert_eq!(stat["gateways"][0]["gateway"], "10.9.0.9", "{stat}");
        let text = bed.ok(&format!("{WEIR} net stat --tun weir0"));
        let line = "announced     to the net 128.5.0.0 through 10.9.0.8, distance 0 from there";
        assert!(text.contains(line), "{text}");
        host.end();
    }
}

#[test]
fn a_crowd_of_gateways_with_many_nets_is_bounded() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "--ggp");
        let told = bed.script("errors.py routes crowd");
        assert_eq!(told, json!(vec![1; 40]), "each is acknowledged");
        let stat = bed.stat();
        assert_eq!(stat["announced_networks"], 16 * 200, "those of the last 16");
        assert_eq!(announced(&stat).len(), 64, "as many are named");
        let text = bed.ok(&format!("{WEIR} net stat --tun weir0"));
        assert!(text.contains("announced     3136 further nets"), "{text}");
        host.end();
    }
}

#[test]
fn gateways_are_spoken_to_only_where_asked_for() {
    let Some(bed) = Bed::new(&[]) else { return };
    for answers in ANSWERS {
        let host = bed.host(answers, "", "");
        let told = bed.script("errors.py ggp");
        let error = json!([{"proto": 1, "type": 3, "code": 2, "dst": "10.9.0.1", "bytes": 32}]);
        assert_eq!(told, error, "off");
        host.end();
        let host = bed.host(answers, "", "--ggp");
        let told = bed.script("errors.py ggp");
        assert_eq!(told, json!([{"proto": 3, "type": 0, "same": true, "bytes": 4}]), "on");
        host.end();
    }
}

#[test]
fn a_daemon_that_is_asked_to_answers_no_more_than_so_many_a_second() {
    let Some(bed) = Bed::new(&["ping"]) else { return };
    let host = bed.host(Answers::Daemon, "", "--echo-rate 5");
    let text = bed.run("ping -n -q -c 100 -l 100 -W 1 10.9.0.2");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let received = text.split(", ").find_map(|part| part.strip_suffix(" received"));
    let received: u32 = received.and_then(|count| count.parse().ok()).expect("a count");
    // Five at once and five a second. ping runs for a second or two.
    assert!((5..=50).contains(&received), "{text}");
    host.end();
}
