//! Random fragments, in any order, some twice, some overlapping, some never, while the clock jumps.
//!
//! Each datagram that comes out whole has exactly the bytes that were sent, at most once for each time
//! that all of its fragments came; memory stays within the budgets; nothing waits beyond its time.

use super::{Ended, Trace};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_net::reassembly::{LEAST_BUDGET_BYTES, Reassembled, Reassembly, ReassemblyLimits};
use weir_net::wire::ipv4::{Datagram, Header};
use weir_policy::random::Random;

const STEPS: u64 = 80;
const TIMEOUT_NS: u64 = 100_000;

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Fragment { source: u8, id: u16, from: usize, to: usize, more: bool },
    Expired(u64),
}

/// A datagram that is being sent: its bytes, and which of them came.
struct Sent {
    payload: Vec<u8>,
    /// Fragments that are yet to be sent, as units of 8 bytes.
    left: Vec<(usize, usize)>,
}

struct Storm {
    reassembly: Reassembly,
    sent: BTreeMap<(u8, u16), Sent>,
    random: Random,
    now_ns: u64,
    next_id: u16,
    trace: Trace<Traced>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0xf4a6);
    let limits = ReassemblyLimits {
        whole_bytes: LEAST_BUDGET_BYTES * (1 + random.below(3) as usize),
        source_bytes: LEAST_BUDGET_BYTES,
        timeout_ns: TIMEOUT_NS,
    };
    let mut storm = Storm {
        reassembly: Reassembly::new(limits),
        sent: BTreeMap::new(),
        random,
        now_ns: 0,
        next_id: 0,
        trace: Trace::new(),
    };
    let ran = storm.run();
    storm.trace.ended(ran)
}

impl Storm {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            let far = if self.random.once_in(30) { 2 * TIMEOUT_NS } else { 500 };
            self.now_ns += self.random.below(far);
            if self.sent.len() < 6 && self.random.once_in(2) {
                self.begin();
            }
            self.send()?;
            if self.random.once_in(10) {
                self.expire()?;
            }
        }
        // After its time nothing waits, and no memory is held.
        self.now_ns += 2 * TIMEOUT_NS;
        self.expire()?;
        match self.reassembly.held_bytes() {
            0 => Ok(()),
            held => Err(format!("{held} bytes are held, and nothing waits")),
        }
    }

    fn begin(&mut self) {
        let key = (self.random.below(3) as u8, self.next_id);
        self.next_id += 1;
        let most = if self.random.once_in(8) { 60_000 } else { 300 };
        let bytes = 9 + self.random.below(most) as usize;
        let salt = self.random.below(256) as u8;
        let payload: Vec<u8> = (0..bytes).map(|at| (at * 31 + (at >> 8)) as u8 ^ salt).collect();
        let units = bytes.div_ceil(8);
        let mut left = Vec::new();
        let mut from = 0;
        while from < units {
            let most = (units - from).min(1 + units / 3) as u64;
            let to = from + 1 + self.random.below(most) as usize;
            left.push((from, to));
            from = to;
        }
        self.sent.insert(key, Sent { payload, left });
    }

    /// Sends a fragment of a datagram, whichever; it may be sent again later.
    fn send(&mut self) -> Result<(), String> {
        let keys: Vec<(u8, u16)> = self.sent.keys().copied().collect();
        if keys.is_empty() {
            return Ok(());
        }
        let key = keys[self.random.below(keys.len() as u64) as usize];
        let sent = &self.sent[&key];
        let at = self.random.below(sent.left.len() as u64) as usize;
        let (from, to) = sent.left[at];
        let end = (to * 8).min(sent.payload.len());
        let more = end < sent.payload.len();
        let bytes = sent.payload[from * 8..end].to_vec();
        let is_last = sent.left.len() == 1;
        self.trace.push(Traced::Fragment {
            source: key.0,
            id: key.1,
            from: from * 8,
            to: end,
            more,
        });
        self.give(key, from as u16 * 8, more, &bytes)?;
        match self.random.below(12) {
            0 => self.give(key, from as u16 * 8, more, &bytes)?,
            // It overlaps itself with other bytes at another place: an attack.
            1 if bytes.len() > 16 => self.give(key, from as u16 * 8 + 8, true, &bytes[..16])?,
            _ => {}
        }
        if is_last || self.random.once_in(60) {
            self.sent.remove(&key);
        } else if let Some(sent) = self.sent.get_mut(&key) {
            sent.left.swap_remove(at);
        }
        Ok(())
    }

    fn give(&mut self, key: (u8, u16), at: u16, more: bool, bytes: &[u8]) -> Result<(), String> {
        let header = Header {
            tos: 0,
            total_bytes: 20 + bytes.len() as u16,
            id: key.1,
            dont_fragment: false,
            more_fragments: more,
            offset_bytes: at,
            ttl: 9,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 0, key.0),
            destination: Ipv4Addr::new(10, 0, 1, 1),
        };
        let mut packet = vec![0; 20];
        if header.emit(&[], &mut packet).is_none() {
            return Err(format!("no header is made of {header:?}"));
        }
        packet.extend_from_slice(bytes);
        let Ok(datagram) = Datagram::check(&packet) else { return Ok(()) };
        if !datagram.is_fragment() {
            return Ok(());
        }
        if let Reassembled::Whole(found) = self.reassembly.take(&datagram, self.now_ns) {
            let wanted = self.sent.get(&key).map(|sent| sent.payload.as_slice());
            if found.get(20..) != wanted {
                return Err(format!("datagram {key:?} is whole, and has other bytes"));
            }
        }
        let limits = self.reassembly.limits();
        let held = self.reassembly.held_bytes();
        let of_source = self.reassembly.held_bytes_of(header.source);
        if held > limits.whole_bytes || of_source > limits.source_bytes {
            return Err(format!("{held} bytes are held, {of_source} of one source: {limits:?}"));
        }
        Ok(())
    }

    fn expire(&mut self) -> Result<(), String> {
        self.trace.push(Traced::Expired(self.now_ns));
        self.reassembly.expire(self.now_ns, |_| {});
        match self.reassembly.next_expiry_ns() {
            Some(at_ns) if at_ns <= self.now_ns => Err(String::from("one waits beyond its time")),
            _ => Ok(()),
        }
    }
}
