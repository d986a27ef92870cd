//! Discovering the processes and threads of each group as they start.
//!
//! While the newest id of the pid namespace stays the same, nothing was started and nothing is
//! done. If it advanced by a few, those ids are looked up. If it advanced by many, went back, or is
//! hidden, all of `/proc` is walked, but at most once every [`WALK_NS`].

use super::births::Census;
use super::process::Process;
use crate::lives::Lives;
use std::collections::{BTreeMap, BTreeSet};
use weir_sys::Pid;
use weir_sys::proc::{
    NewestId, ProcDir, ProcFile, ProcessIdentity, identity, is_child, is_taken, largest_id,
    processes, tasks,
};

/// Shortest time between two walks of `/proc`.
const WALK_NS: u64 = 50_000_000;
/// Most new ids that are looked up one by one.
const FEW: Pid = 128;

fn newest_id(loadavg: &ProcFile<NewestId>) -> Option<Pid> {
    loadavg.read().ok().map(|NewestId(id)| id)
}

/// The ids that have been looked up.
#[derive(Debug)]
pub struct Discovery {
    loadavg: Option<ProcFile<NewestId>>,
    seen: Option<Pid>,
    /// The newest id at the last count.
    counted: Option<Pid>,
    walked_ns: u64,
    most: Pid,
    /// How many ids were assigned meanwhile, and to whom.
    pub census: Census,
    /// Ids met at the last look that belong to other processes, or to threads of the run.
    met: Vec<Pid>,
}

impl Discovery {
    /// Starts from the present ids: later processes are new.
    pub fn new() -> Discovery {
        let loadavg = ProcFile::open(ProcDir::Host).ok();
        let seen = loadavg.as_ref().and_then(newest_id);
        let census = Census { given: seen.map(|_| 0), ..Census::default() };
        let (walked_ns, most, met) = (0, largest_id(), Vec::new());
        Discovery { loadavg, seen, counted: seen, walked_ns, most, census, met }
    }

    /// Ends the run: counts the ids assigned since the last look.
    pub fn close(&mut self) {
        let newest = self.loadavg.as_ref().and_then(newest_id);
        self.count(newest);
    }

    /// Counts the ids assigned since the last look.
    fn count(&mut self, newest: Option<Pid>) {
        let more = self.counted.zip(newest).map(|(then, newest)| given(then, newest, self.most));
        self.counted = newest;
        self.census.given = self.census.given.zip(more).map(|(given, more)| given + more);
    }

    /// Adds new threads to the known processes and returns new processes whose parent is known,
    /// parents before their children. `lives`: what the kernel told of who started whom; a process whose
    /// parent ended before it was met has the next known one above it in that place.
    pub fn sample(
        &mut self,
        now_ns: u64,
        known: &mut BTreeMap<Pid, Process>,
        lives: Option<&Lives>,
    ) -> Vec<ProcessIdentity> {
        self.sample_met();
        let newest = self.loadavg.as_ref().and_then(newest_id);
        self.count(newest);
        let new_ids = match (self.seen, newest) {
            (Some(seen), Some(newest)) if newest == seen => return Vec::new(),
            (Some(seen), Some(newest)) if newest > seen && newest - seen <= FEW => {
                seen + 1..=newest
            }
            _ => return self.walk(now_ns, newest, known, lives),
        };
        self.seen = newest;
        let mut found: Vec<ProcessIdentity> = Vec::new();
        for id in new_ids {
            let Some(mut who) = identity(id) else {
                // It has ended or is hidden, as another user's process may be: also one that was
                // started here and changed its user.
                let taken = is_taken(id);
                let parent = taken.then(|| hidden_parent(id, known)).flatten();
                self.census.seen += u64::from(parent.is_some());
                self.census.seen += u64::from(taken && parent.is_none());
                self.met.extend(Some(id).filter(|_| taken && parent.is_none()));
                let hidden = |parent| ProcessIdentity { pid: id, parent, name: String::new() };
                found.extend(parent.map(hidden));
                continue;
            };
            self.census.seen += 1;
            if !is_found(&found, who.parent) {
                who.parent = starter(&who, known, lives);
            }
            if who.pid != id {
                self.met.push(id);
                if let Some(process) = known.get_mut(&who.pid) {
                    process.add_task(id);
                }
            } else if known.contains_key(&who.parent) || is_found(&found, who.parent) {
                found.push(who);
            } else if !known.contains_key(&id) {
                // A given stage is known, although its parent does not belong to the run.
                self.met.push(id);
            }
        }
        found.retain(|process| !known.contains_key(&process.pid));
        found
    }

    /// Counts those of the ids met at the last look that have ended already.
    fn sample_met(&mut self) {
        let gone = self.met.drain(..).filter(|id| !is_taken(*id)).count() as u64;
        self.census.others_once += gone;
    }

    fn walk(
        &mut self,
        now_ns: u64,
        newest: Option<Pid>,
        known: &mut BTreeMap<Pid, Process>,
        lives: Option<&Lives>,
    ) -> Vec<ProcessIdentity> {
        if now_ns < self.walked_ns + WALK_NS {
            return Vec::new();
        }
        self.walked_ns = now_ns;
        let (seen, new) = (std::mem::replace(&mut self.seen, newest), newest);
        let is_new = |id: Pid| seen.is_some_and(|seen| id > seen) && new.is_some_and(|n| id <= n);
        for process in known.values_mut() {
            for id in tasks(process.record.pid) {
                process.add_task(id);
                self.census.seen += u64::from(is_new(id));
            }
        }
        let unknown = processes().into_iter().filter(|pid| !known.contains_key(pid));
        let mut parents: Vec<ProcessIdentity> = unknown.filter_map(identity).collect();
        let alive: BTreeSet<Pid> = parents.iter().map(|process| process.pid).collect();
        for process in parents.iter_mut().filter(|process| !alive.contains(&process.parent)) {
            process.parent = starter(process, known, lives);
        }
        let mut found: Vec<ProcessIdentity> = Vec::new();
        // A child may have a smaller id than its parent once ids have wrapped around.
        loop {
            let before = found.len();
            for process in &parents {
                let is_ours =
                    known.contains_key(&process.parent) || is_found(&found, process.parent);
                if is_ours && !is_found(&found, process.pid) {
                    found.push(process.clone());
                }
            }
            if found.len() == before {
                break;
            }
        }
        self.census.seen += found.iter().filter(|process| is_new(process.pid)).count() as u64;
        parents.retain(|process| is_new(process.pid) && !is_found(&found, process.pid));
        self.census.seen += parents.len() as u64;
        self.met.extend(parents.iter().map(|process| process.pid));
        found
    }
}

/// Returns how many ids were assigned between two newest ids. After the largest id the kernel
/// starts again, above the ids reserved for the first processes.
fn given(then: Pid, newest: Pid, most: Pid) -> u64 {
    const KEPT: Pid = 300;
    let more = newest.saturating_sub(then);
    let again = most.saturating_sub(then).saturating_add(newest.saturating_sub(KEPT));
    u64::try_from(if more < 0 { again } else { more }).unwrap_or(0)
}

/// Returns who counts as the parent of a process: where that is nobody known, the next known one above
/// it of which the kernel told.
fn starter(who: &ProcessIdentity, known: &BTreeMap<Pid, Process>, lives: Option<&Lives>) -> Pid {
    let is_known = |pid: &Pid| known.contains_key(pid);
    let lives = lives.filter(|_| !is_known(&who.parent));
    let above = lives.and_then(|lives| lives.above(who.pid).find(is_known));
    above.unwrap_or(who.parent)
}

/// Finds the known process that started a hidden one.
fn hidden_parent(id: Pid, known: &BTreeMap<Pid, Process>) -> Option<Pid> {
    known.keys().copied().take(FEW as usize).find(|parent| is_child(id, *parent))
}

fn is_found(found: &[ProcessIdentity], pid: Pid) -> bool {
    found.iter().any(|process| process.pid == pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// A shell that starts a grandchild, says so, and stays until its input closes.
    fn found_by(mut discovery: Discovery) -> usize {
        let mut shell = Command::new("sh")
            .args(["-c", "exec 3<&0; (cat <&3; :) & echo up; wait"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh");
        let mut line = [0; 3];
        shell.stdout.as_mut().expect("piped").read_exact(&mut line).expect("up");
        let pid = shell.id() as Pid;
        let mut known = BTreeMap::from([(pid, Process::new(pid, 0))]);
        let mut most = 0;
        for round in 1..20_000 {
            for child in discovery.sample(round * WALK_NS, &mut known, None) {
                known.insert(child.pid, Process::new(child.pid, 0));
            }
            most = most.max(known.len());
            if most == 3 {
                break;
            }
            std::thread::yield_now();
        }
        drop(shell.stdin.take());
        shell.wait().expect("waited");
        most
    }

    #[test]
    fn ids_that_start_again_are_counted() {
        assert_eq!(given(1000, 1007, 32_768), 7);
        assert_eq!(given(32_760, 310, 32_768), 8 + 10);
        assert_eq!(given(32_760, 5, 32_768), 0);
        assert_eq!(given(Pid::MAX, 0, Pid::MAX), 0);
    }

    #[test]
    fn children_and_grandchildren_are_found() {
        assert_eq!(found_by(Discovery::new()), 3);
    }

    #[test]
    fn they_are_found_by_walking_where_the_newest_id_is_hidden() {
        assert_eq!(found_by(Discovery { loadavg: None, seen: None, ..Discovery::new() }), 3);
    }
}
