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
/// The longest wait of a reader of one lane. Nothing ends it before its time, and it has to be far
/// shorter than the times that calls are given.
const MOST_WAIT_NS: u64 = 1_000_000;
/// The mean number of records after a wait from which the wait has paid.
const PAYS: u32 = 6;
/// A wait for a lane of many lasts this many times as long as for a pipe, ...
const LANE_SHARES: u32 = 4;
/// ... and so many times as long where lines come from far. There a wait costs the writers a time
/// that does not depend on its length (docs/design/port.md).
const FAR_LANE_SHARES: u32 = 6;
/// A wait for all lanes lasts as long as for so many, at most.
const MOST_LANES: u32 = 8;
/// Lines come from far where a look at all lanes takes this long for each of them, on average.
const FAR_NS: u64 = 26;
/// A look at fewer lanes takes as long as one at so many.
const FEW_LANES: u32 = 4;
/// Looks that are averaged.
const LOOKS: u64 = 8;

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
    /// What a look takes for each lane, times [`LOOKS`].
    looks_ns: u64,
}

impl Backoff {
    /// Makes the state of a reader that may wait this long each time, a millisecond at most; 0 for
    /// never.
    pub fn new(wait_ns: u64) -> Backoff {
        let wait_ns = wait_ns.min(MOST_WAIT_NS);
        let (dry, records, due, waiting, looks_ns) = (0, 0, 0, false, 0);
        Backoff { wait_ns, patience: FIRST_PATIENCE, dry, records, due, waiting, looks_ns }
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
        let waited_for = lanes.min(MOST_LANES);
        let is_far = self.looks_ns >= FAR_NS * LOOKS;
        let share = if is_far { FAR_LANE_SHARES } else { LANE_SHARES };
        let pays_by = lanes.max(waited_for * LANE_SHARES);
        self.on_dry_after(records, pays_by) * u64::from(waited_for * share)
    }

    /// Learns how long a look at so many lanes took, after a wait for them.
    pub fn looked(&mut self, ns: u64, lanes: u32) {
        // One look in which something else had the CPU says nothing.
        let each_ns = (ns / u64::from(lanes.max(FEW_LANES))).min(2 * FAR_NS);
        self.looks_ns = self.looks_ns - self.looks_ns / LOOKS + each_ns;
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

    #[test]
    fn no_wait_is_longer_than_a_call_can_bear() {
        let mut backoff = Backoff::new(u64::MAX);
        let longest = (0..1000).map(|_| backoff.on_dry(1000)).max();
        assert_eq!(longest, Some(MOST_WAIT_NS));
        let longest = (0..1000).map(|_| backoff.on_all_dry(1000, 100)).max();
        assert_eq!(longest, Some(MOST_WAIT_NS * u64::from(MOST_LANES * LANE_SHARES)));
    }

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
    fn a_wait_is_longer_where_lines_come_from_far() {
        let mut backoff = Backoff::new(1_000);
        waits_for_lanes(&mut backoff, 8, 1, 30);
        let mut length_ns = |looks_ns: &[u64], lanes| {
            looks_ns.iter().for_each(|ns| backoff.looked(*ns, lanes));
            backoff.on_all_dry(1_000, lanes)
        };
        assert_eq!(length_ns(&[137; 30], 8), 32_000);
        assert_eq!(length_ns(&[20_000], 8), 32_000, "one slow look says nothing");
        assert_eq!(length_ns(&[340; 30], 8), 48_000);
        assert_eq!(length_ns(&[85; 30], 1), 4_000);
        assert_eq!(length_ns(&[280; 30], 1), 6_000);
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
