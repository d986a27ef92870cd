//! A checked copy of a table: nothing in it is trusted, since it may be another process's file.

use super::layout::{
    CALLS, CLOCK_AT, CLOCK_COUNTER, CLOCK_MONOTONIC, HZ_AT, KIND_CALL, KIND_SPAN, KINDS_AT, MAGIC,
    MAGIC_AT, NAME_BYTES, NAME_WORDS, NAMES_AT, OUTSIDE, OWN, PID_AT, PROCESS_AT, ROW_WORDS, ROWS,
    SINCE_AT, STARTED_AT, SUBROUTINES_LOST_AT, SYSTEM, TABLE_WORDS, TABLES_AT, THREADS,
    THREADS_LOST_AT, TOGETHER_AT, UNTIL_AT, USER, VERSION, VERSION_AT, WAIT, WORDS,
};
use super::row::{ProfileRow, RowDifference, merge};
use weir_sys::Pid;

pub type TableFault = &'static str;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSnapshot {
    pub pid: Pid,
    pub started_ticks: u64,
    /// Ticks per second, from a million to a hundred thousand million.
    pub hz: u64,
    pub clock: u64,
    pub process: String,
    pub until: u64,
    pub since: u64,
    pub threads_lost: u64,
    pub subroutines_lost: u64,
    pub together: u64,
    rows: Vec<RowTicks>,
    /// Calls and times of all rows, by thread.
    threads: Vec<u128>,
}

/// A row, summed over the threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RowTicks {
    kind: u64,
    name: String,
    /// Calls, user, system, wait. The sum of 32 words does not overflow.
    columns: [u128; ROW_WORDS],
}

impl TableSnapshot {
    /// Checks a private copy of a table.
    pub fn parse(words: &[u64]) -> Result<TableSnapshot, TableFault> {
        if words.len() < WORDS {
            return Err("it is too short for a profile");
        }
        if words[MAGIC_AT] != MAGIC {
            return Err("it is no profile, or not yet one");
        }
        if words[VERSION_AT] != VERSION {
            return Err("it is a profile of another version");
        }
        let pid = Pid::try_from(words[PID_AT]).ok().filter(|pid| *pid > 0);
        if !(1_000_000..=100_000_000_000).contains(&words[HZ_AT]) {
            return Err("its clock has no possible rate");
        }
        if ![CLOCK_COUNTER, CLOCK_MONOTONIC].contains(&words[CLOCK_AT]) {
            return Err("it has no known clock");
        }
        let process = text(&words[PROCESS_AT..PROCESS_AT + NAME_WORDS])?;
        let rows: Result<Vec<RowTicks>, TableFault> =
            (0..ROWS).map(|row| ticks(words, row)).collect();
        let table = |thread| &words[TABLES_AT + thread * TABLE_WORDS..][..TABLE_WORDS];
        Ok(TableSnapshot {
            pid: pid.ok_or("it has no possible process id")?,
            started_ticks: words[STARTED_AT],
            hz: words[HZ_AT],
            clock: words[CLOCK_AT],
            process: process.ok_or("it has no name")?,
            until: words[UNTIL_AT],
            since: words[SINCE_AT],
            threads_lost: words[THREADS_LOST_AT],
            subroutines_lost: words[SUBROUTINES_LOST_AT],
            together: words[TOGETHER_AT],
            rows: rows?,
            threads: (0..THREADS)
                .map(|thread| table(thread).iter().map(|word| u128::from(*word)).sum())
                .collect(),
        })
    }

    /// Returns a snapshot of this process at its beginning, with nothing counted.
    pub fn nothing(&self) -> TableSnapshot {
        TableSnapshot {
            rows: vec![RowTicks::default(); ROWS],
            threads: vec![0; THREADS],
            threads_lost: 0,
            subroutines_lost: 0,
            together: 0,
            ..self.clone()
        }
    }

    pub fn same_process(&self, other: &TableSnapshot) -> bool {
        (self.pid, self.started_ticks, self.hz) == (other.pid, other.started_ticks, other.hz)
    }

    /// Returns what happened since `before`. Rows of one name are merged; rows without calls and
    /// time are left out.
    pub fn since(&self, before: &TableSnapshot) -> Result<RowDifference, TableFault> {
        let mut difference = RowDifference::default();
        for (number, (now, then)) in self.rows.iter().zip(&before.rows).enumerate() {
            if now.kind == 0 {
                continue;
            }
            let row = self.row(number, now, then)?;
            if [row.calls, row.user_ns, row.system_ns, row.wait_ns] == [0; 4] {
                continue;
            }
            let is_call = now.kind == KIND_CALL;
            merge(if is_call { &mut difference.calls } else { &mut difference.subroutines }, row);
        }
        difference.threads =
            self.threads.iter().zip(&before.threads).filter(|(a, b)| a != b).count();
        Ok(difference)
    }

    fn row(
        &self,
        number: usize,
        now: &RowTicks,
        then: &RowTicks,
    ) -> Result<ProfileRow, TableFault> {
        let known = then.kind == 0 || (then.kind == now.kind && then.name == now.name);
        if !known {
            return Err("a row has changed its name");
        }
        let mut passed = [0; ROW_WORDS];
        for (index, passed) in passed.iter_mut().enumerate() {
            let difference = now.columns[index].checked_sub(then.columns[index]);
            *passed = difference.ok_or("a count went backwards")?;
        }
        let ns = |column: usize| {
            let ns = passed[column].saturating_mul(1_000_000_000) / u128::from(self.hz);
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        Ok(ProfileRow {
            name: now.name.clone(),
            calls: u64::try_from(passed[CALLS]).unwrap_or(u64::MAX),
            // Time outside of all spans belongs to no subroutine.
            user_ns: if number == OUTSIDE { 0 } else { ns(USER) },
            system_ns: ns(SYSTEM),
            wait_ns: ns(WAIT),
            of_profile: number == OUTSIDE || number == OWN,
        })
    }
}

fn ticks(words: &[u64], row: usize) -> Result<RowTicks, TableFault> {
    let kind = words[KINDS_AT + row];
    if kind == 0 {
        return Ok(RowTicks::default());
    }
    if ![KIND_SPAN, KIND_CALL].contains(&kind) {
        return Err("a row is of no known kind");
    }
    let name = text(&words[NAMES_AT + row * NAME_WORDS..][..NAME_WORDS])?;
    let mut columns = [0; ROW_WORDS];
    for thread in 0..THREADS {
        let at = TABLES_AT + thread * TABLE_WORDS + row * ROW_WORDS;
        for (column, word) in columns.iter_mut().zip(&words[at..]) {
            *column += u128::from(*word);
        }
    }
    Ok(RowTicks { kind, name: name.ok_or("a row has no name")?, columns })
}

/// Checks a zero-padded name: printable UTF-8, since it goes to terminals.
fn text(words: &[u64]) -> Result<Option<String>, TableFault> {
    let mut bytes = [0; NAME_BYTES];
    for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    if bytes[length..].iter().any(|byte| *byte != 0) {
        return Err("a name goes on after its end");
    }
    let name = std::str::from_utf8(&bytes[..length]).map_err(|_| "a name is not UTF-8")?;
    if name.chars().any(weir_policy::text::is_unsafe_to_print) {
        return Err("a name is not printable");
    }
    Ok(if name.is_empty() { None } else { Some(String::from(name)) })
}

/// Returns the middle of three readings of each word. Counts only grow, so a word that was read
/// while half of it was stored is left out.
pub fn middle([a, b, c]: [&[u64]; 3]) -> Vec<u64> {
    let middle = |a: u64, b: u64, c: u64| a.max(b).min(a.min(b).max(c));
    a.iter().zip(b).zip(c).map(|((a, b), c)| middle(*a, *b, *c)).collect()
}
