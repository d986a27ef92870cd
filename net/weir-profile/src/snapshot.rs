//! A checked copy of a table: nothing in it is trusted, since it may be another process's file.

use super::gaps::{Columns, GapShare};
use super::layout::{
    CALLS, CLOCK_AT, CLOCK_COUNTER, CLOCK_MONOTONIC, FIRST, GAP_CPU_NS, GAP_MOST_NS, HZ_AT,
    KIND_CALL, KIND_SPAN, KINDS_AT, MAGIC, MAGIC_AT, NAME_BYTES, NAME_WORDS, NAMES_AT, OUTSIDE,
    OWNERS_AT, PID_AT, PROCESS_AT, ROWS, SINCE_AT, STARTED_AT, SUBROUTINES_LOST_AT, SYSTEM,
    TABLE_WORDS, TABLES_AT, THREADS, THREADS_LOST_AT, TOGETHER_AT, UNTIL_AT, UNTIMED, USER,
    VERSION, VERSION_AT, WAIT, WORDS,
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
    rows: Vec<RowName>,
    /// Thread ids of the owners of the tables, and the words of all tables.
    owners: Vec<u64>,
    tables: Vec<u64>,
}

/// What a row is; of kind 0 where it is not in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RowName {
    kind: u64,
    name: String,
}

impl TableSnapshot {
    /// Checks a private copy of a table.
    pub fn parse(words: &[u64]) -> Result<TableSnapshot, TableFault> {
        if words.len() < WORDS {
            return Err("it is too short for a profile");
        }
        if words[MAGIC_AT] != MAGIC {
            return Err("it is not a profile, or not one yet");
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
        let rows: Result<Vec<RowName>, TableFault> =
            (0..ROWS).map(|row| row_name(words, row)).collect();
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
            owners: words[OWNERS_AT..][..THREADS].to_vec(),
            tables: words[TABLES_AT..WORDS].to_vec(),
        })
    }

    /// Returns a snapshot of this process at its beginning, with nothing counted.
    pub fn nothing(&self) -> TableSnapshot {
        TableSnapshot {
            rows: vec![RowName::default(); ROWS],
            tables: vec![0; self.tables.len()],
            threads_lost: 0,
            subroutines_lost: 0,
            together: 0,
            ..self.clone()
        }
    }

    /// Adds what the gaps have used that are not over, by the CPU time that a thread has in all.
    pub fn close_gaps(&mut self, cpu_ns: impl Fn(u64) -> Option<u64>) {
        for (owner, table) in self.owners.iter().zip(self.tables.chunks_mut(TABLE_WORDS)) {
            let began_ns = table[GAP_CPU_NS * ROWS + UNTIMED];
            if began_ns == 0 {
                continue;
            }
            let used_ns = cpu_ns(*owner).map_or(0, |now_ns| now_ns.saturating_sub(began_ns));
            let used_ns = used_ns.min(table[GAP_MOST_NS * ROWS + UNTIMED]);
            let ticks = u128::from(used_ns) * u128::from(self.hz) / 1_000_000_000;
            let used = &mut table[USER * ROWS + UNTIMED];
            *used = used.saturating_add(u64::try_from(ticks).unwrap_or(u64::MAX));
        }
    }

    pub fn same_process(&self, other: &TableSnapshot) -> bool {
        (self.pid, self.started_ticks, self.hz) == (other.pid, other.started_ticks, other.hz)
    }

    /// Returns what happened since `before`. Rows of one name are merged; rows without calls and
    /// time are left out.
    pub fn since(&self, before: &TableSnapshot) -> Result<RowDifference, TableFault> {
        let known = |now: &RowName, then: &RowName| then.kind == 0 || then == now || now.kind == 0;
        if !self.rows.iter().zip(&before.rows).all(|(now, then)| known(now, then)) {
            return Err("a row has changed its name");
        }
        let mut difference = RowDifference::default();
        let mut sums = vec![Columns::default(); ROWS];
        let tables = self.tables.chunks(TABLE_WORDS).zip(before.tables.chunks(TABLE_WORDS));
        for (now, then) in tables.filter(|(now, then)| now != then) {
            difference.threads += 1;
            self.add_thread(now, then, &mut sums, &mut difference)?;
        }
        for (number, (row, sum)) in self.rows.iter().zip(&sums).enumerate() {
            let row = self.row(number, row, sum);
            if [row.calls, row.user_ns, row.system_ns, row.wait_ns] == [0; 4] {
                continue;
            }
            let is_call = self.rows[number].kind == KIND_CALL;
            merge(if is_call { &mut difference.calls } else { &mut difference.subroutines }, row);
        }
        Ok(difference)
    }

    /// Adds what a thread has counted, with its gaps divided among its rows.
    fn add_thread(
        &self,
        now: &[u64],
        then: &[u64],
        sums: &mut [Columns],
        difference: &mut RowDifference,
    ) -> Result<(), TableFault> {
        let mut rows = vec![Columns::default(); ROWS];
        for (index, (now, then)) in now.iter().zip(then).enumerate() {
            let (row, column) = (index % ROWS, index / ROWS);
            if self.rows[row].kind != 0 {
                // A gap that was not over may have been taken for longer than it came to be.
                let passed = match row {
                    UNTIMED => Some(now.saturating_sub(*then)),
                    _ => now.checked_sub(*then),
                };
                rows[row][column] = u128::from(passed.ok_or("a count went backwards")?);
            }
        }
        let is_span = |row: usize| self.rows[row].kind == KIND_SPAN;
        let share = GapShare::new(&rows, is_span);
        difference.timed_ns = difference.timed_ns.saturating_add(self.ns(share.timed_cpu));
        difference.untimed_ns = difference.untimed_ns.saturating_add(self.ns(share.gaps_cpu));
        for (number, (sum, row)) in sums.iter_mut().zip(rows).enumerate() {
            let whole = share.whole(number, row);
            sum.iter_mut().zip(whole).for_each(|(sum, part)| *sum = sum.saturating_add(part));
        }
        Ok(())
    }

    fn ns(&self, ticks: u128) -> u64 {
        let ns = ticks.saturating_mul(1_000_000_000) / u128::from(self.hz);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn row(&self, number: usize, row: &RowName, sum: &Columns) -> ProfileRow {
        ProfileRow {
            name: row.name.clone(),
            calls: u64::try_from(sum[CALLS]).unwrap_or(u64::MAX),
            // Time outside of all spans belongs to no subroutine.
            user_ns: if number == OUTSIDE { 0 } else { self.ns(sum[USER]) },
            system_ns: self.ns(sum[SYSTEM]),
            wait_ns: self.ns(sum[WAIT]),
            of_profile: number < FIRST,
        }
    }
}

fn row_name(words: &[u64], row: usize) -> Result<RowName, TableFault> {
    let kind = words[KINDS_AT + row];
    if kind == 0 {
        return Ok(RowName::default());
    }
    if ![KIND_SPAN, KIND_CALL].contains(&kind) {
        return Err("a row is of no known kind");
    }
    let name = text(&words[NAMES_AT + row * NAME_WORDS..][..NAME_WORDS])?;
    Ok(RowName { kind, name: name.ok_or("a row has no name")? })
}

/// Checks a zero-padded name: printable UTF-8, since it goes to terminals.
fn text(words: &[u64]) -> Result<Option<String>, TableFault> {
    let mut bytes = [0; NAME_BYTES];
    for (eight, word) in bytes.chunks_exact_mut(8).zip(words) {
        eight.copy_from_slice(&word.to_ne_bytes());
    }
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    if bytes[length..].iter().any(|byte| *byte != 0) {
        return Err("a name continues after its end");
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
