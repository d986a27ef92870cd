//! The control groups of a process, of version 1 and of version 2.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::OnceLock;
use weir_sys::Pid;
use weir_sys::proc::{ControlGroups, Mount, Mounts, ProcDir};

/// Returns the directories of this process's control groups for a controller (`cpu`, `memory`): its
/// own group first, then those above it as far as they are mounted here. Where both versions are
/// mounted there are directories of both; only one has the controller's files. They are those of the
/// first call: counters of two times are compared, and must be the same group's.
pub fn directories(controller: &str) -> Vec<PathBuf> {
    own().map_or_else(Vec::new, |(mounts, groups)| directories_in(mounts, groups, controller))
}

/// Returns the mounts that this process sees, and its groups.
fn own() -> Option<&'static (Mounts, ControlGroups)> {
    static OWN: OnceLock<Option<(Mounts, ControlGroups)>> = OnceLock::new();
    let read = || Some((Mounts::of(ProcDir::This), ControlGroups::of(ProcDir::This)?));
    OWN.get_or_init(read).as_ref()
}

/// Returns another process's groups, if these are not all the same as this process's.
pub fn other_groups(pid: Pid) -> Option<ControlGroups> {
    ControlGroups::of(pid).filter(|groups| own().is_some_and(|own| own.1 != *groups))
}

/// Returns the directories for a controller of these groups, without those of this process's own
/// groups and those above.
pub fn apart(groups: &ControlGroups, controller: &str) -> Vec<PathBuf> {
    let own_directories = directories(controller);
    let mut found = own().map_or_else(Vec::new, |own| directories_in(&own.0, groups, controller));
    found.retain(|directory| !own_directories.contains(directory));
    found
}

/// Returns these directories of other processes as they are now, as far as they are mounted here.
pub fn directories_of_each(
    pids: impl Iterator<Item = Pid>,
    controller: &str,
) -> impl Iterator<Item = (Pid, Rc<[PathBuf]>)> {
    let mounts = Mounts::of(ProcDir::This);
    // Mostly they share a few groups.
    let mut known: HashMap<ControlGroups, Rc<[PathBuf]>> = HashMap::new();
    pids.filter_map(move |pid| {
        let groups = ControlGroups::of(pid)?;
        if !known.contains_key(&groups) {
            known.insert(groups.clone(), directories_in(&mounts, &groups, controller).into());
        }
        Some((pid, Rc::clone(known.get(&groups)?)))
    })
}

/// Returns these directories of one process.
pub fn directories_of(pid: Pid, controller: &str) -> Vec<PathBuf> {
    let found = directories_of_each(std::iter::once(pid), controller).next();
    found.map_or_else(Vec::new, |(_, directories)| directories.to_vec())
}

fn directories_in(mounts: &Mounts, groups: &ControlGroups, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (controllers, path) in groups.iter() {
        let second = controllers.is_empty();
        if !second && !has(controllers, controller) {
            continue;
        }
        let mut fitting = mounts.iter().filter(|mount| match second {
            true => mount.kind == "cgroup2",
            false => mount.kind == "cgroup" && has(mount.options, controller),
        });
        let Some(mount) = fitting.next() else { continue };
        let own = directory(&mount, path);
        let above = own.ancestors().take_while(|directory| directory.starts_with(&mount.point));
        found.extend(above.map(Path::to_owned));
    }
    found
}

fn has(list: &str, word: &str) -> bool {
    list.split(',').any(|entry| entry == word)
}

/// Returns where the group `path` lies below this mount. A container may see only a part of the
/// hierarchy: its mount starts at `root`, and everything above that is hidden.
fn directory(mount: &Mount, path: &str) -> PathBuf {
    let inside = match mount.root {
        "/" => Some(path),
        root => path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let parts = inside.unwrap_or("").split('/').filter(|part| !part.is_empty());
    // Dots stand for a group outside of the namespace's own.
    if parts.clone().any(|part| part == "..") {
        return mount.point.clone();
    }
    parts.fold(mount.point.clone(), |directory, part| directory.join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        23 1 0:28 / /sys rw shared:7 - sysfs sysfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 /jobs /cg\\040mem rw - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, controller: &str) -> Vec<String> {
        let directories = directories_in(&MOUNTS.into(), &groups.into(), controller);
        directories.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn version_1_and_version_2_lead_from_the_own_group_to_the_mount() {
        let groups = "4:memory:/jobs/one\n1:cpu,cpuacct:/a/b\n0::/user.slice\n";
        assert_eq!(
            found(groups, "cpu"),
            [
                "/sys/fs/cgroup/cpu/a/b",
                "/sys/fs/cgroup/cpu/a",
                "/sys/fs/cgroup/cpu",
                "/sys/fs/cgroup/unified/user.slice",
                "/sys/fs/cgroup/unified",
            ]
        );
    }

    #[test]
    fn mounts_are_found_by_type_and_controller() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found = |groups, controller| {
            directories_in(&mounts.into(), &ControlGroups::from(groups), controller)
        };
        let all = |place: &str| vec![PathBuf::from(place)];
        assert_eq!(found("4:memory:/\n", "memory"), all("/sys/fs/cgroup/memory"));
        assert_eq!(found("0::/\n", "memory"), all("/sys/fs/cgroup/unified"));
        assert_eq!(found("4:hugetlb:/\n", "hugetlb"), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_container_s_mount_starts_at_its_own_group() {
        assert_eq!(found("4:memory:/jobs/one\n", "memory"), ["/cg mem/one", "/cg mem"]);
        assert_eq!(found("4:memory:/jobs\n", "memory"), ["/cg mem"]);
        // A namespace shows what is elsewhere in the tree by dots, and a path may not fit at all.
        assert_eq!(found("4:memory:/jobsX/one\n", "memory"), ["/cg mem"]);
        assert_eq!(found("1:cpu:/../other\n", "cpu"), ["/sys/fs/cgroup/cpu"]);
    }

    #[test]
    fn nonsense_is_no_directory() {
        for groups in ["", "x", "1:cpu", "9:pids:/a\n"] {
            assert_eq!(found(groups, "cpu"), Vec::<String>::new(), "{groups}");
        }
        assert!(directories_in(&"1 2 3 - cgroup".into(), &"1:cpu:/\n".into(), "cpu").is_empty());
    }
}
