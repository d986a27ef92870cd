//! The rows of `weir top`: the kernel's pipes and weir's own channels, in one form.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir::stat::{FlagsStat, Memories, MpxStat, PipeKind, PipeStat, RegionStat};
use weir_command::json;
use weir_command::units::words::count;
use weir_measure::host_pipes::{Holder, HostPipe, HostPipes, Rate, RateQuality};
use weir_policy::text::printable;

/// A process at one end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct End {
    /// Its id; 0 where it is not known.
    pub pid: i32,
    /// Its name.
    pub command: String,
    /// Its descriptor, where it is known.
    pub fd: Option<i32>,
    /// Whether it waits; `None` where that is not known.
    pub waits: Option<bool>,
    /// Whether it waits for nothing else.
    pub only: bool,
    /// The CPU quota that throttles it, in CPUs.
    pub quota_cpus: Option<f64>,
}

impl End {
    /// Whether its id or name contains a text, in any case.
    pub fn contains(&self, text: &str) -> bool {
        has(&format!("{} {}", self.pid, self.command), text)
    }
}

fn has(whole: &str, text: &str) -> bool {
    whole.to_lowercase().contains(&text.to_lowercase())
}

/// One channel at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// What it is.
    pub kind: &'static str,
    /// The inode, which identifies it together with its kind.
    pub inode: u64,
    /// The path of a FIFO, or what a region or mpx adds.
    pub name: String,
    /// Who writes.
    pub writers: Vec<End>,
    /// Who reads.
    pub readers: Vec<End>,
    pub fill_bytes: Option<u64>,
    /// Bytes that it holds.
    pub capacity_bytes: Option<u64>,
    pub full: Option<bool>,
    /// How much passes.
    pub rate: Option<Rate>,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    Both,
    Writer,
    Reader,
    Nobody,
    Unknown,
}

impl Row {
    /// Who waits at this moment.
    pub fn waits(&self) -> Waits {
        let waits = |ends: &[End]| ends.iter().any(|end| end.waits == Some(true));
        let known = |ends: &[End]| ends.iter().all(|end| end.waits.is_some());
        match (waits(&self.writers), waits(&self.readers)) {
            (true, true) => Waits::Both,
            (true, false) => Waits::Writer,
            (false, true) => Waits::Reader,
            _ if known(&self.writers) && known(&self.readers) => Waits::Nobody,
            _ => Waits::Unknown,
        }
    }

    /// The fill as a share of the capacity.
    pub fn share(&self) -> Option<f64> {
        let capacity = self.capacity_bytes.filter(|bytes| *bytes > 0)?;
        Some(self.fill_bytes? as f64 / capacity as f64)
    }

    /// Whether a process, the name or the kind contains a text, in any case.
    pub fn contains(&self, text: &str) -> bool {
        let mut ends = self.writers.iter().chain(&self.readers);
        has(self.kind, text) || has(&self.name, text) || ends.any(|end| end.contains(text))
    }

    /// Whether it is a pipe in which nothing lies, through which nothing passed, and for which nobody
    /// waits but one who waits for other things too: mostly one that wakes a loop.
    pub fn is_idle(&self) -> bool {
        let is_kernels = ["pipe", "fifo"].contains(&self.kind);
        let is_still = self.rate.is_some_and(|rate| rate.bytes_per_s == 0.0);
        let mut ends = self.writers.iter().chain(&self.readers);
        is_kernels && is_still && self.fill_bytes == Some(0) && !ends.any(|end| end.only)
    }

    /// The process that `weir why` is asked about: one that waits, or else the first.
    pub fn asked(&self) -> Option<i32> {
        let ends = || self.writers.iter().chain(&self.readers).filter(|end| end.pid > 0);
        let waits = ends().find(|end| end.waits == Some(true));
        waits.or_else(|| ends().next()).map(|end| end.pid)
    }

    /// The channel as JSON.
    pub fn json(&self) -> Value {
        let ends = |ends: &[End], others: &[End]| -> Vec<Value> {
            let pids = || others.iter().map(|end| end.pid).filter(|pid| *pid > 0);
            let of = |end: &End| {
                let waits_for: Vec<i32> = match end.waits {
                    Some(true) => pids().filter(|pid| *pid != end.pid).collect(),
                    _ => Vec::new(),
                };
                let more = json!({
                    "fd": end.fd,
                    "waiting": end.waits,
                    "waits_for_pids": waits_for,
                    "quota_cpus": end.quota_cpus,
                });
                json::process(end.pid, None, more)
            };
            ends.iter().map(of).collect()
        };
        let quality = self.rate.map(|rate| match rate.quality {
            RateQuality::Counted => "counted",
            RateQuality::AtMost => "at-most",
            RateQuality::AtLeast => "at-least",
        });
        json!({
            "kind": self.kind,
            "inode": self.inode,
            "name": Some(&self.name).filter(|name| !name.is_empty()),
            "writers": ends(&self.writers, &self.readers),
            "readers": ends(&self.readers, &self.writers),
            "fill_bytes": self.fill_bytes,
            "capacity_bytes": self.capacity_bytes,
            "full": self.full,
            "bytes_per_s": self.rate.map(|rate| rate.bytes_per_s),
            "rate_is": quality,
        })
    }
}

/// One look at everything.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The channels.
    pub rows: Vec<Row>,
    /// Processes that this user may not see.
    pub unseen: usize,
    /// Processes at which there was no time to look.
    pub left_out: usize,
}

/// The time for finding the channels of the library among the processes of the host.
const MOST_TIME: Duration = Duration::from_millis(300);

/// The bytes that channels have moved, by their kind and inode.
type Moved = BTreeMap<(&'static str, u64), u64>;

/// Looks again and again.
#[derive(Debug)]
pub struct Collector {
    kernel: HostPipes,
    /// The bytes that each channel of weir had moved at the look before, and its time.
    before: Option<(Moved, Instant)>,
    names: BTreeMap<i32, String>,
}

impl Collector {
    pub fn new() -> Collector {
        Collector { kernel: HostPipes::new(), before: None, names: BTreeMap::new() }
    }

    /// Looks at all pipes and channels; with `all`, also at pipes of one process.
    pub fn snapshot(&mut self, all: bool) -> Snapshot {
        // A process may get another name with exec.
        self.names.clear();
        let look = self.kernel.snapshot(all);
        let mut rows: Vec<Row> = look.pipes.into_iter().map(|pipe| self.kernel_row(pipe)).collect();
        let now = Instant::now();
        let held = Memories::find_within(MOST_TIME);
        let mut own = self.own_rows(&held);
        let before = self.before.take();
        for (row, bytes) in &mut own {
            let then = before.as_ref().and_then(|(all, at)| {
                Some((all.get(&(row.kind, row.inode))?, now.duration_since(*at).as_secs_f64()))
            });
            if let (Some(bytes), Some((then, elapsed_s))) = (*bytes, then) {
                let bytes_per_s = bytes.saturating_sub(*then) as f64 / elapsed_s.max(1e-3);
                row.rate = Some(Rate { bytes_per_s, quality: RateQuality::Counted });
            }
        }
        let moved = own.iter().filter_map(|(row, bytes)| Some(((row.kind, row.inode), (*bytes)?)));
        self.before = Some((BTreeMap::from_iter(moved), now));
        rows.extend(own.into_iter().map(|(row, _)| row));
        Snapshot { rows, unseen: look.unseen, left_out: look.left_out.max(held.left_out()) }
    }

    fn kernel_row(&mut self, pipe: HostPipe) -> Row {
        let mut ends = |holders: &[Holder]| -> Vec<End> {
            let end = |holder: &Holder| End {
                fd: Some(holder.fd),
                waits: holder.waits,
                only: holder.only,
                quota_cpus: holder.quota.map(|quota| quota.cpus),
                ..self.end(holder.pid)
            };
            holders.iter().map(end).collect()
        };
        Row {
            kind: if pipe.path.is_some() { "fifo" } else { "pipe" },
            inode: pipe.identity.inode,
            writers: ends(&pipe.writers),
            readers: ends(&pipe.readers),
            name: pipe.path.as_deref().map(printable).unwrap_or_default(),
            fill_bytes: pipe.fill.map(|fill| fill.bytes),
            capacity_bytes: pipe.fill.map(|fill| fill.capacity_bytes),
            full: pipe.fill.map(|fill| fill.full),
            rate: pipe.rate,
        }
    }

    /// The channels, flags and regions of the library, with the bytes that each has moved.
    fn own_rows(&mut self, held: &Memories) -> Vec<(Row, Option<u64>)> {
        let mut rows: Vec<(Row, Option<u64>)> =
            held.pipes().iter().map(|pipe| self.pipe_row(pipe)).collect();
        let mpxes = held.mpxes();
        rows.extend(mpxes.iter().map(|mpx| self.mpx_row(mpx, &mpxes)));
        rows.extend(held.clusters().iter().map(|flags| (self.flags_row(flags), None)));
        rows.extend(held.regions().iter().map(|region| self.region_row(region)));
        rows
    }

    fn pipe_row(&mut self, pipe: &PipeStat) -> (Row, Option<u64>) {
        let kind = match (pipe.port, pipe.kind) {
            (Some(_), _) => "port",
            (None, PipeKind::Stream) => "stream",
            _ => "records",
        };
        let mut end = |stat: &weir::stat::EndStat| -> Vec<End> {
            let pid = i32::try_from(stat.account.pid).unwrap_or(0);
            let end = End { waits: Some(stat.waits), ..self.end(pid) };
            if stat.closed { Vec::new() } else { vec![end] }
        };
        let row = Row {
            kind,
            inode: pipe.inode,
            writers: end(&pipe.writer),
            readers: end(&pipe.reader),
            fill_bytes: pipe.fill_bytes,
            capacity_bytes: Some(pipe.capacity_bytes),
            full: pipe.fill_bytes.map(|bytes| bytes >= pipe.capacity_bytes),
            ..Row::default()
        };
        // The reader of a port counts for all of its writers together.
        let counted = if pipe.port.is_some() { &pipe.writer } else { &pipe.reader };
        (row, Some(counted.account.bytes))
    }

    /// A row for what a participant of an mpx sends.
    fn mpx_row(&mut self, mpx: &MpxStat, all: &[MpxStat]) -> (Row, Option<u64>) {
        let others = all.iter().filter(|it| it.socket == mpx.socket && it.is_owner != mpx.is_owner);
        let pid = |mpx: &MpxStat| i32::try_from(mpx.account.pid).unwrap_or(0);
        let role = if mpx.is_owner { "owner" } else { "peer" };
        let arena = Some(mpx.account.arena_bytes).filter(|bytes| *bytes > 0);
        let row = Row {
            kind: "mpx",
            inode: mpx.inode,
            name: format!("{role}, {} channels", count(mpx.account.channels)),
            writers: vec![self.end(pid(mpx))],
            readers: others.map(|other| self.end(pid(other))).collect(),
            fill_bytes: arena.map(|_| mpx.account.arena_used_bytes),
            capacity_bytes: arena,
            ..Row::default()
        };
        (row, Some(mpx.account.bytes_out))
    }

    /// A row for a cluster of flags: every holder may set them and wait for them.
    fn flags_row(&mut self, flags: &FlagsStat) -> Row {
        let mut pids: Vec<i32> = flags.holders.iter().map(|(pid, _)| *pid).collect();
        pids.dedup();
        let ends: Vec<End> = pids.into_iter().map(|pid| self.end(pid)).collect();
        // Nobody can tell from outside which of the holders sleeps.
        let idle = |end: &End| End { waits: (flags.sleepers == 0).then_some(false), ..end.clone() };
        Row {
            kind: "flags",
            inode: flags.inode,
            name: format!("{:#x}, {} wait", flags.bits, flags.sleepers),
            writers: ends.iter().map(|end| End { waits: Some(false), ..end.clone() }).collect(),
            readers: ends.iter().map(idle).collect(),
            ..Row::default()
        }
    }

    fn region_row(&mut self, region: &RegionStat) -> (Row, Option<u64>) {
        let row = Row {
            kind: "region",
            inode: region.inode,
            name: format!("{} faults", count(region.hard_faults)),
            writers: vec![self.end(i32::try_from(region.pid).unwrap_or(0))],
            fill_bytes: Some(region.memory_bytes),
            capacity_bytes: Some(region.budget_bytes),
            ..Row::default()
        };
        (row, Some(region.read_bytes.saturating_add(region.written_bytes)))
    }

    /// A process with its name.
    fn end(&mut self, pid: i32) -> End {
        let name = self.names.entry(pid).or_insert_with(|| {
            let name = (pid > 0).then(|| json::command(pid)).flatten();
            printable(name.as_deref().unwrap_or(""))
        });
        End { pid, command: name.clone(), ..End::default() }
    }
}
