//! Which functions the stages of a run compute in, by samples of their program counters.
//!
//! In the order of flow: the kernel writes a record at each sample, and when a process maps code
//! (`crate::sys::perf`). `records` takes these apart, `memory` finds the file and the place in
//! it, and at the end `symbols` and `lists` find the function there. Only tasks that have a CPU are
//! sampled, so a stage that waits costs nothing.
//!
//! [`Profiler`] belongs to no runner: whoever has the number of a process can attach it.

mod lists;
mod memory;
mod records;
mod symbols;

use crate::machine;
use crate::sys::perf::Group;
use lists::{kernel, written};
use memory::Memory;
use records::{Mapped, Record, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;
use symbols::CodeFile;
use weir_doctor::facts::{HotCode, HotFunction, HotStage};
use weir_sys::Pid;
use weir_sys::proc::{children, owner, sysctl, tasks};

/// Samples for each second of CPU time: a prime number, so that no periodic work keeps in step.
pub const SAMPLES_PER_S: u64 = 499;
/// Most different places whose samples are counted apart.
const MOST_PLACES: usize = 1 << 16;
/// How often to look for tasks that are not sampled yet, and most tasks found at one look.
const ATTACH_ROUNDS: usize = 8;
const MOST_TASKS: usize = 4096;
/// Most files with code.
const MOST_FILES: usize = 1024;

/// Samples the functions in which processes compute.
#[derive(Debug)]
pub struct Profiler {
    group: Group,
    kernel: bool,
    cpus: Vec<u32>,
    refused: Option<String>,
    /// The stage of each event, by its number.
    stages: BTreeMap<u64, Option<usize>>,
    memory: Memory,
    files: Files,
    counts: BTreeMap<(Option<usize>, Place), u64>,
    uncounted: BTreeMap<Option<usize>, u64>,
    owners: BTreeMap<Pid, u32>,
    lost: u64,
    /// Tasks that sampled ones have started meanwhile, while a process is being attached.
    begun: Option<BTreeSet<Pid>>,
    waiting: Vec<(u64, Record)>,
    buffer: Vec<u8>,
}

/// Where a sample lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Kernel(u64),
    /// A file, and the place in it.
    File(usize, u64),
    /// Memory in which a process wrote code.
    Written(Pid, u64),
    Nowhere,
}

/// The files with code that were sampled.
#[derive(Debug, Default)]
struct Files {
    known: BTreeMap<(u64, String), usize>,
    all: Vec<(String, Option<CodeFile>)>,
}

impl Default for Profiler {
    fn default() -> Profiler {
        Profiler::new()
    }
}

impl Profiler {
    /// Makes a profiler that samples nothing yet.
    pub fn new() -> Profiler {
        let online = machine::online().into_iter().filter_map(|cpu| u32::try_from(cpu).ok());
        Profiler {
            group: Group::new(SAMPLES_PER_S, true),
            kernel: true,
            cpus: online.collect(),
            refused: None,
            stages: BTreeMap::new(),
            memory: Memory::default(),
            files: Files::default(),
            counts: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            owners: BTreeMap::new(),
            lost: 0,
            begun: None,
            waiting: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Samples a process, what it has started, and what it starts from now on, as this stage; `None`
    /// stands for a script as a whole. Where that is not allowed, [`Profiler::finish`] says so.
    pub fn attach(&mut self, pid: Pid, stage: Option<usize>) {
        self.attach_found(stage, || family(pid));
    }

    /// Samples the threads of a process, of which these are the most, and what it starts from now on.
    pub fn attach_alone(&mut self, pid: Pid, stage: Option<usize>, most: usize) {
        let all = || tasks(pid).into_iter().take(most).map(|task| (pid, task)).collect();
        self.attach_found(stage, all);
    }

    fn attach_found(&mut self, stage: Option<usize>, find: impl Fn() -> Vec<(Pid, Pid)>) {
        let mut seen = BTreeSet::new();
        self.take();
        self.begun = Some(BTreeSet::new());
        // Again, for those that were just being started by one that was not sampled yet.
        for _ in 0..ATTACH_ROUNDS {
            let found = find();
            // What a sampled task starts is sampled already: to add it would count it twice.
            self.take();
            let is_new = |(_, task): &(Pid, Pid)| {
                !seen.contains(task)
                    && self.begun.as_ref().is_some_and(|begun| !begun.contains(task))
            };
            let new: Vec<(Pid, Pid)> = found.into_iter().filter(is_new).collect();
            if new.is_empty() || self.refused.is_some() {
                break;
            }
            for (process, task) in new {
                seen.insert(task);
                self.add(task, stage);
                if process == task && self.refused.is_none() {
                    self.memory.read(process);
                }
            }
        }
        self.begun = None;
    }

    fn add(&mut self, task: Pid, stage: Option<usize>) {
        let mut added = self.group.add(task, &self.cpus);
        let forbidden = |error: &io::Error| matches!(error.raw_os_error(), Some(1 | 13));
        if self.kernel && self.stages.is_empty() && added.as_ref().is_err_and(forbidden) {
            // Without the kernel's own functions it may be allowed.
            self.kernel = false;
            self.group = Group::new(SAMPLES_PER_S, false);
            added = self.group.add(task, &self.cpus);
        }
        match added {
            Ok(numbers) => self.stages.extend(numbers.into_iter().map(|number| (number, stage))),
            // It has ended before it could be sampled.
            Err(error) if error.raw_os_error() == Some(3) => {}
            Err(error) => self.refused = Some(refusal(&error)),
        }
    }

    /// Takes what was sampled since the last call. The kernel keeps the samples of about a second.
    pub fn take(&mut self) {
        self.take_until(weir_sys::cpu::monotonic_ns());
    }

    fn take_until(&mut self, until_ns: u64) {
        self.buffer.clear();
        let mut buffer = std::mem::take(&mut self.buffer);
        self.group.take(&mut buffer);
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.extend(parse(&buffer));
        self.buffer = buffer;
        // A process moves from CPU to CPU, and each has its own records. Those of a moment that all
        // CPUs have passed are complete.
        waiting.sort_by_key(|(time_ns, _)| *time_ns);
        let known = waiting.partition_point(|(time_ns, _)| *time_ns <= until_ns);
        self.waiting = waiting.split_off(known);
        for (_, record) in waiting {
            self.note(record);
        }
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Sample { event, pid, address, kernel } => {
                if let Some(stage) = self.stages.get(&event).copied() {
                    let place = self.place(pid, address, kernel);
                    self.count(stage, place);
                }
            }
            Record::Map { pid, map } => self.memory.map(pid, map),
            Record::Exec { pid } => self.memory.exec(pid),
            Record::Fork { pid, parent, task } => {
                self.memory.fork(pid, parent);
                if let Some(begun) = &mut self.begun {
                    begun.insert(task);
                }
            }
            Record::Lost { records } => self.lost = self.lost.saturating_add(records),
        }
    }

    fn count(&mut self, stage: Option<usize>, place: Place) {
        let known = self.counts.len() < MOST_PLACES || self.counts.contains_key(&(stage, place));
        let sum = match known {
            true => self.counts.entry((stage, place)).or_default(),
            false => self.uncounted.entry(stage).or_default(),
        };
        *sum += 1;
    }

    fn place(&mut self, pid: Pid, address: u64, kernel: bool) -> Place {
        if kernel {
            return Place::Kernel(address);
        }
        let Some(part) = self.memory.at(pid, address) else { return Place::Nowhere };
        if !part.path.starts_with(['/', '[']) || part.path.starts_with("//") || part.inode == 0 {
            if part.path.starts_with('[') {
                return self.files.find(pid, &part).map_or(Place::Nowhere, |at| Place::File(at, 0));
            }
            if !self.owners.contains_key(&pid)
                && let Some((uid, _)) = owner(pid)
            {
                self.owners.insert(pid, uid);
            }
            return Place::Written(pid, address);
        }
        let offset = (address - part.address).saturating_add(part.offset);
        self.files.find(pid, &part).map_or(Place::Nowhere, |at| Place::File(at, offset))
    }

    /// Ends the sampling, and finds the functions.
    pub fn finish(mut self) -> HotCode {
        self.take_until(u64::MAX);
        let names = self.names();
        let mut stages: BTreeMap<Option<usize>, HotStage> = BTreeMap::new();
        for stage in self.stages.values() {
            stages.entry(*stage).or_default().stage = *stage;
        }
        for (stage, samples) in &self.uncounted {
            let stage = stages.entry(*stage).or_default();
            (stage.samples, stage.unnamed) = (stage.samples + samples, stage.unnamed + samples);
        }
        let mut sums: BTreeMap<Option<usize>, BTreeMap<Name, u64>> = BTreeMap::new();
        for ((stage, place), samples) in &self.counts {
            let name = names.get(place).cloned().unwrap_or_default();
            let found = stages.entry(*stage).or_default();
            found.samples += samples;
            found.unnamed += if name.1.is_none() { *samples } else { 0 };
            *sums.entry(*stage).or_default().entry(name).or_default() += samples;
        }
        for (stage, sums) in sums {
            let function = |((kernel, name, place), samples): (Name, u64)| {
                let place = if place.is_empty() { String::from("unknown memory") } else { place };
                HotFunction { name, place, kernel, samples }
            };
            let mut functions: Vec<HotFunction> = sums.into_iter().map(function).collect();
            functions.sort_by_key(|function| std::cmp::Reverse(function.samples));
            stages.entry(stage).or_default().functions = functions;
        }
        let hidden = names
            .iter()
            .any(|(place, (_, name, _))| matches!(place, Place::Kernel(_)) && name.is_none());
        HotCode {
            samples_per_s: SAMPLES_PER_S,
            kernel: self.kernel && self.refused.is_none(),
            gaps: self.gaps(hidden),
            refused: self.refused,
            lost: self.lost,
            stages: stages.into_values().collect(),
        }
    }

    fn gaps(&self, hidden: bool) -> Vec<String> {
        let mut gaps = Vec::new();
        if !self.kernel && self.refused.is_none() {
            gaps.push(format!(
                "functions of the kernel were not sampled: kernel.perf_event_paranoid is {}",
                paranoid()
            ));
        }
        if hidden {
            gaps.push(String::from(
                "the kernel hides the names of some of its functions (kernel.kptr_restrict)",
            ));
        }
        if self.lost > 0 {
            gaps.push(format!(
                "the kernel dropped {} records of samples and of mappings",
                self.lost
            ));
        }
        gaps
    }

    /// Finds the names of all places.
    fn names(&self) -> BTreeMap<Place, Name> {
        let mut names = BTreeMap::new();
        let places: Vec<Place> = self.counts.keys().map(|(_, place)| *place).collect();
        let in_kernel = |place: &Place| match place {
            Place::Kernel(address) => Some(*address),
            _ => None,
        };
        let addresses: Vec<u64> = places.iter().filter_map(in_kernel).collect();
        let list = if addresses.is_empty() { Default::default() } else { kernel(&addresses) };
        for address in addresses {
            let found = list.at(address);
            let name = found.map(|(name, _)| name.to_owned());
            let of = found.map_or("kernel", |(_, of)| of).to_owned();
            names.insert(Place::Kernel(address), (true, name, of));
        }
        for (at, (of, file)) in self.files.all.iter().enumerate() {
            let inside = |place: &&Place| matches!(place, Place::File(file, _) if *file == at);
            let mut functions = None;
            for place in places.iter().filter(inside) {
                let Place::File(_, offset) = place else { continue };
                let name = file.as_ref().and_then(|file| {
                    let functions = functions.get_or_insert_with(|| file.functions());
                    functions.at(*offset)
                });
                names.insert(*place, (false, name, of.clone()));
            }
        }
        let mut wrote: BTreeMap<Pid, Vec<u64>> = BTreeMap::new();
        for place in &places {
            if let Place::Written(pid, address) = place {
                wrote.entry(*pid).or_default().push(*address);
            }
        }
        for (pid, addresses) in wrote {
            let list = written(pid, self.owners.get(&pid).copied(), &addresses);
            for address in addresses {
                let name = list.at(address).map(|(name, _)| name.to_owned());
                let of = String::from("code written at run time");
                names.insert(Place::Written(pid, address), (false, name, of));
            }
        }
        names
    }
}

/// Whether it is the kernel's, the function's name, and the place in which it lies.
type Name = (bool, Option<String>, String);

impl Files {
    fn find(&mut self, pid: Pid, part: &Rc<Mapped>) -> Option<usize> {
        let key = (part.inode, part.path.clone());
        if let Some(at) = self.known.get(&key) {
            return Some(*at);
        }
        if self.all.len() >= MOST_FILES {
            return None;
        }
        let file = CodeFile::open(pid, part);
        let name = part.path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
        self.all.push((name.to_owned(), file));
        self.known.insert(key, self.all.len() - 1);
        Some(self.all.len() - 1)
    }
}

/// Returns the tasks of a process and of its descendants, each with its process.
fn family(pid: Pid) -> Vec<(Pid, Pid)> {
    let (mut processes, mut found, mut at) = (vec![pid], Vec::new(), 0);
    while let Some(process) = processes.get(at).copied().filter(|_| found.len() < MOST_TASKS) {
        at += 1;
        found.extend(tasks(process).into_iter().map(|task| (process, task)));
        for child in children(process) {
            // A number may be given again while the tree is walked.
            if !processes.contains(&child) {
                processes.push(child);
            }
        }
    }
    found
}

fn paranoid() -> String {
    sysctl("kernel.perf_event_paranoid").unwrap_or_else(|| String::from("not known"))
}

/// Says why nothing can be sampled, and what would help.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => format!(
            "perf_event_open is not allowed here (kernel.perf_event_paranoid is {}); as root, or \
             with that at 2 or less, it is",
            paranoid()
        ),
        Some(38) => String::from("this kernel has no perf_event_open"),
        Some(24) => String::from("too few files may be open (ulimit -n)"),
        _ => format!("perf_event_open: {error}"),
    }
}
