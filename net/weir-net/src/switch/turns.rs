//! How many packets the switch reads in a turn.

/// Most packets read before stations get a turn.
pub const MOST_AT_ONCE: usize = 64;
/// Most turns that go by before the switch looks again whether more packets wait.
const MOST_SINGLE_TURNS: u32 = 4;

/// Learns whether packets come one at a time, as from somebody who waits for each answer.
///
/// Reading until there is nothing left costs an empty read a turn, a twentieth of an echo. So after
/// a turn that found one packet, further turns read one and look no further: first one turn, then
/// two, up to four. As soon as a turn finds more than one, each turn reads all that there is. With
/// 16 in place of four, a queue was noticed so late that 64 requests under way went slower.
#[derive(Debug, Default)]
pub struct TurnLength {
    /// How many turns in a row read a single packet after the next that finds just one.
    single_turns: u32,
    /// How many of these are left.
    left: u32,
}

impl TurnLength {
    /// Reads the packets of a turn by `next`; returns how many there were. Of each packet, `next`
    /// says whether it is held for others: then these are read too. Whoever gave way for it would
    /// give way to processes that nothing has come for.
    pub fn read<E>(
        &mut self,
        mut next: impl FnMut() -> Result<Option<bool>, E>,
    ) -> Result<usize, E> {
        let (mut most, mut packets) = (self.most(), 0);
        while packets < most {
            let Some(is_held) = next()? else { break };
            packets += 1;
            if is_held {
                most = MOST_AT_ONCE;
            }
        }
        self.found(packets);
        Ok(packets)
    }

    /// Returns the most packets that the next turn may read.
    fn most(&self) -> usize {
        if self.left > 0 { 1 } else { MOST_AT_ONCE }
    }

    /// Takes note of a turn that found this many packets.
    fn found(&mut self, packets: usize) {
        match packets {
            0 => {}
            1 if self.left > 0 => self.left -= 1,
            1 => {
                self.single_turns = (self.single_turns + 1).min(MOST_SINGLE_TURNS);
                self.left = self.single_turns;
            }
            _ => self.single_turns = 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many reads find nothing, where each turn finds a packet of `waiting`.
    fn empty_reads(turns: &mut TurnLength, waiting: usize, times: u32) -> u32 {
        (0..times)
            .filter(|_| {
                let most = turns.most();
                turns.found(waiting.min(most));
                waiting < most
            })
            .count() as u32
    }

    #[test]
    fn packets_that_come_alone_are_read_without_looking_for_more() {
        let mut turns = TurnLength::default();
        assert_eq!(turns.most(), MOST_AT_ONCE);
        let learning = empty_reads(&mut turns, 1, 1_000);
        assert!(learning < 210, "{learning}");
        assert_eq!(empty_reads(&mut turns, 1, 500), 100);
    }

    #[test]
    fn a_queue_is_noticed_within_five_turns_and_read_as_a_whole() {
        let mut turns = TurnLength::default();
        empty_reads(&mut turns, 1, 1_000);
        for _ in 0..MOST_SINGLE_TURNS {
            turns.found(turns.most().min(MOST_AT_ONCE));
        }
        for _ in 0..100 {
            assert_eq!(turns.most(), MOST_AT_ONCE);
            turns.found(MOST_AT_ONCE);
        }
        // One that is alone among them changes it for a turn.
        turns.found(1);
        assert_eq!(turns.most(), 1);
        turns.found(1);
        assert_eq!(turns.most(), MOST_AT_ONCE);
    }

    /// On a busy host each of the first fragments of a datagram gave another process a turn: 41
    /// fragments took 3 ms where 0.3 ms were enough.
    #[test]
    fn fragments_are_read_as_a_whole_by_whoever_expects_a_single_packet() {
        let mut turns = TurnLength::default();
        empty_reads(&mut turns, 1, 1_000);
        assert_eq!(turns.most(), 1);
        let mut waiting = [true, true, true, false].into_iter();
        let mut read = || turns.read(|| Ok::<_, ()>(waiting.next()));
        assert_eq!([read(), read()], [Ok(4), Ok(0)]);
    }

    #[test]
    fn turns_without_a_packet_tell_nothing() {
        let mut turns = TurnLength::default();
        turns.found(0);
        assert_eq!(turns.most(), MOST_AT_ONCE);
        turns.found(1);
        turns.found(0);
        assert_eq!(turns.most(), 1);
    }
}
