//! Random loads over the choice of the channel that is served next.
//!
//! Channels become ready, are served in turns, run dry, die and come back. Each that has something is
//! served within a bounded number of turns, its records come in order, and while all are busy each
//! gets bytes according to its share.

use super::{Ended, Trace};
use std::collections::VecDeque;
use weir_policy::random::Random;
use weir_policy::ready::{MOST_SHARE, Rotation, TURN_BYTES, Turn, TurnPace, Usual, WorkBudget};

const STEPS: u64 = 150;

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Written { channel: u32, bytes: u64 },
    Turn { channel: u32, pace: TurnPace, served: u64 },
    Died(u32),
}

#[derive(Default)]
struct Channel {
    records: VecDeque<(u64, u64)>,
    written: u64,
    read: u64,
    share: u32,
    turn: Turn,
    /// Turns of others since it was put in.
    waited: u64,
}

struct Storm {
    rotation: Rotation,
    usual: Usual,
    channels: Vec<Channel>,
    random: Random,
    trace: Trace<Traced>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0x4ead);
    let count = 1 + random.below(20);
    let share = |random: &mut Random| 1 << random.below(4);
    let channel = |_| Channel { share: share(&mut random), ..Channel::default() };
    let channels = (0..count).map(channel).collect();
    let mut storm = Storm {
        rotation: Rotation::default(),
        usual: Usual::default(),
        channels,
        random,
        trace: Trace::new(),
    };
    let ran = storm.run().and_then(|()| storm.shares());
    storm.trace.ended(ran)
}

impl Storm {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.random.below(5) {
                0..=2 => self.write(),
                _ => self.serve()?,
            }
            if self.random.once_in(60) {
                self.die();
            }
        }
        // Everybody is served to the end.
        let mut turns = 0;
        while !self.rotation.is_empty() {
            self.serve()?;
            turns += 1;
            if turns > 100_000 {
                return Err(String::from("the channels never run dry"));
            }
        }
        match self.channels.iter().position(|channel| channel.read < channel.written) {
            Some(at) => Err(format!("channel {at} has records, and its turn never comes")),
            None => Ok(()),
        }
    }

    fn write(&mut self) {
        let at = self.random.below(self.channels.len() as u64) as u32;
        for _ in 0..1 + self.random.below(8) {
            let bytes = 1 << self.random.below(18);
            let channel = &mut self.channels[at as usize];
            channel.records.push_back((channel.written, bytes));
            channel.written += 1;
            self.trace.push(Traced::Written { channel: at, bytes });
        }
        if self.rotation.push(at, TurnPace::New) {
            self.channels[at as usize].waited = 0;
        }
    }

    fn die(&mut self) {
        let at = self.random.below(self.channels.len() as u64) as u32;
        self.rotation.remove(at);
        if self.rotation.contains(at) {
            return;
        }
        let share = self.channels[at as usize].share;
        self.channels[at as usize] = Channel { share, ..Channel::default() };
        self.trace.push(Traced::Died(at));
    }

    fn serve(&mut self) -> Result<(), String> {
        let Some((at, pace)) = self.rotation.pop() else { return Ok(()) };
        let others: Vec<u32> = self.rotation.iter().collect();
        if others.len() != self.rotation.len() || others.contains(&at) {
            return Err(format!("channel {at} is chosen, and {others:?} wait"));
        }
        let bytes = self.usual.begin_turn(others.len());
        let channel = &mut self.channels[at as usize];
        match pace {
            TurnPace::New => channel.turn.begin(channel.share),
            TurnPace::Busy => channel.turn.begin_long(channel.share, bytes),
        }
        let mut budget = WorkBudget::default();
        let mut served = 0;
        while channel.turn.continues() && !budget.is_over() {
            let Some((number, bytes)) = channel.records.pop_front() else {
                channel.turn.end();
                break;
            };
            if number != channel.read {
                return Err(format!("record {number} comes in place of {}", channel.read));
            }
            channel.read += 1;
            channel.turn.serve(bytes);
            budget.moves(bytes as usize);
            self.usual.served(1, bytes);
            served += 1;
        }
        self.trace.push(Traced::Turn { channel: at, pace, served });
        if !channel.records.is_empty() {
            self.rotation.push(at, TurnPace::Busy);
        }
        channel.waited = 0;
        // 64 turns of idle channels may come before each of a busy one; debts are paid in turns.
        let most = (1 + self.channels.len() as u64) * 66;
        for other in others {
            let waited = &mut self.channels[other as usize].waited;
            *waited += 1;
            if *waited > most {
                return Err(format!("channel {other} has waited for {waited} turns"));
            }
        }
        Ok(())
    }

    /// While all are busy, bytes follow the shares, whatever the sizes of the records.
    fn shares(&mut self) -> Result<(), String> {
        let rounds = 100;
        let rate = |share: u32, bytes: u64| {
            let mut turn = Turn::default();
            let mut moved = 0;
            for _ in 0..rounds {
                turn.begin(share);
                while turn.continues() {
                    turn.serve(bytes);
                    moved += bytes + 32;
                }
            }
            moved as f64
        };
        let share = 1 + self.random.below(u64::from(MOST_SHARE)) as u32;
        let bytes = 1 + self.random.below(2 * TURN_BYTES);
        let granted = f64::from(rounds) * f64::from(share) * TURN_BYTES as f64;
        let moved = rate(share, bytes);
        let most = granted + (bytes + 32) as f64;
        if moved < granted || moved > most {
            return Err(format!("share {share} moves {moved} bytes of {granted} in {bytes}"));
        }
        Ok(())
    }
}
