//! The clock of a run: monotonic, less the times in which the whole job was stopped.

use weir_sys::cpu::monotonic_ns;

/// A clock that can be paused after the fact.
#[derive(Debug)]
pub struct Clock {
    origin_ns: u64,
    /// The pauses by the monotonic clock, in order.
    pauses: Vec<Pause>,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    start_ns: u64,
    end_ns: u64,
}

impl Clock {
    /// Creates a clock that starts now.
    pub fn start() -> Clock {
        Clock { origin_ns: monotonic_ns(), pauses: Vec::new() }
    }

    /// Returns the time since the start, less pauses. Never 0, so that 0 can mean "never".
    pub fn now_ns(&self) -> u64 {
        self.at_ns(monotonic_ns())
    }

    /// Returns what this clock showed, or would have shown, at an instant of the monotonic clock.
    pub fn at_ns(&self, monotonic_ns: u64) -> u64 {
        let part_ns = |of: &Pause| of.end_ns.min(monotonic_ns).saturating_sub(of.start_ns);
        let paused_ns: u64 = self.pauses.iter().map(part_ns).sum();
        monotonic_ns.saturating_sub(self.origin_ns + paused_ns).max(1)
    }

    /// Leaves out the time since this clock showed `since_ns`, which is not before its last pause:
    /// it shows that again now.
    pub fn leave_out_since(&mut self, since_ns: u64) {
        let end_ns = monotonic_ns();
        let start_ns = end_ns - self.at_ns(end_ns).saturating_sub(since_ns);
        match self.pauses.last_mut() {
            // A pause that continues.
            Some(last) if start_ns <= last.end_ns => last.end_ns = end_ns,
            _ => self.pauses.push(Pause { start_ns, end_ns }),
        }
    }

    /// Returns the time subtracted so far.
    pub fn paused_ns(&self) -> u64 {
        self.pauses.iter().map(|pause| pause.end_ns - pause.start_ns).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pause(from_ms: u64, to_ms: u64) -> Pause {
        Pause { start_ns: from_ms * MS, end_ns: to_ms * MS }
    }

    /// What happened before a stop once seemed to lie as much earlier as the stop was long, where
    /// it was heard of after the stop.
    #[test]
    fn instants_before_in_and_after_a_pause_keep_their_order() {
        let clock = Clock { origin_ns: 10 * MS, pauses: vec![pause(30, 80), pause(90, 100)] };
        let shown = [20, 30, 50, 80, 85, 95, 110].map(|at_ms| clock.at_ns(at_ms * MS) / MS);
        assert_eq!(shown, [10, 20, 20, 20, 25, 30, 40]);
        assert_eq!((clock.paused_ns(), clock.at_ns(3)), (60 * MS, 1));
    }

    #[test]
    fn a_pause_that_continues_is_one() {
        let mut clock = Clock::start();
        let since_ns = clock.now_ns();
        (0..3).for_each(|_| clock.leave_out_since(since_ns));
        assert_eq!(clock.pauses.len(), 1);
        assert_eq!(clock.at_ns(clock.pauses[0].end_ns), since_ns);
    }
}
