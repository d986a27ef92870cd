//! How what a thread used in its gaps, while it counted and did not read the clock, is divided
//! among its rows.

use super::layout::{COLUMNS, OWN, SYSTEM, UNTIMED, USER, WAIT};

/// Calls, and user, system and waiting ticks, of a row over an interval.
pub type Columns = [u128; COLUMNS];

/// The gaps of a thread over an interval, and the times that it took apart from them.
///
/// Gaps come at random times, so what a thread does in a gap is like what it does elsewhere. Its
/// CPU time in gaps is divided as the timed CPU time was. So is its waiting, but at most as much as
/// went with as much CPU time elsewhere: one long wait within a gap says nothing about what the
/// other rows wait for.
#[derive(Clone, Copy, Debug, Default)]
pub struct GapShare {
    pub timed_cpu: u128,
    pub gaps_cpu: u128,
    timed_wait: u128,
    /// The part of the waiting in gaps that is divided, and what is left of it.
    gaps_wait: u128,
    wait_apart: u128,
}

impl GapShare {
    /// Of the rows of one thread. Those that are spans have each time once.
    pub fn new(rows: &[Columns], is_span: impl Fn(usize) -> bool) -> GapShare {
        let mut share = GapShare::default();
        for (number, row) in rows.iter().enumerate() {
            if is_span(number) && number != OWN && number != UNTIMED {
                share.timed_cpu += row[USER] + row[SYSTEM];
                share.timed_wait += row[WAIT];
            }
        }
        let [_, cpu, _, wait] = rows[UNTIMED];
        // Where nothing was timed, there is nothing to divide by.
        share.gaps_cpu = if share.timed_cpu > 0 { cpu } else { 0 };
        let alike = share.timed_wait.saturating_mul(cpu).checked_div(share.timed_cpu);
        share.gaps_wait = wait.min(alike.unwrap_or(0));
        share.wait_apart = wait - share.gaps_wait;
        share
    }

    /// Returns a row with its part of the gaps.
    pub fn whole(&self, number: usize, row: Columns) -> Columns {
        let [calls, user, system, wait] = row;
        match number {
            OWN => row,
            UNTIMED => [0, 0, 0, self.wait_apart],
            _ => {
                let of_cpu = |ticks| grown(ticks, self.timed_cpu, self.gaps_cpu);
                let wait = grown(wait, self.timed_wait, self.gaps_wait);
                [calls, of_cpu(user), of_cpu(system), wait]
            }
        }
    }
}

/// Returns a part of `whole` with the same part of `more` added.
fn grown(part: u128, whole: u128, more: u128) -> u128 {
    let added = part.saturating_mul(more).checked_div(whole);
    part.saturating_add(added.unwrap_or(0))
}
