//! The figures at the end, for people (`table`) and for programs (`json`).

use super::display::Shown;
use serde::Serialize;
use std::time::Duration;
use weir_command::fault::Fault;
use weir_command::json;
use weir_command::units::{binary as bytes, capacity, seconds};

/// With fewer bytes, the CPU time per GB would mostly be the time that a process takes to start.
const WORTH_BYTES: u64 = 100_000_000;

/// The figures of a buffer.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// `done`, `reader gone`, `interrupted`, or `failed`.
    pub ended: &'static str,
    /// The error, if it failed.
    pub error: Option<String>,
    /// A failure that kept no byte from passing.
    pub warning: Option<String>,
    /// The signal that interrupted it.
    pub signal: Option<i32>,
    /// The name that the user gave it.
    pub name: Option<String>,
    wall_s: f64,
    /// When the input had been read to its end; its writer was done by then.
    input_ended_s: Option<f64>,
    bytes_in: u64,
    bytes_out: u64,
    /// Bytes that were read and lost because the buffer ended before its output took them.
    pub not_passed_on_bytes: u64,
    bytes_in_per_s: f64,
    bytes_out_per_s: f64,
    spliced_bytes: u64,
    buffered_bytes: u64,
    delayed_bytes: u64,
    cancelled_bytes: u64,
    spilled_bytes: u64,
    read_back_bytes: u64,
    memory_bytes: u64,
    max_memory_bytes: u64,
    max_file_bytes: u64,
    user_s: f64,
    sys_s: f64,
    cpu_s_per_gb: Option<f64>,
    engine: String,
}

impl Stats {
    /// Computes the figures from what has passed, the time, the CPU time in user mode and in the
    /// kernel, the size of the memory, and the engine.
    pub fn new(
        shown: &Shown,
        wall: Duration,
        (user_s, sys_s): (f64, f64),
        (memory_bytes, engine): (u64, String),
    ) -> Stats {
        let per_s = |bytes: u64, time: Duration| bytes as f64 / time.as_secs_f64().max(1e-9);
        let gb = shown.out_bytes as f64 / 1e9;
        let pool = &shown.pool;
        Stats {
            ended: "done",
            error: None,
            warning: None,
            signal: None,
            name: None,
            wall_s: wall.as_secs_f64(),
            input_ended_s: shown.input_ended.map(|time| time.as_secs_f64()),
            bytes_in: shown.in_bytes,
            bytes_out: shown.out_bytes,
            not_passed_on_bytes: shown.in_bytes - shown.out_bytes,
            bytes_in_per_s: per_s(shown.in_bytes, shown.input_ended.unwrap_or(wall)),
            bytes_out_per_s: per_s(shown.out_bytes, wall),
            spliced_bytes: shown.moved_bytes,
            buffered_bytes: pool.put_bytes,
            delayed_bytes: pool.delayed_bytes,
            cancelled_bytes: pool.cancelled_bytes,
            spilled_bytes: pool.spilled_bytes,
            read_back_bytes: pool.read_back_bytes,
            memory_bytes,
            max_memory_bytes: pool.most_memory_bytes,
            max_file_bytes: pool.most_file_bytes,
            user_s,
            sys_s,
            cpu_s_per_gb: (shown.out_bytes > 0).then(|| (user_s + sys_s) / gb),
            engine,
        }
    }

    /// The figures as a short table.
    pub fn table(&self) -> String {
        let time = |s: f64| seconds((s * 1e9) as u64);
        let rate = |per_s: f64| format!("{}/s", bytes(per_s as u64));
        let input = rate(self.bytes_in_per_s);
        let input = match self.input_ended_s {
            Some(s) => format!("{input}, all read after {}", time(s)),
            None => input,
        };
        let ended = if self.ended == "done" { "" } else { self.ended };
        let ended = if ended.is_empty() { String::new() } else { format!(" ({ended})") };
        let share = 100 * self.max_memory_bytes / self.memory_bytes.max(1);
        let memory = format!("at most: {share} % of {}", capacity(self.memory_bytes));
        let row = |name: &str, count: u64, note: &str| {
            let line = format!("  {name:<10}{:>8}  {note}", bytes(count));
            format!("{}\n", line.trim_end())
        };
        let cpu = format!("{} user, {} system", time(self.user_s), time(self.sys_s));
        let worth = self.bytes_out >= WORTH_BYTES;
        let cpu = match self.cpu_s_per_gb.filter(|_| worth) {
            Some(s) => format!("{cpu}: {s:.2}s per GB"),
            None => cpu,
        };
        let name = self.name.as_deref().map_or_else(String::new, |name| format!(" {name}"));
        let lost = match self.not_passed_on_bytes {
            0 => String::new(),
            count => row("lost", count, "read, but not passed on"),
        };
        let (passed, wall) = (bytes(self.bytes_out), time(self.wall_s));
        [
            format!("weir buffer{name}: {passed} in {wall}{ended}\n"),
            row("in", self.bytes_in, &input),
            row("out", self.bytes_out, &rate(self.bytes_out_per_s)),
            lost,
            row("moved", self.spliced_bytes, "passed from input to output without being copied"),
            row("kept", self.buffered_bytes, "copied and kept until the output took them"),
            row(
                "chosen",
                self.delayed_bytes,
                "of those kept, selected for the file: memory ran short",
            ),
            row(
                "avoided",
                self.cancelled_bytes,
                "of those chosen, taken by the output before they were written",
            ),
            row("spilled", self.spilled_bytes, "of those chosen, written to the file"),
            row("read back", self.read_back_bytes, "from the file"),
            row("memory", self.max_memory_bytes, &memory),
            row("file", self.max_file_bytes, "at most"),
            format!("  cpu       {cpu}\n"),
            format!("  engine    {}\n", self.engine),
        ]
        .concat()
    }

    /// The figures as JSON.
    pub fn json(&self) -> Result<String, Fault> {
        json::document("weir.buffer/1", self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir::PoolAccount;

    #[test]
    fn the_table_reads_well() {
        let mut pool = PoolAccount::default();
        pool.put_bytes = 900_000_000;
        pool.delayed_bytes = 700_000_000;
        pool.cancelled_bytes = 180_000_000;
        pool.spilled_bytes = 520_000_000;
        pool.read_back_bytes = 521_000_000;
        pool.most_memory_bytes = 256 << 20;
        pool.most_file_bytes = 400_000_000;
        let (moved_bytes, in_bytes) = (3_100_000_000, 4_000_000_000);
        let input_ended = Some(Duration::from_secs(5));
        let shown = Shown { in_bytes, out_bytes: in_bytes, moved_bytes, input_ended, pool };
        let of = (512 << 20, String::from("io_uring, O_DIRECT"));
        let stats = Stats::new(&shown, Duration::from_millis(12_500), (0.25, 1.5), of);
        insta::assert_snapshot!(stats.table());
        let none = (0, String::new());
        let mut none = Stats::new(&Shown::default(), Duration::ZERO, (0.0, 0.0), none);
        none.ended = "reader gone";
        assert!(none.table().starts_with("weir buffer: 0 B in - (reader gone)\n"));
        assert!(!none.table().contains("per GB"), "{}", none.table());
        assert!(none.json().is_ok_and(|text| !text.is_empty()));
    }
}
