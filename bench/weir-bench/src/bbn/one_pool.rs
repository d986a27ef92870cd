//! Two pairs and the copy of a file that compete for one budget of buffers.
//!
//! The report's improved pipes depend "very heavily on being able to keep a working set of buffers in
//! core". Here the pairs are streams of a pool, and the copy goes through two regions of the same pool,
//! one over each file. So all have one budget, and what one gets another lacks. They are threads of one
//! process: a pool belongs to a process (docs/adr/0028).

use super::LOADED_COSTS;
use super::pool::{self, FRAME_BYTES, PooledPair, Through};
use crate::engine::load::scratch_file;
use crate::tools::own::trouble;
use crate::tools::prelude::*;
use std::fs::File;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use weir::{Pool, PoolRule};
use weir_measure::sys::usage::Usage;
use weir_region::{Region, RegionOptions};

const BYTES: [u64; 2] = [128, 4_096];
/// The rules of the report.
const RULES: [(&str, PoolRule); 2] = [pool::RULES[0], pool::RULES[1]];
/// Frames of the pool: each region has eight at least.
const FRAMES: u64 = 64;
/// Length of the file that is copied, many times the pool.
const COPIED_BYTES: u64 = 8 << 20;

/// One pair alone in the pool, and two pairs and a copy, by the report's sizes and rules.
pub fn group_of_one_pool() -> Group {
    let mut cases = Vec::new();
    for bytes in BYTES {
        for rule in RULES {
            cases.extend([false, true].map(|loaded| one(bytes, rule, loaded)));
        }
    }
    Group { twin: false, processes: 10, ..group("one pool", Sides::Two, cases) }
}

fn one(bytes: u64, (name, rule): (&'static str, PoolRule), loaded: bool) -> Case {
    let params = Params {
        chunk_bytes: Some(bytes),
        parties: Some(if loaded { 4 } else { 2 }),
        operation: Some(if loaded { "loaded" } else { "alone" }.into()),
        ..moving(&format!("pool-{name}"), "one-way")
    };
    let what = if loaded { "two pairs and a copy" } else { "one pair" };
    let make = move |site: &Site| pairs(site, rule, bytes as usize, loaded);
    let name = format!("{what} in one pool, {name} rule, {}", size(bytes));
    Case {
        standard: false,
        measures: if loaded { LOADED_COSTS.to_vec() } else { LOADED_COSTS[..3].to_vec() },
        size: BatchSize::Time { ns: 60_000_000 },
        weight: 6.0,
        normalise: Normalise::Never,
        ..case(name, params, Measure::THROUGHPUT, make)
    }
}

/// What runs in the pool of a case.
struct Load {
    first: PooledPair,
    beside: Option<(SecondPair, Copying)>,
}

impl Load {
    fn start(site: &Site, rule: PoolRule, bytes: usize, loaded: bool) -> Result<Load, CaseError> {
        let pool = pool::pool(site, rule, FRAMES)?;
        let first = PooledPair::start(site, &pool, Through::Stream, bytes)?;
        let beside = match loaded {
            true => Some((SecondPair::start(site, &pool, bytes)?, Copying::start(site, &pool)?)),
            false => None,
        };
        Ok(Load { first, beside })
    }
}

fn pairs(site: &Site, rule: PoolRule, bytes: usize, loaded: bool) -> MadeWork {
    let site = site.clone();
    // Made on first use: a process with a pool has threads and must not be forked.
    let mut made: Option<Load> = None;
    work(move |count| {
        let load = match &mut made {
            Some(load) => load,
            None => made.insert(Load::start(&site, rule, bytes, loaded)?),
        };
        let copying = load.beside.as_ref().map(|(_, copying)| copying.run());
        if let Some((second, _)) = &load.beside {
            second.counts.send(count).map_err(|_| ended())?;
        }
        let [elapsed_ns, system_ns] = timed_pair(&mut load.first, count)?;
        let each = |ns: f64| ns / count as f64;
        let throughput = count as f64 * bytes as f64 * 1e3 / elapsed_ns;
        let mut values = vec![throughput, each(elapsed_ns), each(system_ns)];
        if let Some((second, copying)) = &load.beside {
            values.extend(second.costs.recv().map_err(|_| ended())??.map(each));
            copying.check()?;
        }
        drop(copying);
        Ok(Batch { elapsed_ns, values })
    })
}

fn ended() -> CaseError {
    CaseError::failed("a thread of the second pair ended")
}

/// Sends blocks. Returns the real time, and the system time of the pair's two threads.
fn timed_pair(pair: &mut PooledPair, count: u64) -> Result<[f64; 2], CaseError> {
    let (before, begun) = (Usage::of_thread().system_ns, Instant::now());
    let read_ns = pair.send(count)?;
    let elapsed_ns = elapsed_ns(begun);
    Ok([elapsed_ns, (Usage::of_thread().system_ns - before + read_ns) as f64])
}

/// A pair whose writer is a thread of its own.
struct SecondPair {
    counts: Sender<u64>,
    costs: Receiver<Result<[f64; 2], CaseError>>,
}

impl SecondPair {
    fn start(site: &Site, pool: &Pool, bytes: usize) -> Result<SecondPair, CaseError> {
        let mut pair = PooledPair::start(site, pool, Through::Stream, bytes)?;
        let (counts, wanted) = channel();
        let (say, costs) = channel();
        let site = site.clone();
        std::thread::spawn(move || {
            let placed = site.go_here();
            for count in wanted {
                let cost = placed.clone().and_then(|()| timed_pair(&mut pair, count));
                if say.send(cost).is_err() {
                    return;
                }
            }
        });
        Ok(SecondPair { counts, costs })
    }
}

/// Whether the copy runs, stands, or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Stand,
    Run,
    End,
}

/// A thread that copies a file through the pool, block by block, while it is told to.
struct Copying {
    order: Arc<(Mutex<Order>, Condvar)>,
    thread: JoinHandle<weir::Result<()>>,
}

/// While this value lives, the copy runs.
struct RunningCopy<'a>(&'a Copying);

impl Copying {
    fn start(site: &Site, pool: &Pool) -> Result<Copying, CaseError> {
        let region = |file: File| -> Result<Region, CaseError> {
            file.set_len(COPIED_BYTES)?;
            let options = RegionOptions::new().memory_bytes(FRAMES * FRAME_BYTES).pool(pool);
            Region::over(file, &options).map_err(trouble)
        };
        let source = scratch_file(site)?;
        fill(&source)?;
        let (from, to) = (region(source)?, region(scratch_file(site)?)?);
        let order = Arc::new((Mutex::new(Order::Stand), Condvar::new()));
        let ordered = order.clone();
        let thread = std::thread::spawn(move || {
            let mut block = vec![0; FRAME_BYTES as usize];
            loop {
                for at in (0..COPIED_BYTES).step_by(block.len()) {
                    if !may_run(&ordered) {
                        return Ok(());
                    }
                    from.read_at(at, &mut block)?;
                    to.write_at(at, &block)?;
                }
                to.flush()?;
            }
        });
        Ok(Copying { order, thread })
    }

    /// Fails if the copy has ended: the pairs were not loaded then.
    fn check(&self) -> Result<(), CaseError> {
        if self.thread.is_finished() {
            return Err(CaseError::failed("the copy beside the pairs has failed"));
        }
        Ok(())
    }

    fn order(&self, order: Order) {
        let (now, changed) = &*self.order;
        *now.lock().unwrap_or_else(PoisonError::into_inner) = order;
        changed.notify_all();
    }

    fn run(&self) -> RunningCopy<'_> {
        self.order(Order::Run);
        RunningCopy(self)
    }
}

impl Drop for RunningCopy<'_> {
    fn drop(&mut self) {
        self.0.order(Order::Stand);
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.order(Order::End);
    }
}

/// Waits while the copy is to stand. Returns whether it is to continue.
fn may_run((now, changed): &(Mutex<Order>, Condvar)) -> bool {
    let now = now.lock().unwrap_or_else(PoisonError::into_inner);
    let now = changed.wait_while(now, |now| *now == Order::Stand);
    *now.unwrap_or_else(PoisonError::into_inner) == Order::Run
}

/// Fills a file with bytes that are not zeros, which a file system could leave out.
fn fill(mut file: &File) -> Result<(), CaseError> {
    use std::io::Write;
    let block: Vec<u8> = (0..FRAME_BYTES).map(|at| at as u8 | 1).collect();
    for _ in 0..COPIED_BYTES / FRAME_BYTES {
        file.write_all(&block)?;
    }
    Ok(file.sync_data()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::params::Placement;

    #[test]
    fn pairs_and_a_copy_get_on_in_one_pool() {
        let site = Site {
            placement: Placement::Free,
            cpus: Vec::new(),
            load: crate::engine::params::Load::None,
            directory: std::env::temp_dir(),
        };
        for (name, rule) in RULES {
            let made = pairs(&site, rule, 4_096, true);
            let mut made = made.unwrap_or_else(|trouble| panic!("{name}: {}", trouble.text));
            for count in [1, 200] {
                let batch = made.batch(count);
                let batch = batch.unwrap_or_else(|trouble| panic!("{name}: {}", trouble.text));
                assert_eq!(batch.values.len(), LOADED_COSTS.len(), "{name}");
            }
        }
    }
}
