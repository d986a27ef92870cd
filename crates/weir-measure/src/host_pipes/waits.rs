//! Which descriptors the threads of a process wait for.

use crate::attribution::calls::Call;
use crate::attribution::classify::set_of;
use weir_sys::Pid;
use weir_sys::proc::{
    Blocked, Descriptor, ProcContents, ProcDir, descriptor, kernel_function, tasks,
};

/// Most threads of a process that are looked at.
const MOST_TASKS: usize = 64;
/// Most waits of a set that are looked at.
const MOST_WAITS: usize = 128;

/// What the threads of a process wait for.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Descriptors, each with whether the wait is for room to write, and for nothing else.
    fds: Vec<(i32, bool, bool)>,
    /// Where the calls may not be seen: waits in the kernel's code for pipes, for room or for data.
    hidden: Vec<Option<bool>>,
}

impl Waits {
    /// Looks at all threads of a process.
    pub fn of(pid: Pid) -> Waits {
        let mut waits = Waits::default();
        for task in tasks(pid).into_iter().take(MOST_TASKS) {
            waits.add(pid, task);
        }
        waits
    }

    fn add(&mut self, pid: Pid, task: Pid) {
        match Blocked::of(ProcDir::Thread(pid, task)) {
            Some(Blocked::Call(number, args)) => {
                let set = set_of(pid, Call::decode(number, &args));
                let only = set.len() == 1;
                let set = set.into_iter().take(MOST_WAITS);
                self.fds.extend(set.map(|(fd, writes)| (fd, writes, only)));
            }
            Some(Blocked::Hidden) => {
                self.hidden.push(kernel_function(pid, task).as_deref().and_then(way));
            }
            _ => {}
        }
    }

    /// Whether a thread waits for this pipe in this direction, `None` where that may not be seen; and
    /// whether it waits for nothing else. `is_single` tells whether the process has no other pipe in this direction.
    pub fn on(
        &self,
        pid: Pid,
        pipe: &Descriptor,
        writes: bool,
        is_single: impl FnOnce() -> bool,
    ) -> (Option<bool>, bool) {
        let is = |(fd, way, only): &(i32, bool, bool)| {
            (*way == writes && descriptor(pid, *fd) == Some(*pipe)).then_some(*only)
        };
        if let Some(only) = self.fds.iter().filter_map(is).max() {
            return (Some(true), only);
        }
        if self.hidden.is_empty() {
            return (Some(false), false);
        }
        let waits = self.hidden.contains(&Some(writes)) && is_single();
        (waits.then_some(true), waits)
    }
}

/// Returns whether a function of the kernel waits for room in a pipe (`true`) or for data (`false`).
fn way(function: &str) -> Option<bool> {
    let function = function.strip_prefix("anon_").unwrap_or(function);
    match function {
        "pipe_read" => Some(false),
        "pipe_write" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_functions_tell_the_direction() {
        assert_eq!([way("pipe_read"), way("anon_pipe_read")], [Some(false); 2]);
        assert_eq!([way("pipe_write"), way("anon_pipe_write")], [Some(true); 2]);
        assert_eq!([way("do_wait"), way("")], [None; 2]);
    }

    #[test]
    fn a_hidden_wait_counts_where_there_is_one_pipe_only() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let pipe = Descriptor::of(&reader).expect("known");
        let waits = Waits { fds: Vec::new(), hidden: vec![None, Some(false)] };
        assert_eq!(waits.on(1, &pipe, false, || true), (Some(true), true));
        assert_eq!(waits.on(1, &pipe, false, || false), (None, false), "which pipe is not known");
        assert_eq!(
            waits.on(1, &pipe, true, || true),
            (None, false),
            "it may write by another thread"
        );
        assert_eq!(Waits::default().on(1, &pipe, true, || true), (Some(false), false));
    }
}
