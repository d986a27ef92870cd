//! Which end pays for the fence between publishing and asking whether the other end sleeps.
//!
//! Each side needs a full fence so that no wake-up is lost. If the writer streams, the reader seldom
//! sleeps, and the writer's fence at each small record costs as much as the rest of it. So a reader
//! that has not slept for long takes both fences upon itself: before it sleeps, it passes a barrier
//! on all CPUs, which is a system call and an interrupt (0.4 to 10 us). At its first sleep it gives
//! the duty back, because a reader that often sleeps would pay for the barrier each time.

/// Records without a sleep before the reader takes the duty. Their fences have cost the writer 10 us by
/// then, at 5 ns each, and the barrier costs up to 10 us: so the reader never pays more than twice what
/// the better choice would have cost. Where lines are under way, a fence waits for them and costs up to
/// 150 ns.
const LONG_RECORDS: u32 = 2_048;
/// How many records a record counts for that ended a spinning wait. Its fence lay between a message
/// and its answer, where it costs some 30 ns rather than 5.
const SPUN_RECORDS: u32 = 8;

/// The state of one reader.
#[derive(Clone, Debug)]
pub struct Fencing {
    /// How many more records without a sleep it takes.
    left: u32,
    has_duty: bool,
}

impl Default for Fencing {
    fn default() -> Fencing {
        Fencing { left: LONG_RECORDS, has_duty: false }
    }
}

impl Fencing {
    /// Counts records without a sleep. Returns whether the reader takes the duty now.
    #[inline]
    pub fn moved(&mut self, records: u32) -> bool {
        match self.left.checked_sub(records) {
            Some(left) if left > 0 => {
                self.left = left;
                false
            }
            _ => self.reaches_duty(),
        }
    }

    #[cold]
    fn reaches_duty(&mut self) -> bool {
        // Counted on to no purpose, so that the usual way asks one question only.
        self.left = u32::MAX;
        !core::mem::replace(&mut self.has_duty, true)
    }

    /// Counts, beforehand, the record that will end a spinning wait. Returns whether the reader
    /// takes the duty now.
    #[inline]
    pub fn spun(&mut self) -> bool {
        self.moved(SPUN_RECORDS)
    }

    /// Gives the duty back before a sleep. Returns whether the reader had it.
    pub fn sleeps(&mut self) -> bool {
        core::mem::take(self).has_duty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duty_is_taken_once_after_a_long_stream_and_given_back_once() {
        let mut fencing = Fencing::default();
        assert!(!fencing.sleeps());
        assert!(!fencing.moved(LONG_RECORDS - 1));
        assert!(fencing.moved(5));
        assert!(!fencing.moved(u32::MAX) && !fencing.moved(1), "it has it already");
        assert!(fencing.sleeps());
        assert!(!fencing.sleeps(), "it was given back");
        assert!(!fencing.moved(LONG_RECORDS - 1) && !fencing.sleeps(), "counting began anew");
    }

    #[test]
    fn a_record_that_ended_a_spinning_wait_counts_as_eight() {
        let mut fencing = Fencing::default();
        let mut trips = 0;
        while !fencing.spun() {
            trips += 1;
        }
        assert_eq!(trips + 1, LONG_RECORDS / 8);
    }
}
