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
/// How long a reader of one pipe waits: a writer's time for some lines. Nothing ends the wait before
/// its time, so this has to be far shorter than the times that calls are given.
pub const BACKOFF_NS: u64 = 1_000;
/// The mean number of records after a wait from which the wait has paid.
const PAYS: u32 = 6;
/// A wait for a lane of many lasts this many times as long as for a pipe.
const LANE_SHARES: u32 = 4;
/// A wait for all lanes lasts as long as for so many, at most.
const MOST_LANES: u32 = 8;

/// The state of one reader.
#[derive(Clone, Debug)]
pub struct Backoff {
    wait_ns: u64,
    patience: u32,
    dry: u32,
    records: u32,
    /// Records from which the waits of this round have paid.
    due: u32,
    waiting: bool,
}

impl Backoff {
    /// Makes the state of a reader that may wait this long each time; 0 for never.
    pub fn new(wait_ns: u64) -> Backoff {
        let (dry, records, due, waiting) = (0, 0, 0, false);
        Backoff { wait_ns, patience: FIRST_PATIENCE, dry, records, due, waiting }
    }

    /// Returns how long a reader of many lanes waits when all of them have run dry, after this many of
    /// them have brought these records. No lanes are one.
    ///
    /// The wait lasts longer for more lanes, since one writer may fill them in turn, and has to bring as
    /// many records more. One record from each of many lanes is not a stream, however many they
    /// are: they may be requests, whose senders wait. So what counts is also how many records a
    /// lane brings.
    pub fn on_all_dry(&mut self, records: u32, lanes: u32) -> u64 {
        let lanes = lanes.max(1);
        let times = lanes.min(MOST_LANES) * LANE_SHARES;
        self.on_dry_after(records, lanes.max(times)) * u64::from(times)
    }

    /// Returns how long a reader waits that has run dry after this many records.
    pub fn on_dry(&mut self, records: u32) -> u64 {
        self.on_dry_after(records, 1)
    }

    /// As [`Backoff::on_dry`], for a wait that pays if it brings so many times as many records.
    #[inline]
    fn on_dry_after(&mut self, records: u32, times: u32) -> u64 {
        if self.wait_ns == 0 {
            return 0;
        }
        self.dry += 1;
        self.records = self.records.saturating_add(records);
        self.due = self.due.saturating_add(PAYS * times);
        let round = if self.waiting { TRIAL } else { self.patience };
        if self.dry >= round {
            self.end_round();
        }
        if self.waiting { self.wait_ns } else { 0 }
    }

    #[cold]
    fn end_round(&mut self) {
        let pays = self.records >= self.due;
        if self.waiting {
            self.patience =
                if pays { FIRST_PATIENCE } else { (self.patience * 2).min(MOST_PATIENCE) };
            self.waiting = pays;
        } else {
            self.waiting = true;
        }
        (self.dry, self.records, self.due) = (0, 0, 0);
    }

    /// Handles a long wait: the writer is not streaming now.
    pub fn on_pause(&mut self) {
        (self.dry, self.records, self.due, self.waiting) = (0, 0, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts waits, where `after` records follow each wait and `close` records each other moment.
    fn waits(backoff: &mut Backoff, rounds: u32, close: u32, after: u32) -> u32 {
        waits_by(rounds, close, after, |records| backoff.on_dry(records))
    }

    fn waits_by(rounds: u32, close: u32, after: u32, mut dry: impl FnMut(u32) -> u64) -> u32 {
        let (mut records, mut waited) = (close, 0);
        for _ in 0..rounds {
            let ns = dry(records);
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
        waits_by(10_000, close, after, |each| {
            let ns = backoff.on_all_dry(each * lanes, lanes);
            assert!(ns == 0 || ns == 4_000 * u64::from(lanes.min(8)));
            ns
        })
    }

    #[test]
    fn many_lanes_are_let_ahead_if_each_of_them_streams() {
        assert!(waits_for_lanes(&mut Backoff::new(1_000), 8, 1, 30) > 9_900);
        assert!(waits_for_lanes(&mut Backoff::new(1_000), 100, 1, 6) > 9_900);
    }

    #[test]
    fn requests_on_many_lanes_are_hardly_ever_held_up() {
        for lanes in [1, 8, 1_000] {
            let waited = waits_for_lanes(&mut Backoff::new(1_000), lanes, 1, 1);
            assert!((8..100).contains(&waited), "{waited} waits in ten thousand");
        }
    }

    #[test]
    fn a_slow_stream_on_many_lanes_is_not_held_up() {
        // A record a microsecond.
        let waited = waits_for_lanes(&mut Backoff::new(1_000), 8, 1, 4);
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
