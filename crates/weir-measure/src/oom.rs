//! Processes that the kernel killed because memory had run out.
//!
//! The kernel counts them for each control group (`memory.events`, or `memory.oom_control` of
//! version 1) and for the whole host (`/proc/vmstat`). It does not say to whoever looks from
//! outside which processes they were, so the difference over a run is evidence, not proof.

use weir_policy::ending::MemoryKills;

/// The counts now, since the control group was made and since the host was started.
pub fn kills() -> MemoryKills {
    MemoryKills { group: group_file().and_then(|file| count(&file)), host: count("/proc/vmstat") }
}

/// How many there were since `then`.
pub fn kills_since(then: MemoryKills) -> MemoryKills {
    let now = kills();
    let grown = |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?));
    MemoryKills { group: grown(then.group, now.group), host: grown(then.host, now.host) }
}

/// The file in which this process's control group counts, unless that is the group of all.
fn group_file() -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    file_of(&text).filter(|file| count(file).is_some())
}

/// From the lines `ID:CONTROLLERS:PATH` of `/proc/PID/cgroup`.
fn file_of(text: &str) -> Option<String> {
    let groups = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.split_once(':').filter(|(_, path)| *path != "/")
    });
    let files = groups.filter_map(|(controllers, path)| match controllers {
        "" => Some((1, format!("/sys/fs/cgroup{path}/memory.events"))),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            Some((0, format!("/sys/fs/cgroup/memory{path}/memory.oom_control")))
        }
        _ => None,
    });
    // A host with both has the memory controller in one of them: version 1 where it is named.
    files.min().map(|(_, file)| file)
}

/// The number behind `oom_kill` in a file of names and numbers.
fn count(file: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == "oom_kill")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_group_s_file_is_found_in_both_versions() {
        let two = "0::/user.slice/job\n";
        let file = file_of(two);
        assert_eq!(file.as_deref(), Some("/sys/fs/cgroup/user.slice/job/memory.events"));
        let one = "9:cpu,cpuacct:/a\n5:memory:/jobs/b\n0::/c\n";
        let file = file_of(one);
        assert_eq!(file.as_deref(), Some("/sys/fs/cgroup/memory/jobs/b/memory.oom_control"));
        for none in ["", "0::/\n", "5:memory:/\n", "nonsense", "1:cpu:/x\n"] {
            assert_eq!(file_of(none), None, "{none}");
        }
    }

    #[test]
    fn counts_grow_and_what_is_not_known_stays_so() {
        let then = MemoryKills { group: None, host: Some(0) };
        let since = kills_since(then);
        assert_eq!(since.group, None);
        assert_eq!(since.host, kills().host);
        let counted = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
        assert_eq!(since.host.is_some(), counted.contains("\noom_kill "));
    }
}
