//! How many errors go out, in virtual time; and that no datagram uses up memory.

use crate::{PEER, PREFIX_BITS, SECOND_NS, US, World, datagram, header, message, ours, packets};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_net::icmp::{
    Answers, Engine, IcmpSettings, MOST_DESTINATIONS, Notice, TokenRate, Undeliverable,
};
use weir_net::outgoing::Outgoing;
use weir_net::wire::ggp::Update;
use weir_net::wire::icmp::{Message, Quoted};
use weir_net::wire::ipv4::{Datagram, Header, protocol};

const PLENTY: TokenRate = TokenRate { per_s: 1, burst: 1_000_000 };

fn world(errors: TokenRate, errors_to_one: TokenRate) -> World {
    World::new(IcmpSettings { errors, errors_to_one, ..IcmpSettings::new(US, PREFIX_BITS) })
}

fn host(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 + number)
}

impl World {
    /// Makes a datagram of that host undeliverable. Returns whether an error was sent.
    fn provoke(&mut self, number: u32) -> bool {
        let from = Header { protocol: protocol::UDP, source: host(number), ..header() };
        self.undeliverable(&datagram(from, &[], &[7; 10]), Undeliverable::Port);
        self.heard.sent.pop().is_some()
    }

    fn provoke_often(&mut self, number: u32, often: usize) -> usize {
        (0..often).filter(|_| self.provoke(number)).count()
    }
}

#[test]
fn one_destination_gets_six_at_once_and_ten_a_second() {
    let mut world = World::default();
    assert_eq!(world.provoke_often(1, 100), 6);
    assert_eq!(world.counts().unsent_rate_one, 94);
    // The next token is there after a tenth of a second, not a nanosecond before.
    world.heard.now_ns = SECOND_NS / 10 - 1;
    assert!(!world.provoke(1));
    world.heard.now_ns += 1;
    assert!(world.provoke(1) && !world.provoke(1));
    // A minute later there are six again, not six hundred.
    world.heard.now_ns += 60 * SECOND_NS;
    assert_eq!(world.provoke_often(1, 100), 6);
}

#[test]
fn all_together_get_fifty_at_once_and_a_thousand_a_second() {
    let mut world = World::default();
    assert_eq!((0..200).filter(|number| world.provoke(*number)).count(), 50);
    assert_eq!(world.counts().unsent_rate, 150);
    world.heard.now_ns += 1_000_000 - 1;
    assert!(!world.provoke(500));
    world.heard.now_ns += 1;
    assert!(world.provoke(500) && !world.provoke(501));
}

#[test]
fn one_destination_does_not_use_up_what_there_is_for_others() {
    let mut world = World::default();
    world.provoke_often(1, 10_000);
    assert_eq!((2..100).filter(|number| world.provoke(*number)).count(), 44);
}

#[test]
fn what_is_forbidden_to_all_costs_a_destination_nothing() {
    let mut world = world(TokenRate { per_s: 1, burst: 1 }, TokenRate { per_s: 0, burst: 2 });
    assert_eq!(world.provoke_often(1, 50), 1);
    world.heard.now_ns = SECOND_NS;
    assert_eq!(world.provoke_often(1, 50), 1);
    world.heard.now_ns = 9 * SECOND_NS;
    assert_eq!(world.provoke_often(1, 50), 0);
}

#[test]
fn the_table_is_bounded_and_the_oldest_gives_way() {
    let most = MOST_DESTINATIONS as u32;
    let mut world = world(PLENTY, TokenRate { per_s: 0, burst: 1 });
    for number in 0..most {
        world.heard.now_ns = u64::from(number);
        assert!(world.provoke(number) && !world.provoke(number));
    }
    // All hosts are remembered. One more makes the engine forget the first, and no other.
    assert!((0..most).all(|number| !world.provoke(number)));
    world.heard.now_ns = u64::from(most);
    assert!(world.provoke(most));
    assert!((1..=most).all(|number| !world.provoke(number)));
    assert!(world.provoke(0));
}

#[test]
fn a_clock_that_goes_back_brings_nothing() {
    let slow = TokenRate { per_s: 1, burst: 1 };
    for (errors, errors_to_one) in [(PLENTY, slow), (slow, PLENTY)] {
        let mut world = world(errors, errors_to_one);
        world.heard.now_ns = 10 * SECOND_NS;
        assert!(world.provoke(1));
        world.heard.now_ns = 0;
        assert!(!world.provoke(1));
        world.heard.now_ns = 10 * SECOND_NS + 999_999_999;
        assert!(!world.provoke(1));
        world.heard.now_ns += 1;
        assert!(world.provoke(1));
    }
}

#[test]
fn no_burst_is_no_error_and_the_end_of_time_no_overflow() {
    let mut none = world(PLENTY, TokenRate { per_s: 1000, burst: 0 });
    none.heard.now_ns = 5 * SECOND_NS;
    assert!(!none.provoke(1));
    let most = TokenRate { per_s: u32::MAX, burst: u32::MAX };
    let mut all = world(most, most);
    assert!(all.provoke(1));
    all.heard.now_ns = u64::MAX;
    assert!(all.provoke(1));
}

/// An observer that keeps nothing, so that it takes no memory itself.
struct Deaf;

impl Answers for Deaf {
    fn send_parts(&mut self, _: Outgoing<'_>, _: &[u8], _: &[u8]) {}

    fn gateway_of(&mut self, _: Ipv4Addr) -> Option<Ipv4Addr> {
        Some(PEER)
    }

    fn redirect(&mut self, _: Ipv4Addr, _: Ipv4Addr) {}

    fn announce(&mut self, _: Ipv4Addr, _: &Update<'_>) {}

    fn now_ns(&mut self) -> u64 {
        0
    }

    fn ms_since_midnight_ut(&mut self) -> u32 {
        0
    }

    fn notice(&mut self, _: Notice) {}
}

#[test]
fn no_datagram_takes_memory() {
    let settings = IcmpSettings { ggp: true, errors: PLENTY, ..IcmpSettings::new(US, PREFIX_BITS) };
    let mut engine = Engine::new(settings);
    let update = [12, 0, 0, 1, 1, 1, 0, 2, 11, 128, 9];
    let from = |number: u32| Header { source: Ipv4Addr::from(0x0a09_0010 + number), ..header() };
    let ggp = |number| {
        let header = Header { protocol: protocol::GGP, ..from(number) };
        datagram(header, &[], &update)
    };
    let ours = ours();
    let quoted = Quoted::check(&ours).expect("a datagram");
    let errors = [
        message(&Message::TimeExceeded { code: 0, quoted }),
        message(&Message::Redirect { code: 1, gateway: Ipv4Addr::new(10, 9, 0, 9), quoted }),
    ];
    let errors = errors.map(|error| datagram(header(), &[], &error));
    let asked = [packets::PING, packets::PING_ROUTE, packets::TIMESTAMP].map(packets::bytes);
    let gateways: Vec<Vec<u8>> = (0..40).map(ggp).collect();
    let all = || asked.iter().chain(&errors).chain(&gateways);
    let unheard: Vec<Vec<u8>> = (0..1000)
        .map(|number| datagram(Header { source: host(number), ..header() }, &[], &[8; 40]))
        .collect();
    let taken = allocation_counter::measure(|| {
        for bytes in all() {
            let datagram = Datagram::check(bytes).expect("a datagram");
            engine.take(&datagram, &mut Deaf);
        }
        for bytes in &unheard {
            engine.undeliverable(bytes, Undeliverable::ReassemblyTimeout, &mut Deaf);
        }
    });
    assert_eq!((taken.count_total, taken.bytes_total), (0, 0));
    // All of it did something.
    let counts = engine.counts();
    assert_eq!((counts.echoes_answered, counts.timestamps_answered), (2, 1));
    assert_eq!((counts.notices_given, counts.redirects_taken), (1, 1));
    assert_eq!((counts.ggp_updates_accepted, counts.ggp_updates_sent), (40, 40));
    assert_eq!(counts.sent_reassembly, 1000);
}

/// A model of the limit in plain numbers: tokens as a fraction with a common denominator.
struct Plain {
    rate: TokenRate,
    /// In billionths.
    tokens: u128,
    then_ns: u64,
}

impl Plain {
    fn allows(&mut self, now_ns: u64) -> bool {
        let came = u128::from(now_ns - self.then_ns) * u128::from(self.rate.per_s);
        let most = u128::from(self.rate.burst) * 1_000_000_000;
        self.tokens = (self.tokens + came).min(most);
        self.then_ns = now_ns;
        let allows = self.tokens >= 1_000_000_000;
        if allows {
            self.tokens -= 1_000_000_000;
        }
        allows
    }
}

proptest! {
    #[test]
    fn rates_are_exact(
        per_s in 1u32..2000,
        burst in 1u32..20,
        steps_ns in prop::collection::vec(0u64..5_000_000, 1..300),
    ) {
        let rate = TokenRate { per_s, burst };
        let mut world = world(PLENTY, rate);
        let mut plain = Plain { rate, tokens: u128::from(burst) * 1_000_000_000, then_ns: 0 };
        for step_ns in steps_ns {
            world.heard.now_ns += step_ns;
            let now_ns = world.heard.now_ns;
            prop_assert_eq!(world.provoke(1), plain.allows(now_ns));
        }
    }
}
