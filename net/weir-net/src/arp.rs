//! Which Ethernet address each neighbour has (RFC 826). No clock, no I/O: time is an argument.
//!
//! Whoever is on the wire may send anything. So the table is bounded, an address changes only by the
//! answer to a question of ours, what is known is asked for again, and packets that wait for an
//! answer are bounded in number, in bytes and in time.

use crate::net::Net;
use crate::wire::arp::{ArpMessage, Operation};
use crate::wire::ethernet::MacAddress;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Most neighbours in the table; the one not used for longest gives way.
pub const MOST_NEIGHBOURS: usize = 256;
/// Most packets that wait for one neighbour; the oldest gives way (RFC 1122, 2.3.2.2).
pub const MOST_WAITING: usize = 16;
/// Most bytes of all packets that wait.
pub const MOST_WAITING_BYTES: usize = 1 << 20;
/// How often a neighbour is asked for, a second apart (RFC 1122, 2.3.2.1).
pub const MOST_QUESTIONS: u32 = 3;
/// The time between two questions about a neighbour.
pub const QUESTION_NS: u64 = 1_000_000_000;
/// How long an address is used without being asked for again.
pub const FRESH_NS: u64 = 30 * 1_000_000_000;
/// How long an address is used at most after it was told.
pub const KNOWN_NS: u64 = 60 * 1_000_000_000;

/// A message to send, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArpSent {
    /// A device, or all.
    pub to: MacAddress,
    /// The message.
    pub message: ArpMessage,
}

/// What becomes of a packet to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// It can be sent to this address.
    At(MacAddress),
    /// It waits until the neighbour has told its address. So many others were dropped for it.
    Waits {
        /// Packets that gave way.
        dropped: usize,
    },
}

/// What a message has brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ArpOutcome {
    /// The answer, if it is a question for us.
    pub answer: Option<ArpSent>,
    /// Where its sender is.
    pub at: MacAddress,
    /// The packets that have waited for its sender.
    pub packets: Vec<Vec<u8>>,
}

/// Counts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArpCounts {
    /// Messages received, of whatever kind.
    pub received: u64,
    /// Questions for us that were answered.
    pub answered: u64,
    /// Questions of ours.
    pub asked: u64,
    /// Answers to questions of ours.
    pub learned: u64,
    /// Messages that made no sense, or that told what nobody had asked for.
    pub disbelieved: u64,
    /// Messages of others that claim our address.
    pub conflicts: u64,
}

/// A neighbour in the table.
#[derive(Debug, Default)]
struct Neighbour {
    /// Its address, and when that was told.
    at: Option<(MacAddress, u64)>,
    /// How often it was asked for since it was told, and when last.
    questions: u32,
    asked_ns: u64,
    /// When a packet to it was last sent or held; 0 if there never was one.
    used_ns: u64,
    waiting: VecDeque<Vec<u8>>,
}

/// A neighbour, for people and programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownNeighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its address on Ethernet, if it has told it.
    pub at: Option<MacAddress>,
    /// For how long that is still used.
    pub left_ns: u64,
    /// Packets that wait for it.
    pub waiting: usize,
}

/// The neighbours of a host on an Ethernet.
#[derive(Debug)]
pub struct ArpTable {
    net: Net,
    own: MacAddress,
    neighbours: HashMap<Ipv4Addr, Neighbour>,
    waiting_bytes: usize,
    counts: ArpCounts,
}

impl ArpTable {
    /// Makes an empty one for the host with this address of IP, and of Ethernet.
    pub fn new(net: Net, own: MacAddress) -> ArpTable {
        let (neighbours, counts) = (HashMap::new(), ArpCounts::default());
        ArpTable { net, own, neighbours, waiting_bytes: 0, counts }
    }

    /// Returns our address on Ethernet.
    pub fn own(&self) -> MacAddress {
        self.own
    }

    /// Returns what was counted.
    pub fn counts(&self) -> ArpCounts {
        self.counts
    }

    /// Returns all neighbours in the order of their addresses.
    pub fn known(&self, now_ns: u64) -> Vec<KnownNeighbour> {
        let all = self.neighbours.iter().map(|(address, it)| KnownNeighbour {
            address: *address,
            at: it.at.map(|(at, _)| at),
            left_ns: it.at.map_or(0, |(_, told)| (told + KNOWN_NS).saturating_sub(now_ns)),
            waiting: it.waiting.len(),
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|it| it.address);
        all
    }

    /// The message that tells everybody our address, for those who had it from somebody else.
    pub fn announcement(&self) -> ArpSent {
        self.question(self.net.address, MacAddress::BROADCAST)
    }

    /// Finds where a packet to a neighbour goes. If that is not known, the packet is held, and `send`
    /// is called with a question unless one was asked within the last second.
    pub fn route(
        &mut self,
        to: Ipv4Addr,
        now_ns: u64,
        packet: impl FnOnce() -> Vec<u8>,
        send: &mut dyn FnMut(ArpSent),
    ) -> Route {
        let mut dropped = if self.neighbours.contains_key(&to) { 0 } else { self.make_room() };
        let neighbour = self.neighbours.entry(to).or_default();
        neighbour.used_ns = now_ns.max(1);
        if let Some((at, told_ns)) = neighbour.at
            && now_ns < told_ns + KNOWN_NS
        {
            if now_ns >= told_ns + FRESH_NS && neighbour.may_ask(now_ns) {
                self.ask(to, at, now_ns, send);
            }
            return Route::At(at);
        }
        if neighbour.at.take().is_some() {
            neighbour.questions = 0;
        }
        let packet = packet();
        let gives_way = neighbour.waiting.len() >= MOST_WAITING;
        let bytes = packet.len() + self.waiting_bytes;
        if gives_way && let Some(oldest) = neighbour.waiting.pop_front() {
            self.waiting_bytes -= oldest.len();
            dropped += 1;
        }
        if bytes > MOST_WAITING_BYTES {
            dropped += 1;
        } else {
            self.waiting_bytes += packet.len();
            neighbour.waiting.push_back(packet);
        }
        if neighbour.questions == 0 {
            self.ask(to, MacAddress::BROADCAST, now_ns, send);
        }
        Route::Waits { dropped }
    }

    /// Makes room for a neighbour; returns how many packets gave way with another.
    fn make_room(&mut self) -> usize {
        if self.neighbours.len() < MOST_NEIGHBOURS {
            return 0;
        }
        let oldest = self.neighbours.iter().min_by_key(|(address, it)| (it.used_ns, **address));
        let oldest = oldest.map(|(address, _)| *address);
        oldest.map_or(0, |address| self.forget(address))
    }

    /// Forgets a neighbour; returns how many packets waited for it.
    fn forget(&mut self, address: Ipv4Addr) -> usize {
        let Some(gone) = self.neighbours.remove(&address) else { return 0 };
        self.waiting_bytes -= gone.waiting.iter().map(Vec::len).sum::<usize>();
        gone.waiting.len()
    }

    fn question(&self, about: Ipv4Addr, to: MacAddress) -> ArpSent {
        let message = ArpMessage {
            operation: Operation::Request,
            sender_at: self.own,
            sender: self.net.address,
            target_at: if to.is_group() { MacAddress::NONE } else { to },
            target: about,
        };
        ArpSent { to, message }
    }

    fn ask(&mut self, about: Ipv4Addr, to: MacAddress, now_ns: u64, send: &mut dyn FnMut(ArpSent)) {
        if let Some(neighbour) = self.neighbours.get_mut(&about) {
            neighbour.questions += 1;
            neighbour.asked_ns = now_ns;
        }
        self.counts.asked += 1;
        send(self.question(about, to));
    }

    /// Takes a message as it came, any bytes.
    pub fn take(&mut self, bytes: &[u8], now_ns: u64) -> ArpOutcome {
        self.counts.received += 1;
        let message = ArpMessage::check(bytes).filter(|message| message.sender_at != self.own);
        let Some(message) = message else {
            self.counts.disbelieved += 1;
            return ArpOutcome::default();
        };
        let ArpMessage { operation, sender_at, sender, target, .. } = message;
        let own = self.net.address;
        if sender == own {
            self.counts.conflicts += 1;
            return ArpOutcome::default();
        }
        let asks = operation == Operation::Request && target == own;
        let is_neighbour = self.net.has(sender) && self.net.is_host(sender);
        // RFC 5227: who asks whether an address is free has none yet.
        let is_probe = sender.is_unspecified();
        let believed = is_neighbour && self.learn(sender, sender_at, asks, now_ns);
        if !(believed || asks && (is_neighbour || is_probe)) {
            // A question about somebody else says nothing wrong.
            self.counts.disbelieved += u64::from(operation == Operation::Reply || asks);
            return ArpOutcome::default();
        }
        let answer = asks.then(|| {
            self.counts.answered += 1;
            let message = ArpMessage {
                operation: Operation::Reply,
                sender_at: self.own,
                sender: own,
                target_at: sender_at,
                target: sender,
            };
            ArpSent { to: sender_at, message }
        });
        let packets = if believed { self.waited_for(sender) } else { Vec::new() };
        ArpOutcome { answer, at: sender_at, packets }
    }

    /// Notes where a neighbour says it is. That counts if we have asked for it, or if it asks for us
    /// and we know nothing of it: then an answer to its packet need not wait.
    fn learn(&mut self, who: Ipv4Addr, at: MacAddress, asks: bool, now_ns: u64) -> bool {
        let known = self.neighbours.get(&who);
        let is_asked = known.is_some_and(|it| it.questions > 0);
        let is_new = known.is_none_or(|it| it.at.is_none());
        let counts = is_asked || asks && is_new;
        if !counts {
            return known.and_then(|it| it.at).is_some_and(|(known_at, _)| known_at == at);
        }
        self.counts.learned += u64::from(is_asked);
        if known.is_none() && self.neighbours.len() >= MOST_NEIGHBOURS && !self.has_unused() {
            // Nobody to whom packets go gives way to who merely asks.
            return false;
        }
        if known.is_none() {
            self.make_room();
        }
        let neighbour = self.neighbours.entry(who).or_default();
        (neighbour.at, neighbour.questions) = (Some((at, now_ns)), 0);
        true
    }

    fn has_unused(&self) -> bool {
        self.neighbours.values().any(|it| it.used_ns == 0)
    }

    fn waited_for(&mut self, who: Ipv4Addr) -> Vec<Vec<u8>> {
        let waiting = self.neighbours.get_mut(&who).map(|it| std::mem::take(&mut it.waiting));
        let waiting: Vec<_> = waiting.into_iter().flatten().collect();
        self.waiting_bytes -= waiting.iter().map(Vec::len).sum::<usize>();
        waiting
    }

    /// Asks again for those who have not answered, and forgets those who do not. Returns how many
    /// packets were dropped with them.
    pub fn tick(&mut self, now_ns: u64, send: &mut dyn FnMut(ArpSent)) -> usize {
        let is_due = |(_, it): &(&Ipv4Addr, &Neighbour)| match it.at {
            Some((_, told_ns)) => now_ns >= told_ns + KNOWN_NS,
            None => it.may_ask(now_ns),
        };
        let due: Vec<Ipv4Addr> = self.neighbours.iter().filter(is_due).map(|it| *it.0).collect();
        let mut dropped = 0;
        for address in due {
            let asks_again = |it: &Neighbour| it.at.is_none() && it.questions < MOST_QUESTIONS;
            if self.neighbours.get(&address).is_some_and(asks_again) {
                self.ask(address, MacAddress::BROADCAST, now_ns, send);
            } else {
                dropped += self.forget(address);
            }
        }
        dropped
    }
}

impl Neighbour {
    /// Whether the last question is old enough for another.
    fn may_ask(&self, now_ns: u64) -> bool {
        self.questions == 0 || now_ns >= self.asked_ns + QUESTION_NS
    }
}

#[cfg(test)]
mod tests;
