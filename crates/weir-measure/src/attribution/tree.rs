//! Finding the processes and threads of each group as they are started.
//!
//! While the newest id of the pid namespace stands still nothing was started and nothing is done.
//! When it moved by a few, those ids are looked at; by many, or backwards, or where it is hidden,
//! all of `/proc` is walked, but not more often than every [`WALK_NS`].

use super::process::Process;
use std::collections::BTreeMap;
use weir_sys::Pid;
use weir_sys::proc::{ProcFile, identity, last_id, processes, tasks};

/// Shortest time between two walks of `/proc`.
const WALK_NS: u64 = 50_000_000;
/// More new ids than this are not looked at one by one.
const FEW: Pid = 128;

/// Which ids have been looked at.
#[derive(Debug)]
pub struct Discovery {
    loadavg: Option<ProcFile>,
    seen: Option<Pid>,
    walked_ns: u64,
}

/// A process that was found: its id and its parent's.
pub type Found = (Pid, Pid);

impl Discovery {
    /// Starts from the ids that exist now: ids of later processes are new.
    pub fn new() -> Discovery {
        let loadavg = ProcFile::open("/proc/loadavg").ok();
        let seen = loadavg.as_ref().and_then(last_id);
        Discovery { loadavg, seen, walked_ns: 0 }
    }

    /// Adds new threads to the known processes and returns new processes whose parent is known,
    /// parents before their children.
    pub fn look(&mut self, now_ns: u64, known: &mut BTreeMap<Pid, Process>) -> Vec<Found> {
        let newest = self.loadavg.as_ref().and_then(last_id);
        let new_ids = match (self.seen, newest) {
            (Some(seen), Some(newest)) if newest == seen => return Vec::new(),
            (Some(seen), Some(newest)) if newest > seen && newest - seen <= FEW => {
                seen + 1..=newest
            }
            _ => return self.walk(now_ns, newest, known),
        };
        self.seen = newest;
        let mut found: Vec<Found> = Vec::new();
        for id in new_ids {
            let Some(who) = identity(id) else { continue };
            if who.process != id {
                if let Some(process) = known.get_mut(&who.process) {
                    process.add_task(id);
                }
            } else if known.contains_key(&who.parent) || is_found(&found, who.parent) {
                found.push((id, who.parent));
            }
        }
        found.retain(|(pid, _)| !known.contains_key(pid));
        found
    }

    fn walk(
        &mut self,
        now_ns: u64,
        newest: Option<Pid>,
        known: &mut BTreeMap<Pid, Process>,
    ) -> Vec<Found> {
        if now_ns < self.walked_ns + WALK_NS {
            return Vec::new();
        }
        self.walked_ns = now_ns;
        self.seen = newest;
        for process in known.values_mut() {
            for id in tasks(process.pid) {
                process.add_task(id);
            }
        }
        let unknown = processes().into_iter().filter(|pid| !known.contains_key(pid));
        let parents: Vec<Found> =
            unknown.filter_map(|pid| Some((pid, identity(pid)?.parent))).collect();
        let mut found: Vec<Found> = Vec::new();
        // A child may have a smaller id than its parent once ids have wrapped around.
        loop {
            let before = found.len();
            for (pid, parent) in &parents {
                let is_ours = known.contains_key(parent) || is_found(&found, *parent);
                if is_ours && !is_found(&found, *pid) {
                    found.push((*pid, *parent));
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }
}

fn is_found(found: &[Found], pid: Pid) -> bool {
    found.iter().any(|(id, _)| *id == pid)
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
            for (child, _) in discovery.look(round * WALK_NS, &mut known) {
                known.insert(child, Process::new(child, 0));
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
    fn children_and_grandchildren_are_found() {
        assert_eq!(found_by(Discovery::new()), 3);
    }

    #[test]
    fn they_are_found_by_walking_where_the_newest_id_is_hidden() {
        assert_eq!(found_by(Discovery { loadavg: None, seen: None, walked_ns: 0 }), 3);
    }
}
