//! Processes that the kernel killed because memory had run out.
//!
//! The kernel counts them for each control group (`memory.events`, or `memory.oom_control` of
//! version 1) and for the whole host (`/proc/vmstat`). It does not say which processes they were,
//! so the difference over a run is evidence, not proof.

use crate::cgroup;
use std::path::Path;
use weir_doctor::ending::MemoryKills;
use weir_sys::proc::number;

/// Returns the counts since the control group was made and, from `/proc/vmstat`, since the host was started.
pub fn kills(vmstat: &str) -> MemoryKills {
    let group = cgroup::directories("memory")
        .iter()
        .find_map(|directory| FILES.iter().find_map(|file| count(&directory.join(file))));
    MemoryKills { group, host: number(vmstat, OOM_KILLS) }
}

/// The name of the count.
const OOM_KILLS: &str = "oom_kill";
/// Files in which a control group counts, in version 2 and in version 1.
const FILES: [&str; 2] = ["memory.events", "memory.oom_control"];

/// Returns how many there were since `then`.
pub fn kills_since(then: MemoryKills, vmstat: &str) -> MemoryKills {
    let now = kills(vmstat);
    let grown = |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?));
    MemoryKills { group: grown(then.group, now.group), host: grown(then.host, now.host) }
}

fn count(file: &Path) -> Option<u64> {
    number(&std::fs::read_to_string(file).ok()?, OOM_KILLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sys::proc::HostFile;

    #[test]
    fn the_number_is_found_in_all_three_files() {
        assert_eq!(number("low 0\noom 3\noom_kill 2\noom_group_kill 0\n", "oom_kill"), Some(2));
        assert_eq!(number("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill"), Some(7));
        for none in ["", "oom_kill", "oom_kill x\n", "oom_kill_disable 1\n"] {
            assert_eq!(number(none, "oom_kill"), None, "{none}");
        }
    }

    #[test]
    fn counts_grow_and_what_is_not_known_stays_so() {
        let then = MemoryKills { group: None, host: Some(0) };
        let counted = HostFile::VmStat.read();
        let since = kills_since(then, &counted);
        assert_eq!(since.group, None);
        assert_eq!(since.host, kills(&counted).host);
        assert_eq!(since.host.is_some(), counted.contains("\noom_kill "));
    }
}
