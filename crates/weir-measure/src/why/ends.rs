//! Waits for the ends of processes: of children, of those behind a pidfd, and of a child that has
//! its parent's memory until it starts a program.

use super::open;
use crate::bytes::long;
use crate::sys::memory::read_remote;
use weir_doctor::why::Cause;
use weir_sys::Pid;
use weir_sys::proc::{ProcContents, Status, behind_pidfd, children, children_of_thread, program};

/// The children for which a process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Any,
    /// The one with this id, in the pid namespace of the process.
    Id(Pid),
    /// Those of the group with this id there.
    Group(Pid),
    /// The one with this id, as it is known here.
    Known(Pid),
}

/// Returns the wait for a child, in `wait4` or `waitid`. A shell that has this process as a child
/// waits for the command that it runs, which is this one: the others are in its background.
pub fn child(pid: Pid, number: i64, args: &[u64; 6]) -> Cause {
    let which = Which::decode(pid, number, args);
    let mut children = children(pid);
    children.retain(|child| which.is(pid, *child));
    let looker = children.contains(&open::own());
    if looker {
        children.clear();
    }
    Cause::Child { children, looker }
}

impl Which {
    fn decode(pid: Pid, number: i64, args: &[u64; 6]) -> Which {
        let id = |at: usize| args[at] as u32 as Pid;
        let group = |id: Pid| match id {
            // That of the process itself.
            0 => {
                level(pid).and_then(|at| id_at(pid, "NSpgid", at)).map_or(Which::Any, Which::Group)
            }
            id => Which::Group(id),
        };
        if number == libc::SYS_waitid {
            return match args[0] as u32 {
                libc::P_PID => Which::Id(id(1)),
                libc::P_PGID => group(id(1)),
                libc::P_PIDFD => behind_pidfd(pid, id(1)).map_or(Which::Any, Which::Known),
                _ => Which::Any,
            };
        }
        match id(0) {
            -1 => Which::Any,
            one if one > 0 => Which::Id(one),
            other => group(other.saturating_neg()),
        }
    }

    fn is(self, pid: Pid, child: Pid) -> bool {
        // A kernel without pid namespaces shows no such lines.
        let seen = |name: &str| level(pid).and_then(|at| id_at(child, name, at));
        match self {
            Which::Any => true,
            Which::Known(known) => known == child,
            Which::Id(id) => seen("NSpid").unwrap_or(child) == id,
            Which::Group(id) => seen("NSpgid").is_none_or(|group| group == id),
        }
    }
}

/// Returns the wait for the end of any of these processes.
pub fn any(pid: Pid, of: Vec<Pid>) -> Option<Cause> {
    let looker = of.contains(&open::own());
    let own = children(pid);
    match of.as_slice() {
        [] => None,
        _ if looker => Some(Cause::Child { children: Vec::new(), looker }),
        all if all.iter().all(|one| own.contains(one)) => {
            Some(Cause::Child { children: of, looker })
        }
        _ => Some(Cause::Ends { of }),
    }
}

/// Returns the wait of a thread until its newest child starts a program or ends; `None` for a call
/// that starts a process in another way.
pub fn vfork(pid: Pid, task: Pid, number: i64, args: &[u64; 6]) -> Option<Cause> {
    if number == libc::SYS_clone3 {
        // struct clone_args begins with the flags.
        let mut flags = [0; 8];
        read_remote(pid, args[0], &mut flags).ok()?;
        (long(&flags, 0)? & libc::CLONE_VFORK as u64 != 0).then_some(())?;
    }
    // One that it adopted meanwhile comes later.
    let is = |id: &Pid| program(*id).is_some_and(|found| Some(found) == program(pid));
    Some(Cause::Vfork { child: children_of_thread(pid, task).into_iter().rev().find(is) })
}

/// Returns how many pid namespaces are between that of this process and that of process `id`; `None`
/// where the kernel does not tell.
pub fn level(id: Pid) -> Option<usize> {
    Status::of(id)?.ids("NSpid")?.count().checked_sub(1)
}

/// Returns the id of a process or a thread in the pid namespace of this level.
pub fn id_at(id: Pid, name: &str, level: usize) -> Option<Pid> {
    Status::of(id)?.ids(name)?.nth(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_of_who_looks_waits_for_no_other_child() {
        let parent = std::os::unix::process::parent_id() as Pid;
        let any = child(parent, libc::SYS_wait4, &[u64::MAX, 0, 0, 0, 0, 0]);
        assert_eq!(any, Cause::Child { children: Vec::new(), looker: true });
    }

    #[test]
    fn the_children_that_a_call_names_are_told_apart() {
        let me = std::process::id() as Pid;
        let which =
            |number, args: [u64; 2]| Which::decode(me, number, &[args[0], args[1], 0, 0, 0, 0]);
        let group = id_at(me, "NSpgid", level(me).expect("known")).expect("known");
        let minus = |id: i32| u64::from((-id) as u32);
        assert_eq!(which(libc::SYS_wait4, [u64::MAX, 0]), Which::Any);
        assert_eq!(which(libc::SYS_wait4, [7, 0]), Which::Id(7));
        assert_eq!(which(libc::SYS_wait4, [minus(7), 0]), Which::Group(7));
        assert_eq!(which(libc::SYS_wait4, [0, 0]), Which::Group(group));
        let [all, one, of_group] = [libc::P_ALL, libc::P_PID, libc::P_PGID].map(u64::from);
        assert_eq!(which(libc::SYS_waitid, [all, 0]), Which::Any);
        assert_eq!(which(libc::SYS_waitid, [one, 7]), Which::Id(7));
        assert_eq!(which(libc::SYS_waitid, [of_group, 7]), Which::Group(7));
        assert_eq!(which(libc::SYS_waitid, [of_group, 0]), Which::Group(group));
        assert!(Which::Group(group).is(me, me) && !Which::Group(group + 1).is(me, me));
        assert!(Which::Id(me).is(me, me) && !Which::Id(me + 1).is(me, me));
    }
}
