//! When a reader that has run dry backs off, so that the writer gets ahead.
//!
//! A reader close behind a streaming writer fetches every line while it is being written, and both
//! pay for each small record. Letting the writer get some lines ahead ("temporal slipping",
//! `FastForward`, 2008) made 64-byte records four times as fast, and would make a request and its
//! reply ten times slower. So the reader tries it now and then, and keeps it only while it pays:
//! while many records follow the wait, and not one.

/// Dry moments before a trial, each soon over and with few records between them; doubled after a
/// trial that failed.
const FIRST_PATIENCE: u32 = 64;
const MOST_PATIENCE: u32 = 1 << 16;
/// Dry moments in a trial.
const TRIAL: u32 = 8;
/// The mean number of records after a wait from which the wait has paid.
const PAYS: u32 = 6;
/// A wait for many lanes lasts at most this many times as long as for one.
const MOST_LANES: u32 = 8;

/// The state of one reader.
#[derive(Clone, Debug)]
pub struct Backoff {
    wait_ns: u64,
    patience: u32,
    dry: u32,
    records: u32,
    waiting: bool,
}

impl Backoff {
    /// Makes the state of a reader that may wait this long each time; 0 for never.
    pub fn new(wait_ns: u64) -> Backoff {
        Backoff { wait_ns, patience: FIRST_PATIENCE, dry: 0, records: 0, waiting: false }
    }

    /// Returns how long a reader of many lanes waits when all of them have run dry: `turns` turns of
    /// lanes have brought these records. No turns are one.
    ///
    /// One record from each of many lanes is no stream: they may be requests, whose senders wait. So
    /// what counts is how many records a turn brings. The wait lasts longer for more lanes, since one
    /// writer may fill them in turn.
    pub fn on_all_dry(&mut self, records: u32, turns: u32) -> u64 {
        let turns = turns.max(1);
        self.on_dry(records / turns) * u64::from(turns.min(MOST_LANES))
    }

    /// Returns how long a reader waits that has run dry after this many records.
    pub fn on_dry(&mut self, records: u32) -> u64 {
        if self.wait_ns == 0 {
            return 0;
        }
        self.dry += 1;
        self.records = self.records.saturating_add(records);
        let round = if self.waiting { TRIAL } else { self.patience };
        if self.dry >= round {
            let pays = self.records / self.dry >= PAYS;
            if self.waiting {
                self.patience =
                    if pays { FIRST_PATIENCE } else { (self.patience * 2).min(MOST_PATIENCE) };
                self.waiting = pays;
            } else {
                self.waiting = true;
            }
            (self.dry, self.records) = (0, 0);
        }
        if self.waiting { self.wait_ns } else { 0 }
    }

    /// Handles a long wait: the writer is not streaming now.
    pub fn on_pause(&mut self) {
        (self.dry, self.records, self.waiting) = (0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts waits, where `after` records follow each wait and `close` records each other moment.
    fn waits(backoff: &mut Backoff, rounds: u32, close: u32, after: u32) -> u32 {
        let (mut records, mut waited) = (close, 0);
        for _ in 0..rounds {
            let ns = backoff.on_dry(records);
            records = if ns > 0 { after } else { close };
            waited += u32::from(ns > 0);
        }
        waited
    }

    #[test]
    fn a_stream_is_let_ahead_and_stays_so() {
        assert!(waits(&mut Backoff::new(1_000), 10_000, 2, 40) > 9_900);
    }

    #[test]
    fn request_and_reply_are_hardly_ever_held_up() {
        let waited = waits(&mut Backoff::new(1_000), 1_000_000, 1, 1);
        assert!((8..400).contains(&waited), "{waited} waits in a million");
    }

    /// As [`waits`], for a reader of `lanes` lanes, each of which brings that many records.
    fn waits_for_lanes(backoff: &mut Backoff, lanes: u32, close: u32, after: u32) -> u32 {
        let (mut each, mut waited) = (close, 0);
        for _ in 0..10_000 {
            let ns = backoff.on_all_dry(each * lanes, lanes);
            assert!(ns == 0 || ns == 1_000 * u64::from(lanes.min(MOST_LANES)));
            each = if ns > 0 { after } else { close };
            waited += u32::from(ns > 0);
        }
        waited
    }

    #[test]
    fn many_lanes_are_let_ahead_if_each_of_them_streams() {
        assert!(waits_for_lanes(&mut Backoff::new(1_000), 8, 1, 15) > 9_900);
        assert!(waits_for_lanes(&mut Backoff::new(1_000), 30, 1, 15) > 9_900);
    }

    #[test]
    fn requests_on_many_lanes_are_hardly_ever_held_up() {
        let waited = waits_for_lanes(&mut Backoff::new(1_000), 8, 1, 1);
        assert!((8..100).contains(&waited), "{waited} waits in ten thousand");
    }

    #[test]
    fn a_pause_ends_it_and_zero_forbids_it() {
        let mut backoff = Backoff::new(1_000);
        waits(&mut backoff, 1_000, 2, 40);
        backoff.on_pause();
        assert_eq!(backoff.on_dry(1), 0);
        assert_eq!(waits(&mut Backoff::new(0), 10_000, 2, 40), 0);
    }
}
